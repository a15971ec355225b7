"""Known merges in one pass: their occurrences, which of them are made, what that does to the counts of pairs.

For words on disk, where a pass is dear and a merge is cheap: merges that need no proof (known events, rounds, the
single best pair) are made together. Of two occurrences that overlap, the one whose merge comes first is made:

    words  abcab       merges in this order  (a,b) (b,c)
    in abc the two share the b: (a,b) is made, and the other one is gone when its turn comes

Pure: arrays in, arrays out. Memory: about 120 bytes per occurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

NO_TOKEN = -1  # beyond either end of a word
MAX_COUNT = 2**63 - 1


@dataclass
class Places:
    """Where the candidates are, in the order of the column; row i is one place.

    `start` and `second` are the places of the left and of the right token: two rows overlap if and only
    if `second` of one is `start` of the next.
    """

    start: Int64
    second: Int64
    pair: Int64  # index into the candidates
    weight: Int64  # of the word

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Int64 | Bool) -> Places:
        """The chosen rows, still in column order."""
        return Places(self.start[rows], self.second[rows], self.pair[rows], self.weight[rows])


@dataclass
class Occurrences:
    """Places to execute, with what stands around them. Rows abut if `end` of one is `start` of the next."""

    start: Int64
    second: Int64
    end: Int64  # just behind the right token
    pair: Int64
    weight: Int64
    before: Int64  # the token in front, NO_TOKEN at the start of the word
    after: Int64  # the token behind, NO_TOKEN at the end of the word
    previous: Int64  # where the token in front starts (any value when there is none)
    run_before: Int64 | None = None  # disjoint only: how long the run of equal tokens ending at `start` is
    run_after: Int64 | None = None  # disjoint only: how long the run of equal tokens beginning at `second` is

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Int64 | Bool) -> Occurrences:
        """The chosen rows, still in column order."""
        return Occurrences(
            self.start[rows],
            self.second[rows],
            self.end[rows],
            self.pair[rows],
            self.weight[rows],
            self.before[rows],
            self.after[rows],
            self.previous[rows],
            None if self.run_before is None else self.run_before[rows],
            None if self.run_after is None else self.run_after[rows],
        )


Describe = Callable[[Places], Occurrences]  # looks around the places that are to be executed


@dataclass
class Candidates:
    """Pairs in the order in which they are merged."""

    left: Int64
    right: Int64
    count: Int64


@dataclass
class Resolution:
    """`done` are the occurrences to rewrite (column order), `rank` which merge each belongs to, `count` what each merge
    counts at its turn."""

    count: Int64
    done: Occurrences
    rank: Int64


def executed_by_rank(rank: Int64, linked: Bool) -> Bool:
    """Which of a row of occurrences are executed when lower ranks go first, and equal ranks from the left.

    `linked[i]`: occurrence i overlaps i + 1. Equal ranks overlap in runs of an equal pair ("aaa").

        ranks 2 0 1 3, all linked  ->  0 executes, drops 2 and 1; then 3: [F T F T]

    Cost: O(undecided) per round, which falls fast; rounds is at most half the longest falling chain, a
    handful on text. A run of one pair is decided at once: without that, lines of a thousand dashes took
    most of the time.
    """
    executed = np.zeros(len(rank), bool)
    where = np.arange(len(rank))
    while len(where):
        n = len(where)
        left_lower = np.zeros(n, bool)  # an undecided neighbour goes first
        right_lower = np.zeros(n, bool)
        np.logical_and(linked, rank[:-1] < rank[1:], out=left_lower[1:])
        np.logical_and(linked, rank[1:] < rank[:-1], out=right_lower[:-1])
        blocked = left_lower | right_lower
        same = linked & (rank[1:] == rank[:-1])
        if same.any():
            # A run is ready when neither end is blocked; then every other one executes, from the left.
            first = np.flatnonzero(np.concatenate(([True], ~same)))
            size = np.diff(np.append(first, n))
            ready = ~np.logical_or.reduceat(blocked, first)
            wins = np.repeat(ready, size)
            wins &= ((np.arange(n) - np.repeat(first, size)) & 1) == 0
        else:
            wins = ~blocked
        executed[where[wins]] = True
        decided = wins.copy()
        decided[1:] |= wins[:-1] & linked
        decided[:-1] |= wins[1:] & linked
        rest = np.flatnonzero(~decided)
        linked = linked[rest[:-1]] & (np.diff(rest) == 1) if len(rest) else linked[:0]
        where, rank = where[rest], rank[rest]
    return executed


def leftmost_of_equal(occurrences: Places) -> Int64:
    """Rows that MERGE executes when every pair overlaps only with itself: every other one of a chain, from
    the left.

    "aaaaa" under (a, a) has four occurrences; the first and the third are executed, giving [aa, aa, a].
    """
    n = len(occurrences)
    if n == 0:
        return np.empty(0, np.int64)
    index = np.arange(n)
    new_chain = np.ones(n, bool)
    new_chain[1:] = occurrences.start[1:] != occurrences.second[:-1]
    first = np.maximum.accumulate(np.where(new_chain, index, 0))
    return np.flatnonzero(((index - first) & 1) == 0)


def _single(occurrences: Places, describe: Describe, candidates: Candidates) -> Resolution:
    """One merge: it is the best, so nothing needs proof; equal ids take every other occurrence of a run."""
    rows = occurrences
    if candidates.left[0] == candidates.right[0]:
        rows = occurrences.take(leftmost_of_equal(occurrences))
    return Resolution(candidates.count[:1].copy(), describe(rows), np.zeros(len(rows), np.int64))


def resolve_given(occurrences: Places, describe: Describe, candidates: Candidates) -> Resolution:
    """Merge all candidates in the order given, with their counts at their turn.

    BatchBPE's rule comes through here too: its safe pairs never overlap, except an equal one with itself.
    """
    if len(candidates.left) == 1:
        return _single(occurrences, describe, candidates)
    linked = occurrences.start[1:] == occurrences.second[:-1]
    count = candidates.count.copy()
    rank = occurrences.pair
    executed = executed_by_rank(rank, linked)
    dropped = _dropped(rank, executed, linked)
    np.subtract.at(count, rank[dropped], occurrences.weight[dropped])
    rows = np.flatnonzero(executed)
    return Resolution(count, describe(occurrences.take(rows)), rank[rows])


def _dropped(rank: Int64, executed: Bool, linked: Bool) -> Int64:
    """The occurrences that merges before theirs took."""
    none = np.iinfo(np.int64).max
    of_executed = np.where(executed, rank, none)
    taker = np.full(len(rank), none)
    if len(rank):
        taker[1:] = np.where(linked, of_executed[:-1], none)
        taker[:-1] = np.minimum(taker[:-1], np.where(linked, of_executed[1:], none))
    # An equal pair's odd occurrences fall to the pair itself: they still count at its turn.
    return np.flatnonzero(~executed & (taker < rank))


@dataclass
class Groups:
    """Rows sorted so that equal pairs are together: group g is rows[first[g]:first[g + 1]]."""

    rows: Int64
    first: Int64

    def sums(self, weight: Int64) -> Int64:
        """The sum of each group's weights, in 64-bit integers."""
        if len(self.first) == 0:
            return np.empty(0, np.int64)
        return np.add.reduceat(weight[self.rows], self.first)

    def sizes(self) -> Int64:
        """How many rows each group has."""
        return np.diff(np.append(self.first, len(self.rows)))


