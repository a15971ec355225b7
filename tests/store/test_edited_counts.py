"""chunk_counts is the truth: what a user changes there is learned from, told, and found by `check`."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streambpe.errors import ResumeMismatch, RunError, Stopped, StreambpeError
from streambpe.inspect.check import check
from streambpe.store import database
from streambpe.store.chunks import read_totals
from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import ROOT, SMALL, change, counted_run, held_open, killed_at, log_of, plain_events, rows
from tests.samples import written
from tests.sequential import learn

COUNTS = {"ab": 5, "cd": 4, "ef": 3, "x": 9}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A run with COUNTS, to copy."""
    return counted_run(tmp_path_factory.mktemp("counted") / "run", COUNTS)


@pytest.fixture
def run(counted: Path, tmp_path: Path) -> Path:
    """A run with COUNTS."""
    return Path(shutil.copytree(counted, tmp_path / "run"))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("statement", "learned", "row"),
    [
        ("UPDATE chunk_counts SET n = 40 WHERE chunk = 'cd'", [40, 5, 3], ("cd", 40, 4)),
        ("DELETE FROM chunk_counts WHERE chunk = 'ab'", [4, 3], ("ab", None, 5)),
        ("INSERT INTO chunk_counts VALUES ('aa', 7)", [7, 5, 4, 3], ("aa", 7, None)),
        ("INSERT INTO chunk_counts VALUES ('cd', 7)", [11, 5, 3], ("cd", 11, 4)),
    ],
)
def test_the_next_training_learns_from_an_edited_row(run, statement, learned, row):
    """With a warning, a mark in the log's header, and the row named by `check`; wherever the row lies in the table."""
    change(run, statement)
    result = train(run, vocab_size=300, resources=SMALL)
    assert [event.n for event in log_of(run).events] == learned
    assert "edited" in " ".join(result.warnings)
    assert log_of(run).header.corpus["edited"] is True
    problems = check(run, resources=SMALL)
    assert [problem.what for problem in problems if problem.table == "chunk_counts"] == [row]
    assert not [problem for problem in problems if problem.table.startswith("main.")]
    again = train(run, vocab_size=300, resources=SMALL)
    assert again.skipped
    assert "edited" in " ".join(again.warnings)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "put_in",
    [[*((f"{i:06d}", 1) for i in range(32_768)), ("000001", 5)], [("", 1)] * 40_000 + [("ab", 2)]],
    ids=["in another batch", "empty chunk in two batches"],
)
def test_rows_that_lie_elsewhere_are_sorted_and_added_up(run, put_in):
    """Also where DuckDB gives them in another batch of rows than their neighbours; in the digest, too."""
    total = Counter[str]()
    for chunk, n in put_in:
        total[chunk] += n
    columns = [list(column) for column in zip(*put_in, strict=True)]
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("DELETE FROM chunk_counts")
        con.execute("INSERT INTO chunk_counts SELECT unnest(?), unnest(?)", columns)
    train(run, vocab_size=257, alphabet="bytes", resources=SMALL)
    assert plain_events(run) == learn([(chunk.encode(), n) for chunk, n in total.items()], 1)
    expected = hashlib.sha256()
    for chunk, n in sorted(total.items()):
        expected.update(len(chunk).to_bytes(8, "little") + chunk.encode() + n.to_bytes(8, "little"))
    assert log_of(run).header.corpus["sha256"] == expected.hexdigest()


@pytest.mark.long
@pytest.mark.parametrize("table", ["chunk_counts", "group_counts"])
def test_counts_that_are_edited_while_a_command_has_the_run_are_read_again(tmp_path, table):
    """What counting knows of the tables holds until somebody writes to them."""
    run, text = Run(tmp_path / "run"), written(tmp_path / "a.txt", "some words and some more words")
    with run.lock():
        count(run, [str(text)], group=["a=*a.txt"], resources=SMALL)
        assert read_totals(run, SMALL)[1:] == (False, False)
        change(run.path, f"UPDATE {table} SET n = 7 WHERE chunk = ' words'")
        assert read_totals(run, SMALL)[1:] == (table == "chunk_counts", table == "group_counts")


@pytest.mark.long
@pytest.mark.parametrize("table", ["chunk_counts", "group_counts"])
def test_weights_do_not_follow_edits_and_say_so(tmp_path, table):
    """`check` names the row; counting again from counts/ takes it back."""
    run, texts = tmp_path / "run", {"de": "ja ja so\n", "en": "so so no\n"}
    sources = [str(written(tmp_path / f"{name}.txt", text)) for name, text in texts.items()]
    count(run, sources, group=["de=*de.txt", "en=*en.txt"], resources=SMALL)
    change(run, f"UPDATE {table} SET n = 40 WHERE chunk = ' so'")
    assert {problem.table for problem in check(run, resources=SMALL)} >= {table}
    with pytest.raises(RunError, match="--weight uses the counts of groups"):
        train(run, vocab_size=258, weight={"de": "2"}, resources=SMALL)
    count(run, [], resources=SMALL)
    assert train(run, vocab_size=258, weight={"de": "2"}, resources=SMALL).reached


