"""Learning in tables that SQL reads: words in blocks of Parquet, pairs in DuckDB, passes over the blocks by Polars.

    words-00000.parquet     word 0 0 0 1 1    token 104 105 33 104 105    n 7 7 7 2 2          "hi!" 7, "hi" 2
    pairs.duckdb            pair_counts       (104, 105) 9 · (105, 33) 7
    in memory               the pairs that count at least `floor`, best first; all others count less

A pass takes the best pairs, as many as can be merged together without another result than one merge at a time has. It
looks them up in the blocks, writes the blocks that hold any of them anew, and adds up how the counts of pairs changed.

Pairs are taken while none begins with the last token, or ends with the first token, of one taken before: then no
merge takes an occurrence from another. Each merge makes new pairs, of its token and the neighbours that it has; the
largest sum of one neighbour is more than any of them counts. So a pair that counts more than these sums of all that
were taken before comes before any pair that they make:

    (t,h) 900 · (i,n) 400 · (o,n) 120     the neighbours of "th" count 350 at most, those of "in" 130
                                          (i,n) is certain; (o,n) waits for the next pass

This is the slower of two learners, and the one whose every step can be looked at; what both learn must be the same.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedList

from streambpe.arrays import MAX_COUNT, Bool, Int32, Int64
from streambpe.errors import ReplayMismatch
from streambpe.later import polars as pl
from streambpe.store.database import feed, incoming, open_store
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.train.engine import batch as rounds
from streambpe.train.engine.column import write_column
from streambpe.train.engine.deletion import Deletion
from streambpe.train.engine.learning import Given, Parts
from streambpe.train.engine.pair_counter import PairCounter
from streambpe.train.engine.rules import ANY, Batch, BatchRecord, Bounds, release_maps
from streambpe.train.engine.state import State

_ROW_BYTES = 16  # of a block: word, token, n
_BLOCK_SHARE = 48  # of the memory: a block takes one part, and several parts while it is worked on
_MOST_BLOCK, _LEAST_BLOCK = 1 << 20, 1 << 12  # rows
_CACHE_SHARE = 3  # of the memory: blocks that need not be read again take one part
_DUCKDB_SHARE = 4
_MOST_BEST = 1 << 16  # pairs in memory, unless more tie for the best
_MOST_PENDING = 1 << 17  # changes of pairs that wait to be merged into the table
_EMPTY_SHARE = 4  # of the rows of a block may be empty
_LOOKED_AT = 512  # of the best pairs, for one pass
_ID_BITS, _ID_MASK = 32, 0xFFFFFFFF
Pair = tuple[int, int, int]  # left, right, count


class TableLearning:
    """Words in tables under a folder; `close` removes them. A Learning."""

    kind = "tables"

    def __init__(self, state: State, parts: Parts, folder: Path) -> None:
        self.state, self.folder = state, folder / "tables"
        self.memory_bytes = state.options.memory_bytes
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.blocks: list[_Block] = []
        self.best = _BestPairs()
        self._counted = False  # whether pair_counts and the best pairs are those of the words as they are now
        self._pending: list[pl.DataFrame] = []
        self._con = open_store(
            self.folder / "pairs.duckdb",
            memory_bytes=self.memory_bytes // _DUCKDB_SHARE,
            threads=state.options.threads,
            temp_dir=self.folder / "spill",
        )
        rows = min(max(self.memory_bytes // _BLOCK_SHARE // _ROW_BYTES, _LEAST_BLOCK), _MOST_BLOCK)
        for symbols, offsets, weights in parts:
            self._add_blocks(symbols, offsets, weights, state.options.block_places or rows)

    def _add_blocks(self, symbols: Int32, offsets: Int64, weights: Int64, most: int) -> None:
        at = 0
        while at < len(weights):
            stop = int(np.searchsorted(offsets, offsets[at] + most, side="right")) - 1
            stop = max(at + 1, min(stop, len(weights)))
            sizes = np.diff(offsets[at : stop + 1])
            keep = sizes > (1 if self.state.lives is None else 0)  # nothing is left to merge in words of one token
            token = symbols[int(offsets[at]) : int(offsets[stop])][np.repeat(keep, sizes)]
            sizes, n = sizes[keep], weights[at:stop][keep]
            block = _Block(self.folder / f"words-{len(self.blocks):05d}.parquet", len(n))
            self.blocks.append(block)
            self._put(block, _Rows(np.repeat(np.arange(len(n), dtype=np.int32), sizes), token, np.repeat(n, sizes)))
            at = stop
        for array in (symbols, offsets, weights):
            release_maps(array)

    def _put(self, block: _Block, rows: _Rows, empty: int = 0) -> None:
        """Replace the rows of a block, which stays in memory where there is room."""
        held = sum(len(other.held.word) for other in self.blocks if other.held is not None and other is not block)
        hold = (held + len(rows.word)) * _ROW_BYTES <= self.memory_bytes // _CACHE_SHARE
        block.put(rows, empty, hold=hold)

    # ------------------------------------------------------------------ choosing

    @property
    def _at_least(self) -> int:
        return max(1, self.state.options.min_frequency)

    def step(self, remaining: int, record: BatchRecord, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        began = time.perf_counter()
        vetoed: list[Pair] = []
        while True:
            chosen = self._choose(remaining, record)
            if not chosen or chosen[0][2] < bounds.first:
                none = np.empty(0, np.int64)
                self._finish(record, began, 0)
                return Batch(none, none, none, none, record, vetoed) if chosen or vetoed else None
            blocked = [self.state.is_blocked(left, right) for left, right, _ in chosen]
            if self.state.options.batch == "paper" and any(blocked):
                chosen, blocked = [chosen[blocked.index(True)]], [True]
            if not blocked[0]:
                break
            left, right, n = chosen[0]
            vetoed.append(chosen[0])
            self.state.veto(left, right, n)
            self.best.set(left, right, 0)
            self._pending.append(pl.DataFrame({"key": [left << _ID_BITS | right], "n": [-n]}))
        if self.state.options.batch == "paper":
            safe = rounds.paper_safe([left for left, _, _ in chosen], [right for _, right, _ in chosen])
            chosen = [chosen[at] for at in safe][:remaining]
        else:
            chosen = self._together(chosen[: blocked.index(True) if True in blocked else None], remaining, bounds)
        batch = self._merge(chosen, record, learning=True)
        batch.vetoed[:0] = vetoed
        self._finish(record, began, len(chosen))
        return batch

    def _choose(self, remaining: int, record: BatchRecord) -> list[Pair]:
        """The best pairs, best first; empty where none is left."""
        options, wanted, looked_at = self.state.options, 1, _LOOKED_AT
        if options.batch == "paper":
            most = options.max_batch or MAX_COUNT
            wanted = rounds.paper_batch_size(remaining, self.state.next_id, options.cap_divisor, most)
            looked_at = wanted
        while not self._counted or (len(self.best) < wanted and self.best.floor > self._at_least):
            self._refill(wanted, record)
        return self.best.first(looked_at, self.state.ties.labels())

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

    def _refill(self, fewest: int, record: BatchRecord) -> None:
        """Take the best pairs of the table into memory, after all pairs were counted where they are not."""
        if not self._counted:
            self._count_all()
        self._write_pending()
        options = self.state.options
        most = options.hot_pairs or _MOST_BEST
        found = run_sql(
            self._con, "learning/choose_floor", most=max(most, fewest), fewest=fewest, ratio=options.floor_ratio,
            at_least=self._at_least,
        )  # fmt: skip
        floor = int(found[0][0]) if found else self._at_least
        frame = query_frame(self._con, "learning/best_pairs", floor=floor)
        left, right = (frame[name].to_numpy().astype(np.int64) for name in ("left_id", "right_id"))
        self.best.fill(left, right, frame["n"].to_numpy(), floor)
        record.refills += 1

    def _count_all(self) -> None:
        self._pending = []
        run_sql(self._con, "learning/pairs")
        for block in self.blocks:
            self._remember(_summed([_pairs_of(block.tidy(), self.state.disjoint)]))
        self._counted = True

    def _remember(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Keep changes of pairs for the table, which has only those that may be merged; returns those."""
        if self.state.filters and len(changes):
            left, right = _unpacked(changes)
            changes = changes.filter(pl.Series(self.state.allowed(left, right)))
        self._pending.append(changes)
        if sum(map(len, self._pending)) > _MOST_PENDING:
            self._write_pending()
        return changes

    def _write_pending(self) -> None:
        """Bring the table up to date."""
        changes = _summed(self._pending)
        self._pending = []
        if len(changes):
            feed(self._con, "learning/change_pairs", _by_ids(changes))

    # ------------------------------------------------------------------ merging

    def _merge(self, chosen: Sequence[Pair], record: BatchRecord, *, learning: bool) -> Batch:
        """Merge these pairs, or as many of them as are certain; with `learning`, pairs are kept in step."""
        state, paper = self.state, self.state.options.batch == "paper"
        pairs = _Pairs(chosen, state.next_id)
        counted, made = np.zeros((2, len(chosen)), np.int64)
        beside, found = [], []
        for block in self.blocks:
            rows = block.rows()
            at, which = pairs.find(rows)
            first = _leftmost(at, which)
            places = at[first], which[first]
            np.add.at(counted, which, rows.n[at])
            np.add.at(made, places[1], rows.n[places[0]])
            if learning and len(chosen) > 1 and not paper:
                beside.append(_summed([_neighbours(rows, *places)]))
            found.append(places if block.held is not None else None)  # else they are looked up again
            record.occurrences += len(at)
        certain = _certain(chosen, beside) if beside else len(chosen)
        first_new = state.next_id
        ids, deleted = self._name(chosen[:certain], made, whole_round=paper)
        committed, changes = len(ids), []
        for block, known in zip(self.blocks, found, strict=True):
            at, which = known or pairs.find_merged(block.rows())
            mine = which < committed
            if mine.any():
                changes.append(self._replace(block, at[mine], ids[which[mine]]))
                record.executed += int(np.count_nonzero(mine))
        left, right = (np.array([pair[side] for pair in chosen[:committed]], np.int64) for side in (0, 1))
        if state.rule is not None:
            state.rule.born(left, right, ids)
        changes += [change for gone in deleted if gone.n for change in self._split(gone)]
        n = (made if state.disjoint else counted)[:committed]
        if learning:
            wrong = np.flatnonzero(n != [pair[2] for pair in chosen[:committed]])
            assert not len(wrong), f"{chosen[wrong[0]]} stands {n[wrong[0]]} times in the words"
            self._take_changes(_summed(changes), first_new)
        else:
            self._counted = False
        state.placed(ids, n)
        record.merges, record.candidates, record.rounds = committed, len(chosen), 1
        record.positions += self.places
        return Batch(left, right, ids, n, record, [], deleted)

    def _name(self, chosen: Sequence[Pair], made: Int64, *, whole_round: bool) -> tuple[Int64, list[Deletion]]:
        """Ids for merges in order, and the deletions they lead to; up to the first that changes pairs of old tokens."""
        state, lives = self.state, self.state.lives
        ids: list[int] = []
        deleted: list[Deletion] = []
        for (left, right, _), times in zip(chosen, made.tolist(), strict=False):
            token = state.spelled(left, right)
            known = state.known.get(token)
            number = state.create_token(token, left, right) if known is None else known
            ids.append(number)
            if lives is not None:
                if known is None:
                    lives.born(left, right)
                elif lives.is_dead(number):
                    lives.returns(number)
                    state.dead -= 1
                gone = lives.merge(left, right, number, times, len(ids))
                state.dead += len(gone)
                deleted += gone
            if not whole_round and (known is not None or any(one.n for one in deleted)):
                break
        return np.array(ids, np.int64), deleted

    def _replace(self, block: _Block, at: Int64, ids: Int64) -> pl.DataFrame:
        """Put one token in the place of two where a pair begins; returns what this changed in the counts of pairs."""
        rows, old = block.words_at(at)
        place = np.searchsorted(rows, at)
        token, alive = old.token.copy(), np.ones(len(rows), bool)
        token[place], alive[place + 1] = ids, False
        return self._rewrite(block, rows, old, _Rows(old.word[alive], token[alive], old.n[alive]))

    def _split(self, gone: Deletion) -> Iterator[pl.DataFrame]:
        """Put its parts in the place of a deleted token; gives what this changed in the counts of pairs."""
        for block in self.blocks:
            at = np.flatnonzero(block.rows().token == gone.id)
            if len(at):
                rows, old = block.words_at(at)
                is_it = old.token == gone.id
                new = old.at(np.repeat(np.arange(len(rows)), np.where(is_it, len(gone.into), 1)))
                new.token[new.token == gone.id] = np.tile(gone.into, len(at))
                yield self._rewrite(block, rows, old, new)

    def _rewrite(self, block: _Block, rows: Int64, old: _Rows, new: _Rows) -> pl.DataFrame:
        """Put words in the place of those in these rows; returns what this changed in the counts of pairs."""
        before, after = (_pairs_of(some, self.state.disjoint) for some in (old, new))
        if self.state.lives is None:  # nothing is left to merge in words of one token
            alone = np.diff(new.word, prepend=-1) != 0
            alone &= np.diff(new.word, append=-1) != 0
            new = new.at(np.flatnonzero(~alone))
        everything = block.rows().and_then(new)
        everything.word[rows], everything.token[rows] = -1, -1
        self._put(block, everything, block.empty + len(rows))
        return _summed([before.with_columns(-pl.col("n")), after])

    def _take_changes(self, changes: pl.DataFrame, first_new: int) -> None:
        """Bring the counts of pairs up to date. A pair of two old tokens counts more only where a token came back or
        was split; then the table knows how much."""
        changes = self._remember(changes.filter(pl.col("n") != 0))
        left, right = _unpacked(changes)
        raised = changes.filter(pl.Series((left < first_new) & (right < first_new))).filter(pl.col("n") > 0)
        totals: dict[int, int] = {}
        if len(raised):
            self._write_pending()
            with incoming(self._con, _by_ids(raised)):
                found = query_frame(self._con, "learning/look_up_pairs")
            keys = found["left_id"].cast(pl.Int64) * 2**_ID_BITS + found["right_id"]
            totals = dict(zip(keys.to_list(), found["n"].to_list(), strict=True))
        self.best.change(changes["key"].to_list(), changes["n"].to_list(), totals)

    def _finish(self, record: BatchRecord, began: float, candidates: int) -> None:
        record.mode, record.stopped_by = self.kind, "all" if record.merges == candidates else "uncertain"
        record.seconds += time.perf_counter() - began
        record.hot_pairs, record.floor = len(self.best), self.best.floor
        record.places, record.memory_bytes = self.places, self.nbytes

    # ------------------------------------------------------------------ known events

    def forbid(self, left: int, right: int) -> None:
        """See Learning; the state knows it, and the table is filled without it."""
        self._counted = False

    def replay(self, merges: Sequence[Given], until_split: int, record: BatchRecord) -> Batch:
        """See Learning.replay. Counts of pairs are not kept in step: they are counted again when they are needed."""
        began = time.perf_counter()
        limit = self.state.next_id
        if max(merges[0][:2]) >= limit:
            raise ReplayMismatch(f"event {self.state.merges} merges an id that does not exist yet: {merges[0]}")
        known = [(left, right, n) for left, right, _, n in takewhile(lambda merge: max(merge[:2]) < limit, merges)]
        if self.state.options.batch != "paper":
            known = self._together(known[:until_split], len(known), ANY)
        batch = self._merge(known, record, learning=False)
        self._finish(record, began, len(known))
        if not batch.n[0]:
            raise ReplayMismatch(f"{merges[0][:2]} of event {merges[0]} is not a pair of these words")
        return batch

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Rows of all blocks."""
        return sum(block.size for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory between two passes, about."""
        return sum(_ROW_BYTES * block.size for block in self.blocks if block.held is not None) + 250 * len(self.best)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """See Learning.words; block by block."""
        for block in self.blocks:
            word, token, n = block.tidy()
            begins = np.flatnonzero(np.diff(word, prepend=-1))
            yield token, np.append(begins, len(word)).astype(np.int64), n[begins]

    def is_ready_to_move(self) -> bool:
        """Never: here they are to stay."""
        return False

    def pair_counts(self, folder: Path) -> PairCounter:
        """See Learning.pair_counts."""
        counter = PairCounter(self.state.options.counter_bytes, folder)
        for words in self.words():
            counter.count(*write_column(*words), self.state.disjoint)
        return counter

    def next_at_most(self) -> int:
        """See Learning.next_at_most."""
        return self.best.most if self._counted else MAX_COUNT

    def hot_pairs(self) -> tuple[Int64, Int64, Int64, int]:
        """See Learning.hot_pairs."""
        if not self._counted or not len(self.best):
            self._refill(1, BatchRecord())
        return (*self.best.columns(), max(1, self.best.floor))

    def report_lives(self) -> None:
        """Nothing to do: the state has the lives."""

    def close(self) -> None:
        """Remove the tables."""
        with contextlib.suppress(Exception):
            self._con.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Rows(NamedTuple):
    """Some words: a row for each of their tokens, in order, all rows of a word together."""

    word: Int32
    token: Int32
    n: Int64

    def at(self, rows: Int64) -> _Rows:
        """Those of these numbers."""
        return _Rows(self.word[rows], self.token[rows], self.n[rows])

    def and_then(self, more: _Rows) -> _Rows:
        """These and others behind them, in arrays of their own."""
        word, token = np.concatenate((self.word, more.word)), np.concatenate((self.token, more.token))
        return _Rows(word, token, np.concatenate((self.n, more.n)))

    def without_empty(self) -> _Rows:
        """Those of tokens."""
        return self.at(np.flatnonzero(self.token >= 0))


