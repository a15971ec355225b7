"""The number that says which documents a run holds, against its definition, one byte at a time."""

from __future__ import annotations

import random
from types import SimpleNamespace

import polars as pl
import pytest

from streambpe.store import documents
from streambpe.store.sequences import SequencePart

MASK = (1 << 64) - 1


def chunk_hash(chunk: str) -> int:
    """The definition."""
    total = sum((byte + 1) * pow(0x100000001B3, place) for place, byte in enumerate(chunk.encode())) & MASK
    return (((total ^ (total >> 32)) * 0x9E3779B97F4A7C15) + len(chunk.encode())) & MASK


def mix(x: int) -> int:
    """The end of splitmix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def document_hash(chunks: list[str]) -> int:
    """The definition."""
    first, second = (
        sum(chunk_hash(chunk) * pow(lane, place) for place, chunk in enumerate(chunks)) & MASK
        for lane in (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
    )
    low = mix((first + mix(len(chunks) + 1)) & MASK)
    return low + (mix(second ^ low) << 64)


def write_parts(folder, texts: list[list[str]], cuts: list[int]) -> list[SequencePart]:
    """Documents as stored parts, cut at these places of the whole sequence, each part with chunks in its own order."""
    flat = [item for text in texts for item in (*text, None)]
    parts = []
    for number, (at, stop) in enumerate(zip([0, *cuts], [*cuts, len(flat)], strict=True)):
        here = flat[at:stop]
        chunks = sorted({chunk for chunk in here if chunk is not None}, reverse=number % 2 == 1)
        ids = [-1 if chunk is None else chunks.index(chunk) for chunk in here]
        pl.DataFrame({"chunk": chunks}, schema={"chunk": pl.String}).write_parquet(folder / f"{number}.chunks.parquet")
        pl.DataFrame({"chunk_id": ids}, schema={"chunk_id": pl.Int32}).write_parquet(folder / f"{number}.parquet")
        parts.append(SequencePart(str(number), len(here), follows=number > 0 and flat[at - 1] is not None))
    return parts


@pytest.mark.parametrize("seed", range(6))
def test_equals_its_definition_for_any_parts(seed, tmp_path):
    """Empty documents, long ones, parts of one place and of none, one thread and two."""
    rng = random.Random(seed)
    words = ["a", "b", " the", "é", "日本", "x" * 40]
    texts = [[rng.choice(words) for _ in range(rng.choice([0, 0, 1, 2, 5, 30]))] for _ in range(rng.randint(1, 12))]
    places = sum(len(text) + 1 for text in texts)
    cuts = sorted(rng.choices(range(places + 1), k=rng.randint(0, 8)))
    run = SimpleNamespace(sequences=tmp_path)
    parts = write_parts(tmp_path, texts, cuts)
    wanted = f"{sum(map(document_hash, texts)) % (1 << 128):032x}"
    assert documents.documents_digest(run, parts) == wanted
    assert documents.documents_digest(run, parts, threads=2) == wanted
    # the last document of a source may have no end
    pl.read_parquet(tmp_path / f"{len(cuts)}.parquet").head(-1).write_parquet(tmp_path / f"{len(cuts)}.parquet")
    if texts[-1]:
        assert documents.documents_digest(run, parts) == wanted
