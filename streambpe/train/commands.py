"""What users call: train, train_from_iterator, resume. Each counts what is not counted yet, then learns."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import structs

from streambpe.arguments import arguments as given_arguments
from streambpe.count_config import Counting
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, UsageError
from streambpe.failpoints import failpoint
from streambpe.files import content_of, put_content
from streambpe.model.eventlog import EventLog
from streambpe.options import several
from streambpe.progress import refuse_mode
from streambpe.resources import Resources
from streambpe.runners.ray import one_ray, refuse_missing_engine
from streambpe.sources.find import Named, as_given
from streambpe.sources.source import Source
from streambpe.store.chunks import range_bytes
from streambpe.store.database import waiting_for_tables
from streambpe.store.job import CHECKPOINT_SECONDS, Job, find_job, find_work, put_job, write_jobs
from streambpe.store.run import Run
from streambpe.store.training_files import extended_path
from streambpe.train.counting.count import CountRequest, count_decided, decide_count, list_sources, resume_count
from streambpe.train.counting.job import CountResult
from streambpe.train.engine.rules import Batch
from streambpe.train.made_with import keep_options
from streambpe.train.request import Request, describe_job, resolve
from streambpe.train.trainer import Trainer
from streambpe.train.training import Training, TrainResult

if TYPE_CHECKING:
    from streambpe.keywords import JobKeywords, TrainKeywords
    from streambpe.train.balance_texts import BalanceTexts, Given


@one_ray()
def train(
    run: Path | str,
    sources: Named | Sequence[Named] = (),
    *,
    like: str | None = None,
    as_model: str | os.PathLike[str] | EventLog | None = None,
    extend: str | os.PathLike[str] | EventLog | None = None,
    balance_text: Given = (),
    until_bytes_per_token: float | str | None = None,
    text: str | Sequence[str] = (),
    name: str = "main",
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    on_request: Callable[[Request], None] = lambda request: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
    **options: Unpack[TrainKeywords],
) -> TrainResult:
    """Count the sources (if any are named) and learn a vocabulary; go on where a stop or a kill left it.

        train("runs/en", ["corpus/"], vocab_size=32_000, pattern="gpt4", lines=True, memory="2GB")

    `options`: those of the command line (arguments.py), on top of what `like` sets. `counting`, `resources`: the same
    as objects. `as_model`: options that are not given are those of this model, whose merges are not taken
    (as_model.py). `extend`: the vocabulary begins with that of this model, and vocab_size is larger (extension.py).
    `balance_text`: by group, or as GROUP=FILE each, what the groups are measured on (balance_texts.py).
    `until_bytes_per_token`: stop at the smallest size at which `text` has so many (until.py). A training
    that was started has the options it was started with where others are not given; only a larger vocab_size may be.
    `allow_partial`: learn even if other sources that were given to the run are not counted to their end.
    `on_request` is told what was decided from all of that, before anything is written.
    """
    refuse_mode(progress)
    folder, stop = Run(run), stop or threading.Event()
    request = resolve(
        folder, as_given(sources), options, name=name, like=like, as_model=as_model, extend=extend, counting=counting,
        resources=resources,
    )  # fmt: skip
    until: tuple[str, ...] = ()
    if text or until_bytes_per_token is not None:
        from streambpe.train.until import wanted_until  # not above: most trainings do without

        until = wanted_until(until_bytes_per_token, several(text), request.config, request.counting)
    on_request(request)
    with waiting_for_tables(stop), folder.lock_if_there(), _balance_texts(request, balance_text) as texts:
        if texts is not None:
            request = request.measured_on(texts)
        job = describe_job(
            request.given, request.counting, request.config, request.resources,
            checkpoint_seconds=checkpoint_seconds, allow_partial=allow_partial, until=until,
        )  # fmt: skip
        training = Training(folder, request.config, name, request.resources)
        decided = request.decide(training, allow_partial=allow_partial)
        with folder.lock(), disk_full_explained(folder.path):
            if decided is not None and folder.known_facts() != decided.facts:  # another command made the RUN meanwhile
                decided = request.decide(training, allow_partial=allow_partial)
            status = content_of(folder.status_file)
            if request.extension is not None:
                put_content(extended_path(folder, name), request.extension.lines)
            new = [] if texts is None else texts.keep(folder, range_bytes(request.resources))
            jobs_before = put_job(folder, name, job)
            failpoint("job-written")
            try:
                return _count_and_learn(training, job, decided, progress, stop, on_batch)
            except UsageError:
                write_jobs(folder, jobs_before)  # `resume` must not go on with what was refused
                put_content(folder.status_file, status)
                for path in new:
                    path.unlink(missing_ok=True)
                raise


def train_from_iterator(
    run: Path | str, texts: Iterable[str], *, source_name: str = "iterator", **arguments: Any
) -> TrainResult:
    """Like `train`, but over Python strings, each a document; call it again after a stop and it goes on."""
    return train(run, [Source(source_name, "iterator", texts=texts)], **arguments)


@one_ray()
def resume(
    run: Path | str,
    *,
    name: str | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    **limits: Unpack[JobKeywords],
) -> TrainResult | CountResult:
    """Go on with the last `train` or `count` of a run, or with the training called `name`, wherever it was stopped or
    killed.

    It uses the resources it had before, except for those that are given.
    """
    folder = Run(run)
    name, before = find_work(folder, name)
    resources = given_arguments("resume", limits, None, resources, before).resources
    if name is None:
        return resume_count(folder.path, resources=resources, progress=progress, stop=stop)
    name, job = find_job(folder, name)
    resources.check_superwords(job.config.superwords)
    refuse_missing_engine(resources.engine)
    if not job.counted and job.streams:
        raise RunError(
            f"{folder.path} was counting {job.streams[0]}, which only its program can give again: call "
            "train_from_iterator as before to continue. Nothing was changed."
        )
    training, stop = Training(folder, job.config, name, resources), stop or threading.Event()
    with folder.lock(), disk_full_explained(folder.path), waiting_for_tables(stop):
        decided = None
        if not job.counted:
            decided = decide_count(folder, list_sources(job.sources, job.counting, folder), job.counting, resources)
        return _count_and_learn(training, job, decided, progress, stop)


def _count_and_learn(
    training: Training, job: Job, decided: CountRequest | None, progress: str, stop: threading.Event,
    on_batch: Callable[[Batch], None] | None = None,
) -> TrainResult:  # fmt: skip
    """Count what is to be counted, if anything, then learn. Locked by the caller."""
    run, name = training.run, training.name
    warnings: tuple[str, ...] = ()
    if decided is not None:
        warnings = count_decided(run, decided, training.resources, progress, stop).warnings
        put_job(run, name, structs.replace(job, counted=True))
    run.refuse_missing()
    trainer = Trainer(
        training, progress=progress, stop=stop, on_batch=on_batch, checkpoint_seconds=job.checkpoint_seconds,
        allow_partial=job.allow_partial, until=job.until,
    )  # fmt: skip
    result = trainer.run()
    if job.until:  # from here on it is a training of this size
        put_job(run, name, structs.replace(job, counted=True, config=trainer.training.config, until=()))
    if result.folded:
        keep_options(run, name, trainer.training.config, job.counting)
    return replace(result, warnings=(*warnings, *result.warnings))


def _balance_texts(request: Request, given: Given) -> contextlib.AbstractContextManager[BalanceTexts | None]:
    """What the groups are measured on, counted."""
    if not given:
        return contextlib.nullcontext()
    if not request.config.balance:
        raise UsageError("--balance-text belongs to --balance.")
    from streambpe.train.balance_texts import counted_texts, parse_texts  # not above: most trainings do without

    return counted_texts(request.run, parse_texts(given), request.counting, request.resources)
