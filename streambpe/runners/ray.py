"""Tasks on a Ray cluster, or on a Ray that is started on this machine for one command (ray_own.py).

    this process  ->  driver (ray_driver.py)  ->  Ray  ->  workers on the nodes (ray_node.py)

A worker or a node that is lost takes nothing along but what its attempts had not committed: the next attempt runs
where Ray finds room. What tasks write lies on a file system that all nodes share, which is tried before any task.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import queue
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streambpe.errors import LimitError, RunError, UsageError, WorkerLost
from streambpe.resources import format_size
from streambpe.runners.ray_driver import Reached
from streambpe.runners.ray_node import SharedFolder, Told, versions
from streambpe.runners.ray_own import Apart, OwnRay, held_ray
from streambpe.runners.runner import Busy, Calls, Lost
from streambpe.system import remove_folder

RAY_WORKER_BYTES = 112 << 20  # of a worker of Ray before any work: Python, Ray's library and ours
_START_SECONDS = 300.0  # until Ray is up; its own patience ends before
_MOST_SOURCES = 100  # that each node is asked for before the first task


@dataclass(frozen=True)
class Needs:
    """What a job takes, in processes here or on Ray."""

    address: str | None  # of Ray; None: a Ray of the command's own, on this machine
    threads: int  # at a time, unless it is a cluster
    memory_bytes: int  # of the job on each node
    held_bytes: int  # of these, what the coordinator holds
    least_bytes: int  # that a task needs
    folder: Path | None  # that all nodes share; it is made. None: no tasks, just a look at the nodes
    sources: Sequence[tuple[str, int]] = ()  # (path, bytes) of what tasks read
    extra_bytes: int = 0  # that a worker holds besides, before any task
    temp_dir: Path | None = None


def refuse_missing_engine(engine: str) -> None:
    """An error for --engine ray where the package is missing."""
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise UsageError(
            "--engine ray needs the package ray: pip install 'streambpe[ray]' installs it. Nothing was changed."
        )


@dataclass(frozen=True)
class NodeLayout:
    """How tasks are laid out on the nodes."""

    cpus: int  # that a task asks for
    workers: int
    memory_bytes: int  # for each task


def room_on(nodes: Sequence[int], wanted: Needs) -> NodeLayout:
    """How many tasks may run at a time. `nodes`: the CPUs of each. On no node they take more than the job may."""
    most = max(nodes, default=0)
    for cpus in range(1, most + 1):
        at_a_time = most // cpus
        each = (wanted.memory_bytes - wanted.held_bytes) // at_a_time - RAY_WORKER_BYTES - wanted.extra_bytes
        if each >= wanted.least_bytes:
            return NodeLayout(cpus, sum(node // cpus for node in nodes), each)
    if not most:
        raise RunError("--engine ray: no node of the cluster has a CPU for tasks. Nothing was begun.")
    needs = wanted.held_bytes + RAY_WORKER_BYTES + wanted.extra_bytes + wanted.least_bytes
    raise LimitError(
        f"--engine ray: {format_size(wanted.memory_bytes)} have no room for one task on a node; that needs "
        f"{format_size(needs)}. Nothing was begun. Give more --memory, or leave --engine out."
    )


def workers_on(wanted: Needs) -> tuple[int, int]:
    """(tasks at a time, nodes): those that Ray would have now. Only a cluster is asked."""
    if wanted.address is None:
        return room_on([wanted.threads], wanted).workers, 1
    ray = Ray(replace(wanted, folder=None))
    ray.close()
    return ray.workers, len(ray.nodes)


class Ray:
    """Runs tasks on Ray. A Runner; `close` it."""

    def __init__(self, wanted: Needs) -> None:
        refuse_missing_engine("ray")
        self._wanted = wanted
        token = secrets.token_hex(8)
        sources = tuple(wanted.sources[:: max(1, -(-len(wanted.sources) // _MOST_SOURCES))])  # from all over the list
        self._place = SharedFolder((wanted.folder or Path()) / f"ray-{token}", token, sources)
        self._calls: dict[int, tuple[Busy, Calls[Any, Any], queue.SimpleQueue[Any]]] = {}
        self._next_call = 0
        self._lock = threading.Lock()
        self._why_down = ""
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._own: OwnRay | None = None  # that ends with this
        self._driver = Apart(self._reach())
        threading.Thread(target=self._read, name="streambpe-ray", daemon=True).start()
        try:
            self.nodes: list[tuple[str, int]] = self._answer("up", _START_SECONDS)
            room = room_on([cpus for _, cpus in self.nodes], wanted)
            self.workers, self.memory_bytes = room.workers, room.memory_bytes  # the latter: of each task
            if wanted.folder is not None:
                self._look(room.cpus)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ starting and ending

    def _reach(self) -> Reached:
        """How the job gets to Ray, which is started if it has no address."""
        if self._wanted.address is not None:
            return Reached(self._wanted.address, None)
        own = held_ray.get()
        if own is None:
            own = self._own = OwnRay()
        try:
            return own.reach(self._wanted.threads, self._wanted.temp_dir)
        except RuntimeError as why:
            self._why_down = str(why)
            raise self._useless() from None

    def _look(self, cpus: int) -> None:
        """Refuse a cluster whose nodes have other programs, or other files."""
        self._place.folder.mkdir(parents=True)
        self._place.file.write_text(self._place.token, encoding="utf-8")
        self._send(("look", self._place, versions(), cpus))
        found: dict[str, tuple[str, str]] = self._answer("looked", _START_SECONDS)
        for node, (name, problem) in found.items():
            if not problem:
                with contextlib.suppress(OSError):
                    problem = (
                        "" if (self._place.folder / node).read_text(encoding="utf-8") == self._place.token else "?"
                    )
                    continue
                problem = f"writes elsewhere than into the {self._place.folder.parent} that this command sees"
            raise RunError(f"--engine ray: node {name} {problem}. Nothing was begun.")

    def close(self) -> None:
        """See Runner."""
        self._driver.close()
        if self._own is not None:
            self._own.close()
        with contextlib.suppress(OSError):
            remove_folder(self._place.folder)
            self._place.folder.parent.rmdir()  # unless something else is in it

    # ------------------------------------------------------------------ messages

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError, ValueError):  # whoever waits for an answer is told that there is none
            self._driver.channel.send(message)

    def _read(self) -> None:
        """Hand out what the driver says, until it ends; whatever ends this thread, nobody waits for an answer then."""
        with contextlib.suppress(Exception):
            while not self._why_down:
                kind, *message = self._driver.channel.receive()
                if kind == "down":
                    self._why_down = message[0]
                elif kind in ("up", "looked"):
                    self._answers.put((kind, message[0]))
                else:
                    self._hand_out(kind, *message)
        self._why_down = self._why_down or "Ray ended the process that spoke with it"
        self._answers.put(("down", None))
        with self._lock:
            for _, _, answers in self._calls.values():
                answers.put(("down",))

    def _hand_out(self, kind: str, number: int, *message: Any) -> None:
        with self._lock:
            call = self._calls.get(number)
        if call is None:
            return
        busy, calls, answers = call
        if kind == "told":
            told: Told = message[0]
            done, busy.pid, busy.memory_bytes, busy.node = told
            calls.advance(busy, done - busy.done)
        else:
            answers.put((kind, *message))

    def _answer(self, wanted: str, seconds: float) -> Any:
        try:
            kind, answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            kind, self._why_down = "down", f"no answer within {seconds:.0f} s"
        if kind != wanted:
            raise self._useless()
        return answer

    def _useless(self) -> WorkerLost:
        return WorkerLost(
            f"{self._name()} cannot be used: {self._why_down}. Nothing was begun. "
            + (
                "Is it running, and this machine one of its nodes? `ray status` says so."
                if self._wanted.address
                else "A busy machine may need a second try; --engine processes works without Ray."
            )
        )

    def _name(self) -> str:
        return f"The Ray cluster ({self._wanted.address})" if self._wanted.address else "Ray on this machine"

    # ------------------------------------------------------------------ tasks

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        self._send(("share", pickle.dumps(calls.shared, protocol=5)))
        who = f"A worker of {self._name()}"
        calls.run(self.workers, lambda *one: self._once(calls, *one), lambda: self._send(("stop",)), who)

    def _once(self, calls: Calls[Any, Any], argument: Any, attempt: int, busy: Busy) -> Any:
        body = pickle.dumps((calls.task, argument), protocol=5)
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            number = self._next_call = self._next_call + 1
            self._calls[number] = busy, calls, answers
        try:
            if self._why_down:
                answers.put(("down",))
            self._send(("run", number, attempt, calls.memory_bytes, self._place, busy.task, body))
            if calls.halted:  # a stop that was told before this was not meant for it
                self._send(("stop",))
            kind, *answer = answers.get()
        finally:
            with self._lock:
                del self._calls[number]
        if kind == "done":
            calls.advance(busy, answer[0] - busy.done)
            kind, value = pickle.loads(answer[1])
            if kind == "failed":
                raise value
            return value
        if kind == "down" and not calls.halted:
            raise WorkerLost(
                f"{self._name()} went away: {self._why_down}. Everything committed is kept; the same command "
                f"goes on where a cluster is, or without --engine ray."
            )
        raise Lost(" on ".join([*answer, *filter(None, [busy.node])]))
