"""On the nodes of a Ray cluster: an attempt at a task, and the look around before the first.

    run_task       makes an attempt, as a thread of the command would
    look_around    whether a node has this program, the shared folder and the sources

Ray imports this module wherever a worker of it is.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from streambpe.errors import RunError, StreambpeError
from streambpe.resources import prepare_allocators
from streambpe.runners.runner import Attempt


class SharedFolder(msgspec.Struct, frozen=True):
    """A folder that all nodes share: a file in it says so."""

    folder: Path
    token: str
    sources: tuple[tuple[str, int], ...] = ()  # (path, bytes) of some of them

    @property
    def file(self) -> Path:
        """The coordinator's; it holds the token."""
        return self.folder / "coordinator"


def run_task(body: bytes, memory_bytes: int, common: bytes) -> bytes:
    """An attempt at a task, in the main thread of a worker of Ray: (result, error or None, how much it did), pickled,
    whatever they hold. `common`: what all tasks have in common, the folder that all nodes share, and their versions."""
    stopping, done = threading.Event(), list[int]()
    signal.signal(signal.SIGINT, lambda *_: stopping.set())  # Ray sends it to a task that is cancelled
    try:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        prepare_allocators(memory_bytes)  # before Polars is imported
        task, argument, number = pickle.loads(body)
        shared, place, wanted = pickle.loads(common)
        if problem := look_around(place, wanted):  # a node that came later
            raise RunError(f"--engine ray: node {socket.gethostname()} {problem}. What was committed is kept.")
        attempt = Attempt(number, memory_bytes, shared, stopping.is_set, done.append, own_process=True)
        return _packed(task(argument, attempt), None, sum(done))
    except BaseException as why:
        if not isinstance(why, StreambpeError):  # nobody foresaw it, and tracebacks are not pickled
            why.add_note("in a worker process:\n" + "".join(traceback.format_tb(why.__traceback__)))
        try:
            made = _packed(None, why, 0)
            pickle.loads(made)
            return made
        except Exception:  # its class cannot be made again from its arguments
            return _packed(None, RuntimeError(f"{type(why).__name__}: {why}"), 0)


def _packed(result: Any, error: BaseException | None, done: int) -> bytes:
    return pickle.dumps((result, error, done), protocol=5)


def versions() -> dict[str, str]:
    """Of what decides where a text is split; all nodes must have the same."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        **{name: version(name) for name in ("streambpe", "regex")},
    }


def look_around(place: SharedFolder, wanted: dict[str, str]) -> str:
    """What is wrong on this node; "" if nothing is."""
    mine = versions()
    if mine != wanted:
        other = ", ".join(
            f"{name} {mine[name]} instead of {wanted[name]}" for name in wanted if mine[name] != wanted[name]
        )
        return f"has {other}; all nodes need the same versions"
    if not _sees(place):
        return f"does not see {place.folder.parent}, which must have the same path on all nodes"
    if not os.access(place.folder, os.W_OK):
        return f"cannot write to {place.folder.parent}"
    for path, size in place.sources:
        try:
            found = os.stat(path).st_size
        except OSError as why:
            return f"cannot read {path}: {why.strerror}; sources must be on a file system that all nodes share"
        if size and found != size:
            return f"sees another file as {path}: {found:,} bytes instead of {size:,}"
    return ""


def _sees(place: SharedFolder) -> bool:
    try:
        return place.file.read_text(encoding="utf-8") == place.token
    except OSError:
        return False
