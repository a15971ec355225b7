"""--learner tables: what it learns is what the slow reference learns, and its tables are true between passes.

Deletions, superwords and SCRIPT are tried beside the other learners (test_engine.py, test_superwords.py ...).
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streambpe.errors import LimitError, RunError, Stopped
from streambpe.inspect.check import check
from streambpe.train import disk_bound
from streambpe.train.commands import train
from tests.runs import SMALL, rows, text_run
from tests.samples import natural_text
from tests.sequential import (
    count_pairs,
)

TABLES = replace(SMALL, learner="tables")


def tables_of(folder: Path) -> tuple[Counter[tuple[tuple[int, ...], int]], dict[tuple[int, int], int]]:
    """The words of several tokens, with how often they stand, and the pairs, as SQL reads them in the folder."""
    with duckdb.connect(str(folder / "pairs.duckdb"), read_only=True) as con:
        con.execute("SET file_search_path = ?", [str(folder)])  # else a shell is started there
        words = con.sql("SELECT list(token ORDER BY place), any_value(n) FROM words GROUP BY block, word").fetchall()
        pairs = {(left, right): n for left, right, n in con.sql("FROM pair_counts").fetchall()}
    return Counter((tuple(word), n) for word, n in words if len(word) > 1), pairs


# From the command line


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A counted run, 30 KB of text."""
    return text_run(tmp_path_factory.mktemp("counted") / "run", natural_text(9, 30_000))


@pytest.mark.long
def test_stopped_the_tables_can_be_looked_at_and_learning_goes_on(counted, tmp_path):
    """After three passes words and pairs are there, `sql` tells the events; in the end the log is the core's."""
    run, core = shutil.copytree(counted, tmp_path / "run"), shutil.copytree(counted, tmp_path / "core")
    stop, passes = threading.Event(), itertools.count(1)
    with pytest.raises(Stopped):
        train(run, resources=TABLES, vocab_size=400, stop=stop, on_batch=lambda _: next(passes) == 3 and stop.set())
    folder = run / "training/main/blocks/tables"
    held, pairs = tables_of(folder)
    assert pairs == count_pairs([(list(word), n) for word, n in held.elements()], "all")
    ((events, modes),) = rows(run, "SELECT count(*), (SELECT any_value(mode) FROM batches) FROM events")
    assert (events > 0, modes) == (True, "tables")
    ((best,),) = rows(run, "SELECT max(n) FROM pair_counts")
    assert best == max(pairs.values())
    train(run, resources=TABLES, vocab_size=400)
    train(core, resources=SMALL, vocab_size=400)
    assert (run / "model.events.jsonl").read_bytes() == (core / "model.events.jsonl").read_bytes()
    assert not folder.exists()
    assert check(run, resources=SMALL) == []


def test_a_damaged_block_is_named(counted, tmp_path, monkeypatch):
    """A bit flips in a block: the message names the file, and the same command continues."""
    run = shutil.copytree(counted, tmp_path / "run")
    monkeypatch.setattr("streambpe.train.engine.in_tables._CACHE_SHARE", 1 << 40)  # no block stays in memory
    passes = itertools.count(1)

    def damage_at_the_third(_: Any) -> None:
        if next(passes) == 3:
            block = next((run / "training").rglob("words-00000.parquet"))
            content = bytearray(block.read_bytes())
            content[len(content) // 2] ^= 4
            block.write_bytes(content)

    with pytest.raises(RunError, match=r"words-00000\.parquet is damaged .* Give the same command again") as told:
        train(run, resources=TABLES, vocab_size=400, on_batch=damage_at_the_third)
    assert "checksum" in str(told.value)
    train(run, resources=TABLES, vocab_size=400)
    assert check(run, resources=SMALL) == []


def test_max_disk_counts_its_tables(counted, tmp_path, monkeypatch):
    """--max-disk looks at the blocks too: what they take is told, and with more learning goes on."""
    run = shutil.copytree(counted, tmp_path / "run")
    monkeypatch.setattr(disk_bound, "_LOOK_SECONDS", 0.005)
    limit = disk_bound.used_bytes(run, None, None) + 100_000  # a database alone takes more
    with pytest.raises(LimitError, match=r"--max-disk .* is reached"):
        train(run, resources=replace(TABLES, max_disk_bytes=limit), vocab_size=300, on_batch=lambda _: time.sleep(0.1))
    train(run, resources=TABLES, vocab_size=300)
    assert check(run, resources=SMALL) == []
