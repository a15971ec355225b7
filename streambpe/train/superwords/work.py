"""What questions about documents may take, where their answers are left, and who works for them.

    Question   what all tasks have in common, and where they write
    Work       of one phase two: a folder, and resources
    Crew       the workers for one question, and how much memory each of their tasks may take

A question is cut into tasks only if workers save time by it (runners/worth.py) and --memory has room for them;
`--engine` decides it itself. Who works never changes an answer.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
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
from streambpe.system import remove_folder
from streambpe.train.superwords.neighbours import PART_BYTES

_SHARED_BYTES = 24 << 20  # of what all tasks have in common (words, eligible chunks), while a process gets it
Advance = Callable[[int], None]  # told how many places were read; may raise to stop between two parts


class Question(ABC):
    """What all tasks of one question have in common; each worker gets it once."""

    folder: Path  # of the answers

    @property
    def attempts(self) -> Path:
        """Where attempts at tasks write."""
        return self.folder / "attempts"

    @abstractmethod
    def describe(self, argument: Any) -> str:
        """A task in messages and in status.json."""


class Crew(msgspec.Struct, frozen=True):
    """Who does the tasks of one question."""

    runner: Runner
    memory_bytes: int  # that each task may take
    tell_workers: Callable[[Sequence[Busy]], None] = lambda busy: None

    def do(self, task: Task[Any, Any], question: Question, arguments: Iterable[Any], advance: Advance) -> None:
        """Call a task with all arguments, then end."""
        calls = Calls(
            task, arguments, self.memory_bytes, on_advance=advance, describe=question.describe, shared=question,
            tell_workers=self.tell_workers,
        )  # fmt: skip
        question.folder.mkdir(parents=True, exist_ok=True)
        remove_folder(question.attempts)  # first, so that what a dead command left cannot commit any more
        try:
            self.runner.map(calls)
        finally:
            self.runner.close()
            remove_folder(question.attempts)


class Work(msgspec.Struct, frozen=True):
    """Where answers are left, and what they may take."""

    folder: Path  # files in it that were made of the same are used again
    resources: Resources  # memory: what the questions may take, beside all that the training holds
    made_of: str  # what all answers follow from
    tell_workers: Callable[[Sequence[Busy]], None] = lambda busy: None  # told what processes are at

    def crew(self, cost: Cost, tasks: int, each_bytes: int, module: str) -> Crew:
        """Processes for so many tasks of a module, each of which needs so much memory; where this process is quicker,
        or it alone has the room, this thread with all of the memory."""
        needs = Needs(self.resources, 0, each_bytes, self.folder.absolute() / "ray", extra_bytes=_SHARED_BYTES)
        with contextlib.suppress(LimitError):  # of Ray
            if (found := runner_for(needs, tasks, cost, module)) is not None:
                return Crew(*found, self.tell_workers)
        return Crew(Here(1), self.resources.memory_bytes)

    def readers(self, parts: Sequence[SequencePart]) -> int:
        """How many threads of this process may each hold a part."""
        largest = max((part.places for part in parts), default=0)
        return max(1, min(self.resources.threads, self.resources.memory_bytes // 2 // max(1, largest * PART_BYTES)))
