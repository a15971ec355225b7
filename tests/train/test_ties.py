"""Ties by bytes: words that begin alike, large alphabets, long runs. The events are those of one merge at a time."""

from __future__ import annotations

import random

from streambpe.model.alphabet import chars_alphabet
from tests.sequential import (
    learn,
    run,
)
from tests.tiers import seeds


# Thirty words, most of them the first letters of one row of letters: half the tokens are born beside each other.
def test_large_alphabets_and_long_runs():
    """Hundreds of symbols of one to four bytes, words of dozens of ascending or equal letters, ties everywhere."""
    for seed in seeds(25):
        rng = random.Random(7000 + seed)
        letters = rng.sample([*range(97, 123), *range(0x3B1, 0x3CA), *range(0x4E00, 0x4E00 + 600), 0x1F600], 400)
        alphabet = chars_alphabet(map(chr, letters))
        base = alphabet.symbols
        words = []
        for _ in range(30):
            start, length = rng.randrange(len(base)), rng.randint(2, 70)
            kind = rng.choice(["row", "row", "run", "any"])
            if kind == "row":  # every merge's token stands just behind its left part
                word = list(range(start % 5, min(len(base), start % 5 + length)))
            elif kind == "run":
                word = [start % 3] * length + [rng.randrange(len(base))]
            else:
                word = rng.choices(range(len(base)), k=rng.randint(1, 8))
            words.append((word, rng.choice([1, 1, 1, 2, 3])))
        overlaps = rng.choice(["all", "disjoint"])
        want = learn(words, 150, ties="bytes", overlaps=overlaps, alphabet=alphabet)
        some = {"candidates": rng.choice([3, 16, 2048])}
        assert run(words, 150, ties="bytes", overlaps=overlaps, base=base, **some)[0] == want, f"seed {seed}"
