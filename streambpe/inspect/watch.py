"""A live view of a run on the terminal. Reads status.json, and the tables when nobody holds them.

    learning: running, process 4711                           12:30 since it began
    tokens    ━━━━━━━━━━━━━━╺━━━━━━━━━ 18 224 of 31 744        0:40 to 1:10 left
    memory    ━━━━━━━━━━━━━━━━━━━━━━━━ 912 MB of 1.0 GB
    speed     ▁▂▂▃▅▇▇█                 24 tokens a second

Nothing here writes or waits: while another process holds the tables, what was last read of them stays.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streambpe.errors import RunError
from streambpe.inspect.status import RunStatus, status_rows
from streambpe.inspect.status import status as look_at
from streambpe.store.database import list_trainings, open_store, use_training
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.text.shown import harmless, shown

_BARS = "▁▂▃▄▅▆▇█"
_MOST_WHERE = 47  # characters of the path of RUN in the title: its end
_WIDTH = 32  # of bars and sparklines, in characters
_TABLES_SECONDS = 5.0  # between two looks at the tables
GOES_ON = ("running", "unknown")  # states of a job that may tell more; unknown: it is on another machine
_LATEST = 12  # how many of the latest tokens are shown


class View(msgspec.Struct):
    """What is known of a run from looking at it again and again."""

    run: Run
    name: str | None
    stage: str = ""
    rates: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=_WIDTH))  # of that stage
    latest: list[tuple[str, int]] = msgspec.field(default_factory=list)  # (token, count), the newest first
    _tables_seen: float = -_TABLES_SECONDS

    def look(self) -> RunStatus:
        """The status now; the tables every few seconds, and once more when the run has ended."""
        status = look_at(self.run)
        if status.stage != self.stage:  # each has its own unit, and its own speed
            self.stage = status.stage
            self.rates.clear()
        if status.state == "running":
            self.rates.append(status.facts["recent_per_second"])
        if time.monotonic() - self._tables_seen >= _TABLES_SECONDS or status.state not in GOES_ON:
            self._look_at_tables(self.name or status.facts.get("training", "main"))
            self._tables_seen = time.monotonic()
        return status

    def _look_at_tables(self, name: str) -> None:
        with (
            contextlib.suppress(RunError),
            contextlib.closing(open_store(self.run.state, read_only=True, wait_seconds=0.0)) as con,
        ):
            if name not in list_trainings(con):
                return
            use_training(con, name)
            latest = run_sql(con, "steps/latest_tokens", max_rows=_LATEST)
            self.latest = [(shown(data), n) for data, n in latest]


def watch(
    run: Path | str, console: Console, *, name: str | None = None, every: float = 0.5, once: bool = False
) -> None:
    """Show a run until it ends, and wait for it if it has not begun; `once`: only as it is now.

    `name`: whose tokens to show (else those of the training at work).
    """
    view = View(Run(run), name)
    if view.run.path.is_file():
        view.run.refuse_missing()
    if not once and not view.run.status_file.exists():
        with console.status(f"waiting for {escape(harmless(str(run)))}: nothing runs there yet (Ctrl-C stops waiting)"):
            while not view.run.status_file.exists():
                time.sleep(every)
    has_writer, status = view.run.has_writer(), view.look()
    if once or not (has_writer or status.state in GOES_ON):
        console.print(draw(view, status))
        return
    with Live(draw(view, status), console=console, auto_refresh=False) as live:
        while has_writer or status.state in GOES_ON:  # a command that counted, and now learns, is still there
            time.sleep(every)
            has_writer, status = view.run.has_writer(), view.look()
            live.update(draw(view, status), refresh=True)


def draw(view: View, status: RunStatus) -> RenderableType:
    """The whole view."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(min_width=_WIDTH, no_wrap=True)
    rows.add_column()
    bars = {
        status.unit: _bar(status.done, status.total),
        "memory": _bar(status.memory_bytes, status.facts.get("memory_limit_bytes")),
        "disk": _bar(status.run_bytes, status.run_bytes + status.free_bytes),
        "speed": sparkline(list(view.rates)),
    }
    for name, text in status_rows(status).items():
        rows.add_row(name, bars.get(name, ""), text)
    parts: list[RenderableType] = [rows]
    if view.latest:
        latest = Text("\nlatest tokens  ")
        for token, n in view.latest:
            latest.append(token, style="bold")
            latest.append(f" {n:,}   ", style="dim")
        parts.append(latest)
    if message := status.facts.get("message"):
        parts.append(Text(harmless(f"\n{message}")))
    style = {"running": "green", "done": "blue"}.get(status.state, "yellow")
    title = f"{view.run.path}{status.title}"
    most = _MOST_WHERE + len(f": {status.stage}, {status.state}")
    if len(title) > most:  # a narrow terminal would cut off the state, which stands behind it
        title = f"...{title[-most:]}"
    return Panel(Group(*parts), title=Text(harmless(title)), subtitle=Text(status.updated), border_style=style)


def _bar(part: float, whole: float | None) -> RenderableType:
    return ProgressBar(total=whole, completed=part, width=_WIDTH) if whole else ""


def sparkline(values: Sequence[float]) -> str:
    """Numbers as little bars, the largest full: [1, 2, 4] -> "▂▄█". Shows at most as many as fit."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(_BARS[min(7, max(0, round(8 * value / top) - 1))] for value in values[-_WIDTH:])
