"""About how many distinct chunks there are, while they are still being counted."""

from __future__ import annotations

import threading

import numpy as np

from streambpe.arrays import UInt64


class DistinctSketch:
    """About how many distinct chunks there are, from the smallest 4 096 hashes seen (within 2 %)."""

    _KEPT = 4096

    def __init__(self) -> None:
        self.kept = np.zeros(0, np.uint64)  # the smallest hashes
        self._lock = threading.Lock()

    def add(self, hashes: UInt64) -> None:
        """Add hashes of different chunks; two threads add theirs one after another."""
        if not len(hashes):
            return
        with self._lock:
            if len(self.kept) == self._KEPT:
                hashes = hashes[hashes < self.kept[-1]]
            if len(hashes) > self._KEPT:  # no two chunks of a part are the same
                hashes = np.partition(hashes, self._KEPT)[: self._KEPT]
            hashes = np.sort(np.append(self.kept, hashes))
            self.kept = hashes[np.append(True, hashes[1:] != hashes[:-1])][: self._KEPT]

    def estimate(self) -> int:
        """About how many distinct chunks there were so far."""
        with self._lock:
            if len(self.kept) < self._KEPT:
                return len(self.kept)
            return int((self._KEPT - 1) / (float(self.kept[-1]) / 2.0**64))
