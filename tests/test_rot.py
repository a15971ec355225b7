"""Rotten files (tests/rot.py): a part of what the soak tries, in every state of a RUN."""

from __future__ import annotations

import pytest

from tests.rot import STATES, matrix, table
from tests.tiers import long

FEW = ["half counted"]


@pytest.mark.parametrize(("states", "number"), [(FEW, 6), long(list(STATES), 78)])
def test_rotten_files_are_named_or_harmless(states, number, tmp_path):
    """Each damage ends in the right output or in a message that names a file; never in a traceback."""
    found = matrix(number, 11, states, tmp_path)
    assert len(found) > 0.7 * number
    bad = [(attempt, outcome) for attempt, outcome in found if outcome.kind not in ("harmless", "named")]
    assert not bad, f"{table(found)}\n{bad}"
