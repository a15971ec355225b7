"""The number that says which documents a run holds, against its definition by the mmh3 package."""

from __future__ import annotations

import random
from types import SimpleNamespace

import mmh3
import numpy as np
import polars as pl
import pytest

from streambpe.store import documents
from streambpe.store.sequences import SequencePart, write_sequence
from tests.tiers import seeds


def document_hash(chunks: list[str]) -> int:
    """The definition."""
    return mmh3.hash128(b"".join(mmh3.mmh3_x64_128_digest(chunk.encode()) for chunk in chunks), 1)


def write_parts(folder, flat: list[str | None], cuts: list[int]) -> list[SequencePart]:
    """Documents, of which None is the end, as stored parts, cut at these places."""
    parts = []
    for number, (at, stop) in enumerate(zip([0, *cuts], [*cuts, len(flat)], strict=True)):
        here = flat[at:stop]
        chunks = sorted({chunk for chunk in here if chunk is not None})
        ids = [-1 if chunk is None else chunks.index(chunk) for chunk in here]
        write_sequence(folder, str(number), pl.Series(chunks, dtype=pl.String), [np.array(ids, np.int32)])
        follows = at > 0 and flat[at - 1] is not None
        parts.append(SequencePart(str(number), len(here), follows, file=str(number)))
    return parts


@pytest.mark.parametrize("seed", seeds(6))
def test_equals_its_definition_for_any_parts(seed, tmp_path):
    """Empty documents, long ones, parts of one place and of none, one thread and two."""
    rng = random.Random(seed)
    words = ["a", "b", " the", "é", "日本", "x" * 40]
    texts = [[rng.choice(words) for _ in range(rng.choice([0, 0, 1, 2, 5, 30]))] for _ in range(rng.randint(1, 12))]
    flat = [item for text in texts for item in (*text, None)]
    if texts[-1] and rng.random() < 0.5:
        flat.pop()  # the last document of a source may have no end
    cuts = sorted(rng.choices(range(len(flat) + 1), k=rng.randint(0, 8)))
    parts = write_parts(tmp_path, flat, cuts)
    wanted = f"mmh3:{sum(map(document_hash, texts)) % (1 << 128):032x}"
    for threads in (1, 2):
        assert documents.documents_digest(SimpleNamespace(sequences=tmp_path), parts, threads) == wanted
