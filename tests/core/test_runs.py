"""Texts cut into runs in the core, judged by a loop."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.pairs import PairTable
from streambpe.core.runs import KeptPairs, RunCounter

symbols = st.lists(st.integers(-2, 3), max_size=60)
Pairs = set[tuple[int, int]]
pairs = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))
some = st.sets(st.integers(0, 3), max_size=2)


def kept_pairs(kept: Pairs, right: set[int], left: set[int], ids: int = 4) -> KeptPairs:
    table = PairTable()
    table.hold(np.array([(a << 32) | b for a, b in kept], np.int64))
    return KeptPairs(table, *(np.array([i in found for i in range(ids)]) for found in (right, left)))


def cut(text: list[int], kept: Pairs, right: set[int], left: set[int]) -> list[list[int]]:
    """Its symbols in stretches, those of one and barriers too."""
    stretches: list[list[int]] = []
    for symbol in text:
        before = stretches[-1][-1] if stretches else -1
        if min(before, symbol) >= 0 and ((before, symbol) in kept or before in right or symbol in left):
            stretches[-1].append(symbol)
        else:
            stretches.append([symbol])
    return stretches


def taken(counter: RunCounter) -> list[tuple[tuple[int, ...], int]]:
    """All runs of a counter, in its order."""
    rows, last = [], -1
    for table in counter.take():
        runs, by, n = (column.to_pylist() for column in table.columns)
        assert [last, *by] == sorted([last, *by])
        last = by[-1]
        rows += [(tuple(np.frombuffer(run, np.int32).tolist()), many) for run, many in zip(runs, n, strict=True)]
    return rows


@given(symbols, pairs, some, some)
def test_runs_are_counted(text, kept, right, left):
    """As a loop over the text says; each distinct run once."""
    wanted = Counter(tuple(run) for run in cut(text, kept, right, left) if len(run) > 1)
    counter = RunCounter(1 << 20)
    room, at = counter.count(kept_pairs(kept, right, left), np.array(text, np.int32), 0, open_end=False)
    assert (room, at) == (True, len(text))
    rows = taken(counter)
    assert dict(rows) == wanted
    assert len(rows) == len(wanted)
    assert counter.empty


@given(symbols, symbols, pairs, some, some)
def test_a_text_may_go_on(first, second, kept, right, left):
    """What is open at the end of the first is found, and so is what the second adds to it."""
    whole, pairs_kept = cut(first + second, kept, right, left), kept_pairs(kept, right, left)
    text, counter = np.array(first, np.int32), RunCounter(1 << 20)
    _, at = counter.count(pairs_kept, text, 0, open_end=True)
    stretches = cut(first, kept, right, left)
    assert at == len(first) - (len(stretches[-1]) if first and first[-1] >= 0 else 0)
    if first:
        goes_on = pairs_kept.goes_on(first[-1], np.array(second, np.int32))
        joined = first[-1] >= 0 and len(stretches) <= len(whole) and len(whole[len(stretches) - 1]) - len(stretches[-1])
        assert goes_on == joined


def test_a_full_table_stops_and_loses_nothing():
    """What is counted up to there, and the rest in other tables, is everything."""
    rng = np.random.default_rng(5)
    text = rng.integers(-1, 400, 20_000).astype(np.int32)
    kept = kept_pairs(set(), set(range(400)), set(), 400)
    wanted = Counter(tuple(run) for run in cut(text.tolist(), set(), set(range(400)), set()) if len(run) > 1)
    total: Counter[tuple[int, ...]] = Counter()
    at, room, tables = 0, False, 0
    while not room:
        counter = RunCounter(1)
        room, at = counter.count(kept, text, at, open_end=False)
        total.update(dict(taken(counter)))
        tables += 1
    assert total == wanted
    long = np.tile(np.arange(400, dtype=np.int32), 200)  # one run that does not fit
    counter = RunCounter(1)
    room, at = counter.count(kept, long, 0, open_end=False)
    assert (room, at) == (False, 0)
    assert counter.empty
