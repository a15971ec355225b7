"""Chunk counts are read as they lie where they lie in order, and sorted where they do not."""

from __future__ import annotations

import hashlib
from collections import Counter

import duckdb
import pytest

from streambpe.store.chunks import open_counts
from streambpe.store.counted import copy_rows, digest_counts
from streambpe.store.database import one_thread
from streambpe.store.merge import merged_lists
from streambpe.store.run import Run
from tests.runs import SMALL, counted_run


def test_the_threads_come_back_where_a_transaction_failed():
    """Before it is rolled back, the connection itself takes no setting."""
    with duckdb.connect(config={"threads": 3}) as con:
        con.begin()
        with pytest.raises(duckdb.ConversionException), one_thread(con):
            con.execute("SELECT 'a'::INTEGER")
        con.rollback()
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(3,)]


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
        columns = [list(column) for column in zip(*rows, strict=True)]
        con.execute("INSERT INTO chunk_counts SELECT unnest(?), unnest(?)", columns)
    copied = tmp_path / "copied"
    copied.mkdir()
    total = Counter[str]()
    for chunk, n in rows:
        total[chunk] += n
    monkeypatch.setenv("STREAMBPE_TRACE_SQL", "1")
    with open_counts(run, SMALL) as con:
        part = copy_rows(con, "chunk_counts", copied / "chunks.parquet", 1 << 20)
        assert "read_range " in capsys.readouterr().err, "a range was asked for in order"
        digest = digest_counts(con, 1 << 20)
    assert [row for rows in merged_lists([part], 1 << 20) for row in rows.frame().iter_rows()] == sorted(total.items())
    assert list(part.path.parent.iterdir()) == [part.path]
    expected = hashlib.sha256()
    for chunk, n in sorted(total.items()):
        expected.update(len(chunk).to_bytes(8, "little") + chunk.encode() + n.to_bytes(8, "little"))
    assert digest.facts(0)["sha256"] == expected.hexdigest()
