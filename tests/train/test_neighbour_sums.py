"""Neighbours are added up, ranked and listed in memory that does not grow with them."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "neighbours.py"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss in kilobytes")
@pytest.mark.skipif(not SCRIPT.is_file(), reason="an sdist has no benchmarks")
def test_twenty_million_neighbours_are_never_held(tmp_path: Path) -> None:
    """As rows (key, n) they would be 320 MB. More of them take no more memory (benchmarks/neighbours.py)."""
    command = [sys.executable, SCRIPT, "--million", "20", "--memory", "64MB", "--work", tmp_path]
    env = {**os.environ, "BENCH_RESULTS": str(tmp_path)}
    subprocess.run(command, env=env, capture_output=True, check=True, timeout=600)
    lines = [line for line in (tmp_path / "neighbours.tsv").read_text().splitlines() if line[0] != "#"]
    steps = {row["step"]: row for row in csv.DictReader(lines, delimiter="\t")}
    peak = {step: int(row["peak_MB"]) for step, row in steps.items()}
    ranked = [int(count) for count in steps["counts_at"]["found"].split()]
    assert ranked == sorted(ranked, reverse=True) != []
    assert 100_000 < int(steps["keys"]["found"]) < 1_000_000
    assert peak["before"] < peak["add_up"] <= peak["keys"] < 300
