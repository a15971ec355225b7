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
from collections import deque
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
    # told of each argument and its result, one at a time; gives back arguments for what is left to do of it
    on_done: Callable[[Argument, Result], Iterable[Argument]] = lambda argument, result: ()
    on_advance: Callable[[int], None] = lambda done: None
    describe: Callable[[Argument], str] = str  # names an argument in messages and in status.json
    stop: threading.Event = field(default_factory=threading.Event)  # set: tasks at work are told, others are not begun
    shared: object = None  # what all tasks have in common, handed over once to each worker
    busy: list[Busy] = field(default_factory=list, init=False)  # what each worker is at, now
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

    def run(
        self,
        workers: int,
        once: Callable[[Argument, int, Busy], Result],
        on_halt: Callable[[], None] = lambda: None,
        who: str = "A worker process",
    ) -> None:
        """Make all calls, so many at a time; the first error is raised when no task is at work any more.

        `once` makes one attempt. `on_halt` is called when the job is to stop while tasks are at work."""
        left, again = iter(self.arguments), deque[Argument]()
        at_work: set[Future[Iterable[Argument]]] = set()
        told = False

        def call(argument: Argument) -> Iterable[Argument]:
            result = self._tried(argument, once, who)
            with self._lock:
                return list(self.on_done(argument, result))

        with ThreadPoolExecutor(workers, "streambpe-task") as pool:
            going = True
            while going:
                try:
                    while len(at_work) < workers and not self.halted:
                        with self._lock:
                            taken = [again.popleft()] if again else list(itertools.islice(left, 1))
                        if not taken:
                            break
                        at_work.add(pool.submit(copy_context().run, call, taken[0]))
                    going = bool(at_work)
                    for future in wait(at_work, _LOOK_SECONDS, FIRST_COMPLETED).done:
                        at_work.remove(future)
                        again.extend(future.result())
                    if self.halted and not told:
                        told = True
                        on_halt()
                except Halted:
                    pass
                except BaseException as why:  # Ctrl-C too, in a program that has no handler of its own
                    self._error = self._error or why
        if self._error is not None:
            raise self._error

    def _tried(self, argument: Argument, once: Callable[[Argument, int, Busy], Result], who: str) -> Result:
        """The result of a task, which is begun again where its worker is lost."""
        how = ""
        for number in range(1 + RETRIES):
            busy = Busy(self.describe(argument))
            self.busy.append(busy)
            try:
                return once(argument, number, busy)
            except Lost as why:
                self.advance(busy, -busy.done)
                if self.halted:
                    raise Halted from None
                how = str(why)
            finally:
                self.busy.remove(busy)
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
