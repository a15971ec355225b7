"""Learning in tables that SQL reads: words in blocks of Parquet, pairs in DuckDB, passes over the blocks by Polars.

    words-00000.parquet     word 0 0 0 1 1    token 104 105 33 104 105    n 7 7 7 2 2          "hi!" 7, "hi" 2
    pairs.duckdb            pair_counts       (104, 105) 9 · (105, 33) 7
    in memory               the best of the pairs, in order

A pass takes the best pairs, as many as can be merged together without another result than one merge at a time has. It
looks them up in the blocks, writes the blocks that hold any of them anew, and adds up how the counts of pairs changed.
A merge leaves its word shorter: the rows that it needs no more stay behind the word, as token -1.

Pairs are taken while none begins with the last token, or ends with the first token, of one taken before: then no
merge takes an occurrence from another. Each merge makes new pairs, of its token and the neighbours that it has; the
largest sum of one neighbour is more than any of them counts. So a pair that counts more than these sums of all that
were taken before comes before any pair that they make:

    (t,h) 900 · (i,n) 400 · (o,n) 120     the neighbours of "th" count 350 at most, those of "in" 130
                                          (i,n) is certain; (o,n) waits for the next pass

Blocks stay in memory while there is room, and changes of pairs wait until they are many; `hot_pairs`, which every
checkpoint asks for, and `close` bring the files up to date; docs/learner-in-tables.md goes through two passes.

This is the slower of two learners, and the one whose every step can be looked at; what both learn must be the same.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from streambpe.arrays import MAX_COUNT, Bool, Int32, Int64
from streambpe.core.learner import Deletion
from streambpe.later import polars as pl
from streambpe.model.events import Events
from streambpe.store.database import feed, incoming, open_store
from streambpe.store.passes import PassRow
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.train.engine.column import columns, leftmost
from streambpe.train.engine.learning import HotPairs, Learning, Parts
from streambpe.train.engine.rules import ANY, Batch, Bounds, Veto, safe_pairs
from streambpe.train.engine.state import State
from streambpe.train.engine.table_words import (
    ID_BITS,
    ROW_BYTES,
    Pair,
    Pairs,
    Rows,
    WordBlock,
    neighbours,
    pairs_of,
    unpack,
)

_BLOCK_SHARE = 48  # of the memory: a block takes one part, and several parts while it is worked on
_MOST_BLOCK, _LEAST_BLOCK = 1 << 20, 1 << 12  # rows
_CACHE_SHARE = 3  # of the memory: blocks that need not be read again take one part
_DUCKDB_SHARE = 4
_MOST_BEST = 1 << 16  # pairs in memory after they were read from the table, unless more tie; twice as many are too many
_FLOOR_RATIO = 32  # of those, the ones that count less than the best count over this are left out
_PAIR_BYTES = 50  # of one in memory
_MOST_WAITING = 1 << 17  # changes of pairs until they are added up, or merged into the table
_EMPTY_SHARE = 4  # a block is written without its empty rows when one in so many is empty
_LOOKED_AT = 512  # of the best pairs, for one pass


class TableLearning(Learning):
    """Words in tables under a folder, which stay there; the caller removes the folder. A Learning."""

    kind = "tables"

    def __init__(self, state: State, parts: Parts, folder: Path) -> None:
        self.state, self.folder = state, folder / "tables"
        self.memory_bytes = state.options.memory_bytes
        self._paper = state.options.batch == "paper"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.blocks: list[WordBlock] = []
        self.best = _BestPairs()
        self._most_best = state.options.hot_pairs or _MOST_BEST
        self._counted = False  # whether pair_counts and the best pairs are those of the words as they are now
        self._waiting: list[pl.DataFrame] = []
        self._con = open_store(
            self.folder / "pairs.duckdb",
            memory_bytes=self.memory_bytes // _DUCKDB_SHARE,
            threads=state.options.threads,
            temp_dir=self.folder / "spill",
        )
        rows = min(max(self.memory_bytes // _BLOCK_SHARE // ROW_BYTES, _LEAST_BLOCK), _MOST_BLOCK)
        # nothing is left to merge in words of one token
        for words in columns(parts, state.options.block_places or rows, 2 if state.lives is None else 1):
            self.blocks.append(WordBlock(self.folder / f"words-{len(self.blocks):05d}.parquet"))
            self._put(self.blocks[-1], Rows.of(*words))

    def _put(self, block: WordBlock, rows: Rows) -> None:
        """Replace the rows of a block, which stays in memory where there is room."""
        block.size = int(np.count_nonzero(rows.token >= 0))
        if len(rows.token) - block.size > len(rows.token) // _EMPTY_SHARE:
            rows = rows.tokens
        block.held, block.is_written = rows, False
        if self._held_bytes() > self.memory_bytes // _CACHE_SHARE:
            block.write()
            block.held = None

    def _held_bytes(self) -> int:
        return ROW_BYTES * sum(len(block.held.word) for block in self.blocks if block.held is not None)

    # ------------------------------------------------------------------ choosing

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        state = self.state
        vetoed: list[Veto] = []
        while True:
            chosen = self._choose(remaining, record)
            if not chosen or chosen[0][2] < bounds.first:
                return Batch(Events(), record, vetoed) if chosen or vetoed else None
            blocked = next((i for i, (left, right, _) in enumerate(chosen) if state.is_blocked(left, right)), None)
            if blocked is None or (blocked and not self._paper):
                break
            left, right, n = chosen[blocked]
            vetoed.append(chosen[blocked])
            state.banned.add((left, right))
            gone = np.array([left << ID_BITS | right])
            self.best.change(gone, np.array([-n]), np.zeros(1, np.int64))
            self._waiting.append(pl.DataFrame({"key": gone, "n": [-n]}))
        if self._paper:
            chosen = [chosen[at] for at in safe_pairs(chosen)][:remaining]
        else:
            chosen = self._together(chosen[:blocked], remaining, bounds)
        batch = self._merge(chosen, record)
        batch.vetoed[:0] = vetoed
        return batch

    def _choose(self, remaining: int, record: PassRow) -> list[Pair]:
        """The best pairs, best first; empty where none is left."""
        wanted, looked_at = 1, _LOOKED_AT
        if self._paper:
            wanted = looked_at = self.state.options.round_size(remaining, self.state.next_id)
        known, floor = len(self.best.key), self.best.floor
        too_many = known > 2 * max(self._most_best, wanted) and self.best.most > floor
        too_few = known < wanted and floor > self.state.options.at_least
        if not self._counted or too_many or too_few:
            self._refill(wanted, record)
        record.hot_pairs = len(self.best.key)
        return self.best.first(looked_at, self.state.labels())

    def _together(self, best: Sequence[Pair], remaining: int, bounds: Bounds) -> list[Pair]:
        """The leading pairs that take no occurrence from each other. The last of them may spell a token that is known:
        then other pairs than new ones count more."""
        most = 1 if self.state.options.batch == "1" else min(remaining, self.state.options.candidates)
        firsts: set[int] = set()
        lasts: set[int] = set()
        taken: list[Pair] = []
        for left, right, n in best[:most]:
            if taken and (left == right or left in lasts or right in firsts or n < bounds.least):
                break
            taken.append((left, right, n))
            firsts.add(left)
            lasts.add(right)
            if left == right or self.state.spelled(left, right) in self.state.known:
                break
        return taken

    def _refill(self, fewest: int, record: PassRow) -> None:
        """Take the best pairs of the table into memory, after all pairs were counted where they are not."""
        if not self._counted:
            self._waiting = []
            run_sql(self._con, "learning/pairs")
            for block in self.blocks:
                self._wait_with(_summed([pairs_of(block.rows(), self.state.disjoint)]))
            self._counted = True
        self._write_waiting()
        options, most = self.state.options, max(self._most_best, fewest)
        floor = options.at_least
        n = query_frame(self._con, "learning/highest_counts", at_least=floor, most=most + 1)["n"].to_list()
        if n:  # those that count much less than the best would change often until they are wanted
            much_less = n[0] // (options.floor_ratio or _FLOOR_RATIO)
            floor = max(floor, min(max([much_less, *n[most:]]) + 1, n[:fewest][-1]))
        self.best = _BestPairs.of(self._pairs_from(floor))
        record.refills += 1

    def _pairs_from(self, floor: int) -> HotPairs:
        """All pairs of the table that count at least so much."""
        frame = query_frame(self._con, "learning/pairs_from", floor=floor)
        left, right, n = (frame[name].to_numpy() for name in ("left_id", "right_id", "n"))
        return HotPairs(left, right, n, floor)

    def _wait_with(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Keep changes of pairs for the table, which has only those that may be merged; returns those."""
        if self.state.filters and len(changes):
            changes = changes.filter(pl.Series(self.state.allowed(*unpack(changes["key"].to_numpy()))))
        self._waiting.append(changes)
        if sum(map(len, self._waiting)) > _MOST_WAITING:
            self._write_waiting()
        return changes

    def _write_waiting(self) -> None:
        changes = _summed(self._waiting)
        self._waiting = []
        if len(changes):
            feed(self._con, "learning/change_pairs", changes)

    # ------------------------------------------------------------------ merging

    def _merge(self, chosen: Sequence[Pair], record: PassRow) -> Batch:
        """Merge these pairs, or as many of them as are certain."""
        state = self.state
        pairs = Pairs(chosen, state.next_id)
        counted, made = np.zeros((2, len(chosen)), np.int64)
        beside: list[pl.DataFrame] = []
        found = []
        for block in self.blocks:
            rows = block.rows()
            at, which = pairs.find(rows)
            first = leftmost(at, which)
            places = at[first], which[first]
            np.add.at(counted, which, rows.n[at])
            np.add.at(made, places[1], rows.n[places[0]])
            if len(chosen) > 1 and not self._paper:
                beside.append(neighbours(rows, *places))
                if sum(map(len, beside)) > max(_MOST_WAITING, 2 * len(beside[0])):
                    beside = [_summed(beside)]
            found.append(places if block.held is not None else None)  # else they are looked up again
            record.occurrences += len(at)
        certain = _certain(chosen, beside) if beside else len(chosen)
        first_new = state.next_id
        ids, deleted = state.commit([pair[:2] for pair in chosen[:certain]], made.tolist(), whole_round=self._paper)
        chosen, n = chosen[: len(ids)], (made if state.disjoint else counted)[: len(ids)]
        wrong = np.flatnonzero(n != [pair[2] for pair in chosen])
        assert not len(wrong), f"{chosen[wrong[0]]} stands {n[wrong[0]]} times in the words"
        state.ties.placed(ids, n)
        self._take_changes(_summed(self._changes(pairs, found, ids, deleted, record)), first_new)
        left, right = np.array([pair[:2] for pair in chosen], np.int64).T
        return Batch.of((left, right, ids, n), record, deleted=deleted)

    def _changes(
        self,
        pairs: Pairs,
        found: Sequence[tuple[Int64, Int64] | None],
        ids: Int64,
        deleted: Sequence[Deletion],
        record: PassRow,
    ) -> Iterator[pl.DataFrame]:
        """Put one token in the place of two where one of the first pairs begins, and its parts in the place of a
        deleted token; gives what this changes in the counts of pairs."""
        disjoint = self.state.disjoint
        for block, places in zip(self.blocks, found, strict=True):
            rows = block.rows()
            at, which = places or pairs.find(rows)
            good = (which < len(ids)) & (True if places else leftmost(at, which))
            at, which = at[good], which[good]
            if len(at):
                where = rows.words_at(at)
                before = pairs_of(rows.at(where), disjoint)
                rows.merge(at, ids[which], where)
                yield from (_less(before), pairs_of(rows.at(where), disjoint))
                self._put(block, rows)
                record.executed += len(at)
        for gone in deleted:
            for block in self.blocks if gone.n else ():
                rows = block.rows()
                at = np.flatnonzero(rows.token == gone.id)
                if len(at):
                    words = np.unique(rows.word[at])
                    split = rows.tokens.split(gone)
                    yield _less(pairs_of(rows.at(rows.words_at(at)), disjoint))
                    yield pairs_of(split.at(np.flatnonzero(np.isin(split.word, words))), disjoint)
                    self._put(block, split)

    def _take_changes(self, changes: pl.DataFrame, first_new: int) -> None:
        """Bring the counts of pairs up to date. A pair of two old tokens counts more only where a token came back or
        was split; then the table knows how much."""
        changes = self._wait_with(changes)
        key, change = changes["key"].to_numpy(), changes["n"].to_numpy()
        left, right = unpack(key)
        total, raised = change.copy(), (left < first_new) & (right < first_new) & (change > 0)
        if raised.any():
            frame = changes.filter(pl.Series(raised)).select("key")
            with incoming(self._con, frame):
                found = query_frame(self._con, "learning/look_up_pairs")
            known = _summed([found, *self._waiting])
            total[raised] = frame.join(known, on="key", how="left", maintain_order="left")["n"].fill_null(0).to_numpy()
        self.best.change(key, change, total)

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Tokens in all blocks."""
        return sum(block.size for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory between two passes, about."""
        return self._held_bytes() + _PAIR_BYTES * len(self.best.key)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """See Learning.words; block by block."""
        for block in self.blocks:
            word, token, n = block.rows().tokens
            begins = np.flatnonzero(np.diff(word, prepend=-1))
            yield token, np.append(begins, len(word)).astype(np.int64), n[begins]

    def next_at_most(self) -> int:
        """See Learning.next_at_most."""
        return self.best.most if self._counted else MAX_COUNT

    def hot_pairs(self) -> HotPairs:
        """See Learning.hot_pairs. All tables are brought up to date."""
        if self._counted:
            self._write_waiting()
        else:
            self._refill(1, PassRow())
        for block in self.blocks:
            block.write()
        if self.blocks:
            run_sql(self._con, "learning/words", folder=str(self.folder))
        return self._pairs_from(self.best.floor)

    def close(self) -> None:
        """Leave the tables to other programs, up to date."""
        with contextlib.closing(self._con):
            if self._counted:
                self.hot_pairs()


