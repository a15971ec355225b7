"""The facts that the page about a run shows, from its tables and its log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, TypedDict

from streambpe.count_config import SourceOptions
from streambpe.errors import RunError
from streambpe.inspect.curves import GrowthFacts, Stop, growth_on_chunks, growth_on_texts
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.model.eventlog import Op, read_event_log
from streambpe.resources import Resources
from streambpe.store.database import list_trainings, open_store, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.passes import PassRow
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import log_path
from streambpe.store.trainings import list_batches, read_facts
from streambpe.text.shown import shown

LISTED = 20  # how many of the longest tokens, and of the stop words, are listed


class PointFacts(TypedDict):
    """A pass, or the mean of neighbouring passes, as the page draws it."""

    events_so_far: int
    seconds_so_far: float
    events: float
    events_per_second: float


class PassFacts(PointFacts):
    """A pass, with the events and seconds up to its end."""

    mode: str
    memory_bytes: int


class CutoffFacts(TypedDict):
    """What --freq-cutoff left out."""

    freq_cutoff: int
    chunks: int
    occurrences: int
    chunks_left_out: int
    occurrences_left_out: int


TokenKey = Literal["longest_tokens", "longest_superwords"]


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
    deletions: list[tuple[int, int]]
    longest_tokens: list[tuple[str, int, int]]  # (as it is shown, length in bytes, count)
    longest_superwords: list[tuple[str, int, int]]
    passes: list[PassFacts]
    stop_words: list[tuple[str, int]]  # (chunk, count)
    cutoff: CutoffFacts
    vetoed: int
    measured_on: list[str] | str
    growth: list[GrowthFacts]
    frequencies: list[int]


def gather(run: Run, name: str, texts: Sequence[str], resources: Resources, how: SourceOptions) -> Facts:
    """Everything the page says."""
    run.refuse_old()
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        trainings = list_trainings(con)
        known = {}
        if name in trainings:
            use_training(con, name)
            known = read_facts(con)
        if not known:
            raise RunError(
                f"{run.path} has nothing of a training {name} in its tables yet. `streambpe train {run.path}` learns "
                f"one; another is named with --name ({', '.join(trainings)})."
            )
        events = run_sql(con, "list_event_counts")
        batches = list_batches(con)
        config = json.loads(known["config"])["config"]
        cutoff = int(config.get("freq_cutoff") or 0)
        ((chunks, occurrences, chunks_below, occurrences_below),) = run_sql(con, "steps/sum_left_out")
        facts: Facts = {
            "run": str(run.path),
            "training": name,
            "state": known.get("state", "unfinished"),
            "sha256": known.get("sha256"),
            "events": len(events),
            "config": config,
            "corpus": json.loads(dict(run_sql(con, "get_run")).get("corpus", "null")),
            "merges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.MERGE],
            "supermerges": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.SUPERMERGE],
            "deletions": [(i, n) for i, (op, n) in enumerate(events, 1) if op == Op.DELETE],
            "longest_tokens": _tokens(run_sql(con, "steps/longest_tokens", op="merge", max_rows=LISTED)),
            "longest_superwords": _tokens(run_sql(con, "steps/longest_tokens", op="supermerge", max_rows=LISTED)),
            "passes": _passes(batches),
            "stop_words": run_sql(con, "list_stop_words"),
            "cutoff": {
                "freq_cutoff": cutoff, "chunks": chunks, "occurrences": occurrences,
                "chunks_left_out": chunks_below, "occurrences_left_out": occurrences_below,
            },
            "vetoed": len(run_sql(con, "get_vetoed")),
            "measured_on": list(texts) or "the run's chunks",
            "growth": [],
            "frequencies": [],
        }  # fmt: skip
    growth = _growth(run, name, texts, resources, facts, how) if facts["state"] == "done" else []
    facts["growth"] = [stop.values() for stop in growth]
    facts["frequencies"] = sorted((int(n) for n in growth[-1].n if n), reverse=True) if growth else []
    return facts


def _growth(
    run: Run, name: str, texts: Sequence[str], resources: Resources, facts: Facts, how: SourceOptions
) -> list[Stop]:
    refuse_other_log(log_path(run, name))
    log = read_event_log(log_path(run, name))
    if texts:
        return growth_on_texts(log, texts, resources, how)
    joins = facts["supermerges"] or log.header.config.get("superwords", "none") != "none"
    return [] if joins else growth_on_chunks(run, log)


def _tokens(rows: Sequence[tuple[bytes, int]]) -> list[tuple[str, int, int]]:
    return [(shown(content), len(content), n) for content, n in rows]


def _passes(batches: Sequence[PassRow]) -> list[PassFacts]:
    """Passes with the events and seconds up to their ends; without those that stand for a log learned before."""
    known = [batch for batch in batches if batch["seconds"] > 0]
    seconds = accumulate(batch["seconds"] for batch in known)
    return [
        {
            "events_so_far": batch["first_seq"] + batch["events"],
            "seconds_so_far": so_far,
            "events": batch["events"],
            "events_per_second": batch["events"] / batch["seconds"],
            "mode": batch["mode"],
            "memory_bytes": batch["memory_bytes"],
        }
        for batch, so_far in zip(known, seconds, strict=True)
    ]
