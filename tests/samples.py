"""Small texts and hypothesis strategies the judge's tests share."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

CATS = "the cat and the dog, the end of the day and the cat\n" * 40


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


@cache
def natural_text(seed: int, size: int) -> str:
    """About `size` characters that look like prose to a tokenizer: a long tail of words, numbers, punctuation.

    Words are built from a made-up language's syllables and drawn by Zipf's law, so that counts fall slowly
    and ties are many towards the end; every tenth line is code, and some lines are in other scripts.
    """
    rng = random.Random(seed)
    onsets = ["", "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "st", "tr", "th", "sh", "w"]
    syllables = [a + b + c for a in onsets for b in "aeiouy" for c in ["", "", "n", "r", "s", "t", "ng", "ll"]]
    drawn = ("".join(rng.choices(syllables, k=rng.choice([1, 1, 2, 2, 3, 4]))) for _ in range(min(40_000, size)))
    lexicon = list(dict.fromkeys(drawn))
    foreign = ["привет", "мир", "日本語", "です", "한국", "مرحبا", "é", "naïve", "שלום", "กรุงเทพ", "🙂", "😀👍"]
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(lexicon))))
    lines: list[str] = []
    made = 0
    while made < size:
        words = rng.choices(lexicon, cum_weights=weights, k=200)
        for start in range(0, 200, 10):
            some = words[start : start + 10]
            kind = rng.random()
            if kind < 0.1:
                call = f"{some[2]}({rng.randint(0, 9999)}, '{some[3]}')"
                line = f"    {some[0]}_{some[1]} = {call}  # {' '.join(some[4:])}"
            elif kind < 0.13:
                line = " ".join(rng.choices(foreign, k=8)) + "!" * rng.randint(1, 6)
            else:
                some[rng.randint(0, 9)] += ","
                end = rng.choice([".", ".", "?", "...", f" {rng.randint(1, 2030)}."])
                line = f"{some[0].capitalize()} {' '.join(some[1:])}{end}"
            lines.append(line)
            made += len(line) + 1
    return "\n".join(lines) + "\n"


def prose_documents() -> list[str]:
    """Two hundred documents of set phrases and single words, common ones often."""
    rng = random.Random(5)
    lexicon = list(dict.fromkeys(word for word in natural_text(5, 60_000).split() if word.isalpha()))[:900]
    phrases = [" ".join(rng.choices(lexicon[:120], k=rng.choice([2, 2, 3, 4]))) for _ in range(150)] + lexicon
    weights = [1 / (i % 150 + 5) for i in range(len(phrases))]
    return [" ".join(rng.choices(phrases, weights, k=90)) + "." for _ in range(200)]


def written(path: Path, content: str | bytes, **how: Any) -> Path:
    """A file with this text in UTF-8, or these bytes. `how`: as `write_text` has it."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, **{"encoding": "utf-8", **how})
    return path


def json_lines(path: Path, documents: Iterable[str]) -> str:
    """The name of a file of JSON lines, one for each document."""
    return str(written(path, "".join(json.dumps({"text": document}) + "\n" for document in documents)))
