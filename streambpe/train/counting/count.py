"""The calls behind `streambpe count`: count sources into a run, go on with a stopped count, count strings."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from streambpe.arguments import arguments as given_arguments
from streambpe.count_config import CountConfig, Counting, reconcile
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, RunMismatch, UsageError, typed
from streambpe.progress import Meter, Reporter, refuse_mode
from streambpe.resources import Resources
from streambpe.sources.find import (
    Named,
    as_given,
    find_sources,
    refuse_idle,
    refuse_names_that_are_no_text,
)
from streambpe.sources.samples import FileSample, refuse_streams
from streambpe.sources.source import Source
from streambpe.sources.stretches import refuse_engine
from streambpe.store.chunks import fold, is_edited
from streambpe.store.counted_as import may_skip_from_now_on, refuse_other_counting
from streambpe.store.database import waiting_for_tables
from streambpe.store.groups import GroupRules
from streambpe.store.parts import list_parts
from streambpe.store.run import Run, program_versions
from streambpe.store.unfinished import (
    Left,
    Watch,
    left_to_count,
    note_lost,
    read_record,
    refuse_leaving,
    source_of,
)
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import refuse_other_tables
from streambpe.text.unicode_tables import tables_fact
from streambpe.train.counting.job import CountJob, CountResult
from streambpe.train.counting.take_back import take_back
from streambpe.train.counting.todo import refuse_given_otherwise
from streambpe.train.disk_bound import refuse_too_little_disk

if TYPE_CHECKING:
    from streambpe.keywords import CountKeywords


def count(
    run: Run | Path | str,
    sources: Named | Sequence[Named],
    *,
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    **arguments: Unpack[CountKeywords],
) -> CountResult:
    """Count sources into a run; those counted before are skipped, a stopped count goes on.

        count("runs/en", ["corpus/"], pattern="gpt4", lines=True, memory="2GB")

    `arguments`: those of the command line (arguments.py); a missing one is the run's own, or the default. `counting`
    and `resources`: the same as objects. Without sources the tables are filled again from what
    is counted, and options may only say how that was counted. `counts`: the sources are count tables. `group`
    (NAME=GLOB each) and `group_by` ("folder") keep the counts of groups of sources apart (store/groups.py). Setting
    `stop` commits and raises Stopped.
    """
    refuse_mode(progress)
    folder, given = run if isinstance(run, Run) else Run(run), as_given(sources)
    _, asked, resources = given_arguments("count", arguments, counting, resources)
    folder.refuse_other_content("count", [source for source in given if isinstance(source, str)])
    if not given and folder.state.exists():
        refuse_leaving(folder)
        refuse_other_counting(folder, asked)
        return _fold_again(folder, resources, progress)
    stop = stop or threading.Event()
    with waiting_for_tables(stop), folder.lock_if_there():
        found = list_sources(given, asked, folder)
        request = decide_count(folder, found, asked, resources)
        with folder.lock(), disk_full_explained(folder.path):
            if folder.known_facts() != request.facts:  # another command made the RUN meanwhile
                request = decide_count(folder, found, asked, resources)
            return count_decided(folder, request, resources, progress, stop)


class ListedSources(msgspec.Struct, frozen=True):
    """The inputs behind the names that were given."""

    sources: list[Source]
    warnings: list[str]
    sample: FileSample


class CountRequest(msgspec.Struct, frozen=True):
    """A count, decided: what is counted, and how."""

    found: ListedSources
    config: CountConfig
    pattern: Pattern
    facts: dict[str, str]  # table run as it was; empty for a new run


def list_sources(given: Sequence[str | Source], asked: Counting, run: Run) -> ListedSources:
    """List the sources; of files that are named, those in the sample that is asked for or that the run has."""
    named = [source for source in given if isinstance(source, str)]
    how = json.loads((run.known_facts() if given else {}).get("config", "{}")) | asked.options
    sample = FileSample(how.get("sample_files", "all"), how.get("seed", 0))
    found, warnings = find_sources(named, asked, in_part=True, sample=sample) if named else ([], [])
    return ListedSources(found + [source for source in given if isinstance(source, Source)], warnings, sample)


def decide_count(folder: Run, found: ListedSources, asked: Counting, resources: Resources) -> CountRequest:
    """What a count of these sources is to do; an error if it may not be done. Nothing is written."""
    if folder.state.exists():
        refuse_leaving(folder)
    sources, warnings = found.sources, list(found.warnings)
    if not sources:
        raise UsageError("Nothing to count: name at least one SOURCE.")
    rules = GroupRules.from_options(asked.groups, asked.group_by)
    if found.sample.share == "all":
        refuse_idle(sources, asked)
    refuse_names_that_are_no_text(sources)
    refuse_engine(sources, resources)
    if "bad_utf8" in asked.options:
        sources = [replace(source, any_bytes=True) for source in sources]
    if rules:
        sources = [replace(s, group=rules.group_of(s.path)) if s.group is None else s for s in sources]
    unused = [name for name, _ in rules.rules if name not in {source.group for source in sources}]
    warnings += [f"--group {name}: no source is in it." for name in dict.fromkeys(unused)]
    facts = folder.known_facts()
    if facts:
        saved = json.loads(facts["config"])
        if asked.options.get("bad_lines") == "skip" and may_skip_from_now_on(folder, saved):
            saved["bad_lines"] = "skip"
        config = reconcile(saved, asked.options, folder.path)
    else:
        config = CountConfig(**asked.options)
    refuse_other_tables(config.normalize)
    pattern = config.split_pattern(resources.document_seconds)
    if asked.stdin_name != "-" and not any(source.is_stdin for source in sources):
        raise UsageError(f"--stdin-name {asked.stdin_name} names standard input, but `-` is not among the sources.")
    if asked.counts and asked.options.get("bad_lines") == "skip":
        raise UsageError("--bad-lines skip leaves out lines of text, but rows of a count table are never left out.")
    if asked.counts and config.sequences:
        raise UsageError("--sequences needs documents, which count tables do not have.")
    refuse_streams(sources, config)
    if (found.sample.share, found.sample.seed) != (config.sample_files, config.seed):
        raise RunMismatch(
            f"{folder.path} was made by another command just now, with --sample-files {config.sample_files} --seed "
            f"{config.seed}. Nothing was changed. Give the command again."
        )
    refuse_given_otherwise(sources, list_parts(folder))
    if config.sequences:
        refuse_too_little_disk(resources, sum(source.bytes for source in sources), "none")
    return CountRequest(ListedSources(sources, warnings, found.sample), config, pattern, facts)


def count_decided(
    folder: Run, request: CountRequest, resources: Resources, progress: str, stop: threading.Event
) -> CountResult:
    """Count what was decided. Locked by the caller."""
    facts, how, warnings = request.facts, request.config, list(request.found.warnings)
    made_with = facts or {"versions": json.dumps(program_versions()), **tables_fact(request.pattern)}
    if not folder.state.exists():
        list_parts(folder)  # strangers among them are told before tables are made
    folder.create({**made_with, "config": json.dumps(vars(how))})
    if facts and json.loads(facts["config"]).get("bad_lines", "error") != how.bad_lines:
        folder.put_facts({"config": json.dumps(vars(how))})
        warnings.append(f"{folder.path} is counted with --bad-lines {how.bad_lines} from now on.")
    job = CountJob(folder, how, request.pattern, resources, stop)
    result = job.run(request.found.sources, warnings, progress, facts)
    return replace(result, sampled=request.found.sample.told)


def _fold_again(folder: Run, resources: Resources, progress: str) -> CountResult:
    """Fill the tables from the committed parts, whatever the tables hold: the way out if `check` finds a difference.

    Sources that were refused by name and not counted otherwise since are left out from here on.
    """
    with folder.lock(), disk_full_explained(folder.path), Reporter(Meter("folding"), folder.write_status, progress):
        lost = folder.number_again()
        note_lost(folder, list_parts(folder))
        edited = False
        with contextlib.suppress(RunError):  # tables that cannot be read or say nothing are damaged, not edited
            edited = is_edited(folder, resources)
        told = Watch(folder, (), None).end(list_parts(folder))
        corpus = fold(folder, resources, again=True)
        left = left_to_count(folder)
    if lost:
        told.append(
            "run.json was lost and is made again, but it is not known which sources were not yet counted. Give all "
            f"of them to `streambpe count {typed(folder.path)}`: it skips those that are counted."
        )
    if edited:
        told.append("chunk_counts had been edited; it is filled again from counts/, without the edits.")
    if left:
        told.append(left.told())
    return CountResult(corpus, 0, 0, tuple(told))


def resume_count(
    run: Path | str,
    *,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> CountResult:
    """Go on with a count that was stopped, killed or ended by an error: all sources that are left, as they were given.

    Streams cannot be given again from here: a warning names them when the rest is counted, or an error if only they are
    left.
    """
    folder = Run.open(run)
    leaving = [one.path for one in read_record(folder).leaving]
    taken_back = take_back(folder, leaving, resources=resources, progress=progress, stop=stop) if leaving else None
    left = left_to_count(folder)
    sources = [source_of(one.source) for one in left.sources if not one.source.stream]
    not_read_here = Left(folder.path, [one for one in left.sources if one.source.stream], left.runs)
    if not sources and taken_back is not None:  # which told what is left
        return taken_back
    if not sources:
        not_read_here.refuse()
    result = count(run, sources, resources=resources, progress=progress, stop=stop)
    if not_read_here:
        result = replace(result, warnings=(*result.warnings, not_read_here.told()))
    return result


def count_from_iterator(
    run: Path | str,
    texts: Iterable[str],
    *,
    source_name: str = "iterator",
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    **arguments: Unpack[CountKeywords],
) -> CountResult:
    """Like `count`, but over Python strings, each a document.

    Called again with the same name it passes by the documents that were counted, checks that they
    are the same, and goes on behind them.
    """
    source = Source(source_name, "iterator", texts=texts)
    return count(run, [source], resources=resources, progress=progress, stop=stop, **arguments)
