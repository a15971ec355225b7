"""What the engine asks of a way of learning: in memory (in_memory.py), from blocks on disk (from_disk.py), or in tables
(in_tables.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from streambpe.arrays import MAX_COUNT, Bool, Int32, Int64
from streambpe.store.passes import PassRow
from streambpe.train.engine.rules import ANY, Batch, Bounds

Parts = Iterable[tuple[Int32, Int64, Int64]]  # symbols, offsets, weights of some words


class HotPairs(NamedTuple):
    """Every pair that may merge and counts at least the floor, which is at least 1:

    floor 100     (t,h) 900 · (i,n) 400 · (o,n) 120          all others count 99 or less
    """

    left: Int64
    right: Int64
    n: Int64
    floor: int

    def only(self, these: Bool | Int64 | slice) -> HotPairs:
        """Some of them."""
        return HotPairs(self.left[these], self.right[these], self.n[these], self.floor)

    def at_least(self, floor: int) -> HotPairs:
        """Those that count at least so much."""
        return self if floor <= self.floor else self._replace(floor=floor).only(self.n >= floor)

    def best(self, most: int) -> HotPairs:
        """If they are more than so many, the best of them: of pairs that tie all are taken or none, but for the very
        best, which are always taken."""
        if len(self.n) <= most:
            return self
        next_one = int(np.partition(self.n, -most - 1)[-most - 1])  # the best of those left out
        return self.at_least(min(next_one + 1, int(self.n.max())))

    def with_others(self, others: HotPairs, most: int) -> HotPairs:
        """The best of these and of others, whose floor is no lower."""
        others = others.best(most)  # more pairs only raise the floor, so what falls out now would fall out later
        left, right, n = (np.concatenate(both) for both in zip(self[:3], others[:3], strict=True))
        return HotPairs(left, right, n, self.floor).at_least(others.floor).best(most)

    def sorted_by_key(self) -> HotPairs:
        """The same by their ids."""
        return self.only(np.argsort(self.left << 32 | self.right))


_NONE = np.empty(0, np.int64)
NO_PAIRS = HotPairs(_NONE, _NONE, _NONE, 1)


class Learning(Protocol):
    """The words, and learning from them. Tokens, ids and the rule are in the `State`, which outlives it.

    Where memory is not enough it raises NoRoom (core/learner.py) and leaves its words unharmed.
    """

    kind: str  # index: in memory; scan: on disk; tables

    @property
    def places(self) -> int:
        """Places of the words, the separators between them included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken."""

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """At least one merge and at most `remaining`; none where the best pair is out of bounds. None when no pair is
        left."""

    def is_ready_to_move(self) -> bool:
        """Whether the words would rather be in memory, and can go now."""
        return False

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now: symbols, offsets, weights, some at a time."""

    def next_at_most(self) -> int:
        """No pair counts more than this; to know better may take a look at all words."""
        return MAX_COUNT

    def hot_pairs(self) -> HotPairs:
        """The best pairs of the words as they are now."""

    def close(self) -> None:
        """Give memory and files back; lives go to the state."""
