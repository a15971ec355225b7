"""Rotten files (tests/rot.py): a part of what the soak tries, in every state of a RUN."""

from __future__ import annotations

import pytest

from tests.outcomes import bad, table
from tests.rot import STATES, matrix

FILES = {  # of docs/run-folder.md; those that a kill leaves behind are there too
    "run.json", "state.duckdb", "status.json", "train.toml", "model.events.jsonl",
    "pending.events", "neighbours.parquet", "made_of.json", ".chunks.parquet.streambpe.new",
    "part-*.parquet", "part-*.chunks.parquet", "symbols.i32", "offsets.i64", "weights.i64",
}  # fmt: skip


def test_rotten_files_are_named_or_harmless(tmp_path):
    """Each damage ends in the right output or in a message that names a file; never in a traceback."""
    found = matrix(6, 11, ["half counted"], tmp_path)
    assert bad(found) == 0, table(found)
    assert sum(outcomes["named"] for outcomes in found.values()) >= 2, table(found)


@pytest.mark.long
def test_one_bit_of_every_file(tmp_path):
    """Whatever a RUN holds, in one state that has it: a flipped bit is named, or changes nothing; and some damage of
    other kinds to each state."""
    found = matrix(18, 12, list(STATES), tmp_path, most_states=1)
    assert bad(found) == 0, table(found)
    seen = {case.rpartition(": ")[2].rpartition("/")[2] for case in found}
    assert seen >= FILES, FILES - seen
