"""Hot pairs, floors, refills."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from streambpe.train.engine.frontier import SHORT_LIST, FloorRequest, Frontier, best_pairs
from streambpe.train.engine.pair_counter import PairCounter
from tests.tiers import seeds


def filled(count, floor=1, right=None):
    """A frontier of pairs (i, right[i]) with these counts."""
    n = len(count)
    frontier = Frontier()
    rights = np.arange(n) if right is None else np.array(right)
    frontier.fill(np.arange(n), rights, np.array(count, np.int64), floor)
    return frontier


def test_best_is_what_sorting_everything_gives():
    """Under random additions, losses and retirements, the k best and the floor key are those of a full
    sort."""
    for seed in seeds(60):
        rng = random.Random(seed)
        n = rng.randint(1, 6000)
        frontier = filled([rng.randint(1, rng.choice([5, 3000])) for _ in range(n)])
        label = np.array(rng.sample(range(100_000), 20_000))
        for _ in range(8):
            k = rng.choice([1, 3, 100, 3000])
            best = frontier.best(k, label, 1)
            order = sorted(
                (s for s in range(frontier.size) if frontier.count[s] >= 1),
                key=lambda s: (-frontier.count[s], label[frontier.left[s]], label[frontier.right[s]]),
            )
            assert best.slots.tolist() == order[:k]
            if len(order) > k:
                out = order[k]
                assert best.floor_count >= frontier.count[out]
            some = np.array(rng.sample(range(frontier.size), min(50, frontier.size)))
            frontier.count[some] -= frontier.count[some] // 2
            frontier.retire(some[:3])
            new = np.arange(5) + frontier.size
            frontier.add(new, new, np.array([rng.randint(1, 3000) for _ in new]))


def test_floor_of_best_bounds_what_was_left_out_when_ties_fill_the_short_list():
    """Ten times the short list tie for the same count; ties decide."""
    n = 10 * SHORT_LIST
    frontier = filled([7] * n)
    best = frontier.best(5, np.arange(n)[::-1].copy(), 1)
    assert best.slots.tolist() == [n - 1, n - 2, n - 3, n - 4, n - 5]
    assert best.floor_count == 7


def test_find_knows_hot_pairs_from_cold_ones():
    """Look-ups by pair are right before and after thousands of births, in any order of growth."""
    frontier = filled([5] * 1000)
    rng = random.Random(0)
    known = {(i, i): i for i in range(1000)}
    for _ in range(20):
        n = rng.choice([1, 10, 5000])
        left = np.arange(frontier.size, frontier.size + n)
        right = np.array([rng.randint(0, 10**6) for _ in range(n)])
        slots = frontier.add(left, right, np.full(n, 3))
        known |= {(int(a), int(b)): int(s) for a, b, s in zip(left, right, slots, strict=True)}
        asked = [*rng.sample(sorted(known), 50), (0, 1), (10**7, 3)]
        found = frontier.find(np.array([a for a, _ in asked]), np.array([b for _, b in asked]))
        assert found.tolist() == [known.get(pair, -1) for pair in asked]


def test_floor_requests():
    """A floor obeys all of: counts of use, pairs that fit, pairs needed."""
    count = np.array([100, 50, 50, 20, 10, 3, 1])
    assert FloorRequest().floor(count) == 1
    assert FloorRequest(at_least=30).floor(count) == 30
    assert FloorRequest(most=2).floor(count) == 51  # the two fifties come together or not at all
    assert FloorRequest(most=2, fewest=4).floor(count) == 20
    assert FloorRequest(fewest=8).floor(count) == 1  # all there are, and nothing cold behind them
    assert FloorRequest(most=2).floor(np.array([7, 7, 7])) == 7
    assert FloorRequest(at_least=4).floor(np.empty(0, np.int64)) == 4


def test_best_of_a_counter_is_everything_above_its_floor(tmp_path):
    """Chosen table by table, the pairs kept are exactly those that count at least the floor, filters obeyed."""
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        rows = np.stack((rng.integers(0, 300, 1000), rng.integers(1, 10, 1000)), axis=1)
        total = Counter()
        for key, n in rows.tolist():
            total[key] += n
        for wanted in (FloorRequest(most=20), FloorRequest(most=20, fewest=60), FloorRequest(at_least=60)):
            counter = PairCounter(1024, tmp_path)
            for at in range(0, 1000, 100):
                counter.add(rows[at : at + 100])
            assert counter.spills > 3
            kept, floor = best_pairs(counter, wanted, lambda left, right: right % 2 == 0)
            assert kept.tolist() == sorted([key, n] for key, n in total.items() if key % 2 == 0 and n >= floor)
            assert len(kept) >= (wanted.fewest if wanted.fewest > 1 else 0)
