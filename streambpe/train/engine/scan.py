"""The words on disk: blocks of a column (column.py) in files, swept a few times for some thousand merges.

A stage of learning counts all pairs, boils the column down to a *digest* that fits in memory (`ScanColumn.digest`), and
when the learner has learned from that as far as it reaches, does the same to the whole column (`ScanColumn.rewrite`):
three sweeps, whatever the number of merges, their inner loops in the core. Words that have become one token leave.
Memory: some 40 bytes a place of the blocks at work (one per thread), whatever the number of blocks, and the digest
within its room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import polars as pl

from streambpe.arrays import write_array
from streambpe.core.binding import ChunkTable
from streambpe.core.scan import ChainFinder, drop_words, numbered
from streambpe.core.strings import ChunkList, merge
from streambpe.threads import in_order
from streambpe.train.engine.batch import (
    Bool,
    Candidates,
    Int32,
    Int64,
    Occurrences,
    Places,
    count_changes,
    group_pairs,
    resolve_given,
)
from streambpe.train.engine.column import (
    SEPARATOR,
    Rewrite,
    count_block,
    read_column,
    write_column,
)
from streambpe.train.engine.frontier import FloorWish, Frontier, PairCounter, PairFilter, sum_pairs

T = TypeVar("T")

SCAN_BYTES_PER_PLACE = 40  # of a block at work


@dataclass
class Pass:
    """What finding and applying touched; goes into the batch's record."""

    positions: int = 0  # index entries or places looked at
    blocks: int = 0
    rewritten: int = 0  # blocks


@dataclass
class Merged:
    """What a sweep of merges did: losses by slot, born pairs (key, n), what each merge's count lost
    before its turn, how often each was made, and how many places were found and rewritten."""

    lost: Int64
    born: pl.DataFrame
    dropped: Int64
    made: Int64
    found: int = 0
    executed: int = 0


class _Matcher:
    """Finds candidates in a column: a class per token on either side, then one look-up per pair of classes.

    About 5 ns a place, whatever the number of candidates; memory is that of the table, at most 16 MB, and
    some temporaries of a slice that stay in cache. More candidates than the table takes (BatchBPE's
    rounds) are looked up by binary search instead.
    """

    SLICE = 1 << 16
    TABLE = 1 << 22

    def __init__(self, left: Int64, right: Int64, ids: int) -> None:
        lefts, row = np.unique(left, return_inverse=True)
        rights, entry = np.unique(right, return_inverse=True)
        stride = len(rights) + 1
        self._dense = stride * (len(lefts) + 1) <= self.TABLE
        # The last entry is that of separators (-1); class 0 is in no candidate.
        # One look-up a token gives both classes: as a left token above, as a right one in the low 32 bits.
        self._classes = np.zeros(ids + 1, np.int64)
        self._classes[lefts] = (np.arange(1, len(lefts) + 1) * stride) << 32
        self._classes[rights] |= np.arange(1, stride)
        key = (row + 1) * stride + entry + 1
        if self._dense:
            self._pair = np.full(stride * (len(lefts) + 1), -1, np.int32)
            self._pair[key] = np.arange(len(left), dtype=np.int32)
        else:
            self._by = np.argsort(key)
            self._keys = key[self._by]

    def find(self, column: Int32) -> tuple[Int64, Int64]:
        """Where candidates begin, and which they are, in column order."""
        starts, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for at in range(0, len(column) - 1, self.SLICE):
            piece = column[at : at + self.SLICE + 1]
            classes = self._classes[piece]
            key = classes[:-1] >> 32
            classes &= 0xFFFFFFFF
            key += classes[1:]
            if self._dense:
                pair = self._pair[key]
                start = np.flatnonzero(pair >= 0)
                pairs.append(pair[start].astype(np.int64))
            else:
                place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
                start = np.flatnonzero(self._keys[place] == key)
                pairs.append(self._by[place[start]])
            starts.append(start + at)
        return np.concatenate(starts), np.concatenate(pairs)


