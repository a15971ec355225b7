"""Replay events on millions of symbols at once, with array work instead of a loop.

All chunks lie in one array with a separator between two. An event touches every chunk that holds its
pair, so events are worked off in order. Working off is costly to start (a few dozen numpy calls), so it
takes events in *batches*: stretches of the log in which no event uses a token that an event of the same
stretch makes. Inside a batch occurrences can only collide, never make new ones, and a collision goes to
the smaller event:

    events   0: a b -> ab    1: c d -> cd    2: ab cd -> abcd    batches  [0 1] [2]

    a b c d | b a b   -0 1->   ab cd | b ab   -2->   abcd | b ab

A deletion, and a merge of a token with itself, is a batch of its own. 131 072 merges make a few
hundred batches.

Cost: 0.3 to 0.5 us per symbol, and 0.2 ms for each batch that finds something to do, whatever the
length of a chunk: one of 50 MB and 10 million of 5 bytes take the same. Memory: about 40 bytes per symbol.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streambpe.model.eventlog import Event, Op

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_DEAD = -1  # the place was taken up by the token on its left
_RANK_BITS = 20  # of a pending key: place << 20 | event within its batch
_SLICE = 1 << 20  # places looked up at a time, so that temporaries stay small
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class PairTable:
    """Pair of ids -> number, for arrays of pairs: open addressing in two arrays, 48 bytes per pair.

    PairTable([(3, 4), (4, 3)]).find(left=[4, 9], right=[3, 9])  ->  [1, -1]
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], n_ids: int) -> None:
        bits = max(4, (len(pairs) * 4 - 1).bit_length())
        self._width = np.int64(n_ids)
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._keys: Keys = np.full(1 << bits, -1, np.int64)
        self._values: Ids = np.full(1 << bits, -1, np.int32)
        if not pairs:
            return
        both = np.array(pairs, np.int64)
        keys = both[:, 0] * self._width + both[:, 1]
        slots = self._slots(keys)
        waiting = np.arange(len(keys))
        while len(waiting):
            # of the pairs that want one free slot, the last one written has it; the others try the next slot
            free = self._keys[slots[waiting]] < 0
            trying = waiting[free]
            self._keys[slots[trying]] = keys[trying]
            self._values[slots[trying]] = trying
            lost = self._values[slots[waiting]] != waiting
            waiting = waiting[lost]
            slots[waiting] = (slots[waiting] + 1) & self._mask

    def _slots(self, keys: Keys) -> Places:
        slots: Places = ((keys.view(np.uint64) * _MULTIPLIER) >> self._shift).view(np.int64)
        return slots

    def find(self, left: Ids, right: Ids) -> Ids:
        """The number of each pair, -1 if it is not in the table."""
        keys = left * self._width
        keys += right
        slots = self._slots(keys)
        found = self._keys[slots]
        hit = found == keys
        result = np.where(hit, self._values[slots], np.int32(-1))
        unsure = np.flatnonzero(~hit & (found >= 0))
        while len(unsure):
            at = (slots[unsure] + 1) & self._mask
            slots[unsure] = at
            found = self._keys[at]
            hit = found == keys[unsure]
            result[unsure[hit]] = self._values[at[hit]]
            unsure = unsure[~hit & (found >= 0)]
        return result


