"""What the events of a training make of its chunks, worked out again without the engine.

The engine rewrites one long column, event after event. Here every distinct chunk is encoded by itself, many
chunks side by side. In each round a chunk takes the earliest event after its last one whose pair (for a
deletion: whose token) stands in it, and applies it, until no event applies. Long chunks would take too many rounds;
the encoder's core encodes them, which is not the engine either.

    events 0: l o -> lo, 1: lo w -> low, 2: delete lo     "low", "slow", "lot"
    round 1    lo w     s lo w     lo t
    round 2    low      s low      l o t         nothing left of 1 and 2; 0 is past

Cost: one look-up per symbol and round, about as many rounds as a chunk has symbols. Memory: about 100 bytes per
symbol of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.arrays import Int64
from streambpe.core.encoding import Tally
from streambpe.encode.bulk import BulkReplay
from streambpe.model.eventlog import Event, Op

_NEVER = np.iinfo(np.int64).max
_LONG = 2048  # symbols; of a longer chunk the core is asked
_SYMBOLS = 1 << 16  # symbols encoded side by side


class _Times:
    """At which events something happens: key -> growing event numbers. Key 50 at 0 and 4, key 70 at 1, of 10 events:

    _keys  50 70        _times  0 4 11        the key's place times 10, and the event
    next(50, 0)         the first time above 0 * 10 + 0 is 4, of key place 0: event 4
    next(50, 4)         the first time above 4 is 11, of key place 1: never again
    """

    def __init__(self, keys: Int64, seqs: Int64, events: int) -> None:
        self._events = events
        self._keys, number = np.unique(keys, return_inverse=True)
        self._times = np.sort(number * events + seqs)

    def next(self, key: Int64, last: Int64) -> Int64:
        """The first event of each key after event `last`; _NEVER if there is none."""
        if not len(self._keys):
            return np.full(len(key), _NEVER)
        number = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        place = np.searchsorted(self._times, number * self._events + last, side="right")
        found = self._times[np.minimum(place, len(self._times) - 1)]
        there = (self._keys[number] == key) & (place < len(self._times)) & (found // self._events == number)
        return np.where(there, found % self._events, _NEVER)


@dataclass(frozen=True)
class Made:
    """What events find in words, added up by event: the pairs, and how many of them merge (aaa: two, and one)."""

    pairs: Int64
    merges: Int64
    weights: Int64  # of the words: how often each stands


class Replay:
    """The events as look-ups by pair and by deleted token. Supermerges keep their numbers but never apply here."""

    def __init__(self, events: Sequence[Event]) -> None:
        merges = [(seq, *event.pair) for seq, event in enumerate(events) if event.op is Op.MERGE]
        seq, left, right = np.array(merges, np.int64).reshape(-1, 3).T
        self._merges = _Times(left << 32 | right, seq, len(events))
        deaths = [(seq, event.id) for seq, event in enumerate(events) if event.op is Op.DELETE]
        seq, gone = np.array(deaths, np.int64).reshape(-1, 2).T
        self._deaths = _Times(gone, seq, len(events))
        self.deletes = bool(deaths)
        self._id = np.array([event.id for event in events], np.int64)
        # The parts of deletion i are parts[first[i]:first[i] + size[i]].
        self._size = np.array([len(event.into) for event in events], np.int64)
        self._first = np.cumsum(self._size) - self._size
        self._parts = np.array([part for event in events for part in event.into], np.int64)
        self._events = events
        self._most = max(int(ids.max(initial=0)) for ids in (left, right, self._id))
        self._core: BulkReplay | None = None
        self._core_of: tuple[int | None, int] = None, 0  # `before` and `_most` of it

    def encode(
        self, tokens: Int64, word: Int64, before: int | None = None, made: Made | None = None
    ) -> Iterator[tuple[Int64, Int64]]:
        """Blocks (tokens, word): the encoded words, each word in one block; `word` ascends. `made` is added to.

        Only events below `before` apply. In each round every word applies its next event, at all places at once. Events
        0: 1 1 -> 300, 1: 300 2 -> 301, 2: 301 is taken apart into 300 2. The word 1 1 2 1:

            when  0 . . .    first 0   size 1 0 1 1                        ->   300 2 1
            when  1 . .      first 1   size 1 0 1                          ->   301 1
            when  2 .        first 2   size 2 1, the two from `_parts`     ->   300 2 1, finished
        """
        stop = len(self._events) if before is None else before
        last = np.full(len(tokens), -1)
        while len(tokens):
            inside = word[1:] == word[:-1]
            when = np.full(len(tokens), _NEVER)
            when[:-1][inside] = self._merges.next((tokens[:-1] << 32 | tokens[1:])[inside], last[:-1][inside])
            if self.deletes:
                when = np.minimum(when, self._deaths.next(tokens, last))
            when[when >= stop] = _NEVER
            starts = np.flatnonzero(np.append(True, ~inside))
            first = np.minimum.reduceat(when, starts)
            sizes = np.diff(np.append(starts, len(tokens)))
            first = np.repeat(first, sizes)
            finished = first == _NEVER
            yield tokens[finished], word[finished]
            tokens, word, when, last = tokens[~finished], word[~finished], when[~finished], first[~finished]
            hits = np.flatnonzero(when == last)
            split = self._size[last[hits]] > 0
            dead, hits = hits[split], hits[~split]
            if made is not None:
                np.add.at(made.pairs, last[hits], made.weights[word[hits]])
            hits = hits[_every_other(hits)]
            if made is not None:
                np.add.at(made.merges, last[hits], made.weights[word[hits]])
            tokens[hits] = self._id[last[hits]]
            size = np.ones(len(tokens), np.int64)
            size[hits + 1] = 0
            size[dead] = self._size[last[dead]]
            from_parts = np.zeros(len(tokens), np.bool_)
            from_parts[dead] = True
            into = np.repeat(from_parts, size)
            begin = np.repeat(np.cumsum(size) - size, size)
            at = np.repeat(self._first[last], size) + np.arange(len(into)) - begin
            tokens, word, last = np.repeat(tokens, size), np.repeat(word, size), np.repeat(last, size)
            tokens[into] = self._parts[at[into]]

    def encode_long(
        self, tokens: Int64, sizes: Int64, before: int | None = None, made: Made | None = None
    ) -> tuple[Int64, Int64]:
        """(tokens, how many in each) of long words: by the encoder's core, which needs no rounds."""
        symbols = tokens.astype(np.int32)
        self._most = max(self._most, int(symbols.max()))
        if self._core is None or self._core_of != (before, self._most):
            events = [event for event in self._events[:before] if event.op is not Op.SUPERMERGE]
            lengths = [1] * (self._most + 1)
            for event in events if self.deletes else ():  # without deletions nobody asks for lengths
                if event.op is Op.MERGE:
                    lengths[event.id] = sum(lengths[part] for part in event.pair)
            self._core, self._core_of = BulkReplay(events, len(lengths), lengths), (before, self._most)
        if made is not None:  # of a training with --balance, where every event is a merge
            for n, disjoint in ((made.pairs, False), (made.merges, True)):
                self._core.replay(symbols, sizes, Tally(made.weights, n, disjoint, np.zeros(len(n), np.bool_)))
        ids, counts = self._core.replay(symbols, sizes)
        return ids.astype(np.int64), counts


