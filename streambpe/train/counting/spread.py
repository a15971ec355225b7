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

from streambpe.count_config import CountConfig
from streambpe.failpoints import failpoint
from streambpe.resources import BASE_BYTES, Resources
from streambpe.runners.ray import Needs
from streambpe.runners.runner import Calls, Runner
from streambpe.runners.worth import Cost, runner_for
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch, bytes_between, can_be_cut, cut, in_tasks, tasks_of, text_of
from streambpe.store.spans import Spans
from streambpe.text.chunker import core_split
from streambpe.text.patterns import Pattern
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.tasks import (
    Counted,
    CountShared,
    CountTask,
    count_stretches,
    remove_attempts,
)
from streambpe.train.counting.worker import Failure

Texts = Sequence[tuple[Source, Spans]]

_LEAST_TASK = 16 << 20  # bytes of a source
_MOST_TASK = 256 << 20
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20

# Seconds of a processor for a MB of text, measured on 300 MB of English (documents of 8 KB): reading and decoding, and
# how much of that holds the interpreter's lock or can be done by one reader only.
_SPLIT, _SPLIT_OWN, _OWN_LOCKED = 0.0095, 0.135, 0.017
_READ = {"jsonl": (0.003, 0.0015), "parquet": (0.003, 0.0028), "csv": (0.012, 0.010), "": (0.0013, 0.0004)}
_SCAN = 0.0012  # of csv: looking for the ends of records, which one thread of this process does


def _cost(sources: Sequence[Source], pattern: Pattern) -> Cost:
    own = core_split(pattern) is None
    total = alone = 0.0
    for source in sources:
        size, unpacking = text_of(source)
        read, locked = _READ.get(source.kind, _READ[""])
        total += size * (read + unpacking + (_SPLIT_OWN if own else _SPLIT))
        alone += size * (locked + unpacking + (_OWN_LOCKED if own else 0))
    return Cost(total, alone)


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
    tasks = sum(tasks_of(source, pattern, _LEAST_TASK) for source in files)
    largest = max(_cost([source], pattern).all / tasks_of(source, pattern, _LEAST_TASK) for source in files)
    scan = sum(s.bytes / 1e6 * _SCAN for s in files if s.kind == "csv" and can_be_cut(s, pattern))
    needs, cost = needs_of(resources, folder, files), _cost(files, pattern)
    return runner_for(needs, tasks, cost, "streambpe.train.counting.tasks", (largest, scan))


def _bytes_done(source: Source, done: Spans) -> int:
    """Bytes of a source that were counted before."""
    if source.is_stream:
        return 0
    return sum(bytes_between(source.kind, source.path, *stretch) for stretch in done.stretches(joined=True))


def count_by_tasks(
    runner: Runner,
    memory_bytes: int,
    texts: Texts,
    config: CountConfig,
    pattern: Pattern,
    committer: Committer,
    failure: Failure,
    stop: threading.Event,
) -> None:
    """Count what can be, and close the runner. What is not counted then was too large, or a stop came."""
    run, meter = committer.run, committer.meter
    shared = CountShared(run.path.absolute(), config, pattern.document_seconds)
    size = sum(source.bytes for source, _ in texts) // (_TASKS_A_WORKER * runner.workers)
    size = min(max(size, _LEAST_TASK), _MOST_TASK)

    before = sum(_bytes_done(source, done) for source, done in texts)  # tasks tell only what they read
    meter.done += before
    meter.resumed_from += before

    def advance(done: int) -> None:
        meter.done += done
        meter.tell_workers(calls.busy)

    def stretches() -> Iterator[Stretch]:
        for source, done in texts:
            if not source.is_stream:
                with failure.naming(source):
                    yield from cut(source, done.stretches(joined=True), size, pattern)

    def task_of(some: Sequence[Stretch]) -> CountTask:
        return CountTask(tuple(some), committer.first_name())

    def note(task: CountTask, counted: Counted) -> list[CountTask]:
        """Note what a task did; what is left of it because it had no further names is a task of its own."""
        failpoint("task-done")
        if counted.sketch is not None:
            committer.note(counted.sketch, counted.spans)
        if counted.error is not None:
            failure.note(counted.error, (counted.left or task.stretches)[0].source.path)
            raise counted.error
        return [task_of(counted.left)] if counted.left and not counted.large else []

    plan = map(task_of, in_tasks(stretches(), size))
    calls = Calls(count_stretches, plan, memory_bytes, note, advance, str, stop, shared)
    with contextlib.closing(runner):
        try:
            runner.map(calls)
        except KeyboardInterrupt:
            stop.set()
        finally:
            meter.tell_workers(())
            remove_attempts(run)
