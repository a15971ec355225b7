"""`converge`: every number against counting, learning and encoding by other means."""

from __future__ import annotations

import functools
import io
import json
import math
from collections import Counter
from itertools import chain
from pathlib import Path

import mmh3
import pytest
from msgspec import structs

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunLocked, SourceChanged, Stopped, UsageError
from streambpe.inspect import buckets
from streambpe.inspect.converge import converge, print_convergence
from streambpe.resources import Resources
from streambpe.store.merge import merged_lists
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count
from tests.oracles.splits import split_text
from tests.runs import StopAfter, cli
from tests.samples import written

SMALL = Resources(256 * 10**6, 1)
SPLIT = functools.partial(split_text, find_pattern("gpt4o"))
SIZE = 290
WORDS = ["the", "cat", "sat", "on", "that", "mat", "and", "a", "bat", "is", "flat"]
LINES = [" ".join(WORDS[(i * k) % 11] for k in range(1, 4 + i % 9)) + f" {i % 37}" for i in range(900)]
WHOLE = ["a file of many lines\n" * 40 + str(i) for i in range(3)]


def reference(texts: list[str], of: int) -> list[Counter[str]]:
    """The slow meaning of buckets."""
    found: list[Counter[str]] = [Counter() for _ in range(of)]
    for text in texts:
        found[mmh3.hash64(text.encode(), signed=False)[1] * of >> 64].update(SPLIT(text))
    return found


def learned_from(folder: Path, chunks: dict[str, int]) -> tuple[Tokenizer, list[bytes]]:
    """A training on a table of counts: the tokenizer, and the learned tokens by id."""
    folder.mkdir()
    table = folder / "counts.tsv"
    table.write_text("".join(f"{chunk}\t{n}\n" for chunk, n in sorted(chunks.items()) if "\n" not in chunk))
    assert all("\n" not in chunk for chunk in chunks)
    train(folder / "run", [str(table)], counting={"counts": True}, resources=SMALL, vocab_size=SIZE)
    tokenizer = Tokenizer(str(folder / "run"))
    return tokenizer, [tokenizer.decode_single_token_bytes(i) for i in range(256, tokenizer.n_vocab)]


def by_hand(tokenizer: Tokenizer, held: dict[str, int]) -> float:
    size = sum(len(chunk.encode()) * n for chunk, n in held.items())
    return size / sum(len(tokenizer.encode_ordinary(chunk)) * n for chunk, n in held.items())


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "a.txt").write_text("\n".join(LINES[:500]))
    (folder / "b.txt").write_text("\n".join(LINES[500:]))
    how = {"document_cap": 1000, "resources": SMALL}  # longer than any of them
    count(folder / "run", [str(folder / "b.txt"), str(folder / "a.txt")], lines=True, **how)
    for i, text in enumerate(WHOLE):
        (folder / f"whole{i}.txt").write_text(text)
        count(folder / "run", [str(folder / f"whole{i}.txt")], **how)
    return folder / "run"


@pytest.mark.long
def test_each_step_is_a_training_on_its_documents(documents, tmp_path):
    """Every figure by hand, whatever the memory; and with --text on other text, which is read whole."""
    found = converge(documents, vocab_size=SIZE, steps=3, draws=1, resources=SMALL)
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    assert converge(documents, vocab_size=SIZE, steps=3, draws=1, resources=Resources(300 * 10**6, 2)) == found
    assert list(documents.glob("converge*")) == []
    counts = reference(LINES + WHOLE, 32)
    held, learned = counts[0] + counts[1], []
    for step, many in zip(found.steps, (8, 16, 30), strict=True):
        mine = sum(counts[2 : 2 + many], Counter())
        assert (step.chunks, step.distinct) == (mine.total(), len(mine))
        assert step.bytes == sum(len(chunk) * n for chunk, n in mine.items())
        # a count table in text cannot hold a line feed; one symbol long, it teaches nothing
        tokenizer, tokens = learned_from(tmp_path / str(many), {k: n for k, n in mine.items() if "\n" not in k})
        assert step.learned == len(tokens)
        assert math.isclose(step.bytes_per_token, by_hand(tokenizer, held))
        learned.append(set(tokens))
    first, _, last = learned
    assert 0 < len(first & last) < len(last)
    assert found.steps[0].in_common == len(first & last) / len(first | last)
    assert found.steps[2].in_common == 1.0
    gain = found.steps[1].bytes_per_token / found.steps[0].bytes_per_token - 1
    assert (found.steps[0].gain, found.steps[1].gain) == (None, gain)
    other = written(tmp_path / "other.txt", "that bat is on the mat, and something else " * 50)
    shown = json.loads(
        cli("converge", documents, "-s", SIZE, "--draws", 1, "--steps", 3, "--text", other, "--json").stdout
    )
    expected = by_hand(tokenizer, Counter(SPLIT(other.read_text())))
    assert math.isclose(shown["steps"][-1]["bytes_per_token"], expected)
    assert [step["chunks"] for step in shown["steps"]] == [step.chunks for step in found.steps]


