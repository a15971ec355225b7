"""`converge`: every number against counting, learning and encoding by other means."""

from __future__ import annotations

import functools
import json
import math
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunLocked, Stopped, UsageError
from streambpe.inspect.converge import converge, rank_correlation
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.oracles.splits import split_text
from tests.runs import cli
from tests.samples import written

SMALL = Resources(256 * 10**6, 1)
SPLIT = functools.partial(split_text, find_pattern("gpt4o"))
TEXTS = {
    "a": "the cat sat on the mat, the cat sat still and the mat was flat ",
    "b": "that hat is the cat's, and that bat has sat on the flat mat ",
    "c": "a cat and a bat sat; the hat was on the mat\n",
}
SIZE = 290


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Three files."""
    folder = tmp_path_factory.mktemp("converge")
    for name, text in TEXTS.items():
        (folder / "in" / name).mkdir(parents=True)
        (folder / "in" / name / "x.txt").write_text(text * 5)
    count(folder / "run", [str(folder / "in")], resources=SMALL)
    return folder / "run"


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


def counted(*names: str) -> Counter[str]:
    return Counter(chunk for name in names for chunk in SPLIT(TEXTS[name] * 5))


@pytest.mark.long
def test_by_share_deals_chunks_out(run, tmp_path):
    """The buckets made again with numpy; each step is a training on its counts; on other text with --text."""
    table = sorted(counted("a", "b", "c").items(), key=lambda row: row[0].encode())
    chunks, left = [row[0] for row in table], np.array([row[1] for row in table])
    random = np.random.RandomState(20_000)
    buckets = []
    for number in range(32):
        buckets.append(random.binomial(left, 1 / (32 - number)))
        left = left - buckets[-1]
    assert not left.any()
    found = converge(run, vocab_size=SIZE, by="share", steps=3, resources=SMALL)
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    assert converge(run, vocab_size=SIZE, by="share", steps=3, resources=Resources(300 * 10**6, 2)) == found
    assert list(run.glob("converge*")) == []
    held = dict(zip(chunks, (buckets[0] + buckets[1]).tolist(), strict=True))
    logs = []
    for step, many in zip(found.steps, (8, 16, 30), strict=True):
        part = sum(buckets[2 : 2 + many])
        mine = {chunk: k for chunk, k in zip(chunks, part.tolist(), strict=True) if k}
        assert (step.chunks, step.distinct) == (part.sum(), np.count_nonzero(part))
        assert step.bytes == sum(len(chunk) * n for chunk, n in mine.items())
        # a count table in text cannot hold a line feed; one symbol long, it teaches nothing
        plain = {chunk: k for chunk, k in mine.items() if "\n" not in chunk}
        tokenizer, tokens = learned_from(tmp_path / str(many), plain)
        assert step.learned == len(tokens)
        assert math.isclose(step.bytes_per_token, by_hand(tokenizer, held))
        logs.append(tokens)
    first, _, last = map(set, logs)
    both = first & last
    assert 0 < len(both) < len(last)
    assert found.steps[0].in_common == len(both) / len(first | last)
    ranks = [[[t for t in tokens if t in both].index(token) for token in sorted(both)] for tokens in logs[::2]]
    assert math.isclose(found.steps[0].order, np.corrcoef(ranks)[0, 1])
    assert (found.steps[2].in_common, found.steps[2].order) == (1.0, 1.0)
    gain = found.steps[1].bytes_per_token / found.steps[0].bytes_per_token - 1
    assert (found.steps[0].gain, found.steps[1].gain) == (None, gain)
    other = written(tmp_path / "other.txt", TEXTS["c"] * 3 + "and something else")
    shown = json.loads(
        cli("converge", run, "--vocab-size", SIZE, "--by", "share", "--steps", 3, "--text", other, "--json").stdout
    )
    expected = by_hand(tokenizer, Counter(SPLIT(other.read_text())))
    assert math.isclose(shown["steps"][-1]["bytes_per_token"], expected)
    assert [step["chunks"] for step in shown["steps"]] == [step.chunks for step in found.steps]


def test_rank_correlation():
    """1 for the same order, -1 for the reverse, None for nothing to compare; what only one has is left out."""
    a = [b"a", b"b", b"c", b"d"]
    assert rank_correlation(a, a) == 1
    assert rank_correlation(a, a[::-1]) == -1
    assert rank_correlation([b"x", *a], [b"a", b"y", b"b", b"c", b"d"]) == 1
    assert rank_correlation(a, [b"a"]) is None


@pytest.mark.long
def test_the_command_prints_a_table(run):
    """One line per part, and the answer in words."""
    shown = cli("converge", run, "--vocab-size", SIZE, "--by", "share", "--steps", 3).stdout.splitlines()
    assert shown[0].split()[:3] == ["prefix", "chunks", "distinct"]
    assert [line.split()[0] for line in shown[1:4]] == ["1/4", "1/2", "all"]
    assert "2 of 32 buckets of chunks" in shown[5]
    assert "--by documents is more" in shown[6]
    assert "bytes/token" in shown[7]


@pytest.mark.long
def test_what_cannot_be_compared_is_said(run, tmp_path):
    """Too little text, weights, a comparison under way, a stop."""
    (tmp_path / "x.txt").write_text("some text")
    count(tmp_path / "plain", [str(tmp_path / "x.txt")], resources=SMALL)
    with pytest.raises(UsageError, match="too little text"):
        converge(tmp_path / "plain", vocab_size=SIZE, by="share", resources=SMALL)
    with pytest.raises(UsageError, match="without groups"):
        converge(run, vocab_size=SIZE, weight=["a=2"], by="share", resources=SMALL)
    other = Run(run / "converge")
    with other.lock():
        (other.path / "kept").write_text("another's")
        with pytest.raises(RunLocked):
            converge(run, vocab_size=SIZE, by="share", resources=SMALL)
        assert (other.path / "kept").exists()
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped, match="keeps nothing"):
        converge(run, vocab_size=SIZE, by="share", resources=SMALL, stop=stop)
    assert not other.path.exists()
