"""On the nodes of a Ray cluster: a worker, and the look around before the first.

    be_worker      connects to the command, and then is a worker as any other (worker.py)
    look_around    whether a node has this program, the shared folder and the sources

Ray imports this module wherever a worker of it is.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec import structs

from streambpe.resources import prepare_allocators
from streambpe.runners.messages import Channel
from streambpe.runners.worker import serve
from streambpe.system import tree_memory

TOKEN_BYTES = 32
CONNECT_SECONDS = 30.0


class SharedFolder(msgspec.Struct, frozen=True):
    """A folder that all nodes share: a file in it says so."""

    folder: Path
    token: str
    sources: tuple[tuple[str, int], ...] = ()  # (path, bytes) of some of them

    @property
    def file(self) -> Path:
        """The coordinator's; it holds the token."""
        return self.folder / "coordinator"


def be_worker(
    address: tuple[str, int], token: bytes, memory_bytes: int, place: SharedFolder, wanted: dict[str, str]
) -> None:
    """A worker, in the main thread of a worker of Ray, until the command at an address is gone. It shows the token, and
    tells its process id, its node and what is wrong there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's business
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    prepare_allocators(memory_bytes)
    import ray  # not above: the coordinator reads this module too

    node = ray.get_runtime_context().get_node_id()
    with socket.create_connection(address, CONNECT_SECONDS) as own:
        own.settimeout(None)
        own.sendall(token)
        channel = Channel(own.makefile("rb"), own.makefile("wb"))
    channel.send((os.getpid(), node, look_around(node, structs.replace(place, sources=()), wanted)))
    serve(channel, tree_memory)


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
        return f"does not see {place.folder.parent}, which must have the same path on all nodes"
    try:
        (place.folder / node).write_text(place.token, encoding="utf-8")
    except OSError as why:
        return f"cannot write to {place.folder.parent}: {why.strerror}"
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