@dataclass
class Links:
    """The pairs that chains are made of: best first those that may merge, then those that may not (`banned`,
    and what `allowed` refuses)."""

    left: Int64
    right: Int64
    count: Int64
    floor: int  # the count of the best pair left out
    banned: list[tuple[int, int]]
    allowed: PairFilter | None

    def cut(self, size: int) -> int:
        """The most pairs, `size` at most, that all count more than the next one does; 0 if there are none."""
        if size >= len(self.count):
            return int(np.count_nonzero(self.count > self.floor))
        return int(np.count_nonzero(self.count[:size] > self.count[size]))

    def floor_of(self, size: int) -> int:
        """The count of the best pair that is not among the first `size`."""
        return int(self.count[size]) if size < len(self.count) else self.floor

    def finder(self, size: int, ids: int) -> ChainFinder:
        """Finds the chains of the first `size` pairs, and of those that may not merge."""
        banned = np.array(self.banned, np.int64).reshape(-1, 2)
        left, right = np.append(self.left[:size], banned[:, 0]), np.append(self.right[:size], banned[:, 1])
        return ChainFinder(left, right, size, ids)

    def refused(self, column: Int32) -> Bool | None:
        """The places of a column whose pair may not merge by what `allowed` says; None if it says nothing."""
        if self.allowed is None:
            return None
        refused = np.zeros(len(column), np.bool_)
        inside = np.flatnonzero((column[:-1] >= 0) & (column[1:] >= 0))
        refused[inside] = ~self.allowed(column[inside].astype(np.int64), column[inside + 1].astype(np.int64))
        return refused


@dataclass
class Digest:
    """The distinct chains as a small column; word i is the chain of number i."""

    column: Int32
    weights: Int64
    numbers: ChunkTable
    finder: ChainFinder
    links: Links
    size: int  # of the links, those that it was made for