@dataclass
class _Block:
    """Words in a file, or in memory."""

    path: Path
    words: int  # that it began with: their numbers are less than this
    held: _Rows | None = None  # its rows, where they are in memory; the file is older then
    size: int = 0  # rows
    empty: int = 0  # more rows, of token -1: what stood there was changed, and stands behind all others now

    def rows(self) -> _Rows:
        """All rows, in memory for now; some may be empty."""
        if self.held is not None:
            return self.held
        frame = pl.read_parquet(self.path, glob=False)
        return _Rows(*(frame[name].to_numpy() for name in _Rows._fields))

    def words_at(self, at: Int64) -> tuple[Int64, _Rows]:
        """All rows of the words that these rows belong to: where they are, and what they hold."""
        rows = self.rows()
        wanted = np.zeros(self.words + 1, bool)  # the last one for -1
        wanted[rows.word[at]] = True
        where = np.flatnonzero(wanted[rows.word])
        return where, rows.at(where)

    def put(self, rows: _Rows, empty: int, *, hold: bool) -> None:
        """Replace all rows."""
        if empty and (not hold or empty > len(rows.word) // _EMPTY_SHARE):
            rows, empty = rows.without_empty(), 0
        self.size, self.empty, self.held = len(rows.word) - empty, empty, rows if hold else None
        if not hold:
            self._write(rows)

    def tidy(self) -> _Rows:
        """All rows, in memory for now, without empty ones."""
        rows = self.rows()
        return rows.without_empty() if self.empty else rows

    def write(self) -> None:
        """Bring the file up to date."""
        if self.held is not None:
            self._write(self.tidy())

    def _write(self, rows: _Rows) -> None:
        new = self.path.with_suffix(".new")
        pl.DataFrame(rows._asdict()).write_parquet(new, compression="lz4", statistics=False)
        new.replace(self.path)


class _Pairs:
    """Some pairs, to be found in blocks."""

    def __init__(self, pairs: Sequence[Pair], tokens: int) -> None:
        keys = np.array([left << _ID_BITS | right for left, right, _ in pairs], np.int64)
        self._which = np.argsort(keys)
        self._keys = keys[self._which]
        self._begins = np.zeros(tokens + 1, bool)  # the last one for -1
        self._begins[keys >> _ID_BITS] = True

    def find_merged(self, rows: _Rows) -> tuple[Int64, Int64]:
        """(row, number of the pair) where one of them begins and is merged."""
        at, which = self.find(rows)
        first = _leftmost(at, which)
        return at[first], which[first]

    def find(self, rows: _Rows) -> tuple[Int64, Int64]:
        """(row, number of the pair) of every place where one of them begins."""
        word, token, _ = rows
        at = np.flatnonzero(self._begins[token[:-1]])  # few, so that the rest of the look is short
        at = at[word[at] == word[at + 1]]
        key = token[at].astype(np.int64) << _ID_BITS | token[at + 1]
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        good = self._keys[place] == key
        return at[good], self._which[place[good]]


@dataclass
class _BestPairs:
    """All pairs that count at least `floor`, in order: first the one that counts most."""

    floor: int = 0
    _count: dict[int, int] = field(default_factory=dict)  # by key
    _order: SortedList = field(default_factory=SortedList)  # (-n, key)

    def __len__(self) -> int:
        return len(self._count)

    @property
    def most(self) -> int:
        """No pair counts more than this."""
        return -self._order[0][0] if self._order else max(self.floor - 1, 0)

    def fill(self, left: Int64, right: Int64, n: Int64, floor: int) -> None:
        """Replace everything."""
        self.floor = floor
        self._count = dict(zip((left << _ID_BITS | right).tolist(), n.tolist(), strict=True))
        self._order = SortedList((-n, key) for key, n in self._count.items())

    def set(self, left: int, right: int, n: int) -> None:
        """Give a pair another count; below the floor it is forgotten."""
        self._set(left << _ID_BITS | right, n)

    def _set(self, key: int, n: int) -> None:
        before = self._count.pop(key, None)
        if before is not None:
            self._order.remove((-before, key))
        if n >= max(self.floor, 1):
            self._count[key] = n
            self._order.add((-n, key))

    def change(self, keys: Sequence[int], n: Sequence[int], totals: dict[int, int]) -> None:
        """Raise or lower counts; `totals` has those of pairs that may count enough now and are not here."""
        for key, more in zip(keys, n, strict=True):
            known = self._count.get(key)
            total = totals.get(key, more) if known is None else known + more
            if known is not None or total >= self.floor:
                self._set(key, total)

    def first(self, k: int, label: Int64) -> list[Pair]:
        """The k best, in order; `label[token]` sorts tokens as the tie rule does."""
        best = list(islice(self._order, k))
        if len(best) == k:  # all that tie with the last of them, since keys are not in the order of ties
            last = best[-1][0]
            best += list(takewhile(lambda entry: entry[0] == last, islice(self._order, k, None)))
        if not best:
            return []
        less, key = np.array(best, np.int64).T
        left, right = key >> _ID_BITS, key & _ID_MASK
        by = np.lexsort((label[right], label[left], less))[:k]
        return list(zip(left[by].tolist(), right[by].tolist(), (-less[by]).tolist(), strict=True))

    def columns(self) -> tuple[Int64, Int64, Int64]:
        """(left, right, n) of all."""
        key, n = np.fromiter(self._count.keys(), np.int64), np.fromiter(self._count.values(), np.int64)
        return key >> _ID_BITS, key & _ID_MASK, n


# ---------------------------------------------------------------------------------------------------------
# rows and keys


def _pairs_of(rows: _Rows, disjoint: bool) -> pl.DataFrame:
    """The pairs of some words as rows (key, n). `disjoint`: "aaa" holds (a, a) once."""
    word, token, n = rows
    at = np.flatnonzero(word[:-1] == word[1:])
    if disjoint:
        equal = token[at] == token[at + 1]
        good = ~equal
        good[equal] = _leftmost(at[equal], token[at[equal]])
        at = at[good]
    key = token[at].astype(np.int64) << _ID_BITS | token[at + 1]
    return pl.DataFrame({"key": key, "n": n[at]})


def _leftmost(at: Int64, which: Int64 | Int32) -> Bool:
    """Of places where pairs begin, those that are merged: of pairs of one token that overlap, every second.

    at 3 4 5 9   which 0 0 0 0   ->   yes no yes yes       "xaaaa": (a, a) begins at three places, and is merged at two
    """
    begins = (np.diff(at, prepend=-2) != 1) | (np.diff(which, prepend=-1) != 0)
    first = np.flatnonzero(begins)
    in_run = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    merged: Bool = in_run % 2 == 0
    return merged


def _certain(chosen: Sequence[Pair], beside: Sequence[pl.DataFrame]) -> int:
    """How many of these pairs are certain to come before the pairs that those before them make."""
    most = np.zeros(len(chosen), np.int64)
    sums = _summed(beside).group_by(pl.col("key") // 2 ** (_ID_BITS + 1)).agg(pl.col("n").max())
    most[sums["key"].to_numpy()] = sums["n"].to_numpy()
    before = np.maximum.accumulate(most)
    uncertain = np.flatnonzero(np.array([n for _, _, n in chosen[1:]]) <= before[:-1])
    return 1 + int(uncertain[0]) if len(uncertain) else len(chosen)


def _neighbours(rows: _Rows, at: Int64, which: Int64) -> pl.DataFrame:
    """What stands before and behind each merged pair, as rows (key, n): key = pair, side, neighbour."""
    word, token, n = rows
    keys, counts = [], []
    for side, step in ((0, -1), (1, 2)):
        beside = at + step
        good = (beside >= 0) & (beside < len(word))
        good[good] = word[beside[good]] == word[at[good]]
        keys.append(((which[good] << 1 | side) << _ID_BITS) | token[beside[good]])
        counts.append(n[at[good]])
    return pl.DataFrame({"key": np.concatenate(keys), "n": np.concatenate(counts)})


def _summed(changes: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Rows (key, n) with each key once."""
    none = pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64})
    return pl.concat([none, *changes]).group_by("key").agg(pl.col("n").sum()).filter(pl.col("n") != 0)


def _unpacked(changes: pl.DataFrame) -> tuple[Int64, Int64]:
    key = changes["key"].to_numpy()
    return key >> _ID_BITS, key & _ID_MASK


def _by_ids(changes: pl.DataFrame) -> pl.DataFrame:
    """The same rows with the two ids in columns of their own."""
    left, right = _unpacked(changes)
    return pl.DataFrame({"left_id": left, "right_id": right, "n": changes["n"]})
