"""Which of two pairs goes first when both count the same: labels for passes from disk, a rule for the learner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streambpe.arrays import Int64
from streambpe.core.learner import TIES_BYTES, TIES_IDS, Rule


class TieOrder:
    """One integer per token that sorts as the tie rule does: the id, or the place among all tokens by bytes."""

    def __init__(self, rule: str) -> None:
        self.by_bytes = rule == "bytes"
        self._label = np.empty(0, np.int64)
        self._sorted: list[tuple[bytes, int]] = []
        self._new: list[tuple[bytes, int]] = []

    def start(self, tokens: Sequence[bytes | None]) -> None:
        """Begin with these tokens."""
        self._label = np.arange(max(1024, 2 * len(tokens)), dtype=np.int64)
        self._new = [(token, i) for i, token in enumerate(tokens) if token is not None]

    def labels(self) -> Int64:
        """A label for each token; labels from two moments cannot be compared."""
        if self.by_bytes and self._new:
            self._sorted = sorted(self._sorted + self._new)
            self._new = []
            self._label[[number for _, number in self._sorted]] = np.arange(len(self._sorted))
        return self._label

    def add(self, token: bytes, new: int) -> None:
        """A token was born."""
        if new >= len(self._label):
            more = np.arange(len(self._label), 2 * max(new + 1, len(self._label)), dtype=np.int64)
            self._label = np.concatenate((self._label, more))
        if self.by_bytes:
            self._new.append((token, new))

    def placed(self, ids: Int64, count: Int64) -> None:
        """Note that these merges were committed with these counts; only orders that depend on counts do."""

    def for_learner(self) -> tuple[Rule, Int64 | None, Int64 | None]:
        """(the tie rule as it stands now, and for TIES_PLACES `order` and `falling`), as core/learner.py takes them."""
        return Rule(ties=TIES_BYTES if self.by_bytes else TIES_IDS), None, None
