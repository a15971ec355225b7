"""Encoding the corpus that a vocabulary was learned from gives exactly the counts that learning left."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from streambpe.encode.corpus import encode_corpus
from streambpe.encode.tokenizer import Tokenizer
from streambpe.resources import Resources
from streambpe.sources.source import Source
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import SMALL, rows
from tests.samples import natural_text
from tests.script_samples import LINES

SYSTEMS = {
    "plain": ({}, {}),
    "kensho": ({"pattern": "boundless"}, {"like": "kensho", "special": ("<|end|>",)}),
    "batches": ({"pattern": "gpt4"}, {"like": "batch", "stop_list": 5}),
    "whole characters": ({}, {"whole_characters": True}),
    "script": ({"pattern": "script", "normalize": "nfc", "unencodable": "drop"}, {"like": "script"}),
    "script escapes": ({"pattern": "script"}, {"encoding": "script", "whole_characters": True}),
    "deletions": ({}, {"tau": 0.7, "stop_list": 3}),
    "deletions to parts": ({}, {"tau": 0.6, "delete_to": "walk", "whole_characters": True}),
}
PROSE_LINES = natural_text(0, 70_000).splitlines(keepends=True)
DOCUMENTS = ["".join(PROSE_LINES[at : at + 20]) for at in range(0, len(PROSE_LINES), 20)] + LINES * 4
SOURCES = [Source("documents", "iterator", texts=DOCUMENTS)]


@pytest.mark.every(6)
@pytest.mark.parametrize("name", SYSTEMS)
def test_tokens_occur_as_often_as_training_left_them(tmp_path, name):
    """Every token of table token_counts, by the tokenizer text by text and by the way of corpora."""
    counting, learning = SYSTEMS[name]
    run, size = tmp_path / "run", 2400 if "script" in name else 700
    count(run, SOURCES, **counting, resources=SMALL)
    train(run, resources=SMALL, vocab_size=size, **learning)
    left = {token: n for token, n in rows(run, "SELECT id, n FROM token_counts") if n}
    tokenizer = Tokenizer(run)
    log_id = tokenizer.encoder.model.log_id
    found = Counter(log_id[number] for text in DOCUMENTS for number in tokenizer.encode_ordinary(text))
    assert found == left
    encode_corpus(tokenizer, SOURCES, tmp_path / "ids.npy", resources=Resources(1 << 30, 2))
    ids, times = np.unique(np.load(tmp_path / "ids.npy"), return_counts=True)
    assert {log_id[number]: n for number, n in zip(ids.tolist(), times.tolist(), strict=True)} == left
