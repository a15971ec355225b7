"""On the nodes of a Ray cluster: one attempt at a task, the look around before the first, and the board.

    run_attempt    a task and its argument, pickled  ->  how much it did, and its result or error, pickled
    look_around    whether a node has this program, the shared folder and the sources
    Board          a small actor: attempts tell it how far they are, and it tells them when to stop

Ray imports this module wherever a worker of it is.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streambpe.errors import RunError
from streambpe.resources import prepare_allocators
from streambpe.runners.runner import Attempt
from streambpe.runners.worker import answered
from streambpe.system import tree_memory

TELL_SECONDS = 0.5  # between two times that an attempt tells how far it is


Told = tuple[int, int, int, str]  # how much an attempt did, its process, bytes of memory, Ray's name for the node


@dataclass(frozen=True)
class SharedFolder:
    """A folder that all nodes share: a file in it says so."""

    folder: Path
    token: str
    sources: tuple[tuple[str, int], ...] = ()  # (path, bytes) of some of them

    @property
    def file(self) -> Path:
        """The coordinator's; it holds the token."""
        return self.folder / "coordinator"


class Board:
    """Where attempts tell how far they are. The driver takes what is told since it last did."""

    def __init__(self) -> None:
        self._told: dict[int, Told] = {}
        self._stopping = False

    def tell(self, call: int, told: Told) -> bool:
        """Called by an attempt; whether it should stop."""
        self._told[call] = told
        return self._stopping

    def take(self, stopping: bool) -> dict[int, Told]:
        """Called by the driver."""
        self._stopping, told, self._told = stopping, self._told, {}
        return told


class _Telling:
    """Tells the board, now and then, until it is closed. It never waits for an answer: Ray would take the worker for
    idle and give its place to another task."""

    def __init__(self, board: Any, call: int, node: str) -> None:
        self._board, self._call, self._node = board, call, node
        self._answer: Any = None
        self._ended = threading.Event()
        self.stopping, self.done = False, 0
        self._tell()
        self._thread = threading.Thread(target=self._loop, name="streambpe-telling", daemon=True)
        self._thread.start()

    def advance(self, done: int) -> None:
        self.done += done

    def _loop(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(Exception):  # without a board the work goes on, untold
            if self._answer is not None:
                if not self._answer.done():
                    return
                self.stopping = self._answer.result()
            told = self.done, os.getpid(), tree_memory(), self._node
            self._answer = self._board.tell.remote(self._call, told).future()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def run_attempt(
    board: Any, call: int, number: int, memory_bytes: int, place: SharedFolder, body: bytes, key: str, shared: bytes
) -> tuple[int, bytes]:
    """Attempt number `number` at a task, in the main thread of a worker of Ray."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what Ray sends to cancel a task: it stops when the board says so
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    prepare_allocators(memory_bytes)
    import ray  # not above: the coordinator reads this module too

    telling = _Telling(board, call, ray.get_runtime_context().get_node_id())

    def unpickled(body: bytes, attempt: Attempt) -> Any:
        if not _sees(place):
            raise RunError(
                f"{place.folder.parent} is not there on a node of the Ray cluster. With --engine ray what is written "
                f"must lie on a file system that all nodes share, under the same name. What was committed is kept."
            )
        if key not in _shared:  # unpickled once in each worker
            _shared.clear()
            _shared[key] = pickle.loads(shared)
        attempt.shared = _shared[key]
        task, argument = pickle.loads(body)
        return task(argument, attempt)

    attempt = Attempt(number, memory_bytes, None, lambda: telling.stopping, telling.advance, own_process=True)
    answer = answered(unpickled, body, attempt)
    telling.close()
    return telling.done, answer


_shared: dict[str, Any] = {}  # Calls.shared by its name in Ray, of one job


@lru_cache(maxsize=16)
def _sees(place: SharedFolder) -> bool:
    try:
        return place.file.read_text(encoding="utf-8") == place.token
    except OSError:
        return False


def versions() -> dict[str, str]:
    """Of what decides where a text is split; all nodes must have the same."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        **{name: version(name) for name in ("streambpe", "regex")},
    }


def look_around(node: str, place: SharedFolder, wanted: dict[str, str]) -> str:
    """What is wrong on this node; "" if nothing is. It leaves a file, so that the coordinator sees where."""
    mine = versions()
    if mine != wanted:
        other = ", ".join(
            f"{name} {mine[name]} instead of {wanted[name]}" for name in wanted if mine[name] != wanted[name]
        )
        return f"has {other}; all nodes need the same versions"
    if not _sees(place):
        return f"does not see {place.folder.parent}; it must lie on a file system that all nodes share, under one name"
    try:
        (place.folder / node).write_text(place.token, encoding="utf-8")
    except OSError as why:
        return f"cannot write to {place.folder.parent}: {why.strerror}"
    for path, size in place.sources:
        try:
            found = os.stat(path).st_size
        except OSError as why:
            return f"cannot read {path}: {why.strerror}; sources must lie on a file system that all nodes share"
        if size and found != size:
            return f"sees another file as {path}: {found:,} bytes instead of {size:,}"
    return ""
