"""BatchBPE's rule."""

from __future__ import annotations

from streambpe.train.engine import batch


def test_paper_rule_by_hand():
    """Position-sensitive: a token may start many pairs of a batch or end many, not both."""
    t, h, e, i, n, a = range(6)
    assert batch.paper_safe([t, h, i, a], [h, e, n, t]) == [0, 2]
    assert batch.paper_safe([a, a], [a, t]) == [0]  # (a, a) is safe when new; then a is taken on both sides
    assert batch.paper_safe([a, a], [t, a]) == [0]
    assert batch.paper_batch_size(100, 256, 2, 10**9) == 50
    assert batch.paper_batch_size(100, 256, 2, 7) == 7
    assert batch.paper_batch_size(1, 256, 2, 7) == 1
    assert batch.paper_batch_size(10**6, 300, 2, 10**9) == 300
