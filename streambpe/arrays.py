"""Types of arrays, hashes as an array, and writing arrays to files so that a full disk always raises an error.

numpy's own `tofile` and `save` write through a buffer and do not check its last flush: an array of 21 872 bytes was cut
off on a disk with room for 20 480, and no error was raised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import mmh3
import numpy as np
import numpy.typing as npt

from streambpe.later import polars as pl
from streambpe.system import sync

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]
MAX_COUNT = 2**63 - 1  # in an Int64


def hash_rows(texts: Collection[bytes] | pl.Series) -> UInt64:
    """MurmurHash3 (x64, 128 bits) of each text: rows (lower 64 bits, upper 64 bits)."""
    halves = chain.from_iterable(mmh3.hash64(text, signed=False) for text in texts)
    return np.fromiter(halves, np.uint64, 2 * len(texts)).reshape(-1, 2)


def slices(offsets: Int64, most: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of rows that together span at most so much, one after another; a larger row is a slice of its own.
    Row i spans what lies between offsets[i] and offsets[i + 1]."""
    start = 0
    while start < len(offsets) - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1)
        yield start, stop
        start = stop


def write_array(array: npt.NDArray[Any], out: IO[bytes]) -> None:
    """Write an array's bytes, one after another."""
    out.write(np.ascontiguousarray(array).data)


def save_array(array: npt.NDArray[Any], path: Path) -> None:
    """Write a .npy file, which is on disk when this returns."""
    with open(path, "wb") as out:
        np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
        write_array(array, out)
        out.flush()
        sync(out.fileno())
