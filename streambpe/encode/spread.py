"""Encoding by tasks in processes or on Ray: when that pays, the plan of the tasks, their files in order.

    sources  ->  stretches (sources/stretches.py)  ->  tasks (encode/tasks.py)  ->  files  ->  OUT.part

No text passes through this process. What comes from a document that is too large for a worker is left, and encoded
here, where all of the memory is for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streambpe.encode.encoder import PackedEncoder
from streambpe.encode.split import DocumentHash
from streambpe.encode.tasks import Encoded, EncodeShared, EncodeTask, encode_stretches, stop_of
from streambpe.errors import LimitError
from streambpe.failpoints import failpoint
from streambpe.resources import BASE_BYTES, Resources, format_size, release_memory
from streambpe.runners.attempts import remove_place
from streambpe.runners.ray import Needs
from streambpe.runners.runner import Calls, Runner
from streambpe.runners.worth import Cost, processes_pay, runner_for
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch, bytes_between, can_be_cut, cut, text_of
from streambpe.system import tree_memory
from streambpe.text.chunker import core_split
from streambpe.text.patterns import Pattern

_LEAST_TASK = 8 << 20  # bytes of a source
_MOST_TASK = 32 << 20  # what a kill costs each worker, if sources can be cut
_MOST_STRETCHES = 1000  # small sources in one task
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20
_JOINING_BYTES = 8 << 20  # of this process, while workers are at work

# Seconds of a processor for a MB of text: all of it, and how much of it holds the interpreter's lock or is done by one
# thread only. Estimates: the first from the speeds on one thread and two that README tells, the second assumed;
# benchmarks/task_costs.py measures both. They decide who works, never what comes out.
_ENCODE, _ENCODE_OWN = (0.026, 0.012), (0.15, 0.025)


def _cost(sources: Sequence[Source], pattern: Pattern) -> Cost:
    total = alone = 0.0
    each, locked = _ENCODE_OWN if core_split(pattern) is None else _ENCODE
    for source in sources:
        size, unpacking = text_of(source)
        total += size * (each + unpacking)
        alone += size * (locked + unpacking)
    return Cost(total, alone)


def encode_runner(
    sources: Sequence[Source], encoder: PackedEncoder, resources: Resources, whole: bool, folder: Path
) -> tuple[Runner, int] | None:
    """(who encodes by tasks, what memory each has for one); None: the threads of this process. `whole`: text files are
    not cut. `folder`: of the tasks, shared by all nodes of Ray."""
    engine, pattern = resources.engine, encoder.pattern
    if engine == "threads" or any(source.is_stream for source in sources) or not sources:
        return None
    tasks = {source.path: _tasks_of(source, pattern, whole) for source in sources}
    cost, many = _cost(sources, pattern), sum(tasks.values())
    largest = max(_cost([source], pattern).all / tasks[source.path] for source in sources)
    if engine == "auto" and not processes_pay(cost, resources.threads, min(resources.threads, many), (largest,)):
        return None
    needs = Needs(
        resources.address, resources.threads, resources.memory_bytes, _held(encoder, resources), _LEAST_TASK_MEMORY,
        folder, [(source.path, source.bytes) for source in sources if not source.is_remote],
        2 * encoder.named_tables.bytes, resources.temp_dir,
    )  # fmt: skip
    found = runner_for(needs, engine, many, cost, "streambpe.encode.tasks", (largest,))
    if found is None and engine == "processes":
        raise LimitError(
            f"--engine processes: {format_size(resources.memory_bytes)} have no room for one beside this process "
            f"({format_size(needs.held_bytes)} with the model). Nothing was written. Give more --memory, or leave "
            f"--engine out."
        )
    return found


def _held(encoder: PackedEncoder, resources: Resources) -> int:
    """What this process holds while others encode."""
    release_memory()
    return max(BASE_BYTES, tree_memory()) + encoder.named_tables.bytes + _JOINING_BYTES + resources.memory_bytes // 16


def _tasks_of(source: Source, pattern: Pattern, whole: bool) -> int:
    """Into about how many tasks a source can be cut."""
    return max(1, source.bytes // _LEAST_TASK) if _cuts(source, pattern, whole) else 1


def _cuts(source: Source, pattern: Pattern, whole: bool) -> bool:
    return can_be_cut(source, pattern) and not (whole and source.kind == "txt")


# How far sources are encoded: number of a source, place in it, whether that is in a document, that document so far.
Place = tuple[int, int, bool, DocumentHash]


@dataclass(frozen=True)
class EncodeSpread:
    """The tasks of one job; `take` gets what each did, in the order of the sources."""

    sources: Sequence[Source]
    shared: EncodeShared
    pattern: Pattern
    take: Callable[[EncodeTask, Encoded], None]
    advance: Callable[[int], None]
    stop: threading.Event

    def encode_by(self, runner: Runner, memory_bytes: int, place: Place) -> None:
        """Encode from a place on, and close the runner. What is left then did not fit a worker, or a stop came."""
        folder: Path = self.shared.folder
        done: dict[int, tuple[EncodeTask, Encoded]] = {}  # behind one that is not done yet
        wanted = 0

        def note(task: EncodeTask, encoded: Encoded | None) -> list[EncodeTask]:
            """Hand over what is done, as far as nothing before it is missing."""
            nonlocal wanted
            failpoint("encode-task-done")
            if encoded is not None:
                done[task.number] = task, encoded
            while wanted in done:
                self.take(*done.pop(wanted))
                wanted += 1
            return []

        with contextlib.closing(runner):
            folder.mkdir(exist_ok=True)
            first, at = place[:2]
            self.advance(bytes_between(self.sources[first].kind, self.sources[first].path, 0, at))
            size = sum(source.bytes for source in self.sources[first:]) // (_TASKS_A_WORKER * runner.workers)
            plan = self._plan(min(max(size, _LEAST_TASK), _MOST_TASK), place)
            try:
                calls = Calls(encode_stretches, plan, memory_bytes, note, self.advance, str, self.stop, self.shared)
                runner.map(calls)
            except LimitError:  # more than a worker may hold: this process has the memory of all
                pass
            except KeyboardInterrupt:
                self.stop.set()
            finally:
                remove_place(folder)

    def _plan(self, size: int, place: Place) -> Iterator[EncodeTask]:
        """Tasks of about `size` bytes of the sources, in their order."""
        number, held, held_bytes = 0, [], 0  # type: tuple[int, list[tuple[int, Stretch]], int]
        first, first_at, inside, unfinished = place
        for at, source in enumerate(self.sources):
            if at < first:
                continue
            done = ((0, first_at),) if at == first and first_at else ()
            whole = not _cuts(source, self.pattern, self.shared.share is not None)
            stretches = (
                [Stretch(source, done)] if whole else cut(source, done, size, self.pattern, self.shared.take_anyway)
            )
            for stretch in stretches:
                if held and (held_bytes + min(size, source.bytes) > size or len(held) >= _MOST_STRETCHES):
                    task = _task(number, held, inside, unfinished)
                    inside, unfinished = stop_of(task.stretches, task.sources)[2], DocumentHash()
                    yield task
                    number, held, held_bytes = number + 1, [], 0
                held.append((at, stretch))
                held_bytes += min(size, source.bytes)
        if held:
            yield _task(number, held, inside, unfinished)


def _task(number: int, held: Sequence[tuple[int, Stretch]], inside: bool, unfinished: DocumentHash) -> EncodeTask:
    sources, stretches = zip(*held, strict=True)
    return EncodeTask(number, stretches, sources, inside, (unfinished.so_far, unfinished.rest))
