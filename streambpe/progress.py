"""Telling the user how far a job is: a bar on a terminal, JSON lines, and always status.json.

A job owns a `Meter`, which its threads advance; a `Reporter` thread looks at it a few times a second.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypedDict, TypeVar

from streambpe import system
from streambpe.errors import UsageError
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.resources import format_size, keeper

MODES = ("auto", "bar", "jsonl", "none")
_STATUS_SECONDS = 0.5
_REMEMBERED = 256  # snapshots that rates are computed from: two minutes or more
# An estimate is told when a stage has shown how fast it is: after so many seconds, and this share of what it has to do.
_ESTIMATE_SECONDS, _ESTIMATE_SHARE, _SURELY_SECONDS = 2.0, 0.05, 30.0
_CELL_WIDTH = 100  # of the line in a notebook
_BAR_WIDTHS = (7, 40)  # in characters, at least and at most


def refuse_mode(mode: str) -> None:
    """An error for a way of showing progress that there is not; to be called before anything is made."""
    if mode not in MODES:
        raise UsageError(f"--progress {mode}: choose one of {', '.join(MODES)}.")


class ProcessFacts(TypedDict):
    """Which process writes: ids are used again, and another machine has the same ones."""

    pid: int
    host: str
    began: float | None  # as `began_at` tells it


def this_process() -> ProcessFacts:
    """This process, as status.json and a lock name it."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "began": system.began_at(os.getpid())}


def is_alive(process: ProcessFacts) -> bool | None:
    """Whether that process is still there, and no other with its id; None: it is on another machine."""
    if process["host"] != socket.gethostname():
        return None
    return system.is_alive(process["pid"], process["began"])


class JobFacts(TypedDict, total=False):
    """What a job tells of itself beside how far it is."""

    run: str
    sources: int
    corpus: CorpusFacts
    bad_lines: int  # left out, of all that is counted so far
    training: str
    events: int
    passes: int
    batch_events: int  # in the last pass
    mode: str  # of the last pass
    checkpoint: str  # when the last one was
    disk_needed_bytes: int  # at its peak, at least; superwords
    message: str  # why it stopped


class Status(ProcessFacts, JobFacts):
    """What status.json and --progress jsonl say."""

    stage: str
    state: str
    done: int
    total: int | None
    unit: str
    seconds: float
    stage_seconds: dict[str, float]
    per_second: float
    recent_per_second: float
    eta_seconds: float | None
    eta_range_seconds: tuple[float, float] | None
    memory_bytes: int
    memory_limit_bytes: int | None
    peak_memory_bytes: int
    updated: str


