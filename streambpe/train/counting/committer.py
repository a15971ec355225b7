"""Parts committed by threads, or by an attempt at a task, and their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from streambpe.core.strings import ChunkList
from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.runners.attempts import commit_first
from streambpe.store import sequences
from streambpe.store.parts import Parts, PartWriter, next_number, read_part, write_part
from streambpe.store.run import Run
from streambpe.store.spans import Span, Spans
from streambpe.system import rename, sync_folder
from streambpe.text.chunker import Ids, Lengths

NAMES = 1_000_000  # of parts, for each task, which commits some dozens


def part_name(number: int) -> str:
    """The name of a part and of its documents."""
    return f"part-{number:05d}"


class Committer:
    """Writes parts into RUN/counts; any thread may call it."""

    def __init__(self, run: Run, tell: Callable[[int], None] = lambda bad_lines: None, first_name: int = 0) -> None:
        """`tell` is told how many lines were left out of each part."""
        self.run = run
        self._tell = tell
        self._next = first_name or next_number(run)
        self._lock = threading.Lock()

    def first_name(self, many: int = NAMES) -> int:
        """The first of so many numbers for parts, which nobody else takes."""
        with self._lock:
            self._next += many
            return self._next - many

    def next_name(self) -> str:
        """The name of a part that nobody else writes."""
        return part_name(self.first_name(1))

    def target(self, name: str) -> Path:
        """The file of a part."""
        return self.run.counts / f"{name}.parquet"

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> None:
        """Write and rename one part."""
        write_part(self.target(name), [rows], spans, run=self.run.number)
        with self._lock:
            self._tell(sum(span.bad_lines for span in spans))

    def write_sequence(self, name: str, chunks: pl.Series, stretches: Sequence[Ids], made_of: str) -> Lengths:
        """Write the documents of a part that is committed next, as store/sequences.py does."""
        return sequences.write_sequence(self.run.sequences, name, chunks, stretches, made_of)


class AttemptCommitter(Committer):
    """The same for one attempt at a task: it writes in a folder of its own, and commits by renames that the first
    attempt wins."""

    def __init__(self, run: Run, folder: Path, first_name: int, attempt: int) -> None:
        super().__init__(run, first_name=first_name)
        self._number, self._folder, self._attempt = run.number, folder, attempt

    def skip_committed(self) -> Spans:
        """Go on behind the parts that an earlier attempt committed; the stretches of these."""
        found = []
        while (part := self.target(part_name(self._next))).exists():
            found.append(read_part(part))
            self._next += 1
        return Parts(found).spans

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> None:
        """See Committer."""
        target = self.target(name)
        with PartWriter(self._folder / target.name, run=self._number) as writer:
            writer.write(rows)
            writer.close(spans)
        failpoint(f"attempt-{self._attempt}-written")
        if not commit_first(writer.temporary, target):
            raise RunError(f"{target} was committed by another attempt; this one is abandoned.")
        failpoint(f"attempt-{self._attempt}-committed")

    def write_sequence(self, name: str, chunks: pl.Series, stretches: Sequence[Ids], made_of: str) -> Lengths:
        """See Committer."""
        n = sequences.write_sequence(self._folder, name, chunks, stretches, made_of)
        self.run.sequences.mkdir(exist_ok=True)
        for file in (f"{name}.chunks.parquet", f"{name}.parquet"):  # without their part in counts/ they say nothing
            rename(self._folder / file, self.run.sequences / file)
        sync_folder(self.run.sequences)
        return n
