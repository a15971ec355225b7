"""The facts that the page about a run shows, from its tables and its log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, TypedDict

import duckdb

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunError, typed
from streambpe.inspect.curves import GrowthFacts, growth, stored_documents, uses_in_run, uses_in_texts
from streambpe.inspect.difference import BesideFacts, beside
from streambpe.inspect.measures import Uses
from streambpe.inspect.page_vocabulary import VocabularyFacts, vocabulary_of
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.model.eventlog import Op, read_event_log
from streambpe.progress import Meter
from streambpe.resources import Resources, release_memory
from streambpe.sources.find import find_sources
from streambpe.store.chunks import open_counts, range_bytes
from streambpe.store.database import list_trainings, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.passes import PassRow
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import log_path
from streambpe.store.trainings import list_batches, read_facts
from streambpe.text.shown import harmless

ON_CHUNKS, ON_DOCUMENTS = "all chunks of the corpus", "the stored documents"
LISTED = 20  # how many sources are listed


class PassFacts(TypedDict):
    """A pass, with the events and seconds up to its end."""

    events_so_far: int
    seconds_so_far: float
    events: int
    memory_bytes: int


class Facts(TypedDict):
    """Everything the page says."""

    run: str
    training: str
    state: str
    sha256: str | None
    events: int
    config: dict[str, Any]  # as the log's header: options of whichever version learned it
    corpus: CorpusFacts | None
    merges: list[tuple[int, int]]  # (number of the event, count)
    supermerges: list[tuple[int, int]]
    passes: list[PassFacts]
    head: list[tuple[str, str]]  # what stands at the top of the page
    vocabulary: VocabularyFacts
    measured_on: list[str] | str
    growth: list[GrowthFacts]
    frequencies: list[int]
    beside: BesideFacts | None
    others: list[Facts]  # of other runs, which are drawn on the same axes


def gather(
    run: Run,
    name: str,
    texts: Sequence[str],
    resources: Resources,
    how: SourceOptions,
    meter: Meter,
    other: str | None = None,
) -> Facts:
    """Everything the page says; `other`: a MODEL that this one is laid beside. `meter` is told how far it is."""
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
        config = json.loads(known["config"])["config"]
        facts: Facts = {
            "run": harmless(str(run.path)),
            "training": name,
            "state": known.get("state", "unfinished"),
            "sha256": known.get("sha256"),
            "events": len(events),
            "config": config,
            "corpus": json.loads(dict(run_sql(con, "get_run")).get("corpus", "null")),
            "merges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.MERGE],
            "supermerges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.SUPERMERGE],
            "passes": _passes(list_batches(con)),
            "head": _head(con, run, name, known),
            "vocabulary": vocabulary_of([]),
            "measured_on": [harmless(text) for text in texts] or ON_CHUNKS,
            "growth": [],
            "frequencies": [],
            "beside": None,
            "others": [],
        }
        rows = run_sql(con, "list_vocabulary")
    if other is not None:
        if facts["state"] != "done":
            raise RunError(
                f"--beside {other}: training {name} of {run.path} still learns. Leave it out until it is done."
            )
        facts["beside"] = beside(f"{run.path}:{name}", other)
    release_memory()
    if facts["state"] != "done":
        facts["vocabulary"] = vocabulary_of(rows)
        return facts
    refuse_other_log(log_path(run, name))
    log = read_event_log(log_path(run, name))
    facts["growth"], uses = growth(log, _uses_of(run, texts, resources, facts, how), meter)
    facts["frequencies"] = sorted((n for n in uses.tolist() if n), reverse=True)
    facts["vocabulary"] = vocabulary_of(rows, log, uses)
    return facts


def _uses_of(
    run: Run, texts: Sequence[str], resources: Resources, facts: Facts, how: SourceOptions
) -> Callable[[Tokenizer], Uses]:
    """What the page measures on: it counts how often a tokenizer uses its ids."""
    if texts:
        sources, _ = find_sources(list(texts), how)
        return lambda tokenizer: uses_in_texts(tokenizer, sources, resources)
    if facts["supermerges"] or facts["config"].get("superwords", "none") != "none":
        documents, (taken, every) = stored_documents(run)
        facts["measured_on"] = ON_DOCUMENTS if taken == every else f"{taken:,} of {every:,} stretches of {ON_DOCUMENTS}"
        return lambda tokenizer: uses_in_texts(tokenizer, [documents()], resources)
    # replaying takes a multiple of what is read at once
    return lambda tokenizer: uses_in_run(tokenizer, run, range_bytes(resources) // 4)


def _head(con: duckdb.DuckDBPyConnection, run: Run, name: str, known: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was learned, from what, when and by which version."""
    config = json.loads(known["config"])
    options, counted = config["config"], dict(run_sql(con, "get_run"))
    sources = sorted({harmless(path) for path, *_ in run_sql(con, "list_stretches")})
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


def _passes(batches: Sequence[PassRow]) -> list[PassFacts]:
    """Passes with the events and seconds up to their ends; without those that stand for a log learned before."""
    known = [batch for batch in batches if batch.seconds > 0]
    seconds = accumulate(batch.seconds for batch in known)
    return [
        {
            "events_so_far": batch.first_seq + batch.events,
            "seconds_so_far": so_far,
            "events": batch.events,
            "memory_bytes": batch.memory_bytes,
        }
        for batch, so_far in zip(known, seconds, strict=True)
    ]
