"""A command holds its RUN from its beginning to its end, and reads there what stands in it once."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from streambpe.store import parts
from streambpe.store.run import Run
from streambpe.train.commands import train
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
    """Connections: the tables are made, filled, read, and filled. From the counts: what the tables say of the run, what
    the counts add up to, the counts themselves, and the tables of the training."""
    (tmp_path / "a.txt").write_text("some words and some more words")
    counted = counted_run(tmp_path / "counted", {"abcabc": 3, "abd": 2, "hello": 5})
    for run, sources in ((tmp_path / "run", [str(tmp_path / "a.txt")]), (counted, [])):
        seen.clear()
        train(run, sources, vocab_size=260, resources=SMALL)
        assert seen == {"_take_lock": 1, "read_part": 1, "connect": 4}
