"""Events replayed on sequences of symbols that are no text of the model: stored documents, whole chunks, atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from streambpe.core.encoding import BYTES, KEEP, AlphabetSymbols, EncoderCore, Ids, ModelTables, NumberedEvents, Tally
from streambpe.model.eventlog import Event, Op

Places = npt.NDArray[np.int64]


class BulkReplay:
    """The events, ready for ids below `n_ids`; a negative id joins with nothing. Can be pickled.

    `sizes[id]` is how many symbols an id was made of; only deletions ask for it.
    """

    def __init__(self, events: Iterable[Event], n_ids: int, sizes: Sequence[int] = ()) -> None:
        made: list[int] = []
        merges: dict[tuple[int, int], list[int]] = {}
        deletions: dict[int, list[int]] = {}
        into: dict[int, Sequence[int]] = {}
        for number, event in enumerate(events):
            made.append(event.id)
            if event.op is Op.DELETE:
                deletions.setdefault(event.id, []).append(number)
                into[number] = event.into
            else:
                merges.setdefault(event.pair, []).append(number)
        lengths = np.array(sizes or [1] * n_ids, np.int32)
        self._tables = ModelTables(
            NumberedEvents(made, merges, deletions, into, {}, lengths),
            AlphabetSymbols(BYTES, KEEP, np.zeros(256, np.int32)),
        )

    def replay(self, symbols: Ids, counts: Places, tally: Tally | None = None) -> tuple[Ids, Places]:
        """Sequences of symbols, counts[i] of each -> (ids one after another, how many of each). A tally is only for
        events without deletions."""
        return EncoderCore(self._tables, 0).replayed(symbols, counts, tally)


def pair_places(ids: Ids, counts: Places, disjoint: bool) -> Places:
    """Places i of a pair (i, i + 1) in sequences of these lengths; of "aaaa" every second one if `disjoint`.

    ids 1 1 1 2 5 5   counts 4 0 2   -> 0 1 2 4, as 3 and 5 end their sequences; disjoint: 0 2 4
    """
    inside = np.ones(len(ids), np.bool_)
    inside[(np.cumsum(counts) - 1)[counts > 0]] = False
    at: Places = np.flatnonzero(inside)
    if disjoint:
        same = at[ids[at] == ids[at + 1]]
        begins = np.flatnonzero(np.diff(same, prepend=-2) != 1)
        in_run = np.arange(len(same)) - np.repeat(begins, np.diff(begins, append=len(same)))
        at = np.setdiff1d(at, same[in_run % 2 == 1], assume_unique=True)
    return at
