"""What runs tasks, whoever does: a task is a plain function of an argument, called as task(argument, attempt).

    put(value)    a value that every task may ask for, handed over once to each worker
    map(...)      calls a task with every argument; what is left to do of one comes back from `on_done`

A task may be begun again, because its worker died or was given up. So it writes where only its attempt writes, and
commits by a rename that the first attempt wins. Arguments, results and errors can be pickled, and are small: a task
reads its input itself. Who runs a task never changes what comes out.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_LOOK_SECONDS = 0.05  # between two looks at whether to stop


@dataclass(frozen=True)
class Kept:
    """Stands in arguments for a value that was handed over with `put`."""

    number: int


@dataclass
class Attempt:
    """One try at a task, as the task sees it."""

    number: int  # of those at this argument, from 0
    memory_bytes: int  # that the task may use
    values: Sequence[Any]
    is_stopping: Callable[[], bool]
    on_advance: Callable[[int], None]
    own_process: bool = False  # it runs in the main thread of a process that does nothing else

    def value(self, kept: Kept) -> Any:
        """What was `put`."""
        return self.values[kept.number]

    @property
    def stopping(self) -> bool:
        """Whether the task should commit what it has and return."""
        return self.is_stopping()

    def advance(self, done: int) -> None:
        """Tell that so much more is done, in a unit of the task's own."""
        self.on_advance(done)


Task = Callable[[Argument, Attempt], Result]


@dataclass
class Busy:
    """What a worker is at, for status.json."""

    task: str
    pid: int = 0
    done: int = 0
    node: str = ""  # the machine, if it may be another one
    memory_bytes: int = 0  # of the worker, if the runner is told; else the job's own look at its processes has it


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


class Runner(Protocol):
    """Runs tasks on `workers` workers."""

    workers: int

    def put(self, value: object) -> Kept:
        """Keep a value for tasks to ask for."""

    def map(self, calls: Calls[Any, Any]) -> None:
        """Make all calls. The first error is raised when no task is at work any more."""

    def busy(self) -> list[Busy]:
        """What each worker is at, now."""

    def close(self) -> None:
        """End all workers."""


class Halted(Exception):
    """A task that was given up because the job stops."""


class Lanes(Generic[Argument, Result]):
    """The workers' side of `map`: each lane takes an argument, runs it, and takes the next."""

    def __init__(self, calls: Calls[Argument, Result]) -> None:
        self._calls = calls
        self._left: Iterator[Argument] = iter(calls.arguments)
        self._again: deque[Argument] = deque()
        self._at_work = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def run(self, lanes: Sequence[Callable[[Argument], Result]], on_halt: Callable[[], None]) -> None:
        """Run everything on these lanes. `on_halt` is called when the job is to stop while tasks are at work."""
        threads = [
            threading.Thread(target=copy_context().run, args=(self._lane, run), name="streambpe-lane", daemon=True)
            for run in lanes
        ]
        for thread in threads:
            thread.start()
        told = False
        while alive := next((thread for thread in threads if thread.is_alive()), None):
            try:
                alive.join(_LOOK_SECONDS)
                if self.halted and not told:
                    told = True
                    on_halt()
            except BaseException as why:  # Ctrl-C in a program that has no handler of its own
                self._note(why)
        if self._error is not None:
            raise self._error

    @property
    def halted(self) -> bool:
        """Whether no further task is begun."""
        return self._error is not None or self._calls.stop.is_set()

    def advance(self, done: int) -> None:
        """Tell the caller of `map` that so much more is done; from any thread."""
        with self._changed:
            self._calls.on_advance(done)

    def _lane(self, run: Callable[[Argument], Result]) -> None:
        while (taken := self._take()) is not None:
            argument = taken[0]
            try:
                result = run(argument)
                with self._changed:
                    self._again.extend(self._calls.on_done(argument, result))
            except Halted:
                pass
            except BaseException as why:
                self._note(why)
            finally:
                with self._changed:
                    self._at_work -= 1
                    self._changed.notify_all()

    def _take(self) -> tuple[Argument] | None:
        """The next argument; None when there is nothing left and no task at work that could leave something."""
        with self._changed:
            while not self.halted:
                try:
                    found = list(itertools.islice(self._left, 1)) if not self._again else [self._again.popleft()]
                except BaseException as why:
                    self._note(why)
                    return None
                if found:
                    self._at_work += 1
                    return (found[0],)
                if not self._at_work:
                    return None
                self._changed.wait(_LOOK_SECONDS)
        return None

    def _note(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
