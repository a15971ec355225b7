"""A pattern of the user's own may take so long on one document: one that takes longer ends the job and is named."""

from __future__ import annotations

import json

import pytest

from streambpe.errors import PatternTooSlow, SourceError
from streambpe.sources.decode import naming_documents
from streambpe.sources.source import Block, Source
from streambpe.text.chunker import Chunker
from streambpe.text.patterns import find_pattern
from tests.runs import cli
from tests.samples import written
from tests.tiers import long

SLOW = r"(?s:.*)x|(?s:.)"  # from every place it looks to the end: the time grows with the square of the text
LONG = "ab" * 60_000


@pytest.mark.parametrize("how", [{"gaps": "keep"}, long({}), long({"split_scripts": True})], ids=str)
@pytest.mark.parametrize("more", ["", r"|\b"], ids=["in the core", "left to regex"])
def test_a_text_that_takes_too_long_is_told_by_its_number(more, how):
    """By find-all and by iteration; documents are counted, not runs of scripts."""
    chunker = Chunker(find_pattern(SLOW + more, document_seconds=0.05, **how))
    with pytest.raises(PatternTooSlow, match="120,000 characters") as told:
        chunker.number(b"\xff".join([b"one", "два 日本 three".encode(), LONG.encode()]) + b"\xff")
    assert told.value.document == 2
    assert chunker.number(b"ab\xff").ids.tolist() == [0, 1, -1]  # it goes on


@pytest.mark.parametrize(
    ("kind", "data", "document", "place"),
    [
        ("lines", b"a\n\nb\nc\n", 2, "line 4"),
        ("jsonl", b'\xef\xbb\xbf{"text": "a"}\n\n{"text": null}\n{"text": "\xff"}\n', 1, "line 4"),
        ("csv", b'n,text\n1,a\n\n2,"b\nc"\n3,d\n', 2, "line 6"),
        ("lines", b"a\nb and more, which goes on behind the block", 1, "line 2"),
        ("csv", b'n,text\n1,a\n2,"b\nc\n', 1, "line 3"),
        ("parquet", ["a", None, "b"], 1, "document 3"),
        ("txt", b"a", 0, "in.it"),
    ],
)
def test_where_the_document_is(tmp_path, kind, data, document, place):
    """Lines that are empty and values that are null are no documents."""
    path = written(tmp_path / "in.it", data if isinstance(data, bytes) else b"")
    slow = PatternTooSlow("slow")
    slow.document = document
    with (
        pytest.raises(SourceError, match=f"{place}: slow"),
        naming_documents(Block(Source(str(path), kind), 0, 9, data, True, header=("n", "text"))),
    ):
        raise slow


@pytest.mark.long
def test_a_count_ends_and_names_the_document(tmp_path):
    """Exit 1, never skipped; the limit is kept for resume, and may be another one then."""
    rows = ["one", "two", LONG, "three"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    run = tmp_path / "run"
    arguments = ("count", run, tmp_path / "a.jsonl", "--pattern", SLOW, "--document-seconds", 1, "--threads", 1)
    done = cli(*arguments, expect=1)
    assert "a.jsonl line 3: the pattern" in done.stderr
    assert "--document-seconds" in done.stderr
