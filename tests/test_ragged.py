"""Rows of ragged arrays: judged by lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.encode import ragged


@pytest.mark.parametrize("narrow", [2**31, 0])
@given(lists=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), data=st.data())
def test_rows_are_gathered_in_the_order_asked_for(narrow, lists, data):
    """With 32-bit offsets and with 64-bit ones, wherever the rows lie, however often each is asked for."""
    order = data.draw(st.permutations(range(len(lists))))
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    flat = np.array([value for i in order for value in lists[i]], np.int32)
    counts = np.array([len(row) for row in lists], np.int64)
    starts = np.zeros(len(lists), np.int64)
    starts[order] = np.cumsum(counts[order]) - counts[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "_NARROW", narrow)
        found = ragged.gather_rows(flat, starts, counts, np.array(rows, np.int32))
    assert found.tolist() == [value for i in rows for value in lists[i]]
