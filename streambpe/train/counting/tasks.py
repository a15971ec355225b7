"""Counting as tasks: each reads its own stretches of the sources and commits parts of them, wherever it runs.

    count_stretches    stretches  ->  read, decode, prepare, split and count  ->  parts in RUN/counts

A task has numbers of its own for its parts. An attempt after the first goes on behind what was committed under
these; what the earlier attempt did not commit, it cannot commit any more (runners/attempts.py).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from streambpe.count_config import CountConfig
from streambpe.errors import LimitError
from streambpe.failpoints import failpoint
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.runners.attempts import own_folder, remove_place
from streambpe.runners.runner import Attempt
from streambpe.sources.not_text import TAKE_ANYWAY
from streambpe.sources.read import Reader
from streambpe.sources.stretches import Stretch, bytes_between, title_of
from streambpe.store.run import Run
from streambpe.store.spans import SpansByPath
from streambpe.text.split import alarm
from streambpe.threads import ending_waits
from streambpe.train.counting.committer import AttemptCommitter, part_name
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.todo import left_of
from streambpe.train.counting.worker import BlockSums, blocks_of


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


def attempts_folder(run: Run) -> Path:
    """Where the attempts of counting tasks write."""
    return run.path / "tmp" / "count"


def remove_attempts(run: Run) -> None:
    """Remove what attempts left, and with it their way to commit anything."""
    remove_place(attempts_folder(run))
    with contextlib.suppress(OSError):  # something else is in it, or it is not there
        attempts_folder(run).parent.rmdir()


def count_stretches(task: CountTask, attempt: Attempt) -> None:
    """Count stretches of sources. Everything counted is committed, whatever ends the task; what is not counted then is
    too large for this worker, or a stop came."""
    shared: CountShared = attempt.shared
    run, config = Run(shared.run), shared.config
    pattern, sizes = config.split_pattern(shared.document_seconds), Sizes.of_task(attempt.memory_bytes)
    if attempt.own_process:
        alarm.turn_on()
    attempts = own_folder(attempts_folder(run), part_name(task.first_name), attempt.number)
    with attempts as folder, ending_waits(attempt.is_stopping):
        failpoint(f"attempt-{attempt.number}-begun")
        parts = AttemptCommitter(run, folder, task.first_name, attempt.number)
        done = parts.skip_committed()
        attempt.advance(sum(bytes_between(s.kind, s.path, s.start_at, s.stop_at) for s in done))
        reader = Reader(pattern, sizes.block, sizes.most, attempt.advance, TAKE_ANYWAY, config.reads_whole_lines)
        blocks = blocks_of(reader, left_of(task.stretches, SpansByPath(done)), attempt.is_stopping)
        with contextlib.suppress(LimitError), BlockSums(config, pattern, sizes, parts) as sums:
            for block in blocks:
                sums.count(block)
