"""The number that says which documents a run holds, against its definition by the mmh3 package."""

from __future__ import annotations

import random
from types import SimpleNamespace

import mmh3
import polars as pl
import pytest

from streambpe.store import documents
from streambpe.store.checksums import add_checksum
from streambpe.store.sequences import SequencePart
from tests.tiers import seeds


def document_hash(chunks: list[str]) -> int:
    """The definition."""
    return mmh3.hash128(b"".join(mmh3.mmh3_x64_128_digest(chunk.encode()) for chunk in chunks), 1)


def write_parts(folder, texts: list[list[str]], cuts: list[int]) -> list[SequencePart]:
    """Documents as stored parts, cut at these places of the whole sequence, each part with chunks in its own order."""
    flat = [item for text in texts for item in (*text, None)]
    parts = []
    for number, (at, stop) in enumerate(zip([0, *cuts], [*cuts, len(flat)], strict=True)):
        here = flat[at:stop]
        chunks = sorted({chunk for chunk in here if chunk is not None}, reverse=number % 2 == 1)
        ids = [-1 if chunk is None else chunks.index(chunk) for chunk in here]
        pl.DataFrame({"chunk": chunks}, schema={"chunk": pl.String}).write_parquet(folder / f"{number}.chunks.parquet")
        add_checksum(folder / f"{number}.chunks.parquet")
        pl.DataFrame({"chunk_id": ids}, schema={"chunk_id": pl.Int32}).write_parquet(folder / f"{number}.parquet")
        add_checksum(folder / f"{number}.parquet")
        follows = number > 0 and flat[at - 1] is not None
        parts.append(SequencePart(str(number), len(here), follows, file=str(number)))
    return parts


@pytest.mark.parametrize("seed", seeds(6))
def test_equals_its_definition_for_any_parts(seed, tmp_path):
    """Empty documents, long ones, parts of one place and of none, one thread and two."""
    rng = random.Random(seed)
    words = ["a", "b", " the", "é", "日本", "x" * 40]
    texts = [[rng.choice(words) for _ in range(rng.choice([0, 0, 1, 2, 5, 30]))] for _ in range(rng.randint(1, 12))]
    places = sum(len(text) + 1 for text in texts)
    cuts = sorted(rng.choices(range(places + 1), k=rng.randint(0, 8)))
    run = SimpleNamespace(sequences=tmp_path)
    parts = write_parts(tmp_path, texts, cuts)
    wanted = f"mmh3:{sum(map(document_hash, texts)) % (1 << 128):032x}"
    assert documents.documents_digest(run, parts) == wanted
    assert documents.documents_digest(run, parts, threads=2) == wanted
    # the last document of a source may have no end
    last = tmp_path / f"{len(cuts)}.parquet"
    pl.read_parquet(last).head(-1).write_parquet(last)
    add_checksum(last)
    if texts[-1]:
        assert documents.documents_digest(run, parts) == wanted
