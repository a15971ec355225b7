"""Counts of pairs added up over blocks: by threads, over files on disk, within a limit."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from streambpe.threads import in_order
from streambpe.train.engine.column import write_column
from streambpe.train.engine.pair_counter import PairCounter
from tests.sequential import count_pairs, engine_words, hard_words


def rows_of(rng: random.Random, many: int) -> np.ndarray:
    """Rows (key, count)."""
    return np.array([(rng.randint(0, 300) << 32 | rng.randint(0, 2), rng.randint(-3, 9)) for _ in range(many)])


@pytest.mark.every(2)
@pytest.mark.parametrize("limit", [4096, 1, 1 << 20])
def test_rows_add_up_whatever_the_limit(tmp_path, limit):
    """Every table holds other pairs, none more than the limit; together they are the sums, and no file stays behind."""
    rng = random.Random(limit)
    counter, wanted = PairCounter(limit, tmp_path, 2), Counter()
    for _ in range(30):
        rows = rows_of(rng, 200)
        counter.add(rows)
        for key, n in rows.tolist():
            wanted[key] += n
    tables = [table.parted(1)[0] for table in counter.tables()]
    assert all(16 * len(rows) < max(limit, 512) for rows in tables)
    assert (len(tables) == 1) == (limit == 1 << 20)
    assert (counter.spills == 0) == (limit == 1 << 20)
    found = [tuple(row) for rows in tables for row in rows.tolist()]
    assert len(found) == len(wanted)
    assert dict(found) == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_blocks_counted_by_two_threads_are_those_of_a_plain_loop(tmp_path, disjoint, limit):
    """A table that is full in the middle of a block, and of a run of equal tokens, loses nothing."""
    for seed in range(40):
        words = hard_words(random.Random(seed), 60)
        counter = PairCounter(limit, tmp_path, 2)

        def one(at, words=words, counter=counter):
            flat = engine_words(words[at : at + 8])
            counter.count(*write_column(flat.symbols, flat.offsets, flat.weights), disjoint)

        list(in_order(one, range(0, len(words), 8), 2))
        found = [(key >> 32, key & 0xFFFFFFFF, n) for rows in counter.rows() for key, n in rows.tolist()]
        wanted = count_pairs(words, "disjoint" if disjoint else "all")
        assert sorted(found) == sorted((*pair, n) for pair, n in wanted.items())


def test_a_counter_that_is_closed_removes_its_files(tmp_path):
    """Also one that nobody asked for its sums."""
    counter = PairCounter(1, tmp_path)
    counter.add(rows_of(random.Random(0), 500))
    assert len(list(tmp_path.iterdir())) == counter.spills > 10
    counter.close()
    assert list(tmp_path.iterdir()) == []
