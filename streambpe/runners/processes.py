"""Tasks in worker processes: for work that holds the interpreter's lock.

A nursery starts the workers. On Linux a lean parent that has loaded the libraries forks them (nursery.py): a worker
begins within milliseconds and shares its libraries' pages. Elsewhere each is a new interpreter. Ray starts them on the
nodes of a cluster (ray.py). A worker that dies is replaced, and its task begun again, up to RETRIES times.
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
from typing import Any, Protocol

import msgspec

from streambpe.runners.messages import Channel, channel_to
from streambpe.runners.runner import Busy, Calls, Lost
from streambpe.system import born_deaf, forks_well

# Memory of the parent of all and of each worker, before any work: what they do not share with each other.
NURSERY_BYTES = 40 << 20
WORKER_BYTES = 16 << 20 if forks_well() else 80 << 20
START_SECONDS = 0.6 if forks_well() else 1.0  # processor time of starting them


class WorkerProcess(msgspec.Struct, eq=False):
    """A started process."""

    pid: int
    channel: Channel
    kill: Callable[[], str]  # if it is alive; tells how it ended
    node: str = ""  # the machine, if it may be another one
    shared: bytes = b""  # what it was given

    def end(self) -> str:
        """Kill it if it is alive; tells how and where it ended. Afterwards it can write nothing."""
        how = self.kill()
        self.channel.close()
        return " on ".join(filter(None, [how, self.node]))


class Nursery(Protocol):
    """What starts workers."""

    who: str = "A worker process"  # what messages call one

    def start(self, wanted: Callable[[], bool]) -> WorkerProcess | None:
        """Start one; None: it was no longer wanted. OSError: it could not be started."""

    def close(self) -> None:
        """End all that was started beside the workers; `start` begins anew."""
        return


class Forking(Nursery):
    """The nursery process, seen from here; it is started when it is first needed."""

    def __init__(self, memory_bytes: int, preload: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "streambpe.runners.nursery", str(memory_bytes), *preload]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, wanted: Callable[[], bool]) -> WorkerProcess:
        """See Nursery."""
        mine, its = socket.socketpair()
        with mine, its:
            with self._lock:
                if self._process is None:
                    self._begin()
                try:
                    socket.send_fds(self._control, [b"s" + bytes(8)], [its.fileno()])
                    pid = self._answer()
                except OSError:  # it died, so another is started next time
                    self.close()
                    raise
            return WorkerProcess(pid, Channel(mine.makefile("rb"), mine.makefile("wb")), lambda: self._kill(pid))

    def _begin(self) -> None:
        self._control, its = socket.socketpair()
        self._answers = self._control.makefile("rb")
        with its, born_deaf():
            self._process = subprocess.Popen(self._command, stdin=its.fileno(), env=_environment())

    def _kill(self, pid: int) -> str:
        try:
            with self._lock:
                self._control.sendall(b"k" + pid.to_bytes(8, "little"))
                return how_it_ended(os.waitstatus_to_exitcode(self._answer()))
        except (OSError, ValueError):  # the nursery is gone
            return "no reason is known"

    def _answer(self) -> int:
        answer = self._answers.read(8)
        if len(answer) < 8:
            raise ConnectionError("the parent of the workers died")
        return int.from_bytes(answer, "little")

    def close(self) -> None:
        """See Nursery."""
        if self._process is not None:
            self._answers.close()
            self._control.close()
            self._process.wait()
            self._process = None


class Spawning(Nursery):
    """Starts each worker as a new interpreter."""

    def __init__(self, memory_bytes: int) -> None:
        self._command = [sys.executable, "-m", "streambpe.runners.worker", str(memory_bytes)]

    def start(self, wanted: Callable[[], bool]) -> WorkerProcess:
        """See Nursery."""
        with born_deaf():
            process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())

        def kill() -> str:
            process.kill()
            return how_it_ended(process.wait())

        return WorkerProcess(process.pid, channel_to(process), kill)


def _environment() -> dict[str, str]:
    """One thread in each worker is what it is there for."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def how_it_ended(code: int) -> str:
    """The exit code of a process in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class Processes:
    """Runs tasks in processes that a nursery starts. A Runner; `close` it."""

    def __init__(self, workers: int, nursery: Nursery) -> None:
        self.workers = workers
        self._nursery = nursery
        self._workers: list[WorkerProcess] = []  # those that were started and did not end
        self._idle: list[WorkerProcess] = []  # of these

    @classmethod
    def here(cls, workers: int, memory_bytes: int, preload: Sequence[str] = (), fork: bool | None = None) -> Processes:
        """On this machine. `memory_bytes`: of each worker. `preload`: modules that tasks need. `fork`: None for what
        the system can."""
        forks = forks_well() if fork is None else fork
        return cls(workers, Forking(memory_bytes, preload) if forks else Spawning(memory_bytes))

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        shared = pickle.dumps(("share", calls.shared), protocol=5)
        calls.run(self.workers, lambda *one: self._once(calls, shared, *one), self._tell_stop, self._nursery.who)

    def _tell_stop(self) -> None:
        for worker in list(self._workers):
            with contextlib.suppress(OSError, ValueError):
                worker.channel.send(("stop",))

    def _once(self, calls: Calls[Any, Any], shared: bytes, argument: Any, number: int, busy: Busy) -> Any:
        worker: WorkerProcess | None = None
        try:
            worker = self._idle_or_new(calls)
            busy.pid, busy.node = worker.pid, worker.node
            if worker.shared is not shared:
                worker.channel.send_pickled(shared)
                worker.shared = shared
            worker.channel.send(("run", calls.task, argument, number, calls.memory_bytes))
            if calls.halted:  # a stop that was told before it got the task was not meant for this task
                worker.channel.send(("stop",))
            while (message := worker.channel.receive())[0] == "advance":
                busy.memory_bytes = message[2]
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

    def _idle_or_new(self, calls: Calls[Any, Any]) -> WorkerProcess:
        """A worker; where a new one has to wait for room, one that is idle by then may have that room."""
        while not calls.halted:
            with contextlib.suppress(IndexError):
                return self._idle.pop()
            worker = self._nursery.start(lambda: not calls.halted and not self._idle)
            if worker is not None:
                self._workers.append(worker)
                return worker
        raise Lost("the job was halted")

    def close(self) -> None:
        """See Runner."""
        for worker in self._workers:
            worker.channel.close()  # at which it ends
        for worker in self._workers:
            worker.end()
        self._workers, self._idle = [], []
        self._nursery.close()
