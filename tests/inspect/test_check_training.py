"""`check` finds every wrong row in the tables of a training, and nothing where all is right."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import duckdb
import msgspec
import pytest

from streambpe.inspect.check import check
from streambpe.model.eventlog import write_event_log
from streambpe.model.events import event_line
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from streambpe.train.counting.take_back import take_back
from streambpe.train.engine import engine
from streambpe.train.engine.rules import EngineTuning
from tests.runs import SMALL, accept, break_off, change, counted_run, log_of, rows, text_run
from tests.samples import natural_text, written
from tests.tiers import long

COLUMNS = {
    "events": ("op", "left_id", "right_id", "id", "n"),
    "tokens": ("bytes", "kind", "born", "died"),
    "pair_counts": ("left_id", "right_id", "n"),
    "token_counts": ("n", "alone"),
    "batches": ("first_seq", "events", "batch"),
    "vetoed": ("seq", "left_id", "right_id", "n"),
}
OTHER = {"op": "'supermerge'", "bytes": "'x'::BLOB", "kind": "'base'"}  # numbers become larger
MORE = {
    "events": "SELECT max(seq) + 1, 'merge', 0, 1, max(id) + 1, 1, NULL FROM events",
    "tokens": "SELECT max(id) + 1, 'zz'::BLOB, 'learned', 3, NULL FROM tokens",
    "pair_counts": "FROM pair_counts LIMIT 1",
    "token_counts": "VALUES (100000, 1, 0)",
    "batches": "SELECT * REPLACE (batch + 1 AS batch, first_seq + events AS first_seq, 0 AS events) FROM batches "
    "ORDER BY batch DESC LIMIT 1",
    "vetoed": "FROM vetoed LIMIT 1",
    "facts": "VALUES ('note', 'mine')",
}
FACTS = {"size": "'7'", "sha256": "reverse(value)", "state": "'unfinished'", "pair_counts_at": "'5'",
         "config": "replace(value, 'disjoint', 'all')"}  # fmt: skip
DAMAGE = [
    *((table, f"UPDATE {table} SET {column} = {OTHER.get(column, f'coalesce({column}, 0) + 1000')} "
       f"WHERE rowid = (SELECT max(rowid) FROM {table})") for table, columns in COLUMNS.items() for column in columns),
    *((table, f"DELETE FROM {table} WHERE rowid = (SELECT {which}(rowid) FROM {table})")
      for table in COLUMNS for which in ("min", "max")),
    *((table, f"INSERT INTO {table} {row}") for table, row in MORE.items()),
    *(("facts", f"UPDATE facts SET value = {value} WHERE key = '{key}'") for key, value in FACTS.items()),
    *(("facts", f"DELETE FROM facts WHERE key = '{key}'") for key in ("reached", "pair_floor", "state")),
]  # fmt: skip

LEARNED = ("pair_counts", "token_counts", "vetoed")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Two trainings in a run, one with stop words, vetoes and a long tail of pairs."""
    run = text_run(tmp_path_factory.mktemp("check") / "run", natural_text(5, 60_000))
    train(run, vocab_size=400, resources=SMALL)
    options = {"overlaps": "disjoint", "stop_list": 2, "freq_cutoff": 2, "block_token": ("an", " s")}
    train(run, name="other", vocab_size=700, resources=SMALL, **options)
    assert check(run, resources=SMALL) == []
    assert len(rows(run, "FROM other.vetoed")) >= 2
    assert len(rows(run, "FROM other.pair_counts")) > 500
    return run


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("table", "statement"),
    [damage if "INSERT" in damage[1] else long(*damage) for damage in DAMAGE],
)
def test_every_wrong_row_of_a_table_is_found(trained, tmp_path, monkeypatch, table, statement):
    """A row that is changed, deleted or added is found, in the right training, and nothing else is. What follows from
    the counts is learned again for that, in tables and not by the core, which may have gone wrong; and RUN stays as it
    was."""
    for learning in ("MemoryLearning", "DiskLearning"):
        monkeypatch.setattr(engine, learning, None)
    run = shutil.copytree(trained, tmp_path / "run")
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("SET schema = 'other'")
        before = con.sql(f"FROM {table}").fetchall()
        con.execute(statement)
        assert con.sql(f"FROM {table}").fetchall() != before, "the statement changes something"
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    problems = {problem.table for problem in check(run, replay=table in LEARNED, resources=SMALL)}
    assert f"other.{table}" in problems
    assert problems <= {f"other.{table}", "other.facts"}
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == files