def _every_other(places: Int64) -> npt.NDArray[np.bool_]:
    """The first, third, fifth... of places that follow each other directly: a a a holds one merge, not two.

    places 3 4 5 9 10   begins 1 0 0 1 0   since 0 1 2 0 1   taken 3 5 9
    """
    number = np.arange(len(places))
    begins = np.append(True, np.diff(places) != 1)[: len(places)]
    since = number - np.maximum.accumulate(np.where(begins, number, 0))
    return np.asarray(since % 2 == 0)


def pair_counts(tokens: Int64, word: Int64, weights: Int64, *, disjoint: bool) -> pl.DataFrame:
    """(left_id, right_id, n) of encoded words; weights[word] is how often a word occurs. Pairs with a symbol outside
    the alphabet (UNKNOWN) are left out."""
    at = np.flatnonzero((word[1:] == word[:-1]) & (tokens[1:] >= 0) & (tokens[:-1] >= 0))
    if disjoint:
        equal = tokens[at] == tokens[at + 1]
        runs = at[equal]
        # a run of another id may follow directly: a a b b
        begins = np.append(True, (np.diff(runs) != 1) | (np.diff(tokens[runs]) != 0))[: len(runs)]
        number = np.arange(len(runs))
        since = number - np.maximum.accumulate(np.where(begins, number, 0))
        at = np.sort(np.concatenate((at[~equal], runs[since % 2 == 0])))
    frame = pl.DataFrame({"left_id": tokens[at], "right_id": tokens[at + 1], "n": weights[word[at]]})
    return frame.group_by("left_id", "right_id").agg(pl.col("n").sum())


def encode_words(
    replay: Replay, tokens: Int64, sizes: Int64, before: int | None = None, made: Made | None = None
) -> Iterator[tuple[Int64, Int64]]:
    """Blocks (tokens, word) of encoded words, each word in one block. The words are given as base symbols in a row.
    Only events below `before` apply. `made` is added to."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        begin = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, begin + _SYMBOLS, side="right")))
        long = np.flatnonzero(sizes[start:stop] > _LONG) + start
        mine = np.arange(start, stop)
        word = np.repeat(mine, sizes[start:stop])
        block = tokens[begin : int(ends[stop - 1])]
        short = ~np.isin(word, long)
        rounds = list(replay.encode(block[short], word[short], before, made))
        if rounds:  # together: whoever counts them has a fixed cost for each block
            yield np.concatenate([encoded for encoded, _ in rounds]), np.concatenate([whose for _, whose in rounds])
        if len(long):
            weighted = made and Made(made.pairs, made.merges, made.weights[long])
            encoded, counts = replay.encode_long(block[~short], sizes[long], before, weighted)
            yield encoded, np.repeat(long, counts)
        start = stop
