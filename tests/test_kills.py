"""Kills at boundaries (tests/kills.py): a part of what the soak tries, in every system."""

from __future__ import annotations

import os

import pytest

from tests.kills import CASES, matrix
from tests.outcomes import bad, table
from tests.tiers import long

NAMES = list(CASES)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no kills")
@pytest.mark.parametrize(
    ("names", "number"),
    [(["plain"], 1), *(long(NAMES[at::4], 6) for at in range(4))],
)
def test_a_kill_at_a_boundary_changes_nothing(names, number, tmp_path):
    """Killed before an fsync, a rename or a commit, a command that is given again ends with the same bytes."""
    found = matrix(number, 7, names, tmp_path)
    told = table(found)
    assert bad(found) == 0, told
    # one in five comes at a moment by chance, some behind the last commit: those are "missed"
    assert sum(each["same"] for each in found.values()) >= number / 2, told
