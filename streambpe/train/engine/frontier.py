"""Which pairs of the words on disk are worth looking at: hot ones in memory, the rest is left in the blocks.

A pair is *hot* if it counted at least `floor` when the blocks were last counted (`PairCounter`); its count is exact. Of
all others, the cold ones, it is only known that they count less than the floor:

    floor 100     hot  (t,h) 900 · (i,n) 400 · (o,n) 120          cold: everything that counts 99 or less
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.train.engine.pair_counter import PairCounter

PairFilter = Callable[[Int64, Int64], Bool]


def _no_pairs() -> Int64:
    return np.empty(0, np.int64)


class Frontier(msgspec.Struct):
    """The hot pairs, and the floor; it is 0 as long as nothing was counted."""

    left: Int64 = msgspec.field(default_factory=_no_pairs)
    right: Int64 = msgspec.field(default_factory=_no_pairs)
    count: Int64 = msgspec.field(default_factory=_no_pairs)
    floor: int = 0

    @classmethod
    def of(cls, counter: PairCounter, at_least: int, most: int, allowed: PairFilter | None = None) -> Frontier:
        """The pairs that count `at_least`, or if they are more than `most`, the best of them: of pairs that tie all are
        taken or none, but for the very best, which are always taken. The counter is used up."""
        rows, floor = np.empty((0, 2), np.int64), at_least
        for table in counter.tables():
            more = table.parted(1, floor)[0]
            if allowed is not None:
                more = more[allowed(more[:, 0] >> 32, more[:, 0] & 0xFFFFFFFF)]
            rows = np.concatenate((rows, more))
            if len(rows) > most:  # more pairs only raise the floor, so what falls out now would fall out later
                cut = len(rows) - most - 1
                next_one = int(np.partition(rows[:, 1], cut)[cut])  # the best of those that are too many
                floor = max(floor, min(next_one + 1, int(rows[:, 1].max())))
                rows = rows[rows[:, 1] >= floor]
        rows = rows[np.argsort(rows[:, 0])]
        return cls(rows[:, 0] >> 32, rows[:, 0] & 0xFFFFFFFF, rows[:, 1].copy(), floor)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return self.left.nbytes + self.right.nbytes + self.count.nbytes

    def best(self, k: int, label: Int64) -> tuple[Int64, int]:
        """(where the k best pairs stand, best first; a count that no other pair exceeds). `label[token]` sorts tokens
        as the tie rule does."""
        places = np.flatnonzero(self.count >= self.floor)
        if len(places) > k + 1:
            cut = len(places) - k - 1
            places = places[self.count[places] >= np.partition(self.count[places], cut)[cut]]
        order = np.lexsort((label[self.right[places]], label[self.left[places]], -self.count[places]))[: k + 1]
        places = places[order]
        return places[:k], int(self.count[places[k]]) if len(places) > k else self.floor - 1
