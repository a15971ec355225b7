"""Ctrl-C and SIGTERM as an event that the library looks at."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import click

from streambpe.system import stop_signals


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; the second Ctrl-C ends at once."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.signal_number = number  # type: ignore[attr-defined]
        click.echo(" stopping: finishing and committing what is in hand (again to end at once)", err=True)
        stop.set()

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
