"""A task that notes how long it took: a worker imports this by name, so it lies beside forecast.py and not in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streambpe.runners.runner import Attempt


@dataclass(frozen=True)
class Timed:
    """Does a task, and adds a line to a file."""

    task: Callable[[Any, Attempt], Any]
    file: str
    question: int  # which call of `map`

    def __call__(self, argument: Any, attempt: Attempt) -> Any:
        """The task."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            attempt.advance(more)

        began, cpu = time.time(), time.process_time()
        try:
            return self.task(argument, replace(attempt, advance=advance))
        finally:
            line = {
                "question": self.question,
                "kind": getattr(self.task, "__name__", ""),
                "task": str(argument),
                "units": done,
                "cpu": time.process_time() - cpu,
                "wall": time.time() - began,
            }
            made = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(made, json.dumps(line).encode() + b"\n")
            os.close(made)
