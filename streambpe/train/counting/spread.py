"""Counting by tasks in processes beside this one: when that pays, the plan of the tasks, and what is told of them.

    sources  ->  stretches (sources/stretches.py)  ->  tasks  ->  parts in RUN/counts, written by the workers

No text passes through this process. What a worker cannot count within its share of the memory is left, and is counted
here afterwards, where all of the memory is for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streambpe.count_config import CountConfig
from streambpe.failpoints import failpoint
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources
from streambpe.runners.processes import NURSERY_BYTES, START_SECONDS, WORKER_BYTES, Processes
from streambpe.runners.runner import Calls, Kept, Runner
from streambpe.sources.source import Source
from streambpe.sources.streams import compression_of
from streambpe.sources.stretches import Stretch, cut
from streambpe.store.run import Run
from streambpe.store.spans import Spans
from streambpe.text.chunker import core_split
from streambpe.text.patterns import Pattern
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.tasks import Counted, CountShared, CountTask, count_stretches, remove_attempts
from streambpe.train.counting.worker import Failure

Texts = Sequence[tuple[Source, Spans]]

_LEAST_TASK = 16 << 20  # bytes of a source
_MOST_TASK = 256 << 20
_MOST_STRETCHES = 1000  # small sources in one task
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20
_LEAST_SHARE = 0.05  # of the time, that processes have to save, and that starting them may take
_OVERHEAD = 1.03  # of tasks, assumed: reading to their borders, and more parts

# Seconds of a processor for a MB of text, measured on 300 MB of English (documents of 8 KB): reading and decoding, and
# how much of that holds the interpreter's lock or can be done by one reader only.
_SPLIT, _SPLIT_OWN, _OWN_LOCKED = 0.0095, 0.135, 0.017
_READ = {"jsonl": (0.003, 0.002), "parquet": (0.003, 0.0028), "csv": (0.012, 0.010), "": (0.0013, 0.0004)}
_UNPACK = {".gz": 0.004, ".zst": 0.0012, "": 0.0}
_PACKED = {".gz": 3.0, ".zst": 3.3, "": 1.0}  # bytes of text in a byte of the file, assumed


@dataclass(frozen=True)
class _Cost:
    """Seconds of processors for a count, on one."""

    all: float
    alone: float  # of these, what only one thread of a process can do at a time

    @classmethod
    def of(cls, sources: Sequence[Source], pattern: Pattern) -> _Cost:
        own = core_split(pattern) is None
        total = alone = 0.0
        for source in sources:
            packed = compression_of(source.path)
            size = source.bytes / 1e6 * (2.5 if source.kind == "parquet" else _PACKED[packed])
            read, locked = _READ.get(source.kind, _READ[""])
            total += size * (read + _UNPACK[packed] + (_SPLIT_OWN if own else _SPLIT))
            alone += size * (locked + _UNPACK[packed] + (_OWN_LOCKED if own else 0))
        return cls(total, alone)

    def in_threads(self, threads: int) -> float:
        """Seconds on so many threads that wait for each other where only one can work (mean value analysis)."""
        waiting, seconds = 0.0, self.all
        for n in range(1, threads + 1):
            took = self.alone * (1 + waiting)
            seconds = (self.all - self.alone + took) / n
            waiting = took / seconds if seconds else 0.0
        return seconds

    def in_processes(self, workers: int) -> float:
        """Seconds in so many processes."""
        return self.all * _OVERHEAD / workers + START_SECONDS


def task_memory(resources: Resources, workers: int) -> int:
    """What each of so many workers may use, besides what a process takes before any work."""
    return (resources.memory_bytes - BASE_BYTES - NURSERY_BYTES) // workers - WORKER_BYTES


def workers_for(sources: Sequence[Source], pattern: Pattern, resources: Resources) -> int:
    """How many processes should count; 0: the threads of this one."""
    files = [source for source in sources if not source.is_stream]
    if resources.engine == "here" or not files:
        return 0
    tasks = sum(_stretches_of(source) for source in files)
    workers = min(resources.threads, max(tasks, 1))
    if task_memory(resources, workers) < _LEAST_TASK_MEMORY:
        return 0
    if resources.engine == "processes":
        return workers
    here = _Cost.of(files, pattern).in_threads(resources.threads)
    largest = max(_Cost.of([source], pattern).all / _stretches_of(source) for source in files)
    beside = max(_Cost.of(files, pattern).in_processes(workers), largest)
    pays = workers > 1 and beside < (1 - _LEAST_SHARE) * here and _LEAST_SHARE * here > START_SECONDS
    return workers if pays else 0


def _stretches_of(source: Source) -> int:
    """Into about how many tasks a source can be cut."""
    whole = compression_of(source.path) or source.kind not in ("jsonl", "lines", "parquet")
    return 1 if whole else max(1, source.bytes // _LEAST_TASK)


class Spread:
    """One count by tasks."""

    def __init__(self, run: Run, config: CountConfig, committer: Committer, meter: Meter, failure: Failure) -> None:
        self._run, self._config = run, config
        self._committer, self._meter, self._failure = committer, meter, failure

    def count(self, texts: Texts, workers: int, resources: Resources, stop: threading.Event, take_anyway: str) -> None:
        """Count in processes what can be. What is not counted then was too large for a worker, or a stop came."""
        memory_bytes = task_memory(resources, workers)
        runner = Processes(workers, memory_bytes + WORKER_BYTES, ["streambpe.train.counting.tasks"])
        try:
            self.count_by(runner, texts, memory_bytes, stop, take_anyway)
        finally:
            runner.close()

    def count_by(
        self, runner: Runner, texts: Texts, memory_bytes: int, stop: threading.Event, take_anyway: str
    ) -> None:
        """The same by any runner."""
        shared = runner.put(CountShared(self._run.path.absolute(), self._run.number, self._config, take_anyway))
        size = sum(source.bytes for source, _ in texts) // (_TASKS_A_WORKER * runner.workers)
        size = min(max(size, _LEAST_TASK), _MOST_TASK)

        def advance(done: int) -> None:
            self._meter.done += done
            self._meter.facts["workers"] = [
                {"pid": busy.pid, "task": busy.task, "done": busy.done} for busy in runner.busy()
            ]

        def on_done(task: CountTask, counted: Counted) -> list[CountTask]:
            return self._note(task, counted)

        try:
            runner.map(
                Calls(
                    count_stretches,
                    self._plan(texts, size, shared, take_anyway),
                    memory_bytes,
                    on_done,
                    advance,
                    str,
                    stop,
                )
            )
        except KeyboardInterrupt:
            stop.set()
        finally:
            self._meter.facts.pop("workers", None)
            remove_attempts(self._run)

    def _plan(self, texts: Texts, size: int, shared: Kept, take_anyway: str) -> Iterator[CountTask]:
        """Tasks of about `size` bytes of the sources, each of one source group."""
        held: list[Stretch] = []
        held_bytes = 0
        for source, done in texts:
            if source.is_stream:
                continue
            with self._failure.naming(source):
                for stretch in cut(source, done.stretches(joined=True), size, take_anyway):
                    other = held and held[0].source.group != source.group
                    if other or held_bytes >= size or len(held) >= _MOST_STRETCHES:
                        yield self._task(shared, held)
                        held, held_bytes = [], 0
                    held.append(stretch)
                    held_bytes += min(size, source.bytes)
        if held:
            yield self._task(shared, held)

    def _task(self, shared: Kept, stretches: Sequence[Stretch]) -> CountTask:
        return CountTask(shared, tuple(stretches), self._committer.first_name())

    def _note(self, task: CountTask, counted: Counted) -> list[CountTask]:
        """Note what a task did; what is left of it because it had no further names is a task of its own."""
        failpoint("task-done")
        if counted.sketch is not None:
            self._committer.note_elsewhere(counted.sketch, counted.spans)
        if counted.error is not None:
            self._failure.source = self._failure.source or (counted.left or task.stretches)[0].source.path
            raise counted.error
        return [self._task(task.shared, counted.left)] if counted.left and not counted.large else []
