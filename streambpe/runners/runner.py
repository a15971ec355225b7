"""What runs tasks, whoever does: a task is a plain function of an argument, called as task(argument, attempt).

    Calls       what to call, with what, and who is told
    Attempt     one try at a task, as the task sees it
    Here        runs tasks in threads of this process; ray.py runs them on a cluster

A task may be begun again, because its worker died or was given up. So it writes where only its attempt writes, and
commits by a rename that the first attempt wins. Arguments, results and errors can be pickled, and are small: a task
reads its input itself. Who runs a task never changes what comes out.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from streambpe.errors import WorkerLost

Argument = TypeVar("Argument")
Result = TypeVar("Result")

RETRIES = 3  # of a task whose worker died
_LOOK_SECONDS = 0.05  # between two looks at whether to stop


class Attempt(msgspec.Struct):
    """One try at a task, as the task sees it."""

    number: int  # of those at this argument, from 0
    memory_bytes: int  # that the task may use
    shared: Any  # Calls.shared
    is_stopping: Callable[[], bool]  # whether the task should commit what it has and return
    advance: Callable[[int], None]  # told that so much more is done, in a unit of the task's own
    own_process: bool = False  # it runs in the main thread of a process that does nothing else


Task = Callable[[Argument, Attempt], Result]


class Lost(Exception):
    """The worker at an attempt ended; says how."""


@dataclass
class Calls(Generic[Argument, Result]):
    """One call of `map`: what to call, with what, and who is told."""

    task: Task[Argument, Result]
    arguments: Iterable[Argument]
    on_done: Callable[[Argument, Result], object] = lambda argument, result: None  # told of one result at a time
    on_advance: Callable[[int], None] = lambda done: None
    describe: Callable[[Argument], str] = str  # names an argument in messages
    stop: threading.Event = field(default_factory=threading.Event)  # set: tasks at work are told, others are not begun
    shared: object = None  # what all tasks have in common
    _error: BaseException | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def halted(self) -> bool:
        """Whether no further task is begun."""
        return self._error is not None or self.stop.is_set()

    def advance(self, done: int) -> None:
        """Tell that so much more is done; from any thread."""
        with self._lock:
            self.on_advance(done)

    def run(
        self,
        workers: int,
        begin: Callable[[Argument, int], Future[Any]],
        result_of: Callable[[Future[Any]], Result] = Future.result,
        on_halt: Callable[[], object] = lambda: None,
    ) -> None:
        """Make all calls, so many at a time; the first error is raised when no task is at work any more.

        `begin` begins an attempt, and `result_of` gives its result, or raises Lost: then the task is begun again.
        `on_halt` is called when the job is to stop while tasks are at work."""
        arguments, told = iter(self.arguments), False
        at_work: dict[Future[Any], tuple[Argument, int]] = {}
        while True:
            try:
                while len(at_work) < workers and not self.halted and (taken := list(itertools.islice(arguments, 1))):
                    at_work[begin(taken[0], 0)] = taken[0], 0
                if not at_work:
                    break
                if self.halted and not told:
                    told = True
                    on_halt()
                for done in wait(at_work, _LOOK_SECONDS, FIRST_COMPLETED).done:
                    argument, number = at_work.pop(done)
                    try:
                        result = result_of(done)
                    except Lost as why:
                        if not self.halted:
                            self._refuse_more(argument, number, why)
                            at_work[begin(argument, number + 1)] = argument, number + 1
                    else:
                        self.on_done(argument, result)
            except BaseException as why:  # no more threads; Ctrl-C, in a program that has no handler of its own
                self._error = self._error or why
        if self._error is not None:
            raise self._error

    def _refuse_more(self, argument: Argument, number: int, why: Lost) -> None:
        if number == RETRIES:
            raise WorkerLost(
                f"The worker ended {1 + RETRIES} times while it worked on {self.describe(argument)}, the last time: "
                f"{why}. Everything committed is kept. If a machine ran out of memory, give the same command again "
                "with a smaller --memory; without --engine, it works in one process."
            ) from None


class Runner(Protocol):
    """Runs tasks on `workers` workers, each of which may take so much memory for one."""

    workers: int
    memory_bytes: int

    def map(self, calls: Calls[Any, Any]) -> None:
        """Make all calls. The first error is raised when no task is at work any more."""

    def close(self) -> None:
        """End all workers."""
        return


class Here(Runner):
    """Runs tasks in threads of this process."""

    def __init__(self, workers: int, memory_bytes: int) -> None:
        self.workers, self.memory_bytes = workers, memory_bytes

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        with ThreadPoolExecutor(self.workers, "streambpe-task") as pool:

            def begin(argument: Any, number: int) -> Future[Any]:
                attempt = Attempt(number, self.memory_bytes, calls.shared, lambda: calls.halted, calls.advance)
                return pool.submit(copy_context().run, calls.task, argument, attempt)

            calls.run(self.workers, begin)
