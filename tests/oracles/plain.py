"""Plain BPE on one page: count neighbours, join the commonest pair, repeat.

Take three words, each as base symbols with the times it occurs:

    l o w      5          pair counts:  l o 7   o w 7   w e 2   e r 2   n e 6   e w 6
    l o w e r  2          l o and o w tie at 7: the smaller ids win, say l o
    n e w      6
    -> lo w 5, lo w e r 2, n e w 6;  then lo w 7, then e w 6 before n e 6, ...

Everything is counted anew for every merge, so nothing can go stale; cost O(corpus) per merge.
The rest of this package adds rules to this loop and keeps the counts between merges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from streambpe.model.replay import Pair, merge


def learn_plain(words: Sequence[tuple[Sequence[int], int]], first_new_id: int, merges: int) -> list[tuple[Pair, int]]:
    """The first `merges` merges as (pair, count); merge number i makes id first_new_id + i.

    Higher count first, then the lowest (left id, right id). Stops early when no pair is left.
    """
    sequences = [(list(sequence), times) for sequence, times in words]
    learned: list[tuple[Pair, int]] = []
    while len(learned) < merges:
        counts: Counter[Pair] = Counter()
        for sequence, times in sequences:
            for pair in pairwise(sequence):
                counts[pair] += times
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        new_id = first_new_id + len(learned)
        sequences = [(merge(sequence, best, new_id), times) for sequence, times in sequences]
        learned.append((best, counts[best]))
    return learned
