"""Tasks for the tests of runners, which a worker of Ray imports by name; and what stands in for Ray."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec import structs

from streambpe.encode import spread as encoding
from streambpe.errors import SourceError
from streambpe.runners.ray import Needs
from streambpe.runners.runner import Attempt, Calls, Here, Lost, Runner
from streambpe.train.counting import spread as counting
from streambpe.train.superwords import tasks as asking


class InsteadOfRay(Runner):
    """The tasks that Ray would do, in threads of this process."""

    def __init__(self, wanted: Needs) -> None:
        self.workers, self.memory_bytes = wanted.resources.threads, 100 << 20

    def map(self, calls: Calls[Any, Any]) -> None:
        Here(self.workers, self.memory_bytes).map(calls)


def results(runner: Runner, task: Any, arguments: Iterable[Any], **more: Any) -> list[Any]:
    """What the tasks give, in the order in which they end."""
    found: list[Any] = []
    runner.map(Calls(task, arguments, lambda argument, result: found.append(result), **more))
    return found


def results_of_a_stop(runner: Runner, folder: Path) -> list[Any]:
    """Those of five tasks of which some are at work when the job is stopped."""
    stop = threading.Event()

    def wait_and_stop() -> None:
        while not list(folder.iterdir()):
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=wait_and_stop, daemon=True).start()
    return results(runner, waits, [str(folder)] * 5, stop=stop)


def check_ordinary_tasks(runner: Runner) -> None:
    """Every argument once, with what all have in common; the first error ends it."""
    advanced: list[int] = []
    assert sorted(results(runner, square, range(50), on_advance=advanced.append)) == [n * n for n in range(50)]
    assert sum(advanced) == sum(range(50))
    assert results(runner, square, []) == []
    assert sorted(results(runner, multiplied, range(3), shared=7)) == [0, 7, 14]
    with pytest.raises(SourceError, match="three is no source"):
        results(runner, refuses, range(1000))
    with pytest.raises(OSError, match="number 0 is damaged"):
        results(runner, breaks, [0])


class Died(BaseException):
    """Instead of a kill."""


class Dying(InsteadOfRay):
    """Its workers are lost where a task `Died`; like Ray it tells what a task did when that ends."""

    def map(self, calls: Calls[Any, Any]) -> None:
        def task(argument: Any, attempt: Attempt) -> Any:
            told = list[int]()
            try:
                result = calls.task(argument, structs.replace(attempt, advance=told.append))
            except Died:
                raise Lost("killed") from None
            attempt.advance(sum(told))
            return result

        super().map(replace(calls, task=task))


def instead_of_ray(patch: pytest.MonkeyPatch, runner: Any = InsteadOfRay) -> None:
    """Have this do what `--engine ray` asks for; Ray need not be here."""
    fake = ModuleType("ray")
    fake.__spec__ = ModuleSpec("ray", None)
    patch.setitem(sys.modules, "ray", fake)
    for module in (counting, encoding, asking):
        patch.setattr(module, "OnRay", runner)


def die_at(patch: pytest.MonkeyPatch, place: str, *modules: ModuleType) -> None:
    """Let an attempt die at a place of these modules."""

    def failpoint(name: str) -> None:
        if name == place:
            raise Died

    for module in modules:
        patch.setattr(module, "failpoint", failpoint)


def square(number: int, attempt: Attempt) -> int:
    """A quick task that tells how far it is."""
    attempt.advance(number)
    return number * number


def multiplied(number: int, attempt: Attempt) -> int:
    """By what all tasks have in common."""
    return int(attempt.shared * number)


def dies(argument: tuple[str, int], attempt: Attempt) -> int:
    """Killed at its first `argument[1]` attempts, after it has told of progress."""
    attempt.advance(5)
    if attempt.number < argument[1]:
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def is_lost(argument: tuple[str, int], attempt: Attempt) -> str:
    """The same, without a kill."""
    if attempt.number < argument[1]:
        raise Lost("killed by a test")
    return argument[0]


def refuses(number: int, attempt: Attempt) -> int:
    """An error of ours at one number."""
    if number == 3:
        raise SourceError("three is no source")
    return number


def breaks(number: int, attempt: Attempt) -> int:
    """An error that nobody foresaw; it looks like the one of a broken channel."""
    raise OSError(5, f"number {number} is damaged")


class Odd(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def odd(number: int, attempt: Attempt) -> int:
    """An error that cannot be pickled."""
    raise Odd(number, 2)


def waits(folder: str, attempt: Attempt) -> str:
    """Says that it is there, and goes on until it is told to stop."""
    (Path(folder) / str(os.getpid())).touch()
    give_up = time.monotonic() + 60
    while not attempt.is_stopping() and time.monotonic() < give_up:
        time.sleep(0.01)
    return "told" if attempt.is_stopping() else "never told"


def prints(number: int, attempt: Attempt) -> int:
    """What it prints is no message."""
    print("a task prints this", flush=True)
    return number
