"""A worker process: it takes tasks from its coordinator one after another, and ends when that is gone.

    python -m streambpe.runners.worker      where processes cannot be forked; else nursery.py forks them

It is sent ("put", value), ("run", task, argument, attempt, memory) and ("stop",), and sends ("advance", n) and in the
end ("done", result) or ("failed", error). A thread of its own reads, so that a worker whose coordinator was killed
ends at once, in the middle of a task too: what a task commits is whole or not there.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
import traceback
from typing import Any

from streambpe.errors import StreambpeError
from streambpe.resources import prepare_allocators
from streambpe.runners.messages import Channel
from streambpe.runners.runner import Attempt
from streambpe.system import ignore_stop_signals

_TELL_SECONDS = 0.2  # between two messages of how far a task is


class _Served:
    """The worker's side of its channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.values: list[Any] = []
        self.stopping = False
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="streambpe-worker", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                kind, *message = self.channel.receive()
                if kind == "put":
                    self.values.append(message[0])
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
            told = _Told(self.channel)
            try:
                attempt = Attempt(number, memory_bytes, self.values, lambda: self.stopping, told.advance, True)
                answer: tuple[str, Any] = ("done", task(argument, attempt))
            except BaseException as why:
                answer = ("failed", why if isinstance(why, StreambpeError) else with_place(why))
            told.flush()
            _send(self.channel, pickled(answer))
            del task, argument, answer


def _send(channel: Channel, body: bytes) -> None:
    """Send a pickled message; without a coordinator there is nothing more to do."""
    try:
        channel.send_pickled(body)
    except OSError:
        os._exit(0)


class _Told:
    """How far a task is, told now and then."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._done, self._next = channel, 0, 0.0

    def advance(self, done: int) -> None:
        self._done += done
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        if self._done:
            _send(self._channel, pickle.dumps(("advance", self._done), protocol=5))
        self._done, self._next = 0, time.monotonic() + _TELL_SECONDS


def with_place(why: BaseException) -> BaseException:
    """An error that nobody foresaw, with the place in the worker where it came up: tracebacks are not pickled."""
    why.add_note("in a worker process:\n" + "".join(traceback.format_tb(why.__traceback__)))
    return why


def pickled(answer: tuple[str, Any]) -> bytes:
    """("done", result) or ("failed", error) as bytes, whatever they hold."""
    try:
        body = pickle.dumps(answer, protocol=5)
        if answer[0] == "failed":  # an error whose class cannot be made again from its arguments
            pickle.loads(body)
    except Exception:
        what = f"{type(answer[1]).__name__}: {answer[1]}"
        return pickle.dumps(("failed", RuntimeError(what)), protocol=5)
    return body


def serve(channel: Channel) -> None:
    """Be a worker; never returns."""
    ignore_stop_signals()
    _Served(channel).run()


def main() -> None:
    """A worker on standard input and output; what the task prints goes to standard error."""
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    prepare_allocators(int(sys.argv[1]))
    serve(Channel(source, target))


if __name__ == "__main__":
    main()
