"""The process that speaks with Ray: Ray ends its driver when a cluster is lost, so a job's own process is none.

    python -m streambpe.runners.ray_driver

It is sent (number, name of a method of Driver, its arguments), calls each but the first in a thread of its own, and
sends (number, what it gave, ""), or why it failed as the last of these; all of it pickled. At the end of its input it
ends, and its tasks with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import secrets
import shutil
import signal
import tempfile
import threading
import time
from typing import Any

from streambpe.runners.ray_node import SharedFolder, look_around, run_task
from streambpe.system import stop_signals

STORE_BYTES = 80 << 20  # of Ray's object store, which holds little: what all tasks have in common
QUIET = {"log_to_driver": False, "configure_logging": False}
_LOOK_SECONDS = 5.0  # between two looks at the nodes
_ANSWER_SECONDS = 60.0  # for what a cluster that is there answers at once
_NOBODY_SECONDS = 120.0  # without a node for workers, until that is an error
_SILENT_MS = 30_000  # of a worker's host, until it is asked for a sign of life, and until it has given none
_TRIES = 3  # at starting Ray: it gives its parts 30 s, which a busy machine may need longer for
_LONGEST_FOLDER = 40  # Ray's sockets lie 67 characters below its folder, and their names have 107 at most


class Driver:
    """What a coordinator may ask of Ray."""

    def __init__(self) -> None:
        self._ray: Any = None
        self._at_work: set[Any] = set()  # what Ray gives for a task
        self._cpus = 1  # that a task asks for
        self._shared: Any = None  # what Ray gives for what all tasks have in common
        self._folder: str | None = None  # of a Ray that this process started

    def close(self) -> None:
        """End Ray, or what it has of this process."""
        with contextlib.suppress(Exception):
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def reach(self, address: str | None, cpus: int, folder: str | None) -> bool:
        """Connect to Ray, or start one with so many CPUs and its temporary folder there."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        for what in ("time", "timeout"):  # Ray's own are minutes, in which tasks of a lost host seem to be at work
            os.environ.setdefault(f"RAY_grpc_client_keepalive_{what}_ms", str(_SILENT_MS))
        if address is None:  # nobody else is to use it, and nothing is left in the user's home
            self._folder = tempfile.mkdtemp(prefix="sb-ray-", dir=_short(folder))
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            os.environ |= {"RAY_prestart_worker_first_driver": "0"}
            os.environ.pop("RAY_ADDRESS", None)
        self._ray = importlib.import_module("ray")
        if address is not None:
            self._ray.init(address=address, **QUIET)
        else:
            _start_own(self._ray, cpus, self._folder)
        return True

    def nodes(self) -> dict[str, int]:
        """CPUs of those that are there, by Ray's names."""
        return {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]}

    def look(self, place: SharedFolder, wanted: dict[str, str], cpus: int) -> dict[str, str]:
        """What is wrong, by node, of those that have so many CPUs."""
        self._cpus = cpus
        asked, wrong = {}, {}
        look = self._ray.remote(look_around)
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        names = {node["NodeID"]: f"{node['NodeManagerHostname']}/{node['NodeID'][:6]}" for node in self._ray.nodes()}
        for key, its_cpus in self.nodes().items():
            if its_cpus >= cpus:
                there = strategies.NodeAffinitySchedulingStrategy(key, soft=False)
                options = look.options(num_cpus=0, max_retries=1, scheduling_strategy=there)
                asked[names[key]] = options.remote(place, wanted)
        for name, answer in asked.items():
            try:
                wrong[name] = self._ray.get(answer, timeout=_ANSWER_SECONDS)
            except Exception as why:
                wrong[name] = f"cannot run a task of streambpe: {told(why)}"
        return wrong

    def share(self, body: bytes) -> bool:
        """Keep what the tasks to come have in common."""
        self._shared = self._ray.put(body)
        return True

    def work(self, body: bytes, memory_bytes: int) -> tuple[bytes, str]:
        """Have a task run and wait until it ends: what it answers, or how its worker ended."""
        task = self._ray.remote(run_task).options(num_cpus=self._cpus, max_retries=0, scheduling_strategy="SPREAD")
        made = task.remote(body, memory_bytes, self._shared)
        self._at_work.add(made)
        try:
            return made.future().result(), ""  # no thread is in Ray's own waiting when it is shut down
        except Exception as why:
            return b"", told(why)
        finally:
            self._at_work.discard(made)

    def halt(self) -> None:
        """Tell the tasks at work to stop; those that wait for room are not begun."""
        for made in list(self._at_work):
            self._ray.cancel(made)

    def watch(self) -> None:
        """Never returns; raises an error once no node has had room for a task for too long."""
        seen = time.monotonic()
        while time.monotonic() - seen < _NOBODY_SECONDS:
            time.sleep(_LOOK_SECONDS)
            if not self._at_work or any(cpus >= self._cpus for cpus in self.nodes().values()):
                seen = time.monotonic()
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
    for number in stop_signals():  # they are the coordinator's business; this ends when that is gone
        signal.signal(number, signal.SIG_IGN)
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    driver, lock = Driver(), threading.Lock()

    def answer(number: int, name: str, *given: Any) -> None:
        try:
            message = number, getattr(driver, name)(*given), ""
        except BaseException as why:
            message = number, None, told(why)
        with contextlib.suppress(OSError), lock:
            pickle.dump(message, target, protocol=5)
            target.flush()

    def serve() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                threading.Thread(target=answer, args=pickle.load(source), daemon=True).start()
        driver.close()
        os._exit(0)

    with contextlib.suppress(EOFError, OSError):
        first = pickle.load(source)
        threading.Thread(target=serve, daemon=True).start()
        answer(*first)  # to reach Ray: what it starts on this machine ends with the thread that started it
        threading.Event().wait()


if __name__ == "__main__":
    main()