def group_pairs(left: Int64, right: Int64, ids: int) -> Groups:
    """Group equal (left, right) pairs; all ids are below `ids`; rows of a group stay in ascending order.

    Key and row number are packed into one integer and sorted: 10 ns a row, where argsort takes 40 and
    numpy.unique 100. Keys too wide to pack take the slower way.
    """
    n = len(left)
    if n == 0:
        return Groups(np.empty(0, np.int64), np.empty(0, np.int64))
    row_bits = n.bit_length()
    key = left * np.int64(ids) + right
    if 2 * int(ids).bit_length() + row_bits < 63:
        packed = (key << row_bits) | np.arange(n)
        packed.sort()
        rows = packed & ((1 << row_bits) - 1)
        key = packed >> row_bits
    else:
        rows = np.argsort(key, kind="stable")
        key = key[rows]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return Groups(rows, first)


@dataclass
class Changes:
    """What committing does to the pair counts.

    Born pairs: `left`, `right`, `count`, and in `groups` over `places` the places each one stands at.
    Pairs that lose: row `lost_row` of the executed occurrences loses its neighbour pair on side `lost_side`
    (0: in front, 1: behind) and with it `lost_weight`.
    """

    left: Int64
    right: Int64
    count: Int64
    groups: Groups
    places: Int64
    lost_row: Int64
    lost_side: Int64
    lost_weight: Int64


