"""The exact batch: many merges in one pass, equal to one-at-a-time BPE. Pure: arrays in, arrays out.

A pass over data is dear and a merge is cheap, so the K best pairs ("candidates") are looked up
together, and `resolve_batch` says which merges, in which order, one-at-a-time BPE would make first.

    words  abcab x5 · bcd x4 · de x7       candidates (a,b) 10 · (b,c) 9 · (d,e) 7
    in abc the occurrence of (a,b) and that of (b,c) share the b: they overlap
    order tried   (a,b) 10 · (b,c) 9 -> 4 at its own turn · (d,e) 7
    but when (b,c) comes second, (d,e) has 7 > 4: (d,e) moves before it
    order proved  (a,b) 10 · (d,e) 7 · then the born pair (ab,c) with 5 beats (b,c) with 4: stop
    committed     (a,b), (d,e)

Why the committed prefix is the sequential order. Write key(p, t) for the key (count, then tie rule)
of pair p after t merges, and let merges 0..t-1 of our order be the sequential ones (true for t = 0).
They rewrite exactly the occurrences that we call executed with rank below t: of two overlapping
occurrences the one whose merge comes first survives, the other is gone when its turn comes, and
whether an occurrence of rank r is executed depends on ranks below r only ("execute what outranks its
undecided neighbours, drop what touches it" computes just that). Merge t is then sequential if and only
if its key beats that of every other pair that exists at that moment. There are four kinds:

1. a later candidate j: its count then is its starting count less the weight of its occurrences dropped
   by ranks below t. These falling counts are known step by step and each step is compared
   with every key it lasts for. (Comparing counts at j's own turn only is wrong: j may have been
   better than t before a merge between t and j took its occurrences.)
2. a pair born from merge r < t (one side is a new id): it holds all its occurrences at
   birth, neighbours of rank at most r already replaced; two new ids meet at the later rank; some of
   them end when a later rank takes the neighbour. Its count is followed the same way.
3. a pair that was no candidate: counts of old pairs only fall inside a batch, so the best
   of those at the start of the batch (the floor) bounds them all.
4. an equal pair (a, a) is a candidate like others: where its occurrences overlap each other they are
   executed from the left, as MERGE does, and those that fall to their own pair still count at its turn,
   because under `all` "aaa" counts twice. Under `disjoint` a run's count is not a sum over its places, so
   there an equal pair with a run of three is a candidate only when it is the best of all, and then alone;
   until then it is the floor (`without_runs` cuts the candidates in front of it).

So every comparison made is with a count that the pair has at that moment (or, for births, no less),
and the first t for which one fails ends the batch: nothing was written, so nothing is undone.
A merge whose bytes are a living token would raise counts of old pairs, which 3 forbids: the engine
ends the batch behind it. Ties are part of the key: `ids` compares (left id, right id), where a new id is
above every candidate's, so a born (new, y) loses its ties and (x, new) is compared by x; `bytes` compares
byte strings. Both arrive here as one integer label per token that sorts as the rule wants.

When a comparison fails, the pair that was better is moved in front of the one it beats and the order is tried
again, at most `rounds` times. Each try proves at least one merge more than the one before.

Cost: O(occurrences) once, plus O(occurrences that overlap another) per round; births need one sort of
two keys per executed occurrence. Memory: about 120 bytes per occurrence of the candidates.
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
    """The best pairs, best first. `label[token]` sorts tokens as the tie rule does; `new_label[i]` is that of
    the token candidate i would make. `floor_*`: the key of the best pair left out (count -1: there is
    none)."""

    left: Int64
    right: Int64
    count: Int64
    label: Int64
    new_label: Int64
    floor_count: int = -1
    floor_left: int = -1  # labels, for ties; -1 means "wins every tie"
    floor_right: int = -1


@dataclass
class Resolution:
    """The merges to commit, in order: `order` are candidate indices, `count` their counts when chosen.

    `done` are the occurrences to rewrite (column order), `rank` the place of each one's merge in `order`.
    `stopped_by` says what ended the batch: all, candidate, birth, floor, limit.
    """

    order: Int64
    count: Int64
    done: Occurrences
    rank: Int64
    rounds: int
    stopped_by: str


class _Keys:
    """Counts and ties as one integer each, larger is better, comparable with searchsorted.

    A candidate's place among the candidates' ties is odd, a stranger's place between them even, so the two
    never tie. The counts must leave room for those bits: `most_candidates` says how many fit.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.size = len(candidates.left)
        self.bits = int(2 * self.size + 2).bit_length()
        # Tokens become small even/odd numbers too, so that a pair of them fits 64 bits under any label.
        self.lefts = np.unique(candidates.label[candidates.left])
        self.rights = np.unique(candidates.label[candidates.right])
        own = self._pair(candidates.label[candidates.left], candidates.label[candidates.right])
        self.sorted_ties = np.sort(own)
        self.own_tie = 2 * np.searchsorted(self.sorted_ties, own) + 1

    def _pair(self, left: Int64, right: Int64) -> Int64:
        return (_between(self.lefts, left) << 32) | _between(self.rights, right)

    def of_candidates(self, count: Int64, index: Int64 | slice) -> Int64:
        return (count << self.bits) | (2 * self.size + 1 - self.own_tie[index])

    def of_strangers(self, count: Int64, left: Int64, right: Int64) -> Int64:
        tie = 2 * np.searchsorted(self.sorted_ties, self._pair(left, right))
        return (count << self.bits) | (2 * self.size + 1 - tie)