def test_an_older_training_is_checked_against_its_log(trained, tmp_path):
    """After sources were added, tokens and events are still judged; it cannot be learned again from other counts, which
    is told, and is no difference."""
    run = shutil.copytree(trained, tmp_path / "run")
    count(run, [str(written(tmp_path / "more.txt", "entirely new words"))], resources=SMALL)
    checked = check(run, replay=True, resources=replace(SMALL, temp_dir=tmp_path))
    assert checked == []
    assert not list(tmp_path.glob("sql-*"))
    assert [sentence.partition(" was learned from counts that have changed")[0] for sentence in checked.in_part] == [
        "training main", "training other",
    ]  # fmt: skip
    change(run, "DELETE FROM other.tokens WHERE id = 300")
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.tokens"]


@pytest.mark.long
def test_names_of_any_length_are_learned_again(tmp_path):
    """What is learned again gets a name of its own, which has to be a name too."""
    run = text_run(tmp_path / "run", natural_text(5, 3_000))
    for name in ("a" * 100, "again"):
        train(run, name=name, vocab_size=280, resources=SMALL)
    checked = check(run, replay=True, resources=SMALL)
    assert (checked, checked.in_part) == ([], [])


PHRASES = "the end of the day and the end of the line\n" * 90
OTHER_TEXT = natural_text(9, 4_000).translate({97 + at: 0x3B1 + at for at in range(24)})
SEQUENCES = {"pattern": "boundless", "sequences": True}
TABLES_OF_COUNTS = ["pair_counts", "token_counts", "weighted_counts", "superword_neighbours", "superword_run_numbers"]
HOW: dict[str, tuple[dict, dict]] = {  # options of counting, and of learning
    "plain": ({}, {}),
    "sample": ({"sample": "1/2"}, {}),
    "weights": ({"group_by": "folder"}, {"weight": ["b=2.5"], "stop_list": 2, "freq_cutoff": 2}),
    "alpha": ({"group_by": "folder"}, {"alpha": "0.4", "stop_list": 2}),
    "balance": ({"group_by": "folder"}, {"balance": True, "balance_window": 9}),
    "deletions": ({}, {"tau": "0.6", "delete_to": "walk", "ties": "bytes"}),
    "paper": ({}, {"batch": "paper", "overlaps": "disjoint"}),
    "characters": ({"pattern": "whitespace"}, {"like": "picky", "tau": "0.8", "coverage": "0.9"}),
    "script": ({"pattern": "script", "normalize": "nfc", "unencodable": "drop"}, {"like": "script"}),
    "boundless": (SEQUENCES, {"superwords": "boundless", "vocab_size": 500}),
    "superbpe": (SEQUENCES, {"superwords": "superbpe", "vocab_size": 460, "transition": 440}),
    "uw": ({"pattern": "superbpe1", "sequences": True, "gaps": "keep"}, {"superwords": "uw", "transition": 320}),
    "extend": ({}, {}),
}


