"""Threads: the event that stops a job, and work spread over threads; results do not depend on how many there are."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class StopSignal(threading.Event):
    """Set when a job is to stop, by Ctrl-C or a signal; it says by which."""

    number: int = signal.SIGINT


def stopped_by(stop: threading.Event) -> int:
    """The signal that set it; an event of the caller's own counts as Ctrl-C."""
    return stop.number if isinstance(stop, StopSignal) else signal.SIGINT


_is_stopping: ContextVar[Callable[[], bool]] = ContextVar("is_stopping", default=lambda: False)
_LOOK_SECONDS = 0.05  # between two looks at whether to stop


@contextlib.contextmanager
def ending_waits(is_stopping: Callable[[], bool]) -> Iterator[None]:
    """Inside, in this thread, `wait` ends when the job is to stop."""
    outer = _is_stopping.get()
    before = _is_stopping.set(lambda: outer() or is_stopping())
    try:
        yield
    finally:
        _is_stopping.reset(before)


def wait(seconds: float) -> bool:
    """Wait; True at once if the job is to stop."""
    until = time.monotonic() + seconds
    is_stopping = _is_stopping.get()
    while not is_stopping():
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, _LOOK_SECONDS))
    return True


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int | None = None
) -> Iterator[Result]:
    """`work` of every item, in order; at most `ahead` results (twice as many as threads) wait at a time."""
    if threads == 1:
        yield from map(work, items)
        return
    most = 2 * threads if ahead is None else ahead
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # a caller that takes no more results waits only for those being made now
            for future in waiting:
                future.cancel()
