"""`evaluate --fewest`: the least tokens that the same ids could make, against trying every way to cut."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter

import polars as pl
import pytest

from streambpe.encode.encoder import Encoder
from streambpe.encode.fewest import fewest_by
from streambpe.model.eventlog import EventLog, write_event_log
from streambpe.model.replay import Model
from tests.oracles.replay import encode_chunk
from tests.oracles.symbols import symbols_of
from tests.runs import cli
from tests.samples import json_lines
from tests.tiers import seeds
from tests.trained import DOCUMENTS, HOSTILE, random_log, trained


def by_trying(log: EventLog, chunk: str) -> int:
    """The least number of living tokens whose symbols, one behind the other, are those of the chunk."""
    model = Model(log)
    if chunk.encode() in model.vocabulary.stop_ids:
        return 1
    tokens = {model.vocabulary[number].base for number in model.vocabulary.living}
    symbols = tuple(symbols_of(model.alphabet, chunk.encode(), "error" if model.header.unk is None else "unk"))

    @functools.cache
    def least(begin: int) -> int:
        if begin == len(symbols):
            return 0
        ends = (end for end in range(begin + 1, len(symbols) + 1) if end == begin + 1 or symbols[begin:end] in tokens)
        return 1 + min(map(least, ends))

    return least(0)


@pytest.mark.long
def test_of_odd_logs():
    """Deletions, stop words, tokens that nothing makes; long chunks."""
    for seed in seeds(4000):
        log, rng = random_log(seed, supers=False), random.Random(seed)
        sizes = [rng.choice([1, 2, 3, 8, 20, 90]) for _ in range(8)]
        counts = Counter("".join(rng.choices("abc. ", k=size)) for size in sizes) + Counter({"ab": 3, "": 2})
        found = fewest_by(Encoder(log))(pl.DataFrame({"chunk": [*counts], "n": [*counts.values()]}))
        assert found == sum(n * by_trying(log, chunk) for chunk, n in counts.items())
        model = Model(log)
        ids = {chunk: encode_chunk(model, chunk.encode()) for chunk in counts}
        if model.vocabulary.living.keys() >= {number for some in ids.values() for number in some}:
            assert found <= sum(n * len(ids[chunk]) for chunk, n in counts.items())


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["plain", "stops", "whitespace", "picky", "uw"])
def test_of_models_by_the_command(kind, tmp_path):
    """Hostile texts and unknown characters, too; together and for each text."""
    model, log = tmp_path / "m.jsonl", trained(kind)
    write_event_log(model, log)
    texts = {"a": DOCUMENTS[:20], "b": [text for text in HOSTILE if text]}
    command, least = ["evaluate", model, "--fewest", "--by", "source"], []
    for name, some in texts.items():
        command += ["--text", json_lines(tmp_path / f"{name}.jsonl", some)]
        least.append(sum(by_trying(log, chunk) for text in some for chunk in Encoder(log).split(text)))
    rows = json.loads(cli(*command, "--json").stdout)
    assert [row["fewest_tokens"] for row in rows] == [*least, sum(least)]
    assert [row["over_fewest"] for row in rows] == [row["tokens"] / row["fewest_tokens"] - 1 for row in rows]
    assert all(row["over_fewest"] >= 0 for row in rows)
    assert cli(*command).stdout.splitlines()[0].split()[-2:] == ["fewest", "over"]
    assert f"{sum(least):,}" in cli(*(word for word in command if word not in ("--by", "source"))).stdout
