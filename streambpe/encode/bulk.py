"""Events replayed on sequences of symbols that are no text of the model: stored documents, whole chunks, atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import Sticks
from streambpe.core.encoding import BYTES, KEEP, AlphabetSymbols, EncoderCore, Ids, ModelTables, NumberedEvents, Tally
from streambpe.model.eventlog import Event, Op

Places = npt.NDArray[np.int64]


class BulkReplay:
    """The events, ready for ids below `n_ids`; a negative id joins with nothing. Can be pickled.

    `sizes[id]` is how many symbols an id was made of; only deletions ask for it.
    """

    def __init__(
        self,
        events: Iterable[Event],
        n_ids: int,
        sizes: Sequence[int] = (),
        symbols: AlphabetSymbols | None = None,
        sticks: Sticks | None = None,
    ) -> None:
        """`symbols` and `sticks`: for a core with these tables that encodes text; see ModelTables."""
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
        symbols = symbols or AlphabetSymbols(BYTES, KEEP, np.zeros(256, np.int32))
        self.tables = ModelTables(NumberedEvents(made, merges, deletions, into, {}, lengths), symbols, sticks=sticks)

    def replay(self, symbols: Ids, counts: Places, tally: Tally | None = None) -> tuple[Ids, Places]:
        """Sequences of symbols, counts[i] of each -> (ids one after another, how many of each). A tally is only for
        events without deletions."""
        return EncoderCore(self.tables, 0).replayed(symbols, counts, tally)
