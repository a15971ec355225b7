"""Ctrl-C and SIGTERM as an event that the library looks at."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

import click

from streambpe.system import stop_signals
from streambpe.threads import StopSignal


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """An event that Ctrl-C and SIGTERM set; the second Ctrl-C ends the process at once."""
    stop = StopSignal()

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.number = number
        click.echo(" stopping: finishing and committing what is in hand (again to end at once)", err=True)
        stop.set()

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
