"""Counting as tasks: each reads its own stretches of the sources and commits parts of them, wherever it runs.

    count_stretches    stretches  ->  read, decode, prepare, split and count  ->  parts in RUN/counts

A task has numbers of its own for its parts. An attempt after the first goes on behind what was committed under
these; what the earlier attempt did not commit, it cannot commit any more (runners/attempts.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from streambpe.arrays import UInt64
from streambpe.core.strings import ChunkList
from streambpe.count_config import CountConfig
from streambpe.errors import LimitError, RunError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.runners.attempts import commit_first, own_folder, remove_place
from streambpe.runners.runner import Attempt
from streambpe.sources.not_text import TAKE_ANYWAY
from streambpe.sources.read import Reader
from streambpe.sources.stretches import Stretch, bytes_between, title_of
from streambpe.store import sequences
from streambpe.store.parts import PartWriter, read_part
from streambpe.store.run import Run
from streambpe.store.spans import Span
from streambpe.system import rename, sync_folder
from streambpe.text.chunker import Ids, Lengths
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.text.split import alarm
from streambpe.threads import ending_waits
from streambpe.train.counting.committer import NAMES, part_name
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.sketch import DistinctSketch
from streambpe.train.counting.worker import BlockSums


class CountShared(msgspec.Struct, frozen=True):
    """What all counting tasks of a job have in common."""

    run: Path
    config: CountConfig
    document_seconds: float = DOCUMENT_SECONDS


class CountTask(msgspec.Struct, frozen=True):
    """Stretches to be counted by one task, of one source group."""

    stretches: tuple[Stretch, ...]
    first_name: int  # the first of NAMES numbers of parts

    def __str__(self) -> str:
        return f"counting {title_of(self.stretches)}"


class Counted(msgspec.Struct):
    """What a counting task did."""

    spans: list[Span] = msgspec.field(default_factory=list)  # of its parts
    sketch: UInt64 | None = None
    left: tuple[Stretch, ...] = ()  # when it was told to stop, or had no further name for a part
    large: bool = False  # the first of what is left begins with a document that is too large for this worker
    error: StreambpeError | None = None  # ... or cannot be counted


class _AttemptParts:
    """Commits the parts of one attempt."""

    def __init__(self, run: Run, folder: Path, first_name: int, attempt: int) -> None:
        self.run, self._number, self._folder, self._attempt = run, run.number, folder, attempt
        self._next, self._stop = first_name, first_name + NAMES
        self.spans: list[Span] = []
        self.sketch = DistinctSketch()

    def skip_committed(self) -> None:
        """Go on behind the parts that an earlier attempt committed."""
        while (part := self._target(part_name(self._next))).exists():
            self.spans += read_part(part).spans
            self._next += 1

    def _target(self, name: str) -> Path:
        return self.run.counts / f"{name}.parquet"

    @property
    def used_up(self) -> bool:
        """Whether there may be no name left for what is committed next."""
        return self._next >= self._stop - 2

    def next_name(self) -> str:
        """See Parts."""
        self._next += 1
        return part_name(self._next - 1)

    def write_sequence(self, name: str, chunks: pl.Series, stretches: Sequence[Ids], n: Lengths, made_of: str) -> None:
        """See Parts."""
        sequences.write_sequence(self._folder, name, chunks, stretches, n, made_of)
        self.run.sequences.mkdir(exist_ok=True)
        for file in (f"{name}.chunks.parquet", f"{name}.parquet"):  # without their part in counts/ they say nothing
            rename(self._folder / file, self.run.sequences / file)
        sync_folder(self.run.sequences)

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> None:
        """See Parts."""
        target = self._target(name)
        with PartWriter(self._folder / target.name, run=self._number) as writer:
            writer.write(rows)
            writer.close(spans)
        failpoint(f"attempt-{self._attempt}-written")
        if not commit_first(writer.temporary, target):
            raise RunError(f"{target} was committed by another attempt; this one is abandoned.")
        failpoint(f"attempt-{self._attempt}-committed")
        self.spans += spans
        self.sketch.add(rows.hashes())


@lru_cache(maxsize=4)
def pattern_for(config: CountConfig, document_seconds: float) -> Pattern:
    """What a text is split by under these options."""
    return find_pattern(
        config.pattern,
        gaps=config.gaps,
        split_scripts=config.split_scripts,
        prepared=config.prepares,
        document_seconds=document_seconds,
    )


def attempts_folder(run: Run) -> Path:
    """Where the attempts of counting tasks write."""
    return run.path / "tmp" / "count"


def remove_attempts(run: Run) -> None:
    """Remove what attempts left, and with it their way to commit anything."""
    remove_place(attempts_folder(run))
    with contextlib.suppress(OSError):  # something else is in it, or it is not there
        attempts_folder(run).parent.rmdir()


def count_stretches(task: CountTask, attempt: Attempt) -> Counted:
    """Count stretches of sources. Everything counted is committed, whatever ends the task."""
    shared: CountShared = attempt.shared
    run, pattern = Run(shared.run), pattern_for(shared.config, shared.document_seconds)
    sizes = Sizes.of_task(attempt.memory_bytes)
    if attempt.own_process:
        alarm.turn_on()
    attempts = own_folder(attempts_folder(run), part_name(task.first_name), attempt.number)
    with attempts as folder, ending_waits(lambda: attempt.stopping):
        failpoint(f"attempt-{attempt.number}-begun")
        parts = _AttemptParts(run, folder, task.first_name, attempt.number)
        parts.skip_committed()
        attempt.advance(sum(bytes_between(s.kind, s.path, s.start_at, s.stop_at) for s in parts.spans))
        counted = Counted()
        sums = BlockSums(shared.config, pattern, sizes, parts, beside=False)
        left = list(_without(task.stretches, parts.spans))
        whole_lines = shared.config.reads_whole_lines
        reader = Reader(pattern, sizes.block, sizes.most, None, attempt.advance, TAKE_ANYWAY, whole_lines, False)
        try:
            while left and not (attempt.stopping or parts.used_up):
                if _count(reader, left[0], sums, attempt, parts):
                    del left[0]
        except LimitError:
            counted.large = True
        except StreambpeError as why:
            counted.error = why
        finally:
            with contextlib.closing(sums):
                sums.commit()
        counted.spans, counted.sketch = parts.spans, parts.sketch.kept
        counted.left = tuple(_without(left, parts.spans))
        return counted


def _count(reader: Reader, stretch: Stretch, sums: BlockSums, attempt: Attempt, parts: _AttemptParts) -> bool:
    """Count a stretch; False if something is left of it."""
    for block in reader.blocks(stretch.source, stretch.done, stretch.stop):
        sums.count(block, contextlib.nullcontext())
        if attempt.stopping or parts.used_up:
            return False
    return True


def _without(stretches: Sequence[Stretch], spans: Sequence[Span]) -> list[Stretch]:
    """What is left of stretches when some of it is counted."""
    done: dict[str, list[Span]] = {}
    for span in spans:
        done.setdefault(span.path, []).append(span)
    left = []
    for stretch in stretches:
        mine = [s for s in done.get(stretch.source.path, ()) if stretch.stop is None or s.start_at < stretch.stop]
        rest = stretch.without([(s.start_at, s.stop_at) for s in mine])
        if rest.is_open and not any(s.state == "last" and s.stop_at == rest.at for s in mine):
            left.append(rest)
    return left
