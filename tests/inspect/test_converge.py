"""`converge`: every number against counting, learning and encoding by other means."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streambpe.config import TrainConfig
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunLocked, Stopped, UsageError
from streambpe.inspect.converge import converge, learned_tokens, rank_correlation
from streambpe.model.eventlog import read_event_log
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import cli

SMALL = Resources(256 * 10**6, 1)
SPLIT = find_pattern("gpt4o").split
TEXTS = {
    "a": "the cat sat on the mat, the cat sat still and the mat was flat ",
    "b": "that hat is the cat's, and that bat has sat on the flat mat ",
    "c": "a cat and a bat sat; the hat was on the mat\n",
}
SIZE = 290


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Three groups, a file each."""
    folder = tmp_path_factory.mktemp("converge")
    for name, text in TEXTS.items():
        (folder / "in" / name).mkdir(parents=True)
        (folder / "in" / name / "x.txt").write_text(text * 40)
    count(folder / "run", [str(folder / "in")], group_by="folder", resources=SMALL)
    return folder / "run"


def learned_from(folder: Path, chunks: dict[str, int]) -> tuple[Tokenizer, list[bytes]]:
    """A training on a table of counts: the tokenizer, and the learned tokens by id."""
    folder.mkdir()
    table = folder / "counts.tsv"
    table.write_text("".join(f"{chunk}\t{n}\n" for chunk, n in sorted(chunks.items()) if "\n" not in chunk))
    assert all("\n" not in chunk for chunk in chunks)
    train(folder / "run", [str(table)], counting={"counts": True}, resources=SMALL, vocab_size=SIZE)
    tokenizer = Tokenizer.load(str(folder / "run"))
    return tokenizer, [tokenizer.decode_single_token_bytes(i) for i in range(256, tokenizer.n_vocab)]


def by_hand(tokenizer: Tokenizer, held: dict[str, int]) -> float:
    size = sum(len(chunk.encode()) * n for chunk, n in held.items())
    return size / sum(len(tokenizer.encode_ordinary(chunk)) * n for chunk, n in held.items())


def counted(*names: str) -> Counter[str]:
    return Counter(chunk for name in names for chunk in SPLIT(TEXTS[name] * 40))


@pytest.mark.long
def test_by_group_equals_training_on_each(run, tmp_path):
    """Groups a and a+b, measured on c."""
    found = converge(run, TrainConfig.from_options(vocab_size=SIZE), by="group", resources=SMALL)
    assert [step.what for step in found.steps] == ["a", "b"]
    held, last = counted("c"), None
    logs = []
    for step, names in zip(found.steps, (("a",), ("a", "b")), strict=True):
        table = counted(*names)
        tokenizer, tokens = learned_from(tmp_path / "-".join(names), table)
        logs.append((tokens, tokenizer))
        assert (step.chunks, step.distinct) == (table.total(), len(table))
        assert step.bytes == sum(len(chunk) * n for chunk, n in table.items())
        assert step.learned == len(tokens)
        assert step.size == 256 + len(tokens)
        assert step.bytes_per_token == by_hand(tokenizer, held)
    (first, _), (last, _) = logs
    both = set(first) & set(last)
    assert 0 < len(both) < len(last)
    assert found.steps[0].in_common == len(both) / len(set(first) | set(last))
    ranks = [[[t for t in tokens if t in both].index(token) for token in sorted(both)] for tokens in (first, last)]
    assert math.isclose(found.steps[0].order, np.corrcoef(ranks)[0, 1])
    assert (found.steps[1].in_common, found.steps[1].order) == (1.0, 1.0)
    gain = found.steps[1].bytes_per_token / found.steps[0].bytes_per_token - 1
    assert (found.steps[0].gain, found.steps[1].gain) == (None, gain)
    assert found.steps[1].same_events == len(last)


