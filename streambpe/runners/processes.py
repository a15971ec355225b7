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
from collections.abc import Sequence
from typing import Any, Protocol

from streambpe.errors import WorkerLost
from streambpe.runners.messages import Channel
from streambpe.runners.runner import Busy, Calls, Halted, Kept, Lanes
from streambpe.system import born_deaf, forks_well

RETRIES = 3  # of a task whose worker died
# Memory of the parent of all and of each worker, before any work: what they do not share with each other.
NURSERY_BYTES = 40 << 20
WORKER_BYTES = 16 << 20 if forks_well() else 80 << 20
START_SECONDS = 0.6 if forks_well() else 1.0  # processor time of starting them


class _Process(Protocol):
    """A started process."""

    pid: int
    channel: Channel

    def end(self) -> str:
        """Kill it if it is alive; tells how it ended. Afterwards it can write nothing."""


class _Forked:
    """A worker forked by the nursery."""

    def __init__(self, nursery: _Nursery) -> None:
        self._nursery = nursery
        mine, its = socket.socketpair()
        with mine, its:
            self.pid = nursery.fork(its)
            self.channel = Channel(mine.makefile("rb"), mine.makefile("wb"))

    def end(self) -> str:
        """See _Process."""
        self.channel.close()
        return how_it_ended(self._nursery.end(self.pid))


class _Nursery:
    """The nursery process, seen from here."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._control, its = socket.socketpair()
        command = [sys.executable, "-m", "streambpe.runners.nursery", str(memory_bytes), *preload]
        with its, born_deaf():
            self._process = subprocess.Popen(command, stdin=its.fileno(), env=_environment())

    def fork(self, its: socket.socket) -> int:
        """Fork a worker that serves this socket; its process id."""
        with self._lock:
            socket.send_fds(self._control, [b"s" + bytes(8)], [its.fileno()])
            return self._answer()

    def end(self, pid: int) -> int | None:
        """End a worker; its exit code, or None if nobody knows."""
        try:
            with self._lock:
                self._control.sendall(b"k" + pid.to_bytes(8, "little"))
                return os.waitstatus_to_exitcode(self._answer())
        except OSError:
            return None

    def _answer(self) -> int:
        answer = b""
        while len(answer) < 8:
            more = self._control.recv(8 - len(answer))
            if not more:
                raise ConnectionError("the parent of the workers died")
            answer += more
        return int.from_bytes(answer, "little")

    def close(self) -> None:
        """End it and all its workers."""
        self._control.close()
        self._process.wait()


class _Spawned:
    """A worker that is a new interpreter."""

    def __init__(self, memory_bytes: int) -> None:
        command = [sys.executable, "-m", "streambpe.runners.worker", str(memory_bytes)]
        with born_deaf():
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.channel = Channel(self._process.stdout, self._process.stdin)

    def end(self) -> str:
        """See _Process."""
        self._process.kill()
        self.channel.close()
        code = self._process.wait()
        return how_it_ended(code)


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


class _Lane:
    """One worker's place: the process that is in it now, and what that was given."""

    def __init__(self) -> None:
        self.process: _Process | None = None
        self.values = 0  # of those that were put, how many it has
        self.busy: Busy | None = None


class Processes:
    """Runs tasks in processes. A Runner; `close` it."""

    def __init__(self, workers: int, memory_bytes: int, preload: Sequence[str] = (), fork: bool | None = None) -> None:
        """`memory_bytes`: of each worker. `preload`: modules that tasks need. `fork`: None for what the system can."""
        self.workers = workers
        self._memory_bytes, self._preload = memory_bytes, preload
        self._fork = forks_well() if fork is None else fork
        self._nursery: _Nursery | None = None
        self._values: list[bytes] = []
        self._lanes = [_Lane() for _ in range(workers)]
        self._lock = threading.Lock()

    def put(self, value: object) -> Kept:
        """See Runner."""
        self._values.append(pickle.dumps(("put", value), protocol=5))
        return Kept(len(self._values) - 1)

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        lanes = Lanes(calls)
        workers = [lambda argument, lane=lane: self._run(lane, calls, lanes, argument) for lane in self._lanes]
        try:
            lanes.run(workers, self._tell_stop)
        except BaseException:
            self.close()
            raise

    def _tell_stop(self) -> None:
        for lane in self._lanes:
            if lane.busy is not None and lane.process is not None:
                with contextlib.suppress(OSError, ValueError):
                    lane.process.channel.send(("stop",))

    def _run(self, lane: _Lane, calls: Calls[Any, Any], lanes: Lanes[Any, Any], argument: Any) -> Any:
        for number in range(1 + RETRIES):
            lane.busy = Busy(calls.describe(argument))
            try:
                kind, value = self._call(lane, calls, lanes, argument, number)
            except (EOFError, OSError):
                lanes.advance(-lane.busy.done)
                how = lane.process.end() if lane.process is not None else "it could not be started"
                lane.process = None
                if lanes.halted:
                    raise Halted from None
                continue
            finally:
                lane.busy = None
            if kind == "failed":
                raise value
            return value
        raise WorkerLost(
            f"A worker process ended {1 + RETRIES} times while it was at {calls.describe(argument)}; the last time: "
            f"{how}. Everything committed is kept. If the machine ran out of memory, give the same command again with "
            f"a smaller --memory; --threads 1 works without processes."
        )

    def _call(
        self, lane: _Lane, calls: Calls[Any, Any], lanes: Lanes[Any, Any], argument: Any, number: int
    ) -> tuple[str, Any]:
        """("done", result) or ("failed", error). EOFError, OSError: the worker died."""
        if lane.process is None:
            lane.process, lane.values = self._start(), 0
        assert lane.busy is not None
        lane.busy.pid = lane.process.pid
        channel = lane.process.channel
        while lane.values < len(self._values):
            channel.send_pickled(self._values[lane.values])
            lane.values += 1
        channel.send(("run", calls.task, argument, number, calls.memory_bytes))
        if lanes.halted:  # a stop that was told before it got the task was not meant for this task
            channel.send(("stop",))
        while True:
            kind, value = channel.receive()
            if kind != "advance":
                return kind, value
            lane.busy.done += value
            lanes.advance(value)

    def _start(self) -> _Process:
        if not self._fork:
            return _Spawned(self._memory_bytes)
        with self._lock:
            if self._nursery is None:
                self._nursery = _Nursery(self._memory_bytes, self._preload)
            try:
                return _Forked(self._nursery)
            except OSError:  # it died, so another is started next time
                self._nursery.close()
                self._nursery = None
                raise

    def busy(self) -> list[Busy]:
        """See Runner."""
        return [lane.busy for lane in self._lanes if lane.busy is not None]

    def close(self) -> None:
        """See Runner."""
        for lane in self._lanes:
            if lane.process is not None:
                lane.process.end()
                lane.process = None
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
