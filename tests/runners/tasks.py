"""Tasks for the tests of runners: a worker imports them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from streambpe.errors import SourceError
from streambpe.runners.runner import Attempt


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


def dies_while_it_answers(number: int, attempt: Attempt) -> int:
    """Killed at its first attempt when the head and a byte of its answer are on their way."""
    if not attempt.number:
        channel: Any = attempt.advance.__self__.channel  # type: ignore[attr-defined]
        os.write(channel._to.fileno(), (1000).to_bytes(8, "little") + b"\x80")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


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
    while not attempt.stopping and time.monotonic() < give_up:
        time.sleep(0.01)
    return "told" if attempt.stopping else "never told"


def prints(number: int, attempt: Attempt) -> int:
    """What it prints is no message."""
    print("a task prints this", flush=True)
    return number


def imported(name: str, attempt: Attempt) -> bool:
    """Whether a module was there before the task asked for it."""
    import sys

    return name in sys.modules
