"""check --replay: every training is learned again from what RUN has counted, and compared.

    scratch RUN    the parts, documents and texts of RUN as links; a copy of its tables and of its small files
    learned        with the same options by the learner of tables, which is another program than the core; --balance has
                   no other learner than its own. A training that is not done yet is not learned again
    event log      the same header and the same events
    tables         the same rows, of all that follows from the counts; which passes learned what does not

The scratch RUN is copied while the tables are open and nobody can write into them, so a RUN that goes on meanwhile is
compared as it was then.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from msgspec import structs

from streambpe.config import TrainConfig
from streambpe.disk import disk_full_explained
from streambpe.errors import StreambpeError
from streambpe.inspect.check_training import MOST_PROBLEMS, Row
from streambpe.model.eventlog import EventLog, header_line, read_event_log
from streambpe.model.events import event_line
from streambpe.progress import present_meter
from streambpe.resources import Resources
from streambpe.store.database import open_store, use_training
from streambpe.store.identity import Record, read_identity, write_identity
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import extended_path, journal_path, log_path
from streambpe.store.trainings import read_facts
from streambpe.train.as_model import config_of_log
from streambpe.train.engine.rules import Batch, EngineTuning
from streambpe.train.extension import Extension
from streambpe.train.trainer import Trainer
from streambpe.train.training import Training

_SMALL_FILES = ("run.json", "state.duckdb*", "*.events.jsonl", "*pending.events", "*extended.jsonl")
_TABLES = ("events", "tokens", "token_counts", "stop_words", "weighted_counts", "vetoed", "superword_neighbours",
           "superword_chunks", "superword_run_numbers")  # fmt: skip
_FACTS = ("events", "unknown", "pair_counts_at", "token_counts_at", "sha256", "size", "reached", "adjacency_floor",
          "superword_runs")  # fmt: skip
_ALL_PAIRS = 1 << 62  # the counts of pairs may lie so far apart and are kept
_MORE = "when learned again, not in the table"  # checks/learned_again.sql


def copy_run(run: Run, place: Path, parts: Sequence[Part]) -> Run:
    """A RUN in `place` with these parts, and with all that trainings are compared with. The tables are open."""
    scratch = Run(place)
    scratch.counts.mkdir(parents=True)
    with disk_full_explained(place):
        for path in itertools.chain.from_iterable(run.path.glob(pattern) for pattern in _SMALL_FILES):
            shutil.copyfile(path, place / path.name)
        for path in (*(part.path for part in parts), *run.path.glob("sequences/*"), *run.path.glob("balance/*")):
            _link(path, place / path.relative_to(run.path))
    identity = read_identity(place)
    if identity is not None:  # what was left to count when it was copied is no matter of a training's
        logs = {name: known for name, known in identity.files.items() if (place / name).exists()}
        write_identity(place, structs.replace(identity, files=logs, counting=Record()))
    return scratch


def _link(path: Path, target: Path) -> None:
    """Make a file known under another name; where the system has no such links, copy it."""
    target.parent.mkdir(exist_ok=True)
    try:
        target.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, target)


def learn_again(
    run: Run,
    logs: Mapping[str, EventLog | None],
    sha256: str,
    resources: Resources,
    database: dict[str, Any],
    told: list[str],
) -> Iterator[tuple[str, Row]]:
    """(table, row) of every difference. `run`: the copy; `logs`: of its trainings, None where there is none to compare
    with; `sha256`: of its counts; `database`: what DuckDB gets. `told` is told of what cannot be learned again."""
    resources, meter = replace(resources, temp_dir=run.path / "spilled"), present_meter()
    again = "again"
    while again in logs:
        again += "_"
    for name, log in logs.items():
        if log is None:
            continue
        if log.header.corpus.get("sha256") != sha256:
            told.append(
                f"training {name} was learned from counts that have changed since, so it could not be learned again; "
                "only its event log, and what follows from it, was checked."
            )
            continue
        meter.begin(f"learning {name} again", len(log.events), "events")
        try:
            found = _learn(run, name, again, config_of_log(log), resources)
        except StreambpeError as why:
            told.append(f"training {name} could not be learned again: {why}")
            continue
        yield from ((f"{name}.events", row) for row in _compare_logs(log, found))
        with contextlib.closing(open_store(run.state, read_only=True, **database)) as con:
            for table, row in _compare_tables(con, name, again, log, told):
                yield f"{name}.{table}", row


def _learn(run: Run, name: str, again: str, config: TrainConfig, resources: Resources) -> EventLog:
    """What a training learns now."""
    if config.extends is not None:
        shutil.copyfile(extended_path(run, name), extended_path(run, again))
        present_meter().done = len(Extension.kept(run, name, config.extends).log.events)

    def on_batch(batch: Batch) -> None:
        present_meter().advance(len(batch.events))

    resources = replace(resources, learner="core" if config.balance else "tables")
    tuning = EngineTuning(floor_ratio=_ALL_PAIRS)
    training = Training(run, config, again, resources)
    try:
        Trainer(training, on_batch=on_batch, tuning=tuning, allow_partial=True).run()
        return read_event_log(log_path(run, again))
    finally:
        shutil.rmtree(training.private, ignore_errors=True)
        for left in (log_path(run, again), journal_path(run, again)):
            left.unlink(missing_ok=True)


def _compare_logs(log: EventLog, found: EventLog) -> Iterator[Row]:
    """The first event that differs, as (number, what stands there, what should); and what differs in the header."""
    held, learned = (json.loads(header_line(header, 0, "")) for header in (log.header, found.header))
    for one in (held, learned):
        one["corpus"].pop("left_out", None)  # what else there was to count
    for key in sorted(held.keys() | learned.keys()):
        if held.get(key) != learned.get(key):
            yield "header", key, held.get(key), learned.get(key)
    for seq, (one, other) in enumerate(itertools.zip_longest(log.events, found.events)):
        if one != other:
            yield seq, *(None if event is None else event_line(event).decode().strip() for event in (one, other))
            return


def _compare_tables(
    con: duckdb.DuckDBPyConnection, name: str, again: str, log: EventLog, told: list[str]
) -> Iterator[tuple[str, Row]]:
    """(table, row) of the rows that only one of the two trainings has. Pairs too rare for the machine to tell may
    stand in one only."""
    facts = []
    for one in (again, name):  # while `again` is in use, DuckDB takes main.TABLE for a table of it
        use_training(con, one)
        facts.append(read_facts(con))
    learned, held = facts
    for key in _FACTS:
        if held.get(key) != learned.get(key):
            yield "facts", (key, held.get(key), learned.get(key))
    # vetoes of words are not carried over where a training with superwords is grown; a kill leaves no token counts
    fewer = {"vetoed"} if config_of_log(log).superwords != "none" else set()
    if not held.get("token_counts_at"):
        fewer.add("token_counts")
    for table in _TABLES:
        names = {"filled": f"{name}.{table}", "learned": f"{again}.{table}"}
        for row in run_sql(con, "checks/learned_again", **names, max_rows=MOST_PROBLEMS):
            if table not in fewer or row[0] != _MORE:
                yield table, row
    if held.get("pair_counts_at") == learned.get("pair_counts_at"):
        if int(learned["pair_floor"]) > int(held.get("pair_floor", 1)):
            told.append(f"training {name}: pairs that count less than {learned['pair_floor']} were not compared.")
        names = {"filled": f"{name}.pair_counts", "learned": f"{again}.pair_counts"}
        floors = {"filled_floor": int(held.get("pair_floor", 1)), "learned_floor": int(learned["pair_floor"])}
        for row in run_sql(con, "checks/pair_counts", **names, **floors, max_rows=MOST_PROBLEMS):
            yield "pair_counts", row
