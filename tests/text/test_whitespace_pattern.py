"""--pattern whitespace: PickyBPE's marked words, counted by the route of all patterns."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.inspect.check import check
from streambpe.store.database import open_store
from streambpe.store.run import Run
from streambpe.text.chunker import Chunker
from streambpe.text.patterns import find_pattern
from streambpe.text.whitespace import SPACES
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count
from tests.oracles import marked_words
from tests.runs import stored_ids
from tests.script_samples import LINES, hostile_texts, long_text

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
    assert Counter(word for text in texts for word in WHITESPACE.split(text)) == counted


@pytest.mark.long
@pytest.mark.parametrize("kind", ["txt", "lines", "jsonl"])
def test_counting_marked_words(tmp_path, monkeypatch, kind):
    """count --pattern whitespace, documents cut into blocks of 4 KB: the words of the slow definition, in order."""
    monkeypatch.setattr(sizes, "MOST_BLOCK", 4096)
    monkeypatch.setattr(sizes, "LEAST_BLOCK", 4096)
    texts = [long_text(4, 600)] if kind == "txt" else [*LINES, *(t.replace("\n", "") for t in hostile_texts(5, 400))]
    source = tmp_path / ("a.jsonl" if kind == "jsonl" else "a.txt")
    if kind == "jsonl":
        source.write_bytes("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
    else:
        texts = [text for text in texts if text]
        source.write_bytes("\n".join(texts).encode())
    run = tmp_path / "run"
    count(run, [str(source)], options={"pattern": "whitespace", "sequences": True}, lines=kind == "lines")
    assert counts_of(run) == words_of_lines(texts)
    in_order = [text[i] for ids, text in stored_ids(run) for i in ids if i >= 0]
    assert in_order == ["▁" + word for text in texts for word in text.split()]
    assert check(run, rehash_sources=True) == []


def counts_of(run: Path) -> dict[str, int]:
    with contextlib.closing(open_store(Run(run).state, read_only=True)) as con:
        return dict(con.execute("SELECT chunk, n FROM chunk_counts").fetchall())


def test_an_empty_buffer():
    """Nothing in, nothing out."""
    numbered = Chunker(WHITESPACE).number(b"")
    assert numbered.chunks.to_list() == numbered.ids.tolist() == []
