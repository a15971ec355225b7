"""The process that speaks with Ray: Ray ends its driver when a cluster is lost, so a job's own process is none.

    python -m streambpe.runners.ray_driver

It is sent how Ray is reached, then ("look", ...), ("share", value), ("run", ...) and ("stop",). It sends ("up", nodes)
or ("down", why); ("looked", what is wrong, by node); ("told", call, Told), ("done", call, done, answer) and
("lost", call, how). At the end of its input it ends, and its tasks with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

from streambpe.runners.messages import Channel, own_channel
from streambpe.runners.ray_node import TELL_SECONDS, Board, SharedFolder, look_around, run_attempt
from streambpe.system import ignore_stop_signals

_LOOK_SECONDS = 5.0  # between two looks at the nodes
_ANSWER_SECONDS = 60.0  # for what a cluster that is there answers at once
_NOBODY_SECONDS = 120.0  # without a node for tasks, until that is an error


STORE_BYTES = 80 << 20  # of Ray's object store, which holds little: what is shared, and results
_TRIES = 3  # at starting Ray: it gives its parts 30 s, which a busy machine may need longer for
_LONGEST_FOLDER = 40  # Ray's sockets lie 67 characters below its folder, and their names have 107 at most
QUIET = {"log_to_driver": False, "configure_logging": False}


@dataclass(frozen=True)
class Reached:
    """How a driver gets to Ray."""

    address: str | None  # None: it starts one, for drivers that come later
    token: str | None  # that the processes of that one know, and nobody else. None: the user's settings hold
    cpus: int = 0  # of that one
    folder: str | None = None  # where its temporary folder is made


class Driver:
    """Ray, as the coordinator sees it over a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ray: Any = None
        self._board: Any = None
        self._task: Any = None
        self._shared: Any = None
        self._calls: dict[int, Any] = {}  # those at work: what Ray gives for them
        self._told: set[int] = set()  # those of them that were begun
        self._stopping = self._down = False
        self._up = threading.Event()
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # of nodes, by Ray's names
        self._cpus = 1  # that a task asks for
        self._nobody_since = self._next_look = 0.0
        self._folder: str | None = None  # of a Ray that this process started

    def main(self) -> None:
        """Serve until the input ends."""
        reached: Reached = self._channel.receive()
        threading.Thread(target=self._serve, name="streambpe-input", daemon=True).start()
        try:
            self._start(reached)
        except BaseException as why:
            self._send(("down", told(why)))
        else:
            self._up.set()
            while not self._down:
                time.sleep(TELL_SECONDS)
                self._tell()
        threading.Event().wait()  # until the input ends, and this process with it

    def _serve(self) -> None:
        try:
            while True:
                kind, *message = self._channel.receive()
                self._up.wait()
                getattr(self, f"_hear_{kind}")(*message)
        except (EOFError, OSError):
            pass
        finally:
            self._leave()
            os._exit(0)

    # ------------------------------------------------------------------ starting and ending

    def _start(self, reached: Reached) -> None:
        """Start Ray or connect to it."""
        if reached.address is None:
            self._folder = tempfile.mkdtemp(prefix="sb-ray-", dir=_short(reached.folder))
            os.environ |= {"RAY_prestart_worker_first_driver": "0"}  # this process has no tasks
            self._ray = quiet_ray(reached.token)
            self._send(("up", _start_own(self._ray, reached.cpus, self._folder)))
            return
        self._ray = ray = quiet_ray(reached.token)
        ray.init(address=reached.address, **QUIET)
        here = ray.get_runtime_context().get_node_id()
        board = ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=self._on(here))
        self._board = board.remote()
        self._task = ray.remote(run_attempt)
        nodes = [(node["NodeID"], _cpus_of(node)) for node in self._nodes()]
        self._send(("up", [(self._names[node], cpus) for node, cpus in nodes]))

    def _leave(self) -> None:
        """Leave Ray; what is at work for this process ends."""
        self._down = True
        with contextlib.suppress(Exception):
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _on(self, node: str) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return strategies.NodeAffinitySchedulingStrategy(node, soft=False)

    def _nodes(self) -> list[dict[str, Any]]:
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        hosts = [node["NodeManagerHostname"] for node in nodes]
        for node in nodes:
            host = node["NodeManagerHostname"]
            alone = hosts.count(host) == 1 and host not in {
                name for key, name in self._names.items() if key != node["NodeID"]
            }
            self._names.setdefault(node["NodeID"], host if alone else f"{host}/{node['NodeID'][:6]}")
        return nodes

    # ------------------------------------------------------------------ what the coordinator says

    def _hear_look(self, place: SharedFolder, wanted: dict[str, str], cpus: int) -> None:
        self._cpus = cpus
        look = self._ray.remote(look_around)
        asked = {}
        for node in self._nodes():
            if _cpus_of(node) >= cpus:
                key = node["NodeID"]
                asked[key] = look.options(num_cpus=0, max_retries=1, scheduling_strategy=self._on(key)).remote(
                    key, place, wanted
                )
        wrong = {}
        for key, answer in asked.items():
            try:
                problem = self._ray.get(answer, timeout=_ANSWER_SECONDS)
            except Exception as why:
                problem = f"cannot run a task of streambpe: {told(why)}"
            wrong[key] = (self._names[key], problem)
        self._channel.send(("looked", wrong))

    def _hear_share(self, body: bytes) -> None:
        self._shared = self._ray.put(body)

    def _hear_run(
        self, call: int, number: int, memory_bytes: int, place: SharedFolder, label: str, body: bytes
    ) -> None:
        with self._lock:
            if not self._calls:
                self._stopping = False
            task = self._task.options(num_cpus=self._cpus, max_retries=0, name=label, scheduling_strategy="SPREAD")
            made = task.remote(self._board, call, number, memory_bytes, place, body, self._shared.hex(), self._shared)
            self._calls[call] = made
        made.future().add_done_callback(lambda future: self._note(call, future))

    def _hear_stop(self) -> None:
        with self._lock:
            self._stopping = True
            waiting = [made for call, made in self._calls.items() if call not in self._told]
        for made in waiting:
            with contextlib.suppress(Exception):
                self._ray.cancel(made, force=False, recursive=False)

    # ------------------------------------------------------------------ what Ray says

    def _note(self, call: int, future: Any) -> None:
        with self._lock:
            self._calls.pop(call, None)
            self._told.discard(call)
        try:
            done, answer = future.result()
            self._send(("done", call, done, answer))
        except BaseException as why:
            self._send(("lost", call, told(why)))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(message)

    def _tell(self) -> None:
        """Hand on what attempts told, and see whether there is anybody to do them."""
        if not self._calls:
            return
        try:
            found = self._ray.get(self._board.take.remote(self._stopping), timeout=_ANSWER_SECONDS)
            if time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + _LOOK_SECONDS
                self._look_for_nodes()
        except Exception as why:
            self._send(("down", told(why)))
            self._down = True
            return
        for call, (*facts, node) in found.items():
            with self._lock:
                if call not in self._calls:
                    continue
                self._told.add(call)
            self._send(("told", call, (*facts, self._names.get(node, node))))

    def _look_for_nodes(self) -> None:
        if any(_cpus_of(node) >= self._cpus for node in self._nodes()):
            self._nobody_since = 0.0
            return
        self._nobody_since = self._nobody_since or time.monotonic()
        if time.monotonic() - self._nobody_since > _NOBODY_SECONDS:
            raise RuntimeError(f"no node that could take a task was there for {_NOBODY_SECONDS:.0f} seconds")


def _cpus_of(node: dict[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def told(why: BaseException) -> str:
    """An error of Ray in one line: its first sentence."""
    why = getattr(why, "cause", why)  # what went wrong in a task
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    first = lines[0].split(". ")[0].rstrip(".")[:300] if lines else ""
    return f"{type(why).__name__}: {first}" if first else type(why).__name__


def quiet_ray(token: str | None) -> Any:
    """The library, in a process of its own. `token`: of a Ray that nobody else is to use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if token is not None:  # nothing is left in the user's home
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        os.environ.pop("RAY_ADDRESS", None)
    return importlib.import_module("ray")


def _start_own(ray: Any, cpus: int, folder: str) -> str:
    """Start a Ray of this machine; its address."""
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
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
            time.sleep(1.0)
    return str(ray.get_runtime_context().gcs_address)


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
