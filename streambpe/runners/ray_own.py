"""A Ray of this machine for one command: it is started where a task first needs it, and ends with the command.

    with one_ray():    every Ray without an address in this block is a job on the same one

    this process  ->  a driver without tasks (ray_driver.py)  ->  Ray: scheduler, object store

Each question is a job of its own on it, with a driver of its own, so that no worker and no value outlives its question.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from streambpe.runners.messages import channel_to
from streambpe.runners.ray_driver import Reached
from streambpe.system import leave_apart


class Apart:
    """A driver process, which speaks with Ray; its memory is none of the job's. `close` it, and what it started."""

    def __init__(self, reached: Reached) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streambpe.runners.ray_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Ray's own log files say more
            start_new_session=True,  # Ctrl-C is the coordinator's business
        )
        leave_apart(self._process.pid)
        self.channel = channel_to(self._process)
        with contextlib.suppress(OSError):  # whoever waits for an answer is told that there is none
            self.channel.send(reached)

    @property
    def runs(self) -> bool:
        """Whether it did not end."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it, with all that is at work there."""
        self.channel.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class OwnRay:
    """A Ray that is started when it is first asked for; `close` it."""

    def __init__(self) -> None:
        self._apart: Apart | None = None
        self._reached: Reached | None = None

    def reach(self, cpus: int, temp_dir: Path | None) -> Reached:
        """Start it, unless it runs. RuntimeError: why it cannot be."""
        if self._reached is not None and self._apart is not None and self._apart.runs:
            return self._reached
        self.close()
        token = secrets.token_hex(32)
        self._apart = Apart(Reached(None, token, cpus, str(temp_dir) if temp_dir else None))
        try:
            kind, said = self._apart.channel.receive()
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
        if self._apart is not None:
            self._apart.close()
        self._apart = self._reached = None


held_ray: ContextVar[OwnRay | None] = ContextVar("streambpe_own_ray", default=None)  # of the `one_ray` around


@contextlib.contextmanager
def one_ray() -> Iterator[None]:
    """Within this, at most one Ray is started on this machine."""
    if held_ray.get() is not None:
        yield
        return
    own = OwnRay()
    before = held_ray.set(own)
    try:
        yield
    finally:
        held_ray.reset(before)
        own.close()
