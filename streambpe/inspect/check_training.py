"""Comparing the tables of a training with its event log; part of `streambpe check`.

    events   equal the event log; while a training goes on, its journal up to the last fold
    tokens   the alphabet and the stop words of the log, and what the events made
    batches  cover the events without gaps
    vetoed   as many as table facts says
    facts    how many events, which digest, what size
    balance  the texts that groups are measured on are those that were counted

What follows from the counts too (pairs, token counts, neighbours of superwords) is compared by learning again
(learned_again.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import duckdb
import msgspec

from streambpe.config import TrainConfig
from streambpe.errors import EventLogError, ModelError, RunError
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Header, events_digest, read_event_log
from streambpe.progress import Meter
from streambpe.store.database import list_trainings, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.journal import Journal
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import extended_path, journal_path, log_path
from streambpe.store.trainings import TokenTable, event_rows, read_facts
from streambpe.train.balance_texts import read_text
from streambpe.train.extension import Inherited

Row = tuple[Any, ...]
MOST_PROBLEMS = 1000  # shown for one table; a damaged table would fill the screen
_MAY_MISS = {"token_counts_at", "left_out", "sha256", "size", "reached", "pair_floor", "adjacency_floor",
             "superword_runs", "unknown"}  # fmt: skip
_FACTS = {"journal", "config", "events", "batches", "vetoed", "state", "pair_counts_at"} | _MAY_MISS


class TrainingSource(msgspec.Struct, frozen=True):
    """What a training's tables are compared with."""

    config: TrainConfig
    corpus: str  # sha256 of the counts it learns from
    events: Sequence[Event]
    header: Header | None = None  # of the log, once it is finished


def check_trainings(
    con: duckdb.DuckDBPyConnection, run: Run, range_bytes: int, meter: Meter
) -> Iterator[tuple[str, Row]]:
    """(table, row) for every row that does not add up. `con` is open read-only; `meter` is told how far it is."""
    names = list_trainings(con)
    logs = {path.name.removesuffix(".events.jsonl") for path in run.path.glob("*.events.jsonl")}
    for name in sorted({"main" if log == "model" else log for log in logs} - set(names)):
        if journal_path(run, name).exists():  # not folded yet
            continue
        yield f"{name}.events", ("the event log is there, the tables are not",)
    for name in names:
        meter.begin(f"checking {name}")
        use_training(con, name)
        facts = read_facts(con)
        try:
            source = read_source(run, name, facts)
        except (EventLogError, ModelError, RunError) as why:
            yield f"{name}.events", (str(why),)
            continue
        if source is not None:
            for table, row in _check_one(con, run, facts, source, range_bytes):
                yield f"{name}.{table}", row
    use_training(con, "main")


def read_source(run: Run, name: str, facts: dict[str, str]) -> TrainingSource | None:
    """What a training's tables, of which these are the facts, are compared with; None if they show nothing of it."""
    path, log_file = journal_path(run, name), log_path(run, name)
    if path.exists() and facts.get("state") != "done":
        journal = Journal.read(path, mend=False)
        number, _, superwords = facts.get("journal", "").partition("+")
        if number != journal.number:
            return None  # nothing of this journal is folded yet
        events = list(journal.events)
        if superwords:
            events += _read_supermerges(run, name, superwords)
        config, events = config_of(journal.training), events[: int(facts["events"])]
        _refuse_other_model(run, name, config, events)
        return TrainingSource(config, journal.training["corpus"], events)
    if not log_file.exists():
        if facts and not path.exists():
            raise RunError(f"{log_file} is gone; train again to make it anew")
        return None
    refuse_other_log(log_file)
    log = read_event_log(log_file)
    header = log.header
    if path.exists() and facts.get("sha256") != events_digest(log.events):
        return None  # a larger vocabulary was just written; the tables still show the smaller one
    identity = {
        "config": header.config,
        "specials": [special.text for special in header.specials],
        "reserve": header.reserved,
    }
    config = config_of(identity)
    _refuse_other_model(run, name, config, log.events)
    return TrainingSource(config, header.corpus["sha256"], log.events, header)


