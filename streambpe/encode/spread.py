"""Encoding by tasks on Ray: the plan of the tasks, their files in order.

    sources  ->  stretches (sources/stretches.py)  ->  tasks (encode/tasks.py)  ->  files  ->  blocks in order

No text passes through this process. What comes from a document that is too large for a worker is left, and encoded
here, where all of the memory is for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from streambpe.encode.blocks import EncodedBlock, Place
from streambpe.encode.encoder import Encoder
from streambpe.encode.tasks import EncodeShared, EncodeTask, encode_stretches, taken_blocks
from streambpe.errors import LimitError
from streambpe.failpoints import failpoint
from streambpe.resources import BASE_BYTES, Resources, release_memory
from streambpe.runners.attempts import remove_place
from streambpe.runners.ray import Needs, OnRay
from streambpe.runners.runner import Calls, Runner
from streambpe.sources.remote.address import is_remote
from streambpe.sources.source import Source
from streambpe.sources.stretches import cut, in_tasks
from streambpe.system import tree_memory
from streambpe.text.patterns import Pattern

_LEAST_TASK = 8 << 20  # bytes of a source
_MOST_TASK = 32 << 20  # what a kill costs each worker, if sources can be cut
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20
_JOINING_BYTES = 16 << 20  # of this process, while workers are at work


def encode_runner(sources: Sequence[Source], encoder: Encoder, resources: Resources, folder: Path) -> Runner:
    """What encodes by tasks. `folder`: of the tasks, shared by all nodes of Ray."""
    release_memory()
    tables = encoder.named_tables.bytes
    held = max(BASE_BYTES, tree_memory()) + tables + _JOINING_BYTES + resources.memory_bytes // 16  # by this process
    files = [(source.path, source.bytes) for source in sources if not is_remote(source.path)]
    return OnRay(Needs(resources, held, _LEAST_TASK_MEMORY, folder, files, 2 * tables))


def plan_tasks(sources: Sequence[Source], pattern: Pattern, place: Place, workers: int) -> Iterator[EncodeTask]:
    """The tasks of what is left from a place on, in the order of the sources."""
    first, first_at, inside = place
    wanted = sum(source.bytes for source in sources[first:]) // (_TASKS_A_WORKER * workers)
    size = min(max(wanted, _LEAST_TASK), _MOST_TASK)
    done = {first: ((0, first_at),)} if first_at else {}
    numbers = {id(source): number for number, source in enumerate(sources)}
    stretches = (part for s in sources[first:] for part in cut(s, done.get(numbers[id(s)], ()), size, pattern))
    for number, some in enumerate(in_tasks(stretches, size)):
        yield EncodeTask(number, tuple((numbers[id(one.source)], one) for one in some), inside and not number)


def encode_by_tasks(
    runner: Runner,
    plan: Iterable[EncodeTask],
    shared: EncodeShared,
    take: Callable[[EncodedBlock], None],
    advance: Callable[[int], None],
    stop: threading.Event,
) -> None:
    """Encode, and close the runner; `take` gets the blocks in order. What is left then did not fit a worker, or a stop
    came."""
    done: dict[int, tuple[EncodeTask, int]] = {}  # behind one that is not done yet
    wanted = 0

    def note(task: EncodeTask, many: int | None) -> None:
        """Hand over what is done, as far as nothing before it is missing."""
        nonlocal wanted
        failpoint("encode-task-done")
        if many is not None:
            done[task.number] = task, many
        while wanted in done:
            task, many = done.pop(wanted)
            for block in taken_blocks(shared.folder / task.name, many):
                take(block)
            wanted += 1

    with contextlib.closing(runner):
        shared.folder.mkdir(0o700, exist_ok=True)  # what lies there is unpickled: nobody else may put anything there
        try:
            runner.map(Calls(encode_stretches, plan, note, advance, stop=stop, shared=shared))
        except LimitError:  # more than a worker may hold: this process has the memory of all
            pass
        except KeyboardInterrupt:
            stop.set()
        finally:
            remove_place(shared.folder)
