"""Killed where parts are put together, a count ends as if nothing had happened. (Otherwise: tests/kills.py.)"""

from __future__ import annotations

import signal

import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.train.counting.count import count
from tests.runs import Driver, rows
from tests.samples import sample_text, written


@pytest.mark.long
@pytest.mark.parametrize("place", ["part-written:20", "merge-committed", "merge-committed:2"])
def test_killed_where_parts_are_put_together(tmp_path, place):
    """In small blocks, a part each: a small corpus meets what a large one does."""
    source = written(tmp_path / "a.txt", sample_text(0, words=90_000))
    given = {"run": tmp_path / "run", "sources": [source], "counting": {}}
    killed = Driver({"STREAMBPE_FAILPOINT": place}, **given, block=5_000)
    assert killed.end()[0] == -signal.SIGKILL, "the place was reached"
    assert Driver(**given, block=20_000).end()[0] == 0
    count(tmp_path / "whole", [str(source)], resources=Resources(256 << 20, 2))
    assert Run(tmp_path / "run").facts()["corpus"] == Run(tmp_path / "whole").facts()["corpus"]
    query = "SELECT chunk, n FROM chunk_counts ORDER BY chunk"
    assert rows(tmp_path / "run", query) == rows(tmp_path / "whole", query)
    assert check(tmp_path / "run", sources=True, resources=Resources(256 << 20, 2)) == []
    assert not [path for path in (tmp_path / "run").rglob("*") if ".new" in path.name], "unfinished files do not stay"
