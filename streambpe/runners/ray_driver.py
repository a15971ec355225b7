"""The process that speaks with Ray: Ray ends its driver when a cluster is lost, so a job's own process is none.

    python -m streambpe.runners.ray_driver

It is asked ("reach", ...), ("nodes",), ("look", ...) and ("start", number, ...), and sends ("answer", value) to all but
the last; ("ended", number, how) for each worker that was started; and ("down", why), after which it does nothing more.
At the end of its input it ends, and its workers with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from streambpe.runners.messages import Channel, own_channel
from streambpe.runners.ray_node import SharedFolder, be_worker, look_around
from streambpe.system import ignore_stop_signals

STORE_BYTES = 80 << 20  # of Ray's object store, which holds little: what workers are told at their start
QUIET = {"log_to_driver": False, "configure_logging": False}
_LOOK_SECONDS = 5.0  # between two looks at the nodes
_ANSWER_SECONDS = 60.0  # for what a cluster that is there answers at once
_NOBODY_SECONDS = 120.0  # without a node for workers, until that is an error
_TRIES = 3  # at starting Ray: it gives its parts 30 s, which a busy machine may need longer for
_LONGEST_FOLDER = 40  # Ray's sockets lie 67 characters below its folder, and their names have 107 at most


class Driver:
    """Ray, as the coordinator sees it over a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ray: Any = None
        self._workers: dict[int, Any] = {}  # those that did not end: what Ray gives for them
        self._cpus = 1  # that a worker asks for
        self._nobody_since = 0.0
        self._folder: str | None = None  # of a Ray that this process started

    def main(self) -> None:
        """Serve until the input ends."""
        threading.Thread(target=self._read, name="streambpe-input", daemon=True).start()
        try:
            while True:
                self._serve()
        except BaseException as why:
            self._send(("down", told(why)))
        threading.Event().wait()  # until the input ends, and this process with it

    def _serve(self) -> None:
        try:
            kind, *message = self._asked.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if self._workers:
                self._look_for_nodes()
            return
        answers: dict[str, Callable[..., Any]] = {
            "reach": self._hear_reach, "nodes": self._hear_nodes, "look": self._hear_look, "start": self._hear_start
        }  # fmt: skip
        answer = answers[kind](*message)
        if answer is not None:
            self._send(("answer", answer))

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._asked.put(self._channel.receive())
        with contextlib.suppress(Exception):
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(message)

    # ------------------------------------------------------------------ what the coordinator asks

    def _hear_reach(self, address: str | None, cpus: int, folder: str | None) -> str:
        """Connect to Ray, or start one with so many CPUs and its temporary folder there; where workers reach this
        machine."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:  # nobody else is to use it, and nothing is left in the user's home
            self._folder = tempfile.mkdtemp(prefix="sb-ray-", dir=_short(folder))
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            os.environ |= {"RAY_prestart_worker_first_driver": "0"}
            os.environ.pop("RAY_ADDRESS", None)
        self._ray = importlib.import_module("ray")
        if address is not None:
            self._ray.init(address=address, **QUIET)
            return str(self._ray.util.get_node_ip_address())
        _start_own(self._ray, cpus, self._folder)
        return "127.0.0.1"

    def _hear_nodes(self) -> dict[str, tuple[str, int]]:
        """(name, CPUs) of those that are there, by Ray's names."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        hosts = [node["NodeManagerHostname"] for node in nodes]
        return {
            node["NodeID"]: (
                host if hosts.count(host) == 1 else f"{host}/{node['NodeID'][:6]}",
                int(node["Resources"].get("CPU", 0)),
            )
            for node, host in zip(nodes, hosts, strict=True)
        }

    def _hear_look(self, place: SharedFolder, wanted: dict[str, str], cpus: int) -> dict[str, str]:
        """What is wrong, by node, of those that have so many CPUs."""
        self._cpus = cpus
        asked, wrong = {}, {}
        look = self._ray.remote(look_around)
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        for key, (_, its_cpus) in self._hear_nodes().items():
            if its_cpus >= cpus:
                there = strategies.NodeAffinitySchedulingStrategy(key, soft=False)
                asked[key] = look.options(num_cpus=0, max_retries=1, scheduling_strategy=there).remote(
                    key, place, wanted
                )
        for key, answer in asked.items():
            try:
                wrong[key] = self._ray.get(answer, timeout=_ANSWER_SECONDS)
            except Exception as why:
                wrong[key] = f"cannot run a task of streambpe: {told(why)}"
        return wrong

    def _hear_start(self, number: int, *given: Any) -> None:
        worker = self._ray.remote(be_worker).options(num_cpus=self._cpus, max_retries=0, scheduling_strategy="SPREAD")
        self._workers[number] = made = worker.remote(*given)
        made.future().add_done_callback(lambda future: self._note_end(number, future))

    # ------------------------------------------------------------------ what Ray says

    def _note_end(self, number: int, future: Any) -> None:
        self._workers.pop(number, None)
        self._send(("ended", number, told(future.exception())))

    def _look_for_nodes(self) -> None:
        if any(cpus >= self._cpus for _, cpus in self._hear_nodes().values()):
            self._nobody_since = 0.0
            return
        self._nobody_since = self._nobody_since or time.monotonic()
        if time.monotonic() - self._nobody_since > _NOBODY_SECONDS:
            raise RuntimeError(f"no node that could take a task was there for {_NOBODY_SECONDS:.0f} seconds")


def told(why: BaseException | None) -> str:
    """An error of Ray in one line: its first sentence."""
    why = getattr(why, "cause", why)  # what went wrong in a task
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    first = lines[0].split(". ")[0].rstrip(".")[:300] if lines else ""
    return f"{type(why).__name__}: {first}" if first else type(why).__name__


def _start_own(ray: Any, cpus: int, folder: str | None) -> None:
    """Start a Ray of this machine."""
    for left in reversed(range(_TRIES)):
        try:
            ray.init(
                address="local",
                num_cpus=cpus,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                _temp_dir=folder,
                **QUIET,
            )
            return
        except Exception:
            ray.shutdown()
            if not left:
                raise
            time.sleep(1.0)


def _short(folder: str | None) -> str:
    """A folder whose name is short enough for Ray's sockets."""
    for one in (folder, tempfile.gettempdir(), "/tmp"):
        if one is not None and len(one) <= _LONGEST_FOLDER:
            return one
    return tempfile.gettempdir()


def main() -> None:
    """Serve on standard input and output; what Ray prints goes to standard error."""
    ignore_stop_signals()
    Driver(own_channel()).main()


if __name__ == "__main__":
    main()
