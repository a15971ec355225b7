"""About how many distinct chunks there are, while they are still being counted."""

from __future__ import annotations

import numpy as np

from streambpe.arrays import UInt64


class DistinctSketch:
    """About how many distinct chunks there are, from the smallest 4 096 hashes seen (within 2 %)."""

    _KEPT = 4096

    def __init__(self) -> None:
        self.kept = np.zeros(0, np.uint64)  # the smallest hashes, sorted

    def add(self, hashes: UInt64) -> int:
        """Add hashes of chunks; about how many distinct ones there were so far."""
        if len(self.kept) == self._KEPT:
            hashes = hashes[hashes < self.kept[-1]]
        self.kept = np.unique(np.append(self.kept, hashes))[: self._KEPT]
        if len(self.kept) < self._KEPT:
            return len(self.kept)
        return int((self._KEPT - 1) / (float(self.kept[-1]) / 2.0**64))
