"""Tokens of regular expressions, judged by what the `regex` module does with what is made of them."""

from __future__ import annotations

import random

import pytest
import regex

from streambpe.text.expressions import alternatives, end_of_text, least_length
from streambpe.text.patterns import PRESETS
from tests.tiers import share

PIECES = ["a", "$", "|", "(", ")", "[", "]", "^", r"\p{L}", r"\]", r"\u0041", r"\$", "{2}", "{2,3}", "+", "*", "-", "."]
TEXTS = ["", "a", "aa", "A", "$", "a$", "]", "a\n", "a]", "|", "aaaa", "a-", "^"]


def expressions(count: int) -> list[str]:
    """Presets and random ones; those that are none are left out."""
    rng = random.Random(3)
    made = [pattern.expression for pattern in PRESETS.values()]
    made += ["".join(rng.choices(PIECES, k=rng.randint(1, 7))) for _ in range(count)]
    return [expression for expression in made if compiles(expression)]


def compiles(expression: str) -> bool:
    """Whether the `regex` module takes it."""
    try:
        regex.compile(expression)
    except regex.error:
        return False
    return True


def spans(expression: str) -> list[tuple[int, int] | None]:
    """Where it is found first in each of the texts."""
    return [found.span() if (found := regex.search(expression, text)) else None for text in TEXTS]


@pytest.mark.long
def test_alternatives_match_what_the_whole_matches():
    """Each is an expression of its own, and joined again they find the same."""
    several = 0
    for expression in expressions(3000):
        parts = alternatives(expression)
        assert all(compiles(part) for part in parts), expression
        assert spans("|".join(f"(?:{part})" for part in parts)) == spans(expression), expression
        several += len(parts) > 1
    assert several > 100


def test_end_of_text_is_never_before_a_line_break():
    r"""`$` outside of classes becomes `\Z`; where no text ends in a line break nothing changes."""
    changed = 0
    for expression in expressions(share(3000, 600)):
        made = end_of_text(expression)
        ends = [regex.search(made, text) is not None for text in TEXTS if not text.endswith("\n")]
        assert ends == [regex.search(expression, text) is not None for text in TEXTS if not text.endswith("\n")]
        changed += made != expression
    assert changed > 20
    assert regex.search("a$", "a\n")
    assert not regex.search(end_of_text("a$"), "a\n")
    assert end_of_text(r"[$]\$") == r"[$]\$"


@pytest.mark.parametrize(
    ("expression", "length"),
    [
        (r"(a{1000}|b){50}c", 50_001),
        (r"[\]a]{3,9}x?", 3),
        (r"[]{99}]{3}a\{5}", 7),
        (r"a{2,}b*c?d+", 3),
        ("", 0),
        (r"(?:.{1000}){1000}", 1_001_000),  # the colon counts as a character
    ],
)
def test_least_length(expression, length):
    """Repetitions multiplied out."""
    assert least_length(expression) == length
