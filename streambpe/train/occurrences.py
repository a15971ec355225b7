"""Where the candidate pairs are: an index in memory, or a scan of blocks on disk.

Both hold the words as one *column* of token ids with a separator (-1) on either side of every word:

    words  hello x3 · he x9      column  -1 h e l l o -1 h e -1      weights 3 9

and answer the same four questions for the engine: count all pairs (`count_pairs`), find the occurrences of
the candidates (`find`), rewrite those that were executed (`apply`), and say which pairs lost by it
(`lost_slots`). Words that have become one token leave the column whenever it is compacted.

**Index** (`IndexColumn`). No pointers: a merged token covers the places of its parts and its id stands on
the first and the last of them; `width[id]` says how many they are. The token in front of place p ends at p
- 1, the one behind p begins at p + width. After merging (h, e) -> 256, with width[256] = 2:

    column  -1 256 256 l l o -1 256 256 -1

`slot[p]` names the frontier pair that begins at p (COLD: none that is hot; DEAD: no token begins here), so
"is this entry of the index still true" and "which pair loses an occurrence" are one look-up each. The
positions of a hot pair are one stretch of `arena`: pairs get all of their positions when counted or when
born. Entries are never removed, only found out of date. Memory: 12 bytes a place (column, slot, word), 4
per position of a hot pair, 8 per word; building it sorts one 8-byte key per place for the moment. Cost of
a pass: the candidates' positions.

**Scan** (`ScanColumn`). The column lies in files, one per block of some million places, always compact. A
pass reads each block twice: two boolean look-ups per place find the candidates; blocks with executed
occurrences are rewritten. Memory: some 16 bytes a place of the blocks at work (one per thread), whatever
the number of blocks. Cost of a pass: all the places.

The index is the faster one as soon as it fits; `ScanColumn.to_index` moves over. Positions found by either
are in column order, so the resolver sees the same occurrences and takes the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from streambpe.train.batch import (
    Bool,
    Candidates,
    Changes,
    Int32,
    Int64,
    Occurrences,
    Places,
    count_changes,
    leftmost_of_equal,
)
from streambpe.train.frontier import FloorWish, Frontier, PairCounter, PairFilter

SEPARATOR = -1
COLD = -1
DEAD = -2

INDEX_BYTES_PER_PLACE = 32  # at its peak, while being built
SCAN_BYTES_PER_PLACE = 40  # of a block at work
OCCURRENCE_BYTES = 160  # a row of Occurrences with the resolver's and the changes' arrays


def write_column(symbols: Int32, offsets: Int64, weights: Int64) -> tuple[Int32, Int64]:
    """Words as a column with separators; words of fewer than two tokens are left out, having no pair."""
    length = np.diff(offsets)
    keep = length >= 2
    flat = np.asarray(symbols[int(offsets[0]) : int(offsets[-1])])
    if not keep.all():
        flat = flat[np.repeat(keep, length)]
        length = length[keep]
        weights = weights[keep]
    column = np.full(len(flat) + len(length) + 1, SEPARATOR, np.int32)
    index = np.arange(1, len(flat) + 1)
    index += np.repeat(np.arange(len(length)), length)
    column[index] = flat
    return column, np.ascontiguousarray(weights, dtype=np.int64)


def read_column(column: Int32, weights: Int64) -> tuple[Int32, Int64, Int64]:
    """The words of a compact column again: symbols, offsets, weights."""
    ends = np.flatnonzero(column == SEPARATOR)
    offsets = ends - np.arange(len(ends))
    return column[column != SEPARATOR], offsets, weights


def word_numbers(column: Int32) -> Int32:
    """For each place, the number of its word (separators belong to the word behind them)."""
    length = np.diff(np.flatnonzero(column == SEPARATOR))
    numbers = np.repeat(np.arange(len(length), dtype=np.int32), length)
    return np.append(numbers, np.int32(len(length)))


def pair_weights(column: Int32, starts: Int64, weight: Int64, disjoint: bool) -> Int64:
    """What each pair place counts: its word's weight; in a run of equal tokens every other place, if
    disjoint."""
    if not disjoint:
        return weight
    equal = np.flatnonzero(column[starts] == column[starts + 1])
    if len(equal) == 0:
        return weight
    place = starts[equal]
    begins = np.concatenate(([True], place[1:] != place[:-1] + 1))
    index = np.arange(len(equal))
    first = np.maximum.accumulate(np.where(begins, index, 0))
    weight = weight.copy()
    weight[equal[((index - first) & 1) == 1]] = 0
    return weight


@dataclass
class Pass:
    """What finding and applying touched; goes into the batch's record."""

    positions: int = 0  # index entries or places looked at
    blocks: int = 0
    rewritten: int = 0  # blocks


