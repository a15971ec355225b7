"""Neighbours counted in the core, judged by Counter."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.pairs import PairTable, count_from_here

symbol = st.one_of(st.integers(-1, 3), st.sampled_from([-5, 0, 2**31 - 1, 2**31 - 2]))
texts = st.lists(symbol, max_size=60)


def neighbours(text: list[int]) -> Counter[tuple[int, int]]:
    return Counter(pair for pair in pairwise(text) if min(pair) >= 0)


def as_pairs(keys: np.ndarray) -> list[tuple[int, int]]:
    return [(key >> 32, key & 0xFFFFFFFF) for key in keys.tolist()]


@given(st.lists(texts, max_size=4))
def test_neighbours_are_counted_over_several_texts(many):
    """Those beside a barrier are none; keys come out ascending."""
    table, wanted = PairTable(), Counter()
    for text in many:
        assert table.count(np.array(text, np.int32), count_from_here())
        wanted += neighbours(text)
    assert len(table) == len(wanted)
    keys, n = table.take()
    assert as_pairs(keys) == sorted(wanted)
    assert n.tolist() == [wanted[pair] for pair in sorted(wanted)]


def test_a_full_table_stops_and_loses_nothing():
    """What is counted up to there, and the rest in another table, is everything."""
    rng = np.random.default_rng(5)
    text = rng.integers(-1, 400, 50_000).astype(np.int32)
    total: Counter[tuple[int, int]] = Counter()
    state, tables, is_full = count_from_here(), 0, True
    while is_full:
        table = PairTable(1 << 19)
        is_full = not table.count(text, state)
        keys, n = table.take()
        total.update(dict(zip(as_pairs(keys), n.tolist(), strict=True)))
        tables += 1
    assert tables > 2
    assert total == neighbours(text.tolist())
