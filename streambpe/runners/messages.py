"""Python values between two processes, pickled, each behind its length (8 bytes, little-endian)."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import threading
from typing import IO, Any


class Channel:
    """Two byte streams to another process. Any thread may send; one receives."""

    def __init__(self, source: IO[bytes], target: IO[bytes]) -> None:
        self._from, self._to = source, target
        self._lock = threading.Lock()

    def send(self, value: object) -> None:
        """Send a value. OSError: the other side is gone."""
        self.send_pickled(pickle.dumps(value, protocol=5))

    def send_pickled(self, body: bytes) -> None:
        """Send a value that was pickled already."""
        with self._lock:
            self._to.write(len(body).to_bytes(8, "little"))
            self._to.write(body)
            self._to.flush()

    def receive(self) -> Any:
        """The next value. EOFError or OSError: the other side is gone, perhaps in the middle of a message."""
        return pickle.loads(self._read(int.from_bytes(self._read(8), "little")))

    def _read(self, size: int) -> bytes:
        data = self._from.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def close(self) -> None:
        """Close both streams; safe to call twice."""
        for stream in (self._to, self._from):
            with contextlib.suppress(OSError, ValueError):
                stream.close()


def channel_to(process: subprocess.Popen[bytes]) -> Channel:
    """To a process whose standard input and output are pipes."""
    assert process.stdin is not None
    assert process.stdout is not None
    return Channel(process.stdout, process.stdin)


def own_channel() -> Channel:
    """Of such a process, from inside; what it prints goes to standard error."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return Channel(source, target)
