"""Counts of pairs added up over blocks: by threads, over files on disk, within a limit."""

from __future__ import annotations

import random

import pytest

from streambpe.threads import in_order
from streambpe.train.engine.column import write_column
from streambpe.train.engine.pair_counter import PairCounter
from tests.sequential import count_pairs, engine_words, hard_words


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_blocks_counted_by_two_threads_are_those_of_a_plain_loop(tmp_path, disjoint, limit):
    """A table that is full in the middle of a block, and of a run of equal tokens, loses nothing, and no file stays
    behind."""
    spills = 0
    for seed in range(40):
        words = hard_words(random.Random(seed), 60)
        counter = PairCounter(limit, tmp_path, 2)

        def one(at, words=words, counter=counter):
            flat = engine_words(words[at : at + 8])
            counter.count(*write_column(flat.symbols, flat.offsets, flat.weights), disjoint)

        list(in_order(one, range(0, len(words), 8), 2))
        found = []
        for table in counter.tables():
            rows = table.parted(1)[0]
            assert 16 * len(rows) < max(limit, 512)
            found += [(key >> 32, key & 0xFFFFFFFF, n) for key, n in rows.tolist()]
        wanted = count_pairs(words, "disjoint" if disjoint else "all")
        assert sorted(found) == sorted((*pair, n) for pair, n in wanted.items())
        spills += counter.spills
        assert list(tmp_path.iterdir()) == []
    assert (spills > 40) == (limit == 1)
