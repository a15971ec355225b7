"""Tasks in threads of this process: for work that releases the interpreter's lock, and for one worker."""

from __future__ import annotations

import os
from typing import Any

from streambpe.runners.runner import Attempt, Busy, Calls


class Here:
    """Runs tasks in threads of this process. A Runner."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""

        def once(argument: Any, number: int, busy: Busy) -> Any:
            busy.pid = os.getpid()
            attempt = Attempt(
                number, calls.memory_bytes, calls.shared, lambda: calls.halted, lambda done: calls.advance(busy, done)
            )
            return calls.task(argument, attempt)

        calls.run(self.workers, once)

    def close(self) -> None:
        """See Runner."""
