"""How a run is doing: its status file, whether its process still lives, and the disk."""

from __future__ import annotations

from pathlib import Path

from streambpe.disk import folder_bytes
from streambpe.errors import typed
from streambpe.plurals import counted
from streambpe.progress import Status, WorkerFacts, is_alive
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
            f"{counted(status['events'], 'event')} in "
            f"{counted(status['passes'], 'pass', 'passes')}, {status['batch_events']:,} in the last, "
            f"by {status['mode']}; {status['recent_per_second']:,.0f} a second of late"
        )
    workers = status.get("workers", []) if status["state"] == "running" else []
    if workers:
        nodes = {busy["node"] for busy in workers if "node" in busy}
        on = f" on {counted(len(nodes), 'node')}" if nodes else ""
        lines.append(f"{counted(len(workers), 'process', 'processes')} at work on {status['stage']}{on}:")
    lines += [_worker_line(busy, status) for busy in workers]
    if status.get("bad_lines"):
        lines.append(f"left out (--bad-lines skip): {counted(status['bad_lines'], 'line')} that cannot be read")
    limit = status.get("memory_limit_bytes")
    share = f" ({100 * status['peak_memory_bytes'] / limit:.0f} % of --memory {format_size(limit)})" if limit else ""
    lines.append(f"at most {format_size(status['peak_memory_bytes'])} of memory{share}")
    lines.append(f"{format_size(status['run_bytes'])} on disk, {format_size(status['free_bytes'])} free there")
    return lines


def _worker_line(busy: WorkerFacts, status: Status) -> str:
    if not busy["pid"]:
        return f"waiting for a worker: {busy['task']}"
    name = f"process {busy['pid']}" + (f" on {busy['node']}" if "node" in busy else "")
    holds = f", {format_size(busy['memory_bytes'])}" if busy.get("memory_bytes") else ""
    return f"{name}: {busy['task']}, {_told(busy, status)} of it so far{holds}"


def _told(busy: WorkerFacts, status: Status) -> str:
    """How far a worker is, in the job's unit."""
    return format_size(busy["done"]) if status["unit"] == "bytes" else f"{busy['done']:,} {status['unit']}"


def running_state(status: Status, run: Path) -> Status:
    """A status read from disk, corrected: if it says "running" but its process is gone, the process was killed. Whether
    one on another machine is still there is unknown here."""
    if status.get("state") != "running":
        return status
    alive = is_alive(status)
    if alive is None:
        message = f"Process {status['pid']} is on {status['host']}; only there can be seen whether it still runs."
        return {**status, "state": "unknown", "message": message}
    if not alive:
        message = f"The process is gone; `streambpe resume {typed(run)}` goes on from here."
        return {**status, "state": "killed", "message": message}
    return status
