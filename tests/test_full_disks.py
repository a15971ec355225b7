"""A disk that fills at a boundary (tests/full_disks.py): a part of what the soak tries."""

from __future__ import annotations

import os

import pytest

from tests.full_disks import matrix
from tests.outcomes import bad, table


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit for the size of files")
@pytest.mark.long
def test_a_disk_that_fills_is_told_and_the_same_command_goes_on(tmp_path):
    """One message; with room again, the bytes of a command that nobody disturbed."""
    found = matrix(6, 2, ["merge-counts", "boundless", "encode"], tmp_path)
    told = table(found)
    assert bad(found) == 0, told
    assert sum(each["told"] for each in found.values()) >= 3, told
    assert sum(each.total() for each in found.values()) == 6
