"""Ctrl-C and SIGTERM as an event that the library looks at."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from streambpe.cli.told import say
from streambpe.errors import SourceUnreachable, Stopped
from streambpe.system import stop_signals
from streambpe.threads import StopSignal, ending_waits


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """An event that Ctrl-C and SIGTERM set; the second Ctrl-C ends the process at once."""
    stop = StopSignal()

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.number = number
        say(" stopping: finishing and committing the current work (Ctrl-C again to end at once)")
        stop.set()

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        with ending_waits(stop.is_set):
            yield stop
    except SourceUnreachable as why:
        if stop.is_set():  # it was not asked again
            raise Stopped(str(why), stop.number) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
