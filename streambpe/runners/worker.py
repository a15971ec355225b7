"""A worker process: it takes tasks from its coordinator one after another, and ends when that is gone.

    python -m streambpe.runners.worker      where processes cannot be forked; else nursery.py forks them, or Ray starts
                                            them (ray_node.py)

It is sent ("share", value), ("run", task, argument, attempt, memory) and ("stop",), and sends ("advance", n, memory)
and in the end ("done", result) or ("failed", error). A thread of its own reads, so that a worker whose coordinator was
killed ends at once, in the middle of a task too: what a task commits is whole or not there.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from streambpe.errors import StreambpeError
from streambpe.resources import prepare_allocators
from streambpe.runners.messages import Channel, own_channel
from streambpe.runners.runner import Attempt, Task
from streambpe.system import ignore_stop_signals

_TELL_SECONDS = 0.2  # between two messages of how far a task is


class _Served:
    """The worker's side of its channel."""

    def __init__(self, channel: Channel, memory: Callable[[], int]) -> None:
        self.channel, self.memory = channel, memory
        self.shared: Any = None
        self.stopping = False
        self._done, self._next = 0, 0.0  # of the task: what is not told yet, when it is told
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="streambpe-worker", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                kind, *message = self.channel.receive()
                if kind == "share":
                    self.shared = message[0]
                elif kind == "stop":
                    self.stopping = True
                else:
                    self.stopping = False
                    self.tasks.put(message)
        except (EOFError, OSError):
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def run(self) -> None:
        """Run tasks for ever."""
        while True:
            task, argument, number, memory_bytes = self.tasks.get()
            attempt = Attempt(number, memory_bytes, self.shared, lambda: self.stopping, self._advance, True)
            answer = _answered(task, argument, attempt)
            self._tell()
            self._send(answer)
            del task, argument, attempt, answer

    def _advance(self, done: int) -> None:
        self._done += done
        if time.monotonic() >= self._next:
            self._tell()

    def _tell(self) -> None:
        """Tell how far the task is."""
        if self._done:
            self._send(pickle.dumps(("advance", self._done, self.memory()), protocol=5))
        self._done, self._next = 0, time.monotonic() + _TELL_SECONDS

    def _send(self, body: bytes) -> None:
        """Send a pickled message; without a coordinator there is nothing more to do."""
        try:
            self.channel.send_pickled(body)
        except OSError:
            os._exit(0)


def _answered(task: Task[Any, Any], argument: Any, attempt: Attempt) -> bytes:
    """("done", result) or ("failed", error), pickled, whatever they hold."""
    try:
        return pickle.dumps(("done", task(argument, attempt)), protocol=5)
    except BaseException as why:
        if not isinstance(why, StreambpeError):  # nobody foresaw it, and tracebacks are not pickled
            why.add_note("in a worker process:\n" + "".join(traceback.format_tb(why.__traceback__)))
        try:
            body = pickle.dumps(("failed", why), protocol=5)
            pickle.loads(body)
            return body
        except Exception:  # its class cannot be made again from its arguments
            return pickle.dumps(("failed", RuntimeError(f"{type(why).__name__}: {why}")), protocol=5)


def serve(channel: Channel, memory: Callable[[], int] = lambda: 0) -> None:
    """Be a worker; never returns. `memory`: what it takes, if its coordinator cannot see that."""
    _Served(channel, memory).run()


def main() -> None:
    """A worker on standard input and output; what the task prints goes to standard error."""
    ignore_stop_signals()
    channel = own_channel()
    prepare_allocators(int(sys.argv[1]))
    serve(channel)


if __name__ == "__main__":
    main()
