"""Which pairs of the words on disk are worth looking at: hot ones in memory, the rest is left in the blocks.

A pair is *hot* while it is in the frontier. Every pair that counted at least `floor` when the frontier was
last filled, or when it was born, is there with its exact count; all others are *cold*: nothing is stored for them, and
it is only known that they count less than the floor. That is enough: counts only fall until the blocks are counted
again, so a cold pair cannot win before the frontier's own best falls under the floor.

    floor 100     hot  (t,h) 900 · (i,n) 400 · (o,n) 120          cold: everything that counts 99 or less
    merge (t,h):  born (th,e) 350 -> hot;  born (th,u) 12 -> cold, never stored
    the best hot pair counts 99 or less -> counted again, floor 12

Blocks are counted by `PairCounter` (pair_counter.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.train.engine.pair_counter import PairCounter

PairFilter = Callable[[Int64, Int64], Bool]


@dataclass(frozen=True)
class FloorRequest:
    """How deep a refill goes. The floor is a count, so of pairs that tie all come in or none.

    at_least: counts below this are of no use (min_frequency). most: hot pairs that fit. fewest: take at least so many
    all the same (BatchBPE's rule looks at k pairs at once).
    """

    at_least: int = 1
    most: int = 1 << 20
    fewest: int = 1

    def floor(self, count: Int64) -> int:
        """The floor for these counts; when more than `most` pairs tie for the best, they all come in."""
        if len(count) == 0:
            return self.at_least
        best = int(count.max())
        floor = 0
        if self.most < len(count):
            cut = len(count) - self.most - 1
            floor = max(floor, int(np.partition(count, cut)[cut]) + 1)
        if self.fewest > len(count):
            return self.at_least
        few = len(count) - self.fewest
        enough = int(np.partition(count, few)[few]) if self.fewest > 1 else best
        floor = min(floor, enough)
        return max(self.at_least, floor)


@dataclass
class Best:
    """The k best pairs, best first, and a count that no other pair exceeds."""

    slots: Int64
    floor_count: int


class Frontier:
    """Hot pairs by slot number: parallel arrays that grow at the end; a slot is never reused between
    refills."""

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self.fill(none, none, none, 0)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.left, self.right, self.count, self._keys, self._key_slots)
        return sum(array.nbytes for array in arrays)

    def fill(self, left: Int64, right: Int64, count: Int64, floor: int) -> None:
        """Replace everything: all pairs that count at least `floor`; cold pairs count less. 0 before the first fill."""
        self.left, self.right, self.count = left, right, count
        self.size = len(left)
        self.floor = floor
        self._keys, self._key_slots = np.empty((2, 0), np.int64)  # sorted, for `find`
        self._keyed = 0  # slots below this are among them

    def add(self, left: Int64, right: Int64, count: Int64) -> None:
        """Add born pairs. The caller leaves out those below the floor."""
        self._reserve(self.size + len(left))
        for array, values in ((self.left, left), (self.right, right), (self.count, count)):
            array[self.size : self.size + len(left)] = values
        self.size += len(left)

    def _reserve(self, size: int) -> None:
        if size <= len(self.left):
            return
        room = max(size, len(self.left) + len(self.left) // 2, 1024)
        for name in ("left", "right", "count"):
            old = getattr(self, name)
            array = np.empty(room, np.int64)
            array[: self.size] = old[: self.size]
            setattr(self, name, array)

    def retire(self, slots: Int64) -> None:
        """Take these pairs out: they have no occurrence left, or may not be merged."""
        self.count[slots] = 0

    def best(self, k: int, label: Int64, at_least: int) -> Best:
        """The k best pairs that count `at_least` (never less than the floor), best first.

        `label[token]` sorts tokens as the tie rule does. Fewer than k when there are no more.
        """
        count, least = self.count[: self.size], max(at_least, self.floor)
        threshold = least
        if self.size > k + 1:
            cut = self.size - (k + 1)
            threshold = max(int(np.partition(count, cut)[cut]), least)
        slots = np.flatnonzero(count >= threshold)
        slots = slots[np.lexsort((label[self.right[slots]], label[self.left[slots]], -count[slots]))]
        return Best(slots[:k], int(count[slots[k]]) if len(slots) > k else least - 1)

    def find(self, left: Int64, right: Int64) -> Int64:
        """The slots of these pairs, -1 where cold. Cost: a binary search each.

        keys 3 5 5 8   asked 5 4 9   the last key that is not above: places 2 0 3   equal? yes no no
        """
        new = np.arange(self._keyed, self.size)
        keys = self.left[new] << 32 | self.right[new]
        by = np.argsort(keys, kind="stable")
        # Behind equal keys, of which the last is taken: pairs of an id that came back have a second slot, and the first
        # is void.
        place = np.searchsorted(self._keys, keys[by], side="right")
        self._keys = np.insert(self._keys, place, keys[by])
        self._key_slots = np.insert(self._key_slots, place, new[by])
        self._keyed = self.size
        key = left << 32 | right
        if not len(self._keys):
            return np.full(len(key), -1, np.int64)
        place = np.maximum(np.searchsorted(self._keys, key, side="right") - 1, 0)
        return np.where(self._keys[place] == key, self._key_slots[place], -1)


def best_pairs(counter: PairCounter, request: FloorRequest, allowed: PairFilter | None = None) -> tuple[Int64, int]:
    """Rows (key, count), by key, of the pairs that count at least the returned floor, and that floor.

    The counter is used up.
    """
    kept, floor = np.empty((0, 2), np.int64), request.at_least
    for table in counter.tables():
        rows = table.at_least(floor)
        if allowed is not None:
            rows = rows[allowed(rows[:, 0] >> 32, rows[:, 0] & 0xFFFFFFFF)]
        kept = np.concatenate((kept, rows))
        if len(kept) > request.most:
            # More pairs only raise the floor, so what falls out now would fall out later.
            floor = max(floor, request.floor(kept[:, 1]))
            kept = kept[kept[:, 1] >= floor]
    floor = max(floor, request.floor(kept[:, 1]))
    kept = kept[kept[:, 1] >= floor]
    return kept[np.argsort(kept[:, 0])], floor
