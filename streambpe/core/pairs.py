"""Pairs of neighbouring symbols in the core: counted, or just held as a set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import CoreObject, Longs, completed, library, succeeded

Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


def count_from_here() -> Longs:
    """The state of counting before the first place of a column."""
    return np.array([0, -1, 0], np.int64)


class PairTable(CoreObject):
    """Pairs as keys left << 32 | right, each with a count, in at most `limit` bytes of memory."""

    def __init__(self, limit: int = 1 << 40) -> None:
        super().__init__("pairs", "the table of pairs", limit)

    def __len__(self) -> int:
        return int(library().pairs_size(self.handle))

    def count(self, column: Ids, state: Longs, weights: Longs | None = None, disjoint: bool = False) -> bool:
        """Count the pairs of neighbours of a column, but for symbols below 0, from `state` on, which begins as
        `count_from_here()`: each with the weight of its word, or 1; if disjoint, in a run of equal symbols only every
        other pair counts. False: the table's limit is reached, and another table has to take the rest."""
        column = np.ascontiguousarray(column, np.int32)
        return succeeded(library().column_pairs(self.handle, column, len(column), weights, disjoint, state))

    def hold(self, keys: Longs, numbers: Longs | None = None) -> None:
        """Put these pairs into the table, and add these numbers to theirs."""
        keys, done = np.ascontiguousarray(keys, np.int64), np.zeros(1, np.int64)
        completed(library().pairs_add(self.handle, keys, numbers, 1, len(keys), 0, 1, done))

    def add_rows(self, rows: Longs, part: int = 0, parts: int = 1, at: int = 0) -> int:
        """Add rows (key, count) from row `at` on, but only pairs of part `part` of `parts`. Returns the row where it
        stopped: behind the last one, or where the limit was reached."""
        done, keys = np.array([at], np.int64), rows.ctypes.data
        succeeded(library().pairs_add(self.handle, keys, keys + 8, 2, len(rows), part, parts, done))
        return int(done[0])

    def clear(self) -> None:
        """Forget all pairs, and keep the memory for others."""
        library().pairs_clear(self.handle)

    def parted(self, parts: int, least: int = -(2**63)) -> tuple[Longs, Longs]:
        """The pairs that count at least `least`, by part: (rows (key, count), where the rows of each part end)."""
        ends = np.empty(parts, np.int64)
        rows = np.empty((library().pairs_starts(self.handle, least, parts, ends), 2), np.int64)
        library().pairs_parted(self.handle, least, parts, ends, rows)
        return rows, ends

    def take(self) -> tuple[Longs, Longs]:
        """(keys, counts), ascending; nothing is left in the table."""
        keys, n = np.empty((2, len(self)), np.int64)
        library().pairs_sorted(self.handle, keys, n)
        self.close()
        return keys, n
