"""Superwords: the second half of a training, from the stored documents, never holding them in memory.

    words         phase one, to the full size (or to --transition)              (train/trainer.py)
    eligible      chunks that are one token and match --superword-pattern       (train/superwords/neighbours.py)
    stage 2       uw instead: documents as tokens, cut by the second pattern    (train/superwords/stage2.py)
    neighbours    pairs of them that stand side by side, counted                (train/superwords/neighbours.py)
    runs          documents cut where neighbours are rarer than T, grouped      (train/superwords/runs.py)
                  neighbours and runs of all documents, added up by SQL         (train/superwords/sums.py)
    supermerges   the engine of phase one, with tokens as symbols and runs as words
    one order     word steps and supermerges by count                           (train/superwords/interleave.py)

**T, the threshold.** `boundless` takes a supermerge only while it counts more than the next word step. If phase
one reached its size, the word steps alone fill the vocabulary, so nothing at or below the smallest count of any
word step is ever taken: T is that count plus 1. Everywhere else (`superbpe`, or phase one ran out of pairs) T is
chosen so that about three times as many neighbours as wanted supermerges reach it, and when the next supermerge
would count less, T falls, the runs are made anew and the supermerges so far are learned from them again. T never falls
below --min-frequency.

Every step leaves files in the training's private folder that appear whole or not at all: neighbours of a stretch, the
table of all, runs of a stretch, the words; supermerges go to the journal, behind the words. After a kill all of them
are used again. The folder is named after the word events, how many tokens they were to make, the options and
the documents, so it is there only if phase one was complete, and nothing of another phase one is used.

Places where tests let the process die: those of tasks.py, adjacency-filled, adjacency-written, words-filled,
words-written, and events-committed of journal.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from streambpe.arrays import MAX_COUNT, Int64
from streambpe.later import polars as pl
from streambpe.model.eventlog import Event, Op, events_digest, merge_event, supermerge_event
from streambpe.model.events import Events
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources, release_memory, room_for_arrays, sure_room
from streambpe.store.journal import Journal
from streambpe.store.made_of import fingerprint, has_note, is_sealed
from streambpe.store.models import encoding_pattern
from streambpe.store.sequences import SequencePart
from streambpe.store.trainings import FOLD_BYTES, TokenTable
from streambpe.system import tree_memory
from streambpe.text.eligible import text_test
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.learning import HotPairs
from streambpe.train.engine.rules import Batch, Bounds, EngineTuning, Words
from streambpe.train.engine.state import State
from streambpe.train.engine.ties import TieOrder
from streambpe.train.opening import engine_options, learn_again
from streambpe.train.superwords.interleave import Interleaved, InterleavedTies, interleave
from streambpe.train.superwords.neighbours import PartsReader, SymbolReader, find_eligible
from streambpe.train.superwords.rules import Spellings, join_rule
from streambpe.train.superwords.runs import Kept, OpenChunks, RunTable, write_run_words
from streambpe.train.superwords.stage2 import TokenReader
from streambpe.train.superwords.sums import Sums
from streambpe.train.superwords.tasks import DocumentTasks
from streambpe.train.training import Start
from streambpe.train.words import open_columns

_REST_SHARE = 64  # of the free memory: a document without a certain border may take one part
_PAIRS_A_MERGE = 3  # neighbours that should reach T for every supermerge wanted
TOKEN_BYTES = 1 << 10  # of the events and contents held for each token
_LEAST_ROOM = 48 << 20
_EVENTS_BYTES = 80 << 20  # of supermerges and their tokens, in the engine and here
_ALL_PAIRS = 1 << 40  # the engine's floor_ratio: runs hold hardly a pair below T, so all are kept at once if they fit
_LOWER = 4  # times as many neighbours should reach T each time it falls
_MOST_LEVELS = 20  # values of T; the last asks for more neighbours than can be counted


def superwords_folder(start: Start, documents: Sequence[SequencePart], words: Events) -> Path:
    """The folder of phase two's files, called after what all of them follow from; it exists only if these words were
    complete when it was made. Other words, options or documents have another folder, and so have these words if they
    were to be more and are not complete."""
    config = {key: value for key, value in start.training.config.as_facts().items() if key != "vocab_size"}
    parts = [structs.asdict(part) for part in documents]
    made_of = fingerprint(events_digest(words), start.goal.words, config, parts, "merges beside neighbours")
    return start.training.private.absolute() / f"superwords-{made_of}"


def room_of(memory_bytes: int, known_bytes: int) -> int:
    """What questions about documents may take."""
    return max(sure_room(memory_bytes, BASE_BYTES, known_bytes), _LEAST_ROOM)


def pass_bounds(counts: Int64, room: int, next_n: int) -> tuple[int, int]:
    """(how many supermerges a pass may learn, what they count at least), so that each of them finds a place.

    counts: of the word steps to come. Each step and each supermerge takes up one place of the room at most, and a word
    step comes before the supermerges that count no more than it. So k supermerges that count c or more find their
    places if no more than room - k word steps count c or more before one that counts less. k is half of the room, or
    less where supermerges that count next_n, as the next one seems to, would be too few.

    pass_bounds([9, 9, 5, 5, 5, 5], room=4, next_n=7) -> (2, 6)    9 9, then two supermerges that count 6 or 7
    pass_bounds([9, 9, 5, 5, 5, 5], room=8, next_n=5) -> (2, 5)    9 9 5 5 5 5, then two that count 5
    """
    ahead = np.minimum.accumulate(counts[:room])
    most = max(1, room // 2)
    least = int(ahead[room - most]) + 1 if len(ahead) > room - most else 0
    if least > next_n:
        least = next_n
        most = max(1, room - int(np.searchsorted(-ahead, -least, side="right")))
    return most, least


@dataclass(eq=False)
class SuperwordPhase:
    """Learns the supermerges of one training; `run` gives the events of the whole vocabulary in order."""

    start: Start
    documents: Sequence[SequencePart]  # only this side reads them
    journal: Journal  # the words of phase one, then the supermerges so far
    book: TokenTable  # the tokens that they made
    meter: Meter
    stop: threading.Event
    publish: Callable[[Engine, Journal, TokenTable], None]  # fill the tables as far as learning is
    checkpoint_seconds: float
    tuning: EngineTuning
    on_batch: Callable[[Batch], None] | None = None

    def __post_init__(self) -> None:
        self.training, self.alphabet, self.goal = self.start.training, self.start.alphabet, self.start.goal
        self.config, self.resources = self.training.config, self.training.resources
        self.learned = self.journal.words
        self.supermerges = self.journal.events[len(self.learned) :]
        self.folder = superwords_folder(self.start, self.documents, self.learned)
        self.made_of = self.folder.name
        self._published = self.start.book(), 0  # the tokens that were published, and of how many events
        self.known_bytes = TOKEN_BYTES * len(self.book.contents)
        self.spare = room_of(self.resources.memory_bytes, self.known_bytes)
        self.least = max(1, self.config.min_frequency)
        self.engine: Engine | None = None
        self.next_at_most = 0  # what the next supermerge of the engine counts, or less
        self.taken = 0  # supermerges that found a place in the one order
        self.level = 0  # which of the levels is T of the engine, or of the next one; behind the last: nothing is left
        self.words: Sequence[Event] = self.learned  # under uw those of them that stage 2 makes
        self.counts = np.array([event.n for event in self.words if event.op is Op.MERGE], np.int64)  # of word steps
        self.falling = -np.minimum.accumulate(self.counts)

    # ------------------------------------------------------------------ the story

    def run(self) -> Interleaved:
        """Everything in order; raises Stopped when asked to stop."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._look_at_documents()
        self._begin_supermerges()
        try:
            made = interleave(
                self.alphabet, len(self.start.corpus.stop_words), self.words, self.next_supermerge, self.goal.tokens,
                least=self.least, kind=self.config.superwords,
            )  # fmt: skip
            self.journal.commit()
            self.next_pairs = self._pairs_after(self.taken, 2 * self.known_bytes)  # events are held in both orders now
        finally:
            self._close_engine()
            self._published = self.start.book(), 0
        return made

    def _pairs_after(self, taken: int, known_bytes: int) -> HotPairs:
        """The pairs that may join after so many supermerges. The engine learns whole passes, of which the last may be
        more than was taken; then it begins again."""
        self.level = min(self.level, len(self.levels) - 1)
        if self.engine is None or taken < len(self.supermerges):
            self._close_engine()
            self._open_engine(self.supermerges[:taken], known_bytes)
        assert self.engine is not None
        # a higher T than the engine's where that shows all that was taken, so that no kill changes what is told
        return self.engine.pairs_from(self.levels[self._level_of(self.supermerges[:taken])])

    def run_table(self) -> RunTable:
        """All neighbours that count at least the floor, and the runs of these."""
        # the events are held twice now, as they were learned and in one order
        self.spare = room_of(self.resources.memory_bytes, 2 * self.known_bytes)
        floor = self.levels[0]
        # those of the engine, unless chunks were open
        words = self._run_words(floor, self.sums.keys(floor), OpenChunks())
        return RunTable(words, self.sums.path, floor, self.chunks)

    # ------------------------------------------------------------------ documents

    def _advance(self, places: int) -> None:
        self.meter.done += places
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        """Everything learned is committed."""
        if self.stop.is_set():
            raise self.training.stopped(len(self.journal.events), self.stop)

    def _stage(self, name: str, places: int) -> Callable[[int], None]:
        self.meter.begin(name, places, "chunks")
        self.meter.started = time.monotonic()
        return self._advance

    def _look_at_documents(self) -> None:
        uw = self.config.superwords == "uw"
        self.reader = self._tokens() if uw else self._whole_chunks()
        stage = self._stage("neighbours", self.reader.places)
        if has_note(self.sums.path, self.made_of):
            stage(self.reader.places)
        else:
            files = DocumentTasks("neighbours", self.folder, self.made_of, self.reader).answer(self.room, stage)
            self.sums.add_up_neighbours(files, self.made_of)
        if uw:
            self._make_words()
        self.levels = self._levels()
        release_memory()

    @property
    def sums(self) -> Sums:
        """What is added up of the neighbours and runs."""
        return Sums(self.folder / "neighbours.parquet", replace(self.resources, memory_bytes=self.spare // 2))

    @property
    def room(self) -> Resources:
        """What questions about documents may take, beside all that the training holds."""
        return replace(self.resources, memory_bytes=self.spare)

    def _whole_chunks(self) -> PartsReader:
        """The documents as chunks that may join."""
        matches = text_test(self.config.superword_pattern, "--superword-pattern")
        eligible = find_eligible(self.alphabet, self.book.contents, self.learned, self.start.corpus.stop_words, matches)
        self.eligible = eligible["symbol"].to_list()
        self.chunks = eligible.select("symbol", "chunk")
        return SymbolReader(self.training.run.sequences.absolute(), self.documents, eligible)

    def _tokens(self) -> PartsReader:
        """The documents as tokens in stage-2 chunks."""
        pattern = encoding_pattern({**vars(self.start.corpus.counting), **self.config.as_facts()})
        return TokenReader(
            self.training.run.sequences.absolute(), self.documents, pattern, self.alphabet, self.book.contents,
            self.learned, disjoint=self.config.overlaps == "disjoint", most_bytes=self.spare // _REST_SHARE,
        )  # fmt: skip

    def _make_words(self) -> None:
        """The words that stage 2 makes again, as they count there."""
        events = self.learned
        self.words = [merge_event(*events[i].pair, events[i].id, n) for i, n in self.sums.merges()]
        first = self.alphabet.first_id
        self.chunks = pl.DataFrame(schema={"symbol": pl.Int32, "chunk": pl.String})  # a symbol is no chunk here
        self.eligible = [*range(first, first + len(self.alphabet)), *(event.id for event in self.words)]

    def _levels(self) -> list[int]:
        """The thresholds T to go through, falling."""
        if self.config.superwords == "boundless" and self.book.learned >= self.goal.words and len(self.counts):
            # T is lower only if a supermerge spelled a word token, so that the word steps do not fill the vocabulary
            return sorted({max(self.least, int(self.counts.min()) + 1), self.least}, reverse=True)
        learned = len(self.words) if self.config.superwords == "uw" else self.book.learned
        rank = _PAIRS_A_MERGE * max(1, self.goal.tokens - learned)
        levels = self.sums.counts_at([rank * _LOWER**step for step in range(_MOST_LEVELS)], self.least)
        return sorted({max(self.least, level) for level in levels} | {self.least}, reverse=True)

    # ------------------------------------------------------------------ supermerges

    def _begin_supermerges(self) -> None:
        contents = [b""] * self.alphabet.first_id + self.book.contents
        self.spellings = Spellings(contents, {symbol: (symbol,) for symbol in self.eligible})
        for event in self.supermerges:
            self.spellings.add(event)
        self.level = self._level_of(self.supermerges)
        self.committed = time.monotonic()

    def _level_of(self, events: Sequence[Event]) -> int:
        """The first level, which is the highest, that shows all these supermerges."""
        lowest = min((event.n for event in events), default=self.levels[0])
        return next((i for i, level in enumerate(self.levels) if level <= lowest), len(self.levels) - 1)

    @property
    def threshold(self) -> int:
        """T of the engine, or of the next one."""
        return self.levels[self.level]

    def next_supermerge(self, least: int, room: int, word: int) -> tuple[bytes, bytes, int] | None:
        """What the next supermerge joins, and its count, if that is at least so much. There is room for so many tokens
        more; word: the number of the word step that is next."""
        while self.taken == len(self.supermerges):
            if self.level == len(self.levels):
                return None
            if self.engine is None:
                self._open_engine(self.supermerges, self.known_bytes)
            if self.threshold <= least and self.next_at_most < least:
                return None
            if self.next_at_most < self.threshold:  # nothing that counts T is left
                self._close_engine()
                self.level += 1
            else:
                self._step(least, room, word)
        event = self.supermerges[self.taken]
        if event.n < least:
            return None
        self.taken += 1
        left, right = (self.spellings.contents[part] for part in event.pair)
        return left, right, event.n

    def _step(self, wanted: int, room: int, word: int) -> None:
        """One pass of the engine, for a supermerge that counts `wanted`.

        No pass of boundless learns more than is taken. An engine that knew more would have to learn everything
        again for `_pairs_after`.
        """
        assert self.engine is not None
        bounds = Bounds()
        if self.config.superwords == "boundless":
            next_n = min(self.next_at_most, self.supermerges[-1].n if self.supermerges else MAX_COUNT)
            room, least = pass_bounds(self.counts[word : word + room], room, next_n)
            bounds = Bounds(wanted, least)
        batch = self.engine.step(max(1, room), bounds)
        self.next_at_most = self.engine.learning.next_at_most()
        if batch is None or not batch.events:  # nothing that counts T is left, or the next supermerge counts less
            self.next_at_most = (self.threshold if batch is None else wanted) - 1
            return
        learned = Events.of(supermerge_event(*merge.pair, merge.id, merge.n) for merge in batch.events)
        self.supermerges.extend(learned)
        opened = sum(map(self.spellings.add, learned))
        self.journal.add_pass(learned, batch.record)
        if self.on_batch:
            self.on_batch(batch)
        ahead = len(self.counts)  # word steps before the last of these
        if self.config.superwords == "boundless":
            ahead = int(np.searchsorted(self.falling, -batch.events[-1].n, side="right"))
        # a pass learns more than there may be room for
        self.meter.done = min(len(self.supermerges) + ahead, self.goal.tokens)
        if opened and self.threshold > 1:
            # All that was learned is right, this batch too: it ends with the merge that spells what exists.
            self._close_engine()
        if time.monotonic() - self.committed >= self.checkpoint_seconds or self.stop.is_set():
            self.journal.commit()
            if self.engine is not None:
                self._publish(self.engine)
            self.committed = time.monotonic()
            self._stop_if_asked()

    def _publish(self, engine: Engine) -> None:
        """Fill the tables with all words, then the superwords so far, if --memory has room for that beside the engine.
        At the end the one order of both takes their place."""
        if tree_memory() + FOLD_BYTES <= self.resources.memory_bytes:
            book, events = self._published
            book.add(self.journal.events[events:], events)
            self._published = book, len(self.journal.events)
            self.publish(engine, self.journal, book)

    def _run_words(self, cut: int, keys: Int64, open_chunks: OpenChunks) -> Words:
        """The documents' runs as words, cut at all neighbours but these; words that are there are kept."""
        folder = self.folder / f"words-{cut}-{open_chunks.name}"
        if not is_sealed(folder, fingerprint(self.made_of, folder.name)):
            kept = Kept(keys, open_chunks, len(self.spellings.contents))
            stage, name = self._stage("runs", self.reader.places), folder.name.replace("words", "runs")
            found = DocumentTasks(name, self.folder, self.made_of, self.reader, kept).answer(self.room, stage)
            write_run_words(found, folder, self.sums, self.made_of)
            release_memory()
        return open_columns(folder)

    def _open_engine(self, events: Sequence[Event], known_bytes: int) -> None:
        """Cut runs at T, and bring the engine to the last of these supermerges. known_bytes: of all events known."""
        threshold = self.threshold
        words = self._run_words(threshold, self.sums.keys(threshold), self.spellings.open_chunks)
        self.meter.stage, self.meter.unit, self.meter.total = "superwords", "tokens", self.goal.tokens
        base = self.book.symbols()
        config, pattern = self.config, self.start.corpus.counting.split_pattern()
        options = engine_options(
            self.training,
            replace(self.tuning, floor_ratio=_ALL_PAIRS),
            room_for_arrays(self.resources.memory_bytes, BASE_BYTES, known_bytes) - _EVENTS_BYTES,
            batch="1" if config.batch == "1" else "exact",
            min_frequency=threshold,
            max_token_length=config.max_token_length if config.superwords == "uw" else None,
        )
        rule = join_rule(config, self.alphabet, self.learned, base, self.eligible, pattern)
        state = State(base, options, None, list(map(len, base)), rule, self._tie_order())
        engine = Engine(words, state)
        learn_again(self.training, engine, Events.of(merge_event(*event.pair, event.id, event.n) for event in events))
        self.engine, self.next_at_most = engine, engine.learning.next_at_most()

    def _tie_order(self) -> TieOrder | None:
        if self.config.ties == "bytes" or self.config.superwords != "boundless":
            return None
        step_of = np.cumsum([event.op is Op.MERGE for event in self.words]) - 1
        born = [-1 if seq is None else int(step_of[seq]) for seq in self.book.born]
        return InterleavedTies([-1] * self.alphabet.first_id + born, self.counts)

    def _close_engine(self) -> None:
        if self.engine is not None:
            self.engine.close()
            self.engine = None
