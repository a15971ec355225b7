"""What the events of a training make of its chunks, worked out again without the engine.

The engine rewrites one long column, event after event. Here every distinct chunk is encoded by itself, many
chunks side by side: take the earliest event whose pair stands in a chunk, apply it to that chunk, go on
until no event applies.

    events 0: l o -> lo, 1: lo w -> low        "low", "slow", "so"
    round 1    lo w     s lo w     s o         "so" has no pair of an event: finished
    round 2    low      s low

This holds for merges alone: a pair that is learned once is never there again. Cost: one look-up a symbol and
round, about as many rounds as a chunk has symbols. Memory: about 100 bytes a symbol of the block.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.encode.eventlog import Event, Op

Int64 = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max
_LONG = 2048  # symbols; a longer chunk has too many rounds and is encoded by itself
_SYMBOLS = 1 << 20  # encoded side by side


class Replay:
    """The merges as a look-up: pair -> (event number, id). Supermerges keep their numbers but never apply here."""

    def __init__(self, events: Sequence[Event]) -> None:
        numbers = [seq for seq, event in enumerate(events) if event.op is Op.MERGE]
        pairs = [events[seq].pair for seq in numbers]
        left = np.array([pair[0] for pair in pairs], np.int64)
        right = np.array([pair[1] for pair in pairs], np.int64)
        key = left << 32 | right
        by = np.argsort(key, kind="stable")
        self._key = key[by]
        self._by = np.array(numbers, np.int64)[by]
        self._id = np.array([event.id for event in events], np.int64)
        self.events = {pair: (seq, events[seq].id) for seq, pair in zip(numbers, pairs, strict=True)}

    def when(self, key: Int64) -> Int64:
        """The event that merges each of these pairs (left << 32 | right); _NEVER if none does."""
        if not len(self._key):
            return np.full(len(key), _NEVER)
        place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[place] == key, self._by[place], _NEVER)

    def encode(self, tokens: Int64, word: Int64) -> Iterator[tuple[Int64, Int64]]:
        """Blocks (tokens, word): the encoded words, each word in one block; `word` ascends."""
        while len(tokens):
            inside = word[1:] == word[:-1]
            when = np.full(len(tokens), _NEVER)
            when[:-1][inside] = self.when((tokens[:-1] << 32 | tokens[1:])[inside])
            starts = np.flatnonzero(np.append(True, ~inside))
            first = np.minimum.reduceat(when, starts)
            sizes = np.diff(np.append(starts, len(tokens)))
            first = np.repeat(first, sizes)
            finished = first == _NEVER
            yield tokens[finished], word[finished]
            tokens, word, when, first = tokens[~finished], word[~finished], when[~finished], first[~finished]
            hits = np.flatnonzero(when == first)
            hits = hits[_every_other(hits)]
            tokens[hits] = self._id[first[hits]]
            keep = np.ones(len(tokens), np.bool_)
            keep[hits + 1] = False
            tokens, word = tokens[keep], word[keep]

    def encode_one(self, tokens: list[int], before: int | None = None) -> list[int]:
        """One word by a heap of places; only the events below `before`."""
        stop = _NEVER if before is None else before
        after = list(range(1, len(tokens) + 1))
        ahead = list(range(-1, len(tokens) - 1))
        heap: list[tuple[int, int, int, int]] = []

        def look(i: int) -> None:
            j = after[i]
            if j < len(tokens):
                found = self.events.get((tokens[i], tokens[j]))
                if found is not None and found[0] < stop:
                    heapq.heappush(heap, (found[0], i, tokens[i], tokens[j]))

        for i in range(len(tokens)):
            look(i)
        while heap:
            _, i, left, right = heapq.heappop(heap)
            j = after[i]
            if j >= len(tokens) or tokens[i] != left or tokens[j] != right:
                continue
            tokens[i], tokens[j] = self.events[left, right][1], -1
            after[i] = after[j]
            if after[i] < len(tokens):
                ahead[after[i]] = i
            look(i)
            if ahead[i] >= 0:
                look(ahead[i])
        return [token for token in tokens if token >= 0]


def _every_other(places: Int64) -> npt.NDArray[np.bool_]:
    """Of places that follow each other directly the first, third, fifth...: a a a holds one merge, not two."""
    number = np.arange(len(places))
    begins = np.append(True, np.diff(places) != 1)[: len(places)]
    since = number - np.maximum.accumulate(np.where(begins, number, 0))
    return np.asarray(since % 2 == 0)


def pair_counts(tokens: Int64, word: Int64, weights: Int64, *, disjoint: bool) -> pl.DataFrame:
    """(left_id, right_id, n) of encoded words; weights[word] is how often a word stands."""
    at = np.flatnonzero(word[1:] == word[:-1])
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


def encode_words(replay: Replay, tokens: Int64, sizes: Int64) -> Iterator[tuple[Int64, Int64]]:
    """Blocks (tokens, word) of the encoded words, given as base symbols one after another; each word in one block."""
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
        for encoded, whose in replay.encode(block[short], word[short]):
            if len(encoded):
                yield encoded, whose
        for i in long.tolist():
            encoded = np.array(replay.encode_one(tokens[ends[i] - sizes[i] : ends[i]].tolist()), np.int64)
            yield encoded, np.full(len(encoded), i)
        start = stop
