"""What the engine is given and what it gives back: words, the rule, batches of events."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from streambpe.arrays import MAX_COUNT, Bool, Int32, Int64
from streambpe.core.learner import Deletion
from streambpe.model.events import Events, delete_event
from streambpe.store.passes import PassRow
from streambpe.system import release_pages
from streambpe.train.engine.deletion import Deletions

Veto = tuple[int, int, int]  # left, right, count when it was the best


class PairRule(Protocol):
    """Which pairs may merge, by properties of their tokens; asked for many pairs at once.

    A pair that may not merge is never counted. `born` is called for every merge, in order, before the rule is asked
    about pairs that hold the token it made; a merge that spells a known token has that token's id.
    """

    def allows(self, left: Int64, right: Int64) -> Bool: ...

    def born(self, left: int, right: int, new: int) -> None: ...


@dataclass(frozen=True)
class EngineTuning:
    """How the engine goes about learning, for tests and experiments; never changes an event."""

    force_scan: bool = False  # learn from disk although the words fit, until `index_below`
    index_below: int = 0  # with force_scan: places at which to move to memory
    hot_pairs: int | None = None  # at most about so many are kept
    floor_ratio: int | None = None  # a refill's floor is the best count over this; None: what suits the learner
    block_places: int | None = None  # of a scan's block
    digest_tokens: int | None = None  # in memory while a scan proves a batch
    counter_rows: int | None = None  # pairs in memory while a scan counts, about
    candidates: int = 2048  # merges in one batch, at most


@dataclass(frozen=True, kw_only=True)
class EngineOptions(EngineTuning):
    """The rule of learning (first block) and what there is to learn with (second block: never changes an event)."""

    ties: Literal["ids", "bytes"] = "ids"  # after the higher count: lowest (left, right) by id or by bytes
    overlaps: Literal["all", "disjoint"] = "all"  # "aaa" holds (a, a) twice, or once
    batch: Literal["exact", "1", "paper"] = "exact"
    cap_divisor: int = 2  # paper: a batch has at most the merges still wanted, divided by this
    max_batch: int | None = None  # paper: None is no limit
    min_frequency: int = 1  # stop when the best pair counts less
    max_token_length: int | None = None  # in base symbols, or as base_lengths says
    blocked: frozenset[bytes] = frozenset()  # never learn these; see Batch.vetoed
    deletions: Deletions | None = None  # take superfluous tokens back (train/engine/deletion.py)

    learner: str = "core"  # or tables
    memory_bytes: int = 4 << 30
    threads: int = 1
    work_dir: Path  # for blocks and spills

    @property
    def at_least(self) -> int:
        """What a pair counts that may be learned."""
        return max(1, self.min_frequency)

    def round_size(self, remaining: int, vocabulary: int) -> int:
        """How many pairs BatchBPE looks at in one round."""
        return max(1, min(remaining // self.cap_divisor, vocabulary, self.max_batch or MAX_COUNT))


def safe_pairs(pairs: Sequence[tuple[int, ...]]) -> list[int]:
    """BatchBPE's rule: which pairs of a round, best first, are merged together.

    A pair is left out if its left token was already seen on the right, or its right token on the left, of any
    pair before it, merged or not. The pairs that remain never overlap each other; only a pair of equal tokens overlaps
    itself.

        (t,h) (h,e) (i,n) (a,t)  ->  (t,h), (i,n): h was seen on the right, t on the left
    """
    first: set[int] = set()
    last: set[int] = set()
    safe = []
    for i, (left, right, *_) in enumerate(pairs):
        if left not in last and right not in first:
            safe.append(i)
        first.add(left)
        last.add(right)
    return safe


class Bounds(NamedTuple):
    """What the merges of one pass count at least: the first of them, and the others."""

    first: int = 0
    least: int = 0


ANY = Bounds()


class Batch(msgspec.Struct):
    """Events in their order, and what was vetoed on the way."""

    events: Events
    record: PassRow
    vetoed: list[Veto]

    @classmethod
    def of(
        cls, merges: Sequence[Int64], record: PassRow, vetoed: Sequence[Veto] = (), deleted: Sequence[Deletion] = ()
    ) -> Batch:
        """`merges`: columns left, right, id, n. `deleted[i].after`: how many of them stand before that deletion."""
        events, done = Events(), 0
        for gone in deleted:
            events.append_merges(*(column[done : gone.after] for column in merges))
            events.append(delete_event(gone.id, gone.into, gone.n))
            done = gone.after
        events.append_merges(*(column[done:] for column in merges))
        return cls(events, record, list(vetoed))


class Words(msgspec.Struct, frozen=True):
    """Distinct words: word i is symbols[offsets[i]:offsets[i + 1]] and stands weights[i] times."""

    symbols: Int32
    offsets: Int64
    weights: Int64


def release_maps(array: Int32 | Int64) -> None:
    """Give back the pages of a memory map that were read: until then they count as this process's memory."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        release_pages(array.base)
