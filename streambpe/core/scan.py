"""Blocks of words on disk in the core: pairs and chains counted, chains turned into what was made of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import ChunkTable, Longs, completed, library
from streambpe.core.pairs import Ids, PairTable
from streambpe.core.strings import ChunkList

_BLOCK = 1 << 40  # bytes of a block's own table: it is no larger than the block makes it
Refused = npt.NDArray[np.bool_] | None


def column_pairs(column: Ids, weights: Longs, disjoint: bool) -> tuple[Longs, Longs]:
    """(keys left << 32 | right ascending, counts) of the pairs of a column; in a run of equal tokens every other one
    counts, if disjoint."""
    table, state = PairTable(), np.array([0, -1, 0], np.int64)
    arrays = (column.ctypes.data, len(column), weights.ctypes.data)
    completed(library().column_pairs(table.handle, *arrays, disjoint, state.ctypes.data))
    return table.take()


def drop_words(column: Ids, weights: Longs) -> tuple[Ids, Longs]:
    """Words of one token leave both arrays, which are written to."""
    words = np.zeros(1, np.int64)
    size = library().drop_words(column.ctypes.data, len(column), weights.ctypes.data, words.ctypes.data)
    return column[:size], weights[: int(words[0])]


class ChainFinder:
    """Finds the chains of a column: longest stretches of tokens in which every two neighbours are linked."""

    def __init__(self, left: Longs, right: Longs, busy: int, ids: int) -> None:
        """The links by number; a chain needs one below `busy`. All tokens are below `ids`."""
        self.links = PairTable()
        self.links.hold((left << 32) | right, np.arange(len(left), dtype=np.int64))
        self.busy = busy
        self.wide: npt.DTypeLike = np.uint16 if ids < 1 << 16 else np.int32
        self.itemsize = np.dtype(self.wide).itemsize

    def _names(self, column: Ids) -> Ids | npt.NDArray[np.uint16]:
        """The tokens as they name a chain."""
        return column if self.itemsize == 4 else column.astype(np.uint16)

    def _rule(self, refused: Refused) -> tuple[int, int, int | None]:
        return self.links.handle, self.busy, None if refused is None else refused.ctypes.data

    def count(self, column: Ids, weights: Longs, refused: Refused) -> ChunkList:
        """The distinct chains, each as its tokens' bytes, and their words' weights added up. `refused`: places that are
        linked to the next one whatever their pair is."""
        table, state, names = ChunkTable(_BLOCK), np.array([0, -1], np.int64), self._names(column)
        arrays = (column.ctypes.data, names.ctypes.data, self.itemsize, weights.ctypes.data)
        completed(library().count_chains(table.handle, *self._rule(refused), *arrays, len(column), state.ctypes.data))
        return ChunkList(*table.take())

    def tokens(self, chains: ChunkList) -> tuple[Ids, Longs]:
        """Chains as tokens, one behind the other, and where each begins; and the end."""
        start, stop = int(chains.offsets[0]), int(chains.offsets[-1])
        flat = np.ascontiguousarray(chains.data[start:stop]).view(self.wide).astype(np.int32)
        return flat, (chains.offsets - start) // self.itemsize

    def rewrite(self, numbers: ChunkTable, column: Ids, refused: Refused, made: Ids, first: Longs) -> Ids:
        """Every chain as made[first[k] : first[k + 1] - 1], k its number in the table. The column is written to."""
        names = self._names(column)
        arrays = (column.ctypes.data, names.ctypes.data, self.itemsize, len(column))
        size = library().rewrite_chains(
            numbers.handle, *self._rule(refused), *arrays, first.ctypes.data, made.ctypes.data
        )
        completed(size)
        return column[:size]


def numbered(chains: ChunkList) -> ChunkTable:
    """A table that knows the place of each of these chains."""
    table = ChunkTable(_BLOCK)
    if table.add(chains.offsets, chains.data, np.arange(len(chains), dtype=np.int64)) < len(chains):
        raise MemoryError("the table of chains")
    return table
