"""Questions whose tasks leave a file each: what is kept of them, and how an attempt commits one.

A file appears whole under its name, and the first attempt at a task that commits one wins: all attempts leave the same
rows. After a kill, files that were made of the same are used again. Places where tests let a process die, for attempt N
of a question of this place: PLACE-N-begun, PLACE-N-written and PLACE-N-committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.failpoints import failpoint
from streambpe.runners.attempts import commit_first, own_folder
from streambpe.runners.runner import Attempt
from streambpe.store.checksums import add_checksum
from streambpe.store.made_of import has_note, parquet_note
from streambpe.system import remove_folder
from streambpe.train.superwords.work import Advance, Crew


class TaskStopped(Exception):
    """The task was told to stop."""


@dataclass(frozen=True)
class Stretch:
    """What one task answers for: from `start` to `stop`."""

    title: str  # of what stands there, in messages
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.title} {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class Answers:
    """What all tasks of one question have in common."""

    kind: str
    folder: Path  # of their files
    made_of: str

    @property
    def place(self) -> str:
        """In the names of places where tests let a process die."""
        return self.kind

    @property
    def stem(self) -> str:
        """What the names of their files begin with."""
        return self.kind

    @property
    def title(self) -> str:
        """See Stretch."""
        return self.kind

    @property
    def attempts(self) -> Path:
        """Where attempts at tasks write."""
        return self.folder / "attempts"

    def file(self, start: int, stop: int) -> Path:
        """That of a stretch."""
        return self.folder / f"{self.stem}-{start}-{stop}.parquet"

    def answered(
        self,
        task: Callable[[Stretch, Attempt], None],
        stretches: Sequence[tuple[int, int]],
        crew: Crew,
        advance: Advance = lambda places: None,
    ) -> list[Path]:
        """Have all files made; those that are there and were made of the same are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_folder(self.attempts)  # first, so that what a dead command left cannot commit any more
        left = []
        for start, stop in stretches:
            if has_note(self.file(start, stop), self.made_of):
                advance(stop - start)
            else:
                self.file(start, stop).unlink(missing_ok=True)
                left.append((start, stop))
        try:
            crew.do(task, self, [Stretch(self.title, *ends) for ends in left], advance)
        finally:
            remove_folder(self.attempts)
        return [self.file(*ends) for ends in stretches]

    @contextlib.contextmanager
    def writing(
        self, task: Stretch, attempt: Attempt, schema: pa.Schema, compression: str
    ) -> Iterator[pq.ParquetWriter]:
        """Write a task's file: it is committed when the block ends, unless the task was told to stop."""
        target, place = self.file(task.start, task.stop), f"{self.place}-{attempt.number}"
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
