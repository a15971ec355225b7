"""A Ray of this machine for one command: it is started where a task first needs it, and ends with the command.

    with one_ray():    every Ray without an address in this block is a job on the same one

    this process  ->  python -m streambpe.runners.ray_own  ->  Ray: scheduler, object store

Each question is a job of its own on it (ray_driver.py), so that no worker and no value outlives its question. The
process is sent a Start and answers ("up", address) or ("down", why). At the end of its input Ray ends, and so does it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streambpe.runners.messages import Channel
from streambpe.system import ignore_stop_signals, leave_apart

STORE_BYTES = 80 << 20  # of Ray's object store, which holds little: what is put, and results
_TRIES = 3  # at starting Ray: it gives its parts 30 s, which a busy machine may need longer for
_LONGEST_FOLDER = 40  # Ray's sockets lie 67 characters below its folder, and their names have 107 at most


@dataclass(frozen=True)
class Start:
    """What is started."""

    cpus: int
    folder: str | None  # where its temporary folder is made
    token: str  # that its processes know, and nobody else


@dataclass(frozen=True)
class Reached:
    """How a job gets to a Ray that runs."""

    address: str
    token: str | None  # None: the user's settings hold


class OwnRay:
    """A Ray that is started when it is first asked for; `close` it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._reached: Reached | None = None

    def reach(self, cpus: int, temp_dir: Path | None) -> Reached:
        """Start it, unless it runs. RuntimeError: why it cannot be."""
        if self._reached is not None and self._process is not None and self._process.poll() is None:
            return self._reached
        self.close()
        process = start_apart("streambpe.runners.ray_own")
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._channel = process, Channel(process.stdout, process.stdin)
        token = secrets.token_hex(32)
        try:
            self._channel.send(Start(cpus, str(temp_dir) if temp_dir else None, token))
            kind, said = self._channel.receive()
        except (EOFError, OSError):
            kind, said = "down", "the process that starts it ended"
        except BaseException:
            self.close()
            raise
        if kind != "up":
            self.close()
            raise RuntimeError(said)
        self._reached = Reached(said, token)
        return self._reached

    def close(self) -> None:
        """End it, with all that is at work there."""
        if self._process is None or self._channel is None:
            return
        self._channel.close()
        end_apart(self._process)
        self._process = self._channel = self._reached = None


_own: ContextVar[OwnRay | None] = ContextVar("streambpe_own_ray", default=None)


@contextlib.contextmanager
def one_ray() -> Iterator[None]:
    """Within this, at most one Ray is started on this machine."""
    if _own.get() is not None:
        yield
        return
    own = OwnRay()
    before = _own.set(own)
    try:
        yield
    finally:
        _own.reset(before)
        own.close()


def held_ray() -> OwnRay | None:
    """That of the `one_ray` around this."""
    return _own.get()


def start_apart(module: str) -> subprocess.Popen[bytes]:
    """A process that serves a channel and speaks with Ray; its memory is none of the job's."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Ray's own log files say more
        start_new_session=True,  # Ctrl-C is the coordinator's business
    )
    leave_apart(process.pid)
    return process


def end_apart(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process whose channel was closed."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def own_channel() -> Channel:
    """That of a process made by `start_apart`; what Ray prints goes to standard error."""
    ignore_stop_signals()
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return Channel(source, target)


def told(why: BaseException) -> str:
    """An error of Ray in one line: its first sentence."""
    why = getattr(why, "cause", why)  # what went wrong in a task
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    first = lines[0].split(". ")[0].rstrip(".")[:300] if lines else ""
    return f"{type(why).__name__}: {first}" if first else type(why).__name__


def quiet_ray(token: str | None) -> Any:
    """The library, in a process of its own. `token`: of a Ray that nobody else is to use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if token is not None:  # nothing is left in the user's home
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        os.environ.pop("RAY_ADDRESS", None)
    return importlib.import_module("ray")


QUIET = {"log_to_driver": False, "configure_logging": False}


def _started(ray: Any, start: Start, folder: str) -> str:
    """Start Ray; its address."""
    for left in reversed(range(_TRIES)):
        try:
            ray.init(
                address="local",
                num_cpus=start.cpus,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                _temp_dir=folder,
                **QUIET,
            )
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
            time.sleep(1.0)
    return str(ray.get_runtime_context().gcs_address)


def _short(folder: str | None) -> str:
    """A folder whose name is short enough for Ray's sockets."""
    for one in (folder, tempfile.gettempdir(), "/tmp"):
        if one is not None and len(one) <= _LONGEST_FOLDER:
            return one
    return tempfile.gettempdir()


def main() -> None:
    """Start Ray and keep it until the input ends."""
    channel = own_channel()
    start: Start = channel.receive()
    folder = tempfile.mkdtemp(prefix="sb-ray-", dir=_short(start.folder))
    os.environ |= {"RAY_prestart_worker_first_driver": "0"}  # this process has no tasks
    ray: Any = None

    def leave_at_the_end() -> None:
        with contextlib.suppress(EOFError, OSError):
            channel.receive()
        with contextlib.suppress(Exception):
            ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=leave_at_the_end, name="streambpe-input", daemon=True).start()
    try:
        ray = quiet_ray(start.token)
        answer = ("up", _started(ray, start, folder))
    except BaseException as why:
        answer = ("down", told(why))
    with contextlib.suppress(OSError):
        channel.send(answer)
    threading.Event().wait()  # until the input ends, and this process with it


if __name__ == "__main__":
    main()