def count_changes(done: Occurrences, new: Int64, left_id: Int64, right_id: Int64, ids: int, disjoint: bool) -> Changes:
    """Born and lost pairs when the occurrences `done` become the ids `new`; they were (left_id, right_id).

    A run of k equal tokens counts k - 1 times, or k // 2 times when `disjoint`; executed occurrences
    shorten old runs at their ends only, so the loss is the difference of two such floors. Pairs that merge
    in this batch are not reported as losing: all of their occurrences go.
    """
    n = len(done)
    abut = np.zeros(n, bool)  # with the next row
    abut[:-1] = done.end[:-1] == done.start[1:]
    has_after = done.after >= 0
    has_before = done.before >= 0
    has_before[1:] &= ~abut[:-1]
    behind = np.flatnonzero(has_after)
    front = np.flatnonzero(has_before)
    right_of = done.after.copy()
    right_of[:-1][abut[:-1]] = new[1:][abut[:-1]]
    lefts = np.concatenate((new[behind], done.before[front]))
    rights = np.concatenate((right_of[behind], new[front]))
    places = np.concatenate((done.start[behind], done.previous[front]))
    weights = np.concatenate((done.weight[behind], done.weight[front]))
    lost_row = np.concatenate((behind, front))
    lost_side = np.concatenate((np.ones(len(behind), np.int64), np.zeros(len(front), np.int64)))
    lost_weight = weights
    counted = weights
    if disjoint and n:
        assert done.run_after is not None
        assert done.run_before is not None
        # New runs: "abab" became [n, n]. Its adjacent positions count every other time, from the left.
        same = np.zeros(n, bool)
        same[:-1] = abut[:-1] & (new[1:] == new[:-1])
        index = np.arange(n)
        goes_on = np.concatenate(([False], same[:-1]))
        begin = np.maximum.accumulate(np.where(goes_on, 0, index))
        skipped = same & (((index - begin) & 1) == 1)
        counted = weights.copy()
        counted[: len(behind)][skipped[behind]] = 0
        # Old runs: shortened at one end, or at both when the next row takes the other end.
        lost_weight = weights.copy()
        tail = (done.after == right_id) & has_after
        head = done.before == left_id
        both = np.zeros(n, bool)
        both[:-1] = (
            tail[:-1]
            & (left_id[1:] == right_id[:-1])
            & (head[1:] | abut[:-1])
            & (done.run_before[1:] == done.run_after[:-1])
            & (_run_span(done)[:-1])
        )
        length = np.where(tail, done.run_after, 2)
        loss = length // 2 - (length - 1 - both) // 2
        lost_weight[: len(behind)] = np.where(tail, loss * done.weight, done.weight)[behind]
        taken = np.concatenate(([False], both[:-1]))
        length = np.where(head, done.run_before, 2)
        loss = np.where(taken, 0, length // 2 - (length - 1) // 2)
        lost_weight[len(behind) :] = np.where(head, loss * done.weight, done.weight)[front]
    groups = group_pairs(lefts, rights, ids)
    head_rows = groups.rows[groups.first]
    return Changes(
        lefts[head_rows],
        rights[head_rows],
        groups.sums(counted),
        groups,
        places,
        lost_row,
        lost_side,
        lost_weight,
    )


def _run_span(done: Occurrences) -> Bool:
    """Whether the run behind row i is the very run in front of row i + 1 (same word, touching)."""
    assert done.run_after is not None
    span = np.zeros(len(done), bool)
    # Every token of the run is as wide as row i's right token.
    width = done.end - done.second
    span[:-1] = done.second[:-1] + (done.run_after[:-1] - 1) * width[:-1] == done.start[1:]
    return span


def paper_batch_size(remaining: int, vocabulary: int, cap_divisor: int, max_batch: int) -> int:
    """How many pairs BatchBPE looks at in one round."""
    return max(1, min(remaining // cap_divisor, vocabulary, max_batch))


def paper_safe(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """BatchBPE's rule: the pairs of a round, best first, that are merged together.

    A pair is left out if its left token was already seen on the right, or its right token on the left, of any
    pair before it, merged or not. What is left never overlaps, except an equal pair with itself.

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
