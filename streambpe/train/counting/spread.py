"""Counting by tasks on Ray: the plan of the tasks, and what is told of them.

    sources  ->  stretches (sources/stretches.py)  ->  tasks  ->  parts in RUN/counts, written by the workers

No text passes through this process. What a worker cannot count within its share of the memory is left, and is counted
here afterwards, where all of the memory is for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from streambpe.count_config import CountConfig
from streambpe.failpoints import failpoint
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources
from streambpe.runners.ray import Needs, OnRay
from streambpe.runners.runner import Calls
from streambpe.sources.remote.address import is_remote
from streambpe.sources.stretches import Stretch, cut, in_tasks
from streambpe.text.patterns import Pattern
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.tasks import (
    CountShared,
    CountTask,
    attempts_folder,
    count_stretches,
    remove_attempts,
)
from streambpe.train.counting.worker import naming

_LEAST_TASK = 16 << 20  # bytes of a source
_MOST_TASK = 256 << 20
_TASKS_A_WORKER = 8
_LEAST_TASK_MEMORY = 40 << 20


def count_by_tasks(
    left: Sequence[Stretch],
    config: CountConfig,
    pattern: Pattern,
    resources: Resources,
    committer: Committer,
    meter: Meter,
    stop: threading.Event,
) -> None:
    """Count what can be. What is not counted then was too large, or a stop came."""
    run = committer.run
    meter.stage = "starting Ray"
    sources = [stretch.source for stretch in left]
    listed = [(source.path, source.bytes) for source in sources if not is_remote(source.path)]
    folder = attempts_folder(run).absolute()
    with contextlib.closing(OnRay(Needs(resources, BASE_BYTES, _LEAST_TASK_MEMORY, folder, listed))) as runner:
        meter.stage = "counting"
        size = sum(source.bytes for source in sources) // (_TASKS_A_WORKER * runner.workers)
        size = min(max(size, _LEAST_TASK), _MOST_TASK)

        def stretches() -> Iterator[Stretch]:
            for stretch in left:
                with naming(stretch.source):
                    yield from cut(stretch.source, stretch.done, size, pattern)

        plan = (CountTask(some, committer.first_name()) for some in in_tasks(stretches(), size))
        shared = CountShared(run.path.absolute(), config, pattern.document_seconds)
        try:
            runner.map(
                Calls(count_stretches, plan, lambda *_: failpoint("task-done"), meter.advance, stop=stop, shared=shared)
            )
        finally:
            remove_attempts(run)
