"""How often a model uses each id after any number of its events, from one encoding.

    events  0: t h -> th   1: th e -> the        "the" 3 times, "th" once: they are made 4 times, 3 times
    after 0: th 4, e 3     after both: the 3, th 1

Where an event is made, one place of each of its parts becomes one of its token, and what follows never takes it back.
So it is enough to know how often each event is made while all of them are replayed. Only for models without deletions
and without superwords: `grows_by_merges`.
"""

from __future__ import annotations

import numpy as np

from streambpe.arrays import Int64
from streambpe.core.encoding import EncoderCore, Tally
from streambpe.core.strings import as_buffers
from streambpe.encode.encoder import Encoder
from streambpe.later import polars as pl
from streambpe.model.eventlog import EventLog
from streambpe.model.events import OPS, Events, Op


def grows_by_merges(log: EventLog) -> bool:
    """Whether every event of a model only joins two tokens of a chunk."""
    return not np.any(Events.of(log.events).column("op") != OPS.index(Op.MERGE))


class GrownUses:
    """What the events of a model make of some text."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._events = encoder, encoder.model.events
        self.made = np.zeros(len(self._events), np.int64)  # how often each event
        self._before = np.zeros(encoder.n_log + 1, np.int64)  # uses before all events; the last entry is of UNKNOWN

    def add(self, counted: pl.DataFrame) -> None:
        """Add distinct chunks (chunk, n)."""
        encoder = self._encoder
        stopped = counted["chunk"].cast(pl.String).is_in(list(encoder.stop_ids))
        for chunk, many in counted.filter(stopped).select("chunk", "n").iter_rows():
            self._before[encoder.stop_ids[chunk]] += many
        for part in counted.filter(~stopped).iter_slices(1 << 18):
            symbols, lengths = encoder.codec.split_many(*as_buffers(part["chunk"].cast(pl.String)))
            n: Int64 = part["n"].to_numpy()
            np.add.at(self._before, symbols, np.repeat(n, lengths))
            tally = Tally(n, self.made, True, np.zeros(len(self.made), bool))
            EncoderCore(encoder.named_tables, 0, named=False).replayed(symbols, lengths, tally)

    def uses(self, events: int) -> Int64:
        """By log id, after so many events."""
        found, made = self._before.copy(), self.made[:events]
        for name, change in (("left", -made), ("right", -made), ("id", made)):
            np.add.at(found, self._events.column(name)[:events], change)
        return found

    def made_of_ids(self) -> Int64:
        """By log id: how often each is made, whatever becomes of it; 0 of base symbols."""
        found = np.zeros_like(self._before)
        np.add.at(found, self._events.column("id"), self.made)
        return found

    @property
    def tokens(self) -> Int64:
        """How many tokens the text becomes after 0, 1, 2, ... events."""
        less: Int64 = np.cumsum([0, *self.made])
        return int(self._before.sum()) - less