class IndexColumn:
    """The whole column in memory with the positions of every hot pair."""

    kind = "index"

    def __init__(self, column: Int32, weights: Int64, ids: int, *, disjoint: bool) -> None:
        self.token = column
        self.weights = weights
        self.disjoint = disjoint
        self.word = word_numbers(column)
        self.width = np.ones(max(ids, 1), np.int64)
        self.slot = np.full(len(column), COLD, np.int32)
        self.arena = np.empty(0, np.int32)
        self.used = 0
        self.touched = Pass()

    @property
    def places(self) -> int:
        """Length of the column, separators and covered places included."""
        return len(self.token)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.token, self.weights, self.word, self.width, self.slot, self.arena)
        return sum(a.nbytes for a in arrays)

    def compact(self) -> None:
        """Close the gaps left by merges, drop words of one token, forget the positions. O(places)."""
        self.arena = np.empty(0, np.int32)
        self.used = 0
        self.token, self.weights = drop_finished(self.token[self.slot != DEAD], self.weights)
        del self.slot, self.word
        self.word = word_numbers(self.token)
        self.slot = np.full(len(self.token), COLD, np.int32)
        self.width[:] = 1

    def rename(self, old: int, new: int) -> None:
        """Make one id another, after `compact` (a merge whose bytes are a living token)."""
        self.token[self.token == old] = new

    def fill(
        self,
        frontier: Frontier,
        ids: int,
        wish: FloorWish,
        allowed: PairFilter | None,
        counter_rows: int,
        folder: Path | None,
    ) -> int:
        """Count all pairs of the compact column and index those that count enough; returns 0 (spills).

        One sort does both: the key is pair and place in one integer.
        """
        token = self.token
        bits = len(token).bit_length()
        fits = 2 * int(ids).bit_length() + bits < 63
        parts = []
        for at in range(0, len(token) - 1, 1 << 20):  # in pieces: temporaries stay small and in cache
            piece = token[at : at + (1 << 20) + 1]
            starts = np.flatnonzero((piece[:-1] >= 0) & (piece[1:] >= 0))
            key = piece[starts].astype(np.int64)
            key *= ids
            key += piece[starts + 1]
            starts += at
            if fits:
                key <<= bits
                key |= starts
            parts.append((key, starts if not fits else starts[:0]))
        key = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.int64)
        if fits:
            del parts
            key.sort()
            starts = (key & ((1 << bits) - 1)).astype(np.int32)
            key >>= bits
        else:
            starts = np.concatenate([part[1] for part in parts])
            by = np.argsort(key, kind="stable")
            key, starts = key[by], starts[by].astype(np.int32)
            del by
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])) if len(key) else np.empty(0, bool))
        pair = key[first]
        del key
        weight = self.weights[self.word[starts]]
        if self.disjoint:
            order = np.argsort(starts)
            weight[order] = pair_weights(token, starts[order], weight[order], True)
        count = np.add.reduceat(weight, first) if len(first) else np.empty(0, np.int64)
        size = np.diff(np.append(first, len(starts)))
        del weight
        lefts, rights = pair // ids, pair % ids
        usable = count >= wish.at_least
        if allowed is not None:
            usable &= allowed(lefts, rights)
        floor = wish.floor(count[usable])
        hot = np.flatnonzero(usable & (count >= floor))
        size = size[hot]
        begin = np.cumsum(size) - size
        rows = np.arange(int(size.sum())) + np.repeat(first[hot] - begin, size)
        places = starts[rows]
        self.slot[places] = np.repeat(np.arange(len(hot), dtype=np.int32), size)
        self.arena = places
        self.used = len(places)
        frontier.fill(lefts[hot], rights[hot], count[hot], begin, size, floor)
        return 0

    def find(self, frontier: Frontier, slots: Int64) -> Places:
        """All occurrences of these pairs, in column order."""
        size = frontier.places[slots]
        begin = np.cumsum(size) - size
        rows = np.arange(int(size.sum()))
        rows += np.repeat(frontier.begin[slots] - begin, size)
        place = self.arena[rows]
        pair = np.repeat(np.arange(len(slots)), size)
        self.touched.positions += len(rows)
        live = self.slot[place] == np.repeat(slots, size)
        bits = len(slots).bit_length()
        packed = place[live].astype(np.int64)
        packed <<= bits
        packed |= pair[live]
        packed.sort()
        start = packed >> bits
        pair = packed & ((1 << bits) - 1)
        second = start + self.width[frontier.left[slots]][pair]
        return Places(start, second, pair, self.weights[self.word[start]])

    def describe(self, places: Places, left: Int64, right: Int64) -> Occurrences:
        """What stands around these places of candidates (left, right)."""
        token, start, second, pair = self.token, places.start, places.second, places.pair
        end = second + self.width[right][pair]
        before = token[start - 1].astype(np.int64)
        after = token[end].astype(np.int64)
        found = Occurrences(start, second, end, pair, places.weight, before, after, start - self.width[before])
        if self.disjoint:
            found.run_after = self._run(end, right[pair], after, 1)
            found.run_before = self._run(start - 1, left[pair], before, -1)
        return found

    def _run(self, edge: Int64, token: Int64, neighbour: Int64, step: int) -> Int64:
        """How many equal tokens stand in a row, the executed one included; `edge` is the neighbour's near
        place."""
        length = np.ones(len(edge), np.int64)
        rows = np.flatnonzero(neighbour == token)
        place = edge[rows]
        while len(rows):
            length[rows] += 1
            place = place + step * self.width[token[rows]]
            goes_on = self.token[place] == token[rows]
            rows, place = rows[goes_on], place[goes_on]
        return length

    def lost_slots(self, frontier: Frontier, done: Occurrences, changes: Changes, left: Int64, right: Int64) -> Int64:
        """The hot pairs that lose an occurrence, -1 for cold ones; to be asked before `apply`."""
        row = changes.lost_row
        place = np.where(changes.lost_side == 1, done.second[row], done.previous[row])
        return np.maximum(self.slot[place], COLD).astype(np.int64)

    def apply(self, done: Occurrences, new: Int64, left: Int64, right: Int64, ids: int) -> None:
        """Write the new ids; the pairs around them are cold until `index_born`."""
        if ids > len(self.width):
            width = np.ones(max(ids, len(self.width) + len(self.width) // 2), np.int64)
            width[: len(self.width)] = self.width
            self.width = width
        self.width[new] = done.end - done.start
        self.token[done.start] = new
        self.token[done.end - 1] = new
        self.slot[done.previous[done.before >= 0]] = COLD
        self.slot[done.start] = COLD
        self.slot[done.second] = DEAD

    def index_born(self, changes: Changes, chosen: Int64, first_slot: int) -> Int64:
        """Keep the positions of the chosen born pairs, slots first_slot, ...; returns where each one's
        begin."""
        groups = changes.groups
        size = groups.sizes()[chosen]
        begin = np.cumsum(size) - size
        total = int(size.sum())
        rows = np.arange(total)
        rows += np.repeat(groups.first[chosen] - begin, size)
        places = changes.places[groups.rows[rows]]
        if self.used + total > len(self.arena):
            arena = np.empty(max(self.used + total, len(self.arena) + len(self.arena) // 4), np.int32)
            arena[: self.used] = self.arena[: self.used]
            self.arena = arena
        self.arena[self.used : self.used + total] = places
        self.slot[places] = np.repeat(np.arange(first_slot, first_slot + len(chosen), dtype=np.int32), size)
        begin += self.used
        self.used += total
        return begin

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now; the index is left as it is. O(places), one copy of the column."""
        yield read_column(self.token[self.slot != DEAD], self.weights)

    def count_all(self, rows: int, folder: Path | None) -> PairCounter:
        """Every pair with its count, from scratch; the index is left as it is."""
        live = self.slot != DEAD
        counter = PairCounter(rows, folder)
        column = self.token[live]
        counter.add(count_block(column, np.append(self.weights, 0)[self.word[live]], self.disjoint))
        return counter


def drop_finished(column: Int32, weights: Int64) -> tuple[Int32, Int64]:
    """Words of one token leave: they have no pair and never will. O(places)."""
    ends = np.flatnonzero(column == SEPARATOR)
    finished = np.flatnonzero(np.diff(ends) <= 2)
    if len(finished) == 0:
        return column, weights
    keep = np.ones(len(column), bool)
    keep[ends[finished]] = False
    keep[ends[finished] + 1] = False
    return column[keep], np.delete(weights, finished)


def count_block(column: Int32, weight: Int64, disjoint: bool) -> pl.DataFrame:
    """Pair counts of a compact column whose places weigh `weight`: key (left << 32 | right), n, places."""
    starts = np.flatnonzero((column[:-1] >= 0) & (column[1:] >= 0))
    key = column[starts].astype(np.int64)
    key <<= 32
    key |= column[starts + 1]
    n = pair_weights(column, starts, weight[starts], disjoint)
    return (
        pl.DataFrame({"key": key, "n": n})
        .group_by("key")
        .agg(pl.col("n").sum(), pl.len().cast(pl.Int64).alias("places"))
    )


@dataclass
class Merged:
    """What one merge did: losses by slot, born pairs (key, n, places), and how many places."""

    lost: Int64
    born: pl.DataFrame
    found: int
    executed: int


class ScanColumn:
    """The column as compact blocks in files; memory does not grow with its length."""

    kind = "scan"

    def __init__(self, folder: Path, *, disjoint: bool, threads: int) -> None:
        self.folder = folder
        self.disjoint = disjoint
        self.threads = max(1, threads)
        self.lengths: list[int] = []
        self.touched = Pass()
        self._found = _joined([], disjoint)
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, column: Int32, weights: Int64) -> None:
        """One more block."""
        number = len(self.lengths)
        self.lengths.append(len(column))
        self._write(number, column, weights)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"block_{number:05d}.tokens", self.folder / f"block_{number:05d}.weights"

    def _write(self, number: int, column: Int32, weights: Int64) -> None:
        tokens, weight = self._paths(number)
        column.tofile(tokens)
        weights.tofile(weight)
        self.lengths[number] = len(column)

    def _read(self, number: int) -> tuple[Int32, Int64]:
        tokens, weight = self._paths(number)
        return np.fromfile(tokens, np.int32), np.fromfile(weight, np.int64)

    @property
    def places(self) -> int:
        """Length of the column, separators included."""
        return sum(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes in memory while a pass runs."""
        return SCAN_BYTES_PER_PLACE * self.threads * max(self.lengths, default=0)

    def compact(self) -> None:
        """A scan's blocks are always compact."""

    def rename(self, old: int, new: int) -> None:
        """Make one id another everywhere (a merge whose bytes are a living token)."""
        for number in range(len(self.lengths)):
            column, weights = self._read(number)
            if (column == old).any():
                column[column == old] = new
                self._write(number, column, weights)

    def fill(
        self,
        frontier: Frontier,
        ids: int,
        wish: FloorWish,
        allowed: PairFilter | None,
        counter_rows: int,
        folder: Path | None,
    ) -> int:
        """Count all pairs block by block and keep those that count enough; returns the number of spills."""
        counter = self.count_all(counter_rows, folder)
        kept, floor = counter.best(wish, allowed)
        kept = kept.sort("key")
        key = kept["key"].to_numpy()
        frontier.fill(
            key >> 32,
            key & 0xFFFFFFFF,
            kept["n"].to_numpy().copy(),
            np.zeros(len(key), np.int64),
            kept["places"].to_numpy().copy(),
            floor,
        )
        return counter.spills

    def count_all(self, rows: int, folder: Path | None) -> PairCounter:
        """Every pair with its count, from scratch."""
        counter = PairCounter(rows, folder)
        for number in range(len(self.lengths)):
            column, weights = self._read(number)
            if len(weights):
                weight = np.append(weights, 0)[word_numbers(column)]
                counter.add(count_block(column, weight, self.disjoint))
        return counter

    def find(self, frontier: Frontier, slots: Int64) -> Places:
        """All occurrences of these pairs, in column order: one pass over all blocks."""
        left, right = frontier.left[slots], frontier.right[slots]
        ids = int(max(left.max(), right.max())) + 2
        is_left, is_right = np.zeros(ids, bool), np.zeros(ids, bool)
        is_left[left] = True
        is_right[right] = True
        key = (left << 32) | right
        by = np.argsort(key)
        base = np.cumsum([0, *self.lengths])

        def one(number: int) -> Occurrences:
            column, weights = self._read(number)
            return self._find_in(column, weights, int(base[number]), is_left, is_right, key[by], by)

        if self.threads > 1 and len(self.lengths) > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                found = list(pool.map(one, range(len(self.lengths))))
        else:
            found = [one(number) for number in range(len(self.lengths))]
        self.touched.positions += self.places
        self.touched.blocks += len(found)
        self._found = _joined(found, self.disjoint)
        return Places(self._found.start, self._found.second, self._found.pair, self._found.weight)

    def describe(self, places: Places, left: Int64, right: Int64) -> Occurrences:
        """What stands around these places; `find` has looked already while it held the blocks."""
        if len(places) == len(self._found):
            return self._found
        return self._found.take(np.searchsorted(self._found.start, places.start))

    def _find_in(
        self, column: Int32, weights: Int64, base: int, is_left: Bool, is_right: Bool, keys: Int64, by: Int64
    ) -> Occurrences:
        # Ids above the candidates' share the last entry, separators (-1) too: neither is in any candidate.
        table = np.minimum(column, len(is_left) - 1)
        hit = is_left[table[:-1]]
        hit &= is_right[table[1:]]
        start = np.flatnonzero(hit)
        key = (column[start].astype(np.int64) << 32) | column[start + 1]
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        true = keys[place] == key
        start, pair = start[true], by[place[true]]
        ends = np.flatnonzero(column == SEPARATOR)
        word = np.searchsorted(ends, start) - 1
        found = Occurrences(
            start + base,
            start + (base + 1),
            start + (base + 2),
            pair,
            weights[word],
            column[start - 1].astype(np.int64),
            column[start + 2].astype(np.int64),
            start + (base - 1),
        )
        if self.disjoint:
            found.run_after = _run_in(column, start + 1, 1)
            found.run_before = _run_in(column, start, -1)
        return found

    def merge_alone(self, frontier: Frontier, candidates: Candidates, new: int) -> Merged:
        """Make one pair `new` everywhere, reading and writing each block once.

        Nothing needs to be known about other blocks when only one pair merges, so memory is a few blocks
        even when the pair stands at a tenth of all places, as the first ones do.
        """
        left, right = int(candidates.left[0]), int(candidates.right[0])
        is_left, is_right = np.zeros(max(left, right) + 2, bool), np.zeros(max(left, right) + 2, bool)
        is_left[left] = is_right[right] = True
        keys = np.array([(left << 32) | right])
        nothing = np.empty(0, np.int64)
        frontier.find(nothing, nothing)  # sorts new pairs in, so that the threads only read

        def one(number: int) -> Merged:
            column, weights = self._read(number)
            found = self._find_in(column, weights, 0, is_left, is_right, keys, np.zeros(1, np.int64))
            done = found
            if left == right:
                done = found.take(leftmost_of_equal(Places(found.start, found.second, found.pair, found.weight)))
            if len(done) == 0:
                return Merged(np.zeros(0, np.int64), _no_pairs(), 0, 0)
            news, lefts, rights = (np.full(len(done), token) for token in (new, left, right))
            changes = count_changes(done, news, lefts, rights, new + 1, self.disjoint)
            lost = np.zeros(frontier.size + 1, np.int64)  # the last entry takes what cold pairs lose
            slots = self.lost_slots(frontier, done, changes, lefts, rights)
            np.add.at(lost, slots, changes.lost_weight)
            places = changes.groups.sizes()
            key = (changes.left << 32) | changes.right
            born = pl.DataFrame({"key": key, "n": changes.count, "places": places})
            column[done.start] = new
            keep = np.ones(len(column), bool)
            keep[done.second] = False
            self._write(number, *drop_finished(column[keep], weights))
            return Merged(lost[:-1], born, len(found), len(done))

        if self.threads > 1 and len(self.lengths) > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                parts = list(pool.map(one, range(len(self.lengths))))
        else:
            parts = [one(number) for number in range(len(self.lengths))]
        lost = np.zeros(frontier.size, np.int64)
        for part in parts:
            lost[: len(part.lost)] += part.lost
        self.touched.positions += self.places
        self.touched.blocks += len(parts)
        born = pl.concat([part.born for part in parts]).group_by("key").agg(pl.col("n", "places").sum())
        return Merged(lost, born.sort("key"), sum(part.found for part in parts), sum(part.executed for part in parts))

    def lost_slots(self, frontier: Frontier, done: Occurrences, changes: Changes, left: Int64, right: Int64) -> Int64:
        """The hot pairs that lose an occurrence, -1 for cold ones."""
        row = changes.lost_row
        behind = changes.lost_side == 1
        return frontier.find(
            np.where(behind, right[row], done.before[row]), np.where(behind, done.after[row], left[row])
        )

    def apply(self, done: Occurrences, new: Int64, left: Int64, right: Int64, ids: int) -> None:
        """Rewrite the blocks that hold executed occurrences."""
        base = np.cumsum([0, *self.lengths])
        cuts = np.searchsorted(done.start, base)

        def one(number: int) -> None:
            rows = slice(int(cuts[number]), int(cuts[number + 1]))
            start = done.start[rows] - int(base[number])
            column, weights = self._read(number)
            column[start] = new[rows]
            keep = np.ones(len(column), bool)
            keep[start + 1] = False
            self._write(number, *drop_finished(column[keep], weights))

        dirty = [int(i) for i in np.flatnonzero(np.diff(cuts))]
        if self.threads > 1 and len(dirty) > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(one, dirty))
        else:
            for number in dirty:
                one(number)
        self.touched.rewritten += len(dirty)

    def index_born(self, changes: Changes, chosen: Int64, first_slot: int) -> Int64:
        """A scan keeps no positions."""
        return np.zeros(len(chosen), np.int64)

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, block by block."""
        for number in range(len(self.lengths)):
            yield read_column(*self._read(number))

    def to_index(self, ids: int) -> IndexColumn:
        """The same column in memory, read block by block; the files are deleted."""
        column = np.empty(self.places - max(len(self.lengths) - 1, 0), np.int32)
        weights = []
        column[0] = SEPARATOR
        at = 1
        for number in range(len(self.lengths)):
            block, weight = self._read(number)
            column[at : at + len(block) - 1] = block[1:]
            at += len(block) - 1
            weights.append(weight)
        self.remove()
        return IndexColumn(
            column, np.concatenate(weights) if weights else np.empty(0, np.int64), ids, disjoint=self.disjoint
        )

    def remove(self) -> None:
        """Delete the block files."""
        for number in range(len(self.lengths)):
            for path in self._paths(number):
                path.unlink(missing_ok=True)
        self.lengths = []


def _no_pairs() -> pl.DataFrame:
    return pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64, "places": pl.Int64})


def _run_in(column: Int32, place: Int64, step: int) -> Int64:
    """How many tokens equal to the one at `place` stand in a row from there, going by `step`."""
    length = np.ones(len(place), np.int64)
    rows = np.arange(len(place))
    at = place + step
    while True:
        goes_on = column[at] == column[place[rows]]
        rows, at = rows[goes_on], at[goes_on] + step
        if len(rows) == 0:
            return length
        length[rows] += 1


def _joined(found: list[Occurrences], disjoint: bool) -> Occurrences:
    def column(name: str) -> Int64:
        parts = [getattr(f, name) for f in found]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    names = ("start", "second", "end", "pair", "weight", "before", "after", "previous")
    runs = ("run_before", "run_after") if disjoint else ()
    return Occurrences(*(column(name) for name in names), *(column(name) for name in runs))