@pytest.mark.long
@pytest.mark.parametrize("block", [300, 1 << 20])
def test_buckets_are_what_the_hash_says(documents, tmp_path, monkeypatch, block):
    """Whatever the blocks, and however often the tables are written."""
    small = structs.replace(sizes.Sizes.of(SMALL), block=block, table=1 if block == 300 else 1 << 20)
    monkeypatch.setattr(sizes.Sizes, "of", lambda resources: small)
    found = buckets.count_buckets(Run(documents), tmp_path, 32, SMALL, None)
    for parts, want in zip(found, reference(LINES + WHOLE, 32), strict=True):
        rows = chain.from_iterable(piece.frame().rows() for piece in merged_lists(parts, 1 << 20)) if parts else []
        assert {chunk if isinstance(chunk, str) else chunk.decode(): n for chunk, n in rows} == want


@pytest.mark.long
def test_draws_are_of_other_documents_and_their_spread_is_told(documents):
    found = converge(documents, vocab_size=275, steps=3, draws=2, resources=SMALL)
    assert list(documents.glob("converge*")) == []
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    counts = reference(LINES + WHOLE, 32)
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
    heads, *lines = out.getvalue().splitlines()
    assert heads.split()[:3] == ["prefix", "chunks", "distinct"]
    assert [line.split()[0] for line in lines[:3]] == ["1/4", "1/2", "all"]
    assert "±" in lines[0]
    assert lines[4] == "bytes/token on: 2 of 32 buckets of documents, others in each draw"
    assert "Means of 2 draws" in lines[5]


@pytest.mark.long
def test_what_cannot_be_compared_is_said(documents, tmp_path):
    """Weights, a comparison under way, a stop, numbers out of range."""
    with pytest.raises(UsageError, match="without groups"):
        converge(documents, vocab_size=SIZE, weight=["a=2"], resources=SMALL)
    other = Run(documents / "converge")
    with other.lock():
        (other.path / "kept").write_text("another's")
        with pytest.raises(RunLocked):
            converge(documents, vocab_size=SIZE, resources=SMALL)
        assert (other.path / "kept").exists()
    text = str(written(tmp_path / "other.txt", "that bat is on the mat"))
    for looks in (0, 5):  # while the sources are read, and while the text is
        with pytest.raises(Stopped, match="keeps nothing"):
            converge(documents, vocab_size=SIZE, resources=SMALL, text=text, stop=StopAfter(looks))
        assert not other.path.exists()
    with pytest.raises(UsageError, match="--draws 17: give a number from 1 to 16"):
        converge(documents, vocab_size=275, draws=17, resources=SMALL)
    with pytest.raises(UsageError, match="--steps 7: give a number from 2 to 6"):
        converge(documents, vocab_size=275, steps=7, resources=SMALL)


@pytest.mark.long
def test_what_cannot_be_drawn_is_said(tmp_path):
    """Too few documents; sources that changed, are gone, or have no documents."""
    (tmp_path / "a.txt").write_text("one document")
    count(tmp_path / "few", [str(tmp_path / "a.txt")], resources=SMALL)
    with pytest.raises(UsageError, match="too few documents"):
        converge(tmp_path / "few", vocab_size=275, resources=SMALL)
    (tmp_path / "a.txt").write_text("another text")
    with pytest.raises(SourceChanged, match="has changed since it was counted"):
        converge(tmp_path / "few", vocab_size=275, resources=SMALL)
    (tmp_path / "a.txt").unlink()
    gone = cli("converge", tmp_path / "few", "--vocab-size", 275, expect=None)
    assert gone.returncode == 1
    assert "a.txt is gone" in gone.stderr
    table = written(tmp_path / "t.tsv", "a\t3\nb\t4\n")
    count(tmp_path / "counts", [str(table)], counts=True, resources=SMALL)
    with pytest.raises(UsageError, match="is a table of counts"):
        converge(tmp_path / "counts", vocab_size=275, resources=SMALL)
