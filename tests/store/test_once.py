"""A command holds its RUN from its beginning to its end, and reads there what stands in it once."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from streambpe.errors import RunLocked
from streambpe.store import parts
from streambpe.store.chunks import read_totals
from streambpe.store.parts import list_parts, read_part
from streambpe.store.run import Run
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from tests.runs import SMALL, counted_run


@pytest.fixture
def seen(monkeypatch) -> Counter[str]:
    """How often a RUN is locked, a part's footer read, and DuckDB connected to."""
    seen: Counter[str] = Counter()

    def counting(module: object, name: str) -> None:
        original = getattr(module, name)

        def counted(*arguments: object, **options: object) -> object:
            seen[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    counting(Run, "_take_lock")
    counting(parts, "read_part")
    counting(duckdb, "connect")
    return seen


def test_a_command_takes_the_lock_once_and_reads_parts_once(tmp_path, seen):
    """From the counts: one lock, one look at the part's footer. Connections: what the tables say of the run, what the
    counts add up to, the counts themselves, and the tables of the training."""
    folder = counted_run(tmp_path / "run", {"abcabc": 3, "abd": 2, "hello": 5})
    seen.clear()
    train(folder, vocab_size=260, resources=SMALL)
    assert seen == {"_take_lock": 1, "read_part": 1, "connect": 4}
    seen.clear()
    assert resume(folder).skipped
    assert seen["_take_lock"] == 1


def test_counting_and_learning_connect_four_times(tmp_path, seen):
    """The tables are made, filled, read, and filled: whoever writes them reads again what was read before."""
    (tmp_path / "a.txt").write_text("some words and some more words")
    train(tmp_path / "run", [str(tmp_path / "a.txt")], vocab_size=260, resources=SMALL)
    assert seen["connect"] == 4


@pytest.mark.long
@pytest.mark.parametrize("table", ["chunk_counts", "group_counts"])
def test_counts_that_are_edited_while_a_command_has_the_run_are_read_again(tmp_path, seen, table):
    """A fold's digest holds until somebody writes to the tables."""
    (tmp_path / "a.txt").write_text("some words and some more words")
    run = Run(tmp_path / "run")
    with run.lock():
        count(run, [str(tmp_path / "a.txt")], group=["a=*a.txt"], resources=SMALL)
        seen.clear()
        totals, *edited = read_totals(run, SMALL)
        assert edited == [False, False]
        assert not seen["connect"]
        with duckdb.connect(str(run.state)) as con:
            con.execute(f"UPDATE {table} SET n = 7 WHERE chunk = ' words'")
        found, *edited = read_totals(run, SMALL)
    assert edited == [table == "chunk_counts", table == "group_counts"]
    assert (found["sha256"] == totals["sha256"]) == (table == "group_counts")


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
        anew = list_parts(found)[0]
        assert anew is not part
        assert anew.groups == read_part(part.path).groups
    assert list_parts(found)[0] is not list_parts(found)[0]
