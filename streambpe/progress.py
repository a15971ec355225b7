"""Telling the user how far a job is: a bar on a terminal, JSON lines, and always status.json.

A job owns a `Meter`, which its threads advance; a `Reporter` thread looks at it a few times a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import psutil

from streambpe.config import format_size
from streambpe.errors import UsageError
from streambpe.store.run import Run

MODES = ("auto", "bar", "jsonl", "none")
_STATUS_SECONDS = 0.5


def tree_memory() -> int:
    """Resident bytes of this process and its children; what --memory bounds."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


@dataclass
class Meter:
    """How far a job is. Written by the job, read by the reporter; every field is a plain number or string."""

    stage: str
    total: int = 0  # of `unit`; 0: not known
    unit: str = "bytes"
    done: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    resumed_from: int = 0  # done before this process began: not part of the rate
    peak_memory: int = 0

    def snapshot(self, state: str) -> dict[str, Any]:
        """What status.json and --progress jsonl say."""
        seconds = time.monotonic() - self.started
        rate = (self.done - self.resumed_from) / seconds if seconds > 0 else 0.0
        memory = tree_memory()
        self.peak_memory = max(self.peak_memory, memory)
        left = self.total - self.done
        return {
            "stage": self.stage,
            "state": state,
            "done": self.done,
            "total": self.total or None,
            "unit": self.unit,
            "seconds": round(seconds, 2),
            "per_second": round(rate, 1),
            "eta_seconds": round(left / rate, 1) if self.total and rate > 0 and state == "running" else None,
            "memory_bytes": memory,
            "peak_memory_bytes": self.peak_memory,
            **self.facts,
            "pid": os.getpid(),
            "updated": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }


class Reporter:
    """Shows a meter until it is closed: `with Reporter(meter, run, "auto"): ...`."""

    def __init__(self, meter: Meter, run: Run, mode: str) -> None:
        if mode not in MODES:
            raise UsageError(f"--progress {mode}: one of {', '.join(MODES)}.")
        self.meter, self.run = meter, run
        self.mode = ("bar" if sys.stderr.isatty() else "none") if mode == "auto" else mode
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="streambpe-progress", daemon=True)
        self._show: Callable[[dict[str, Any]], None] = lambda status: None
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Reporter:
        if self.mode == "bar":
            self._open_bar()
        elif self.mode == "jsonl":
            self._show = lambda status: print(json.dumps(status), file=sys.stderr, flush=True)
        self.report("running")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is not None:
            self.meter.facts["message"] = str(error)
        self.report("done" if kind is None else "stopped")
        self._close()

    def _loop(self) -> None:
        while not self._stop.wait(_STATUS_SECONDS):
            self.report("running")

    def report(self, state: str) -> None:
        """Write status.json and show the same on the terminal."""
        status = self.meter.snapshot(state)
        with contextlib.suppress(OSError):  # a full disk is told by what has to be written, not by this
            self.run.write_status(status)
        self._show(status)

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=False,
        )
        task = bar.add_task(self.meter.stage, total=self.meter.total or None, text="")
        bar.start()

        def show(status: dict[str, Any]) -> None:
            bar.update(
                task,
                completed=status["done"],
                total=status["total"],
                description=status["stage"],
                text=describe(status),
            )

        self._show, self._close = show, bar.stop


def describe(status: dict[str, Any]) -> str:
    """One line for people: amount, rate, what is special to the stage, memory, time left."""

    def amount(n: float) -> str:
        return format_size(n) if status["unit"] == "bytes" else f"{n:,.0f} {status['unit']}"

    parts = [amount(status["done"]) + (f" of {amount(status['total'])}" if status["total"] else "")]
    parts.append(f"{amount(status['per_second'])}/s")
    if status.get("distinct_chunks"):
        parts.append(f"about {status['distinct_chunks']:,} distinct chunks")
    parts.append(f"{format_size(status['memory_bytes'])} of memory")
    if status["eta_seconds"] is not None:
        minutes, seconds = divmod(int(status["eta_seconds"]), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)


def running_state(status: dict[str, Any]) -> dict[str, Any]:
    """A status read from disk; one that says "running" though its process is gone was killed."""
    if status.get("state") == "running" and not psutil.pid_exists(int(status.get("pid", 0))):
        return {**status, "state": "killed", "message": "The process is gone; the same command goes on from here."}
    return status