def counted_as(folder: Path, kind: str) -> tuple[Path, dict]:
    """A run that one of HOW learns from, in which a file was taken back; and the options to learn with."""
    counting, options = HOW[kind]
    for name, text in (("a", natural_text(5, 9_000) + PHRASES), ("b", OTHER_TEXT), ("c", "not this one")):
        (folder / name).mkdir()
        (folder / name / "text.txt").write_text(text)
    run, sources = folder / "run", [str(folder / name) for name in "abc"]
    count(run, sources, **counting, lines=True, resources=SMALL)
    take_back(run, [str(folder / "c" / "text.txt")], resources=SMALL)
    if kind == "extend":
        given = text_run(folder / "given", natural_text(4, 5_000), "gpt4o")
        train(given, vocab_size=290, resources=SMALL)
        options = {"extend": given}
    return run, {"vocab_size": 2230 if kind == "script" else 360, **options}


@pytest.mark.long
@pytest.mark.parametrize("kind", HOW)
def test_every_kind_of_training_is_learned_again(kind, tmp_path):
    """What is right is right; a count, a row and an event that are not are named, also where the log's digest agrees
    with what was changed."""
    run, options = counted_as(tmp_path, kind)
    train(run, resources=SMALL, **options)
    checked = check(run, replay=True, resources=SMALL)
    assert checked == checked.in_part == []
    log, tables = log_of(run), set()
    last = len(log.events) - 1
    lines = [event_line(event).decode().strip() for event in log.events]
    for events, expected in (
        (log.events[:last], (last, None, lines[last])),
        ([msgspec.structs.replace(log.events[0], n=log.events[0].n + 1), *log.events[1:]], (0, ANY, lines[0])),
    ):
        write_event_log(run / "model.events.jsonl", replace(log, events=events))
        accept(run / "model.events.jsonl")
        told_now = [p.what for p in check(run, replay=True, resources=SMALL) if p.table == "main.events"]
        # an extension whose first events are not those of its model is found without learning
        assert expected in told_now or (kind == "extend" and "do not begin" in str(told_now))
    write_event_log(run / "model.events.jsonl", log)
    accept(run / "model.events.jsonl")
    with duckdb.connect(str(run / "state.duckdb")) as con:
        for table in TABLES_OF_COUNTS:
            if con.sql(f"FROM {table}").fetchall():
                con.execute(f"UPDATE {table} SET n = n + 1 WHERE rowid = (SELECT min(rowid) FROM {table})")
                tables.add(table)
    problems = {problem.table for problem in check(run, replay=True, resources=SMALL)}
    assert problems == {f"main.{table}" for table in tables} != set()


@pytest.mark.long
def test_a_changed_event_log_is_found(trained, tmp_path):
    """A line changed by hand, a log that is gone, and a log whose tables are gone are each named. What `check` advises
    for damaged tables works: remove the event log and train again."""
    run = shutil.copytree(trained, tmp_path / "run")
    log = run / "other.events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"n":', b'"n":1', 1))
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.events"]
    log.unlink()
    assert [problem.table for problem in check(run, resources=SMALL)] == ["other.events"]
    log.write_bytes(whole)
    log.rename(run / "third.events.jsonl")
    assert {problem.table for problem in check(run, resources=SMALL)} == {"other.events", "third.events"}
    (run / "third.events.jsonl").rename(log)
    whole = (run / "model.events.jsonl").read_bytes()
    change(run, "DELETE FROM main.events WHERE seq < 10", "UPDATE main.batches SET events = 0")
    (run / "model.events.jsonl").unlink()
    train(run, vocab_size=400, resources=SMALL)
    assert (run / "model.events.jsonl").read_bytes() == whole
    assert check(run, resources=SMALL) == []


def test_an_unfinished_training_is_told(tmp_path):
    """Stopped half-way, it has no log that its tables could be compared with."""
    run = counted_run(tmp_path / "run", {"abcabcd": 4, "abdcc": 3, "bcbcbd": 2})

    break_off(run, passes=2, tuning=EngineTuning(candidates=1))
    assert rows(run, "SELECT count(*) FROM events") == [(2,)]
    checked = check(run, replay=True, resources=SMALL)
    assert checked == []
    assert ["not done yet" in sentence for sentence in checked.in_part] == [True]