@pytest.mark.long
def test_by_share_draws_nested_prefixes(run, tmp_path):
    """The draws made again with numpy; each part lies in the next; on other text with --text."""
    table = sorted(counted("a", "b", "c").items(), key=lambda row: row[0].encode())
    chunks, n = [row[0] for row in table], np.array([row[1] for row in table])
    out = np.random.RandomState(20_000).binomial(n, 1 / 16)
    held = {chunk: k for chunk, k in zip(chunks, out.tolist(), strict=True) if k}
    parts = [n - out]
    for level in (1, 2):
        parts.append(np.random.RandomState(20_000 + level).binomial(parts[-1], 0.5))
    assert all((small <= large).all() for large, small in pairwise(parts))
    config = TrainConfig.from_options(vocab_size=SIZE)
    found = converge(run, config, by="share", steps=3, resources=SMALL)
    assert [step.what for step in found.steps] == ["1/4", "1/2", "all"]
    assert converge(run, config, by="share", steps=3, resources=Resources(300 * 10**6, 2)) == found
    assert list(run.glob("converge*")) == []
    for i, (step, part) in enumerate(zip(found.steps, parts[::-1], strict=True)):
        assert (step.chunks, step.distinct) == (part.sum(), np.count_nonzero(part))
        mine = {chunk: k for chunk, k in zip(chunks, part.tolist(), strict=True) if k}
        newline = {chunk: k for chunk, k in mine.items() if "\n" in chunk}
        assert len(newline) <= 1  # a count table in text cannot hold it; one symbol long, it teaches nothing
        tokenizer, _ = learned_from(tmp_path / str(i), {chunk: k for chunk, k in mine.items() if "\n" not in chunk})
        assert math.isclose(step.bytes_per_token, by_hand(tokenizer, held))
    other = tmp_path / "other.txt"
    other.write_text(TEXTS["c"] * 3 + "and something else")
    shown = json.loads(
        cli("converge", run, "--vocab-size", SIZE, "--by", "share", "--steps", 3, "--text", other, "--json").stdout
    )
    expected = by_hand(tokenizer, Counter(SPLIT(other.read_text())))
    assert math.isclose(shown["steps"][-1]["bytes_per_token"], expected)
    assert [step["chunks"] for step in shown["steps"]] == [step.chunks for step in found.steps]


def test_the_whole_is_what_train_learns(run):
    """With the held-out text elsewhere, groups a and b weighted: the log's tokens are those of train --weight."""
    train(run, resources=SMALL, vocab_size=SIZE, weights=["c=0"], name="ab")
    tokens = learned_tokens(read_event_log(run / "ab.events.jsonl"))
    found = converge(run, TrainConfig.from_options(vocab_size=SIZE), by="group", resources=SMALL)
    assert found.steps[-1].learned == len(tokens)
    assert len(set(tokens)) == len(tokens)
    assert Encoder(read_event_log(run / "ab.events.jsonl")).model.vocabulary.size == found.steps[-1].size


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
    assert "one chunk in 16" in shown[5]
    assert "--by documents is nearer" in shown[6]
    assert "bytes/token" in shown[7]


@pytest.mark.long
def test_what_cannot_be_compared_is_said(run, tmp_path):
    """Too few groups, unknown weights, a comparison under way, a stop."""
    (tmp_path / "x.txt").write_text("some text")
    count(tmp_path / "plain", [str(tmp_path / "x.txt")], resources=SMALL)
    config = TrainConfig.from_options(vocab_size=SIZE)
    with pytest.raises(UsageError, match="named source groups"):
        converge(tmp_path / "plain", config, by="group", resources=SMALL)
    with pytest.raises(UsageError, match="no source group 'xx'"):
        converge(run, TrainConfig.from_options(vocab_size=SIZE, weights=["xx=2"]), by="share", resources=SMALL)
    other = Run(run / "converge")
    with other.lock():
        (other.path / "kept").write_text("another's")
        with pytest.raises(RunLocked):
            converge(run, config, by="share", resources=SMALL)
        assert (other.path / "kept").exists()
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped, match="keeps nothing"):
        converge(run, config, by="share", resources=SMALL, stop=stop)
    assert not other.path.exists()
