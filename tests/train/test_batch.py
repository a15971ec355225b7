"""Known merges in one pass: which occurrences are made, and BatchBPE's rule."""

from __future__ import annotations

import random

import numpy as np

from streambpe.train.engine import batch
from streambpe.train.engine.batch import Places


def slow_executed(rank, linked):
    """Take occurrences by rank, from the left among equals; drop those that touch one already taken."""
    taken = [False] * len(rank)
    for i in sorted(range(len(rank)), key=lambda i: (rank[i], i)):
        left = i > 0 and linked[i - 1] and taken[i - 1]
        right = i + 1 < len(rank) and linked[i] and taken[i + 1]
        taken[i] = not left and not right
    return taken


def test_executed_is_what_taking_them_by_rank_gives():
    """Rounds of local decisions equal the slow loop, on chains with long runs of one pair among others."""
    for seed in range(500):
        rng = random.Random(seed)
        n = rng.randint(1, 40)
        rank = np.array([rng.randint(0, rng.choice([0, 2, 5, 40])) for _ in range(n)])
        linked = np.array([rng.random() < 0.8 for _ in range(n - 1)], bool)
        assert batch.executed_by_rank(rank, linked).tolist() == slow_executed(rank, linked), f"seed {seed}"


def test_a_run_of_ten_thousand_is_decided_at_once():
    """A long run of one pair costs a round, not one per place; a falling chain still comes out right."""
    rank = np.zeros(10_000, np.int64)
    linked = np.ones(9_999, bool)
    assert batch.executed_by_rank(rank, linked).tolist() == [True, False] * 5_000
    falling = np.arange(1_001)[::-1].copy()
    assert batch.executed_by_rank(falling, linked[:1_000]).tolist() == [True, False] * 500 + [True]


def places(starts, pairs):
    """Places of width-1 tokens, weight 1."""
    start = np.array(starts)
    return Places(start, start + 1, np.array(pairs), np.ones(len(start), np.int64))


def test_merge_takes_every_other_place_of_a_run():
    """Five equal tokens hold four places; the first and third are merged. A new run starts anew."""
    rows = batch.leftmost_of_equal(places([1, 2, 3, 4, 9, 10, 20], [0] * 7))
    assert rows.tolist() == [0, 2, 4, 6]
    assert batch.leftmost_of_equal(places([], [])).tolist() == []


def test_pairs_are_grouped_alike_with_narrow_and_wide_ids():
    """Packed sort and plain argsort give the same groups, rows ascending inside each."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 50, 500), rng.integers(0, 50, 500)
    narrow, wide = batch.group_pairs(left, right, 50), batch.group_pairs(left, right, 1 << 30)
    assert narrow.rows.tolist() == wide.rows.tolist()
    assert narrow.first.tolist() == wide.first.tolist()
    want = {}
    for row, pair in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        want.setdefault(pair, []).append(row)
    got = [rows.tolist() for rows in np.split(narrow.rows, narrow.first[1:])]
    assert got == [want[pair] for pair in sorted(want)]
    assert narrow.sums(np.ones(500, np.int64)).tolist() == narrow.sizes().tolist()


def test_paper_rule_by_hand():
    """Position-sensitive: a token may start many pairs of a batch or end many, not both."""
    t, h, e, i, n, a = range(6)
    assert batch.paper_safe([t, h, i, a], [h, e, n, t]) == [0, 2]
    assert batch.paper_safe([a, a], [a, t]) == [0]  # (a, a) is safe when new; then a is taken on both sides
    assert batch.paper_safe([a, a], [t, a]) == [0]
    assert batch.paper_batch_size(100, 256, 2, 10**9) == 50
    assert batch.paper_batch_size(100, 256, 2, 7) == 7
    assert batch.paper_batch_size(1, 256, 2, 7) == 1
    assert batch.paper_batch_size(10**6, 300, 2, 10**9) == 300
