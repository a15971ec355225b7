"""The facts that the page about a run shows, from its tables and its log."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import duckdb

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunError, typed
from streambpe.inspect.curves import ON_CHUNKS, GrowthFacts, growth, measuring_on
from streambpe.inspect.page_vocabulary import VocabularyFacts, vocabulary_of
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.model.eventlog import EventLog, Op, read_event_log
from streambpe.progress import Meter
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


class BesideFacts(TypedDict):
    """What the page says about another vocabulary beside its own."""

    model: str
    same: int  # tokens with the same id in both
    other_ids: int
    only_here: int
    only_there: int
    growth: list[GrowthFacts]  # on the same text; nothing if that is the chunks of a RUN, which it splits otherwise


class Facts(TypedDict):
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
    measured_on: str
    growth: list[GrowthFacts]
    beside: BesideFacts | None
    others: list[Facts]  # of other runs, which are drawn on the same axes


def label(facts: Facts) -> str:
    """What a run is called on the page."""
    return facts["run"] if facts["training"] == "main" else f"{facts['run']}:{facts['training']}"


def gather(
    run: Run,
    name: str,
    texts: Sequence[str],
    resources: Resources,
    how: SourceOptions,
    meter: Meter,
    other: str | None = None,
) -> Facts:
    """Everything the page says; `other`: a MODEL that this one is compared with. `meter` is told how far it is."""
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
        events = run_sql(con, "list_event_counts")
        facts: Facts = {
            "run": harmless(run.path.absolute().name),
            "training": name,
            "state": known.get("state", "unfinished"),
            "sha256": known.get("sha256"),
            "events": len(events),
            "corpus": json.loads(dict(run_sql(con, "get_run")).get("corpus", "null")),
            "merges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.MERGE],
            "supermerges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.SUPERMERGE],
            "head": _head(con, run, name, known),
            "vocabulary": vocabulary_of([]),
            "measured_on": "",
            "growth": [],
            "beside": None,
            "others": [],
        }
        rows = run_sql(con, "list_vocabulary")
    release_memory()
    if facts["state"] != "done":
        if other is not None:
            raise RunError(
                f"--beside {other}: training {name} of {run.path} still learns. Leave it out until it is done."
            )
        facts["vocabulary"] = vocabulary_of(rows)
        return facts
    refuse_other_log(log_path(run, name))
    log = read_event_log(log_path(run, name))
    rival = read_model(other) if other is not None else None
    uses_of, facts["measured_on"] = measuring_on(run, log, texts, how, resources, None)
    facts["growth"], uses = growth(log, uses_of, meter, Tokenizer(rival).n_vocab if rival else 0)
    facts["vocabulary"] = vocabulary_of(rows, log, uses)
    if rival and other is not None:
        facts["beside"] = compared = _beside(log, rival, harmless(Path(other).name))
        if facts["measured_on"] != ON_CHUNKS or _splitting(log) == _splitting(rival):
            compared["growth"], _ = growth(rival, uses_of, meter, Tokenizer(log).n_vocab)
    return facts


def _beside(log: EventLog, rival: EventLog, name: str) -> BesideFacts:
    """What two models have in common."""
    mine, theirs = (Tokenizer(one).get_vocab() for one in (log, rival))
    same, both = len(mine.items() & theirs.items()), len(mine.keys() & theirs.keys())
    return {
        "model": name,
        "same": same,
        "other_ids": both - same,
        "only_here": len(mine) - both,
        "only_there": len(theirs) - both,
        "growth": [],
    }


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


def _head(con: duckdb.DuckDBPyConnection, run: Run, name: str, known: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was learned, from what, when and by which version."""
    config = json.loads(known["config"])
    options, counted = config["config"], dict(run_sql(con, "get_run"))
    sources = sorted({harmless(path) for path in _within({path for path, *_ in run_sql(con, "list_stretches")})})
    more = len(sources) - LISTED
    written = []
    path = log_path(run, name)
    if path.is_file():
        written.append(datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    version = json.loads(counted.get("versions", "{}")).get("streambpe", "")
    reserved = int(config.get("reserve") or 0)
    return [
        ("pattern", options.get("pattern") or json.loads(counted.get("config", "{}")).get("pattern", "")),
        ("special tokens", " ".join(map(harmless, config.get("specials", []))) or "none"),
        ("reserved ids", f"{reserved:,}" if reserved else ""),
        ("sources", ", ".join(sources[:LISTED]) + (f" and {more:,} more" if more > 0 else "")),
        ("options", ", ".join(
            f"{key.replace('_', '-')} {_option(value)}"
            for key, value in options.items()
            if value not in (None, [], False) and key != "pattern"
        )),
        ("written", ", ".join([*written, f"streambpe {version}".strip()])),
    ]  # fmt: skip


def _option(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
