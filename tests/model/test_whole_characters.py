"""Whole characters by tables over states, against the slow predicates."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.model.alphabet import Alphabet, bytes_alphabet, gpt2_alphabet, script_alphabet
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS
from streambpe.model.vocabulary import Token
from streambpe.model.whole_characters import WholeCharacters, whole_characters
from tests.oracles import whole_characters_bytes, whole_characters_script
from tests.oracles.symbols import symbols_of

# Bytes of every kind: ASCII, continuing, leads of two, three and four, and bytes no text has.
some_bytes = st.lists(st.sampled_from(b"aZ\x00\x80\xbf\x9f\xc3\xdf\xe4\xef\xf0\xf4\xff\xc0"), min_size=1, max_size=7)
some_symbols = st.lists(
    st.one_of(
        st.integers(1, INDEX_SYMBOLS),
        st.integers(INDEX_SYMBOLS + 1, FIRST_ESCAPE - 1),
        st.sampled_from(b"a\x80\xbf\xc3\xee\xf4").map(lambda byte: byte + FIRST_ESCAPE),
    ),
    min_size=1,
    max_size=6,
)


def byte_token(alphabet: Alphabet, content: bytes) -> Token:
    return Token(0, tuple(symbols_of(alphabet, content)), content)


def script_token(base: list[int]) -> Token:
    return Token(0, tuple(base), b"".join(symbol.to_bytes(2, "big") for symbol in base))


def state(rule: WholeCharacters, base: Sequence[int], first_id: int) -> int:
    known = [int(rule.base_states[number - first_id]) for number in base]
    return functools.reduce(lambda left, right: int(rule.merged[left, right]), known)


@given(some_bytes, some_bytes)
@pytest.mark.parametrize("alphabet", [bytes_alphabet(), bytes_alphabet(1), gpt2_alphabet()], ids=["0", "1", "gpt2"])
def test_bytes_equal_the_slow_predicate(alphabet, left, right):
    """For any two byte strings, whatever made them, the tables say what the slow predicate says."""
    rule = whole_characters(alphabet)
    a, b = byte_token(alphabet, bytes(left)), byte_token(alphabet, bytes(right))
    states = tuple(state(rule, token.base, alphabet.first_id) for token in (a, b))
    assert rule.allowed[states] == whole_characters_bytes(a, b)
    assert rule.merged[states] == state(rule, a.base + b.base, alphabet.first_id)


@given(some_symbols, some_symbols)
def test_script_equals_the_slow_predicate(left, right):
    """For any two sequences of symbols, escapes among them or not, the tables say what the slow predicate says."""
    rule, tokens = whole_characters(script_alphabet()), (script_token(left), script_token(right))
    states = tuple(state(rule, base, 1) for base in (left, right))
    assert rule.allowed[states] == whole_characters_script(INDEX_SYMBOLS, FIRST_ESCAPE)(*tokens)
    assert rule.merged[states] == state(rule, left + right, 1)
    if max(left + right) < FIRST_ESCAPE:
        small = whole_characters(script_alphabet("drop"))
        states = tuple(state(small, base, 1) for base in (left, right))
        assert small.allowed[states] == whole_characters_script(INDEX_SYMBOLS)(*tokens)
