"""Neighbours and runs added up by SQL: the private database of phase two, `learning.duckdb` in its folder.

    neighbours-*.parquet   a stretch's pairs           -> table neighbours: every pair once, ordered by its ids
    runs-*.parquet         a stretch's distinct runs   -> each run once, as the engine's words (never a table)

The files are the log of counting: each appears whole or not at all, and they are removed when their sum is committed.
A threshold T is a WHERE over the table, and table `superword_neighbours` of
state.duckdb is filled from it: no pair goes through Python to get there. Nobody but the training opens this database,
so nobody can hold it.

What is added up at once fits the memory: neighbours by ranges of their keys, runs by ranges of a number
that spreads them evenly (column `by`). One GROUP BY over everything would spill, and it needs more memory the more
there is: in 48 MB it ended without a result on 6.3 million distinct runs. By ranges that is done in 32 MB.
"""

from __future__ import annotations

import contextlib
import re
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
from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.store.database import append, commit, open_store
from streambpe.store.sqlfiles import query_batches, query_frame, run_sql

LEAST_BYTES = 32 << 20  # of DuckDB's buffers
_NEIGHBOUR_BYTES = 200  # of one pair of one file while pairs are grouped and ordered
_RUN_BYTES = 300  # of one run of one file while runs are grouped, and twice its symbols
_STEP = 512  # rows of a file, of which one is looked at to find ranges of keys
_SPREAD = 1 << 63  # column `by` is below this
_DAMAGED = re.compile(  # what DuckDB says of a file that is cut off, overwritten, or another one
    "enough bytes|valid DuckDB database|orrupt database|computed checksum|ailed to load metadata|ailed to deserialize"
    "|Table with name|INTERNAL Error"
)


class Sums(msgspec.Struct, frozen=True):
    """The private database of one phase two."""

    path: Path
    memory_bytes: int
    threads: int
    temp_dir: Path | None

    @contextlib.contextmanager
    def _open(self) -> Iterator[duckdb.DuckDBPyConnection]:
        memory_bytes = max(self.memory_bytes, LEAST_BYTES)
        con = open_store(self.path, memory_bytes=memory_bytes, threads=self.threads, temp_dir=self.temp_dir)
        with contextlib.closing(con):
            run_sql(con, "learning/tables")
            yield con

    def forget(self) -> None:
        """Remove the database, and what DuckDB keeps beside it."""
        for path in (self.path, self.path.with_name(f"{self.path.name}.wal")):
            path.unlink(missing_ok=True)

    def hold(self, made_of: str) -> bool:
        """Whether the neighbours are there and were made of this; a database that cannot be read counts as absent."""
        if not self.path.exists():
            return False
        try:
            with self._open() as con:
                return run_sql(con, "get_sum_note") == [(made_of,)]
        except (RunError, duckdb.Error):
            return False

    def add_up_neighbours(self, files: Sequence[Path], chunks: pl.DataFrame, made_of: str) -> None:
        """Make table neighbours from part files (key, n) and remove them; chunks: the text of the symbols, as rows
        (symbol, chunk)."""
        self.forget()
        listed = [str(path) for path in files]
        with self._open() as con:
            ranges = key_ranges(con, listed, max(self.memory_bytes, LEAST_BYTES) // _NEIGHBOUR_BYTES)
            con.begin()
            append(con, "symbols", chunks)
            for low, high in ranges:
                run_sql(con, "learning/sum_neighbours", files=listed, low=low, high=high)
            run_sql(con, "put_sum_note", made_of=made_of)
            failpoint("adjacency-filled")
            commit(con)
        failpoint("adjacency-written")
        for path in files:
            path.unlink()

    def keys(self, least: int) -> Int64:
        """left << 32 | right of the neighbours that stand in at least so many places, ascending."""
        with self._reading() as con:
            return query_frame(con, "list_neighbours", least=least)["key"].to_numpy()

    def counts_at(self, ranks: Sequence[int], least: int) -> list[int]:
        """The counts at these places (from 0) of all neighbours that count `least` or more, in falling order; places
        behind the last are left out."""
        with self._reading() as con:
            rows = run_sql(con, "list_neighbour_counts", least=least)
        # count 9 by 2 pairs, 5 by 1, 3 by 4: behind 2 3 7; the pairs at ranks 0 1 2 6 count 9 9 5 3
        behind = list(accumulate(pairs for _, pairs in rows))
        return [rows[bisect_right(behind, rank)][0] for rank in ranks if behind and rank < behind[-1]]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """To ask the database; a damaged one is removed, since all in it can be made again."""
        try:
            with self._open() as con:
                yield con
        except RunError as why:
            if not _DAMAGED.search(str(why)):  # it is held elsewhere, or there are too many open files
                raise
            self.forget()
            raise RunError(
                f"{self.path} was damaged ({str(why).splitlines()[0]}). It was removed, and nothing else was lost: the "
                f"neighbours in it are counted again. Give the same command again."
            ) from None

    def runs(self, files: Sequence[Path]) -> Iterator[tuple[Int32, Int64, Int64]]:
        """(symbols, offsets, n): each distinct run of part files (run, by, n) once, by (by, run)."""
        if not files:
            return
        listed = [str(path) for path in files]
        footers = [pq.read_metadata(path) for path in files]
        groups = [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]
        sizes = [group.column(0).total_uncompressed_size for group in groups]  # bytes of the runs
        memory_bytes = max(self.memory_bytes, LEAST_BYTES + 4 * max(sizes, default=0))  # a run is held whole
        needed = _RUN_BYTES * sum(group.num_rows for group in groups) + 2 * sum(sizes)
        pieces = max(1, -(-needed // memory_bytes))
        borders = [_SPREAD * at // pieces for at in range(pieces + 1)]
        ranges = [(low, high - 1) for low, high in pairwise(borders)]
        with contextlib.closing(
            open_store(":memory:", memory_bytes=memory_bytes, threads=self.threads, temp_dir=self.temp_dir)
        ) as con:
            for low, high in ranges:
                yield from map(_as_runs, query_batches(con, "learning/sum_runs", files=listed, low=low, high=high))


def key_ranges(con: duckdb.DuckDBPyConnection, files: Sequence[str], rows_at_once: int) -> list[tuple[int, int]]:
    """(lowest, highest) of consecutive ranges with about so many rows of these files, or one key's rows.

    file 1   keys 3 5 7 9 11    seen 3 7 11    (STEP 2)
    file 2   keys 4 5 6         seen 4 6
    all      3 4 6 7 11         4 rows at once: from 0 on, from 6 on, from 11 on
    """
    if not files:
        return []
    seen = query_frame(con, "learning/some_keys", files=files, step=_STEP)["key"].to_numpy()
    borders = [0, *np.unique(seen[:: max(1, rows_at_once // _STEP)])[1:].tolist()]
    return [(low, high - 1) for low, high in pairwise([*borders, 1 << 63])]


def _as_runs(batch: pa.RecordBatch) -> tuple[Int32, Int64, Int64]:
    offsets, symbols = arrow_buffers(batch.column("run"))
    first = offsets[0]
    return symbols[first : offsets[-1]].view(np.int32), (offsets - first) // 4, batch.column("n").to_numpy()
