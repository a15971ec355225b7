"""Hashes of chunks and of documents made of them, as store/documents.py defines them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import Bytes, Longs, library

UInt64 = npt.NDArray[np.uint64]


def chunk_hashes(offsets: Longs, data: Bytes) -> UInt64:
    """Of every chunk."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    library().chunk_hashes(offsets.ctypes.data, data.ctypes.data, len(hashes), hashes.ctypes.data)
    return hashes


def sum_documents(ids: npt.NDArray[np.int32], hashes: UInt64) -> list[int]:
    """Of a part's chunks by their numbers, where one below 0 ends a document: two sums and how many chunks up to the
    first end, the same behind the last one, how many documents end, and the hashes between added up in four words."""
    ids, found = np.ascontiguousarray(ids, np.int32), np.empty(11, np.uint64)
    library().sum_documents(ids.ctypes.data, len(ids), hashes.ctypes.data, found.ctypes.data)
    return [int(word) for word in found]
