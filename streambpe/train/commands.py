"""What users call: train, train_from_iterator, resume. Each counts what is not counted yet, then learns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from streambpe.arguments import TrainArguments, split_arguments
from streambpe.config import LIKE_COUNTING, TrainConfig
from streambpe.count_config import Counting, CountOptions
from streambpe.disk import disk_full_explained
from streambpe.errors import ResumeMismatch, RunError, Stopped, UsageError
from streambpe.failpoints import failpoint
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.source import Source
from streambpe.store.counted_as import refuse_like, refuse_other_counting
from streambpe.store.database import waiting_for_tables
from streambpe.store.job import Job, find_job, find_work, put_job, read_jobs, write_jobs
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.training_files import check_name, journal_path, log_path
from streambpe.train.counting.count import count, resume_count
from streambpe.train.counting.job import CountResult
from streambpe.train.disk_bound import refuse_too_little_disk, source_bytes
from streambpe.train.engine.engine import Batch
from streambpe.train.identity import refuse_started_otherwise
from streambpe.train.made_with import keep_options
from streambpe.train.trainer import CHECKPOINT_SECONDS, Trainer
from streambpe.train.training import Training, TrainResult


def train(
    run: Path | str,
    sources: Sequence[str | Source] = (),
    *,
    like: str | None = None,
    name: str = "main",
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
    **options: Unpack[TrainArguments],
) -> TrainResult:
    """Count the sources (if any are named) and learn a vocabulary; go on where a stop or a kill left it.

        train("runs/en", ["corpus/"], vocab_size=32_000, pattern="gpt4", lines=True, memory="2GB")

    `options`: those of the command line (arguments.py), on top of what `like` sets. `counting`, `resources`: the same
    as objects. A training that was started has the options it was started with where others are not given; only a
    larger vocab_size may be. `allow_partial`: learn even if other sources that were given to the run are not counted
    to their end.
    """
    learning, asked, resources = split_arguments(options, counting, resources)
    learning = taken_over(Run(run), name, like) | learning
    like = like or "hf"
    config = TrainConfig.from_options(like, **learning)
    check_name(name)
    folder = Run(run)
    folder.refuse_other_content("train", [source for source in sources if isinstance(source, str)])
    if not sources:
        folder.refuse_missing()
    resources.check_superwords(config.superwords)
    counting = counting_for(like, config, asked)
    trainer = Trainer(
        folder,
        config,
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        on_batch=on_batch,
        checkpoint_seconds=checkpoint_seconds,
        allow_partial=allow_partial,
    )
    if counting.options.get("sequences"):
        named = find_sources([source for source in sources if isinstance(source, str)], counting)[0]
        refuse_too_little_disk(resources, source_bytes(named), config.superwords)
    new = not folder.path.is_dir()
    with folder.lock(), disk_full_explained(folder.path), waiting_for_tables(trainer.stop):
        if folder.state.exists():
            refuse_like(folder, like, asked.options)
        if not sources:
            refuse_other_counting(folder, asked)
        if not new:
            _refuse_before_counting(trainer, sources, counting)
        job = describe_job(sources, counting, config, resources, checkpoint_seconds, allow_partial)
        before = put_job(folder, name, job)
        failpoint("job-written")
        try:
            warnings = _count(trainer.training, job, sources, progress, stop) if sources else ()
            result = trainer.run()
            result = replace(result, warnings=(*warnings, *result.warnings))
        except UsageError:
            write_jobs(folder, before)  # `resume` must not go on with what was refused
            raise
        if result.folded:
            keep_options(folder, name, config, counting)
    return result


def taken_over(run: Run, name: str, like: str | None) -> dict[str, Any]:
    """The options that a training was started with, which stand for those that are not given now: it may only grow.

    With --like all of them are said anew, and those that differ from before are refused.
    """
    check_name(name)
    if like is not None or not (journal_path(run, name).exists() or log_path(run, name).exists()):
        return {}
    with contextlib.suppress(RunError):  # a lost or damaged record is told when it is to be replaced
        job = read_jobs(run).trainings.get(name)
        if job is not None:
            return job.config.as_options()
    return {}


def train_from_iterator(
    run: Path | str, texts: Iterable[str], *, source_name: str = "iterator", **arguments: Any
) -> TrainResult:
    """Like `train`, but over Python strings, each a document; call it again after a stop and it goes on."""
    return train(run, [Source(source_name, "iterator", texts=texts)], **arguments)


def resume(
    run: Path | str,
    *,
    name: str | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> TrainResult | CountResult:
    """Go on with the last `train` or `count` of a run, or with the training called `name`, wherever it was stopped or
    killed.

    Without `resources` it uses those it had before.
    """
    folder = Run(run)
    name, before = find_work(folder, name)
    if resources is None and before:
        resources = Resources.from_facts(before)
    if name is None:
        return resume_count(folder.path, resources=resources, progress=progress, stop=stop)
    name, job = find_job(folder, name)
    resources = resources or Resources.from_options()
    resources.check_superwords(job.config.superwords)
    if not job.counted and job.streams:
        raise RunError(
            f"{folder.path} was counting {job.streams[0]}, which only its program can give again: call "
            f"train_from_iterator as before and it goes on. Nothing was changed."
        )
    trainer = Trainer(
        folder,
        job.config,
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        checkpoint_seconds=job.checkpoint_seconds,
        allow_partial=bool(job.allow_partial),
    )
    with folder.lock(), waiting_for_tables(trainer.stop):
        warnings = () if job.counted else _count(trainer.training, job, job.sources, progress, stop)
        folder.refuse_missing()
        result = trainer.run()
        result = replace(result, warnings=(*warnings, *result.warnings))
        if result.folded:
            keep_options(folder, name, job.config, job.counting)
    return result


def describe_job(
    sources: Sequence[str | Source],
    counting: Counting,
    config: TrainConfig,
    resources: Resources,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
) -> Job:
    """What `resume` needs to know of a training."""
    return Job(
        sources=tuple(source for source in sources if isinstance(source, str)),
        streams=tuple(source.path for source in sources if not isinstance(source, str)),
        counting=counting,
        counted=not sources,
        config=config,
        resources=resources.as_facts(),
        checkpoint_seconds=checkpoint_seconds,
        allow_partial=allow_partial,
    )


def counting_for(like: str, config: TrainConfig, counting: Counting) -> Counting:
    """How to count: as `like` says, unless something else is asked for. Superwords need the documents stored."""
    options: CountOptions = {**LIKE_COUNTING.get(like, {}), **counting.options}
    if config.superwords != "none":
        if options.get("sequences") is False:
            raise UsageError(f"--superwords {config.superwords} needs the documents; leave --no-sequences out.")
        options["sequences"] = True
    return replace(counting, options=options)


def _refuse_before_counting(trainer: Trainer, sources: Sequence[str | Source], counting: Counting) -> None:
    """Refuse now what would otherwise be refused only after the sources are counted."""
    found = _find_named([source for source in sources if isinstance(source, str)], counting)
    if refuse_started_otherwise(trainer.training):
        _refuse_new_sources(trainer.training, found)
    trainer.refuse_half_counted({*found, *(source.path for source in sources if isinstance(source, Source))})


def _find_named(sources: Sequence[str], counting: Counting) -> list[str]:
    """The paths of the sources that are named."""
    return [source.path for source in find_sources(list(sources), counting)[0]] if sources else []


def _refuse_new_sources(training: Training, found: Sequence[str]) -> None:
    """A training that was started learns from the counts it was started with: none may be added to it."""
    complete = list_parts(training.run).by_path.complete
    new = [path for path in found if path not in complete]
    if new:
        raise ResumeMismatch(
            f"{training}, was started without {new[0]}"
            + (f" and {len(new) - 1} more sources" if len(new) > 1 else "")
            + ". Nothing was changed. Learn from all of them beside it with --name NAME."
        )


def _count(
    training: Training,
    job: Job,
    sources: Sequence[str | Source],
    progress: str,
    stop: threading.Event | None,
) -> tuple[str, ...]:
    """Do the counting of a training, and note when it is complete; returns the warnings."""
    run = training.run
    try:
        how = job.counting.as_arguments()
        result = count(run, sources, resources=training.resources, progress=progress, stop=stop, **how)
    except Stopped as stopped:
        command = training.resume_command
        if job.streams:
            command = "the same call of train_from_iterator"
        raise Stopped(
            f"Stopped; everything counted so far is kept in {run.path}. Go on with: {command}",
            stopped.signal_number,
        ) from None
    write_jobs(run, read_jobs(run).including(training.name, replace(job, counted=True)))
    return result.warnings
