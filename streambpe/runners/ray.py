"""Workers on a Ray cluster, or on a Ray that is started on this machine for one command.

    with one_ray():    every nursery on Ray in this block uses the same driver

    this process  ->  driver (ray_driver.py)  ->  Ray  ->  workers on the nodes (ray_node.py)  ->  this process

Ray only starts the workers; each connects to this process and shows a token, and is then one as any other. A worker or
a node that is lost takes nothing along but what its attempts had not committed: the next attempt runs where Ray finds
room. What tasks write lies on a file system that all nodes share, which is tried before any task.
"""

from __future__ import annotations

import contextlib
import hmac
import importlib.util
import itertools
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from streambpe.errors import LimitError, RunError, UsageError, WorkerLost
from streambpe.resources import Resources, format_size
from streambpe.runners.messages import Channel, channel_to
from streambpe.runners.processes import Nursery, WorkerProcess
from streambpe.runners.ray_node import CONNECT_SECONDS, TOKEN_BYTES, SharedFolder, versions
from streambpe.runners.runner import Lost
from streambpe.system import leave_apart, remove_folder

RAY_WORKER_BYTES = 112 << 20  # of a worker of Ray before any work: Python, Ray's library and ours
_ANSWER_SECONDS = 300.0  # until Ray is up; its own patience ends before
_END_SECONDS = 60.0  # until Ray says how a worker ended
_LOOK_SECONDS = 0.2  # between two looks at whether a worker is still to come
_MOST_SOURCES = 100  # that each node is asked for before the first task


class Needs(msgspec.Struct, frozen=True):
    """What a job takes, in processes here or on Ray."""

    resources: Resources  # threads: at a time, unless it is a cluster; memory: of the job on each node
    held_bytes: int  # of the memory, what the coordinator holds
    least_bytes: int  # that a task needs
    folder: Path | None  # that all nodes share; it is made. None: no tasks, just a look at the nodes
    sources: Sequence[tuple[str, int]] = ()  # (path, bytes) of what tasks read
    extra_bytes: int = 0  # that a worker holds besides, before any task


def refuse_missing_engine(engine: str) -> None:
    """An error for --engine ray where the package is missing."""
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise UsageError(
            "--engine ray needs the package ray: pip install 'streambpe[ray]' installs it. Nothing was changed."
        )


class NodeLayout(msgspec.Struct, frozen=True):
    """How tasks are laid out on the nodes."""

    cpus: int  # that a task asks for
    workers: int
    memory_bytes: int  # for each task


