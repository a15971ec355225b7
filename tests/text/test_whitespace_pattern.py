"""--pattern whitespace: PickyBPE's marked words, counted by the route of all patterns."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streambpe.text.chunker import Chunker
from streambpe.text.patterns import find_pattern
from streambpe.text.whitespace import SPACES
from tests.oracles import marked_words
from tests.oracles.splits import split_text

WHITESPACE = find_pattern("whitespace")
spaced = st.text(st.one_of(st.sampled_from(SPACES + "ab▁東\u200b\ufeff"), st.characters(exclude_categories=["Cs"])))


def words_of_lines(texts: list[str]) -> Counter[str]:
    """The slow definition: documents read by lines."""
    lines = (line for text in texts for line in text.split("\n"))
    return Counter({word.decode(): n for word, n in marked_words(lines).items()})


def test_white_space_is_what_python_takes_for_it():
    """29 characters, found by asking str.isspace of all of Unicode."""
    assert set(SPACES) == {chr(point) for point in range(0x110000) if chr(point).isspace()}
    assert len(SPACES) == 29


@given(st.lists(spaced, max_size=5))
def test_words_equal_the_slow_definition(texts):
    """Documents in a buffer give the marked words of their lines, in order."""
    numbered = Chunker(WHITESPACE).number(b"".join(text.encode() + b"\xff" for text in texts))
    words = numbered.chunks.to_list()
    counted = Counter(words[i] for i in numbered.ids.tolist() if i >= 0)
    assert counted == words_of_lines(texts)
    assert (numbered.ids < 0).sum() == len(texts)
    assert Counter(word for text in texts for word in split_text(WHITESPACE, text)) == counted
