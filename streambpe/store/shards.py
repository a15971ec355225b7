"""Stored documents in shards, each of which a task reads by itself; they follow from the documents alone.

    cuts      places where stretches of the input begin, at least so many places apart
    a shard   begins behind the first barrier at or after its cut, and ends where the next one begins

So what stands between two barriers is in one shard as a whole. With a cut at 4 (. is a barrier, a symbol below 0):

    places    0 1 2 3 4 5 6 7 8
    symbols   7 8 . 7 8 9 . 7 8
    shards    7 8 . 7 8 9 .             |  7 8

A stretch that does not go on from the one before it begins behind a barrier, too. A shard may be empty: where nothing
ends between its cut and the next one, all of that is in the shard before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import numpy as np

from streambpe.arrays import Int32
from streambpe.store.sequences import SequencePart
from streambpe.threads import in_order


def cuts_of(parts: Sequence[SequencePart], size: int, start: int, stop: int) -> list[int]:
    """The places between two cuts to cut at, about `size` or more apart, and these two."""
    found, begin = [start], 0
    for part in parts:
        if found[-1] + size <= begin < stop:
            found.append(begin)
        begin += part.places
    return [*found, stop]


def stretches_from(parts: Sequence[SequencePart], start: int) -> Iterator[tuple[int, SequencePart, bool]]:
    """(where it begins, a stretch, whether it goes on from the one before it) of those with places from here on."""
    begin, follows = 0, True
    for part in parts:
        follows = follows and part.follows
        if part.places and begin + part.places > start:
            yield begin, part, follows
        if part.places:  # an empty part is no border
            follows = True
        begin += part.places


def pieces_of(
    parts: Sequence[SequencePart],
    start: int,
    stop: int,
    read: Callable[[SequencePart], Int32],
    threads: int,
    advance: Callable[[int], None],
) -> Iterator[tuple[Int32, bool]]:
    """(symbols, at least one, and whether they go on from those before them) of each stretch of the shard between two
    cuts, read by so many threads. `advance` is told of the places from cut to cut."""
    inside = not start
    needed = takewhile(lambda stretch: stretch[0] < stop or stretch[2], stretches_from(parts, start))
    stretches = list(needed)
    texts = in_order(read, (part for _, part, _ in stretches), threads)
    for begin, part, follows in stretches:
        beyond = begin >= stop
        if beyond and not (inside and follows):
            return
        symbols, border = next(texts), 0
        first, last = 0, len(symbols)
        inside = inside or not follows
        if beyond or not inside:
            barriers = np.flatnonzero(symbols < 0)[:1]
            border = int(barriers[0]) + 1 if len(barriers) else 0
            if beyond:
                last = border or last
            else:
                first, inside = border or last, bool(border)
        if first < last:
            yield symbols[first:last], follows and not first
        if beyond and border:
            return
        if not beyond:
            advance(part.places)
