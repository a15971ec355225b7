"""How a run is doing: its status file, whether its process still lives, and the disk."""

from __future__ import annotations

from pathlib import Path

import psutil

from streambpe.disk import folder_bytes
from streambpe.progress import Status
from streambpe.resources import format_size
from streambpe.store.run import Run


class RunStatus(Status):
    """A run's status and the disk."""

    run_bytes: int
    free_bytes: int


def look_at(run: Run) -> RunStatus:
    """What `status` and `watch` show: status.json, whether its process still lives, and the disk."""
    status = running_state(run.read_status(), run.path)
    return {**status, "run_bytes": folder_bytes(run.path), "free_bytes": run.free_bytes()}


def describe_run(run: Path | str, status: Status) -> str:
    """The run's name, and that of the training at work in it unless that is main."""
    name = status.get("training", "main")
    return str(run) if name == "main" else f"{run}, training {name}"


def describe_more(status: RunStatus) -> list[str]:
    """The lines below `describe`: passes, memory at most, disk."""
    lines = []
    if status.get("passes"):
        lines.append(
            f"{status['events']:,} events in {status['passes']:,} passes, {status['batch_events']:,} in the last, "
            f"by {status['mode']}; {status['recent_per_second']:,.0f} a second of late"
        )
    lines += [
        f"process {busy['pid']}: {busy['task']}, {format_size(busy['done'])} of it so far"
        for busy in status.get("workers", ())
        if status["state"] == "running"
    ]
    limit = status.get("memory_limit_bytes")
    share = f" ({100 * status['peak_memory_bytes'] / limit:.0f} % of --memory {format_size(limit)})" if limit else ""
    lines.append(f"at most {format_size(status['peak_memory_bytes'])} of memory{share}")
    lines.append(f"{format_size(status['run_bytes'])} on disk, {format_size(status['free_bytes'])} free there")
    return lines


def running_state(status: Status, run: Path) -> Status:
    """A status read from disk, corrected: if it says "running" but its process is gone, the process was killed."""
    if status.get("state") == "running" and not psutil.pid_exists(int(status.get("pid", 0))):
        return {
            **status,
            "state": "killed",
            "message": f"The process is gone; `streambpe resume {run}` goes on from here.",
        }
    return status