def _between(known: Int64, labels: Int64) -> Int64:
    place = np.searchsorted(known, labels)
    inside = np.minimum(place, len(known) - 1)
    between: Int64 = 2 * place + (known[inside] == labels)
    return between


def most_candidates(best_count: int, wanted: int) -> int:
    """How many candidates may be compared at once when the best count is this large.

    Keys are 63-bit: beyond 2^48 or so there is less and less room for ties, and at 2^61 a batch is one merge.
    """
    room = 62 - int(best_count).bit_length()
    return max(1, min(wanted, (1 << max(room, 0)) // 2 - 2))


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


def without_runs(occurrences: Places, candidates: Candidates) -> int:
    """How many of the candidates come before the first one that overlaps itself; at least one."""
    chain = occurrences.start[1:] == occurrences.second[:-1]
    chain &= occurrences.pair[1:] == occurrences.pair[:-1]
    if not chain.any():
        return len(candidates.left)
    return max(1, int(occurrences.pair[1:][chain].min()))


def resolve_batch(
    occurrences: Places,
    describe: Describe,
    candidates: Candidates,
    *,
    limit: int,
    rounds: int = 16,
    next_id: int,
) -> Resolution:
    """The longest prefix of merges that provably equals one-at-a-time BPE; at least one merge.

    `limit`: merges still wanted. `next_id`: the id the first merge gets (born pairs need names while
    compared).
    """
    size = len(candidates.left)
    if size == 1:
        return _single(occurrences, describe, candidates)
    keys = _Keys(candidates)
    # Only overlapping occurrences depend on the order; they form short chains.
    link = occurrences.start[1:] == occurrences.second[:-1]
    overlaps = np.flatnonzero(link)
    node_mask = np.zeros(len(occurrences), bool)
    node_mask[overlaps] = True
    node_mask[overlaps + 1] = True
    nodes = np.flatnonzero(node_mask)
    node_pair = occurrences.pair[nodes]
    node_weight = occurrences.weight[nodes]
    linked = link[nodes[:-1]] if len(nodes) else np.empty(0, bool)

    order = np.arange(size)
    proved = 0
    used = 0
    while True:
        used += 1
        rank = np.empty(size, np.int64)
        rank[order] = np.arange(size)
        node_rank = rank[node_pair]
        executed = executed_by_rank(node_rank, linked)
        dropped, dropper = _dropped(node_rank, executed, linked)
        drop_rank = node_rank[dropped]
        drop_weight = node_weight[dropped]
        turn_count = candidates.count[order]
        if len(dropped):
            np.subtract.at(turn_count, drop_rank, drop_weight)
        turn_key = keys.of_candidates(turn_count, order)
        worst = -np.minimum.accumulate(turn_key)
        better, better_at, better_key = _steps_that_win(
            keys, order, turn_count, turn_key, worst, drop_rank, dropper, drop_weight
        )
        proved = int(better_at.min()) if len(better_at) else size
        if len(better_at) == 0 or used >= rounds or proved >= limit:
            break
        order = _moved(order, better, better_at, better_key)

    stopped_by = "candidate" if proved < size else "all"
    if proved > limit:
        proved, stopped_by = limit, "limit"
    floor = keys.of_strangers(
        np.array([max(candidates.floor_count, 0)]),
        np.array([candidates.floor_left]),
        np.array([candidates.floor_right]),
    )
    if candidates.floor_count >= 0:
        beaten = int(np.searchsorted(worst[:proved], -floor[0], side="right"))
        if beaten < proved:
            proved, stopped_by = beaten, "floor"
    assert proved > 0, "the best pair lost to a pair that was not offered"

    row_rank = rank[occurrences.pair]
    alive = row_rank < proved
    alive[nodes[~executed]] = False
    rows = np.flatnonzero(alive)
    done, done_rank = describe(occurrences.take(rows)), row_rank[rows]
    if proved > 1:
        until = _first_birth_that_wins(done, done_rank, candidates, order, keys, worst[:proved], next_id)
        if until < proved:
            proved, stopped_by = until, "birth"
            kept = np.flatnonzero(done_rank < proved)
            done, done_rank = done.take(kept), done_rank[kept]
    return Resolution(order[:proved], turn_count[:proved], done, done_rank, used, stopped_by)


def _single(occurrences: Places, describe: Describe, candidates: Candidates) -> Resolution:
    """One merge: it is the best, so nothing needs proof; equal ids take every other occurrence of a run."""
    rows = occurrences
    if candidates.left[0] == candidates.right[0]:
        rows = occurrences.take(leftmost_of_equal(occurrences))
    zero = np.zeros(1, np.int64)
    return Resolution(zero, candidates.count[:1].copy(), describe(rows), np.zeros(len(rows), np.int64), 1, "all")


def resolve_given(occurrences: Places, describe: Describe, candidates: Candidates) -> Resolution:
    """Commit all candidates in the order given (replay of known events): no proof, but their counts at
    their turn.

    BatchBPE's rule comes through here too: its safe pairs never overlap, except an equal one with itself.
    """
    size = len(candidates.left)
    if size == 1:
        return _single(occurrences, describe, candidates)
    linked = occurrences.start[1:] == occurrences.second[:-1]
    count = candidates.count.copy()
    rank = occurrences.pair
    executed = executed_by_rank(rank, linked)
    dropped, _ = _dropped(rank, executed, linked)
    np.subtract.at(count, rank[dropped], occurrences.weight[dropped])
    rows = np.flatnonzero(executed)
    return Resolution(np.arange(size), count, describe(occurrences.take(rows)), rank[rows], 1, "all")


def _dropped(rank: Int64, executed: Bool, linked: Bool) -> tuple[Int64, Int64]:
    """The occurrences taken by others, and the rank of the first merge that took each."""
    none = np.iinfo(np.int64).max
    of_executed = np.where(executed, rank, none)
    taker = np.full(len(rank), none)
    if len(rank):
        taker[1:] = np.where(linked, of_executed[:-1], none)
        taker[:-1] = np.minimum(taker[:-1], np.where(linked, of_executed[1:], none))
    # An equal pair's odd occurrences fall to the pair itself: they still count at its turn.
    dropped = np.flatnonzero(~executed & (taker < rank))
    return dropped, taker[dropped]


def _steps_that_win(
    keys: _Keys,
    order: Int64,
    turn_count: Int64,
    turn_key: Int64,
    worst: Int64,
    drop_rank: Int64,
    dropper: Int64,
    drop_weight: Int64,
) -> tuple[Int64, Int64, Int64]:
    """Candidates that are better than one placed before them: (their rank, the rank they beat, their key
    then).

    A candidate's count is a falling staircase: read from its own turn backwards, each drop adds its
    weight for all ranks up to and including the one that caused it.
    """
    size = len(order)
    own_at = np.searchsorted(worst, -turn_key, side="right")
    own = np.flatnonzero(own_at < np.arange(size))
    if len(drop_rank) == 0:
        return own, own_at[own], turn_key[own]
    by = np.argsort(drop_rank * size + (size - 1 - dropper))
    who = drop_rank[by]
    total = np.cumsum(drop_weight[by])
    first = np.flatnonzero(np.concatenate(([True], who[1:] != who[:-1])))
    before = np.concatenate(([0], total[first[1:] - 1]))
    height = total - np.repeat(before, np.diff(np.append(first, len(who))))
    key = keys.of_candidates(turn_count[who] + height, order[who])
    at = np.searchsorted(worst, -key, side="right")
    wins = np.flatnonzero(at <= dropper[by])
    return (
        np.concatenate((own, who[wins])),
        np.concatenate((own_at[own], at[wins])),
        np.concatenate((turn_key[own], key[wins])),
    )


def _moved(order: Int64, better: Int64, better_at: Int64, better_key: Int64) -> Int64:
    """Each better pair goes in front of the first one it beats; several before the same one, best first."""
    size = len(order)
    target = 2 * np.arange(size) + 1
    key = np.zeros(size, np.int64)
    by = np.lexsort((-better_key, better_at, better))
    who = better[by]
    first = np.concatenate(([True], who[1:] != who[:-1]))
    target[who[first]] = 2 * better_at[by][first]
    key[who[first]] = better_key[by][first]
    return order[np.lexsort((-key, target))]


def _first_birth_that_wins(
    chosen: Occurrences,
    rank: Int64,
    candidates: Candidates,
    order: Int64,
    keys: _Keys,
    worst: Int64,
    next_id: int,
) -> int:
    """The first rank whose merge is beaten by a pair born before it; len(worst) if there is none."""
    proved = len(worst)
    new = next_id + rank
    abut = chosen.end[:-1] == chosen.start[1:]
    # Behind each occurrence: (new, after), or the next one's new id where two abut.
    has_after = chosen.after >= 0
    right_of = chosen.after.copy()
    right_of[:-1][abut] = new[1:][abut]
    born = rank.copy()
    born[:-1][abut] = np.maximum(rank[:-1][abut], rank[1:][abut])
    # In front: (before, new), unless the boundary was seen from the other side.
    has_before = chosen.before >= 0
    has_before[1:] &= ~abut
    left = [new[has_after], chosen.before[has_before]]
    right = [right_of[has_after], new[has_before]]
    birth = [born[has_after], rank[has_before]]
    weight = [chosen.weight[has_after], chosen.weight[has_before]]
    death = [np.full(len(left[0]) + len(left[1]), proved)]
    # Between two that abut, the earlier merge makes a pair that lasts until the later one.
    meets = np.flatnonzero(abut)
    if len(meets):
        r1, r2 = rank[meets], rank[meets + 1]
        forth = meets[r1 < r2]
        back = meets[r1 > r2]
        left += [new[forth], candidates.right[order[rank[back]]]]
        right += [candidates.left[order[rank[forth + 1]]], new[back + 1]]
        birth += [rank[forth], rank[back + 1]]
        weight += [chosen.weight[forth], chosen.weight[back]]
        death += [rank[forth + 1], rank[back]]
    lefts, rights = np.concatenate(left), np.concatenate(right)
    births, weights, deaths = np.concatenate(birth), np.concatenate(weight), np.concatenate(death)
    groups = group_pairs(lefts, rights, next_id + proved)
    totals = groups.sums(weights)
    # Only groups that could beat the worst key of all need a closer look.
    low = int(-worst[-1]) >> keys.bits
    suspects = np.flatnonzero(totals >= low)
    if len(suspects) == 0:
        return proved
    head = groups.rows[groups.first[suspects]]

    def label(token: Int64) -> Int64:
        old = candidates.label[np.minimum(token, next_id - 1)]
        made = candidates.new_label[order[np.clip(token - next_id, 0, proved - 1)]]
        return np.where(token < next_id, old, made)

    at_most = keys.of_strangers(totals[suspects], label(lefts[head]), label(rights[head]))
    at = np.maximum(np.searchsorted(worst, -at_most, side="right"), births[head] + 1)
    until = proved
    for i in np.argsort(at):
        if at[i] >= until:
            break
        rows = groups.members(int(suspects[i]))
        ends = deaths[rows]
        if ends.min() >= proved:  # nothing of it ends inside the batch: the count at birth stands
            until = int(at[i])
            break
        # The staircase again: what is alive at rank t is what ends at t or later.
        by = np.argsort(-ends)
        height = np.cumsum(weights[rows][by])
        tie = int(at_most[i]) & ((1 << keys.bits) - 1)
        beaten = np.searchsorted(worst, -((height << keys.bits) | tie), side="right")
        beaten = np.maximum(beaten, births[head[i]] + 1)
        beaten = beaten[beaten <= np.minimum(ends[by], proved - 1)]
        if len(beaten):
            until = min(until, int(beaten.min()))
    return until


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

    def members(self, group: int) -> Int64:
        """The rows of one group."""
        stop = self.first[group + 1] if group + 1 < len(self.first) else len(self.rows)
        return self.rows[self.first[group] : stop]


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
