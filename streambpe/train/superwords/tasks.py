"""Questions about the documents as tasks: each reads its own shard of them.

    shard_neighbours   leaves rows (key, n)       neighbours-at-0-8388608.parquet
    shard_runs         leaves rows (run, by, n)   runs-5-0c29bb4e5c9d-at-0-8388608.parquet

The shards (store/shards.py) are between cuts that follow from the documents alone, so that a file is used again after
a kill whoever goes on, in however many processes. A file appears whole under its name, and the first attempt at a task
that commits one wins: all attempts leave the same rows. A task counts into a table that fits the memory it is
given; whenever that is full it becomes a section of the file, so that one pair or run may stand in several rows.
Places where tests let a process die, for attempt N at a question of this kind: KIND-N-begun, KIND-N-written and
KIND-N-committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Int64
from streambpe.core.pairs import PairTable
from streambpe.core.runs import KeptPairs, RunCounter
from streambpe.failpoints import failpoint
from streambpe.runners.attempts import commit_first, own_folder
from streambpe.runners.runner import Attempt
from streambpe.runners.worth import Cost
from streambpe.store.checksums import add_checksum
from streambpe.store.made_of import has_note, parquet_note
from streambpe.store.shards import Piece, cuts_of, pieces_of
from streambpe.system import remove_folder
from streambpe.train.superwords.neighbours import BARRIER, PART_BYTES, PartsReader
from streambpe.train.superwords.ranges import keys_note, some_keys
from streambpe.train.superwords.runs import RUNS, OpenChunks, RunCounting, kept_pairs, taken_runs
from streambpe.train.superwords.work import Advance, Crew, Work

# Places between two cuts: a 32nd of all within these bounds. A kill costs each worker a task; each task's file repeats
# the frequent rows of the others.
LEAST_TASK, MOST_TASK = 8 << 20, 64 << 20
_TASKS = 32
_LEAST_TABLE = 64 << 20
_GROUP_ROWS = 1 << 13  # of neighbours in a row group: a range of keys is read from all files
# Seconds of a processor for a place: all, and what one thread does while others read. Estimates: the first as 70 MB of
# English more took (docs/scale.md), the second assumed to be half of it.
# benchmarks/task_costs.py measures both. They decide who works, never what comes out.
NEIGHBOUR_SECONDS = (4e-8, 2e-8)
RUN_SECONDS = (9e-8, 4.5e-8)
_KEY_BYTES = 48  # of a neighbour that runs are not cut between, in a worker


class TaskStopped(Exception):
    """The task was told to stop."""


@dataclass(frozen=True)
class PlaceRange:
    """What one task answers for: the places from `start` to `stop`."""

    kind: str  # of the question
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.kind} of places {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class TaskFiles:
    """What all tasks of one question have in common that leave files."""

    kind: str  # in messages, and in the names of places where tests let a process die
    folder: Path  # of their files
    made_of: str
    reader: PartsReader
    prefix: str  # of their files, and of those that are counted in one go

    @property
    def attempts(self) -> Path:
        """Where attempts at tasks write."""
        return self.folder / "attempts"

    def file(self, start: int, stop: int) -> Path:
        """That of a stretch."""
        return self.folder / f"{self.prefix}-at-{start}-{stop}.parquet"

    @property
    def cuts(self) -> list[int]:
        """Where the documents are cut."""
        return cuts_of(self.reader.parts, min(max(self.reader.places // _TASKS, LEAST_TASK), MOST_TASK))

    @property
    def begun(self) -> bool:
        """Whether tasks have left files."""
        return next(self.folder.glob(f"{self.prefix}-at-*"), None) is not None

    @property
    def part_bytes(self) -> int:
        """Of a task's memory, for reading."""
        return PART_BYTES * max((part.places for part in self.reader.parts), default=0)

    @property
    def held_bytes(self) -> int:
        """Of a task's memory, for what all tasks have in common."""
        return 0

    def crew(self, work: Work, seconds: tuple[float, float]) -> Crew | None:
        """Who does it by tasks; None: this process, in one go."""
        places = self.reader.places
        cost = Cost(places * seconds[0], places * seconds[1])
        needed = self.part_bytes + self.held_bytes + _LEAST_TABLE
        found = work.crew(cost, len(self.cuts) - 1, needed, __name__) if places else None
        return found or (work.alone() if self.begun else None)

    def answer(self, task: Callable[[PlaceRange, Attempt], None], crew: Crew, advance: Advance) -> list[Path]:
        """Have all files made; those that are there and were made of the same are kept."""
        for other in self.folder.glob(f"{self.prefix}-[0-9]*.parquet"):  # of one go that was not finished
            other.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_folder(self.attempts)  # first, so that what a dead command left cannot commit any more
        stretches, left = list(pairwise(self.cuts)), []
        for start, stop in stretches:
            if has_note(self.file(start, stop), self.made_of):
                advance(stop - start)
            else:
                self.file(start, stop).unlink(missing_ok=True)
                left.append(PlaceRange(self.kind, start, stop))
        try:
            crew.do(task, self, left, advance)
        finally:
            remove_folder(self.attempts)
        return [self.file(*ends) for ends in stretches]

    def table_bytes(self, attempt: Attempt) -> int:
        """Of a task's memory, for its table; as much is for taking a full one out."""
        return max(attempt.memory_bytes - self.part_bytes - self.held_bytes, _LEAST_TABLE) // 2

    def pieces(self, task: PlaceRange, attempt: Attempt) -> Iterator[Piece]:
        """What a task reads."""
        reader = self.reader
        for piece in pieces_of(reader.parts, task.start, task.stop, reader.read, attempt.advance):
            if attempt.stopping:
                raise TaskStopped
            yield piece

    @contextlib.contextmanager
    def writing(
        self, task: PlaceRange, attempt: Attempt, schema: pa.Schema, compression: str
    ) -> Iterator[pq.ParquetWriter]:
        """Write a task's file: it is committed when the block ends, unless the task was told to stop."""
        target, place = self.file(task.start, task.stop), f"{self.kind}-{attempt.number}"
        own = own_folder(self.attempts, target.stem, attempt.number)
        with contextlib.suppress(TaskStopped), own as folder:
            failpoint(f"{place}-begun")
            made = folder / target.name
            noted: Any = schema.with_metadata(parquet_note(self.made_of, target.name))
            with pq.ParquetWriter(made, noted, compression=compression, use_dictionary=False) as out:
                yield out
            add_checksum(made)
            failpoint(f"{place}-written")
            commit_first(made, target)  # another attempt's file has the same rows
            failpoint(f"{place}-committed")


