"""Words as one column of token ids with a separator (-1) on either side of every word:

words  hello x3 · he x9      column  -1 h e l l o -1 h e -1      weights 3 9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streambpe.arrays import Int32, Int64

SEPARATOR = -1


def write_column(symbols: Int32, offsets: Int64, weights: Int64, shortest: int = 2) -> tuple[Int32, Int64]:
    """Words as a column with separators; words of fewer than two tokens are left out, having no pair.

    `shortest` 1 keeps words of one token: a deletion may split them.
    """
    length = np.diff(offsets)
    keep = length >= shortest
    flat = np.asarray(symbols[int(offsets[0]) : int(offsets[-1])])
    if not keep.all():
        flat = flat[np.repeat(keep, length)]
        length = length[keep]
        weights = weights[keep]
    column = np.full(len(flat) + len(length) + 1, SEPARATOR, np.int32)
    index = np.arange(1, len(flat) + 1)
    index += np.repeat(np.arange(len(length)), length)
    column[index] = flat
    return column, np.ascontiguousarray(weights, dtype=np.int64)


def read_column(column: Int32, weights: Int64) -> tuple[Int32, Int64, Int64]:
    """The words of a compact column again: symbols, offsets, weights."""
    ends = np.flatnonzero(column == SEPARATOR)
    offsets = ends - np.arange(len(ends))
    return column[column != SEPARATOR], offsets, weights


class Rewrite(NamedTuple):
    """How the tokens of some words change: an id becomes its parts everywhere (one part: another name)."""

    number: int
    into: tuple[int, ...]

    def apply(self, column: Int32) -> Int32:
        """A compact column before and after."""
        hits = np.flatnonzero(column == self.number)
        size = np.ones(len(column), np.int64)
        size[hits] = len(self.into)
        changed = np.repeat(column, size)
        first = np.cumsum(size)[hits] - len(self.into)
        changed[(first[:, None] + np.arange(len(self.into))).ravel()] = np.tile(self.into, len(hits))
        return changed
