"""Expressions of one's own in the core, and where they surely cut: judged by find-all of `regex` on whole texts."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import regex

from streambpe.errors import PatternTooSlow
from streambpe.sources.borders import find_border
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.dialects import translated
from streambpe.text.patterns import PRESETS, Pattern, find_pattern
from tests.encode.test_patterns_elsewhere import OWN, REAL
from tests.hostile import buffer_of, fast_documents, random_text
from tests.tiers import share

LETTERS = "ab1 A.,'\n\t\u00e9\u0130\u0301\u4e2d\u3002"
ATOMS = [
    "a", "b", "1", " ", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", "[^a]", "[a-b]", r"[^\s\w]", r"\p{L}", r"\p{N}",
    r"\P{L}", "'", ".", r"\.", r"[\r\n]", r"\p{Lu}", "\u00e9", ",", "\u0130", r"\p{Han}", r"\X", "(?P<n>a)",
]  # fmt: skip
TIMES = ["", "", "+", "*", "?", "{1,3}", "{2}", "+?", "*+", "??", "{0,2}", "{1,}", "++", "{1}", "{2,}", "{1,2}+",
         "{1}+", "{1,1}+"]  # fmt: skip
PLACES = [r"(?!\S)", r"(?=\s)", r"(?!\p{L})", r"(?=\d)", "$", r"\Z", "^", r"\b", "(?<=a)", "(?<!a|\\d)", "(?=ab)",
          "(?<=a.|b)", r"(?=\w+\s*$)", r"(?!a|\s+b)", r"(?<!\s)"]  # fmt: skip


def random_expression(rng: random.Random, depth: int) -> str:
    branches = []
    for _ in range(rng.randint(1, 3)):
        made = ""
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.08:
                made += rng.choice(PLACES)
            if depth and rng.random() < 0.3:
                made += rng.choice(["(?:", "(", "(?i:", "(?>"]) + random_expression(rng, depth - 1) + ")"
            else:
                made += rng.choice(ATOMS)
            made += rng.choice(TIMES)
            if rng.random() < 0.15:
                made += rng.choice(PLACES)
        branches.append(made)
    return "|".join(branches)


def split_there(compiled: regex.Pattern[str], text: str, keep_gaps: bool) -> list[str]:
    """The definition."""
    chunks, at = [], 0
    for found in compiled.finditer(text, timeout=0.5):
        chunks += [text[at : found.start()] if keep_gaps else "", found[0]]
        at = found.end()
    return [chunk for chunk in [*chunks, text[at:] if keep_gaps else ""] if chunk]


def pieces_of(pattern: Pattern, text: str) -> list[str]:
    """A text, cut wherever that is proved."""
    pieces = []
    while pattern.cuts and (at := pattern.cuts.last_cut(text, pattern.keep_gaps)):
        pieces.append(text[at:])
        text = text[:at]
    return [text, *reversed(pieces)]


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions(seed):
    """Whatever is repeated, looked at, grouped, held: the core gives the chunks of `regex`; and all pieces between sure
    cuts give those of the whole."""
    rng, run, cut = random.Random(seed), 0, 0
    for _ in range(share(600, 60)):
        expression = rng.choice(["", "", "(?s)", "(?i)"]) + random_expression(rng, 2)
        expression += rng.choice(["", r"|\s+(?!\S)|\s+|\w+|[^\w\s]+"])
        try:
            compiled = regex.compile(expression)
        except regex.error:
            continue
        pattern = Pattern("regex", expression, None, keep_gaps=rng.random() < 0.3, document_seconds=0.05)
        texts = ["".join(rng.choices(LETTERS, k=rng.randint(0, 14))) for _ in range(12)] + [random_text(rng, 8)]
        try:
            expected = [split_there(compiled, text, pattern.keep_gaps) for text in texts]
            found = fast_documents(buffer_of(*texts), pattern)
        except (TimeoutError, PatternTooSlow):
            continue
        run += 1
        assert found == expected, expression
        for text, chunks in zip(texts, expected, strict=True):
            pieces = pieces_of(pattern, text)
            cut += len(pieces) > 1
            assert [c for p in pieces for c in split_there(compiled, p, pattern.keep_gaps)] == chunks, expression
    assert min(run, cut) > 5, "nothing is shown"


READ = [
    translated(expression, "oniguruma" if "Onig" in name or name == "BLOOM" else "rust", "regex")
    for name, expression in REAL.items()
    if name != "Llama 3's beside U+0345"
]
KNOWN = [*(p.expression for p in PRESETS.values() if p.expression and not p.by_rules), *OWN, *READ]


@pytest.mark.parametrize("expression", KNOWN)
def test_expressions_that_people_use(expression):
    """On hostile text, whole and in blocks that end at sure cuts; gaps kept and left out."""
    rng = random.Random(expression)
    texts = [random_text(rng, 60) for _ in range(12)]
    compiled = regex.compile(expression)
    for keep_gaps in (False, True):
        pattern = Pattern("regex", expression, None, keep_gaps=keep_gaps)
        expected = [split_there(compiled, text, keep_gaps) for text in texts]
        assert pattern.program is None or fast_documents(buffer_of(*texts), pattern) == expected
        for text, chunks in zip(texts, expected, strict=True):
            held, parts = text.encode(), []
            while border := find_border(held[: rng.randint(20, 60)], pattern):
                parts.append(held[:border])
                held = held[border:]
            found = [chunk for part in (*parts, held) for chunks in fast_documents(part, pattern) for chunk in chunks]
            assert found == chunks


def test_which_have_a_program_and_cuts():
    """The patterns of other programs have both; what is not read, or what sees the start of the text, has not."""
    for expression in READ:
        assert find_pattern(expression, gaps="drop").has_cuts or expression.startswith((" ?[^(", r"(?:\A"))
    assert find_pattern(r"(\w)\1|.", gaps="drop").program is None
    assert find_pattern(r"^\s|\S+", gaps="drop").program is not None
    assert not find_pattern(r"^\s|\S+", gaps="drop").has_cuts
    assert not find_pattern(r"\w+\d", gaps="keep").has_cuts
    assert find_border(b"a, ,a", find_pattern(r"\w+", gaps="keep")) == 4, "two commas are one chunk"


def test_a_cut_is_not_beside_what_may_be_a_broken_byte():
    """A NUL stands for each when borders are looked for; it becomes another character, or none."""
    pattern = find_pattern(r"[a\x00]+|\s|\ufffd", gaps="drop")
    assert [find_border(text, pattern) for text in (b"a\xff a", b"a\x00 ", b"\x00 a", b"a a")] == [3, 0, 2, 2]


@pytest.mark.parametrize("more", ["", r"|\b"], ids=["in the core", "left to regex"])
def test_a_full_table_goes_on_inside_a_text(more):
    """What a match looks back at is in front of the place where it goes on."""
    expression = r"(?<=[ab])\d+|[ab]+|(?<!x)\s|\S" + more
    text = " ".join(f"a{number} {number}x b{number}" for number in range(12_000))
    counts = ChunkCounts(Chunker(find_pattern(expression, gaps="drop")), 1 << 17)
    counts.add(buffer_of(text))
    assert counts._taken, "a table that was never full shows nothing"
    assert dict(counts.take().frame().iter_rows()) == Counter(filter(None, regex.findall(expression, text)))
