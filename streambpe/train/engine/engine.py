"""The learning engine: words in, committed batches of merges out.

    engine = Engine(Words(symbols, offsets, weights), State([bytes([b]) for b in range(256)], options))
    for batch in engine.batches(merges=50_000):
        ...  batch.events, in their order; batch.record: what it took

The events depend on the words and on the options that define the rule. They do not depend on memory, threads, the
choice of batch mode `exact` or `1`, whether words are in memory or on disk, or where a run is cut: `relearn` learns
known events again and compares, and an engine may be given the words as they are after some events, with these as
`known`.

Symbols are any integers below len(base_tokens): bytes, characters, SCRIPT symbols, or whole chunks (superwords).

Memory (`memory_bytes`): words of up to memory_bytes / BYTES_PER_PLACE places (symbols + words) are learned from in
memory, by the compiled loop (in_memory.py), which never takes more. Otherwise they lie in blocks on disk
(from_disk.py). Merges shrink the words until they fit. With `learner` tables they are in tables (in_tables.py). What is
counted is the engine's own data: the interpreter and its libraries come on top (about 120 MB). The words given are read
in slices and may be memory maps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from streambpe.arrays import Int32, Int64
from streambpe.core.learner import NoRoom
from streambpe.errors import ReplayMismatch
from streambpe.model.events import Event, Events, Op, event_line
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import count_tokens
from streambpe.train.engine.from_disk import DiskLearning
from streambpe.train.engine.in_memory import BYTES_PER_PLACE, MemoryLearning
from streambpe.train.engine.in_tables import TableLearning
from streambpe.train.engine.learning import HotPairs, Learning, Parts
from streambpe.train.engine.rules import ANY, Batch, Bounds, Veto, Words, release_maps
from streambpe.train.engine.state import State

LEAST_BYTES = 24 << 20  # with less, a stage of a scan proves only a few merges, and a run never ends
_WORDS = 1 << 18  # words looked at together


class Engine:
    """Learns merges over a set of words. See the module's docstring; `close` removes its files."""

    def __init__(self, words: Words, state: State, known: Sequence[Event] = (), vetoed: Sequence[Veto] = ()) -> None:
        """`state`: before any merge. `known`: the events that made the words what they are; `vetoed`: pairs that were
        vetoed meanwhile."""
        self.state, self.options = state, state.options
        self.state.take(known, vetoed)
        if self.state.lives is not None and known:
            total, _ = count_tokens(word_slices(words), self.state.next_id)
            self.state.lives.count = total.tolist()
        self._load(words)

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return self.state.learned

    # ------------------------------------------------------------------ in memory or on disk

    def _load(self, words: Words) -> None:
        self.learning: Learning
        options = self.options
        self._fitting = options.memory_bytes // BYTES_PER_PLACE if not options.force_scan else options.index_below
        if options.learner == "tables" or options.force_scan or not self._to_memory(lambda: word_slices(words)):
            self.learning = self._from_disk(word_slices(words))

    def _from_disk(self, parts: Parts) -> Learning:
        """Words on disk; BatchBPE's rounds are made by the learner in tables."""
        in_tables = self.options.learner == "tables" or self.options.batch == "paper"
        return (TableLearning if in_tables else DiskLearning)(self.state, parts, self.options.work_dir)

    def _to_memory(self, parts: Callable[[], Parts]) -> bool:
        """Learn from these words in memory, if they fit."""
        try:
            self.learning = MemoryLearning(self.state, parts, self.options.memory_bytes, most=self._fitting)
        except NoRoom:
            return False
        return True

    def _move(self) -> None:
        """Go from disk to memory if the words fit now."""
        before = self.learning
        if not before.is_ready_to_move() or before.places > self._fitting:
            return
        if self._to_memory(before.words):
            before.close()
        else:
            self._fitting = before.places // 2

    def _to_disk(self) -> None:
        """Memory has no room for all pairs: go on from disk, until half of the words' places are left."""
        memory = self.learning
        self._fitting = memory.places // 2
        self.learning = self._from_disk(memory.words())
        memory.close()

    def go_on_with(self, words: Words, events: Events) -> None:
        """Learn from these words, which events that were not learned here made of those that there were."""
        self.learning.close()
        self.state.take(events)
        self._load(words)

    # ------------------------------------------------------------------ learning

    def batches(self, merges: int) -> Iterator[Batch]:
        """Committed batches until `merges` more tokens are alive or no pair counts min_frequency."""
        target = self.learned + merges
        while self.learned < target:
            batch = self.step(target - self.learned)
            if batch is None:
                return
            yield batch

    def step(self, remaining: int, bounds: Bounds = ANY) -> Batch | None:
        """One pass: at least one merge and at most `remaining`; none where the best pair is out of bounds. None when no
        pair is left."""
        record = PassRow()
        while True:
            self._move()
            learning, began = self.learning, time.perf_counter()
            record.places = learning.places
            try:
                batch = learning.step(remaining, record, bounds)
            except NoRoom:
                self._to_disk()
                continue
            finally:
                record.seconds += time.perf_counter() - began
            record.mode, record.memory_bytes = learning.kind, learning.nbytes
            return batch

    def relearn(self, events: Sequence[Event], wanted: int = 0) -> None:
        """Learn these events again; ReplayMismatch where something else is learned. `wanted`: how many tokens shall be
        alive in the end, since the rounds of BatchBPE depend on that."""
        known, left = iter(events), sum(event.op is not Op.DELETE for event in events)
        while left > 0:
            batch = self.step(wanted - self.learned if self.options.batch == "paper" else left)
            for learned in [None] if batch is None else batch.events:
                event = next(known, None)
                if learned is None or learned != event:
                    raise _mismatch(event, learned)
                left -= learned.op is not Op.DELETE
        if (event := next(known, None)) is not None:
            raise _mismatch(event, None)

    # ------------------------------------------------------------------ what there is

    def words(self) -> Parts:
        """The words as they are now, in parts; learning can go on."""
        return self.learning.words()

    def hot_pairs(self) -> HotPairs:
        """The best pairs of the words as they are now."""
        try:
            return self.learning.hot_pairs()
        except NoRoom:
            self._to_disk()
            return self.learning.hot_pairs()

    def pairs_from(self, least: int) -> HotPairs:
        """`hot_pairs` that count at least so much, and at least --min-frequency; their floor is that, or higher."""
        return self.hot_pairs().at_least(max(least, self.options.min_frequency))

    def token_counts(self) -> tuple[Int64, Int64, Int64]:
        """(id, n, alone): how often each token stands in the words held, and how often as a whole word. One pass.

        Without deletions, words that have become one token are no longer held, and `alone` is 0.
        """
        total, alone = count_tokens(self.words(), self.state.next_id, whole=self.state.lives is not None)
        ids = np.flatnonzero(total)
        return ids, total[ids], alone[ids]

    def choices(self) -> msgspec.Struct | None:
        """What learning goes on with beside the words, if they follow from the events (balanced.py)."""
        return None

    def close(self) -> None:
        """Give memory and files back."""
        self.learning.close()


def word_slices(words: Words) -> Iterator[tuple[Int32, Int64, Int64]]:
    for at in range(0, len(words.weights), _WORDS):
        stop = min(at + _WORDS, len(words.weights))
        yield words.symbols, words.offsets[at : stop + 1], words.weights[at:stop]
        for array in (words.symbols, words.offsets, words.weights):
            release_maps(array)


def _mismatch(*known_and_learned: Event | None) -> ReplayMismatch:
    known, learned = ("nothing" if event is None else event_line(event).decode().strip() for event in known_and_learned)
    return ReplayMismatch(
        f"it learned {learned} in place of {known}: these events come from other words or another rule."
    )
