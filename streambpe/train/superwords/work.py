"""What questions about documents may take, where their answers are left, and who works for them.

    Work    of one phase two: a folder, and resources
    Crew    the workers for one question, and how much memory each of their tasks may take

A question is cut into tasks only if workers save time by it (runners/worth.py) and --memory has room for them;
`--engine` decides it itself. Who works never changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streambpe.errors import LimitError
from streambpe.resources import Resources
from streambpe.runners.here import Here
from streambpe.runners.ray import Needs
from streambpe.runners.runner import Busy, Calls, Runner, Task
from streambpe.runners.worth import Cost, runner_for
from streambpe.store.sequences import SequencePart
from streambpe.train.superwords.neighbours import PART_BYTES

_SHARED_BYTES = 24 << 20  # of what all tasks have in common (words, eligible chunks), while a process gets it
Advance = Callable[[int], None]  # told how many places were read; may raise to stop between two parts


class Crew(msgspec.Struct, frozen=True):
    """Who does the tasks of one question. `do` ends it."""

    runner: Runner
    memory_bytes: int  # that each task may take
    tell_workers: Callable[[Sequence[Busy]], None] = lambda busy: None

    def do(
        self,
        task: Task[Any, Any],
        shared: object,
        arguments: Iterable[Any],
        advance: Advance,
        describe: Callable[[Any], str],
    ) -> None:
        """Call a task with all arguments; `shared` is handed over once to each worker. `describe`: names an argument in
        messages and in status.json."""

        try:
            self.runner.map(
                Calls(
                    task, arguments, self.memory_bytes, on_advance=advance, describe=describe, shared=shared,
                    tell_workers=self.tell_workers,
                )
            )  # fmt: skip
        finally:
            self.runner.close()


class Work(msgspec.Struct, frozen=True):
    """Where answers are left, and what they may take."""

    folder: Path  # files in it that were made of the same are used again
    resources: Resources  # memory: what the questions may take, beside all that the training holds
    made_of: str  # what all answers follow from
    tell_workers: Callable[[Sequence[Busy]], None] = lambda busy: None  # told what processes are at

    def crew(self, cost: Cost, tasks: int, each_bytes: int, module: str) -> Crew | None:
        """Processes for so many tasks of a module, each of which needs so much memory; None: this process is quicker,
        or it alone has the room."""
        needs = Needs(self.resources, 0, each_bytes, self.folder.absolute() / "ray", extra_bytes=_SHARED_BYTES)
        try:
            found = runner_for(needs, tasks, cost, module)
        except LimitError:  # of Ray
            return None
        return Crew(*found, self.tell_workers) if found is not None else None

    def alone(self) -> Crew:
        """This thread, with all of the memory."""
        return Crew(Here(1), self.resources.memory_bytes)


def readers(parts: Sequence[SequencePart], work: Work) -> int:
    """How many threads of this process may each hold a part."""
    largest = max((part.places for part in parts), default=0)
    return max(1, min(work.resources.threads, work.resources.memory_bytes // 2 // max(1, largest * PART_BYTES)))
