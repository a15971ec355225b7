"""Counts of pairs, added up over blocks within a limit of memory; what does not fit waits on disk.

Each thread counts into a table of its own (core/pairs.py). A table that is full goes to disk as a file of rows
(key, count), key = left << 32 | right, laid out by parts of a hash of the pair:

    spill 0    part 0: (t,h) 5 · (o,n) 2        part 1: (i,n) 4
    spill 1    part 0: (t,h) 1                  part 1: (i,n) 3 · (e,r) 2
    added up   part 0: (t,h) 6 · (o,n) 2        part 1: (i,n) 7 · (e,r) 2

Parts are added up one after the other in a table of the whole limit; a part too large for it is added up in halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from streambpe.arrays import Bool, Int32, Int64, write_array
from streambpe.core.pairs import PairTable, count_from_here
from streambpe.train.engine.learning import NO_PAIRS, HotPairs

Judge = Callable[[Int64, Int64], tuple[Bool, Bool]]  # see State.judged
PARTS = 16
LEAST_BYTES = 1 << 9  # of a table
_ROW = 16  # bytes


class PairCounter:
    """Pairs with their counts, from any number of threads, in about `limit` bytes."""

    def __init__(self, limit: int, folder: Path, threads: int = 1) -> None:
        """`folder`: where full tables go."""
        self.limit = max(limit, LEAST_BYTES)
        self.folder = folder
        self.threads = threads
        self.spills = 0
        self._lock = Lock()
        self._idle: list[PairTable] = []  # tables that no thread is using
        self._files: list[tuple[Path, Int64]] = []  # each with where its parts end

    def count(self, column: Int32, weights: Int64, disjoint: bool) -> None:
        """Add the pairs of a block."""
        state = count_from_here()
        with self._table() as table:
            while not table.count(column, state, weights, disjoint):
                self._spill(table)

    def add(self, rows: Int64) -> None:
        """Add rows (key, count)."""
        with self._table() as table:
            at = 0
            while (at := table.add_rows(rows, at=at)) < len(rows):
                self._spill(table)

    @contextmanager
    def _table(self) -> Iterator[PairTable]:
        """A table that no other thread uses."""
        with self._lock:
            table = self._idle.pop() if self._idle else PairTable(max(self.limit // self.threads, LEAST_BYTES))
        yield table
        with self._lock:
            self._idle.append(table)

    def _spill(self, table: PairTable) -> None:
        """Write what a table holds, and empty it."""
        rows, ends = table.parted(PARTS)
        with self._lock:
            path = self.folder / f"pairs_{self.spills:05d}"
            self.spills += 1
            self._files.append((path, ends))
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as out:
            write_array(rows, out)
        table.clear()

    def tables(self) -> Iterator[PairTable]:
        """All pairs with their full counts, in tables that share no pair, each good until the next is asked for. The
        counter is used up."""
        while len(self._idle) > 1:
            self.add(self._idle.pop().parted(1)[0])
        if self._files:
            for table in self._idle:
                self._spill(table)
            self._idle = [PairTable(self.limit)]
            for part in range(PARTS):
                yield from self._sums(self._idle[0], part, PARTS)
        else:
            yield from self._idle
        for path, _ in self._files:
            path.unlink()
        self._files, self._idle = [], []

    def _sums(self, table: PairTable, part: int, parts: int) -> Iterator[PairTable]:
        """The pairs of one part of so many; if they do not fit, those of its two halves in turn."""
        table.clear()
        if all(self._add_part(table, *file, part, parts) for file in self._files):
            yield table
        else:
            yield from self._sums(table, part, 2 * parts)
            yield from self._sums(table, part + parts, 2 * parts)

    def _add_part(self, table: PairTable, path: Path, ends: Int64, part: int, parts: int) -> bool:
        """Add a file's rows of a part; False if the table is full."""
        begin = int(ends[part % PARTS - 1]) if part % PARTS else 0
        size = int(ends[part % PARTS]) - begin
        rows = np.fromfile(path, np.int64, 2 * size, offset=begin * _ROW).reshape(-1, 2)
        return table.add_rows(rows, part, parts) == size

    def hot_pairs(self, at_least: int, most: int, judge: Judge | None = None) -> tuple[HotPairs, HotPairs]:
        """The pairs that may merge, and those that hold chains together, as `judge` says: of each, all that count
        `at_least`, or if they are more than `most`, the best of them. Of the second kind, none is needed that counts
        less than all of the first. The counter is used up."""
        hot = held = NO_PAIRS._replace(floor=at_least)
        for table in self.tables():
            keys, counts = table.parted(1, hot.floor)[0].T
            every = HotPairs(keys >> 32, keys & 0xFFFFFFFF, counts.copy(), hot.floor)
            del keys, counts
            merging: Bool | slice
            holding: Bool | slice
            merging, holding = judge(every.left, every.right) if judge else (slice(None), slice(0))
            hot, held = hot.with_others(every.only(merging), most), held.with_others(every.only(holding), most)
        return hot.sorted_by_key(), held.sorted_by_key()  # not as threads and files happened to leave them
