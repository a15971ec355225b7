"""Blocks of words on disk, in the core: chains are counted, and become what was made of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import Bytes, ChunkTable, Longs, completed, library
from streambpe.core.pairs import Ids, PairTable
from streambpe.core.strings import ChunkList

_BLOCK = 1 << 40  # limit of a block's own table in bytes: none, as the block itself bounds it
_FILTER_BYTES = 1 << 16


class ChainFinder:
    """Finds the chains of a column: longest stretches of tokens in which every two neighbours are a link."""

    def __init__(self, left: Longs, right: Longs, busy: int, ids: int) -> None:
        """The links, in the order of their numbers; a chain needs one below `busy`. All tokens are below `ids`."""
        self.links = PairTable()
        self.links.hold((left << 32) | right, np.arange(len(left), dtype=np.int64))
        self.filter = np.zeros(_FILTER_BYTES, np.uint8)
        library().filter_links(self.links.handle, self.filter)
        self.busy = busy
        self.wide: npt.DTypeLike = np.uint16 if ids < 1 << 16 else np.int32
        self.itemsize = np.dtype(self.wide).itemsize

    def _names(self, column: Ids) -> Ids | npt.NDArray[np.uint16]:
        """The tokens as they name a chain."""
        return column if self.itemsize == 4 else column.astype(np.uint16)

    def _rule(self) -> tuple[int, Bytes, int]:
        return self.links.handle, self.filter, self.busy

    def count(self, column: Ids, weights: Longs) -> ChunkList:
        """The distinct chains, each as the bytes of its tokens, and the sum of their words' weights."""
        table, state, names = ChunkTable(_BLOCK), np.array([0, -1], np.int64), self._names(column)
        given = column, names, self.itemsize, weights, len(column)
        completed(library().count_chains(table.handle, *self._rule(), *given, state))
        return ChunkList(*table.take())

    def tokens(self, chains: ChunkList) -> tuple[Ids | npt.NDArray[np.uint16], Longs]:
        """(the tokens of all chains, one chain behind the other, where each begins and, at last, where all end)."""
        start, stop = int(chains.offsets[0]), int(chains.offsets[-1])
        return chains.data[start:stop].view(self.wide), (chains.offsets - start) // self.itemsize

    def rewrite(self, numbers: ChunkTable, column: Ids, made: Ids, first: Longs) -> Ids:
        """Replace every chain by made[first[k] : first[k + 1] - 1], k its number in the table, in the column itself."""
        names = self._names(column)
        given = column, names, self.itemsize, len(column)
        size = library().rewrite_chains(numbers.handle, *self._rule(), *given, first, made)
        completed(size)
        return column[:size]


def numbered(chains: ChunkList) -> ChunkTable:
    """A table that holds these chains, each with its place in the list as its number."""
    table = ChunkTable(_BLOCK)
    if table.add(chains.offsets, chains.data, np.arange(len(chains), dtype=np.int64)) < len(chains):
        raise MemoryError("the table of chains")
    return table
