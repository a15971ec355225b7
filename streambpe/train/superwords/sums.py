"""Neighbours and runs added up: `neighbours.parquet` in the folder of phase two, and the engine's words.

    neighbours-*.parquet   a stretch's pairs           -> neighbours.parquet: every pair once, ordered by its key
    runs-*.parquet         a stretch's distinct runs   -> each run once, as the engine's words (never a table)

The files are the log of counting: each appears whole or not at all, and they are removed when their sum is there.
A threshold T is a WHERE over the sum, and table `superword_neighbours` of state.duckdb is filled from it: no pair goes
through Python to get there.

What is added up at once fits the memory: neighbours by ranges of their keys, a few files at a time, with numpy (in
half the time that SQL takes); runs by ranges of a number that spreads them evenly (column `by`). One GROUP BY over
everything would spill, and it needs more memory the more there is: in 48 MB it ended without a result on 6.3 million
distinct runs. By ranges that is done in 32 MB.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Int32, Int64
from streambpe.core.strings import arrow_buffers
from streambpe.failpoints import failpoint
from streambpe.files import whole_file
from streambpe.resources import Resources
from streambpe.store.checksums import add_checksum
from streambpe.store.database import open_store
from streambpe.store.made_of import parquet_note
from streambpe.store.sqlfiles import query_batches, query_frame, run_sql
from streambpe.system import remove_folder

LEAST_BYTES = 32 << 20  # of DuckDB's buffers
_NEIGHBOUR_BYTES = 300  # of one pair of one file while pairs are ordered and added up
_RUN_BYTES = 300  # of one run of one file while runs are grouped, and twice its symbols
_FILES = 16  # of neighbours that are added up together
_GROUP_ROWS = 1 << 16  # of a sum in a row group: a range of keys is read from all files
_SPREAD = 1 << 63  # column `by` is below this
NEIGHBOURS = pa.schema([("key", pa.int64()), ("n", pa.int64())])  # key: left << 32 | right, or of a merge (stage2.py)


class Sums(msgspec.Struct, frozen=True):
    """What one phase two adds up."""

    path: Path  # of the neighbours
    resources: Resources  # memory: what adding up may take

    def _open(self, least_bytes: int = LEAST_BYTES) -> contextlib.closing[duckdb.DuckDBPyConnection]:
        may, most = self.resources, max(self.resources.memory_bytes, least_bytes)
        con = open_store(":memory:", memory_bytes=most, threads=may.threads, temp_dir=may.temp_dir)
        return contextlib.closing(con)

    def add_up_neighbours(self, files: Sequence[Path], made_of: str) -> None:
        """Add up the neighbours of part files (key, n), and remove these."""
        sums, left = self.path.with_name("sums"), list(files)
        remove_folder(sums)
        sums.mkdir(0o700)
        while len(left) > _FILES:
            some, left = left[:_FILES], left[_FILES:]
            left.append(sums / f"{len(left)}.parquet")  # there are ever fewer, so no name comes twice
            self._write_sum(some, left[-1], NEIGHBOURS)
            for path in some:
                if path.parent == sums:
                    path.unlink()
        with whole_file(self.path) as made:
            self._write_sum(left, made, NEIGHBOURS.with_metadata(parquet_note(made_of, self.path.name)))
            add_checksum(made)
            failpoint("adjacency-filled")
        failpoint("adjacency-written")
        remove_folder(sums)
        for path in files:
            path.unlink()

    def _write_sum(self, files: Sequence[Path], path: Path, schema: pa.Schema) -> None:
        """Add up a few files, a range of keys at a time."""
        at_once = max(self.resources.memory_bytes, LEAST_BYTES) // _NEIGHBOUR_BYTES
        with contextlib.ExitStack() as opened:
            read = [opened.enter_context(pq.ParquetFile(file, pre_buffer=False)) for file in files]
            out = opened.enter_context(pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False))
            for keys, n in _ranges(read, at_once):
                order = np.argsort(keys, kind="stable")  # fast, because it finds the stretches that are ordered
                keys, n = keys[order], n[order]
                first = np.flatnonzero(np.diff(keys, prepend=-1 - keys[0]))
                out.write_table(pa.table([keys[first], np.add.reduceat(n, first)], NEIGHBOURS), _GROUP_ROWS)

    def merges(self) -> list[tuple[int, int]]:
        """(the place of a merge among the words, what it counts in stage 2) of those whose pair stood there."""
        with self._open() as con:
            return run_sql(con, "list_merges", neighbours=str(self.path))

    def keys(self, least: int) -> Int64:
        """left << 32 | right of the neighbours that stand in at least so many places, ascending."""
        with self._open() as con:
            return query_frame(con, "list_neighbours", neighbours=str(self.path), least=least)["key"].to_numpy()

    def counts_at(self, ranks: Sequence[int], least: int) -> list[int]:
        """The counts at these places (from 0) of all neighbours that count `least` or more, in falling order; places
        behind the last are left out."""
        with self._open() as con:
            rows = run_sql(con, "list_neighbour_counts", neighbours=str(self.path), least=least)
        # count 9 by 2 pairs, 5 by 1, 3 by 4: behind 2 3 7; the pairs at ranks 0 1 2 6 count 9 9 5 3
        behind = list(accumulate(pairs for _, pairs in rows))
        return [rows[bisect_right(behind, rank)][0] for rank in ranks if behind and rank < behind[-1]]

    def runs(self, files: Sequence[Path]) -> Iterator[tuple[Int32, Int64, Int64]]:
        """(symbols, offsets, n): each distinct run of part files (run, by, n) once, by (by, run)."""
        if not files:
            return
        listed = [str(path) for path in files]
        footers = [pq.read_metadata(path) for path in files]
        groups = [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]
        sizes = [group.column(0).total_uncompressed_size for group in groups]  # bytes of the runs
        least_bytes = LEAST_BYTES + 4 * max(sizes, default=0)  # a run is held whole
        needed = _RUN_BYTES * sum(group.num_rows for group in groups) + 2 * sum(sizes)
        pieces = max(1, -(-needed // max(self.resources.memory_bytes, least_bytes)))
        borders = [_SPREAD * at // pieces for at in range(pieces + 1)]
        with self._open(least_bytes) as con:
            for low, end in pairwise(borders):
                yield from map(_as_runs, query_batches(con, "learning/sum_runs", files=listed, low=low, high=end - 1))


def _ranges(files: Sequence[pq.ParquetFile], at_once: int) -> Iterator[tuple[Int64, Int64]]:
    """(key, n) of all rows, a range of keys at a time, with about so many rows. A file has stretches that are ordered
    by key, in small row groups, and a range ends where one of these begins.

    file 1   row groups 3 5 7 | 9 11    about 4 rows at once: those below 4, below 9, and all others
    file 2   row groups 4 5 | 6
    """
    found = []  # (lowest key, highest, rows, number of the file, of the row group)
    for number, file in enumerate(files):
        for at in range(file.num_row_groups):
            group = file.metadata.row_group(at)
            if group.num_rows:
                keys = group.column(0).statistics
                found.append((keys.min, keys.max, group.num_rows, number, at))
    low, high, rows, owner, place = np.array(sorted(found), np.int64).reshape(-1, 5).T
    starts = np.flatnonzero(np.diff(np.cumsum(rows) // at_once, prepend=-1))
    for begin, end in pairwise([*np.unique(low[starts]).tolist(), (1 << 63) - 1]):
        within = np.flatnonzero((low < end) & (high >= begin))
        tables = [
            files[number].read_row_groups(place[within[owner[within] == number]].tolist(), use_threads=False)
            for number in np.unique(owner[within]).tolist()
        ]
        keys, n = (np.concatenate([table[name].to_numpy() for table in tables]) for name in ("key", "n"))
        wanted = (keys >= begin) & (keys < end)
        yield keys[wanted], n[wanted]


def _as_runs(batch: pa.RecordBatch) -> tuple[Int32, Int64, Int64]:
    offsets, symbols = arrow_buffers(batch.column("run"))
    first = offsets[0]
    return symbols[first : offsets[-1]].view(np.int32), (offsets - first) // 4, batch.column("n").to_numpy()
