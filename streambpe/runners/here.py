"""Tasks in threads of this process: for work that releases the interpreter's lock, and for one worker."""

from __future__ import annotations

import os
from typing import Any

from streambpe.runners.runner import Attempt, Busy, Calls, Kept, Lanes


class Here:
    """Runs tasks in threads of this process. A Runner."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._values: list[Any] = []
        self._busy: dict[int, Busy] = {}

    def put(self, value: object) -> Kept:
        """See Runner."""
        self._values.append(value)
        return Kept(len(self._values) - 1)

    def map(self, calls: Calls[Any, Any]) -> None:
        """See Runner."""
        lanes = Lanes(calls)

        def lane(number: int, argument: Any) -> Any:
            at_work = self._busy[number] = Busy(calls.describe(argument), os.getpid())

            def advance(done: int) -> None:
                at_work.done += done
                lanes.advance(done)

            try:
                attempt = Attempt(0, calls.memory_bytes, self._values, lambda: lanes.halted, advance)
                return calls.task(argument, attempt)
            finally:
                del self._busy[number]

        workers = [lambda argument, number=number: lane(number, argument) for number in range(self.workers)]
        lanes.run(workers, lambda: None)

    def busy(self) -> list[Busy]:
        """See Runner."""
        return list(self._busy.values())

    def close(self) -> None:
        """See Runner."""
