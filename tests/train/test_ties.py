"""Ties by bytes: words that begin alike, large alphabets, long runs. The events are those of one merge at a time."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streambpe.model.alphabet import chars_alphabet
from streambpe.train.commands import train
from tests.oracles.tables import check
from tests.runs import SMALL, counted_run
from tests.sequential import (
    learn,
    run,
)
from tests.tiers import seeds
from tests.train.test_trainer import assert_equal_to_reference

# Thirty words, most of them the first letters of one row of letters: half the tokens are born beside each other.
BEGIN_ALIKE = (
    "abcdefghijklmnopqrstuvwxyzαβγδε abcdefghijklmnopqrstuv abcdef j abcdefghijklmnopqrstu "
    "abcdefghijklmnopqrstuvwxyzαβγδεζηθικλμνξοπ ν abcdefghi ab νiχwy ςi wα uv abcdefghijklmnopq φiαθ cξlsu wg "
    "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqr abcdefghijklmnopqrstuvwxy "
    "abcdefghijklmnopqrstuvwxyzαβγδεζηθικλμν abcdefghij abc νbοοvy κwδσ abcdefghijk mgdωk abcdefghijklmno κvλa ee"
)


@pytest.mark.long
def test_like_kensho_on_words_that_begin_alike(tmp_path):
    """400 bytes of text whose tokens are born beside each other, until no pair is left: the reference's events."""
    (tmp_path / "text.txt").write_text(BEGIN_ALIKE)
    train(tmp_path / "run", [str(tmp_path / "text.txt")], like="kensho", resources=SMALL, vocab_size=2000)
    assert check(tmp_path / "run", resources=SMALL) == []
    counts = Counter(word if i == 0 else " " + word for i, word in enumerate(BEGIN_ALIKE.split(" ")))
    again = counted_run(tmp_path / "counted", counts)
    for name, options in (("plain", {}), ("pruned", {"tau": "0.8"})):
        expected = assert_equal_to_reference(again, counts, name, like="kensho", vocab_size=2000, **options)
        assert len(expected.events) > 90


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
