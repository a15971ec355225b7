"""Rotten files (tests/rot.py): a part of what the soak tries, in every state of a RUN."""

from __future__ import annotations

import pytest

from tests.rot import STATES, bad, kind_of, matrix, tables

FILES = {  # of docs/run-folder.md; those that a kill leaves behind are there too
    "run.json", "state.duckdb", "status.json", "train.toml", "model.events.jsonl",
    "pending.events", "neighbours.parquet", "made_of.json", ".chunks.parquet.streambpe.new",
    "part-*.parquet", "part-*.chunks.parquet", "part-*.counts.parquet", "symbols.i32", "offsets.i64", "weights.i64",
}  # fmt: skip


def test_rotten_files_are_named_or_harmless(tmp_path):
    """Each damage ends in the right output or in a message that names a file; never in a traceback."""
    found = matrix(6, 11, ["half counted"], tmp_path)
    assert len(found) > 4
    assert not bad(found), f"{tables(found)}\n{bad(found)}"


@pytest.mark.long
def test_one_bit_of_every_file(tmp_path):
    """Whatever a RUN holds, in one state that has it: a flipped bit is named, or changes nothing; and some damage of
    other kinds to each state."""
    found = matrix(18, 12, list(STATES), tmp_path, most_states=1)
    assert not bad(found), f"{tables(found)}\n{bad(found)}"
    seen = {kind_of(attempt.file).rpartition("/")[2] for attempt, _ in found}
    assert seen >= FILES, FILES - seen
