"""Questions about the documents as tasks: each reads its own shard of them.

    shard_neighbours   leaves rows (key, n)       neighbours-0-8388608.parquet; under uw, keys below 0 are merges
    shard_runs         leaves rows (run, by, n)   runs-5-0c29bb4e5c9d-0-8388608.parquet

The shards (store/shards.py) are between cuts at which stretches of the input begin, so that a file is used again after
a kill if the work is cut in the same way again. A file appears whole under its name, and the first attempt at a task
that commits one wins: all attempts leave the same rows. A task counts into a table that fits the memory it is given;
whenever that is full it becomes a section of the file, so that one pair or run may stand in several rows. Places where
tests let a process die, for attempt N at a question of this kind: KIND-N-begun, KIND-N-written and KIND-N-committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Int32
from streambpe.core.pairs import PairTable, count_from_here
from streambpe.core.runs import RUNS
from streambpe.errors import LimitError
from streambpe.failpoints import failpoint
from streambpe.resources import Resources
from streambpe.runners.attempts import commit_first, own_folder
from streambpe.runners.ray import Needs, OnRay
from streambpe.runners.runner import Attempt, Calls, Here, Runner
from streambpe.store.checksums import add_checksum
from streambpe.store.made_of import has_note, parquet_note
from streambpe.store.sequences import SequencePart
from streambpe.store.shards import cuts_of, pieces_of
from streambpe.system import remove_folder
from streambpe.text.split import alarm
from streambpe.train.superwords.neighbours import BARRIER, PART_BYTES, PartsReader
from streambpe.train.superwords.runs import Kept, RunCounting
from streambpe.train.superwords.sums import NEIGHBOURS

# Places between two cuts: a 32nd of all within these bounds. A kill costs each worker a task; each task's file repeats
# the frequent rows of the others.
LEAST_TASK, MOST_TASK = 8 << 20, 64 << 20
_TASKS = 32
MOST_PLACES = 128 << 20  # the same where this process works alone
_LEAST_TABLE = 64 << 20
_GROUP_ROWS = 1 << 13  # of neighbours in a row group: a range of keys is read from all files
_KEY_BYTES = 48  # of a neighbour that runs are not cut between, in a worker
_ATTEMPTS = "attempts"  # the folder where attempts at tasks write
_SHARED_BYTES = 24 << 20  # of what all tasks have in common (words, eligible chunks), while a worker gets it


class TaskStopped(Exception):
    """The task was told to stop."""


Ends = tuple[int, int]  # what one task answers for: the places from the first to the second
Advance = Callable[[int], None]  # told how many places were read; may raise to stop between two parts


def readers(resources: Resources, parts: Sequence[SequencePart]) -> int:
    """How many threads of this process may each hold a part."""
    largest = max((part.places for part in parts), default=0)
    return max(1, min(resources.threads, resources.memory_bytes // 2 // max(1, largest * PART_BYTES)))


@dataclass(frozen=True)
class DocumentTasks:
    """What all tasks of one question have in common. They leave files (key, n) that add up to the counts of all
    neighbours; or, told what runs are not cut between, (run, by, n), of all runs that hold two symbols or more."""

    prefix: str  # of their files; it begins with the kind of question
    folder: Path  # of these
    made_of: str  # what all answers follow from
    reader: PartsReader
    kept: Kept | None = None
    threads: int = 1  # that read for a task

    @property
    def kind(self) -> str:
        """In messages, and in the names of places where tests let a process die."""
        return self.prefix.partition("-")[0]

    def file(self, ends: Ends) -> Path:
        """That of a shard."""
        return self.folder / f"{self.prefix}-{ends[0]}-{ends[1]}.parquet"

    def describe(self, argument: Ends) -> str:
        """A task in messages."""
        return f"{self.kind} of places {argument[0]:,} to {argument[1]:,}"

    @property
    def held_bytes(self) -> int:
        """Of a task's memory, for reading and for what all tasks have in common."""
        largest = max((part.places for part in self.reader.parts), default=0)
        return self.threads * PART_BYTES * largest + (_KEY_BYTES * len(self.kept.keys) if self.kept else 0)

    def answer(self, resources: Resources, advance: Advance) -> list[Path]:
        """Have all files made; those that are there and were made of the same are kept.

        `resources`: what all tasks may take. Threads of this process do them, or Ray if that is asked for and the
        memory has room for it; who works never changes an answer.
        """
        places = self.reader.places
        if not places:
            return []
        runner: Runner = Here(1, resources.memory_bytes)
        if resources.engine == "ray":
            needs = self.held_bytes + _LEAST_TABLE
            with contextlib.suppress(LimitError):
                runner = OnRay(Needs(resources, 0, needs, self.folder / "ray", extra_bytes=_SHARED_BYTES))
        tasks, size = self, min(max(places // _TASKS, LEAST_TASK), MOST_TASK)
        if isinstance(runner, Here):
            tasks = replace(self, threads=readers(resources, self.reader.parts))
            size = MOST_PLACES // self.reader.effort
        shards = {self.file(ends): ends for ends in pairwise(cuts_of(self.reader.parts, size, 0, places))}
        for path in self.folder.glob(f"{self.prefix}-[0-9]*-[0-9]*.parquet"):
            if path not in shards or not has_note(path, self.made_of):
                path.unlink()
        left = [ends for path, ends in shards.items() if not path.exists()]
        advance(places - sum(stop - start for start, stop in left))
        task, attempts = shard_neighbours if self.kept is None else shard_runs, self.folder / _ATTEMPTS
        remove_folder(attempts)  # first, so that what a dead command left cannot commit any more
        try:
            runner.map(Calls(task, left, on_advance=advance, describe=self.describe, shared=tasks))
        finally:
            runner.close()
            remove_folder(attempts)
        self.reader.close()
        return list(shards)

    def table_bytes(self, attempt: Attempt) -> int:
        """Of a task's memory, for its table; as much is for taking a full one out."""
        return max(attempt.memory_bytes - self.held_bytes, _LEAST_TABLE) // 2

    def pieces(self, reader: PartsReader, ends: Ends, attempt: Attempt) -> Iterator[tuple[Int32, bool]]:
        """What a task reads; see pieces_of."""
        if attempt.own_process:
            alarm.turn_on()
        for piece in pieces_of(reader.parts, *ends, reader.read, self.threads, attempt.advance):
            if attempt.is_stopping():
                raise TaskStopped
            yield piece

    @contextlib.contextmanager
    def writing(self, ends: Ends, attempt: Attempt, schema: pa.Schema, compression: str) -> Iterator[pq.ParquetWriter]:
        """Write a task's file: it is committed when the block ends, unless the task was told to stop."""
        target, place = self.file(ends), f"{self.kind}-{attempt.number}"
        own = own_folder(self.folder / _ATTEMPTS, target.stem, attempt.number)
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


def shard_neighbours(ends: Ends, attempt: Attempt) -> None:
    """Count the neighbours of a shard."""
    shards: DocumentTasks = attempt.shared
    reader = shards.reader.counting()
    with shards.writing(ends, attempt, NEIGHBOURS, "zstd") as out:
        table, last = PairTable(shards.table_bytes(attempt)), BARRIER

        def write_section() -> None:
            nonlocal table
            out.write_table(pa.table([*table.take()], schema=NEIGHBOURS), row_group_size=_GROUP_ROWS)
            table = PairTable(shards.table_bytes(attempt))

        for piece, follows in shards.pieces(reader, ends, attempt):
            between = [np.array([last, piece[0]], np.int32)] if follows else []
            for symbols in (*between, piece):
                state = count_from_here()
                while not table.count(symbols, state):
                    write_section()
            last = int(piece[-1])
        write_section()
        out.write_table(pa.table([*reader.counted()], schema=NEIGHBOURS))


def shard_runs(ends: Ends, attempt: Attempt) -> None:
    """Count the runs of a shard."""
    shards: DocumentTasks = attempt.shared
    assert shards.kept is not None
    with shards.writing(ends, attempt, RUNS, "lz4") as out:
        counting = RunCounting(shards.kept.pairs(), shards.table_bytes(attempt), out)
        for symbols, follows in shards.pieces(shards.reader, ends, attempt):
            counting.go_on(symbols, follows)
        counting.end()
        counting.write_section()
