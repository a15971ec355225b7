"""What questions about documents may take, where their answers are left, and who works for them.

    Question   what all tasks have in common, and where they write
    Work       of one phase two: a folder, and resources

Threads of this process do the tasks, or Ray if that is asked for and --memory has room for it. Who works never changes
an answer.
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
from streambpe.runners.ray import Needs, OnRay
from streambpe.runners.runner import Calls, Here, Runner, Task
from streambpe.store.sequences import SequencePart
from streambpe.system import remove_folder
from streambpe.train.superwords.neighbours import PART_BYTES

_SHARED_BYTES = 24 << 20  # of what all tasks have in common (words, eligible chunks), while a worker gets it
Advance = Callable[[int], None]  # told how many places were read; may raise to stop between two parts


class Question(ABC):
    """What all tasks of one question have in common."""

    folder: Path  # of the answers

    @property
    def attempts(self) -> Path:
        """Where attempts at tasks write."""
        return self.folder / "attempts"

    @abstractmethod
    def describe(self, argument: Any) -> str:
        """A task in messages."""

    def ask(self, runner: Runner, task: Task[Any, Any], arguments: Iterable[Any], advance: Advance) -> None:
        """Call a task with all arguments, then end the runner."""
        calls = Calls(task, arguments, on_advance=advance, describe=self.describe, shared=self)
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_folder(self.attempts)  # first, so that what a dead command left cannot commit any more
        try:
            runner.map(calls)
        finally:
            runner.close()
            remove_folder(self.attempts)


class Work(msgspec.Struct, frozen=True):
    """Where answers are left, and what they may take."""

    folder: Path  # absolute
    resources: Resources  # memory: what the questions may take, beside all that the training holds

    def runner(self, each_bytes: int) -> Runner:
        """Who does tasks that need so much memory each: Ray, or this process."""
        if self.resources.engine == "ray":
            folder = self.folder / "ray"
            with contextlib.suppress(LimitError):
                return OnRay(Needs(self.resources, 0, each_bytes, folder, extra_bytes=_SHARED_BYTES))
        return Here(1, self.resources.memory_bytes)

    def readers(self, parts: Sequence[SequencePart]) -> int:
        """How many threads of this process may each hold a part."""
        largest = max((part.places for part in parts), default=0)
        return max(1, min(self.resources.threads, self.resources.memory_bytes // 2 // max(1, largest * PART_BYTES)))
