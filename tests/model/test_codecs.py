"""Many chunks become symbols in the core as each does by the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.errors import UnknownSymbol
from streambpe.model.alphabet import UNKNOWN, chars_alphabet, gpt2_alphabet, script_alphabet, seen_alphabet
from streambpe.model.codecs import codec_of

ALPHABETS = {
    "gpt2": gpt2_alphabet(),
    "seen": seen_alphabet(["añ 中".encode()]),
    "chars": chars_alphabet("añ 中"),
    "script": script_alphabet(),
    "script without escapes": script_alphabet("drop"),
}


def refusal_or(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, or what it says of a symbol that it refuses."""
    try:
        return function(*arguments)
    except UnknownSymbol as why:
        return str(why)


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("unknown", ["error", "drop", "unk"])
@given(chunks=st.lists(st.text(st.sampled_from("añ 中xß👋\ue000"), min_size=1, max_size=9), max_size=5))
def test_many_chunks_are_cut_as_each_is(name, unknown, chunks):
    """Also where they are a slice of a column, and where one holds what the alphabet does not."""
    codec = codec_of(ALPHABETS[name], unknown)
    texts = [chunk.encode() for chunk in ["zz", *chunks]]
    offsets, data = np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)
    wanted = [refusal_or(codec.split, chunk) for chunk in chunks]
    refusals = [one for one in wanted if isinstance(one, str)]
    found = refusal_or(codec.split_many, offsets[1:], data)
    if refusals:
        assert found == refusals[0]
        return
    symbols, sizes = found
    assert sizes.tolist() == [len(one) for one in wanted]
    assert symbols.tolist() == [number for one in wanted for number in one]
    assert name == "script without escapes" or unknown == "unk" or UNKNOWN not in symbols
