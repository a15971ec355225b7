"""Runs in the core: texts of symbols cut where two neighbours are not kept together, each distinct run counted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from streambpe.core.binding import ChunkTable, library, succeeded
from streambpe.core.pairs import Bools, Ids, PairTable

_AT_ONCE = 1 << 16  # runs that are taken out at a time
# Distinct runs as their 32-bit symbols, a number that spreads them evenly below 2^63, how often; sorted by (by, run).
RUNS = pa.schema([("run", pa.large_binary()), ("by", pa.int64()), ("n", pa.int64())])


class KeptPairs(msgspec.Struct, frozen=True):
    """Neighbours that are not cut apart: these pairs, and any pair with a symbol that is open on that side."""

    pairs: PairTable
    open_right: Bools
    open_left: Bools

    @property
    def parts(self) -> tuple[int, Bools, Bools]:
        """As the functions of the core take it."""
        return self.pairs.handle, self.open_right, self.open_left

    def goes_on(self, before: int, symbols: Ids) -> int:
        """How many of these symbols are in one run with `before`, the symbol in front of them."""
        return int(library().run_goes_on(*self.parts, before, symbols, len(symbols)))


class RunCounter:
    """Distinct runs and how often each was found, in at most `limit` bytes of memory."""

    def __init__(self, limit: int) -> None:
        self._table = ChunkTable(limit)

    @property
    def empty(self) -> bool:
        """Whether nothing is counted."""
        return not len(self._table)

    def count(self, kept: KeptPairs, symbols: Ids, at: int, *, open_end: bool) -> tuple[bool, int]:
        """Count the runs of a text from a place on: (False if the limit was reached, the place where it stopped).
        open_end: a run that reaches the end of the text may go on behind it; it is not counted, and counting stops
        where it begins."""
        place = np.array([at], np.int64)
        given = self._table.handle, *kept.parts, symbols, len(symbols), open_end, place
        room = succeeded(library().count_runs(*given))
        return room, int(place[0])

    def take(self) -> Iterator[pa.Table]:
        """Take all runs out, some at a time, as rows of RUNS; nothing is left in the counter."""
        many = self._table.sort(by_bytes=False)
        for first in range(0, many, _AT_ONCE):
            stop = min(first + _AT_ONCE, many)
            by = np.empty(stop - first, np.int64)
            offsets, data, n = self._table.rows(first, stop, by)
            runs = pa.LargeBinaryArray.from_buffers(
                pa.large_binary(), len(n), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            )
            yield pa.table([runs, by, n], RUNS)
        self._table.close()
