"""The rows of tables batches and vetoed, as they are in the journal, in memory and in the tables."""

from __future__ import annotations

from typing import TypedDict


class PassRow(TypedDict):
    """What one pass of the engine did; it covers `events` events from number `first_seq` on."""

    batch: int
    first_seq: int
    events: int
    seconds: float
    mode: str
    candidates: int
    occurrences: int
    executed: int
    positions: int
    rounds: int
    stopped_by: str
    refills: int
    spills: int
    switched: bool
    hot_pairs: int
    pair_floor: int
    places: int
    memory_bytes: int


class VetoRow(TypedDict):
    """A pair that may not be learned; it was the best when there were `seq` events."""

    seq: int
    left: int
    right: int
    n: int


PASS_COLUMNS = tuple(PassRow.__annotations__)
VETO_COLUMNS = tuple(VetoRow.__annotations__)
