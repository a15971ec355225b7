"""Hot pairs, floors, refills and spilled counts."""

from __future__ import annotations

import random

import numpy as np
import polars as pl

from streambpe.train.engine.frontier import SHORT_LIST, FloorWish, Frontier, PairCounter


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
    for seed in range(60):
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


def test_floor_wishes():
    """A floor obeys all of: counts of use, pairs that fit, pairs needed, logged counts."""
    count = np.array([100, 50, 50, 20, 10, 3, 1])
    assert FloorWish().floor(count) == 1
    assert FloorWish(at_least=30).floor(count) == 30
    assert FloorWish(most=2).floor(count) == 51  # the two fifties come together or not at all
    assert FloorWish(most=2, fewest=4).floor(count) == 20
    assert FloorWish(most=3, at_most=3).floor(count) == 3
    assert FloorWish(fewest=8).floor(count) == 1  # all there are, and nothing cold behind them
    assert FloorWish(most=2).floor(np.array([7, 7, 7])) == 7
    assert FloorWish(at_least=4).floor(np.empty(0, np.int64)) == 4


def frame(rng, rows):
    """Partial pair counts."""
    return pl.DataFrame(
        {
            "key": [rng.randint(0, 300) for _ in range(rows)],
            "n": [rng.randint(1, 9) for _ in range(rows)],
        }
    )


def test_spilled_counts_add_up(tmp_path):
    """Counts spilled many times equal counts kept in memory, and no file stays behind."""
    rng = random.Random(0)
    frames = [frame(rng, 200) for _ in range(30)]
    small, large = PairCounter(100, tmp_path), PairCounter(10**6, None)
    for partial in frames:
        small.add(partial)
        large.add(partial)
    assert small.spills >= 10
    assert large.spills == 0
    got = pl.concat(small.parts()).sort("key")
    assert got.equals(pl.concat(large.parts()).sort("key"))
    assert got["key"].is_unique().all()
    assert list(tmp_path.iterdir()) == []


def test_best_of_a_counter_is_everything_above_its_floor(tmp_path):
    """Chosen part by part, the pairs kept are exactly those that count at least the floor, filters obeyed."""
    for seed in range(20):
        rng = random.Random(seed)
        frames = [frame(rng, 100) for _ in range(10)]
        total = pl.concat(frames).group_by("key").agg(pl.col("n").sum())
        for wish in (
            FloorWish(most=20),
            FloorWish(most=20, fewest=60),
            FloorWish(at_least=60),
        ):
            counter = PairCounter(100, tmp_path)
            for partial in frames:
                counter.add(partial)
            kept, floor = counter.best(wish, lambda left, right: right % 2 == 0)
            want = total.filter((pl.col("key") % 2 == 0) & (pl.col("n") >= floor)).sort("key")
            assert kept.sort("key").equals(want)
            if wish.fewest > 1:
                assert len(kept) >= wish.fewest
