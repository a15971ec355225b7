"""Tasks whose first worker is believed dead and goes on writing: in another process, since Ray ends its own.

Attempt 0 of the first task is handed to a process (`python -m tests.runners.ghosts FOLDER`) that stops at a place of
the task; then its worker is killed. Attempt 1 is begun by the runner. At its own place, before it commits, the process
goes on to its end.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streambpe.runners.runner import Attempt
from tests.runs import ROOT


def _wait_for(path: Path) -> None:
    give_up = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < give_up, f"{path} never came"
        time.sleep(0.02)


@dataclass(frozen=True)
class Haunted:
    """A task, the first argument of which is done twice at a time."""

    module: str
    name: str
    failing: str  # the module that calls the failpoint
    place: str  # which one, with {} for the attempt
    folder: str  # where the two wait for each other

    def __call__(self, argument: Any, attempt: Attempt) -> Any:
        """The task."""
        module = importlib.import_module(self.module)
        here = Path(self.folder) / self.name
        if attempt.number == 0:
            try:
                here.mkdir(parents=True)
            except FileExistsError:
                return getattr(module, self.name)(argument, attempt)
            call = self, argument, attempt.memory_bytes, attempt.shared
            (here / "call").write_bytes(pickle.dumps(call))
            (here / "argument").write_text(str(argument))
            subprocess.Popen(
                [sys.executable, "-m", "tests.runners.ghosts", str(here)], cwd=ROOT, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            _wait_for(here / "begun")
            os.kill(os.getpid(), signal.SIGKILL)
        if (here / "argument").read_text() == str(argument) and attempt.number == 1:
            self.stop_at(1, here / "go", here / "ended")
        return getattr(module, self.name)(argument, attempt)

    def stop_at(self, number: int, say: Path, wait: Path) -> None:
        """At its place, this process makes one file and waits for another."""
        module = importlib.import_module(self.failing)
        known = module.failpoint

        def failpoint(place: str) -> None:
            if place == self.place.format(number) and not say.exists():
                say.touch()
                _wait_for(wait)
            known(place)

        module.failpoint = failpoint


def main() -> None:
    """Be the attempt that nobody waits for any more; leave how it ended."""
    here = Path(sys.argv[1])
    task, argument, memory_bytes, shared = pickle.loads((here / "call").read_bytes())
    task.stop_at(0, here / "begun", here / "go")
    attempt = Attempt(0, memory_bytes, shared, lambda: False, lambda done: None)
    try:
        told = f"done: {getattr(importlib.import_module(task.module), task.name)(argument, attempt)}"
    except Exception as why:
        told = f"failed: {type(why).__name__}: {why}"
    (here / "told").write_text(told)
    (here / "told").rename(here / "ended")


if __name__ == "__main__":
    main()
