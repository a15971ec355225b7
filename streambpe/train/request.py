"""What `train` is asked to do, decided before anything is written.

resolve     the options, a model that is extended, how to count, and the sources, which are listed once
decide      what the RUN itself says to that: how it was counted, how the training was started
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streambpe.arguments import arguments
from streambpe.config import LIKE_COUNTING, UW_PATTERN, TrainConfig, must_lines
from streambpe.count_config import CountConfig, Counting
from streambpe.errors import ResumeMismatch, RunError, UsageError
from streambpe.model.alphabet import script_alphabet
from streambpe.model.eventlog import EventLog
from streambpe.plurals import some_of
from streambpe.resources import Resources
from streambpe.runners.ray import refuse_missing_engine
from streambpe.sources.find import from_anywhere, without_idle
from streambpe.sources.source import Source
from streambpe.store.counted_as import refuse_like, refuse_other_counting
from streambpe.store.groups import GroupRules
from streambpe.store.job import Job, read_jobs
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.training_files import check_name, journal_path, log_path
from streambpe.store.weights import check_weights
from streambpe.text.patterns import find_pattern
from streambpe.train.as_model import options_as, refuse_together, with_options
from streambpe.train.counting.count import CountRequest, ListedSources, decide_count, list_sources
from streambpe.train.disk_bound import refuse_too_little_disk
from streambpe.train.extension import Extension, refuse_too_little_memory
from streambpe.train.identity import refuse_half_counted, refuse_started_otherwise
from streambpe.train.joining import refuse_without_documents
from streambpe.train.must_haves import chunk_of
from streambpe.train.training import Goal, Training

if TYPE_CHECKING:
    from streambpe.train.balance_texts import BalanceTexts


@dataclass(frozen=True)
class Request:
    """A training, as its options say."""

    run: Run
    name: str
    like: str
    config: TrainConfig
    asked: Counting  # how to count, as the options say
    counting: Counting  # that, and what `like` and the training itself say
    given: Sequence[str | Source]
    found: ListedSources
    resources: Resources
    extension: Extension | None
    chosen: str  # what --superwords sets by itself, as options to be given

    def measured_on(self, texts: BalanceTexts) -> Request:
        """The same with texts that the groups are measured on."""
        config = replace(self.config, balanced_on=dict(texts.digests))
        config.check()
        return replace(self, config=config, counting=without_idle(self.counting, self.found.sources))

    def decide(self, training: Training, *, allow_partial: bool) -> CountRequest | None:
        """What is to be counted, if anything; an error if RUN has been counted, or the training started, otherwise."""
        run, sources = self.run, self.found.sources
        if run.state.exists():
            refuse_like(run, self.like, self.asked.options)
        if not self.given:
            refuse_other_counting(run, self.asked)
        counting = decide_count(run, self.found, self.counting, self.resources) if self.given else None
        how = counting.config if counting else CountConfig(**json.loads(run.facts()["config"]))
        refuse_without_documents(run, how, self.config)
        if self.counting.options.get("sequences"):
            refuse_too_little_disk(self.resources, sum(source.bytes for source in sources), self.config.superwords)
        if run.path.is_dir():
            if refuse_started_otherwise(training):
                _refuse_new_sources(training, sources)
            if not allow_partial:
                refuse_half_counted(training, {source.path for source in sources})
        return counting


def resolve(
    run: Run,
    given: Sequence[str | Source],
    options: Mapping[str, Any],
    *,
    name: str,
    like: str | None,
    as_model: str | os.PathLike[str] | EventLog | None,
    extend: str | os.PathLike[str] | EventLog | None,
    counting: Counting | Mapping[str, Any] | None,
    resources: Resources | None,
) -> Request:
    """The arguments of `train`; an error if they contradict each other, or the sources."""
    learning, asked, resources = arguments("train", options, counting, resources)
    refuse_together({"--as": as_model, "--extend": extend, "--like": like})
    if as_model is not None:
        learning, asked = with_options(options_as(as_model), learning, asked)
    extension = None
    if extend is not None:
        extension = Extension.of(extend)
        learning, asked = extension.options(learning, asked)
    before = taken_over(run, name, like)
    if extension is not None and before.get("extends") != learning["extends"]:  # it is refused: it is another training
        before = {}
    if extension is not None and "vocab_size" not in before | learning:
        raise UsageError(f"--extend {extension.name} needs --vocab-size N, the number of ids in all.")
    like = like or "hf"
    config = TrainConfig.from_options(like, before, **learning)
    if extension is not None:
        extension.refuse_other_specials(config)
        refuse_too_little_memory(resources, extension.name, len(extension.log.events))
    run.refuse_other_content("train", [source for source in given if isinstance(source, str)])
    if not given:
        run.refuse_missing()
    resources.check_superwords(config.superwords)
    refuse_missing_engine(resources.engine)
    how = counting_for(like, config, asked, run)
    if config.balance and resources.learner != "core":
        raise UsageError(
            f"--balance --learner {resources.learner}: only the core can balance. Nothing was changed. Leave "
            "--learner out."
        )
    found = list_sources(given, how, run)
    where = {text: place for place, text in must_lines(learning.get("must") or ())}
    _refuse_what_learning_would(run, config, found.sources, how, where, resources)
    chosen = []
    if how.options.get("pattern") == UW_PATTERN != asked.options.get("pattern"):
        chosen.append(f"--pattern {UW_PATTERN}")
    if config.transition is not None and "transition" not in before | learning:
        chosen.append(f"--transition {config.transition}")
    return Request(run, name, like, config, asked, how, given, found, resources, extension, " ".join(chosen))


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


def describe_job(
    given: Sequence[str | Source], counting: Counting, config: TrainConfig, resources: Resources, **more: Any
) -> Job:
    """What `resume` needs to know of a training. `more`: the fields of Job that have defaults."""
    return Job(
        sources=tuple(from_anywhere(source) for source in given if isinstance(source, str)),
        streams=tuple(source.path for source in given if not isinstance(source, str)),
        counting=counting,
        counted=not given,
        config=config,
        resources=resources.as_facts(),
        **more,
    )


def counting_for(like: str, config: TrainConfig, counting: Counting, run: Run | None = None) -> Counting:
    """How to count: as `like` says, unless something else is asked for.

    Superwords need the documents stored, and uw has a pattern of its own unless `run` is counted with another.
    """
    options = {**LIKE_COUNTING.get(like, {}), **counting.options}
    if config.superwords == "uw" and (run is None or not run.known_facts()):
        options = {"pattern": UW_PATTERN, **options}
    if config.superwords != "none":
        if options.get("sequences") is False:
            raise UsageError(f"--superwords {config.superwords} needs the documents; leave --no-sequences out.")
        options["sequences"] = True
    return replace(counting, options=options)


def _refuse_what_learning_would(
    run: Run, config: TrainConfig, found: Sequence[Source], counting: Counting, where: Mapping[str, str],
    resources: Resources,
) -> None:  # fmt: skip
    """Refuse now, before anything is written, what learning would refuse once everything is counted. `where`: the place
    of a must-have that stands in a file."""
    splits = CountConfig(**counting.options)
    splits.split_pattern()
    if config.alphabet == "script" or config.must:
        known = run.known_facts()
        splits = CountConfig(**json.loads(known["config"])) if known else splits
    if config.alphabet == "script":
        Goal.of(config, len(script_alphabet(splits.unencodable)), 0)
    for text in config.must:
        chunk_of(text, config, splits, where.get(text, ""))
    if config.superwords == "uw":
        find_pattern(config.stage2_pattern, gaps="keep", digits=splits.digits)
    if config.by_groups:
        rules, parts = GroupRules.from_options(counting.groups, counting.group_by), list_parts(run)
        new = [source for source in found if source.path not in parts.by_path]
        groups = {rules.group_of(source.path) if source.group is None else source.group for source in new}
        groups |= {part.group_name for part in parts}
        check_weights(run.path, sorted(groups), config)
        if config.balance:
            from streambpe.train.balancing import refuse_groups  # not above: most trainings do without

            refuse_groups(run.path, sorted(groups), config, resources)


def _refuse_new_sources(training: Training, found: Sequence[Source]) -> None:
    """A training that was started learns from the counts it was started with: none may be added to it."""
    complete = list_parts(training.run).by_path.complete
    new = [source.path for source in found if source.texts is None and source.path not in complete]
    if new:
        raise ResumeMismatch(
            f"{training}, was started without {some_of(new, 1)}. Nothing was changed. Learn from all of them as "
            "another training with --name NAME."
        )
