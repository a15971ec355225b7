"""The parent of worker processes: it loads the libraries once, and forks a worker whenever it is told to.

    python -m streambpe.runners.nursery MEMORY MODULE...

It has one thread and holds no data, so its forks are quick and share its pages. Standard input is a socket:

    s and an open socket   fork a worker that serves it; answered with its process id
    k and a process id     kill it if it is alive; answered with how it ended, as waitpid tells it

Numbers have 8 bytes. At the end of the input it kills all workers and ends, so nothing outlives the coordinator.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys

from streambpe.resources import prepare_allocators
from streambpe.runners.messages import Channel
from streambpe.runners.worker import serve
from streambpe.system import end_child, fork, ignore_stop_signals


def main() -> None:
    """Serve until the input ends."""
    ignore_stop_signals()
    os.dup2(2, 1)  # what a task prints is no output of the command
    prepare_allocators(int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    control = socket.socket(fileno=os.dup(0))
    children: set[int] = set()
    while True:
        message, handles = _received(control)
        if not message:
            break
        if message[:1] == b"s":
            children.add(pid := _fork(handles[0], control))
            answer = pid
        else:
            pid = int.from_bytes(message[1:], "little")
            answer = end_child(pid)
            children.discard(pid)
        with contextlib.suppress(OSError):  # the next message tells that it is gone
            control.sendall(answer.to_bytes(8, "little"))
    for pid in children:
        end_child(pid)


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """A message and the handles that come with it; nothing when the coordinator is gone."""
    try:
        message, handles, _, _ = socket.recv_fds(control, 9, 1)
    except OSError:  # it was killed before it read an answer
        return b"", []
    return message, handles


def _fork(handle: int, control: socket.socket) -> int:
    pid = fork()
    if pid:
        os.close(handle)
        return pid
    try:
        control.close()
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)  # standard input: the control socket must end with its owner
        with socket.socket(fileno=handle) as own:
            serve(Channel(own.makefile("rb"), own.makefile("wb")))
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
