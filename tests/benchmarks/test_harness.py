"""benchmarks/harness.py: what it measures of a command, and who takes part in which round."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def harness(benchmark, monkeypatch, tmp_path):
    """The module; results are written below tmp_path."""
    module = benchmark("harness")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return module


def test_disk_is_what_output_and_temporary_files_took_at_most(harness, tmp_path):
    """A temporary file that is gone at the end counts; so does an output with an ending of its own."""
    program = (
        "import os, sys, tempfile, time\n"
        "with tempfile.NamedTemporaryFile() as file:\n"
        "    file.write(os.urandom(3_000_000)); file.flush(); os.fsync(file.fileno()); time.sleep(1)\n"
        "open(sys.argv[1] + '.model', 'wb').write(bytes(1_000_000))\n"
    )
    contender = harness.Contender("writer", [sys.executable, "-c", program, "{out}"])
    run = harness.run_once(contender, tmp_path / "out", 60)
    assert not run.failed
    assert 3 <= run.figures["disk"] < 3.2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.model"]


def test_a_contender_that_takes_long_runs_once(harness, measured, tmp_path):
    """In the first counted round, neither before nor after; the table is read with its disk."""
    contenders = [harness.Contender(name, [sys.executable, "-c", ""]) for name in ("quick", "slow")]
    assert harness.compare("turns", contenders, runs=2, work=tmp_path, about={"job": "nothing"}, once=["slow"])
    table = (tmp_path / "results/turns.tsv").read_text()
    rounds = [line.split("\t")[:2] for line in table.splitlines() if line.startswith(("quick", "slow"))]
    assert rounds == [["quick", "warm-up"], ["quick", "1"], ["slow", "1"], ["quick", "2"]]
    assert "2 runs after a warm-up (slow: one run)" in (tmp_path / "results/turns.md").read_text()
    rows = measured.read(tmp_path / "results/turns.tsv").rows
    assert [(row.name, len(row.figures["disk_MB"])) for row in rows] == [("quick", 2), ("slow", 1)]
