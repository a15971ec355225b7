"""Chunk counts are read as they lie where they lie in order, and sorted where they do not."""

from __future__ import annotations

import hashlib

import duckdb
import pytest

from streambpe.config import TrainConfig
from streambpe.store.chunks import open_counts
from streambpe.store.counted import copy_rows, digest_counts
from streambpe.store.database import one_thread
from streambpe.store.merge import merged_lists
from streambpe.store.run import Run
from streambpe.train.counts import copy_training_chunks
from tests.runs import SMALL, counted_run

ROWS = 300_000  # in three row groups of DuckDB, so that two threads have work


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """Many chunks, in the order of their bytes."""
    run = Run(counted_run(tmp_path_factory.mktemp("counted") / "run", {"a": 1}))
    with duckdb.connect(str(run.state)) as con:
        con.execute("INSERT INTO chunk_counts SELECT format('b{:06d}', i), i + 1 FROM range(?) t(i)", [ROWS - 1])
    return run


def held(part) -> list[tuple[str, int]]:
    return [row for rows in merged_lists([part], 1 << 20) for row in rows.frame().iter_rows()]


def test_the_threads_come_back_where_a_transaction_failed():
    """Before it is rolled back, the connection itself takes no setting."""
    with duckdb.connect(config={"threads": 3}) as con:
        con.begin()
        with pytest.raises(duckdb.ConversionException), one_thread(con):
            con.execute("SELECT 'a'::INTEGER")
        con.rollback()
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(3,)]


def sorted_reads(told: str) -> int:
    """How often a range was asked for in order, by the trace of SQL."""
    return told.count("read_range ")


@pytest.mark.long
def test_what_a_training_reads_is_not_sorted_where_it_lies_in_order(run, tmp_path, monkeypatch, capsys):
    """View training_chunks joins: several threads would mix its rows."""
    monkeypatch.setenv("STREAMBPE_TRACE_SQL", "1")
    with open_counts(run, SMALL) as con:
        part, _ = copy_training_chunks(con, TrainConfig(), tmp_path / "chunks.parquet", 1 << 20)
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(SMALL.threads,)]
    assert sorted_reads(capsys.readouterr().err) == 0
    assert held(part) == [("a", 1), *((f"b{i:06d}", i + 1) for i in range(ROWS - 1))]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "rows",
    [
        [("b", 2), ("a", 1)],
        [("a", 1), ("a", 2)],
        [(f"{i:06d}", 1) for i in range(32_768)] + [("000001", 5)],  # in a batch of its own
        [("", 1)] * 40_000,
    ],
    ids=["falls", "twice", "in another batch", "empty chunk in two batches"],
)
def test_rows_that_lie_elsewhere_are_sorted_and_added_up(tmp_path, monkeypatch, capsys, rows):
    """For the digest too; and nothing of the first try is left."""
    run = Run(counted_run(tmp_path / "run", {"a": 1}))
    with duckdb.connect(str(run.state)) as con:
        con.execute("DELETE FROM chunk_counts")
        con.execute(
            "INSERT INTO chunk_counts SELECT unnest(?), unnest(?)", [list(column) for column in zip(*rows, strict=True)]
        )
    copied = tmp_path / "copied"
    copied.mkdir()
    total: dict[str, int] = {}
    for chunk, n in rows:
        total[chunk] = total.get(chunk, 0) + n
    monkeypatch.setenv("STREAMBPE_TRACE_SQL", "1")
    with open_counts(run, SMALL) as con:
        part = copy_rows(con, "chunk_counts", copied / "chunks.parquet", 1 << 20)
        assert sorted_reads(capsys.readouterr().err)
        digest = digest_counts(con, 1 << 20)
    assert held(part) == sorted(total.items())
    assert list(part.path.parent.iterdir()) == [part.path]
    expected = hashlib.sha256()
    for chunk, n in sorted(total.items()):
        expected.update(len(chunk).to_bytes(8, "little") + chunk.encode() + n.to_bytes(8, "little"))
    assert digest.facts(0)["sha256"] == expected.hexdigest()