class ScanColumn:
    """The column as compact blocks in files; memory does not grow with its length. See the module."""

    def __init__(self, folder: Path, *, disjoint: bool, threads: int, drop_finished: bool = True) -> None:
        self.folder = folder
        self.disjoint = disjoint
        self.drop_finished = drop_finished
        self.threads = max(1, threads)
        self.lengths: list[int] = []
        self.touched = Pass()
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, column: Int32, weights: Int64) -> None:
        """One more block."""
        number = len(self.lengths)
        self.lengths.append(len(column))
        self._write(number, column, weights)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"block_{number:05d}.tokens", self.folder / f"block_{number:05d}.weights"

    def _write(self, number: int, column: Int32, weights: Int64, shorter: bool = False) -> None:
        """`shorter`: some words may have become one token."""
        if shorter and self.drop_finished:
            column, weights = drop_words(column, weights)
        tokens, weight = self._paths(number)
        for array, path in ((column, tokens), (weights, weight)):
            with open(path, "wb") as out:
                write_array(array, out)
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

    def split(self, rewrites: Sequence[Rewrite]) -> None:
        """Tokens become their parts, in this order: one sweep that reads each block and writes those it changes."""

        def one(number: int) -> None:
            column, weights = self._read(number)
            if np.isin(column, [rewrite.number for rewrite in rewrites]).any():
                for rewrite in rewrites:
                    column = rewrite.apply(column)
                self._write(number, column, weights)

        for _ in self._each(one):
            pass
        self.touched.positions += self.places

    def fill(
        self,
        frontier: Frontier,
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
            floor,
        )
        return counter.spills

    def count_all(self, rows: int, folder: Path | None) -> PairCounter:
        """Every pair with its count, from scratch."""
        counter = PairCounter(rows, folder)

        def one(number: int) -> pl.DataFrame:
            return count_block(*self._read(number), self.disjoint)

        for frame in self._each(one):
            counter.add(frame)
        return counter

    def digest(self, links: Links, ids: int, room: int) -> Digest | None:
        """The stretches in which merges above a count can happen: one sweep, small whatever the column's length.

        Take all pairs that count more than some floor. A *chain* is a longest stretch of tokens in which every
        two neighbours are one of those pairs; each distinct chain is kept once with the sum of its words' weights:

            pairs above 10   (a,b) (b,c) (c,d)     words   xabcd x5 · abcy x2 · zabcd x4 · abxcd x8
            digest                                 abcd 9 · abc 2 · ab 8 · cd 8

        Learning from the digest gives the very merges of the whole column, with their counts, for as long as the
        best pair counts more than the floor. For take any pair (x, y) that counts so much after some merges of
        this stage. The last token that x had at the start and the first of y stood next to each other wherever
        (x, y) stands now, so this pair of theirs counted no less: it is above the floor, hence inside a chain,
        and so is each token that x and y were made of. All occurrences of (x, y) are in the digest, and what is
        best there is best everywhere. Pairs that may not merge do not count for the floor, yet something may
        be born across them: they are links of chains too (`Links`). Two ways to one token would break "the last
        token that x had": a merge onto a living token ends the stage.

        Chains that outgrow `room` tokens are cut to those of fewer pairs, with a higher floor; None when not even
        the best pairs' fit. O(places) time; memory: a few blocks, and some 60 bytes a token of the digest.
        """
        size = len(links.left)
        finder = links.finder(size, ids)

        def one(number: int) -> ChunkList:
            column, weights = self._read(number)
            return finder.count(column, weights, links.refused(column))

        lists: list[ChunkList] = []
        tokens, folded = 0, 0
        for found in self._each(one):
            lists.append(found)
            tokens += found.text_bytes // finder.itemsize
            if tokens <= max(room, 2 * folded):
                continue
            lists = [merge(lists)]
            while (tokens := lists[0].text_bytes // finder.itemsize) > room:
                size = links.cut(size * 3 // 4)
                if size == 0:
                    return None
                shorter = links.finder(size, ids)
                lists = [_chains_again(lists[0], finder, shorter, links)]
                finder = shorter
            folded = tokens
        self.touched.positions += self.places
        chains = merge(lists)
        if size < len(links.left):  # blocks that were under way when it was cut
            chains = _chains_again(chains, finder, finder, links)
        if chains.text_bytes // finder.itemsize > room:
            return None
        return Digest(*_chain_column(chains, finder), numbered(chains), finder, links, size)

    def rewrite(self, digest: Digest, column: Int32) -> None:
        """Every chain becomes what learning made of it in the digest: one sweep that reads and writes each block.

        O(places) time; memory: a few blocks.
        """
        first = np.flatnonzero(column == SEPARATOR) + 1

        def one(number: int) -> None:
            block, weights = self._read(number)
            size = len(block)
            block = digest.finder.rewrite(digest.numbers, block, digest.links.refused(block), column, first)
            if len(block) < size:
                self._write(number, block, weights, shorter=True)

        for _ in self._each(one):
            pass
        self.touched.positions += self.places

    def merge(self, frontier: Frontier, left: Int64, right: Int64, new: Int64, ids: int) -> Merged:
        """Make these pairs the ids `new`, in this order: one sweep that reads and writes each block once.

        Words do not cross blocks, so each block is resolved by itself, and memory is a few blocks even when
        the pairs stand at a tenth of all places, as the first ones do. O(places) time.
        """
        nothing = np.empty(0, np.int64)
        frontier.find(nothing, nothing)  # sorts new pairs in, so that the threads only read
        match = _Matcher(left, right, ids)
        none = np.zeros(len(left), np.int64)
        given = Candidates(left, right, none)
        lost = np.zeros(frontier.size + 1, np.int64)  # the last entry takes what cold pairs lose
        adding = Lock()

        def one(number: int) -> Merged:
            column, weights = self._read(number)
            found = _find_in(column, weights, match)
            if len(found) == 0:
                return Merged(nothing, _no_pairs(), none, none)
            result = resolve_given(found, lambda rows: _describe_in(column, rows, self.disjoint), given)
            done, rank = result.done, result.rank
            lefts, rights = left[rank], right[rank]
            changes = count_changes(done, new[rank], lefts, rights, ids, self.disjoint)
            row, behind = changes.lost_row, changes.lost_side == 1
            loser_left = np.where(behind, rights[row], done.before[row])
            loser_right = np.where(behind, done.after[row], lefts[row])
            groups = group_pairs(loser_left, loser_right, ids)
            head = groups.rows[groups.first]
            slots = frontier.find(loser_left[head], loser_right[head])
            sums = groups.sums(changes.lost_weight)
            with adding:
                lost[slots] += np.where(slots >= 0, sums, 0)
            key = (changes.left << 32) | changes.right
            born = pl.DataFrame({"key": key, "n": changes.count})
            column[done.start] = new[rank]
            keep = np.ones(len(column), bool)
            keep[done.second] = False
            self._write(number, column[keep], weights, shorter=True)
            made = none.copy()
            np.add.at(made, rank, done.weight)
            return Merged(nothing, born, result.count, made, len(found), len(done))

        self.touched.positions += self.places
        total = Merged(lost[:-1], _no_pairs(), none.copy(), none.copy())
        born, rows = [_no_pairs()], 0
        for part in self._each(one):
            total.dropped -= part.dropped
            total.made += part.made
            total.found += part.found
            total.executed += part.executed
            born.append(part.born)
            rows += len(part.born)
            if rows > 2 * len(born[0]) + (1 << 20):
                born = [sum_pairs(pl.concat(born))]
                rows = len(born[0])
        total.born = sum_pairs(pl.concat(born)).sort("key")
        return total

    def _each(self, one: Callable[[int], T]) -> Iterator[T]:
        """`one` of every block, in order, by all threads."""
        return in_order(one, range(len(self.lengths)), self.threads)

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, block by block."""
        for number in range(len(self.lengths)):
            yield read_column(*self._read(number))

    def remove(self) -> None:
        """Delete the block files."""
        for number in range(len(self.lengths)):
            for path in self._paths(number):
                path.unlink(missing_ok=True)
        self.lengths = []


def _words_at(column: Int32, start: Int64) -> Int64:
    """The number of the word each of these places (ascending) is in: by search when they are few, else by
    counting separators."""
    if 64 * len(start) < len(column):
        return np.searchsorted(np.flatnonzero(column == SEPARATOR), start) - 1
    numbers = np.cumsum(column == SEPARATOR, dtype=np.int32)
    return numbers[start].astype(np.int64) - 1


def _find_in(column: Int32, weights: Int64, match: _Matcher) -> Places:
    """All occurrences of the candidates in one compact column."""
    start, pair = match.find(column)
    return Places(start, start + 1, pair, weights[_words_at(column, start)])


def _describe_in(column: Int32, places: Places, disjoint: bool) -> Occurrences:
    """What stands around these places of a compact column."""
    start = places.start
    before, after = column[start - 1].astype(np.int64), column[start + 2].astype(np.int64)
    found = Occurrences(start, places.second, start + 2, places.pair, places.weight, before, after, start - 1)
    if disjoint:
        found.run_after = _run_in(column, places.second, 1)
        found.run_before = _run_in(column, start, -1)
    return found


def _chains_again(chains: ChunkList, found_by: ChainFinder, finder: ChainFinder, links: Links) -> ChunkList:
    """The chains that stand in others, which were made of more links."""
    column, weights = _chain_column(chains, found_by)
    return finder.count(column, weights, links.refused(column))


def _chain_column(chains: ChunkList, finder: ChainFinder) -> tuple[Int32, Int64]:
    """Distinct chains as words of a small column."""
    flat, offsets = finder.tokens(chains)
    return write_column(flat, offsets, chains.n)


def _no_pairs() -> pl.DataFrame:
    return pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64})


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