class BulkReplay:
    """The events of a model, ready to be replayed on arrays of ids below `n_ids`.

    `lengths[id]` is how many places an id takes up; only deletions ask for it.
    """

    def __init__(self, events: Sequence[Event], n_ids: int, lengths: Sequence[int] = ()) -> None:
        self.separator = n_ids
        self.unknown = n_ids + 1
        self._has_deletions = any(event.op is Op.DELETE for event in events)
        self._lengths = lengths
        self._into = {i: event.into for i, event in enumerate(events) if event.op is Op.DELETE}
        self._left: Ids = np.array([-2 if e.left is None else e.left for e in events], np.int32)
        self._right: Ids = np.array([-2 if e.right is None else e.right for e in events], np.int32)
        self._new: Ids = np.array([e.id for e in events], np.int32)
        indices: dict[tuple[int, int], list[int]] = {}
        deletions: dict[int, list[int]] = {}
        for i, event in enumerate(events):
            if event.op is Op.DELETE:
                deletions.setdefault(event.id, []).append(i)
            else:
                indices.setdefault(event.pair, []).append(i)
        self._pairs = PairTable(list(indices), n_ids + 2)
        self._pair_events = _Growing(list(indices.values()))
        rows = np.full(n_ids + 2, -1, np.int32)
        rows[list(deletions)] = np.arange(len(deletions))
        self._deletion_row = rows
        self._deletion_events = _Growing(list(deletions.values()))
        self._make_batches(events)

    def _make_batches(self, events: Sequence[Event]) -> None:
        starts: list[int] = []
        made: set[int] = set()
        pairs: set[tuple[int, int]] = set()
        alone = True
        for i, event in enumerate(events):
            was_alone, alone = alone, event.op is Op.DELETE or event.left == event.right
            if (
                alone
                or was_alone
                or event.left in made
                or event.right in made
                or event.pair in pairs
                or i - starts[-1] >= 1 << _RANK_BITS
            ):
                starts.append(i)
                made, pairs = set(), set()
            if event.op is not Op.DELETE:
                made.add(event.id)
                pairs.add(event.pair)
        self._starts = starts
        self._stops = [*starts[1:], len(events)]
        self._start_of: Places = np.array(starts, np.int64)
        kind = np.uint16 if len(starts) < 1 << 16 else np.uint32  # 16 bits sort by radix
        self._batch_of: npt.NDArray[np.unsignedinteger] = np.repeat(
            np.arange(len(starts), dtype=kind), np.diff([*starts, len(events)])
        )

    @property
    def n_batches(self) -> int:
        """How many passes a replay makes at most."""
        return len(self._starts)

    def replay(
        self, symbols: Ids, lengths: npt.NDArray[np.int64], tally: Tally | None = None
    ) -> tuple[Ids, npt.NDArray[np.int64]]:
        """(ids of all sequences one after another, ids of each): sequence i is the next lengths[i] symbols.

        `tally` is told how often each event's pair stood there at its turn; 8 bytes per symbol more.

            symbols 1 2 3   lengths 2 0 1   ends 3 4 6     with | for the separator:
            token   | 1 2 | | 3 |
        """
        n = len(symbols) + len(lengths) + 1
        if n >= 1 << 31:
            raise OverflowError(f"{n} symbols at once; places are 32-bit numbers")
        token = np.empty(n, np.int32)
        ends = np.cumsum(lengths + 1)
        token[0] = token[ends] = self.separator
        inside = np.ones(n, np.bool_)
        inside[0] = inside[ends] = False
        token[inside] = symbols
        work = _Work(token)
        if tally is not None:
            work.tally, work.weight = tally, np.append(0, np.repeat(tally.weights, lengths + 1))
        pending: list[list[Keys]] = [[] for _ in self._starts]
        for low in range(0, n - 1, _SLICE):
            places = np.arange(low, min(low + _SLICE, n - 1), dtype=np.int32)
            self._push(pending, work, places, -1)
        for batch, keys in enumerate(pending):
            if keys:
                pending[batch] = []
                self._work_off(batch, np.concatenate(keys) if len(keys) > 1 else keys[0], work, pending)
        token = token[token != _DEAD]
        borders = np.flatnonzero(token == self.separator)
        return token[token != self.separator], np.diff(borders) - 1

    def _push(self, pending: list[list[Keys]], work: _Work, places: Ids, last: int) -> None:
        """Note for each place the first event after `last` that its pair waits for."""
        right = work.token[work.next[places]]
        rows = self._pairs.find(work.token[places], right)
        hit = np.flatnonzero(rows >= 0)
        events = self._pair_events.after(rows[hit], last)
        self._note(pending, places[hit], events)

    def _push_deletions(self, pending: list[list[Keys]], work: _Work, places: Ids, last: int) -> None:
        rows = self._deletion_row[work.token[places]]
        hit = np.flatnonzero(rows >= 0)
        if len(hit):
            self._note(pending, places[hit], self._deletion_events.after(rows[hit], last))

    def _note(self, pending: list[list[Keys]], places: Ids, events: Ids) -> None:
        """Put each place under the batch of its event; event -1 is none. With batches that begin at events 0, 4, 6:

        places 3 8 9   events 5 1 4   batches 1 0 1
        pending[0] gets (8, 1)   pending[1] gets (3, 1) (9, 0): each place with the event's number in its batch
        """
        wanted = events >= 0
        if not wanted.all():
            places, events = places[wanted], events[wanted]
        if not len(events):
            return
        batches = self._batch_of[events]
        order = np.argsort(batches, kind="stable")
        batches = batches[order]
        keys = places[order].astype(np.int64) << _RANK_BITS
        keys |= events[order] - self._start_of[batches]
        edges = np.flatnonzero(batches[1:] != batches[:-1]) + 1
        at = 0
        for edge in [*edges.tolist(), len(keys)]:
            pending[int(batches[at])].append(keys[at:edge])
            at = edge

    def _work_off(self, batch: int, keys: Keys, work: _Work, pending: list[list[Keys]]) -> None:
        first, last = self._starts[batch], self._stops[batch] - 1
        keys = np.sort(keys)
        if len(keys) > 1:
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        places = (keys >> _RANK_BITS).astype(np.int32)
        if first in self._into:
            self._delete(first, places, work, pending)
            return
        ranks = (keys & ((1 << _RANK_BITS) - 1)).astype(np.int32)
        events = ranks + np.int32(first)
        if work.tally is not None:
            work.tally.stood[events] = True
        # an earlier event may have taken up places since they were noted
        rights = work.next[places]
        there = (work.token[places] == self._left[events]) & (work.token[rights] == self._right[events])
        if not there.all():
            places, ranks, rights = places[there], ranks[there], rights[there]
        if not len(places):
            return
        if self._left[first] == self._right[first]:
            won = alternate(places, rights)
            if work.tally is not None and not work.tally.disjoint:
                work.tally.n[first] += work.weight[places[~won]].sum()
            places, ranks = places[won], ranks[won]
        else:
            places, ranks = _resolve(places, ranks, rights)
        if work.tally is not None:
            np.add.at(work.tally.n, ranks + first, work.weight[places])
            self._tell_passing(work, places, ranks, first, last)
        work.join(places, self._new[ranks + np.int32(first)])
        self._push(pending, work, work.touched(places), last)
        if self._has_deletions:
            self._push_deletions(pending, work, places, last)

    def _tell_passing(self, work: _Work, places: Ids, ranks: Ids, first: int, last: int) -> None:
        """Tell the tally which later events' pairs stand only between two merges of this batch.

        With 0: a b -> ab and 1: c d -> cd, `a b c d` holds (ab, c) until 1 is made; nothing else would see it.
        """
        assert work.tally is not None
        order = np.argsort(places)
        places, ranks = places[order], ranks[order]
        at = np.flatnonzero((work.next[work.next[places[:-1]]] == places[1:]) & (ranks[:-1] != ranks[1:]))
        if not len(at):
            return
        one, other = ranks[at] + np.int32(first), ranks[at + 1] + np.int32(first)
        earlier = one < other
        left = np.where(earlier, self._new[one], self._right[one])
        right = np.where(earlier, self._left[other], self._new[other])
        rows = self._pairs.find(left, right)
        events = self._pair_events.after(rows[rows >= 0], last)
        work.tally.stood[events[events >= 0]] = True

    def _delete(self, event: int, places: Ids, work: _Work, pending: list[list[Keys]]) -> None:
        """Take the token at these places apart. One of 5 symbols at place 3, into parts of 2, 1 and 2:

        place     3 4 5 6 7 8        the parts stand at 3, 5 and 6: each behind the length of the one before
        next      5 . 6 8 . .        and the last one leads to what the token led to
        """
        places = places[work.token[places] == self._new[event]]
        if not len(places):
            return
        parts = self._into[event]
        after = work.next[places]
        before = places
        made = [places]
        for left, part in itertools.pairwise(parts):
            here = before + np.int32(self._lengths[left])
            work.next[before] = here
            work.previous[here] = before
            work.token[here] = part
            made.append(here)
            before = here
        work.token[places] = parts[0]
        work.next[before] = after
        work.previous[after] = before
        fresh = np.concatenate(made)
        self._push(pending, work, work.touched(fresh), event)
        self._push_deletions(pending, work, fresh, event)


