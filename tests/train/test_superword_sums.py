"""Neighbours and runs added up by SQL, against a Counter; and a sum that is damaged."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import polars as pl

from streambpe.train.superwords.sums import Sums


def neighbour_files(folder: Path, seed: int, files: int, rows: int) -> tuple[list[Path], Counter[int]]:
    """Part files as tasks write them, and their sum."""
    rng, total = random.Random(seed), Counter[int]()
    paths = []
    for number in range(files):
        mine = Counter((rng.randrange(300) << 32 | rng.randrange(300)) for _ in range(rows))
        if number == 0:
            mine[7 << 32 | 7] += 2**61  # counts are 64-bit
        total.update(mine)
        paths.append(folder / f"neighbours-{number}.parquet")
        frame = pl.DataFrame({"key": sorted(mine), "n": [mine[key] for key in sorted(mine)]})
        frame.write_parquet(paths[-1])
    return paths, total


def test_damaged_neighbours_count_as_absent(tmp_path):
    files, wanted = neighbour_files(tmp_path, 2, 2, 40_000)
    sums = Sums(tmp_path / "neighbours.parquet", 0, 1, None)
    sums.add_up_neighbours(files, "these")
    data = bytearray(sums.path.read_bytes())
    for damaged in (data[:100], b"", bytes([*data[:999], data[999] ^ 1, *data[1000:]])):
        sums.path.write_bytes(damaged)
        assert not sums.hold("these")
    sums.add_up_neighbours(neighbour_files(tmp_path, 2, 2, 40_000)[0], "these")
    assert len(sums.keys(1)) == len(wanted)
