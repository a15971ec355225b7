"""Counting by tasks in processes or on Ray: when that pays, the plan of the tasks, and what is told of them.

    sources  ->  stretches (sources/stretches.py)  ->  tasks  ->  parts in RUN/counts, written by the workers

No text passes through this process. What a worker cannot count within its share of the memory is left, and is counted
here afterwards, where all of the memory is for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from streambpe.arrays import UInt64
from streambpe.count_config import CountConfig
from streambpe.failpoints import failpoint
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources
from streambpe.runners.ray import Needs
from streambpe.runners.runner import Calls, Runner
from streambpe.runners.worth import runner_for
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch, can_be_cut, cost_of, cut, in_tasks
from streambpe.text.chunker import is_left_to_regex
from streambpe.text.patterns import Pattern
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.tasks import CountShared, CountTask, count_stretches, remove_attempts
from streambpe.train.counting.worker import naming

_LEAST_TASK = 16 << 20  # bytes of a source
_MOST_TASK = 256 << 20
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20

# Seconds of a processor for a MB of text, measured on 300 MB of English (documents of 8 KB): reading and decoding, and
# how much of that holds the interpreter's lock or can be done by one reader only.
_SPLIT, _SPLIT_OWN, _OWN_LOCKED = 0.0095, 0.135, 0.017
_READ = {"jsonl": (0.003, 0.0015), "parquet": (0.003, 0.0028), "csv": (0.012, 0.010), "": (0.0013, 0.0004)}
_SCAN = 0.0012  # of csv: looking for the ends of records, which one thread of this process does


def needs_of(resources: Resources, folder: Path | None, files: Sequence[Source]) -> Needs:
    """What a count of these files takes. `folder`: shared by all nodes of Ray."""
    listed = [(source.path, source.bytes) for source in files if not source.is_remote]
    return Needs(resources, BASE_BYTES, _LEAST_TASK_MEMORY, folder, listed)


def count_runner(
    sources: Sequence[Source], pattern: Pattern, resources: Resources, folder: Path | None
) -> tuple[Runner, int] | None:
    """Who counts by tasks, and what memory each may use; None: the threads of this process."""
    files = [source for source in sources if not source.is_stream]
    if not files:
        return None
    own = is_left_to_regex(pattern)

    def seconds(source: Source) -> tuple[float, float]:
        read, locked = _READ.get(source.kind, _READ[""])
        return read + (_SPLIT_OWN if own else _SPLIT), locked + (_OWN_LOCKED if own else 0)

    cost, tasks, largest = cost_of(files, pattern, _LEAST_TASK, seconds)
    scan = sum(s.bytes / 1e6 * _SCAN for s in files if s.kind == "csv" and can_be_cut(s, pattern))
    needs = needs_of(resources, folder, files)
    return runner_for(needs, tasks, cost, "streambpe.train.counting.tasks", (largest, scan))


def count_by_tasks(
    runner: Runner,
    memory_bytes: int,
    left: Sequence[Stretch],
    config: CountConfig,
    pattern: Pattern,
    committer: Committer,
    meter: Meter,
    stop: threading.Event,
) -> None:
    """Count what can be, and close the runner. What is not counted then was too large, or a stop came."""
    run = committer.run
    shared = CountShared(run.path.absolute(), config, pattern.document_seconds)
    size = sum(stretch.source.bytes for stretch in left) // (_TASKS_A_WORKER * runner.workers)
    size = min(max(size, _LEAST_TASK), _MOST_TASK)

    def stretches() -> Iterator[Stretch]:
        for stretch in left:
            with naming(stretch.source):
                yield from cut(stretch.source, stretch.done, size, pattern)

    def note(task: CountTask, counted: tuple[UInt64, int]) -> None:
        failpoint("task-done")
        committer.note(*counted)

    plan = (CountTask(some, committer.first_name()) for some in in_tasks(stretches(), size))
    calls = Calls(count_stretches, plan, memory_bytes, note, meter.advance, str, stop, shared, meter.tell_workers)
    with contextlib.closing(runner):
        try:
            runner.map(calls)
        finally:
            remove_attempts(run)
