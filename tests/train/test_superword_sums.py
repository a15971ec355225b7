"""Neighbours and runs added up by SQL, against a Counter; and a sum that is damaged."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from streambpe.resources import Resources
from streambpe.store.made_of import has_note
from streambpe.train.superwords import sums as module
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
        ordered = sorted(mine.items())  # in two stretches, as if a table had been full, and one of a merge
        stored = [(key, n - n // 2) for key, n in ordered] + [(key, n // 2) for key, n in ordered if n > 1] + [(-5, 3)]
        frame = pl.DataFrame(stored, schema={"key": pl.Int64, "n": pl.Int64}, orient="row")
        frame.write_parquet(paths[-1], row_group_size=100)
    return paths, total


@pytest.mark.long
@pytest.mark.parametrize("rows_at_once", [1, 700, 1 << 20])
def test_neighbours(tmp_path, monkeypatch, rows_at_once):
    """Every threshold, in whatever ranges they are added up; their files go when the sum is there. They may lie where
    Hive would read a column n of fives from the name of the folder."""
    tmp_path /= "n=5"
    tmp_path.mkdir()
    monkeypatch.setattr(module, "_NEIGHBOUR_BYTES", module.LEAST_BYTES // rows_at_once)
    monkeypatch.setattr(module, "_FILES", 2)
    files, wanted = neighbour_files(tmp_path, 1, 5, 2000)
    sums = Sums(tmp_path / "neighbours.parquet", Resources(0, 2))
    assert not has_note(sums.path, "these")
    sums.add_up_neighbours(files, "these")
    assert not any(path.exists() for path in files)
    assert has_note(sums.path, "these")
    assert not has_note(sums.path, "others")
    assert sums.merges() == [(4, 15)]
    for least in (1, 2, 3, 2**61, 2**62):
        assert sums.keys(least).tolist() == sorted(key for key, n in wanted.items() if n >= least)
    counts = sorted(wanted.values(), reverse=True)
    ranks = [0, 1, 5, 100, len(counts) - 1]
    assert sums.counts_at([*ranks, len(counts)], 1) == [counts[rank] for rank in ranks]
    nothing = Sums(tmp_path / "nothing.parquet", Resources(0, 1))
    nothing.add_up_neighbours([], "these")
    assert has_note(nothing.path, "these")
    assert (nothing.keys(1).tolist(), nothing.counts_at([0, 3], 1)) == ([], [])
    many = [n for n in counts if n >= 2]
    assert sums.counts_at([0, len(many) - 1, len(many)], 2) == [many[0], many[-1]]


def test_damaged_neighbours_count_as_absent(tmp_path):
    files, wanted = neighbour_files(tmp_path, 2, 2, 40_000)
    sums = Sums(tmp_path / "neighbours.parquet", Resources(0, 1))
    sums.add_up_neighbours(files, "these")
    data = bytearray(sums.path.read_bytes())
    for damaged in (data[:100], b"", bytes([*data[:999], data[999] ^ 1, *data[1000:]])):
        sums.path.write_bytes(damaged)
        assert not has_note(sums.path, "these")
    sums.add_up_neighbours(neighbour_files(tmp_path, 2, 2, 40_000)[0], "these")
    assert len(sums.keys(1)) == len(wanted)


@pytest.mark.long
@pytest.mark.parametrize("bytes_a_run", [1, 1 << 16])
def test_runs(tmp_path, monkeypatch, bytes_a_run):
    """Each run once, with the sum of its counts; one of a million symbols among them."""
    monkeypatch.setattr(module, "_RUN_BYTES", bytes_a_run)
    rng, wanted, files = random.Random(3), Counter[bytes](), []
    giant = np.arange(1_000_000, dtype=np.int32).tobytes()
    for number in range(3):
        mine = Counter(
            np.array([rng.randrange(6) for _ in range(rng.randrange(2, 6))], np.int32).tobytes() for _ in range(3000)
        )
        mine[giant] = 1 + number
        wanted.update(mine)
        by = [hash_of(run) for run in mine]
        frame = pl.DataFrame({"run": list(mine), "by": by, "n": list(mine.values())}).sort("by")
        files.append(tmp_path / f"runs-{number}.parquet")
        frame.write_parquet(files[-1])
    found: Counter[bytes] = Counter()
    for symbols, offsets, n in Sums(tmp_path / "neighbours.parquet", Resources(0, 2)).runs(files):
        assert (offsets[0], offsets[-1]) == (0, len(symbols))
        for (start, end), count in zip(pairwise(offsets.tolist()), n.tolist(), strict=True):
            run = symbols[start:end].tobytes()
            assert run not in found
            found[run] = count
    assert found == wanted
    assert list(Sums(tmp_path / "neighbours.parquet", Resources(0, 2)).runs([])) == []


def hash_of(run: bytes) -> int:
    """Any number below 2^63 that follows from the run."""
    return int.from_bytes((run * 8)[:8], "little") * 0x9E3779B97F4A7C15 % 2**63


def test_no_neighbours(tmp_path):
    """Documents without two chunks side by side."""
    sums = Sums(tmp_path / "neighbours.parquet", Resources(0, 1))
    sums.add_up_neighbours([], "these")
    assert has_note(sums.path, "these")
    assert sums.keys(1).tolist() == []
    assert sums.counts_at([0, 3], 1) == []
