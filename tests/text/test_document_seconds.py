"""A pattern of the user's own may take so long on one document: one that takes longer ends the job and is named."""

from __future__ import annotations

import pytest

from streambpe.errors import PatternTooSlow, SourceError
from streambpe.resources import Resources
from streambpe.text.chunker import ChunkCounts, Chunker, NumberedTexts
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count
from tests.hostile import buffer_of
from tests.sources.test_sources import file_of
from tests.tiers import long

SLOW = r"(?s:.*)x|(?s:.)"  # from every place it looks to the end: the time grows with the square of the text
LONG = "a" * 120_000


@pytest.mark.parametrize("how", [{"gaps": "keep"}, long({}), long({"split_scripts": True})], ids=str)
@pytest.mark.parametrize("expression", [SLOW, SLOW + r"|\b", r"(?:a+)+b|(?s:.)", r"(?:a|b)*c|(?s:.)"])
def test_a_text_that_takes_too_long_is_told_by_its_number(expression, how):
    """In the core and left to `regex`, by time and by steps; documents are counted, not runs of scripts. Nothing stays
    of its buffer; what was counted before is committed after the error."""
    chunker = Chunker(find_pattern(expression, document_seconds=0.05, **how))
    counts, numbered = ChunkCounts(chunker, 1 << 20), NumberedTexts(chunker)
    for take in (counts.add, numbered.add):
        take(buffer_of("yz"))
        with pytest.raises(PatternTooSlow, match="120,000 characters") as told:
            take(buffer_of("one", "два 日本 three", LONG, "b"))
        assert told.value.document == 2
    assert counts.take().frame().rows() == [("y", 1), ("z", 1)]
    chunks, ids = numbered.take()
    assert (chunks.to_list(), [some.tolist() for some in ids]) == (["y", "z"], [[0, 1, -1]])


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        long("a.txt", b"a\n\nb\nLONG\n", " line 4"),
        long("a.txt", b"a\nLONG", " line 2"),
        ("a.jsonl", b'\xef\xbb\xbf{"text": "a"}\n\n{"text": null}\n{"text": "\xffLONG"}\n', " line 4"),
        ("a.csv", b'n,text\n1,a\n\n2,"b\nc"\n3,LONG\n', " line 6"),
        long("a.csv", b'n,text\n1,a\n2,"LONG\nc\n', " line 3"),
        long("a.parquet", {"text": ["a", None, LONG]}, " document 3"),
        long("a.md", b"LONG", ""),
    ],
)
def test_a_count_ends_and_names_the_document(tmp_path, name, data, place):
    """Lines that are empty and values that are null are no documents."""
    path = file_of(tmp_path / name, data.replace(b"LONG", LONG.encode()) if isinstance(data, bytes) else data)
    how = {"pattern": SLOW, "lines": name == "a.txt", "resources": Resources(400 * 10**6, 1, document_seconds=1)}
    with pytest.raises(SourceError, match=f"{name}{place}: the pattern .* Allow more with --document-seconds"):
        count(tmp_path / "run", [str(path)], **how)
