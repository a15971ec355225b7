"""What users call: train, train_from_iterator, resume. Each counts what is not counted yet, then learns."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from streambpe.arguments import split_arguments
from streambpe.config import LIKE_COUNTING, UW_PATTERN, TrainConfig
from streambpe.count_config import CountConfig, Counting
from streambpe.disk import disk_full_explained
from streambpe.errors import ResumeMismatch, RunError, Stopped, UsageError
from streambpe.failpoints import failpoint
from streambpe.files import content_of, put_content
from streambpe.model.alphabet import script_alphabet
from streambpe.model.eventlog import EventLog
from streambpe.progress import refuse_mode
from streambpe.resources import Resources
from streambpe.runners.ray import one_ray, refuse_missing_engine
from streambpe.sources.find import (
    Named,
    as_given,
    find_sources,
    from_anywhere,
    refuse_addresses,
    refuse_idle,
    without_idle,
)
from streambpe.sources.source import Source
from streambpe.store.chunks import range_bytes
from streambpe.store.counted_as import refuse_like, refuse_other_counting
from streambpe.store.database import waiting_for_tables
from streambpe.store.groups import GroupRules
from streambpe.store.identity import read_identity
from streambpe.store.job import Job, find_job, find_work, put_job, read_jobs, write_jobs
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.training_files import check_name, extended_path, journal_path, log_path
from streambpe.store.weights import check_weights
from streambpe.text.patterns import find_pattern
from streambpe.train.as_model import with_options_as
from streambpe.train.counting.count import count, resume_count
from streambpe.train.counting.job import CountResult
from streambpe.train.disk_bound import refuse_too_little_disk, source_bytes
from streambpe.train.engine.rules import Batch
from streambpe.train.extension import Extension, refuse_too_little_memory
from streambpe.train.identity import refuse_half_counted, refuse_started_otherwise
from streambpe.train.made_with import keep_options
from streambpe.train.trainer import CHECKPOINT_SECONDS, Trainer
from streambpe.train.training import Goal, Training, TrainResult

if TYPE_CHECKING:
    from streambpe.keywords import TrainKeywords
    from streambpe.train.balance_texts import BalanceTexts, Given


@one_ray()
def train(
    run: Path | str,
    sources: Named | Sequence[Named] = (),
    *,
    like: str | None = None,
    as_model: str | os.PathLike[str] | EventLog | None = None,
    extend: str | os.PathLike[str] | EventLog | None = None,
    balance_texts: Given = (),
    name: str = "main",
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
    **options: Unpack[TrainKeywords],
) -> TrainResult:
    """Count the sources (if any are named) and learn a vocabulary; go on where a stop or a kill left it.

        train("runs/en", ["corpus/"], vocab_size=32_000, pattern="gpt4", lines=True, memory="2GB")

    `options`: those of the command line (arguments.py), on top of what `like` sets. `counting`, `resources`: the same
    as objects. `as_model`: options that are not given are those of this model, whose merges are not taken
    (as_model.py). `extend`: the vocabulary begins with that of this model, and vocab_size is larger (extension.py).
    `balance_texts`: by group, or as GROUP=FILE each, what the groups are measured on (balance_texts.py). A training
    that was started has the options it was started with where others are not given; only a larger vocab_size may be.
    `allow_partial`: learn even if other sources that were given to the run are not counted to their end.
    """
    refuse_mode(progress)
    sources = as_given(sources)
    learning, asked, resources = split_arguments(options, counting, resources)
    if as_model is not None:
        if like is not None:
            raise UsageError("as_model and like: each sets what is not given. Leave one of the two out.")
        learning, asked = with_options_as(as_model, learning, asked)
    extension = None
    if extend is not None:
        if like is not None or as_model is not None:
            raise UsageError("extend sets all that like and as_model set. Leave the other out.")
        extension = Extension.of(extend)
        learning, asked = extension.options(learning, asked)
    before = taken_over(Run(run), name, like)
    if extension is not None and before.get("extends") != learning["extends"]:  # it is refused: it is another training
        before = {}
    if extension is not None and "vocab_size" not in before | learning:
        raise UsageError(f"--extend {extension.name} needs --vocab-size N: the ids that there are to be in all.")
    like = like or "hf"
    config = TrainConfig.from_options(like, before, **learning)
    check_name(name)
    if extension is not None:
        extension.refuse_other_specials(config)
        refuse_too_little_memory(resources, extension.name, len(extension.log.events))
    folder = Run(run)
    folder.refuse_other_content("train", [source for source in sources if isinstance(source, str)])
    if not sources:
        folder.refuse_missing()
    resources.check_superwords(config.superwords)
    refuse_addresses(sources)
    refuse_missing_engine(resources.engine)
    counting = counting_for(like, config, asked, folder)
    if config.balance and resources.learner != "core":
        raise UsageError(
            f"--balance --learner {resources.learner}: only the core balances. Nothing was changed. Drop --learner."
        )
    if balance_texts and not config.balance:
        raise UsageError("--balance-text belongs to --balance.")
    _refuse_what_learning_would(folder, config, sources, counting)
    with _balance_texts(folder, balance_texts, counting, resources) as texts:
        if texts is not None:
            config = replace(config, balanced_on=dict(texts.digests))
            config.check()
            counting = without_idle(counting, _find(sources, counting))
        job = describe_job(sources, counting, config, resources, checkpoint_seconds, allow_partial)
        trainer = _trainer_of(job, folder, name, resources, progress, stop, on_batch)
        new = not folder.path.is_dir()
        named = [source for source in sources if isinstance(source, str)]
        if sources and not named:
            refuse_idle([source for source in sources if isinstance(source, Source)], counting)
        if named and (new or counting.options.get("sequences")):  # what cannot be found leaves no RUN behind
            found = find_sources(named, counting)[0]
            if counting.options.get("sequences"):
                refuse_too_little_disk(resources, source_bytes(found), config.superwords)
        with folder.lock(), disk_full_explained(folder.path), waiting_for_tables(trainer.stop):
            if folder.state.exists():
                refuse_like(folder, like, asked.options)
            if not sources:
                refuse_other_counting(folder, asked)
            if not new:
                _refuse_before_counting(trainer, sources, counting)
            contents = {path: content_of(path) for path in (extended_path(folder, name), folder.status_file)}
            if extension is not None:
                extension.keep(folder, name)
            extension = None  # it is read again from there
            if texts is not None:
                contents |= dict.fromkeys(texts.keep(folder, range_bytes(resources)))
            jobs_before = put_job(folder, name, job)
            failpoint("job-written")
            try:
                return _count_and_learn(trainer, job, sources)
            except UsageError:
                write_jobs(folder, jobs_before)  # `resume` must not go on with what was refused
                for path, content in contents.items():
                    put_content(path, content)
                raise


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


@one_ray()
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
    refuse_missing_engine(resources.engine)
    if not job.counted and job.streams:
        raise RunError(
            f"{folder.path} was counting {job.streams[0]}, which only its program can give again: call "
            f"train_from_iterator as before and it goes on. Nothing was changed."
        )
    trainer = _trainer_of(job, folder, name, resources, progress, stop)
    with folder.lock(), waiting_for_tables(trainer.stop):
        return _count_and_learn(trainer, job, job.sources)


def _trainer_of(
    job: Job,
    run: Run,
    name: str,
    resources: Resources,
    progress: str,
    stop: threading.Event | None,
    on_batch: Callable[[Batch], None] | None = None,
) -> Trainer:
    return Trainer(
        run,
        job.config,
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        on_batch=on_batch,
        checkpoint_seconds=job.checkpoint_seconds,
        allow_partial=job.allow_partial,
    )


def _count_and_learn(trainer: Trainer, job: Job, sources: Sequence[str | Source]) -> TrainResult:
    """Count what is not counted yet, then learn. Locked by the caller."""
    run, name = trainer.training.run, trainer.training.name
    warnings = () if job.counted else _count(trainer, job, sources)
    run.refuse_missing()
    result = trainer.run()
    if result.folded:
        keep_options(run, name, job.config, job.counting)
    return replace(result, warnings=(*warnings, *result.warnings))


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
        sources=tuple(from_anywhere(source) for source in sources if isinstance(source, str)),
        streams=tuple(source.path for source in sources if not isinstance(source, str)),
        counting=counting,
        counted=not sources,
        config=config,
        resources=resources.as_facts(),
        checkpoint_seconds=checkpoint_seconds,
        allow_partial=allow_partial,
    )


def counting_for(like: str, config: TrainConfig, counting: Counting, run: Run | None = None) -> Counting:
    """How to count: as `like` says, unless something else is asked for.

    Superwords need the documents stored, and uw has a pattern of its own unless `run` is counted with another.
    """
    options = {**LIKE_COUNTING.get(like, {}), **counting.options}
    if config.superwords == "uw" and (run is None or not (run.state.exists() or run.facts_kept())):
        options = {"pattern": UW_PATTERN, **options}
    if config.superwords != "none":
        if options.get("sequences") is False:
            raise UsageError(f"--superwords {config.superwords} needs the documents; leave --no-sequences out.")
        options["sequences"] = True
    return replace(counting, options=options)


def superwords_told(run: Run, like: str | None, asked: Mapping[str, Any], counting: Counting) -> str:
    """What --superwords sets by itself, as options to be given; nothing where all of it is given."""
    config = TrainConfig.from_options(like or "hf", **asked)
    found = []
    pattern = counting_for(like or "hf", config, counting, run).options.get("pattern")
    if pattern != counting.options.get("pattern") and pattern == UW_PATTERN:
        found.append(f"--pattern {pattern}")
    if config.transition is not None and asked.get("transition") is None:
        found.append(f"--transition {config.transition}")
    return " ".join(found)


def _refuse_what_learning_would(
    run: Run, config: TrainConfig, sources: Sequence[str | Source], counting: Counting
) -> None:
    """Refuse now, before anything is written, what learning would refuse once everything is counted."""
    if config.alphabet == "script":
        known = read_identity(run.path)
        how = json.loads(known.facts["config"]) if known and known.facts else counting.options
        Goal.of(config, len(script_alphabet(how.get("unencodable", CountConfig.unencodable))), 0)
    if "pattern" in counting.options:
        find_pattern(counting.options["pattern"], gaps=counting.options.get("gaps", CountConfig.gaps))
    if config.weights or config.balance:
        rules, parts = GroupRules.from_options(counting.groups, counting.group_by), list_parts(run)
        new = [source for source in _find(sources, counting) if source.path not in parts.by_path]
        groups = {rules.group_of(source.path) if source.group is None else source.group for source in new}
        groups |= {part.group_name for part in parts}
        check_weights(run.path, sorted(groups), config.weights)
        if config.balance:
            from streambpe.train.balancing import refuse_groups  # not above: most trainings do without

            refuse_groups(run.path, sorted(groups), config)


def _balance_texts(
    run: Run, given: Given, counting: Counting, resources: Resources
) -> contextlib.AbstractContextManager[BalanceTexts | None]:
    """What the groups are measured on, counted."""
    if not given:
        return contextlib.nullcontext()
    from streambpe.train.balance_texts import counted_texts  # not above: most trainings do without

    return counted_texts(run, given, counting, resources)


def _refuse_before_counting(trainer: Trainer, sources: Sequence[str | Source], counting: Counting) -> None:
    """Refuse now what would otherwise be refused only after the sources are counted."""
    found = _find(sources, counting)
    if found:
        refuse_idle(found, counting)
    if refuse_started_otherwise(trainer.training):
        _refuse_new_sources(trainer.training, [source.path for source in found if source.texts is None])
    if not trainer.allow_partial:
        refuse_half_counted(trainer.training, {source.path for source in found})


def _find(sources: Sequence[str | Source], counting: Counting) -> list[Source]:
    """The sources that are named, and those that are given."""
    named = [source for source in sources if isinstance(source, str)]
    found = find_sources(named, counting, in_part=True)[0] if named else []
    return found + [source for source in sources if isinstance(source, Source)]


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


def _count(trainer: Trainer, job: Job, sources: Sequence[str | Source]) -> tuple[str, ...]:
    """Do the counting of a training, and note when it is complete; returns the warnings."""
    training, run, how = trainer.training, trainer.training.run, vars(job.counting)
    try:
        result = count(run, sources, resources=training.resources, progress=trainer.progress, stop=trainer.stop, **how)
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