@dataclass
class Tally:
    """Counts of the events as they are replayed. `weights`: one per sequence; `n`: one per event, added to.

    `disjoint`: "aaa" holds (a, a) once, else twice. `stood`: whether an event's pair stood anywhere before its turn or
    at it; n is 0 where it stood and others took up its places.
    """

    weights: npt.NDArray[np.int64]
    n: npt.NDArray[np.int64]
    disjoint: bool
    stood: Mask


class _Growing:
    """Rows of growing event indices; `after` finds in each row the first one above a bound.

    rows [0 7] [3] [5 6]:   _flat 0 7 3 5 6 -1   _starts 0 2 3   _ends 2 3 5   after([0 1 2], 5) -> 7 -1 6
    """

    def __init__(self, rows: list[list[int]]) -> None:
        sizes = np.array([len(row) for row in rows], np.int64)
        self._ends: Places = np.cumsum(sizes)
        self._starts: Places = self._ends - sizes
        self._flat: Ids = np.array([i for row in rows for i in row] + [-1], np.int32)
        self._single = bool((sizes == 1).all())

    def after(self, rows: Ids, last: int) -> Ids:
        """The first index above `last` of each row, -1 if there is none."""
        if self._single:
            found = self._flat[rows]
            return np.where(found > last, found, np.int32(-1))
        at, ends = self._starts[rows], self._ends[rows]
        while True:
            behind = (at < ends) & (self._flat[at] <= last)
            if not behind.any():
                return np.where(at < ends, self._flat[at], np.int32(-1))
            at += behind


