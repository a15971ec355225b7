"""Columns of strings as the core takes them: offsets and bytes. The core merges sorted ones and lays them out."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streambpe.core.binding import Bytes, Longs, completed, library, structure
from streambpe.later import polars as pl


def as_strings(offsets: Longs, data: Bytes) -> pl.Series:
    """A series of chunks that the core gave."""
    return pl.Series("chunk", pl.from_arrow(_as_arrow(offsets, data)), dtype=pl.String)


def _as_arrow(offsets: Longs, data: Bytes) -> pa.LargeStringArray:
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def as_buffers(values: pl.Series) -> tuple[Longs, Bytes]:
    """A string or binary series as offsets (the first 0) and bytes."""
    offsets, data = arrow_buffers(values.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def arrow_buffers(array: pa.LargeStringArray) -> tuple[Longs, Bytes]:
    """Offsets and bytes of an Arrow array, not copied; the first offset need not be 0."""
    _, offsets, data = array.buffers()
    if offsets is None:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return places, np.frombuffer(data or b"", np.uint8)


def gathered(offsets: Longs, data: Bytes, rows: npt.NDArray[np.int32]) -> Bytes:
    """The bytes of some rows one after another; -1 is the last row."""
    out = np.empty(int(np.diff(offsets)[rows].sum()), np.uint8)
    library().gather_rows(offsets, len(offsets) - 1, data, np.ascontiguousarray(rows), len(rows), out)
    return out


def expanded(values: npt.NDArray[np.int32], sizes: Longs, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The values of some rows one after another, where row i has the next sizes[i] of `values`; -1 is the last row."""
    return gathered(np.append(0, 4 * np.cumsum(sizes)), values.view(np.uint8), rows).view(np.int32)


class ChunkList:
    """Chunks in the order of their bytes, with a count for each; the arrays are used as given, not copied."""

    def __init__(self, offsets: Longs, data: Bytes, n: Longs) -> None:
        self.offsets, self.data, self.n = offsets, data, np.ascontiguousarray(n)

    @classmethod
    def of_table(cls, table: pa.Table) -> ChunkList:
        """The list of rows (chunk, n) in byte order, chunks as large strings; not copied if they lie in one piece."""
        table = table.combine_chunks()
        if not table.num_rows:
            return cls(np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int64))
        chunks, n = (table[name].chunk(0) for name in ("chunk", "n"))
        return cls(*arrow_buffers(chunks), n.to_numpy())

    def __len__(self) -> int:
        return len(self.n)

    @property
    def text_bytes(self) -> int:
        """How many bytes all chunks have."""
        return int(self.offsets[-1] - self.offsets[0])

    def first_not_below(self, chunk: str) -> int:
        """The place of the first chunk that is `chunk` or stands behind it."""
        return bisect_left(range(len(self)), chunk.encode(), key=self.chunk)

    @property
    def in_order(self) -> bool:
        """Whether each chunk is above the one before it."""
        return bool(library().chunks_in_order(self.offsets, self.data, len(self)))

    def part(self, start: int, stop: int) -> ChunkList:
        """The chunks from place `start` up to before `stop`."""
        return ChunkList(self.offsets[start : stop + 1], self.data, self.n[start:stop])

    def chunk(self, place: int) -> bytes:
        """The chunk at a place."""
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes()

    @property
    def lengths(self) -> Longs:
        """How many bytes each chunk has."""
        return np.diff(self.offsets)

    def laid_out(self) -> Bytes:
        """(length, bytes, count) of each chunk, one after another; numbers as eight bytes, the lowest first."""
        out = np.empty(self.text_bytes + 16 * len(self), np.uint8)
        library().lay_out_rows(self.offsets, self.data, self.n, len(self), out)
        return out

    def frame(self) -> pl.DataFrame:
        """The list as a frame (chunk, n)."""
        return pl.DataFrame({"chunk": as_strings(self.offsets, self.data), "n": self.n})

    def table(self) -> pa.Table:
        """The list as an Arrow table (chunk, n), not copied."""
        return pa.table({"chunk": _as_arrow(self.offsets, self.data), "n": self.n})


def merge(lists: list[ChunkList]) -> ChunkList:
    """Several lists as one: a chunk that stands in several counts the sum of its counts. The lists are used up, so that
    what is merged need not be held. Within a list, a chunk may stand several times, one behind the other."""
    lists[:] = lists or [ChunkList(np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int64))]
    if len(lists) == 1:
        lists.append(lists[0].part(0, 0))
    while len(lists) > 1:
        lists.append(_merge_two(lists.pop(0), lists.pop(0)))
    return lists[0]


def _merge_two(*lists: ChunkList) -> ChunkList:
    rows = sum(len(one) for one in lists)
    offsets, n = np.empty(rows + 1, np.int64), np.empty(rows, np.int64)
    data = np.empty(sum(one.text_bytes for one in lists), np.uint8)
    both = [structure(one.offsets, one.data, one.n, len(one)) for one in lists]
    found = completed(library().merge_lists(*both, offsets, data, n))
    return ChunkList(offsets[: found + 1], data[: offsets[found]], n[:found])
