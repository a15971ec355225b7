"""Chunk counts in state.duckdb, read in the order of the chunks' bytes and in bounded memory.

A fold leaves the rows of chunk_counts in that order, so they are read as they lie, and their order is checked. If it is
wrong, because rows were put in by hand, they are read again, sorted by SQL, range by range: a range is a few row groups
for DuckDB, and rows that lie elsewhere are found too.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList, merge
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.store.database import one_thread
from streambpe.store.parts import Part, refuse_overflow, scratch_part
from streambpe.store.sqlfiles import query_arrow, query_batches, run_sql

_DIGEST_ROWS = 1 << 16  # added to the digest at once
_Value = TypeVar("_Value")


class CorpusDigest:
    """sha256 of (length, chunk, n) over all chunks in byte order; lengths and counts as 8 bytes, little-endian."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.distinct = self.chunks = self.bytes = 0

    @classmethod
    def of(cls, pieces: Iterable[ChunkList]) -> CorpusDigest:
        """The digest of all these chunks."""
        digest = cls()
        for rows in pieces:
            digest.add(rows)
        return digest

    def add(self, rows: ChunkList) -> None:
        """Add the next chunks. Takes the memory of `_DIGEST_ROWS` of them, or of the longest."""
        for start in range(0, len(rows), _DIGEST_ROWS):
            self._hash.update(rows.part(start, min(start + _DIGEST_ROWS, len(rows))).laid_out().data)
        lengths, n = rows.lengths, rows.n
        self.distinct += len(rows)
        if len(n) and int(np.abs(n).max()) * int(lengths.max() + 1) < MAX_COUNT // len(n):
            self.chunks += int(n.sum())
            self.bytes += int((lengths * n).sum())
        else:
            self.chunks += sum(n.tolist())
            self.bytes += sum(map(int.__mul__, lengths.tolist(), n.tolist()))

    def facts(self, documents: int) -> CorpusFacts:
        """The facts of these counts, of so many documents."""
        return {
            "documents": documents,
            "bytes": self.bytes,
            "chunks": self.chunks,
            "distinct": self.distinct,
            "sha256": self._hash.hexdigest(),
        }


def list_ranges(con: duckdb.DuckDBPyConnection, range_bytes: int) -> list[tuple[str, str | None]]:
    """Ranges of about `range_bytes` of chunk_counts, as (first chunk, the chunk that ends it; None: the end)."""
    bounds = [low for (low,) in run_sql(con, "steps/list_ranges", range_bytes=range_bytes)][1:]
    return list(zip(["", *bounds], [*bounds, None], strict=True))


def read_rows(con: duckdb.DuckDBPyConnection, table: str, range_bytes: int) -> Iterator[ChunkList]:
    """The rows (chunk, n) of a table or view of chunks, sorted by their bytes; a chunk that stands in several rows has
    their sum."""
    for low, high in list_ranges(con, range_bytes):
        rows = ChunkList.of_table(query_arrow(con, "read_range", table=table, first_chunk=low, end_chunk=high))
        if len(rows):
            yield merge([rows])


class _OutOfOrder(Exception):
    """The rows are not in the order of their chunks' bytes, or a chunk stands in two."""


def _read_as_they_lie(con: duckdb.DuckDBPyConnection, table: str) -> Generator[ChunkList, None, None]:
    """The rows as `read_rows` gives them; raises _OutOfOrder if they lie otherwise."""
    last: bytes | None = None
    with one_thread(con):
        for batch in query_batches(con, "read_as_they_lie", table=table):
            rows = ChunkList.of_table(pa.Table.from_batches([batch]))
            if (last is not None and rows.chunk(0) <= last) or not rows.in_order:
                raise _OutOfOrder
            last = rows.chunk(len(rows) - 1)
            yield rows


def _given_rows(
    con: duckdb.DuckDBPyConnection, table: str, range_bytes: int, use: Callable[[Iterator[ChunkList]], _Value]
) -> _Value:
    """What `use` makes of the rows in order; it is called again, on sorted rows, if they are out of order."""
    try:
        with contextlib.closing(_read_as_they_lie(con, table)) as rows:  # while the connection is open
            return use(rows)
    except _OutOfOrder:
        return use(read_rows(con, table, range_bytes))


def digest_counts(con: duckdb.DuckDBPyConnection, range_bytes: int) -> CorpusDigest:
    """The digest of table chunk_counts."""
    digest = _given_rows(con, "chunk_counts", range_bytes, CorpusDigest.of)
    refuse_overflow(digest.chunks, f"The counts in chunk_counts add up to {digest.chunks}")
    return digest


def copy_rows(con: duckdb.DuckDBPyConnection, table: str, target: Path, range_bytes: int) -> Part:
    """Write the rows of a table or view of chunks, in order, as one part that belongs to no run."""
    return _given_rows(con, table, range_bytes, partial(scratch_part, target))