def test_nothing_is_added_to_edited_counts(run, tmp_path):
    """It is refused before anything is counted; filling the tables again from counts/ takes the edit back, and says
    so; then more can be counted."""
    change(run, "UPDATE chunk_counts SET n = 40 WHERE chunk = 'cd'")
    more = [str(written(tmp_path / "more.csv", "chunk,count\ncd,2\ngh,1\n"))]
    other = counted_run(tmp_path / "other", {"gh": 1})
    parts = sorted(run.glob("counts/*"))
    for add in (lambda: count(run, more, counts=True, resources=SMALL), lambda: merge_counts(run, [other])):
        with pytest.raises(RunError, match=r"was edited, and .* would undo that"):
            add()
    assert sorted(run.glob("counts/*")) == parts
    assert dict(rows(run, "FROM chunk_counts")) == {**COUNTS, "cd": 40}
    told = count(run, [], resources=SMALL).warnings
    assert "edited" in " ".join(told)
    assert dict(rows(run, "FROM chunk_counts")) == COUNTS
    assert count(run, more, counts=True, resources=SMALL).warnings == ()
    assert dict(rows(run, "FROM chunk_counts")) == {**COUNTS, "cd": 6, "gh": 1}
    assert train(run, vocab_size=300, resources=SMALL).warnings == ()
    assert "edited" not in log_of(run).header.corpus
    assert check(run, resources=SMALL) == []


def test_an_edit_behind_a_kill_is_not_undone(run, tmp_path):
    """A part is committed, and the tables are not filled with it yet."""
    more = str(written(tmp_path / "more.csv", "chunk,count\ncd,2\n"))
    with killed_at("part-committed"):
        count(run, [more], counts=True, resources=SMALL)
    change(run, "UPDATE chunk_counts SET n = 40 WHERE chunk = 'cd'")
    with pytest.raises(RunError, match="was edited, and filling the tables"):
        train(run, vocab_size=300, resources=SMALL)
    assert dict(rows(run, "FROM chunk_counts")) == {**COUNTS, "cd": 40}


@pytest.mark.long
def test_a_training_does_not_go_on_with_other_counts(run):
    """An edit after it began is like a source that was added."""
    train(run, vocab_size=258, resources=SMALL)
    change(run, "UPDATE chunk_counts SET n = 40 WHERE chunk = 'cd'")
    with pytest.raises(ResumeMismatch, match="edited"):
        train(run, vocab_size=300, resources=SMALL)
    train(run, vocab_size=300, name="second", resources=SMALL)
    assert [event.n for event in log_of(run, "second").events] == [40, 5, 3]


def test_edited_counts_that_pass_64_bits_are_refused(run):
    """In one message, before anything is learned."""
    change(run, "UPDATE chunk_counts SET n = 9223372036854775807 WHERE chunk IN ('ab', 'cd')")
    with pytest.raises(StreambpeError, match="64-bit"):
        train(run, vocab_size=300, resources=SMALL)


@pytest.mark.long
def test_a_training_waits_for_a_shell_and_says_so_once(run):
    """As long as it takes; then it learns."""
    command = [sys.executable, "-m", "streambpe", "train", str(run), "--vocab-size", "300", "--memory", "400MB"]
    with (
        held_open(run, "writer") as held,
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as training,
    ):
        assert training.stderr is not None
        line = training.stderr.readline()
        assert f"is open in process {held.pid}" in line
        assert "waiting" in line
        held.stdin.close()
        rest = training.communicate(timeout=60)[1]
        assert training.returncode == 0, rest
        assert "is open in" not in rest
    assert [event.n for event in log_of(run).events] == [5, 4, 3]


def test_waiting_for_a_shell_ends_by_a_stop(run, monkeypatch):
    """Nothing is changed by then."""
    stop, wait = threading.Event(), database._wait

    def stop_and_wait(*given: Any, **told: bool) -> bool:
        stop.set()  # it has found that a shell holds the file
        return wait(*given, **told)

    monkeypatch.setattr(database, "_wait", stop_and_wait)
    with held_open(run, "writer"), pytest.raises(Stopped, match="was open in") as why:
        train(run, vocab_size=300, resources=SMALL, stop=stop)
    assert why.value.signal_number == signal.SIGINT
    assert not (run / "model.events.jsonl").exists()
