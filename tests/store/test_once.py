"""A RUN has one writer at a time, and what it keeps of what it read holds until that is written anew."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from streambpe.errors import RunLocked
from streambpe.store.chunks import read_totals
from streambpe.store.parts import list_parts, read_part
from streambpe.store.run import Run
from streambpe.train.counting.count import count
from tests.runs import SMALL, counted_run


@pytest.mark.long
@pytest.mark.parametrize("table", ["chunk_counts", "group_counts"])
def test_counts_that_are_edited_while_a_command_has_the_run_are_read_again(tmp_path, table):
    """A fold's digest holds until somebody writes to the tables."""
    (tmp_path / "a.txt").write_text("some words and some more words")
    run = Run(tmp_path / "run")
    with run.lock():
        count(run, [str(tmp_path / "a.txt")], group=["a=*a.txt"], resources=SMALL)
        totals, edited = read_totals(run, SMALL)
        assert not edited
        with duckdb.connect(str(run.state)) as con:
            con.execute(f"UPDATE {table} SET n = 7 WHERE chunk = ' words'")
        found, edited = read_totals(run, SMALL)
    assert edited
    assert (found["sha256"] == totals["sha256"]) == (table == "group_counts")
    assert edited.groups == (table == "group_counts")


def test_another_thread_is_another_writer(tmp_path):
    """Also with the same object: while one thread holds the run, another is refused, and the first goes on holding."""
    run = Run(tmp_path / "run")

    def take() -> None:
        with run.lock():
            pass

    with ThreadPoolExecutor(1) as pool, run.lock():
        for _ in range(2):
            with pytest.raises(RunLocked):
                pool.submit(take).result()
        take()
        with pytest.raises(RunLocked), Run(run.path).lock():
            pass
    take()


def test_what_was_written_is_read_anew(tmp_path):
    """Facts after they were added to, parts after the file was replaced; without the lock always."""
    path = counted_run(tmp_path / "run", {"abc": 3})
    found = Run(path)
    with found.lock():
        assert "more" not in found.facts()
        found.facts()["more"] = "not kept"
        assert "more" not in found.facts()
        found.put_facts({"more": "1"})
        assert found.facts()["more"] == "1"
        (part,) = list_parts(found)
        assert list_parts(found)[0] is part
        shutil.copy(part.path, tmp_path / "same").rename(part.path)  # the same content in another file
        assert list_parts(found)[0] == read_part(part.path)
    assert list_parts(found)[0] is not list_parts(found)[0]
