"""What a training of two tiny files does: how much of streambpe one must read to follow it.

    python tools/small_training.py           # figures
    python tools/small_training.py --calls   # every function that ran, in the order of their first calls

Two files are counted and learned in this process, while every call is traced. "On the way to C" are the functions that
lie between the command and the loop that learns.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import duckdb

import streambpe
from streambpe.cli.main import main
from streambpe.core.learner import Learner
from streambpe.sources import find
from streambpe.store.run import Run

PACKAGE = Path(streambpe.__file__).parent
TEXTS = ("the cat and the hat\n" * 40, "a hat that the cat had\n" * 40)


def named(code: CodeType) -> str:
    """train/trainer.py: Trainer.run"""
    return f"{Path(code.co_filename).relative_to(PACKAGE).as_posix()}: {code.co_qualname}"


class Trace:
    """What happened so far."""

    def __init__(self) -> None:
        self.codes: dict[CodeType, None] = {}  # in the order of their first calls
        self.way: list[str] = []  # from the command to the learner
        self.times: Counter[str] = Counter()

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """For sys.setprofile."""
        if event != "call" or not self._is_ours(frame):
            return
        self.codes[frame.f_code] = None
        if frame.f_code is Learner.learn.__code__ and not self.way:
            at: FrameType | None = frame
            while at is not None:
                if self._is_ours(at) and "/cli/" not in at.f_code.co_filename:
                    self.way.insert(0, named(at.f_code))
                at = at.f_back

    @staticmethod
    def _is_ours(frame: FrameType) -> bool:
        """A function of the package: neither a module nor a class while they are loaded, nor a comprehension."""
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        return bool(is_function and code.co_filename.startswith(str(PACKAGE)))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """For sys.addaudithook."""
        if event == "open" and str(arguments[0]).endswith("run.json") and "r" in (arguments[1] or "r"):
            self.times["reads of run.json"] += 1

    def count(self, place: Any, name: str, what: str) -> None:
        """Count the calls of a function."""
        right = getattr(place, name)

        def counted(*given: Any, **options: Any) -> Any:
            self.times[what] += 1
            return right(*given, **options)

        setattr(place, name, counted)


def train_traced() -> Trace:
    """Count and learn."""
    trace = Trace()
    for place, name, what in (
        (os, "fsync", "fsyncs"), (duckdb, "connect", "openings of DuckDB"), (Run, "lock", "locks of the RUN"),
        (find, "_expand", "listings of a source"),
    ):  # fmt: skip
        trace.count(place, name, what)
    sys.addaudithook(trace.audit)
    with tempfile.TemporaryDirectory() as folder:
        for at, text in enumerate(TEXTS):
            Path(folder, f"{at}.txt").write_text(text, encoding="utf-8")
        threading.setprofile(trace.profile)
        sys.setprofile(trace.profile)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(["train", f"{folder}/run", folder, "--vocab-size", "300"], standalone_mode=False)
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


if __name__ == "__main__":
    done = train_traced()
    if sys.argv[1:] == ["--calls"]:
        print(*map(named, done.codes), sep="\n")
    else:
        print(f"{len(done.codes):4} functions, in {len({code.co_filename for code in done.codes})} files")
        print(*(f"{n:4} {what}" for what, n in sorted(done.times.items())), sep="\n")
        print(f"{len(done.way):4} functions on the way to C: {' > '.join(done.way)}")