def room_on(nodes: Sequence[int], wanted: Needs) -> NodeLayout:
    """How many tasks may run at a time. `nodes`: the CPUs of each. On no node they take more than the job may."""
    most = max(nodes, default=0)
    for cpus in range(1, most + 1):
        at_a_time = most // cpus
        each = (wanted.resources.memory_bytes - wanted.held_bytes) // at_a_time - RAY_WORKER_BYTES - wanted.extra_bytes
        if each >= wanted.least_bytes:
            return NodeLayout(cpus, sum(node // cpus for node in nodes), each)
    if not most:
        raise RunError("--engine ray: no node of the cluster has a CPU for tasks. Nothing was started.")
    needs = wanted.held_bytes + RAY_WORKER_BYTES + wanted.extra_bytes + wanted.least_bytes
    raise LimitError(
        f"--engine ray: {format_size(wanted.resources.memory_bytes)} are too little for one task on a node, which "
        f"needs {format_size(needs)}. Nothing was started. Give more --memory, or leave --engine out."
    )


class RayDriver:
    """The driver process, seen from here; its memory is none of the job's. `close` it, and what it started."""

    def __init__(self, resources: Resources) -> None:
        self.address = resources.address
        self.why_down = ""
        self._answers: dict[int, Future[Any]] = {}
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streambpe.runners.ray_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Ray's own log files say more
            start_new_session=True,  # Ctrl-C is the coordinator's business
        )
        leave_apart(self._process.pid)
        self._channel = channel_to(self._process)
        threading.Thread(target=self._read, name="streambpe-ray", daemon=True).start()
        try:
            temp_dir = str(resources.temp_dir) if resources.temp_dir else None
            self.host: str = self.ask("reach", self.address, resources.threads, temp_dir)
        except BaseException:
            self.close()
            raise
        self.call("watch")

    @property
    def name(self) -> str:
        """What it speaks with."""
        return f"The Ray cluster ({self.address})" if self.address else "Ray on this machine"

    def call(self, name: str, *given: Any) -> Future[Any]:
        """Have a method of it called; the future has what that gives, or None if there will be no answer."""
        number, answer = next(self._numbers), Future[Any]()
        self._answers[number] = answer
        with contextlib.suppress(OSError, ValueError):
            self._channel.send((number, name, *given))
        if self.why_down:
            self._give_up()
        return answer

    def ask(self, name: str, *given: Any) -> Any:
        """The same, and its answer."""
        answer = None
        try:
            answer = self.call(name, *given).result(_ANSWER_SECONDS)
        except TimeoutError:
            self.why_down = f"no answer within {_ANSWER_SECONDS:.0f} s"
        if answer is None:
            useless = f"{self.name} cannot be used: {self.why_down}. Nothing was started. "
            if self.address:
                raise WorkerLost(f"{useless}Is it running, with this machine as a node? `ray status` shows that.")
            raise WorkerLost(f"{useless}On a busy machine, try again; --engine processes works without Ray.")
        return answer

    def _read(self) -> None:
        """Hand out answers until it fails at something or ends; whatever ends this thread, nobody waits then."""
        with contextlib.suppress(Exception):
            while not self.why_down:
                number, answer, why = self._channel.receive()
                if why:
                    self.why_down = why
                else:
                    self._answers.pop(number).set_result(answer)
        self.why_down = self.why_down or "Ray ended the process that talked to it"
        self._give_up()

    def _give_up(self) -> None:
        for number in list(self._answers):
            answer = self._answers.pop(number, None)
            if answer is not None:
                answer.set_result(None)

    def close(self) -> None:
        """End it, with all that is at work there."""
        self._channel.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_held: ContextVar[list[RayDriver] | None] = ContextVar("streambpe_held_ray", default=None)  # of the `one_ray` around


@contextlib.contextmanager
def one_ray() -> Iterator[None]:
    """Within this, at most one Ray is started on this machine."""
    if _held.get() is not None:
        yield
        return
    held: list[RayDriver] = []
    before = _held.set(held)
    try:
        yield
    finally:
        _held.reset(before)
        for driver in held:
            driver.close()


class OnRay(Nursery):
    """Starts workers on Ray, for one question."""

    def __init__(self, wanted: Needs) -> None:
        refuse_missing_engine("ray")
        token = secrets.token_hex(8)
        sources = tuple(wanted.sources[:: max(1, -(-len(wanted.sources) // _MOST_SOURCES))])  # from all over the list
        self._shares = wanted.folder is not None
        self._place = SharedFolder((wanted.folder or Path()) / f"ray-{token}", token, sources)
        held = _held.get()
        if held and not held[-1].why_down:
            self._driver = held[-1]
        else:
            self._driver = RayDriver(wanted.resources)
            if held is not None:
                held.append(self._driver)
        self._alone = held is None  # so the driver ends with this
        self.who = f"A worker of {self._driver.name}"
        try:
            self.nodes: dict[str, tuple[str, int]] = self._driver.ask("nodes")
            self.room = room_on([cpus for _, cpus in self.nodes.values()], wanted)
            if self._shares:
                self._look()
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """Refuse a cluster whose nodes have other programs, or other files."""
        self._place.folder.mkdir(parents=True)
        self._place.file.write_text(self._place.token, encoding="utf-8")
        problems: dict[str, str] = self._driver.ask("look", self._place, versions(), self.room.cpus)
        for node, problem in problems.items():
            self._refuse(node, problem, "Nothing was started.")

    def _refuse(self, node: str, problem: str, kept: str) -> None:
        """Refuse a node with a problem, or one that left its file elsewhere."""
        with contextlib.suppress(OSError):
            if not problem and (self._place.folder / node).read_text(encoding="utf-8") == self._place.token:
                return
        problem = problem or f"writes to another {self._place.folder.parent} than this command"
        raise RunError(f"--engine ray: node {self._name_of(node)} {problem}. {kept}")

    def _name_of(self, node: str) -> str:
        return self.nodes[node][0] if node in self.nodes else node[:6]

    def start(self, wanted: Callable[[], bool]) -> WorkerProcess | None:
        """See Nursery. It waits until Ray has room for the worker."""
        token, driver = secrets.token_bytes(TOKEN_BYTES), self._driver
        family = socket.AF_INET6 if ":" in driver.host else socket.AF_INET
        with socket.create_server((driver.host, 0), family=family) as server:
            server.settimeout(_LOOK_SECONDS)
            given = server.getsockname()[:2], token, self.room.memory_bytes, self._place, versions()
            ended = driver.call("work", *given)  # its answer says how the worker ended
            made = None
            while made is None:
                if not wanted():
                    return None  # it will find nobody, and end
                if driver.why_down:
                    raise WorkerLost(
                        f"{driver.name} was lost: {driver.why_down}. Everything committed is kept; the same command "
                        "continues when the cluster is back, or without --engine ray."
                    )
                if ended.done():
                    raise Lost(ended.result() or driver.why_down)
                made = _connected(server, token)
        ended.add_done_callback(lambda _: _hang_up(made))
        with made:  # it is open as long as the channel
            channel = Channel(made.makefile("rb"), made.makefile("wb"))
        pid, node, problem = channel.receive()
        self._refuse(node, problem, "What was committed is kept.")

        def kill() -> str:
            _hang_up(made)
            with contextlib.suppress(TimeoutError):
                return ended.result(_END_SECONDS) or driver.why_down
            return "no reason is known"

        return WorkerProcess(pid, channel, kill, self._name_of(node))

    def close(self) -> None:
        """See Nursery."""
        if self._alone:
            self._driver.close()
        if self._shares:
            with contextlib.suppress(OSError):
                remove_folder(self._place.folder)
                self._place.folder.parent.rmdir()  # unless something else is in it


def _connected(server: socket.socket, token: bytes) -> socket.socket | None:
    """The worker that shows the token, if it comes now."""
    try:
        made, _ = server.accept()
    except TimeoutError:
        return None
    with contextlib.suppress(OSError):
        made.settimeout(CONNECT_SECONDS)
        if hmac.compare_digest(made.recv(TOKEN_BYTES, socket.MSG_WAITALL), token):
            made.settimeout(None)
            return made
    made.close()
    return None


def _hang_up(connection: socket.socket) -> None:
    """End a connection for all that wait on either side; a worker ends at that."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
