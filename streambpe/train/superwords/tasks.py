"""Questions about the documents as tasks: each reads its own shard of them.

    shard_neighbours   leaves rows (key, n)       neighbours-at-0-8388608.parquet
    shard_runs         leaves rows (run, by, n)   runs-5-0c29bb4e5c9d-at-0-8388608.parquet
    shard_digest       returns a number

The shards (store/shards.py) are between cuts that follow from the documents alone, so that a file is used again after
a kill whoever goes on, in however many processes (answers.py). A task counts into a table that fits the memory it is
given; whenever that is full it becomes a section of the file, so that one pair or run may stand in several rows.
Places where tests let a process die: those of answers.py, and documents-N-begun.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Int32, Int64
from streambpe.core.documents import DocumentSum, UInt64
from streambpe.core.pairs import PairTable
from streambpe.core.runs import KeptPairs, RunCounter
from streambpe.failpoints import failpoint
from streambpe.runners.runner import Attempt
from streambpe.runners.worth import Cost
from streambpe.store.documents import hashes_of_chunks, told_digest
from streambpe.store.sequences import OfChunks, SequencePart, read_stretch
from streambpe.store.shards import Piece, cuts_of, pieces_of
from streambpe.train.superwords.answers import Answers, Stretch, TaskStopped
from streambpe.train.superwords.neighbours import BARRIER, PART_BYTES, Reader
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
# English more took (docs/scale.md; of the digest, a run on a busy machine), the second assumed to be half of it.
# benchmarks/task_costs.py measures both. They decide who works, never what comes out.
NEIGHBOUR_SECONDS = (4e-8, 2e-8)
RUN_SECONDS = (9e-8, 4.5e-8)
_DIGEST_SECONDS = (1.5e-8, 7.5e-9)
_KEY_BYTES = 48  # of a neighbour that runs are not cut between, in a worker


def cuts_for(parts: Sequence[SequencePart]) -> list[int]:
    """Where the documents are cut."""
    places = sum(part.places for part in parts)
    return cuts_of(parts, min(max(places // _TASKS, LEAST_TASK), MOST_TASK))


def _part_bytes(parts: Sequence[SequencePart]) -> int:
    return PART_BYTES * max((part.places for part in parts), default=0)


@dataclass(frozen=True)
class Shards(Answers):
    """What all tasks of one question have in common that leave files."""

    reader: Reader
    prefix: str  # of their files, and of those that are counted in one go

    @property
    def stem(self) -> str:
        """See Answers."""
        return f"{self.prefix}-at"

    @property
    def title(self) -> str:
        """See Answers."""
        return _title(self.kind)

    @property
    def cuts(self) -> list[int]:
        """Where the documents are cut."""
        return cuts_for(self.reader.parts)

    @property
    def begun(self) -> bool:
        """Whether tasks have left files."""
        return next(self.folder.glob(f"{self.stem}-*"), None) is not None

    @property
    def part_bytes(self) -> int:
        """Of a task's memory, for reading."""
        return _part_bytes(self.reader.parts)

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

    def answer(self, task: Callable[[Stretch, Attempt], None], crew: Crew, advance: Advance) -> list[Path]:
        """Have all files made."""
        for other in self.folder.glob(f"{self.prefix}-[0-9]*.parquet"):  # of one go that was not finished
            other.unlink()
        return self.answered(task, list(pairwise(self.cuts)), crew, advance)


def _title(kind: str) -> str:
    return f"{kind} of places"


class _Shard:
    """One attempt at a task."""

    def __init__(self, shards: Shards, task: Stretch, attempt: Attempt) -> None:
        self._shards, self._task, self._attempt = shards, task, attempt
        # the other half is for taking a full table out
        self.table_bytes = max(attempt.memory_bytes - shards.part_bytes - shards.held_bytes, _LEAST_TABLE) // 2

    def pieces(self) -> Iterator[Piece]:
        """What the task reads."""
        reader = self._shards.reader
        for piece in pieces_of(reader.parts, self._task.start, self._task.stop, reader.read, self._attempt.advance):
            if self._attempt.stopping:
                raise TaskStopped
            yield piece

    def writing(self, schema: pa.Schema, compression: str) -> contextlib.AbstractContextManager[pq.ParquetWriter]:
        """See Answers."""
        return self._shards.writing(self._task, self._attempt, schema, compression)


