"""Patterns: what a split is by definition, which expressions are refused, and that certain borders are true ones."""

from __future__ import annotations

import random

import pytest
import regex

from streambpe.errors import PatternError
from streambpe.text.patterns import find_pattern
from streambpe.text.script_runs import SPACELESS, script_table
from streambpe.text.whitespace import SPACES
from tests.hostile import preset_patterns, random_text
from tests.oracles.splits import split_text

BORDERED = [(name, pattern) for name, pattern in preset_patterns() if pattern.border]
BESIDE = [
    *"aAbжД中1²\u0660\u30fc\u0301_'\u2019./。， \n\t\xa0\u200d",
    "x\u0301",
    " a",
]  # what stands at a border, or nearly one


@pytest.mark.parametrize(("name", "pattern"), BORDERED, ids=[n for n, _ in BORDERED])
def test_every_certain_border_parts_the_chunks(name, pattern):
    """Where a preset says that a border is certain, both sides split as they do together, on seeded hostile text."""
    rng = random.Random(f"borders {name}")
    found = 0
    for _ in range(200):
        text = random_text(rng, 30) if rng.random() < 0.5 else "".join(rng.choices(BESIDE, k=12))
        chunks = split_text(pattern, text)
        for border in regex.finditer(pattern.border, text):
            left, right = text[: border.start() + 1], text[border.start() + 1 :]
            assert split_text(pattern, left) + split_text(pattern, right) == chunks, (left, right)
            found += 1
    assert found > 5, "a rule that finds no border would pass too"


@pytest.mark.parametrize(
    "expression",
    [
        r"\w+",
        r" ?\p{L}+|\p{N}+|\s+",
        r".+",  # loses line breaks
        r"[^\r\n]+|\n",  # loses \r
        r"[^\x00]+",  # loses NUL
        r"\b",
        r"[\x00-\U0000ffff]+",  # loses everything above the BMP
        r"\P{Cn}+",  # loses unassigned code points
        r"(?<=a).+|a",
        r"[\s\S]{2}",  # loses the last of an odd number
    ],
)
def test_a_regex_that_would_lose_text_is_refused(expression):
    """With an example of what it loses; not where the user wants the gaps as chunks."""
    with pytest.raises(PatternError, match="unmatched"):
        find_pattern(expression)
    assert find_pattern(expression, gaps="keep").keep_gaps


@pytest.mark.parametrize(
    "expression",
    [
        *("(", "[", "*a", r"\p{NoSuchClass}", "(?P<a>x)(?P=b)"),
        "(?:" * 200 + "." + ")" * 200,
        "(" * 30_000 + "a" + ")" * 30_000,
        "(?:(?:a{1000}){1000}){1000}|(?s:.)",
        "(?:.{1000}){10001}",
        "(?s).{100000000}|.",
        ".{99999999999999999999}|.",
    ],
    ids=lambda expression: expression[:20],
)
def test_a_regex_that_does_not_compile_is_refused(expression):
    """Whatever is wrong with it, and where it is too deep or too large, at once and in a short message."""
    with pytest.raises(PatternError, match="does not compile") as told:
        find_pattern(expression)
    assert len(str(told.value)) < 400


def test_script_table_agrees_with_regex_where_both_know_a_character():
    """Each script without spaces has the letters that `regex` gives it, but for later additions to Unicode."""
    table, spaceless = script_table()
    assert len(table) == 0x110000
    for name in SPACELESS:
        members = regex.compile(rf"\p{{Script={name}}}")
        assert all(spaceless[table[c]] for c in range(0x3000) if members.match(chr(c))), name
    assert not any(spaceless[table[ord(character)]] for character in "a 한")


def test_white_space_is_what_python_takes_for_it():
    """29 characters, found by asking str.isspace of all of Unicode."""
    assert set(SPACES) == {chr(point) for point in range(0x110000) if chr(point).isspace()}
    assert len(SPACES) == 29
