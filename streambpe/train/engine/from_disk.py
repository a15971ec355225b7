"""Learning while the words lie on disk, in stages (scan.py).

A stage learns from a digest of all words, in memory (in_memory.py), until the best pair counts too little, a token is
split or one that lives is spelled again; then the merges of the stage are made in the words on disk, and their pairs
are counted again. Where no digest fits, a stage has the best pair alone. BatchBPE's rounds are left to the learner in
tables (in_tables.py), which makes them from disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.core.learner import LIVING, NONE_LEFT, UNFIT, NoRoom
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import columns, read_column
from streambpe.train.engine.in_memory import MemoryLearning
from streambpe.train.engine.learning import NO_PAIRS, HotPairs, Learning, Parts
from streambpe.train.engine.rules import ANY, Batch, Bounds, EngineOptions
from streambpe.train.engine.scan import SCAN_BYTES_PER_PLACE, Digest, ScanColumn
from streambpe.train.engine.state import State

FEWEST_LINKS, MOST_LINKS = 64, 1 << 15  # pairs that make chains in one stage of a scan
_TOKEN_BYTES = 32  # per token of a digest: in memory to learn from, and as it came
NO_LIMIT = 1 << 40  # of memory: a pair that is alone takes less than the blocks that it stands in


def block_places(options: EngineOptions) -> int:
    """How many places a block has."""
    room = options.memory_bytes // (2 * SCAN_BYTES_PER_PLACE * max(1, options.threads))
    return options.block_places or max(1 << 12, min(1 << 22, room))


def digest_room(options: EngineOptions) -> int:
    """How many tokens a digest may have."""
    return options.digest_tokens or max(1 << 10, options.memory_bytes // 4 // _TOKEN_BYTES)


def count_column(column: ScanColumn, state: State, record: PassRow) -> tuple[HotPairs, HotPairs]:
    """(the best pairs of words on disk, the best of those that may not merge but hold chains together), counted from
    scratch."""
    options = state.options
    most = options.hot_pairs or max(1 << 12, min(1 << 20, options.memory_bytes // 4 // 64))
    room = options.memory_bytes // 2 if options.counter_rows is None else 48 * options.counter_rows
    counter = column.count_pairs(room, options.work_dir / "pairs")
    record.spills += counter.spills
    record.refills += 1
    return counter.hot_pairs(options.at_least, most, state.judged if state.filters else None)


def best_pair(hot: HotPairs, state: State) -> HotPairs:
    """The best pair."""
    label, at = state.labels(), np.flatnonzero(hot.n == hot.n.max())
    best = at[np.lexsort((label[hot.right[at]], label[hot.left[at]]))[:1]]
    return hot.only(best)._replace(floor=int(hot.n.max()))


def more_links(links: int, tokens: int, room: int) -> int:
    """How many links the next digest has, where this one had so many tokens, which grow faster than links."""
    if tokens >= room // 2:
        return links
    return min(links * (4 if tokens < room // 6 else 2), MOST_LINKS)


class DiskLearning(Learning):
    """Words in blocks under a folder; `close` removes them."""

    kind = "scan"

    def __init__(self, state: State, parts: Parts, folder: Path) -> None:
        """`parts`: the words in pieces, each of which becomes a block or several."""
        self.state = state
        options = state.options
        self.column = ScanColumn(folder / "column", state)
        # what `count_column` gives of the words as they are now; none before these are counted
        self.hot: tuple[HotPairs, HotPairs] | None = None
        self.stage: MemoryLearning | None = None  # learns from the digest while the column waits on disk
        self.digest: Digest | None = None
        self._links = FEWEST_LINKS
        self._alone = False  # the stage learns from the best pair alone
        self._had_no_room = False  # the last stage was too large: the next one learns so
        for column, weights in columns(parts, block_places(options), 2 if state.lives is None else 1):
            self.column.append(column, weights)

    # ------------------------------------------------------------------ learning

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        while self.stage is not None or self._begin_stage(record):
            assert self.stage is not None
            try:
                batch = self.stage.step(1 if self._alone else remaining, record, bounds)
            except NoRoom:
                batch, self._had_no_room = None, True
            is_over = batch is None or (self._alone and bool(batch.events or batch.vetoed))
            if is_over or self.stage.ended in (LIVING, UNFIT):
                self.end_stage(batch)
            if batch is not None:
                return batch
        return None

    def _count(self, record: PassRow) -> tuple[HotPairs, HotPairs]:
        """See `count_column`; the pairs are counted if they are not known."""
        if self.hot is None:
            self.hot = count_column(self.column, self.state, record)
        return self.hot

    # ------------------------------------------------------------------ stages

    def _begin_stage(self, record: PassRow) -> bool:
        """Boil the column on disk down to a digest and learn from that for a while (see ScanColumn.digest). Where none
        fits, learn from the best pair alone until it is merged. False if no pair is left."""
        (hot, held), options = self._count(record), self.state.options
        if not len(hot.n):
            return False
        room, digest = digest_room(options), None
        links = hot.best(self._links).at_least(held.floor)  # more than `_links` if more tie for the best
        if not self._had_no_room and 0 < len(links.n) <= MOST_LINKS:
            digest = self._learn_from(links, held.at_least(links.floor), room, options.memory_bytes // 2)
        self._alone, self._had_no_room = digest is None, False
        if digest is None:
            self._links = max(FEWEST_LINKS, self._links // 2)
            digest = self._learn_from(best_pair(hot, self.state), NO_PAIRS, MAX_COUNT, NO_LIMIT)
        else:
            self._links = more_links(self._links, len(digest.column), room)
        self.digest = digest
        return True

    def _learn_from(self, links: HotPairs, held: HotPairs, room: int, memory_bytes: int) -> Digest | None:
        """Begin a stage with the chains of these pairs; None if they take more room, or learning more memory."""
        digest = self.column.digest(links, held, room)
        if digest is None:
            return None
        words = [read_column(digest.column, digest.weights)]
        try:
            self.stage = MemoryLearning(self.state, lambda: words, memory_bytes, chains_least=links.floor)
        except NoRoom:
            return None
        return digest

    def is_ready_to_move(self) -> bool:
        """Whether no stage is under way; one that has nothing left to learn is ended first."""
        if self.stage is not None and self.stage.ended == NONE_LEFT:
            self.end_stage()
        return self.stage is None

    def end_stage(self, last: Batch | None = None) -> None:
        """Make the stage's merges in the column on disk; its pairs are counted again when they are needed. `last`: may
        have deleted tokens that still stand in the words."""
        stage, digest, self.stage, self.digest = self.stage, self.digest, None, None
        if stage is None or digest is None:
            return
        self.column.rewrite(digest, stage.words(), last)
        stage.close()
        self.hot = None

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Places of the words, the separators between them included."""
        return self.column.places

    @property
    def nbytes(self) -> int:
        """Bytes in memory while a pass runs."""
        hot = sum(column.nbytes for some in self.hot or () for column in some[:3])
        return self.column.nbytes + hot + (self.stage.nbytes if self.stage else 0)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now: symbols, offsets, weights, block by block."""
        self.end_stage()
        return self.column.current_words()

    def hot_pairs(self) -> HotPairs:
        """The best pairs of the words as they are now."""
        self.end_stage()
        return self._count(PassRow())[0]

    def close(self) -> None:
        """Remove the blocks; lives go to the state."""
        if self.stage is not None:
            self.stage.close()
        self.column.remove()
