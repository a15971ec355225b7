"""`converge`: every number against counting, learning and encoding by other means."""

from __future__ import annotations

import functools
import io
import json
import math
from collections import Counter
from pathlib import Path

import mmh3
import pytest
from msgspec import structs

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunLocked, SourceChanged, Stopped, UsageError
from streambpe.inspect.converge import converge, print_convergence
from streambpe.resources import Resources
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
    table = written(folder / "counts.tsv", "".join(f"{chunk}\t{n}\n" for chunk, n in sorted(chunks.items())))
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


def test_each_step_is_a_training_on_its_documents(documents, tmp_path, monkeypatch):
    """Every figure of each draw by hand, whatever the memory, the blocks, and however often tables are written; their
    means and spread; and with --text on other text, which is read whole."""
    asked = {"vocab_size": SIZE, "steps": 3, "draws": 2}
    found = converge(documents, **asked, resources=SMALL)
    small = structs.replace(sizes.Sizes.of(SMALL), block=300, table=1)
    with monkeypatch.context() as patch:
        patch.setattr(sizes.Sizes, "of", lambda resources: small)
        assert converge(documents, **asked, resources=Resources(300 * 10**6, 2)) == found
    assert list(documents.glob("converge*")) == []
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    counts = reference(LINES + WHOLE, 32)
    for steps, begin in zip(found.draws, (0, 16), strict=True):
        turned = counts[begin:] + counts[:begin]
        held, learned = turned[0] + turned[1], []
        for step, many in zip(steps, (8, 16, 30), strict=True):
            mine = sum(turned[2 : 2 + many], Counter())
            assert (step.chunks, step.distinct) == (mine.total(), len(mine))
            assert step.bytes == sum(len(chunk.encode()) * n for chunk, n in mine.items())
            # a count table in text cannot hold a line feed; one symbol long, it teaches nothing
            chunks = {k: n for k, n in mine.items() if "\n" not in k}
            tokenizer, tokens = learned_from(tmp_path / f"{begin}-{many}", chunks)
            assert step.learned == len(tokens)
            assert math.isclose(step.bytes_per_token, by_hand(tokenizer, held))
            learned.append(set(tokens))
        first, _, last = learned
        assert 0 < len(first & last) < len(last)
        assert (steps[0].in_common, steps[2].in_common) == (len(first & last) / len(first | last), 1.0)
        assert (steps[0].gain, steps[1].gain) == (None, steps[1].bytes_per_token / steps[0].bytes_per_token - 1)
    for step, (one, other) in zip(found.steps, zip(*found.draws, strict=True), strict=True):
        assert step.bytes_per_token == (one.bytes_per_token + other.bytes_per_token) / 2
        assert step.spread["bytes_per_token"] == abs(one.bytes_per_token - other.bytes_per_token) / 2
    out = io.StringIO()
    print_convergence(found, out)
    heads, *lines = out.getvalue().splitlines()
    assert heads.split()[:3] == ["prefix", "chunks", "distinct"]
    assert lines[0].split()[0] == "1/4"
    assert "±" in lines[0]
    other = written(tmp_path / "other.txt", "that bat is on the mat, and something else " * 50)
    command = ("converge", documents, "-s", SIZE, "--draws", 2, "--steps", 3, "--text", other, "--json")
    shown = json.loads(cli(*command).stdout)
    expected = by_hand(tokenizer, Counter(SPLIT(other.read_text())))
    assert math.isclose(shown["draws"][-1][-1]["bytes_per_token"], expected)
    assert [step["chunks"] for step in shown["steps"]] == [step.chunks for step in found.steps]


def test_what_cannot_be_compared_is_said(documents, tmp_path):
    """Weights, a comparison under way, a stop, numbers out of range."""
    for more, told in (
        ({"weight": ["a=2"]}, "without groups"),
        ({"draws": 17}, "--draws 17: give a number from 1 to 16"),
    ):
        with pytest.raises(UsageError, match=told):
            converge(documents, vocab_size=SIZE, **more, resources=SMALL)
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
    assert "a.txt is gone" in cli("converge", tmp_path / "few", "--vocab-size", 275, expect=1).stderr
    table = written(tmp_path / "t.tsv", "a\t3\nb\t4\n")
    count(tmp_path / "counts", [str(table)], counts=True, resources=SMALL)
    with pytest.raises(UsageError, match="is a table of counts"):
        converge(tmp_path / "counts", vocab_size=275, resources=SMALL)
