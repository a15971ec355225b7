"""Cuts of a user's own pattern: random expressions on hostile texts, by pieces, judged by find-all on whole texts."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import regex

from streambpe.core.strings import ChunkList, as_buffers
from streambpe.text import chunker as chunker_module
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.cuts import sure_cuts
from streambpe.text.patterns import Pattern
from tests.hostile import buffer_of

LETTERS = "ab1 A.,'\n\t\u00e9\u0130\u0301\u4e2d"
ATOMS = [
    "a", "b", "1", " ", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", "[^a]", "[a-b]", r"[^\s\w]", r"\p{L}", r"\p{N}",
    r"\P{L}", "'", ".", r"\.", r"[\r\n]", r"\p{Lu}", "\u00e9", ",", "\u0130",
]  # fmt: skip
TIMES = ["", "", "+", "*", "?", "{1,3}", "{2}", "+?", "*+", "??", "{0,2}", "{1,}", "++", "{1}"]


def random_expression(rng: random.Random, depth: int) -> str:
    branches = []
    for _ in range(rng.randint(1, 3)):
        made = ""
        for _ in range(rng.randint(1, 3)):
            if depth and rng.random() < 0.3:
                made += rng.choice(["(?:", "(", "(?i:", "(?>"]) + random_expression(rng, depth - 1) + ")"
            else:
                made += rng.choice(ATOMS)
            made += rng.choice(TIMES)
            if rng.random() < 0.15:
                made += rng.choice([r"(?!\S)", r"(?=\s)", r"(?!\p{L})", r"(?=\d)", "$", r"\b", "(?<=a)", "(?=ab)"])
        branches.append(made)
    return "|".join(branches)


@pytest.mark.parametrize("seed", range(8))
def test_pieces_give_the_chunks_of_the_whole(seed, monkeypatch):
    """Whatever is repeated, looked at, grouped; with cuts proved in many, and several texts of joined pieces."""
    monkeypatch.setattr(chunker_module, "_AT_ONCE", 3)
    monkeypatch.setattr(chunker_module, "_REPEATS", 0)
    rng, proved = random.Random(seed), 0
    for _ in range(60):
        expression = rng.choice(["", "", "(?s)", "(?i)"]) + random_expression(rng, 2)
        expression += rng.choice(["", r"|\s+(?!\S)|\s+|\w+|[^\w\s]+"])
        try:
            compiled = regex.compile(expression)
        except regex.error:
            continue
        proved += sure_cuts(expression) is not None
        texts = ["".join(rng.choices(LETTERS, k=rng.randint(0, 14))) for _ in range(12)]
        in_order = [[*(found[0] for found in compiled.finditer(text) if found[0]), None] for text in texts]
        expected = Counter(chunk for chunks in in_order for chunk in chunks if chunk)
        chunker = Chunker(Pattern("regex", expression, None))
        still_open = rng.randrange(2)  # whether the last document is
        names, places = chunker.matched(buffer_of(*texts)[: -1 if still_open else None])
        assert sorted(names) == sorted(expected), expression
        found = [names[at] if at >= 0 else None for at in places.tolist()]
        assert found == [chunk for chunks in in_order for chunk in chunks][: -1 if still_open else None], expression
        counted = chunker.count_pieces(buffer_of(*texts))
        if counted is not None:
            chunks = ChunkList(*as_buffers(counted[0]), counted[1])
            assert dict(chunks.frame().iter_rows()) == expected, expression
    assert proved > 5, "without cuts nothing is shown"


QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@pytest.mark.parametrize("expression", [QWEN, r"\s?\w+|\s?[^\s\w]+|\s+"])
@pytest.mark.parametrize("repeats", [1, 50])
def test_what_people_use_is_counted_by_pieces_where_these_repeat(expression, repeats):
    """If hardly any does, their table is full, and the text is split as a whole."""
    rng = random.Random(repeats)
    document = " ".join("".join(rng.choices("abcdef", k=8)) for _ in range(30_000))
    assert sure_cuts(expression) is not None
    chunker = Chunker(Pattern("regex", expression, None))
    text = buffer_of(*[document] * repeats)
    assert (chunker.count_pieces(text) is None) == (repeats == 1)
    counts = ChunkCounts(chunker, 1 << 30)
    counts.add(text)
    expected = Counter(regex.findall(expression, document) * repeats)
    assert dict(counts.take().frame().iter_rows()) == expected
