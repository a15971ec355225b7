"""Chunk counts in state.duckdb, read in the order of the chunks' bytes and in bounded memory.

A fold leaves the rows of chunk_counts in that order, so a range of chunks is a few row groups for DuckDB; rows that
were put in by hand are found too, wherever they lie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList, merge
from streambpe.errors import StreambpeError
from streambpe.store.parts import Part, PartWriter
from streambpe.store.sqlfiles import query_arrow, query_batches, run_sql

_DIGEST_ROWS = 1 << 16  # laid out at once
_STRINGS = pa.large_string()


class CorpusDigest:
    """sha256 of (length, chunk, n) over all chunks in byte order; lengths and counts as 8 bytes, little-endian."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.distinct = self.chunks = self.bytes = 0

    def add(self, rows: ChunkList) -> None:
        """The next chunks. Takes the memory of `_DIGEST_ROWS` of them, or of the longest."""
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

    def facts(self, documents: int) -> dict[str, int | str]:
        """What table run and the event log's header say of the corpus."""
        return {
            "documents": documents,
            "bytes": self.bytes,
            "chunks": self.chunks,
            "distinct": self.distinct,
            "sha256": self._hash.hexdigest(),
        }


def as_list(table: pa.Table) -> ChunkList:
    """Rows (chunk, n) as DuckDB gives them."""
    return ChunkList.of_table(table.set_column(0, "chunk", table["chunk"].cast(_STRINGS)))


def list_ranges(con: duckdb.DuckDBPyConnection, range_bytes: int) -> list[tuple[str, str | None]]:
    """Ranges of about so many bytes of chunk_counts: from which chunk on and up to which (None: the end)."""
    bounds = [low for (low,) in run_sql(con, "steps/list_ranges", range_bytes=range_bytes)][1:]
    return list(zip(["", *bounds], [*bounds, None], strict=True))


def read_rows(con: duckdb.DuckDBPyConnection, table: str, range_bytes: int) -> Iterator[ChunkList]:
    """The rows (chunk, n) of a table or view of chunks, in the order of their bytes; a chunk that stands in several
    rows has their sum."""
    for low, high in list_ranges(con, range_bytes):
        rows = as_list(query_arrow(con, "read_range", table=table, first_chunk=low, end_chunk=high))
        if len(rows):
            yield merge([rows])


def digest_counts(con: duckdb.DuckDBPyConnection, expected: str, range_bytes: int) -> CorpusDigest:
    """The digest of table chunk_counts. `expected`: the sha256 that it had, so that a table that nobody changed is read
    once, as it lies."""
    digest = CorpusDigest()
    for batch in query_batches(con, "read_as_it_lies"):
        digest.add(as_list(pa.Table.from_batches([batch])))
    if digest.facts(0)["sha256"] != expected:
        digest = CorpusDigest()
        for rows in read_rows(con, "chunk_counts", range_bytes):
            digest.add(rows)
    if digest.chunks > MAX_COUNT:
        raise too_many_chunks(digest.chunks)
    return digest


def too_many_chunks(found: int | str) -> StreambpeError:
    """The error for counts that no 64-bit count holds."""
    return StreambpeError(
        f"The counts in chunk_counts add up to {found}, more than a 64-bit count holds ({MAX_COUNT}). Nothing was "
        f"changed."
    )


def copy_rows(con: duckdb.DuckDBPyConnection, table: str, target: Path, range_bytes: int) -> Part:
    """Write what `read_rows` gives as one part that is not a run's."""
    writer = PartWriter(target)
    try:
        for rows in read_rows(con, table, range_bytes):
            writer.write(rows)
        return writer.commit([])
    except BaseException:
        writer.abandon()
        raise