_NEIGHBOURS = pa.schema([("key", pa.int64()), ("n", pa.int64())])


def neighbour_shards(reader: Reader, folder: Path, made_of: str) -> Shards:
    """The documents in shards whose neighbours are counted."""
    return Shards("neighbours", folder, made_of, reader, "neighbours")


def shard_neighbours(task: Stretch, attempt: Attempt) -> None:
    """Count the neighbours of a shard."""
    shard = _Shard(attempt.shared, task, attempt)
    with shard.writing(_NEIGHBOURS, "zstd") as out:
        table, last = PairTable(shard.table_bytes), BARRIER
        firsts: list[Int64] = []

        def write_section() -> None:
            nonlocal table
            keys, n = table.take()
            out.write_table(pa.table([keys, n], schema=_NEIGHBOURS), row_group_size=_GROUP_ROWS)
            firsts.append(some_keys(keys))
            table = PairTable(shard.table_bytes)

        for piece in shard.pieces():
            between = [np.array([last, piece.symbols[0]], np.int32)] if piece.follows else []
            for symbols in (*between, piece.symbols):
                at = 0
                while (at := table.count(symbols, at)) < len(symbols) - 1:
                    write_section()
            last = int(piece.symbols[-1])
        write_section()
        out.add_key_value_metadata(keys_note(*firsts))


@dataclass(frozen=True)
class RunShards(Shards):
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


def shard_runs(task: Stretch, attempt: Attempt) -> None:
    """Count the runs of a shard."""
    shards: RunShards = attempt.shared
    shard = _Shard(shards, task, attempt)
    with shard.writing(RUNS, "lz4") as out:

        def write_section(_: int, counter: RunCounter) -> None:
            for table in taken_runs(counter):
                out.write_table(table)

        counting = RunCounting(shards.kept, shard.table_bytes, write_section)
        for piece in shard.pieces():
            counting.go_on(piece.begin, piece.symbols, piece.follows)
        counting.end()
        write_section(0, counting.counter)


@dataclass(frozen=True)
class DigestShards:
    """The documents in shards that are hashed."""

    folder: Path  # of the stored sequences
    parts: Sequence[SequencePart]

    @cached_property
    def hashes(self) -> OfChunks[UInt64]:
        """Of the chunks of each part."""
        return hashes_of_chunks(self.folder)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which makes the hashes itself."""
        return {"folder": self.folder, "parts": self.parts}

    def crew(self, work: Work) -> Crew | None:
        """Who does it by tasks; None: this process, in one go."""
        places = sum(part.places for part in self.parts)
        cost = Cost(places * _DIGEST_SECONDS[0], places * _DIGEST_SECONDS[1])
        return work.crew(cost, len(cuts_for(self.parts)) - 1, _part_bytes(self.parts), __name__) if places else None

    def answer(self, crew: Crew) -> str:
        """The digest. Where a document has many parts, one task hashes them, and others look for an end in vain."""
        total = 0

        def add(_: Stretch, hashed: int) -> tuple[()]:
            nonlocal total
            total += hashed
            return ()

        tasks = [Stretch(_title("documents"), *cuts) for cuts in pairwise(cuts_for(self.parts))]
        crew.do(shard_digest, self, tasks, lambda places: None, add)
        return told_digest(total)


def shard_digest(task: Stretch, attempt: Attempt) -> int:
    """The sum of the hashes of a shard's documents."""
    shards: DigestShards = attempt.shared
    failpoint(f"documents-{attempt.number}-begun")
    total = DocumentSum()

    def read(part: SequencePart) -> Int32:
        return read_stretch(shards.folder, part, shards.hashes)[1]

    for piece in pieces_of(shards.parts, task.start, task.stop, read, attempt.advance):
        if not piece.follows:
            total.end_document()
        total.add(piece.symbols, shards.hashes.of(piece.part))
    total.end_document()
    return total.value