def _refuse_other_model(run: Run, name: str, config: TrainConfig, events: Sequence[Event]) -> None:
    """An error if a training's events do not begin with those of the model that it extends."""
    if config.extends is not None:
        found = Inherited.read(run, name, config.extends)
        if tuple(events[: found.events]) != tuple(found.log.events):
            raise RunError(f"the events do not begin with those of {extended_path(run, name).name}")


def _read_supermerges(run: Run, name: str, number: str) -> Sequence[Event]:
    """What phase two has learned so far, by the number of its journal."""
    for path in (run.path / "training" / name).glob("superwords-*/supermerges.events"):
        journal = Journal.read(path, mend=False)
        if journal.number == number:
            return journal.events
    raise RunError(f"the superwords learned so far are gone from {run.path / 'training' / name}; train again")


def config_of(training: Mapping[str, Any]) -> TrainConfig:
    """The options of a training, from its journal or its log."""
    ours = {f.name for f in fields(TrainConfig)}
    given = {key: value for key, value in training["config"].items() if key in ours}
    given["block_tokens"] = tuple(given["block_tokens"])
    return TrainConfig(**given, specials=tuple(training["specials"]), reserve=training["reserve"])


def _check_one(
    con: duckdb.DuckDBPyConnection, run: Run, facts: dict[str, str], source: TrainingSource, range_bytes: int
) -> Iterator[tuple[str, Row]]:
    """See check_trainings."""
    con.register("logged_events", event_rows(source.events, 0))
    for row in run_sql(con, "checks/events"):
        yield "events", row
    for row in run_sql(con, "checks/batches", events=len(source.events), batches=int(facts.get("batches", -1))):
        yield "batches", row
    vetoed = len(run_sql(con, "get_vetoed"))
    if str(vetoed) != facts.get("vetoed"):
        yield "vetoed", (vetoed, "rows, where table facts says", facts.get("vetoed"))
    tokens = 0
    if source.header is not None:
        book = TokenTable.of(
            Alphabet.from_header(source.header.alphabet), [word.content for word in source.header.stop_words]
        )
        book.add(source.events, 0)
        con.register("logged_tokens", book.rows(0))
        for row in run_sql(con, "checks/tokens"):
            yield "tokens", row
        con.unregister("logged_tokens")
        tokens = len(book.contents) - len(book.dead)
    con.unregister("logged_events")
    for row in _check_facts(facts, source, tokens):
        yield "facts", row
    for digest in source.config.balanced_on.values():
        try:
            read_text(run, digest, range_bytes)
        except RunError as why:
            yield "balance", (str(why),)


def _check_facts(facts: dict[str, str], source: TrainingSource, tokens: int) -> Iterator[Row]:
    """Check what table facts says of the training, where the log says it too. `tokens`: those that live at its end."""
    found = {"state": "unfinished", "events": str(len(source.events)), "sha256": "", "size": "", "reached": ""}
    if source.header is not None:
        size = tokens + source.config.extra_ids
        full = source.config.vocab_size + (0 if source.config.count_specials else source.config.extra_ids)
        found |= {"state": "done", "sha256": events_digest(source.events), "size": str(size)}
        found["reached"] = str(size >= full).lower()
    for key, value in found.items():
        if facts.get(key, "") != value:
            yield key, facts.get(key), value
    for key in sorted(facts.keys() - _FACTS):
        yield key, facts[key], "no fact of a training"
    for key in sorted(_FACTS - facts.keys() - _MAY_MISS):
        yield key, None, "missing"
    if facts.get("pair_counts_at") and "pair_floor" not in facts:
        yield "pair_floor", None, "missing"
    stated = json.loads(facts.get("config", "{}"))
    if "config" not in stated or config_of(stated) != source.config or stated["corpus"] != source.corpus:
        yield "config", facts.get("config"), "not what the log says"
    told_at, events = facts.get("pair_counts_at", ""), len(source.events)
    if told_at and (int(told_at) != events if source.header is not None else int(told_at) > events):
        yield "pair_counts_at", told_at, str(events)
