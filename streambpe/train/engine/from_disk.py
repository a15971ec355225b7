"""Learning while the words lie on disk, in stages (scan.py).

A stage learns from a digest of all words, in memory (in_memory.py), until the best pair counts too little, a token is
split or one that lives is spelled again; then the merges of the stage are made in the words on disk, and their pairs
are counted again. Where no digest fits, the best pair is merged alone. BatchBPE's rounds are left to the learner in
tables (in_tables.py), which makes them from disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from streambpe.arrays import Int32, Int64, slices
from streambpe.core.learner import LIVING, NONE_LEFT, UNFIT, Deletion, NoRoom
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import SEPARATOR, Rewrite, read_column, write_column
from streambpe.train.engine.frontier import Frontier
from streambpe.train.engine.in_memory import MemoryLearning
from streambpe.train.engine.learning import Learning, Parts
from streambpe.train.engine.rules import ANY, Batch, Bounds
from streambpe.train.engine.scan import SCAN_BYTES_PER_PLACE, Digest, Links, ScanColumn
from streambpe.train.engine.state import State

MOST_LINKS = 1 << 15  # pairs that make chains in one stage of a scan
_TOKEN_BYTES = 32  # per token of a digest: in memory to learn from, and as it came


class _Stage(msgspec.Struct):
    """Learning from a digest while the column waits on disk."""

    digest: Digest
    learning: MemoryLearning


class DiskLearning(Learning):
    """Words in blocks under a folder; `close` removes them."""

    kind = "scan"

    def __init__(self, state: State, parts: Parts, folder: Path) -> None:
        """`parts`: the words in pieces, each of which becomes a block or several."""
        self.state = state
        options = state.options
        # Words that have become one token are dropped, unless deletions may split them.
        self.column = ScanColumn(
            folder / "column", disjoint=state.disjoint, threads=options.threads, drop_finished=state.lives is None
        )
        self.pairs = folder / "pairs"
        self.frontier = Frontier()
        self.stage: _Stage | None = None
        self._filled = False
        self._links = 64
        self._passed_over = False  # memory was too small for a stage: the next merge is made without one
        room = options.memory_bytes // (2 * SCAN_BYTES_PER_PLACE * max(1, options.threads))
        size = options.block_places or max(1 << 12, min(1 << 22, room))
        for symbols, offsets, weights in parts:
            self._append(symbols, offsets, weights, size)
        if not self.column.lengths:
            self.column.append(np.full(1, SEPARATOR, np.int32), np.empty(0, np.int64))

    def _append(self, symbols: Int32, offsets: Int64, weights: Int64, size: int) -> None:
        shortest = 2 if self.state.lives is None else 1
        for at, stop in slices(offsets, size):
            self.column.append(*write_column(symbols, offsets[at : stop + 1], weights[at:stop], shortest))

    # ------------------------------------------------------------------ learning

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        vetoed: list[tuple[int, int, int]] = []
        while True:
            best = self._make_ready(record)
            if self.stage is not None:
                batch = self._step_of_stage(remaining, record, bounds)
                if batch is None:
                    continue
            elif best is None:
                if not vetoed:
                    return None
                batch = self._nothing(record)
            else:
                columns = self.frontier.left, self.frontier.right, self.frontier.count
                left, right, n = (int(column[best]) for column in columns)
                if n >= bounds.first and self.state.is_blocked(left, right):
                    vetoed.append((left, right, n))
                    self.state.veto(left, right, n)
                    self.frontier.count[best] = 0  # it may not be merged
                    continue
                batch = self._merge(left, right, record) if n >= bounds.first else self._nothing(record)
            batch.vetoed[:0] = vetoed
            return batch

    def _nothing(self, record: PassRow) -> Batch:
        """A pass without a merge."""
        none = np.empty(0, np.int64)
        self._finish_record(record)
        return Batch(none, none, none, none, record)

    def _make_ready(self, record: PassRow) -> int | None:
        """Count all pairs where that is due, and begin a stage; where none can begin, tell which pair is the best."""
        if self.stage is not None:
            return None
        while True:
            if not self._filled:
                self._refill(record)
            if not self._passed_over:
                self._begin_stage(record)
            self._passed_over = False
            if self.stage is not None:
                return None
            best, _ = self.frontier.best(1, self.state.ties.labels())
            if len(best):
                return int(best[0])
            if self.frontier.floor <= self.state.options.at_least:
                return None
            self._filled = False  # all hot pairs were vetoed

    def _refill(self, record: PassRow) -> None:
        options, state = self.state.options, self.state
        most = options.hot_pairs or max(1 << 12, min(1 << 20, options.memory_bytes // 4 // 64))
        room = options.memory_bytes // 2 if options.counter_rows is None else 48 * options.counter_rows
        counter = self.column.count_pairs(room, self.pairs)
        self.frontier = Frontier.of(counter, options.at_least, most, state.allowed if state.filters else None)
        record.spills += counter.spills
        record.refills += 1
        self._filled = True

    # ------------------------------------------------------------------ stages

    def _begin_stage(self, record: PassRow) -> None:
        """Boil the column on disk down to a digest and learn from that for a while (see ScanColumn.digest)."""
        links = self._next_links()
        if links is None:
            return
        size, room = len(links.count), self._room
        digest = self._digest(links, record)
        if digest is None:
            self._links = max(64, self._links // 2)
            return
        tokens = len(digest.column)
        if digest.size < size:
            self._links = max(64, digest.size)
        elif tokens < room // 2:
            # Tokens grow faster than links; where they do not fit, chains are cut to those of fewer, which costs time.
            self._links = min(self._links * (4 if tokens < room // 6 else 2), MOST_LINKS)
        if not self._learn_from(digest, links.floor_of(digest.size) + 1):
            self._links = max(64, self._links // 2)

    @property
    def _room(self) -> int:
        """Tokens of a digest, at most."""
        return self.state.options.digest_tokens or max(1 << 10, self.state.options.memory_bytes // 4 // _TOKEN_BYTES)

    def _digest(self, links: Links, record: PassRow) -> Digest | None:
        touched = self.column.touched
        digest = self.column.digest(links, self.state.next_id, self._room)
        record.positions += self.column.touched - touched
        return digest

    def _learn_from(self, digest: Digest, least: int) -> bool:
        """Begin a stage; False if there is no room for it."""
        words = [read_column(digest.column, digest.weights)]
        memory_bytes = self.state.options.memory_bytes // 2
        try:
            learning = MemoryLearning(self.state, lambda: words, memory_bytes, chains_least=least)
        except NoRoom:
            return False
        self.stage = _Stage(digest, learning)
        return True

    def _next_links(self) -> Links | None:
        """The best pairs, such that every other pair counts less: at most `_links`, or more where more than that tie
        for the best. None where the best pair is not known, or where more tie for it than may ever be links."""
        frontier, state = self.frontier, self.state
        refused = None if state.rule is None else state.rule.allows
        while True:
            slots, others = frontier.best(self._links, state.ties.labels())
            count = frontier.count[slots]
            if len(slots) == 0:
                return None
            links = Links(
                frontier.left[slots],
                frontier.right[slots],
                count,
                max(others, 0),
                sorted(state.banned),
                refused,
            )
            size = links.cut(len(slots))
            if size:
                return Links(
                    links.left[:size], links.right[:size], count[:size], links.floor_of(size), links.banned, refused
                )
            if self._links >= MOST_LINKS:
                return None
            self._links = min(4 * self._links, MOST_LINKS)

    def _step_of_stage(self, remaining: int, record: PassRow, bounds: Bounds) -> Batch | None:
        """Events of the stage; None where it has come to its end without any."""
        assert self.stage is not None
        learning = self.stage.learning
        try:
            batch = learning.step(remaining, record, bounds)
        except NoRoom:
            self._links = max(64, self._links // 2)
            self._passed_over = True
            batch = None
        if batch is None:
            self.end_stage()
        elif learning.ended in (LIVING, UNFIT):
            self.end_stage(batch)
        return batch

    def is_ready_to_move(self) -> bool:
        """Whether no stage is under way; one that has nothing left to learn is ended first."""
        if self.stage is not None and self.stage.learning.ended == NONE_LEFT:
            self.end_stage()
        return self.stage is None

    def end_stage(self, last: Batch | None = None) -> None:
        """Make the stage's merges in the column on disk; its pairs are counted again when they are needed. `last`: may
        have deleted tokens that still stand in the words."""
        stage, self.stage = self.stage, None
        if stage is None:
            return
        parts = [write_column(*part, 1)[0] for part in stage.learning.words()]
        stage.learning.close()
        self.column.rewrite(stage.digest, np.concatenate([part[:-1] for part in parts] + [parts[-1][-1:]]))
        self._words_changed(last.deleted if last is not None else ())

    def _words_changed(self, deleted: Sequence[Deletion]) -> None:
        """The counts of pairs are out of date, and deleted tokens have to be split."""
        self.frontier, self._filled = Frontier(), False
        rewrites = [Rewrite(gone.id, gone.into) for gone in deleted if gone.n]
        if rewrites:
            self.column.split(rewrites)

    # ------------------------------------------------------------------ without a stage

    def _merge(self, left: int, right: int, record: PassRow) -> Batch:
        """Merge the best pair in all blocks, in one sweep."""
        state, touched = self.state, self.column.touched
        new = state.known.get(state.spelled(left, right), state.next_id)
        counted, made = self.column.merge(left, right, new)
        ids, deleted = state.commit([(left, right)], [made])
        n = np.array([counted], np.int64)
        state.placed(ids, n)
        self._words_changed(deleted)
        record.candidates = record.rounds = 1
        record.stopped_by = "all"
        record.positions += self.column.touched - touched
        self._finish_record(record)
        return Batch(np.array([left]), np.array([right]), ids, n, record, [], deleted)

    def _finish_record(self, record: PassRow) -> None:
        record.hot_pairs, record.pair_floor = len(self.frontier.count), self.frontier.floor

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Places of the words, the separators between them included."""
        return self.column.places

    @property
    def nbytes(self) -> int:
        """Bytes in memory while a pass runs."""
        return self.column.nbytes + self.frontier.nbytes + (self.stage.learning.nbytes if self.stage else 0)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now: symbols, offsets, weights, block by block."""
        self.end_stage()
        return self.column.current_words()

    def hot_pairs(self) -> tuple[Int64, Int64, Int64, int]:
        """(left, right, count, floor): every pair that may merge and counts at least the floor."""
        self.end_stage()
        if not self._filled:
            self._refill(PassRow())
        frontier = self.frontier
        floor = max(1, frontier.floor)
        keep = np.flatnonzero(frontier.count >= floor)
        return frontier.left[keep], frontier.right[keep], frontier.count[keep], floor

    def close(self) -> None:
        """Remove the blocks; lives go to the state."""
        if self.stage is not None:
            self.stage.learning.close()
        self.column.remove()
