"""How often tokens stood in the words before the last merges, from how often they stand after them.

    after        " the" 90, " th" 3, "he" 20, and " the" is a whole word 70 times
    " th"+"e"    is taken back: each of these 160 is a " th" and an "e" again

A token that only one merge makes stands where that merge made it, except where later merges used it. Once those are
taken back, it stands exactly where its merge made it. So the merges are undone from the last one backwards, without
another look at the words. Deletions cannot be undone so, nor a merge whose token was there before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streambpe.arrays import Int64
from streambpe.model.eventlog import Event, Op


def can_undo(events: Sequence[Event], kept: int) -> bool:
    """Whether all events behind the first `kept` are merges, each of which makes a new token."""
    known = {event.id for event in events[:kept]}
    for event in events[kept:]:
        if event.op is not Op.MERGE or event.id in known:
            return False
        known.add(event.id)
    return True


def undo(ids: Int64, n: Int64, merges: Sequence[Event], whole: Mapping[int, int]) -> tuple[Int64, Int64]:
    """(id, n) before these merges, in words of several tokens, from (id, n) after them.

    whole: how many words each merged token is by itself, for those that are any; before, such a word has several
    tokens.
    """
    counts = dict(zip(ids.tolist(), n.tolist(), strict=True))
    for event in reversed(merges):
        made = counts.pop(event.id, 0) + whole.get(event.id, 0)
        for part in event.pair:
            counts[part] = counts.get(part, 0) + made
    left = sorted((number, count) for number, count in counts.items() if count)
    found = np.array(left, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
