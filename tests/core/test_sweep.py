"""Known merges in one look at a block, judged by one merge after the other over lists of Python."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from streambpe.core.pairs import PairTable
from streambpe.core.scan import BlockMerger
from streambpe.train.engine.column import read_column, write_column
from tests.sequential import count_pairs, engine_words, hard_words, merge


def lists(column, weights):
    """The words of a column, with their weights."""
    symbols, offsets, n = read_column(column, weights)
    return [(symbols[offsets[i] : offsets[i + 1]].tolist(), int(n[i])) for i in range(len(n))]


def changed(before, after):
    """How counts of pairs changed, without those that did not."""
    change = Counter(after)
    change.subtract(before)
    return {pair: n for pair, n in change.items() if n}


def slow(words, pairs, overlaps):
    """One merge after the other: words, what each pair counts at its turn, how often it is made, changes of counts."""
    before, counts, made = count_pairs(words, overlaps), [], []
    for new, pair in enumerate(pairs, 1000):
        counts.append(count_pairs(words, overlaps).get(pair, 0))
        words = [(merge(word, pair, new), n) for word, n in words]
        made.append(sum(word.count(new) * n for word, n in words))
    return words, counts, made, changed(before, count_pairs(words, overlaps))


def fast(words, pairs, disjoint):
    """The same in the core."""
    flat, table = engine_words(words), PairTable()
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    merger = BlockMerger(left, right, np.arange(1000, 1000 + len(pairs)), disjoint)
    column, weights = write_column(flat.symbols, flat.offsets, flat.weights, 1)
    column, merged = merger.merge(column, weights, table)
    changes = {(key >> 32, key & 0xFFFFFFFF): n for key, n in table.parted(1)[0].tolist() if n}
    return lists(column, weights), merged, changes


def test_six_letters():
    """The example of sweep.c: abcab five times, (a, b) before (b, c)."""
    words, merged, changes = fast([(b"abcab", 5)], [(97, 98), (98, 99)], False)
    assert words == [([1000, 99, 1000], 5)]
    assert merged.count.tolist() == merged.made.tolist() == [10, 0]
    assert (merged.found, merged.executed) == (3, 2)
    assert changes == {(97, 98): -10, (98, 99): -5, (99, 97): -5, (1000, 99): 5, (99, 1000): 5}


@pytest.mark.parametrize("overlaps", ["all", "disjoint"])
def test_any_merges_in_any_order(overlaps):
    """Equal pairs, pairs that overlap, pairs that stand nowhere: words, counts and changes are the slow ones."""
    equal = overlapping = 0
    for seed in range(400):
        rng = random.Random(seed)
        words = [(list(word), n) for word, n in hard_words(rng) if word]
        letters = sorted({letter for word, _ in words for letter in word}) or [97]
        pairs = list({(rng.choice(letters), rng.choice(letters)) for _ in range(rng.randint(1, 12))})
        rng.shuffle(pairs)
        want, counts, made, changes = slow(words, pairs, overlaps)
        got, merged, found = fast(words, pairs, overlaps == "disjoint")
        assert got == want, f"seed {seed}"
        assert merged.count.tolist() == counts, f"seed {seed}"
        assert merged.made.tolist() == made, f"seed {seed}"
        assert found == changes, f"seed {seed}"
        equal += any(a == b for a, b in pairs)
        overlapping += merged.executed < merged.found
    assert equal > 100
    assert overlapping > 100


@pytest.mark.long
def test_a_word_of_a_million_letters_is_merged_in_linear_time():
    """Long runs of one pair, and a chain of pairs that all overlap."""
    word = [97] * 500_000 + [97, 98, 99, 100] * 125_000
    pairs = [(97, 98), (98, 99), (99, 100), (100, 97), (97, 97)]
    got, merged, changes = fast([(word, 3)], pairs, False)
    want, counts, made, expected = slow([(word, 3)], pairs, "all")
    assert (got, merged.count.tolist(), merged.made.tolist(), changes) == (want, counts, made, expected)
