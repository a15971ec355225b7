"""`streambpe sql` on a run that counts, or was killed while counting: what is committed so far."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from streambpe.resources import Resources
from streambpe.store.merge import merged_lists
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.counting.count import count
from tests.runs import cli, ended, rows
from tests.samples import sample_text

ONE = Resources(400 * 10**6, 1)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run that was counted once, and killed while it counted a second source. It lies where Hive would read a column
    n of fives from the name of the folder."""
    run = tmp_path / "n=5" / "run"
    run.parent.mkdir()
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text(sample_text(seed, words=1500), encoding="utf-8")
    count(run, [str(tmp_path / "a.txt")], resources=ONE)
    given = {"run": run, "sources": [str(tmp_path / "b.txt")], "block": 5000, "threads": 1, "counting": {}}
    assert ended("part-committed", **given) == -signal.SIGKILL
    return run


def asked(run: Path, query: str) -> list[dict[str, object]]:
    """The rows of a query, and that it was told how far the count is."""
    done = cli("sql", run, query, "--json")
    assert "is not counted to its end: " in done.stderr
    assert "chunk_counts and sources show what is committed so far, " in done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_counts_and_sources_are_those_of_the_committed_parts(killed):
    """The table of the first fold and the parts behind it; views of them too."""
    parts = list_parts(Run(killed))
    n = {row["chunk"]: row["n"] for row in asked(killed, "SELECT chunk, n FROM chunk_counts")}
    total = {chunk: m for rows in merged_lists(parts, 1 << 20) for chunk, m in rows.frame().iter_rows()}
    assert n == total
    assert sum(n.values()) > rows(killed, "SELECT sum(n)::INT FROM chunk_counts")[0][0]
    (row,) = asked(killed, "SELECT max(share_so_far) AS all_of_them, sum(n)::INT AS n FROM chunk_frequencies")
    assert row == {"all_of_them": 1.0, "n": sum(n.values())}
    complete = asked(killed, "SELECT complete FROM source_files ORDER BY path")
    assert complete == [{"complete": True}, {"complete": False}]
    assert len(asked(killed, "FROM sources")) == len(parts.spans)


@pytest.mark.long
def test_nothing_else_can_be_reached(killed):
    """The parts may be read; other files may not, and nothing is written. After the count has ended nothing is told."""
    before = Run(killed).written_at()
    refused = cli("sql", killed, "FROM read_csv('/etc/passwd')", expect=1).stderr
    assert "only reads RUN's tables" in refused
    part = killed / "counts" / "part-00001.parquet"
    cli("sql", killed, f"COPY (SELECT 1) TO '{part}'", expect=1)
    assert list_parts(Run(killed))
    assert Run(killed).written_at() == before
    cli("resume", killed)
    done = cli("sql", killed, "SELECT sum(n)::INT AS n FROM chunk_counts", "--csv")
    assert done.stderr == ""
    assert int(done.stdout.split()[1]) == sum(part.total for part in list_parts(Run(killed)))