class _BestPairs(msgspec.Struct):
    """All pairs that count at least `floor`, by their keys, ascending."""

    key: Int64 = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    n: Int64 = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    floor: int = 0

    @classmethod
    def of(cls, pairs: HotPairs) -> _BestPairs:
        """These pairs."""
        key = pairs.left << ID_BITS | pairs.right
        order = np.argsort(key)
        return cls(key[order], pairs.n[order], pairs.floor)

    @property
    def most(self) -> int:
        """No pair counts more than this."""
        return int(self.n.max()) if len(self.n) else self.floor

    def change(self, key: Int64, change: Int64, total: Int64) -> None:
        """Raise or lower counts; `total`: what a pair counts now that is not here, if that may be enough. A pair that
        counts less than the floor is forgotten."""
        at = np.searchsorted(self.key, key)
        known = np.zeros(len(key), bool)
        inside = at < len(self.key)
        known[inside] = self.key[at[inside]] == key[inside]
        self.n[at[known]] += change[known]
        least = max(self.floor, 1)
        new = np.flatnonzero(~known & (total >= least))
        new = new[np.argsort(key[new])]
        stay: Bool = np.insert(self.n, at[new], total[new]) >= least
        self.key, self.n = np.insert(self.key, at[new], key[new])[stay], np.insert(self.n, at[new], total[new])[stay]

    def first(self, k: int, label: Int64) -> list[Pair]:
        """The k best, in order; `label[token]` sorts tokens as the tie rule does."""
        key, n = self.key, self.n
        if len(n) > k:  # and all that tie with the last of them
            some = np.flatnonzero(n >= np.partition(n, -k)[-k])
            key, n = key[some], n[some]
        left, right = unpack(key)
        by = np.lexsort((label[right], label[left], -n))[:k]
        return list(zip(left[by].tolist(), right[by].tolist(), n[by].tolist(), strict=True))


def _certain(chosen: Sequence[Pair], beside: Sequence[pl.DataFrame]) -> int:
    """How many of these pairs are certain to come before the pairs that those before them make."""
    most = np.zeros(len(chosen), np.int64)
    sums = _summed(beside).group_by(pl.col("key") // 2 ** (ID_BITS + 1)).agg(pl.col("n").max())
    most[sums["key"].to_numpy()] = sums["n"].to_numpy()
    before = np.maximum.accumulate(most)
    uncertain = np.flatnonzero(np.array([n for _, _, n in chosen[1:]]) <= before[:-1])
    return 1 + int(uncertain[0]) if len(uncertain) else len(chosen)


def _summed(changes: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Rows (key, n) with each key once. They are added up as they come, so that they never take much more memory than
    their sums."""
    waiting, rows = [pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64})], 0
    for some in changes:
        waiting.append(some)
        rows += len(some)
        if rows > max(_MOST_WAITING, len(waiting[0])):
            waiting, rows = [_added(waiting)], 0
    return _added(waiting)


def _added(changes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(changes).group_by("key").agg(pl.col("n").sum()).filter(pl.col("n") != 0)


def _less(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.with_columns(-pl.col("n"))
