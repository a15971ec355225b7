"""The process that speaks with Ray: Ray ends its driver when a cluster is lost, so a job's own process is none.

    python -m streambpe.runners.ray_driver

It is sent (number, name of a method of Driver, its arguments), calls each but the first in a thread of its own, and
sends (number, what it gave, ""), or why it failed as the last of these. At the end of its input it ends, and its
workers with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from typing import Any

from streambpe.runners.messages import own_channel
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
    """What a coordinator may ask of Ray."""

    def __init__(self) -> None:
        self._ray: Any = None
        self._at_work: set[Any] = set()  # what Ray gives for a worker
        self._cpus = 1  # that a worker asks for
        self._folder: str | None = None  # of a Ray that this process started

    def close(self) -> None:
        """End Ray, or what it has of this process."""
        with contextlib.suppress(Exception):
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def reach(self, address: str | None, cpus: int, folder: str | None) -> str:
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

    def nodes(self) -> dict[str, tuple[str, int]]:
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

    def look(self, place: SharedFolder, wanted: dict[str, str], cpus: int) -> dict[str, str]:
        """What is wrong, by node, of those that have so many CPUs."""
        self._cpus = cpus
        asked, wrong = {}, {}
        look = self._ray.remote(look_around)
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        for key, (_, its_cpus) in self.nodes().items():
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

    def work(self, *given: Any) -> str:
        """Have a worker started and wait until it ends; how it ended."""
        worker = self._ray.remote(be_worker).options(num_cpus=self._cpus, max_retries=0, scheduling_strategy="SPREAD")
        made = worker.remote(*given)
        self._at_work.add(made)
        why = made.future().exception()  # no thread is in Ray's own waiting when it is shut down
        self._at_work.discard(made)
        return told(why)

    def watch(self) -> None:
        """Never returns; raises an error once no node has had room for the wanted workers for too long."""
        seen = time.monotonic()
        while time.monotonic() - seen < _NOBODY_SECONDS:
            time.sleep(_LOOK_SECONDS)
            if not self._at_work or any(cpus >= self._cpus for _, cpus in self.nodes().values()):
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
    ignore_stop_signals()
    driver, channel = Driver(), own_channel()

    def answer(number: int, name: str, *given: Any) -> None:
        try:
            message = number, getattr(driver, name)(*given), ""
        except BaseException as why:
            message = number, None, told(why)
        with contextlib.suppress(OSError):
            channel.send(message)

    def serve() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                threading.Thread(target=answer, args=channel.receive(), daemon=True).start()
        driver.close()
        os._exit(0)

    with contextlib.suppress(EOFError, OSError):
        first = channel.receive()
        threading.Thread(target=serve, daemon=True).start()
        answer(*first)  # to reach Ray: what it starts on this machine ends with the thread that started it
        threading.Event().wait()


if __name__ == "__main__":
    main()
