"""Learning while the words lie on disk: stages (scan.py), or single sweeps for merges that need no stage.

A stage learns from the digest of all words, in memory (in_memory.py), until the best pair counts too little, a token is
split or one that lives is spelled again; then the merges of the stage are made in the words on disk, and their pairs
are counted again. BatchBPE's rounds, known events, and the best pair where no digest fits are merged in one sweep each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.core.learner import LIVING, NONE_LEFT, UNFIT, NoRoom
from streambpe.errors import ReplayMismatch
from streambpe.train.engine import batch as rounds
from streambpe.train.engine.column import SEPARATOR, Rewrite, read_column, write_column
from streambpe.train.engine.deletion import Deletion
from streambpe.train.engine.frontier import FloorRequest, Frontier, best_pairs
from streambpe.train.engine.in_memory import MemoryLearning
from streambpe.train.engine.learning import Given, Learning, Parts
from streambpe.train.engine.pair_counter import PairCounter
from streambpe.train.engine.rules import ANY, Batch, BatchRecord, Bounds, release_maps
from streambpe.train.engine.scan import SCAN_BYTES_PER_PLACE, Digest, Links, ScanColumn
from streambpe.train.engine.state import State

MOST_LINKS = 1 << 15  # pairs that make chains in one stage of a scan
_TOKEN_BYTES = 32  # per token of a digest: in memory to learn from, and as it came


@dataclass
class _Stage:
    """Learning from a digest while the column waits on disk."""

    digest: Digest
    learning: MemoryLearning


@dataclass
class _Named:
    """The ids that merges get in the log and in the column, and what follows from committing the merges.

    A merge whose bytes are a living token is logged with that token's id; in the column it has a `spare` one
    of its own until the rewrites are done, because pairs that hold it are counted from the blocks.
    """

    ids: Int64
    in_column: Int64
    rewrites: list[Rewrite]
    deleted: list[Deletion]


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
        at, shortest = 0, 2 if self.state.lives is None else 1
        while at < len(weights):
            stop = int(np.searchsorted(offsets, offsets[at] + size, side="right")) - 1
            stop = max(at + 1, min(stop, len(weights)))
            self.column.append(*write_column(symbols, offsets[at : stop + 1], weights[at:stop], shortest))
            at = stop
            for array in (symbols, offsets, weights):
                release_maps(array)

    # ------------------------------------------------------------------ learning

    @property
    def _at_least(self) -> int:
        return max(1, self.state.options.min_frequency)

    def step(self, remaining: int, record: BatchRecord, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        began = time.perf_counter()
        vetoed: list[tuple[int, int, int]] = []
        while True:
            self._make_ready(record)
            if self.stage is not None:
                batch = self._step_of_stage(remaining, record, bounds)
                if batch is None:
                    continue
                batch.vetoed[:0] = vetoed
                return batch
            slots = self._choose(remaining, record)
            if not len(slots):
                return self._nothing(vetoed, record, began) if vetoed else None
            if self.frontier.count[slots[0]] < bounds.first:
                return self._nothing(vetoed, record, began)
            left, right = int(self.frontier.left[slots[0]]), int(self.frontier.right[slots[0]])
            if not self.state.is_blocked(left, right):
                break
            vetoed.append((left, right, int(self.frontier.count[slots[0]])))
            self.state.veto(*vetoed[-1])
            self.frontier.retire(slots[:1])
        changes = PairCounter(self.state.options.counter_bytes, self.pairs, self.column.threads)
        batch = self._merge(self.frontier.left[slots], self.frontier.right[slots], changes, record, began)
        batch.vetoed[:0] = vetoed
        return batch

    def _nothing(self, vetoed: list[tuple[int, int, int]], record: BatchRecord, began: float) -> Batch:
        """A pass without a merge."""
        none = np.empty(0, np.int64)
        self._finish_record(record, began)
        return Batch(none, none, none, none, record, vetoed)

    def _make_ready(self, record: BatchRecord) -> None:
        """Count all pairs where that is due, and begin a stage."""
        if self.stage is not None:
            return
        if not self._filled:
            self._refill(record)
        if self.state.options.batch != "paper" and not self._passed_over:
            self._begin_stage(record)
        self._passed_over = False

    def _refill(self, record: BatchRecord, *, fewest: int = 1) -> None:
        options = self.state.options
        most = options.hot_pairs or max(1 << 12, min(1 << 20, options.memory_bytes // 4 // 64))
        wanted = FloorRequest(at_least=self._at_least, most=max(most, fewest), fewest=fewest)
        counter = self.column.count_pairs(options.counter_bytes, self.pairs)
        rows, floor = best_pairs(counter, wanted, self.state.allowed if self.state.filters else None)
        self.frontier.fill(rows[:, 0] >> 32, rows[:, 0] & 0xFFFFFFFF, rows[:, 1].copy(), floor)
        record.spills += counter.spills
        record.refills += 1
        self._filled = True

    def _choose(self, remaining: int, record: BatchRecord) -> Int64:
        """The best pair, or a round of BatchBPE's, as slots of the frontier, which is filled again where it runs
        low."""
        state, options, frontier = self.state, self.state.options, self.frontier
        wanted = 1
        if options.batch == "paper":
            most = options.max_batch or MAX_COUNT
            wanted = rounds.paper_batch_size(remaining, state.next_id, options.cap_divisor, most)
        slots = self._best(wanted)
        while (len(slots) < wanted and frontier.floor > self._at_least) or (
            len(slots) and frontier.count[slots[0]] < frontier.floor
        ):
            self._refill(record, fewest=wanted)
            slots = self._best(wanted)
        if options.batch != "paper" or not len(slots):
            return slots
        left, right = frontier.left[slots].tolist(), frontier.right[slots].tolist()
        blocked = [i for i, pair in enumerate(zip(left, right, strict=True)) if state.is_blocked(*pair)]
        if blocked:  # the first blocked one is vetoed alone, then the round is chosen again
            return slots[blocked[0] : blocked[0] + 1]
        return slots[rounds.paper_safe(left, right)][:remaining]

    def _best(self, k: int) -> Int64:
        return self.frontier.best(k, self.state.ties.labels(), self._at_least).slots

    # ------------------------------------------------------------------ stages

    def _begin_stage(self, record: BatchRecord) -> None:
        """Boil the column on disk down to a digest and learn from that for a while (see ScanColumn.digest)."""
        column, options, state = self.column, self.state.options, self.state
        links = self._next_links()
        if links is None:
            return
        size = len(links.count)
        room = options.digest_tokens or max(1 << 10, options.memory_bytes // 4 // _TOKEN_BYTES)
        touched = column.touched
        digest = column.digest(links, state.next_id, room)
        record.positions += column.touched - touched
        if digest is None:
            self._links = max(64, self._links // 2)
            return
        tokens = len(digest.column)
        if digest.size < size:
            self._links = max(64, digest.size)
        elif tokens < room // 2:
            # Tokens grow faster than links; where they do not fit, chains are cut to those of fewer, which costs time.
            self._links = min(self._links * (4 if tokens < room // 6 else 2), MOST_LINKS)
        words = [read_column(digest.column, digest.weights)]
        least = links.floor_of(digest.size) + 1
        try:
            learning = MemoryLearning(state, lambda: words, options.memory_bytes // 2, chains_least=least)
        except NoRoom:
            self._links = max(64, self._links // 2)
            return
        self.stage = _Stage(digest, learning)

    def _next_links(self) -> Links | None:
        """The best pairs, such that every other pair counts less: at most `_links`, or more where more than that tie
        for the best. None where the best pair is not known, or where more tie for it than may ever be links."""
        frontier, state = self.frontier, self.state
        refused = None if state.rule is None else state.rule.allows
        while True:
            best = frontier.best(self._links, state.ties.labels(), self._at_least)
            slots, count = best.slots, frontier.count[best.slots]
            if len(slots) == 0 or count[0] < frontier.floor:
                return None
            links = Links(
                frontier.left[slots],
                frontier.right[slots],
                count,
                max(best.floor_count, 0),
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

    def _step_of_stage(self, remaining: int, record: BatchRecord, bounds: Bounds) -> Batch | None:
        """Events of the stage; None where it has come to its end without any."""
        assert self.stage is not None
        learning = self.stage.learning
        try:
            batch = learning.step(remaining, record, bounds)
        except NoRoom:
            self._links = max(64, self._links // 2)
            self._passed_over = True
            batch = None
        record.mode, record.places = self.kind, self.column.places
        if batch is None:
            self.end_stage()
        elif learning.ended in (LIVING, UNFIT):
            self.end_stage([Rewrite(gone.id, gone.into) for gone in batch.deleted if gone.n])
        return batch

    def is_ready_to_move(self) -> bool:
        """Whether no stage is under way; one that has nothing left to learn is ended first."""
        if self.stage is not None and self.stage.learning.ended == NONE_LEFT:
            self.end_stage()
        return self.stage is None

    def end_stage(self, rewrites: Sequence[Rewrite] = ()) -> None:
        """Make the stage's merges in the column on disk; its pairs are counted again when they are needed."""
        stage, self.stage = self.stage, None
        if stage is None:
            return
        parts = [write_column(*part, 1)[0] for part in stage.learning.words()]
        stage.learning.close()
        self.frontier, self._filled = Frontier(), False
        self.column.rewrite(stage.digest, np.concatenate([part[:-1] for part in parts] + [parts[-1][-1:]]))
        if rewrites:
            self.column.split(rewrites)

    # ------------------------------------------------------------------ one sweep

    def _merge(
        self, left: Int64, right: Int64, changes: PairCounter | None, record: BatchRecord, began: float
    ) -> Batch:
        """Make merges that need no proof, in this order over all blocks: known ones, BatchBPE's, or the best one.
        `changes` takes in what they do to the counts of pairs."""
        column, state = self.column, self.state
        record.candidates, record.rounds, record.stopped_by = len(left), 1, "all"
        touched = column.touched
        named = self._name(left, right)
        committed = len(named.ids)
        left, right = left[:committed], right[:committed]
        merged = column.merge(left, right, named.in_column, changes)
        events = np.stack((left, right, named.ids, merged.made), axis=1).tolist()
        for i, (a, b, new, made) in enumerate(events, 1):
            self._request_deletions(named, a, b, new, made, i)
        if named.rewrites:
            column.split(named.rewrites)
        if changes is None or named.rewrites:
            self.frontier, self._filled = Frontier(), False
        else:
            self._take_changes(changes)
        state.placed(named.ids, merged.count)
        record.occurrences, record.executed = merged.found, merged.executed
        record.positions += column.touched - touched
        self._finish_record(record, began)
        return Batch(left, right, named.ids, merged.count, record, [], named.deleted)

    def _take_changes(self, changes: PairCounter) -> None:
        """Lower the counts of the frontier's pairs, and add newborn pairs that count enough."""
        frontier = self.frontier
        for rows in changes.rows():
            left, right, n = rows[:, 0] >> 32, rows[:, 0] & 0xFFFFFFFF, rows[:, 1]
            slots = frontier.find(left, right)
            falls = (n < 0) & (slots >= 0)
            frontier.count[slots[falls]] += n[falls]
            born = n >= frontier.floor
            left, right, n = left[born], right[born], n[born]
            if self.state.filters:
                keep = self.state.allowed(left, right)
                left, right, n = left[keep], right[keep], n[keep]
            frontier.add(left, right, n)

    def _finish_record(self, record: BatchRecord, began: float) -> None:
        record.mode = self.kind
        record.seconds += time.perf_counter() - began
        record.hot_pairs = self.frontier.size
        record.pair_floor = self.frontier.floor
        record.places = self.column.places
        record.memory_bytes = self.nbytes

    def _name(self, left: Int64, right: Int64) -> _Named:
        """Ids for the merges in order; fewer than given if one spells a known token, living or dead: that adds
        occurrences of old pairs, so it comes last."""
        state, lives = self.state, self.state.lives
        spare = state.next_id + len(left)  # above every id this batch can give
        ids, in_column = [], []
        named = _Named(left, left, [], [])
        for a, b in zip(left.tolist(), right.tolist(), strict=True):
            token = state.spelled(a, b)
            number = state.known.get(token)
            fresh = number is None
            if number is None:
                number = written = state.create_token(token, a, b)
                if lives is not None:
                    lives.born(a, b)
            elif lives is not None and lives.is_dead(number):
                lives.returns(number)
                state.dead -= 1
                written = number
            else:
                written = spare
                named.rewrites.append(Rewrite(spare, (number,)))
                spare += 1
            ids.append(number)
            in_column.append(written)
            if state.options.batch != "paper" and not fresh:
                break
        named.ids, named.in_column = np.array(ids, np.int64), np.array(in_column, np.int64)
        if state.rule is not None:
            state.rule.born(left[: len(ids)], right[: len(ids)], named.ids)
        return named

    def _request_deletions(self, named: _Named, left: int, right: int, new: int, made: int, after: int) -> None:
        """Note the deletions that a merge leads to."""
        if self.state.lives is None:
            return
        for deletion in self.state.lives.merge(left, right, new, made, after):
            self.state.dead += 1
            named.deleted.append(deletion)
            if deletion.n:
                named.rewrites.append(Rewrite(deletion.id, deletion.into))

    # ------------------------------------------------------------------ known events

    def replay(self, merges: Sequence[Given], until_split: int, record: BatchRecord) -> Batch:
        """Apply some of these merges, at least the first; after `until_split` of them a token is split."""
        began = time.perf_counter()
        self.end_stage()
        part = np.array(merges[: self._known_together(merges, until_split)], np.int64)
        batch = self._merge(part[:, 0], part[:, 1], None, record, began)
        if not batch.n[0]:
            raise ReplayMismatch(f"{merges[0][:2]} of event {merges[0]} is not a pair of these words")
        return batch

    def _known_together(self, merges: Sequence[Given], until_split: int) -> int:
        """How many of these merges one sweep makes. None may use a token that another one makes, and only the last may
        be followed by a rewrite: of a token that it splits, or of a known token that it spells."""
        limit = self.state.next_id
        if max(merges[0][:2]) >= limit:
            raise ReplayMismatch(f"event {self.state.merges} merges an id that does not exist yet: {merges[0]}")
        most = min(len(merges), self.state.options.candidates, until_split)
        many = 1
        while many < most and merges[many - 1][2] >= limit and max(merges[many][:2]) < limit <= merges[many][2]:
            many += 1
        return many

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
            self._refill(BatchRecord())
        frontier = self.frontier
        floor = max(1, frontier.floor)
        keep = np.flatnonzero(frontier.count[: frontier.size] >= floor)
        return frontier.left[keep], frontier.right[keep], frontier.count[keep], floor

    def close(self) -> None:
        """Remove the blocks; lives go to the state."""
        if self.stage is not None:
            self.stage.learning.close()
        self.column.remove()
