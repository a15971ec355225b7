"""Patterns: what a split is by definition, which expressions are refused, and that certain borders are true ones."""

from __future__ import annotations

import itertools
import random

import pytest
import regex
from hypothesis import given

from streambpe.errors import PatternError
from streambpe.text.characters import code_point_class
from streambpe.text.patterns import PRESETS, find_pattern
from streambpe.text.whitespace import SPACES
from tests.hostile import hostile_text, preset_patterns, random_text
from tests.oracles.splits import split_text
from tests.tiers import examples

BORDERED = [(name, pattern) for name, pattern in preset_patterns() if pattern.border]
BESIDE = [
    *"aAbжД中1²\u0660\u30fc\u0301_'\u2019./。， \n\t\xa0\u200d",
    "x\u0301",
    " a",
]  # what stands at a border, or nearly one


@pytest.mark.parametrize("name", [n for n, p in PRESETS.items() if not p.word_mark])
@examples(30)
@given(text=hostile_text)
def test_chunks_join_to_the_text(name, text):
    """Nothing of a text is lost or doubled by splitting, whatever the preset."""
    assert "".join(split_text(PRESETS[name], text)) == text


@given(text=hostile_text)
def test_superbpe2_keeps_gaps_as_chunks(text):
    """Chunks of superbpe2 are its matches in order, and whole gaps between them."""
    matches = [m.span() for m in regex.finditer(PRESETS["superbpe2"].expression, text)]
    borders = sorted({0, len(text), *(at for span in matches for at in span)})
    assert split_text(PRESETS["superbpe2"], text) == [text[a:b] for a, b in itertools.pairwise(borders)]


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


@pytest.mark.parametrize("members", [r"\s", r"\p{L}", r"[\p{L}\p{N}\p{P}\p{S}]", r"\p{Cn}"])
def test_code_point_classes_are_those_of_regex(members):
    """Membership found by runs equals asking about one character at a time."""
    table = code_point_class(members)
    compiled = regex.compile(members)
    rng = random.Random(7)
    points = [*range(0x3100), *(rng.randrange(0x110000) for _ in range(5000)), 0x10FFFF]
    for c in (c for c in points if not 0xD800 <= c < 0xE000):
        assert table[c] == bool(compiled.match(chr(c))), hex(c)


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
def test_a_regex_with_gaps_is_refused_or_keeps_them(expression):
    """A pattern that would lose text is refused with an example; with gaps kept it loses nothing."""
    with pytest.raises(PatternError, match="unmatched"):
        find_pattern(expression)
    pattern = find_pattern(expression, gaps="keep")
    rng = random.Random(3)
    for _ in range(20):
        text = random_text(rng, 60)
        assert "".join(split_text(pattern, text)) == text
        assert all(split_text(pattern, text))


@pytest.mark.parametrize(
    "expression",
    [
        r"[\s\S]+",
        r"(\w+)|(\W)",
        r"(?:(a)|b)+|(?s:.)",
        r"(?s)\w*|.",
        r"\X",
    ],
)
def test_a_regex_that_covers_everything_is_taken(expression):
    """Capture groups and empty matches change no chunk: chunks are whole matches, and never empty."""
    pattern = find_pattern(expression)
    rng = random.Random(4)
    for _ in range(20):
        text = random_text(rng, 60)
        chunks = split_text(pattern, text)
        assert chunks == [m.group() for m in regex.finditer(expression, text) if m.group()]
        assert "".join(chunks) == text


@pytest.mark.parametrize("expression", ["(", "[", "*a", r"\p{NoSuchClass}", "(?P<a>x)(?P=b)"])
def test_a_regex_that_does_not_compile_is_refused(expression):
    """The message names the expression and what is wrong with it."""
    with pytest.raises(PatternError, match="does not compile"):
        find_pattern(expression)


@pytest.mark.parametrize("name", ["gpt5", "cl200k", "script-aware", "GPT4O"])
def test_an_unknown_name_is_not_taken_for_a_regex(name):
    """A misspelt preset is refused and the known ones are listed."""
    with pytest.raises(PatternError, match=r"no pattern named.*gpt4o"):
        find_pattern(name)


@pytest.mark.parametrize("name", ["none", "script"])
def test_what_is_no_expression_has_no_script_mode(name):
    """There is no pattern that script runs could be given to."""
    with pytest.raises(PatternError, match=f"--pattern {name} has none"):
        find_pattern(name, split_scripts=True)


def test_white_space_is_what_python_takes_for_it():
    """29 characters, found by asking str.isspace of all of Unicode."""
    assert set(SPACES) == {chr(point) for point in range(0x110000) if chr(point).isspace()}
    assert len(SPACES) == 29


def test_a_contraction_folds_case_as_unicode_does():
    """`(?i:s)` matches the long s under gpt4, and the published splits depend on it."""
    assert split_text(PRESETS["gpt4"], "ſ'ſ 'S") == ["ſ", "'ſ", " '", "S"]


def test_cl100k_differs_from_gpt4_at_the_end_of_a_text():
    """Mixed white space at the end is one chunk today, several in the classic pattern."""
    assert split_text(PRESETS["cl100k"], "a \n ") == ["a", " \n "]
    assert split_text(PRESETS["gpt4"], "a \n ") == ["a", " \n", " "]
