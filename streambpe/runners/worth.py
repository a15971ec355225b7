"""Whether a job is quicker in processes than in threads of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streambpe.runners.processes import START_SECONDS

_LEAST_SHARE = 0.05  # of the time, that processes have to save, and that starting them may take
_OVERHEAD = 1.03  # of tasks, assumed: reading to their borders, and more pieces


@dataclass(frozen=True)
class Cost:
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
