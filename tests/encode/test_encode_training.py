"""Encoding the corpus that a vocabulary was learned from gives exactly the counts that learning left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from streambpe.core.encoding import WHOLE
from streambpe.encode.corpus import encode_corpus
from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.encode.tokenizer import Tokenizer
from streambpe.model.eventlog import Op
from streambpe.resources import Resources
from streambpe.sources.source import Source
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import SMALL, log_of, rows
from tests.samples import natural_text, prose_documents
from tests.script_samples import LINES

SYSTEMS = {
    "plain": ({}, {}),
    "rustbpe": ({"pattern": "gpt4"}, {"like": "rustbpe", "special": ("<|end|>",)}),
    "kensho": ({"pattern": "boundless"}, {"like": "kensho"}),
    "stop words": ({}, {"stop_list": 12}),
    "batches": ({"pattern": "gpt4"}, {"like": "batch", "stop_list": 5}),
    "whole characters": ({}, {"whole_characters": True}),
    "script": ({"pattern": "script", "normalize": "nfc", "unencodable": "drop"}, {"like": "script"}),
    "script escapes": ({"pattern": "script"}, {"encoding": "script", "whole_characters": True}),
    "deletions": ({}, {"tau": 0.7, "stop_list": 3}),
    "deletions to parts": ({}, {"tau": 0.6, "delete_to": "walk", "whole_characters": True}),
}
PROSE_LINES = natural_text(0, 70_000).splitlines(keepends=True)
DOCUMENTS = ["".join(PROSE_LINES[at : at + 20]) for at in range(0, len(PROSE_LINES), 20)] + LINES * 4


PROSE = prose_documents()[:100]


def source_of(documents: list[str]) -> Source:
    return Source("documents", "iterator", texts=documents)


@pytest.mark.every(6)
@pytest.mark.parametrize("name", SYSTEMS)
def test_tokens_occur_as_often_as_training_left_them(tmp_path, name):
    """Every token of table token_counts, by the tokenizer text by text and by the way of corpora."""
    counting, learning = SYSTEMS[name]
    run, size = tmp_path / "run", 2400 if "script" in name else 700
    count(run, [source_of(DOCUMENTS)], **counting, resources=SMALL)
    train(run, resources=SMALL, vocab_size=size, **learning)
    left = {token: n for token, n in rows(run, "SELECT id, n FROM token_counts") if n}
    tokenizer = Tokenizer(run)
    log_id = tokenizer.encoder.model.log_id
    found = Counter(log_id[number] for text in DOCUMENTS for number in tokenizer.encode_ordinary(text))
    assert found == left
    encode_corpus(tokenizer, [source_of(DOCUMENTS)], tmp_path / "ids.npy", resources=Resources(1 << 30, 2))
    ids, times = np.unique(np.load(tmp_path / "ids.npy"), return_counts=True)
    assert {log_id[number]: n for number, n in zip(ids.tolist(), times.tolist(), strict=True)} == left


@pytest.mark.long
@pytest.mark.parametrize("superwords", [{"superwords": "boundless"}, {"superwords": "superbpe", "transition": 500}])
@pytest.mark.parametrize("like", ["hf", "kensho"])
def test_superwords_join_as_often_as_training_counted(tmp_path, superwords, like):
    """Just before each of the last supermerges the encoded documents hold its pair as often as its event says."""
    run = tmp_path / "run"
    count(run, [source_of(PROSE)], pattern="boundless", sequences=True, resources=SMALL)
    train(run, resources=SMALL, vocab_size=1300, like=like, **superwords)
    log = log_of(run)
    places = [i for i, event in enumerate(log.events) if event.op is Op.SUPERMERGE]
    assert len(places) > 30
    for place in [*places[:2], places[len(places) // 2], *places[-2:]]:
        encoder = Encoder(replace(log, events=log.events[:place]))
        event = log.events[place]
        assert pairs_across(encoder)[event.pair] == event.n, place


def pairs_across(encoder: Encoder) -> Counter[tuple[int, int]]:
    """Neighbours in runs of whole chunks, after the superwords that the model has; (a, a) without overlap."""
    pairs: Counter[tuple[int, int]] = Counter()
    for text in PROSE:
        runs: list[list[int]] = [[]]
        for chunk in encoder.split(text):
            ids = encoder.encode_chunk(chunk)
            if len(ids) == 1:
                runs[-1].append(ids[0])
            else:
                runs.append([])
        for run in runs:
            stream = np.array(run, np.int32) | np.int32(WHOLE)
            log_ids = map(encoder.model.log_id.__getitem__, RunJoiner(encoder).joined(stream).tolist())
            pairs.update(pairwise(log_ids))
    return pairs