_NEIGHBOURS = pa.schema([("key", pa.int64()), ("n", pa.int64())])


def neighbour_shards(reader: PartsReader, folder: Path, made_of: str) -> TaskFiles:
    """The documents in shards whose neighbours are counted."""
    return TaskFiles("neighbours", folder, made_of, reader, "neighbours")


def shard_neighbours(task: PlaceRange, attempt: Attempt) -> None:
    """Count the neighbours of a shard."""
    shards: TaskFiles = attempt.shared
    with shards.writing(task, attempt, _NEIGHBOURS, "zstd") as out:
        table, last = PairTable(shards.table_bytes(attempt)), BARRIER
        firsts: list[Int64] = []

        def write_section() -> None:
            nonlocal table
            keys, n = table.take()
            out.write_table(pa.table([keys, n], schema=_NEIGHBOURS), row_group_size=_GROUP_ROWS)
            firsts.append(some_keys(keys))
            table = PairTable(shards.table_bytes(attempt))

        for piece in shards.pieces(task, attempt):
            between = [np.array([last, piece.symbols[0]], np.int32)] if piece.follows else []
            for symbols in (*between, piece.symbols):
                at = 0
                while (at := table.count(symbols, at)) < len(symbols) - 1:
                    write_section()
            last = int(piece.symbols[-1])
        write_section()
        out.add_key_value_metadata(keys_note(*firsts))


@dataclass(frozen=True)
class RunShards(TaskFiles):
    """The documents in shards whose runs are counted."""

    keys: Int64  # neighbours that runs are not cut between, ascending
    open_chunks: OpenChunks
    symbols: int  # all symbols are below

    @cached_property
    def kept(self) -> KeptPairs:
        """What runs are not cut between, as the core has it."""
        return kept_pairs(self.keys, self.open_chunks, self.symbols)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which makes `kept` itself."""
        return {name: value for name, value in vars(self).items() if name != "kept"}

    @property
    def held_bytes(self) -> int:
        """See Shards."""
        return _KEY_BYTES * len(self.keys)


def shard_runs(task: PlaceRange, attempt: Attempt) -> None:
    """Count the runs of a shard."""
    shards: RunShards = attempt.shared
    with shards.writing(task, attempt, RUNS, "lz4") as out:

        def write_section(_: int, counter: RunCounter) -> None:
            for table in taken_runs(counter):
                out.write_table(table)

        counting = RunCounting(shards.kept, shards.table_bytes(attempt), write_section)
        for piece in shards.pieces(task, attempt):
            counting.go_on(piece.begin, piece.symbols, piece.follows)
        counting.end()
        write_section(0, counting.counter)
