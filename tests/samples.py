"""Small texts and hypothesis strategies the judge's tests share."""

from __future__ import annotations

import random

import regex
from hypothesis import strategies as st

WORD = r" ?\p{L}+| ?[^\s\p{L}]+|\s+"


def sample_text(seed: int, words: int = 3000) -> str:
    """Words of a made-up language, common ones often: with repeats (aaaa), accents and other scripts."""
    rng = random.Random(seed)
    syllables = ["ba", "na", "aa", "lo", "é", "ñu", "th", "e", "日本", "ด", "ing", "zz", "x"]
    lexicon = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(300)]
    weights = [1 / rank for rank in range(1, 301)]
    text = []
    for word in rng.choices(lexicon, weights, k=words):
        text.append(word + rng.choice(["", "", "", ",", ".", "...", "\n"]))
    return " ".join(text)


def chunks_of(text: str, pattern: str = WORD) -> list[bytes]:
    """The text cut by a pattern that covers everything."""
    return [match.encode() for match in regex.findall(pattern, text)]


# Tiny alphabets and short words: ties, runs of equal symbols and exhausted corpora come up all the time.
word_counts = st.dictionaries(
    st.text("abc", min_size=1, max_size=9).map(str.encode), st.integers(1, 9), min_size=1, max_size=8
)

# Documents over few chunks, so that neighbours repeat; some chunks spell what two others spell together.
documents = st.lists(
    st.lists(
        st.sampled_from([b"a", b"b", b"ab", b" a", b" ab", b" b", b" aa", b"aab", b" bab", b".", b" abab"]),
        max_size=25,
    ),
    min_size=1,
    max_size=6,
)
