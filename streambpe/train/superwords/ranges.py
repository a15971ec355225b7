"""Ranges of keys in which neighbours are added up, each of about so many rows, whatever the files hold.

The footer of a file names the first of every STEP keys, in the order of its rows: a few thousand numbers for millions
of rows, so no row is read to find the ranges.

    file 1   keys 3 5 7 9 11    footer 3 7 11    (STEP 2)
    file 2   keys 4 5 6         footer 4 6
    all      3 4 6 7 11         4 rows at once: from 3 on, from 6 on, from 11 on
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from streambpe.arrays import Int64

STEP = 512
_NOTE = "streambpe-keys"
_LAST = (1 << 63) - 1


def some_keys(keys: Int64) -> Int64:
    """The first of every STEP keys."""
    return keys[::STEP].copy()


def keys_note(*some: Int64) -> dict[str, str]:
    """What the footer says of a file that holds the keys of which these are `some_keys`."""
    return {_NOTE: base64.b64encode(np.concatenate(some).astype("<i8").tobytes()).decode()}


def key_ranges(files: Sequence[Path], rows_at_once: int) -> list[tuple[int, int]]:
    """(lowest, highest) of consecutive ranges with about so many rows of these files, or one key's rows."""
    known = [_first_keys(path) for path in files]
    every = np.sort(np.concatenate([np.empty(0, np.int64), *known]))
    if not len(every):
        return []
    borders = np.unique(every[:: max(1, rows_at_once // STEP)]).tolist()
    return list(zip(borders, [*(border - 1 for border in borders[1:]), _LAST], strict=True))


def _first_keys(path: Path) -> Int64:
    noted = pq.read_metadata(path).metadata[_NOTE.encode()]
    return np.frombuffer(base64.b64decode(noted), "<i8").astype(np.int64)
