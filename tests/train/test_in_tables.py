"""--learner tables: what it learns is what the slow reference learns, and its tables are true between passes.

Deletions, superwords and SCRIPT are tried beside the other learners (test_deletions.py, test_superwords.py ...).
"""

from __future__ import annotations

import itertools
import random
import shutil
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streambpe.errors import LimitError, RunError, Stopped, UsageError
from streambpe.inspect.check import check
from streambpe.model.replay import merge
from streambpe.train import disk_bound
from streambpe.train.commands import train
from tests.runs import SMALL, cli, rows, text_run
from tests.samples import natural_text
from tests.sequential import (
    BASE,
    count_pairs,
    engine_options,
    engine_words,
    events_of,
    hard_words,
    learn,
    new_engine,
    run,
)
from tests.tiers import seeds

TABLES = replace(SMALL, learner="tables")
# All blocks are read from their files, most pairs are left in the table, and batches end early.
TINY: dict[str, Any] = {"learner": "tables", "block_places": 60, "hot_pairs": 8, "memory_bytes": 1 << 10}
# What is learned


HOSTILE = {
    "nothing": [],
    "words of one byte": [(b"a", 5), (b"", 1), (b"b", 2)],
    "one long repeat": [(b"a" * 1000, 3), (b"a" * 999, 2), (b"aa", 1)],
    "all pairs tie": [(bytes([first, second]), 5) for first in range(12) for second in range(100, 120)],
    "two letters in turns": [(b"ab" * 300, 1), (b"ba" * 299, 1)],
    "large counts": [(b"abcabd", 2**40), (b"bcab", 2**40 + 1), (b"cabd", 2**40 - 1), (b"xyz", 1)],
    "counts beyond what a double can tell": [
        (b"ab", 2**57 + 1),
        (b"cd", 2**57 + 2),
        (b"ef", 2**57),
        (b"gh", 2**57 + 2),
    ],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("overlaps", ["all", "disjoint"])
def test_hostile_words(name, overlaps):
    """Whatever they are, the events are the reference's."""
    words, merges = HOSTILE[name], 40
    for way in (TINY, {"learner": "tables"}):
        assert run(words, merges, overlaps=overlaps, **way)[0] == learn(words, merges, overlaps=overlaps)


# The tables


def tables_of(folder: Path) -> tuple[Counter[tuple[tuple[int, ...], int]], dict[tuple[int, int], int]]:
    """The words of several tokens, with how often they stand, and the pairs, as SQL reads them in the folder."""
    with duckdb.connect(str(folder / "pairs.duckdb"), read_only=True) as con:
        con.execute("SET file_search_path = ?", [str(folder)])  # else a shell is started there
        words = con.sql("SELECT list(token ORDER BY place), any_value(n) FROM words GROUP BY block, word").fetchall()
        pairs = {(left, right): n for left, right, n in con.sql("FROM pair_counts").fetchall()}
    return Counter((tuple(word), n) for word, n in words if len(word) > 1), pairs


def test_between_passes_everything_is_in_the_tables(tmp_path):
    """Stopped after any pass: SQL reads the words as they are then, and all their pairs."""
    for seed in seeds(48):
        rng = random.Random(seed)
        words = [(list(word), n) for word, n in hard_words(rng)]
        engine = new_engine(
            engine_words(words),
            BASE,
            engine_options(work_dir=tmp_path / str(seed), **rng.choice([TINY, {**TINY, "candidates": 3}])),
        )
        for _ in range(rng.randint(0, 4)):
            for left, right, new, _ in events_of([batch] if (batch := engine.step(50)) else []):
                words = [(merge(word, (left, right), new), n) for word, n in words]
        engine.hot_pairs()
        engine.close()
        held, pairs = tables_of(tmp_path / str(seed) / "tables")
        assert held == Counter((tuple(word), n) for word, n in words if len(word) > 1)
        assert pairs == count_pairs(words, "all")


# From the command line


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A counted run, 30 KB of text."""
    return text_run(tmp_path_factory.mktemp("counted") / "run", natural_text(9, 30_000))


def test_stopped_the_tables_can_be_looked_at_and_learning_goes_on(counted, tmp_path):
    """After three passes words and pairs are there, `sql` tells the events; in the end the log is the core's."""
    run, core = shutil.copytree(counted, tmp_path / "run"), shutil.copytree(counted, tmp_path / "core")
    stop, passes = threading.Event(), itertools.count(1)
    with pytest.raises(Stopped):
        train(run, resources=TABLES, vocab_size=600, stop=stop, on_batch=lambda _: next(passes) == 3 and stop.set())
    folder = run / "training/main/blocks/tables"
    held, pairs = tables_of(folder)
    assert pairs == count_pairs([(list(word), n) for word, n in held.elements()], "all")
    ((events, modes),) = rows(run, "SELECT count(*), (SELECT any_value(mode) FROM batches) FROM events")
    assert (events > 0, modes) == (True, "tables")
    ((best,),) = rows(run, "SELECT max(n) FROM pair_counts")
    assert best == max(pairs.values())
    train(run, resources=TABLES, vocab_size=600)
    train(core, resources=SMALL, vocab_size=600)
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
        train(run, resources=TABLES, vocab_size=600, on_batch=damage_at_the_third)
    assert "checksum" in str(told.value)
    train(run, resources=TABLES, vocab_size=600)
    assert check(run, resources=SMALL) == []


def test_what_it_does_not_do_is_refused_by_name(counted, tmp_path):
    """--balance belongs to the core; a learner that there is not is told which there are. Nothing is changed."""
    run = shutil.copytree(counted, tmp_path / "run")
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    done = cli("train", run, "--vocab-size", 300, "--learner", "tables", "--balance", expect=2)
    assert "--balance --learner tables: only the core can balance. Nothing was changed." in done.stderr
    assert "polars is none of core, tables" in cli("train", run, "--learner", "polars", expect=2).stderr
    with pytest.raises(UsageError, match=r"--learner polars: one of core, tables\. Nothing was changed\."):
        replace(SMALL, learner="polars")
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before


def test_max_disk_counts_its_tables(counted, tmp_path, monkeypatch):
    """--max-disk looks at the blocks too: what they take is told, and with more learning goes on."""
    run = shutil.copytree(counted, tmp_path / "run")
    monkeypatch.setattr(disk_bound, "_LOOK_SECONDS", 0.005)
    limit = disk_bound.used_bytes(run, None, None) + 200_000  # a database alone takes more
    with pytest.raises(LimitError, match=r"--max-disk .* is reached"):
        train(run, resources=replace(TABLES, max_disk_bytes=limit), vocab_size=900)
    train(run, resources=TABLES, vocab_size=900)
    assert check(run, resources=SMALL) == []
