"""Index and scan find the same occurrences and rewrite the same words."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streambpe.train import batch
from streambpe.train.engine import Words
from streambpe.train.frontier import FloorWish, Frontier
from streambpe.train.occurrences import (
    IndexColumn,
    Links,
    ScanColumn,
    drop_finished,
    read_column,
    word_numbers,
    write_column,
)
from tests.sequential import count_pairs, hard_words, merge


def columns(words, tmp_path, *, disjoint=False, block=12):
    """The same words as an index and as a scan over small blocks."""
    flat = Words.of(words)
    index = IndexColumn(*write_column(flat.symbols, flat.offsets, flat.weights), 256, disjoint=disjoint)
    scan = ScanColumn(tmp_path, disjoint=disjoint, threads=2)
    for at in range(0, len(words), max(1, block // 6)):
        stop = min(len(words), at + max(1, block // 6))
        scan.append(*write_column(flat.symbols, flat.offsets[at : stop + 1], flat.weights[at:stop]))
    return index, scan


def filled(column):
    """A frontier with the pairs of this column."""
    frontier = Frontier()
    column.fill(frontier, 512, FloorWish(), None, 10**6, None)
    return frontier


def test_a_column_holds_the_words_of_two_tokens_and_more():
    """Words of fewer than two tokens are left out; the others and their weights read back as written."""
    flat = Words.of([(b"abc", 3), (b"", 1), (b"x", 9), (b"de", 2)])
    column, weights = write_column(flat.symbols, flat.offsets, flat.weights)
    assert column.tolist() == [-1, 97, 98, 99, -1, 100, 101, -1]
    assert weights.tolist() == [3, 2]
    symbols, offsets, again = read_column(column, weights)
    assert symbols.tolist() == [97, 98, 99, 100, 101]
    assert offsets.tolist() == [0, 3, 5]
    assert again.tolist() == [3, 2]
    assert word_numbers(column).tolist() == [0, 0, 0, 0, 1, 1, 1, 2]


def test_finished_words_leave_with_their_weights():
    """A word that has become one token goes, its weight with it, and the others stay in order."""
    column = np.array([-1, 5, -1, 6, 7, -1, 8, -1], np.int32)
    left, weights = drop_finished(column, np.array([1, 2, 3]))
    assert left.tolist() == [-1, 6, 7, -1]
    assert weights.tolist() == [2]
    assert drop_finished(np.array([-1, 5, -1], np.int32), np.array([1]))[0].tolist() == [-1]


@pytest.mark.parametrize("disjoint", [False, True])
def test_index_and_scan_count_the_same(tmp_path, disjoint):
    """All pairs with their counts are those of a plain loop, by one sort, in pieces, and block by block."""
    for seed in range(40):
        words = hard_words(random.Random(seed))
        index, scan = columns(words, tmp_path / str(seed), disjoint=disjoint)
        lean, _ = columns(words, tmp_path / "unused", disjoint=disjoint)
        lean.lean = True
        want = count_pairs(words, "disjoint" if disjoint else "all")
        by_index, by_lean = filled(index), filled(lean)
        for frontier in (by_index, by_lean, filled(scan)):
            got = zip(frontier.left.tolist(), frontier.right.tolist(), frontier.count.tolist(), strict=True)
            assert {(a, b): n for a, b, n in got} == want
        if not want:
            continue
        pairs = random.Random(seed).sample(sorted(want), min(4, len(want)))
        left, right = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
        one = index.describe(index.find(by_index, by_index.find(left, right)), left, right)
        two = lean.describe(lean.find(by_lean, by_lean.find(left, right)), left, right)
        for name in ("start", "pair", "weight", "before", "after", "run_before", "run_after"):
            a, b = getattr(one, name), getattr(two, name)
            assert (a is None and b is None) or a.tolist() == b.tolist(), name


def test_a_digest_holds_every_pair_above_its_floor_with_its_count(tmp_path):
    """Whatever fits, and whatever may not merge: pairs above the floor count in the digest what they count in all."""
    cut = smaller = 0
    for seed in range(90):
        rng = random.Random(seed)
        words = hard_words(rng)
        _, scan = columns(words, tmp_path / str(seed))
        want = count_pairs(words, "all")
        best = sorted(want.items(), key=lambda item: -item[1])
        k = rng.randint(1, 6)
        left, right = (np.array([pair[side] for pair, _ in best[:k]], np.int64) for side in (0, 1))
        count = np.array([n for _, n in best[:k]], np.int64)
        floor = best[k][1] if len(best) > k else 0
        refused = rng.choice([None, lambda a, b: (a + b) % 3 > 0])
        links = Links(left, right, count, floor, [pair for pair, _ in best[k + 1 : k + 2]], refused)
        digest = scan.digest(links, 256, rng.choice([10, 20, 1000]))
        if digest is None:
            continue
        cut += digest.size < len(left)
        smaller += len(digest.column) < scan.places
        symbols, offsets, weights = read_column(digest.column, digest.weights)
        held = [(symbols[offsets[i] : offsets[i + 1]].tolist(), int(weights[i])) for i in range(len(weights))]
        counted = count_pairs(held, "all")
        for pair, n in best[: digest.size]:
            if n > links.floor_of(digest.size):
                assert counted[pair] == n
    assert cut > 5
    assert smaller > 20


def words_of(column):
    """The words a column holds now, as lists with weights."""
    out = []
    for symbols, offsets, weights in column.current_words():
        out += [(symbols[offsets[i] : offsets[i + 1]].tolist(), int(weights[i])) for i in range(len(weights))]
    return [(word, n) for word, n in out if len(word) > 1]


def test_applying_rewrites_the_words_as_merge_does(tmp_path):
    """Merged in index and scan, and by way of a digest, three times over, the words are those MERGE gives."""
    for seed in range(40):
        words = [(list(word), n) for word, n in hard_words(random.Random(seed))]
        index, scan = columns(words, tmp_path / str(seed))
        _, other = columns(words, tmp_path / f"{seed}-other")
        want = [(word, n) for word, n in words if len(word) > 1]
        for new in (256, 257, 258):
            if not want:
                break
            count = count_pairs(want, "all")
            pair = min(count, key=lambda pair: (-count[pair], pair))
            left, right = np.array([pair[0]]), np.array([pair[1]])
            links = Links(left, right, np.array([count[pair]]), 0, [], None)
            digest = other.digest(links, new, 1000)
            assert digest is not None
            part = IndexColumn(digest.column.copy(), digest.weights, new, disjoint=False, drop_finished=False)
            for column in (index, part):
                frontier = Frontier()
                column.compact()
                column.fill(frontier, new, FloorWish(), None, 10**6, None)
                found = column.find(frontier, frontier.find(left, right))
                if pair[0] == pair[1]:
                    found = found.take(batch.leftmost_of_equal(found))
                done = column.describe(found, left, right)
                column.apply(done, np.full(len(done), new), left[done.pair], right[done.pair], new + 1)
            merged = scan.merge(filled(scan), left, right, np.array([new]), new + 1)
            part.compact()
            other.rewrite(digest, part.token)
            assert merged.executed <= merged.found
            want = [(merge(word, pair, new), n) for word, n in want]
            want = [(word, n) for word, n in want if len(word) > 1]
            assert words_of(index) == want
            assert words_of(scan) == want
            assert words_of(other) == want


def test_moving_to_the_index_keeps_the_words_and_removes_the_files(tmp_path):
    """The blocks become one column in order, and nothing is left on disk."""
    words = hard_words(random.Random(3))
    _, scan = columns(words, tmp_path)
    before = words_of(scan)
    assert len(scan.lengths) > 2
    index = scan.to_index(256, lean=False)
    assert words_of(index) == before
    assert list(tmp_path.iterdir()) == []
