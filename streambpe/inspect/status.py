"""How a run is doing: its status file, whether its process still lives, and the disk."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from streambpe.disk import folder_bytes
from streambpe.errors import typed
from streambpe.plurals import counted
from streambpe.progress import Status, amount_of, clock, describe_range, is_alive
from streambpe.resources import format_size
from streambpe.results import Result
from streambpe.store.run import Run


@dataclass(frozen=True)
class RunStatus(Result):
    """What a run is doing, or did last, and the disk."""

    state: str  # running, done, stopped, failed, killed, or unknown: it is on another machine
    stage: str
    done: int
    total: int | None
    unit: str
    eta_range_seconds: tuple[float, float] | None  # the time left
    memory_bytes: int
    run_bytes: int
    free_bytes: int
    updated: str
    facts: Status  # everything that status.json says; of a process that is gone, corrected

    @property
    def title(self) -> str:
        """The training at work unless that is main, the stage and the state."""
        name = self.facts.get("training", "main")
        return f"{'' if name == 'main' else f', training {name}'}: {self.stage}, {self.state}"

    def as_json(self) -> dict[str, Any]:
        """For --json: status.json with the sizes on disk."""
        return {**self.facts, "run_bytes": self.run_bytes, "free_bytes": self.free_bytes}


def status(run: Run | str | os.PathLike[str]) -> RunStatus:
    """What a run is doing, or did last: status.json, whether its process still lives, and the disk."""
    folder = run if isinstance(run, Run) else Run(Path(run))
    facts = running_state(folder.read_status(), folder.path)
    disk = {"run_bytes": folder_bytes(folder.path), "free_bytes": shutil.disk_usage(folder.path).free, "facts": facts}
    return RunStatus(**{field.name: facts.get(field.name) for field in fields(RunStatus)} | disk)  # type: ignore[arg-type]


def status_rows(found: RunStatus) -> dict[str, str]:
    """How a run is doing, by what a row is about: for `status` and `watch`."""
    status = found.facts
    amount = partial(amount_of, unit=status["unit"])
    total, limit, left = status["total"], status.get("memory_limit_bytes"), status.get("eta_range_seconds")
    speed, seconds = f"{amount(status['per_second'])} a second", sum(status["stage_seconds"].values())
    took = f"{clock(seconds)} {'in all' if status['state'] == 'done' else 'so far'}"
    memory = format_size(status["memory_bytes"]) + (f" of {format_size(limit)}" if limit else "")
    if status["state"] == "running":
        speed += f", {amount(status['recent_per_second'])} recently"
        took += f", {describe_range(*left)} left" if left else ""
    rows = {
        status["unit"]: amount(status["done"]) + (f" of {amount(total)}" if total else ""),
        "memory": f"{memory}, at most {format_size(status['peak_memory_bytes'])}",
        "disk": f"{format_size(found.run_bytes)}, {format_size(found.free_bytes)} free",
        "time": took,
        "stages": ", ".join(f"{stage} {clock(seconds)}" for stage, seconds in status["stage_seconds"].items()),
        "speed": speed,
    }
    if status.get("passes"):
        rows["events"] = (
            f"{counted(status['events'], 'event')} in {counted(status['passes'], 'pass', 'passes')}, "
            f"{status.get('batch_events', 0):,} in the last, by {status['mode']}"
        )
    if status.get("bad_lines"):
        rows["bad"] = f"{counted(status['bad_lines'], 'line')} left out as unreadable (--bad-lines skip)"
    return rows


def running_state(status: Status, run: Path) -> Status:
    """A status read from disk, corrected: if it says "running" but its process is gone, the process was killed. Whether
    one on another machine is still there is unknown here."""
    alive = is_alive(status) if status.get("state") == "running" else True
    if alive:
        return status
    state, message = "killed", f"The process is gone; `streambpe resume {typed(run)}` continues from here."
    if alive is None:
        state = "unknown"
        message = f"Process {status['pid']} is on {status['host']}; only that machine knows whether it still runs."
    return {**status, "state": state, "message": message}
