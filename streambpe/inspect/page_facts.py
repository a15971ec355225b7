"""The facts that the page about a run shows, from its tables and its log."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunError, typed
from streambpe.inspect.curves import ON_CHUNKS, GrowthFacts, choose_stops, growth, measuring_on, readings
from streambpe.inspect.page_vocabulary import VocabularyFacts, vocabulary_of
from streambpe.inspect.sizes import SizeFacts
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.model.eventlog import EventLog, Op, read_event_log
from streambpe.resources import Resources, release_memory
from streambpe.store.chunks import open_counts
from streambpe.store.database import list_trainings, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.models import encoding_pattern, read_model
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import log_path
from streambpe.store.trainings import read_facts
from streambpe.text.shown import harmless

LISTED = 20  # how many sources are listed


class BesideFacts(msgspec.Struct):
    """What the page says about another vocabulary beside its own."""

    model: str
    same: int  # tokens with the same id in both
    other_ids: int
    only_here: int
    only_there: int
    growth: list[GrowthFacts]  # on the same text; nothing if that is the chunks of a RUN, which it splits otherwise


class Facts(msgspec.Struct):
    """Everything the page says."""

    run: str
    training: str
    state: str
    sha256: str | None
    events: int
    corpus: CorpusFacts | None
    merges: list[tuple[int, int]]  # (number of the event, count)
    supermerges: list[tuple[int, int]]
    head: list[tuple[str, str]]  # what was learned, from what, when
    vocabulary: VocabularyFacts
    measured_on: str = ""
    growth: list[GrowthFacts] = []
    sizes: list[SizeFacts] = []  # on the texts of each group
    beside: BesideFacts | None = None


def label(facts: Facts) -> str:
    """What a run is called on the page."""
    return facts.run if facts.training == "main" else f"{facts.run}:{facts.training}"


def gather(
    run: Run, name: str, texts: Sequence[str], resources: Resources, how: SourceOptions, other: str | None = None
) -> Facts:
    """Everything the page says; `other`: a MODEL that this one is compared with."""
    with contextlib.closing(open_counts(run, resources)) as con:
        trainings = list_trainings(con)
        known = {}
        if name in trainings:
            use_training(con, name)
            known = read_facts(con)
        if not known:
            raise RunError(
                f"{run.path} has nothing of a training {name} in its tables yet. `streambpe train "
                f"{typed(run.path)}` learns one; another is named with --name ({', '.join(trainings)})."
            )
        counted, events = dict(run_sql(con, "get_run")), run_sql(con, "list_event_counts")
        paths = {path for path, *_ in run_sql(con, "list_stretches")}
        rows = run_sql(con, "list_vocabulary")
    release_memory()
    merges, supermerges = (
        [(i, n) for i, (op, n) in enumerate(events, 1) if op == of] for of in (Op.MERGE, Op.SUPERMERGE)
    )
    state, path = known.get("state", "unfinished"), log_path(run, name)
    log = None
    if state == "done":
        refuse_other_log(path)
        log = read_event_log(path)
    elif other is not None:
        raise RunError(f"--beside {other}: training {name} of {run.path} still learns. Leave it out until it is done.")
    facts = Facts(
        run=harmless(run.path.absolute().name),
        training=name,
        state=state,
        sha256=known.get("sha256"),
        events=len(events),
        corpus=json.loads(counted.get("corpus", "null")),
        merges=merges,
        supermerges=supermerges,
        head=_head(counted, paths, known, path),
        vocabulary=vocabulary_of(rows if log is None else []),
    )
    if log is None:
        return facts
    rival = read_model(other) if other is not None else None
    stops = choose_stops(log, Tokenizer(rival).n_vocab if rival else 0)
    rivals_stops = choose_stops(rival, Tokenizer(log).n_vocab) if rival else []
    times = readings(log, len(stops)) + (readings(rival, len(rivals_stops)) if rival else 0)
    uses_of, facts.measured_on = measuring_on(run, log, texts, how, resources, times)
    facts.growth, uses = growth(log, stops, uses_of)
    facts.vocabulary = vocabulary_of(rows, log, uses)
    if rival and other is not None:
        mine, theirs = (Tokenizer(one).get_vocab() for one in (log, rival))
        same, both = len(mine.items() & theirs.items()), len(mine.keys() & theirs.keys())
        alike = facts.measured_on != ON_CHUNKS or _splitting(log) == _splitting(rival)
        theirs_growth = growth(rival, rivals_stops, uses_of)[0] if alike else []
        called = harmless(Path(other).name)
        facts.beside = BesideFacts(called, same, both - same, len(mine) - both, len(theirs) - both, theirs_growth)
    return facts


def _splitting(log: EventLog) -> tuple[Any, ...]:
    """What decides into which chunks a model splits a text."""
    config = log.header.config
    joins = any(event.op is Op.SUPERMERGE for event in log.events)
    return encoding_pattern(config), config.get("normalize"), config.get("unencodable"), joins


def _within(paths: Set[str]) -> Set[str]:
    """The paths of files as they are called in the folder that holds all of them: a page may be given away."""
    files = {path for path in paths if os.path.isabs(path)}
    if len({os.path.splitdrive(path)[0] for path in files}) > 1:  # of Windows: no folder holds them all
        return paths
    return (paths - files) | {os.path.relpath(path, os.path.commonpath(map(os.path.dirname, files))) for path in files}


def _head(counted: Mapping[str, str], paths: Set[str], known: Mapping[str, str], log: Path) -> list[tuple[str, str]]:
    """What was learned, from what, when and by which version."""
    config = json.loads(known["config"])
    options, reserved = config["config"], int(config.get("reserve") or 0)
    sources = sorted(map(harmless, _within(paths)))
    more = f" and {len(sources) - LISTED:,} more" if len(sources) > LISTED else ""
    written = [datetime.fromtimestamp(log.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")] if log.is_file() else []
    version = json.loads(counted.get("versions", "{}")).get("streambpe", "")
    pattern = options.pop("pattern", None) or json.loads(counted.get("config", "{}")).get("pattern", "")
    given = (f"{key.replace('_', '-')} {_option(value)}" for key, value in options.items()
             if value not in (None, [], False))  # fmt: skip
    return [
        ("pattern", pattern),
        ("special tokens", " ".join(map(harmless, config.get("specials", []))) or "none"),
        ("reserved ids", f"{reserved:,}" if reserved else ""),
        ("sources", ", ".join(sources[:LISTED]) + more),
        ("options", ", ".join(given)),
        ("written", ", ".join([*written, f"streambpe {version}".strip()])),
    ]


def _option(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
