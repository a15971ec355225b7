"""`converge --by documents` against a few lines of Python with mmh3."""

from __future__ import annotations

import functools
import io
from collections import Counter
from itertools import chain
from pathlib import Path

import mmh3
import pytest

from streambpe.errors import SourceChanged, UsageError
from streambpe.inspect import buckets
from streambpe.inspect.converge import converge, print_convergence
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.store.merge import merged_lists
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count
from tests.oracles.splits import split_text
from tests.runs import cli
from tests.samples import written

SMALL = Resources(256 * 10**6, 1)
SPLIT = functools.partial(split_text, find_pattern("gpt4o"))
WORDS = ["the", "cat", "sat", "on", "that", "mat", "and", "a", "bat", "is", "flat"]
TEXTS = [" ".join(WORDS[(i * k) % 11] for k in range(1, 4 + i % 9)) + f" {i % 37}" for i in range(900)]
WHOLE = ["a file of many lines\n" * 40 + str(i) for i in range(3)]


def reference(texts: list[str], of: int) -> list[Counter[str]]:
    """The slow meaning of buckets."""
    found: list[Counter[str]] = [Counter() for _ in range(of)]
    for text in texts:
        found[mmh3.hash64(text.encode(), signed=False)[1] * of >> 64].update(SPLIT(text))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "a.txt").write_text("\n".join(TEXTS[:500]))
    (folder / "b.txt").write_text("\n".join(TEXTS[500:]))
    count(folder / "run", [str(folder / "b.txt"), str(folder / "a.txt")], lines=True, resources=SMALL)
    for i, text in enumerate(WHOLE):
        (folder / f"whole{i}.txt").write_text(text)
        count(folder / "run", [str(folder / f"whole{i}.txt")], resources=SMALL)
    return folder / "run"


@pytest.mark.long
@pytest.mark.parametrize("block", [300, 1 << 20])
def test_buckets_are_what_the_hash_says(run, tmp_path, monkeypatch, block):
    """Whatever the blocks, and however often the tables are written."""
    monkeypatch.setattr(sizes, "MOST_BLOCK", block)
    monkeypatch.setattr(sizes, "LEAST_TABLE", 1 if block == 300 else 1 << 20)
    monkeypatch.setattr(sizes, "table_bytes", lambda resources: sizes.LEAST_TABLE)
    found = buckets.count_buckets(Run(run), tmp_path, 32, SMALL, None, Meter("reading"))
    for parts, want in zip(found, reference(TEXTS + WHOLE, 32), strict=True):
        rows = chain.from_iterable(piece.frame().rows() for piece in merged_lists(parts, 1 << 20)) if parts else []
        assert {chunk if isinstance(chunk, str) else chunk.decode(): n for chunk, n in rows} == want


@pytest.mark.long
def test_draws_are_of_other_documents_and_their_spread_is_told(run):
    found = converge(run, vocab_size=275, by="documents", steps=3, draws=2, resources=SMALL)
    assert list(run.glob("converge*")) == []
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    counts = reference(TEXTS + WHOLE, 32)
    for steps, begin in zip(found.draws, (0, 16), strict=True):
        for step, many in zip(steps, (8, 16, 30), strict=True):
            want = sum((counts[(begin + 2 + i) % 32] for i in range(many)), Counter())
            assert (step.chunks, step.distinct) == (want.total(), len(want))
            assert step.bytes == sum(len(chunk.encode()) * n for chunk, n in want.items())
    for step, (one, other) in zip(found.steps, zip(*found.draws, strict=True), strict=True):
        assert step.bytes_per_token == (one.bytes_per_token + other.bytes_per_token) / 2
        assert step.spread["bytes_per_token"] == abs(one.bytes_per_token - other.bytes_per_token) / 2
    out = io.StringIO()
    print_convergence(found, out)
    assert "±" in out.getvalue()
    assert "Means of 2 draws" in out.getvalue()


@pytest.mark.long
def test_what_cannot_be_drawn_is_said(run, tmp_path):
    (tmp_path / "a.txt").write_text("one document")
    count(tmp_path / "few", [str(tmp_path / "a.txt")], resources=SMALL)
    with pytest.raises(UsageError, match="too little text"):
        converge(tmp_path / "few", vocab_size=275, by="documents", resources=SMALL)
    (tmp_path / "a.txt").write_text("another text")
    with pytest.raises(SourceChanged, match="has changed since it was counted"):
        converge(tmp_path / "few", vocab_size=275, by="documents", resources=SMALL)
    (tmp_path / "a.txt").unlink()
    gone = cli("converge", tmp_path / "few", "--by", "documents", "--vocab-size", 275, expect=None)
    assert gone.returncode == 1
    assert "a.txt is gone" in gone.stderr
    table = written(tmp_path / "t.tsv", "a\t3\nb\t4\n")
    count(tmp_path / "counts", [str(table)], counts=True, resources=SMALL)
    with pytest.raises(UsageError, match="is a table of counts"):
        converge(tmp_path / "counts", vocab_size=275, by="documents", resources=SMALL)
    with pytest.raises(UsageError, match="--draws 17: give a number from 1 to 16"):
        converge(run, vocab_size=275, draws=17, resources=SMALL)
    with pytest.raises(UsageError, match="--steps 7: give a number from 2 to 6"):
        converge(run, vocab_size=275, by="documents", steps=7, resources=SMALL)