class _Work:
    """The sequences as a linked list in arrays: places keep their number, tokens grow over them."""

    def __init__(self, token: Ids) -> None:
        n = len(token)
        self.token = token
        self.next: Ids = np.minimum(np.arange(1, n + 1, dtype=np.int32), n - 1)
        self.previous: Ids = np.maximum(np.arange(-1, n - 1, dtype=np.int32), 0)
        self._fresh: Mask = np.zeros(n, np.bool_)
        self.tally: Tally | None = None
        self.weight: npt.NDArray[np.int64] = np.empty(0, np.int64)  # of each place, for the tally

    def join(self, places: Ids, new: Ids) -> None:
        """The token at each place and the one behind it become one. No two of them touch.

        token  | 1 2 1 2 |   joined at 1 and 3 as 7:   | 7 . 7 . |   next of 0, 1 and 3 is 1, 3 and 5
        """
        rights = self.next[places]
        after = self.next[rights]
        self.token[places] = new
        self.token[rights] = _DEAD
        self.next[places] = after
        self.previous[after] = places

    def touched(self, fresh: Ids) -> Ids:
        """Places whose pair is new now that the tokens at `fresh` are: they and those before, each once.

        In the example of `join`: fresh 1 3, before them 0 1, of which 1 is fresh itself -> 0 1 3.
        """
        self._fresh[fresh] = True
        before = self.previous[fresh]
        before = before[~self._fresh[before]]
        self._fresh[fresh] = False
        return np.concatenate([before, fresh])


def alternate(places: Ids, rights: Ids) -> Mask:
    """Left to right without overlap, for a token paired with itself: every second one of a stretch.

    places 3 4 5 9 10   rights 4 5 6 10 11   first 0 3   counts 3 2   won 1 0 1 1 0
    """
    starts = np.concatenate([[True], rights[:-1] != places[1:]])
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(places)))
    won: Mask = (np.arange(len(places)) - np.repeat(first, counts)) % 2 == 0
    return won


def pair_places(ids: Ids, lengths: npt.NDArray[np.int64], disjoint: bool) -> Places:
    """Places i of a pair (i, i + 1) in sequences of these lengths; of "aaaa" every second one if `disjoint`.

    ids 1 1 1 2 5 5   lengths 4 0 2   -> 0 1 2 4, as 3 and 5 end their sequences; disjoint: 0 2 4
    """
    inside = np.ones(len(ids), np.bool_)
    inside[(np.cumsum(lengths) - 1)[lengths > 0]] = False
    at: Places = np.flatnonzero(inside)
    if disjoint:
        same = np.flatnonzero(ids[at] == ids[at + 1])
        places = at[same].astype(np.int32)
        at = np.delete(at, same[~alternate(places, places + 1)])
    return at


def _resolve(places: Ids, ranks: Ids, rights: Ids) -> tuple[Ids, Ids]:
    """Of two occurrences that overlap, the earlier-ranked one is made. Neighbours never have equal ranks.

    An occurrence that outranks its undecided neighbours is made, those it touches are dropped, until all are decided.

        places 2 3 4 8   ranks 1 0 2 1   clash 1 1 0    2 with 3, 3 with 4
        won 3 8          gone 2 3 4 8    3 is the earliest of its three, and takes a token of both others
    """
    made: list[tuple[Ids, Ids]] = []
    while True:
        clash = rights[:-1] == places[1:]
        if not clash.any():
            break
        won = np.ones(len(places), np.bool_)
        won[1:] &= ~(clash & (ranks[:-1] < ranks[1:]))
        won[:-1] &= ~(clash & (ranks[1:] < ranks[:-1]))
        gone = won.copy()
        gone[1:] |= clash & won[:-1]
        gone[:-1] |= clash & won[1:]
        made.append((places[won], ranks[won]))
        places, ranks, rights = places[~gone], ranks[~gone], rights[~gone]
    if not made:
        return places, ranks
    made.append((places, ranks))
    return np.concatenate([m[0] for m in made]), np.concatenate([m[1] for m in made])
