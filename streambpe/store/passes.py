"""The rows of tables batches and vetoed, as they are in the journal, in memory and in the tables."""

from __future__ import annotations

import msgspec

MUST_HAVES = "must"  # mode of the pass that makes what --must says; learning begins anew at it, and makes it again


class PassRow(msgspec.Struct, tag_field="op", tag="batch"):
    """What one pass of the engine did; it covers `events` events from number `first_seq` on."""

    batch: int = 0
    first_seq: int = 0
    events: int = 0
    seconds: float = 0.0
    mode: str = "index"
    occurrences: int = 0  # found; `executed` of them were rewritten
    executed: int = 0
    refills: int = 0  # times that pairs were counted from scratch before this pass
    spills: int = 0  # partial counts written to disk meanwhile
    hot_pairs: int = 0
    places: int = 0
    memory_bytes: int = 0  # the engine's own arrays


class VetoRow(msgspec.Struct, tag_field="op", tag="veto", frozen=True):
    """A pair that may not be learned; it was the best when there were `seq` events."""

    seq: int
    left: int
    right: int
    n: int
