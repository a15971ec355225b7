"""Hashes of chunks and of documents, as store/documents.py defines them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import Bytes, Longs, library

UInt64 = npt.NDArray[np.uint64]


def chunk_hashes(offsets: Longs, data: Bytes) -> UInt64:
    """MurmurHash3 of every chunk: rows (lower 64 bits, upper 64 bits)."""
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    library().chunk_hashes(offsets, data, len(hashes), hashes)
    return hashes


class DocumentSum:
    """The sum of the hashes of documents, part after part. Chunks are numbers; a number below 0 ends a document."""

    def __init__(self) -> None:
        self._open = np.zeros(3, np.uint64)  # of the document that is not over yet
        self._ended = np.zeros(4, np.uint64)  # the hashes of those that ended in one part
        self._total = 0

    def add(self, ids: npt.NDArray[np.int32], hashes: UInt64) -> None:
        """Add the next part: the numbers of its chunks, and the hash of each number."""
        ids = np.ascontiguousarray(ids, np.int32)
        library().sum_documents(ids, len(ids), hashes, self._open, self._ended)
        self._total += sum(int(word) << (32 * i) for i, word in enumerate(self._ended))
        self._ended.fill(0)

    def end_document(self) -> None:
        """End the document that is open, unless it has no chunks yet."""
        if self._open[2]:
            self.add(np.full(1, -1, np.int32), np.zeros((0, 2), np.uint64))

    @property
    def value(self) -> int:
        """The sum of the hashes of all documents that ended, mod 2^128."""
        return self._total % (1 << 128)
