"""Tasks in processes beside this one: for work that holds the interpreter's lock.

On Linux they are forked by a lean parent that has loaded the libraries (nursery.py): a worker begins within
milliseconds and shares its libraries' pages. Elsewhere each is a new interpreter. A worker that dies is replaced,
and its task begun again, up to RETRIES times.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streambpe.runners.messages import Channel, channel_to
from streambpe.runners.runner import Busy, Calls, Lost
from streambpe.system import born_deaf, forks_well

# Memory of the parent of all and of each worker, before any work: what they do not share with each other.
NURSERY_BYTES = 40 << 20
WORKER_BYTES = 16 << 20 if forks_well() else 80 << 20
START_SECONDS = 0.6 if forks_well() else 1.0  # processor time of starting them


@dataclass(eq=False)
class _Worker:
    """A started process."""

    pid: int
    channel: Channel
    kill: Callable[[], int | None]  # if it is alive; gives back its exit code, None if nobody knows
    shared: bytes = b""  # what it was given

    def end(self) -> str:
        """Kill it if it is alive; tells how it ended. Afterwards it can write nothing."""
        how = how_it_ended(self.kill())
        self.channel.close()
        return how


class _Nursery:
    """The nursery process, seen from here."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._control, its = socket.socketpair()
        self._answers = self._control.makefile("rb")
        command = [sys.executable, "-m", "streambpe.runners.nursery", str(memory_bytes), *preload]
        with its, born_deaf():
            self._process = subprocess.Popen(command, stdin=its.fileno(), env=_environment())

    def start(self) -> _Worker:
        """Fork a worker."""
        mine, its = socket.socketpair()
        with mine, its:
            with self._lock:
                socket.send_fds(self._control, [b"s" + bytes(8)], [its.fileno()])
                pid = self._answer()
            return _Worker(pid, Channel(mine.makefile("rb"), mine.makefile("wb")), lambda: self._kill(pid))

    def _kill(self, pid: int) -> int | None:
        try:
            with self._lock:
                self._control.sendall(b"k" + pid.to_bytes(8, "little"))
                return os.waitstatus_to_exitcode(self._answer())
        except (OSError, ValueError):  # it is gone
            return None

    def _answer(self) -> int:
        answer = self._answers.read(8)
        if len(answer) < 8:
            raise ConnectionError("the parent of the workers died")
        return int.from_bytes(answer, "little")

    def close(self) -> None:
        """End it and all its workers."""
        self._answers.close()
        self._control.close()
        self._process.wait()


def _spawned(memory_bytes: int) -> _Worker:
    """A worker that is a new interpreter."""
    command = [sys.executable, "-m", "streambpe.runners.worker", str(memory_bytes)]
    with born_deaf():
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())

    def kill() -> int:
        process.kill()
        return process.wait()

    return _Worker(process.pid, channel_to(process), kill)


def _environment() -> dict[str, str]:
    """One thread in each worker is what it is there for."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def how_it_ended(code: int | None) -> str:
    """The exit code of a process in words."""
    if code is None:
        return "nobody knows how"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class Processes:
    """Runs tasks in processes. A Runner; `close` it."""

    def __init__(self, workers: int, memory_bytes: int, preload: Sequence[str] = (), fork: bool | None = None) -> None:
        """`memory_bytes`: of each worker. `preload`: modules that tasks need. `fork`: None for what the system can."""
        self.workers = workers
        self._memory_bytes, self._preload = memory_bytes, preload
        self._fork = forks_well() if fork is None else fork
        self._nursery: _Nursery | None = None
        self._workers: list[_Worker] = []  # those that were started and did not end
        self._idle: list[_Worker] = []  # of these
        self._lock = threading.Lock()

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        shared = pickle.dumps(("share", calls.shared), protocol=5)
        try:
            calls.run(self.workers, lambda *one: self._once(calls, shared, *one), self._tell_stop)
        except BaseException:
            self.close()
            raise

    def _tell_stop(self) -> None:
        for worker in list(self._workers):
            with contextlib.suppress(OSError, ValueError):
                worker.channel.send(("stop",))

    def _once(self, calls: Calls[Any, Any], shared: bytes, argument: Any, number: int, busy: Busy) -> Any:
        worker: _Worker | None = None
        try:
            worker = self._idle_or_new()
            busy.pid = worker.pid
            if worker.shared is not shared:
                worker.channel.send_pickled(shared)
                worker.shared = shared
            worker.channel.send(("run", calls.task, argument, number, calls.memory_bytes))
            if calls.halted:  # a stop that was told before it got the task was not meant for this task
                worker.channel.send(("stop",))
            while (message := worker.channel.receive())[0] == "advance":
                calls.advance(busy, message[1])
        except (EOFError, OSError):
            if worker is None:
                raise Lost("it could not be started") from None
            self._workers.remove(worker)
            raise Lost(worker.end()) from None
        self._idle.append(worker)
        kind, value = message
        if kind == "failed":
            raise value
        return value

    def _idle_or_new(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._fork and self._nursery is None:
                self._nursery = _Nursery(self._memory_bytes, self._preload)
            try:
                worker = self._nursery.start() if self._nursery is not None else _spawned(self._memory_bytes)
            except OSError:  # the nursery died, so another is started next time
                if self._nursery is not None:
                    self._nursery.close()
                    self._nursery = None
                raise
            self._workers.append(worker)
            return worker

    def close(self) -> None:
        """See Runner."""
        for worker in self._workers:
            worker.end()
        self._workers, self._idle = [], []
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
