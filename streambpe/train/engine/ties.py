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
        self._order: list[int] = []  # of the first tokens, by their bytes

    def labels(self, tokens: Sequence[bytes]) -> Int64:
        """A label for each token; labels from two moments cannot be compared."""
        label = np.arange(len(tokens))
        if self.by_bytes:
            self._order += range(len(self._order), len(tokens))
            self._order.sort(key=tokens.__getitem__)
            label[self._order] = np.arange(len(tokens))
        return label

    def placed(self, ids: Int64, count: Int64) -> None:
        """Note that these merges were committed with these counts; only orders that depend on counts do."""

    def for_learner(self) -> tuple[Rule, Int64 | None, Int64 | None]:
        """(the tie rule as it stands now, and for TIES_PLACES `order` and `falling`), as core/learner.py takes them."""
        return Rule(ties=TIES_BYTES if self.by_bytes else TIES_IDS), None, None