@dataclass
class Meter:
    """How far a job is. Written by the job, read by the reporter; every field is a plain number or string."""

    stage: str
    total: int = 0  # in `unit`; 0: not known
    unit: str = "bytes"
    done: int = 0
    facts: JobFacts = field(default_factory=JobFacts)
    started: float = field(default_factory=time.monotonic)
    resumed_from: int = 0  # done before this process began; not part of the rate
    memory_limit: int = 0  # what --memory says, for people to compare with; 0: not known
    _seen: deque[tuple[str, float, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _stages: list[tuple[str, float]] = field(default_factory=list)  # (stage, when it began)
    begun: threading.Event = field(default_factory=threading.Event)  # a stage that has not been reported yet

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "stage" and "begun" in self.__dict__:
            self._stages.append((value, time.monotonic()))
            self.begun.set()

    def __post_init__(self) -> None:
        self._stages.append((self.stage, self.started))

    def advance(self, n: int) -> None:
        """So much more is done."""
        self.done += n

    def begin(self, stage: str, total: int = 0, unit: str = "bytes", done: int = 0) -> None:
        """The job is at this stage, and so far in it."""
        if stage != self.stage:
            self.done, self.resumed_from = 0, done
            self.stage = stage
        self.total, self.unit, self.done = total, unit, done

    def stage_seconds(self) -> dict[str, float]:
        """How long each stage took; the present one: so far."""
        took: dict[str, float] = {}
        stages = list(self._stages)  # the job's thread may add one meanwhile
        ends = [at for _, at in stages[1:]] + [time.monotonic()]
        for (stage, began), end in zip(stages, ends, strict=True):
            took[stage] = took.get(stage, 0.0) + end - began
        return {stage: round(seconds, 3) for stage, seconds in took.items()}

    def snapshot(self, state: str) -> Status:
        """How far the job is now."""
        now = time.monotonic()
        seconds = now - self.started
        if self._seen and (self._seen[-1][0] != self.stage or self._seen[-1][2] > self.done):
            self._seen.clear()  # another stage, or this one begins anew
        self._seen.append((self.stage, now, self.done))
        rates = [(self.done - self.resumed_from) / seconds if seconds > 0 else 0.0]
        for span in (60.0, 30.0, 10.0):  # the last so many seconds
            window = [(at, done) for _, at, done in self._seen if now - at <= span]
            (first, before), (last, after) = window[0], window[-1]
            rates.append((after - before) / (last - first) if last - first > span / 4 else rates[-1])
        memory = keeper.look()
        knows = state == "running" and self._knows_its_speed() and self.done < self.total
        eta = eta_range(self.total - self.done, rates) if knows else None
        return {
            "stage": self.stage,
            "state": state,
            "done": self.done,
            "total": self.total or None,
            "unit": self.unit,
            "seconds": round(seconds, 2),
            "stage_seconds": self.stage_seconds(),
            "per_second": round(rates[0], 1),
            "recent_per_second": round(rates[-1], 1),
            "eta_seconds": eta and round(eta[1], 1),
            "eta_range_seconds": eta and (round(eta[0], 1), round(eta[1], 1)),
            "memory_bytes": memory,
            "memory_limit_bytes": self.memory_limit or None,
            "peak_memory_bytes": keeper.peak,
            **self.facts,
            **this_process(),
            "updated": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }

    def _knows_its_speed(self) -> bool:
        """Whether this stage has gone on for long enough to say when it will end."""
        _, now, done = self._seen[-1]
        seconds, before = now - self._stages[-1][1], self._seen[0][2]
        is_enough = done - before >= _ESTIMATE_SHARE * max(self.total - before, 1) or seconds >= _SURELY_SECONDS
        return self.total > 0 and seconds >= _ESTIMATE_SECONDS and is_enough


def eta_range(left: float, rates: Sequence[float]) -> tuple[float, float] | None:
    """(soonest, latest) seconds until the rest is done: at the fastest and at the slowest of the rates seen.

    Speed changes on the way (passes get shorter, and now and then there is a refill), so one number would
    pretend to be exact. None while nothing moves.

        eta_range(1000, [100, 50])  ->  (10, 20)
    """
    moving = [rate for rate in rates if rate > 0]
    if not moving:
        return None
    return max(left, 0) / max(moving), max(left, 0) / min(moving)


class Reporter:
    """Shows a meter until it is closed: `with Reporter(meter, run.write_status, "auto"): ...`."""

    def __init__(self, meter: Meter, write_status: Callable[[Status], None], mode: str, passing: bool = False) -> None:
        """`passing`: the bar is shown after a second, and wiped in the end."""
        refuse_mode(mode)
        self.meter, self._write_status = meter, write_status
        self._after_seconds, self._transient = float(passing), passing
        self.mode = _found_mode() if mode == "auto" else mode
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="streambpe-progress", daemon=True)
        self._show: Callable[[Status], object] = lambda status: None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Reporter:
        with self._open:  # it is left if the first report fails
            self._open.enter_context(keeper.watching(self.meter.memory_limit))
            if self.mode == "bar":
                self._open_bar()
            elif self.mode == "notebook":
                self._open_cell()
            elif self.mode == "jsonl":
                self._show = lambda status: print(json.dumps(status), file=sys.stderr, flush=True)
            self.report("running")
            self._open = self._open.pop_all()
        self._thread.start()
        return self

    def __exit__(self, _: object, error: object, *__: object) -> None:
        self._stop.set()
        self.meter.begun.set()  # wakes the thread
        self._thread.join()
        if error is not None:
            self.meter.facts["message"] = str(error)
        self.report("done" if error is None else "stopped")
        with contextlib.suppress(OSError):
            self._open.close()

    def _loop(self) -> None:
        self.meter.begun.wait(_STATUS_SECONDS)
        while not self._stop.is_set():
            self.meter.begun.clear()
            self.report("running")
            self.meter.begun.wait(_STATUS_SECONDS)

    def report(self, state: str) -> None:
        """Write status.json and show the same on the terminal."""
        status = self.meter.snapshot(state)
        self._write_status(status)
        try:
            self._show(status)
        except OSError:  # the disk is full, or the reader of stderr is gone: the job can go on
            self._show = lambda status: None

    def _open_bar(self) -> None:
        from rich.console import Console  # not above: it loads slowly and is needed for the bar only
        from rich.live import Live
        from rich.text import Text

        if needed := self.meter.facts.get("disk_needed_bytes"):
            print(f"disk: {format_size(needed)} or more at the peak", file=sys.stderr)
        console = Console(stderr=True)
        to_terminal = sys.stdout.isatty()  # data that goes to a file or a pipe is not to pass through the terminal
        live = Live(console=console, auto_refresh=False, transient=self._transient, redirect_stdout=to_terminal)
        begins = time.monotonic() + self._after_seconds

        def show(status: Status) -> None:
            if not live.is_started and time.monotonic() < begins:
                return
            live.start()  # nothing, if it is
            line = progress_line(status, console.width - 1)
            if not console.encoding.startswith("utf"):
                line = line.replace("━", "#").replace("─", "-")
            live.update(Text(line, no_wrap=True, overflow="crop"), refresh=True)

        self._show = show
        self._open.callback(live.stop)

    def _open_cell(self) -> None:
        from IPython.display import display

        handle = display({"text/plain": ""}, raw=True, display_id=True)
        self._show = lambda status: handle.update({"text/plain": progress_line(status, _CELL_WIDTH)}, raw=True)


def _found_mode() -> str:
    """A bar on a terminal or below the cell of a notebook, else nothing."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return "notebook"
    return "bar" if sys.stderr.isatty() else "none"


_present: ContextVar[Meter | None] = ContextVar("present", default=None)


def present_meter() -> Meter:
    """The meter that is shown for the function that runs (`reporting`, `reported`); without one, any."""
    return _present.get() or Meter("working")


@contextlib.contextmanager
def reporting(meter: Meter, mode: str) -> Iterator[Meter]:
    """A line for a command that leaves no status.json; shown only if it takes longer than a moment, and then wiped.
    Inside, it is `present_meter`."""
    before = _present.set(meter)
    try:
        line = Reporter(meter, lambda status: None, mode, passing=True)
        with contextlib.nullcontext() if mode == "none" else line:
            yield meter
    finally:
        _present.reset(before)


P = ParamSpec("P")
R = TypeVar("R")


def reported(stage: str, unit: str = "bytes") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For functions that have `progress`, the way of showing how far they are: `present_meter` is shown so."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def with_meter(*args: P.args, **given: P.kwargs) -> R:
            meter = Meter(stage, unit=unit, memory_limit=getattr(given.get("resources"), "memory_bytes", 0))
            with reporting(meter, str(given.get("progress", "none"))):  # which refuses a way that there is not
                return function(*args, **given)

        return with_meter

    return decorate


def progress_line(status: Status, width: int) -> str:
    """The line of a job in so many columns. Where they are few, what matters less is left out; nothing is cut.

    learning  ━━━━━━━━━━━━━━━────────────────  18,224 of 31,744 tokens  0:40 to 1:10 left  RAM 912 MB
    """
    done, total, unit = status["done"], status["total"], status["unit"]
    amount = f"{amount_of(done, unit)}{f' of {amount_of(total, unit)}' if total else ''}" if total or done else ""
    left, rate = status.get("eta_range_seconds"), status["recent_per_second"]
    parts = {
        "stage": status["stage"],
        "amount": f"{amount} {unit}" if amount and unit != "bytes" else amount,
        "time": f"{describe_range(*left)} left" if left else clock(status["seconds"]),
        "memory": f"RAM {format_size(status['memory_bytes'])}",
        "rate": f"{amount_of(rate, unit)}/s" if rate > 0 else "",
    }
    least = _BAR_WIDTHS[0] + 2 if total else 0
    chosen: dict[str, str] = {}
    for name, text in parts.items():  # in the order of what matters
        if text and (not chosen or sum(len(part) + 2 for part in chosen.values()) + len(text) + least <= width):
            chosen[name] = text
    stage, *others = chosen.values()
    room = min(width - sum(len(part) + 2 for part in chosen.values()), _BAR_WIDTHS[1])
    if total and room >= _BAR_WIDTHS[0]:
        full = min(max(room * done // total, 0), room)
        others.insert(0, "━" * full + "─" * (room - full))
    return "  ".join([stage, *others])


def amount_of(number: float, unit: str) -> str:
    """How much that is, without the unit unless it is bytes."""
    return format_size(number) if unit == "bytes" else f"{number:,.0f}"


def describe_range(low: float, high: float) -> str:
    """Two times as people say them: 1:05 to 2:10, or just 0:40 where both are about the same."""
    return clock(high) if high - low < max(2.0, high / 20) else f"{clock(low)} to {clock(high)}"


def clock(seconds: float) -> str:
    """0:07, 12:30, 3:05:00."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"
