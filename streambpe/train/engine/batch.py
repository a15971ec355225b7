"""BatchBPE's rule: which pairs are merged together in a round."""

from __future__ import annotations

from collections.abc import Sequence


def paper_batch_size(remaining: int, vocabulary: int, cap_divisor: int, max_batch: int) -> int:
    """How many pairs BatchBPE looks at in one round."""
    return max(1, min(remaining // cap_divisor, vocabulary, max_batch))


def paper_safe(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """BatchBPE's rule: the pairs of a round, best first, that are merged together.

    A pair is left out if its left token was already seen on the right, or its right token on the left, of any
    pair before it, merged or not. The pairs that remain never overlap each other; only a pair of equal tokens overlaps
    itself.

        (t,h) (h,e) (i,n) (a,t)  ->  (t,h), (i,n): h was seen on the right, t on the left
    """
    first: set[int] = set()
    last: set[int] = set()
    safe = []
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if a not in last and b not in first:
            safe.append(i)
        first.add(a)
        last.add(b)
    return safe
