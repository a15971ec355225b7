"""What runs tasks, whoever does: a task is a plain function of an argument, called as task(argument, attempt).

    Calls       what to call, with what, and who is told; `run` does it on threads, each of which has one worker
    Attempt     one try at a task, as the task sees it

A task may be begun again, because its worker died or was given up. So it writes where only its attempt writes, and
commits by a rename that the first attempt wins. Arguments, results and errors can be pickled, and are small: a task
reads its input itself. Who runs a task never changes what comes out.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
    is_stopping: Callable[[], bool]
    advance: Callable[[int], None]  # told that so much more is done, in a unit of the task's own
    own_process: bool = False  # it runs in the main thread of a process that does nothing else

    @property
    def stopping(self) -> bool:
        """Whether the task should commit what it has and return."""
        return self.is_stopping()


Task = Callable[[Argument, Attempt], Result]


class Busy(msgspec.Struct, eq=False):
    """What a worker is at, for status.json."""

    task: str
    pid: int = 0
    done: int = 0
    node: str = ""  # the machine, if it may be another one
    memory_bytes: int = 0  # of the worker, if the runner is told; else the job's own look at its processes has it


class Lost(Exception):
    """The worker at an attempt ended; says how."""


class Halted(Exception):
    """A task that was given up because the job stops."""


@dataclass
class Calls(Generic[Argument, Result]):
    """One call of `map`: what to call, with what, and who is told."""

    task: Task[Argument, Result]
    arguments: Iterable[Argument]
    memory_bytes: int  # for each task
    on_done: Callable[[Argument, Result], object] = lambda argument, result: None  # told of one result at a time
    on_advance: Callable[[int], None] = lambda done: None
    describe: Callable[[Argument], str] = str  # names an argument in messages and in status.json
    stop: threading.Event = field(default_factory=threading.Event)  # set: tasks at work are told, others are not begun
    shared: object = None  # what all tasks have in common, handed over once to each worker
    tell_workers: Callable[[Sequence[Busy]], None] = lambda busy: None  # told what each worker is at, now
    _busy: list[Busy] = field(default_factory=list, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def halted(self) -> bool:
        """Whether no further task is begun."""
        return self._error is not None or self.stop.is_set()

    def advance(self, busy: Busy, done: int) -> None:
        """Tell that a worker has done so much more; from any thread."""
        with self._lock:
            busy.done += done
            self.on_advance(done)
            self.tell_workers(list(self._busy))

    def run(
        self,
        workers: int,
        once: Callable[[Argument, int, Busy], Result],
        on_halt: Callable[[], None] = lambda: None,
        who: str = "A worker process",
    ) -> None:
        """Make all calls, so many at a time; the first error is raised when no task is at work any more.

        `once` makes one attempt. `on_halt` is called when the job is to stop while tasks are at work."""
        arguments, told = iter(self.arguments), False

        def serve() -> None:
            try:
                while not self.halted:
                    with self._lock:
                        taken = list(itertools.islice(arguments, 1))
                    if not taken:
                        return
                    result = self._tried(taken[0], once, who)
                    with self._lock:
                        self.on_done(taken[0], result)
            except Halted:
                pass
            except BaseException as why:
                self._error = self._error or why

        with ThreadPoolExecutor(workers, "streambpe-task") as pool:
            serving: list[Future[None]] = []
            while True:
                try:
                    while len(serving) < workers and not self.halted:
                        serving.append(pool.submit(copy_context().run, serve))
                    if self.halted and not told:
                        told = True
                        on_halt()
                    if not wait(serving, _LOOK_SECONDS).not_done:
                        break
                except BaseException as why:  # no more threads; Ctrl-C, in a program that has no handler of its own
                    self._error = self._error or why
        self.tell_workers(())
        if self._error is not None:
            raise self._error

    def _tried(self, argument: Argument, once: Callable[[Argument, int, Busy], Result], who: str) -> Result:
        """The result of a task, which is begun again where its worker is lost."""
        how = ""
        for number in range(1 + RETRIES):
            busy = Busy(self.describe(argument))
            self._busy.append(busy)
            try:
                return once(argument, number, busy)
            except Lost as why:
                self.advance(busy, -busy.done)
                if self.halted:
                    raise Halted from None
                how = str(why)
            finally:
                self._busy.remove(busy)
        raise WorkerLost(
            f"{who} ended {1 + RETRIES} times while it worked on {self.describe(argument)}, the last time: {how}. "
            "Everything committed is kept. If the machine ran out of memory, give the same command again with a "
            "smaller --memory; --engine threads works in one process."
        )


class Runner(Protocol):
    """Runs tasks on `workers` workers."""

    workers: int

    def map(self, calls: Calls[Any, Any]) -> None:
        """Make all calls. The first error is raised when no task is at work any more."""

    def close(self) -> None:
        """End all workers."""
