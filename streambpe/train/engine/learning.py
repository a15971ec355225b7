"""What the engine asks of a way of learning: in memory (in_memory.py), from blocks on disk (from_disk.py), or in tables
(in_tables.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.train.engine.rules import ANY, Batch, BatchRecord, Bounds

Given = tuple[int, int, int, int]  # a known merge: left, right, id, n
Parts = Iterable[tuple[Int32, Int64, Int64]]  # symbols, offsets, weights of some words


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

    def step(self, remaining: int, record: BatchRecord, bounds: Bounds = ANY) -> Batch | None:
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

    def hot_pairs(self) -> tuple[Int64, Int64, Int64, int]:
        """(left, right, count, floor): every pair that may merge and counts at least the floor, which is at least 1."""

    def close(self) -> None:
        """Give memory and files back; lives go to the state."""
