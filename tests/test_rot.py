"""Rotten files (tests/rot.py): a part of what the soak tries, in every state of a RUN."""

from __future__ import annotations

import pytest

from tests.rot import STATES, bad, kind_of, matrix, tables
from tests.tiers import long

FILES = {  # of docs/run-folder.md; those that a kill leaves behind are there too
    "run.json", "state.duckdb", "status.json", "job.json", "train.toml", "counting.json", "model.events.jsonl",
    "pending.events", "supermerges.events", "learning.duckdb", "made_of.json", "chunks.parquet", "part-*.parquet",
    "part-*.chunks.parquet", "part-*.counts.parquet", "symbols.i32", "offsets.i64", "weights.i64",
}  # fmt: skip


@pytest.mark.parametrize(("states", "number"), [(["half counted"], 6), long(list(STATES), 18)])
def test_rotten_files_are_named_or_harmless(states, number, tmp_path):
    """Each damage ends in the right output or in a message that names a file; never in a traceback."""
    found = matrix(number, 11, states, tmp_path)
    assert len(found) > 0.7 * number
    assert not bad(found), f"{tables(found)}\n{bad(found)}"


@pytest.mark.long
def test_one_bit_of_every_file(tmp_path):
    """Whatever a RUN holds, in three states that have it: a flipped bit is named, or changes nothing."""
    found = matrix(None, 12, list(STATES), tmp_path, most_states=3)
    assert not bad(found), f"{tables(found)}\n{bad(found)}"
    seen = {kind_of(attempt.file).rpartition("/")[2] for attempt, _ in found}
    assert seen >= FILES, FILES - seen
