"""Comparing the tables of a training with its event log; part of `streambpe check`.

    events   equal the event log
    tokens   the alphabet and the stop words of the log, and what the events made
    batches  cover the events without gaps
    vetoed   as many as table facts says
    facts    how many events, which digest, what size
    balance  the texts that groups are measured on are those that were counted

A training that is not done has no log yet, and is told of. What follows from the counts too (pairs, token counts,
neighbours of superwords) is compared by learning again (learned_again.py).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import Any

import duckdb

from streambpe.config import TrainConfig
from streambpe.errors import EventLogError, ModelError, RunError
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import EventLog, events_digest, read_event_log
from streambpe.progress import present_meter
from streambpe.store.database import list_trainings, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import extended_path, journal_path, log_path
from streambpe.store.trainings import TokenTable, event_rows, read_facts
from streambpe.train.as_model import config_of_log
from streambpe.train.balance_texts import read_text
from streambpe.train.extension import Extension

Row = tuple[Any, ...]
MOST_PROBLEMS = 1000  # shown for one table; a damaged table would fill the screen
_MAY_MISS = {"token_counts_at", "left_out", "sha256", "size", "reached", "pair_floor", "adjacency_floor",
             "superword_runs", "unknown"}  # fmt: skip
_FACTS = {"config", "events", "batches", "vetoed", "state", "pair_counts_at"} | _MAY_MISS


def check_trainings(
    con: duckdb.DuckDBPyConnection, run: Run, range_bytes: int, told: list[str], *, keep: bool
) -> Generator[tuple[str, Row], None, dict[str, EventLog | None]]:
    """(table, row) for every row that does not add up; returns, if it is to `keep` them, the log of each training that
    is done and has a good one. `con` is open read-only; `told` is told of trainings that are not done."""
    names = list_trainings(con)
    logs: dict[str, EventLog | None] = dict.fromkeys(names)
    files = {path.name.removesuffix(".events.jsonl") for path in run.path.glob("*.events.jsonl")}
    for name in sorted({"main" if file == "model" else file for file in files} - set(names)):
        if not journal_path(run, name).exists():  # else it is not folded yet
            yield f"{name}.events", ("the event log is there, the tables are not",)
    for name in names:
        present_meter().begin(f"checking {name}")
        use_training(con, name)
        facts = read_facts(con)
        try:
            log = _read_log(run, name, facts)
            logs[name] = log if keep else None
        except (EventLogError, ModelError, RunError) as why:
            yield f"{name}.events", (str(why),)
            continue
        if log is not None:
            for table, row in _check_one(con, run, facts, log, range_bytes):
                yield f"{name}.{table}", row
        elif facts.get("state") == "unfinished":
            told.append(f"training {name} is not done yet: its tables are checked when it is.")
    use_training(con, "main")
    return logs


def _read_log(run: Run, name: str, facts: dict[str, str]) -> EventLog | None:
    """What a training's tables, of which these are the facts, are compared with; None while they show another state:
    it is not done, or a larger vocabulary was just written."""
    goes_on, path = journal_path(run, name).exists(), log_path(run, name)
    if goes_on and facts.get("state") != "done":
        return None
    if not path.exists():
        if facts and not goes_on:
            raise RunError(f"{path} is missing; train again to make it again")
        return None
    refuse_other_log(path)
    log = read_event_log(path)
    if goes_on and facts.get("sha256") != events_digest(log.events):
        return None
    extends = config_of_log(log).extends
    if extends is not None:
        found = Extension.kept(run, name, extends)
        if tuple(log.events[: len(found.log.events)]) != tuple(found.log.events):
            raise RunError(f"the events do not begin with those of {extended_path(run, name).name}")
    return log


def _check_one(
    con: duckdb.DuckDBPyConnection, run: Run, facts: dict[str, str], log: EventLog, range_bytes: int
) -> Iterator[tuple[str, Row]]:
    """See check_trainings."""
    book = TokenTable.of(Alphabet.from_header(log.header.alphabet), [word.content for word in log.header.stop_words])
    book.add(log.events, 0)
    con.register("logged_events", event_rows(log.events, 0))
    con.register("logged_tokens", book.rows(0))
    passes = {"events": len(log.events), "batches": int(facts.get("batches", -1))}
    for table, inputs in (("events", {}), ("batches", passes), ("tokens", {})):
        yield from ((table, row) for row in run_sql(con, f"checks/{table}", **inputs))
    con.unregister("logged_tokens")
    con.unregister("logged_events")
    vetoed = len(run_sql(con, "get_vetoed"))
    if str(vetoed) != facts.get("vetoed"):
        yield "vetoed", (vetoed, "rows, where table facts says", facts.get("vetoed"))
    config = config_of_log(log)
    yield from (("facts", row) for row in _check_facts(facts, log, config, len(book.contents) - len(book.dead)))
    for digest in config.balanced_on.values():
        try:
            read_text(run, digest, range_bytes)
        except RunError as why:
            yield "balance", (str(why),)


def _check_facts(facts: dict[str, str], log: EventLog, config: TrainConfig, tokens: int) -> Iterator[Row]:
    """Check what table facts says of the training, where the log says it too. `tokens`: those that live at its end."""
    size, measured = tokens + config.extra_ids, bool(facts.get("pair_counts_at"))
    full = config.vocab_size + (0 if config.count_specials else config.extra_ids)
    found = {
        "state": "done", "events": str(len(log.events)), "sha256": events_digest(log.events), "size": str(size),
        "reached": str(size >= full).lower(), "pair_counts_at": str(len(log.events)) if measured else "",
    }  # fmt: skip
    for key, value in found.items():
        if facts.get(key, "") != value:
            yield key, facts.get(key), value
    for key in sorted(facts.keys() - _FACTS):
        yield key, facts[key], "not a fact of a training"
    for key in sorted((_FACTS - _MAY_MISS | ({"pair_floor"} if measured else set())) - facts.keys()):
        yield key, None, "missing"
    stated = json.loads(facts.get("config", "{}"))
    held = TrainConfig.of_facts(stated["config"], stated["specials"], stated["reserve"]) if "config" in stated else None
    if held != config or stated["corpus"] != log.header.corpus.get("sha256"):
        yield "config", facts.get("config"), "not what the log says"
