"""Who does a job's tasks: Ray if it is asked for, processes where they are quicker than threads of one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streambpe.runners.processes import NURSERY_BYTES, START_SECONDS, WORKER_BYTES, Processes
from streambpe.runners.ray import Needs, OnRay
from streambpe.runners.runner import Runner

_LEAST_SHARE = 0.05  # of the time, that processes have to save, and that starting them may take
_OVERHEAD = 1.03  # of tasks, assumed: reading to their borders, and more pieces


class Cost(msgspec.Struct, frozen=True):
    """Seconds of processors for a job, on one."""

    all: float
    alone: float  # of these, what only one thread of a process can do at a time

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


def processes_pay(cost: Cost, threads: int, workers: int, at_least: Iterable[float] = ()) -> bool:
    """Whether so many processes save enough. `at_least`: seconds that the job takes however many there are."""
    here = cost.in_threads(threads)
    beside = max(cost.in_processes(workers), *at_least, 0.0)
    return workers > 1 and beside < (1 - _LEAST_SHARE) * here and _LEAST_SHARE * here > START_SECONDS


def runner_for(
    needs: Needs, tasks: int, cost: Cost, module: str, at_least: Iterable[float] = ()
) -> tuple[Runner, int] | None:
    """(who does so many tasks of a module, what memory each may use). None: the threads of this process are quicker, or
    there is no room for another. `at_least`: see processes_pay."""
    threads, engine = needs.resources.threads, needs.resources.engine
    if engine == "ray":
        nursery = OnRay(needs)
        return Processes(nursery.room.workers, nursery), nursery.room.memory_bytes
    room = needs.resources.memory_bytes - needs.held_bytes - NURSERY_BYTES

    def memory_of_each() -> int:
        return room // workers - WORKER_BYTES - needs.extra_bytes

    workers = min(threads, max(tasks, 1))
    while workers > 1 and memory_of_each() < needs.least_bytes:
        workers -= 1
    pays = engine == "processes" or processes_pay(cost, threads, workers, at_least)
    if engine == "threads" or memory_of_each() < needs.least_bytes or not pays:
        return None
    return Processes.here(workers, memory_of_each() + WORKER_BYTES, [module]), memory_of_each()
