"""Workers on a Ray cluster, or on a Ray that is started on this machine for one command.

    with one_ray():    all that runs on Ray in this block uses the same driver

    this process  ->  driver (ray_driver.py)  ->  Ray  ->  tasks on the nodes (ray_node.py)

A worker or a node that is lost takes nothing along but what its attempts had not committed: the next attempt runs
where Ray finds room. What tasks write lies on a file system that all nodes share, which is tried before any task.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import pickle
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from streambpe.errors import LimitError, RunError, UsageError, WorkerLost
from streambpe.resources import Resources, format_size
from streambpe.runners.ray_node import SharedFolder, versions
from streambpe.runners.runner import Calls, Lost, Runner
from streambpe.system import leave_apart, remove_folder

RAY_WORKER_BYTES = 112 << 20  # of a worker of Ray before any work: Python, Ray's library and ours
_ANSWER_SECONDS = 300.0  # until Ray is up; its own patience ends before
_MOST_SOURCES = 100  # that each node is asked for before the first task


class Needs(msgspec.Struct, frozen=True):
    """What a job takes on Ray."""

    resources: Resources  # threads: at a time, unless it is a cluster; memory: of the job on each node
    held_bytes: int  # of the memory, what the coordinator holds
    least_bytes: int  # that a task needs
    folder: Path  # that all nodes share; it is made
    sources: Sequence[tuple[str, int]] = ()  # (path, bytes) of what tasks read
    extra_bytes: int = 0  # that a worker holds besides, before any task


def refuse_missing_engine(engine: str) -> None:
    """An error for --engine ray where the package is missing."""
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise UsageError(
            "--engine ray needs the package ray: pip install 'streambpe[ray]' installs it. Nothing was changed."
        )


def room_on(nodes: Sequence[int], wanted: Needs) -> tuple[int, int, int]:
    """(the CPUs that a task asks for, how many tasks may run at a time, the memory of each). `nodes`: the CPUs of each.
    On no node they take more than the job may."""
    most = max(nodes, default=0)
    for cpus in range(1, most + 1):
        at_a_time = most // cpus
        each = (wanted.resources.memory_bytes - wanted.held_bytes) // at_a_time - RAY_WORKER_BYTES - wanted.extra_bytes
        if each >= wanted.least_bytes:
            return cpus, sum(node // cpus for node in nodes), each
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
        self.name = f"The Ray cluster ({self.address})" if self.address else "Ray on this machine"
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from, self._lock = self._process.stdin, self._process.stdout, threading.Lock()
        self._reader = threading.Thread(target=self._read, name="streambpe-ray", daemon=True)
        self._reader.start()
        try:
            temp_dir = str(resources.temp_dir) if resources.temp_dir else None
            self.ask("reach", self.address, resources.threads, temp_dir)
        except BaseException:
            self.close()
            raise
        self.call("watch")

    def call(self, name: str, *given: Any) -> Future[Any]:
        """Have a method of it called; the future has what that gives, or None if there will be no answer."""
        number, answer = next(self._numbers), Future[Any]()
        self._answers[number] = answer
        with contextlib.suppress(OSError, ValueError), self._lock:
            pickle.dump((number, name, *given), self._to, protocol=5)
            self._to.flush()
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
            raise WorkerLost(f"{useless}On a busy machine, try again, or leave --engine out.")
        return answer

    def _read(self) -> None:
        """Hand out answers until it fails at something or ends; whatever ends this thread, nobody waits then."""
        with contextlib.suppress(Exception):
            while not self.why_down:
                number, answer, why = pickle.load(self._from)
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
        with contextlib.suppress(OSError):
            self._to.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(30)
        self._from.close()


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


class OnRay(Runner):
    """Runs tasks on Ray, for one question."""

    def __init__(self, wanted: Needs) -> None:
        refuse_missing_engine("ray")
        token = secrets.token_hex(8)
        sources = tuple(wanted.sources[:: max(1, -(-len(wanted.sources) // _MOST_SOURCES))])  # from all over the list
        self._place = SharedFolder(wanted.folder / f"ray-{token}", token, sources)
        held = _held.get()
        if held and not held[-1].why_down:
            self._driver = held[-1]
        else:
            self._driver = RayDriver(wanted.resources)
            if held is not None:
                held.append(self._driver)
        self._alone = held is None  # so the driver ends with this
        try:
            nodes: dict[str, int] = self._driver.ask("nodes")
            cpus, self.workers, self.memory_bytes = room_on(list(nodes.values()), wanted)
            self._place.folder.mkdir(parents=True)
            self._place.file.write_text(self._place.token, encoding="utf-8")
            problems: dict[str, str] = self._driver.ask("look", self._place, versions(), cpus)
            for node, problem in problems.items():
                if problem:
                    raise RunError(f"--engine ray: node {node} {problem}. Nothing was started.")
        except BaseException:
            self.close()
            raise

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        shared = pickle.dumps((calls.shared, structs.replace(self._place, sources=()), versions()), protocol=5)
        self._answer_to(self._driver.call("share", shared))

        def begin(argument: Any, number: int) -> Future[Any]:
            body = pickle.dumps((calls.task, argument, number), protocol=5)
            return self._driver.call("work", body, self.memory_bytes)

        def result_of(future: Future[Any]) -> Any:
            body, how = self._answer_to(future)
            if how:
                raise Lost(how)
            result, error, done = pickle.loads(body)
            if error is not None:
                raise error
            calls.advance(done)
            return result

        calls.run(self.workers, begin, result_of, lambda: self._driver.call("halt"))

    def _answer_to(self, future: Future[Any]) -> Any:
        answer = future.result()
        if answer is None:
            raise WorkerLost(
                f"{self._driver.name} was lost: {self._driver.why_down}. Everything committed is kept; the same "
                "command continues when the cluster is back, or without --engine ray."
            )
        return answer

    def close(self) -> None:
        """See Runner."""
        if self._alone:
            self._driver.close()
        with contextlib.suppress(OSError):
            remove_folder(self._place.folder)
            self._place.folder.parent.rmdir()  # unless something else is in it
