"""--max-disk: what a job needs is compared with it before anything is read, and what it takes while it runs.

A job that reaches it stops as one that is asked to stop: everything finished is committed, and `resume` goes on.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from streambpe.disk import folder_bytes
from streambpe.errors import LimitError, Stopped, typed
from streambpe.resources import Resources, format_size
from streambpe.system import bytes_on_disk, tree_pids
from streambpe.train.pace import Pace

# Bytes on disk for each byte of text, of ordinary English; docs/scale.md. Distinct chunks come on top. superbpe was not
# measured: it makes the same files as boundless.
_DOCUMENTS = 0.42
_WORKING = {"none": 0.0, "boundless": 0.6, "superbpe": 0.6, "uw": 0.6}
_LOOK_SECONDS = 0.5  # at least, between two looks at the disk


def disk_needed(text_bytes: int, superwords: str) -> dict[str, int]:
    """About what a job that keeps its documents needs of the disk at its peak, by what it is for."""
    needed = {"the documents": round(_DOCUMENTS * text_bytes)}
    if superwords != "none":
        needed["neighbours, chains and words of superwords"] = round(_WORKING[superwords] * text_bytes)
    return needed


def refuse_too_little_disk(resources: Resources, text_bytes: int, superwords: str, counted: str | None = None) -> None:
    """Refuse a job that keeps its documents, if these and what is made of them cannot fit --max-disk.

    `counted`: the command that goes on, if the text is counted already.
    """
    needed = disk_needed(text_bytes, superwords)
    whole, limit = sum(needed.values()), resources.max_disk_bytes
    if limit is None or whole <= limit:
        return
    parts = ", ".join(f"{what} {format_size(size)}" for what, size in needed.items())
    then = "Nothing was changed. Give a larger one, or fewer sources; `streambpe plan` measures a sample of them."
    if counted is not None:
        then = f"All counts and documents are kept. Continue with more: {counted} --max-disk SIZE"
    raise LimitError(
        f"--max-disk {format_size(limit)} is too small: {format_size(text_bytes)} of text need about "
        f"{format_size(whole)} or more at the peak, if it is like English ({parts}), plus the distinct chunks. {then}"
    )


@contextlib.contextmanager
def within_disk(run: Path, blocks: Path | None, resources: Resources, stop: threading.Event) -> Iterator[None]:
    """Stop the job inside when --max-disk is reached; then it ends with a LimitError, and `stop` is not set.

    `blocks`: where learning spills.
    """
    limit = resources.max_disk_bytes
    if limit is None:
        yield
        return
    ended = threading.Event()
    reached: list[int] = []  # bytes, when they were too many

    def look() -> None:
        used = used_bytes(run, blocks, resources.temp_dir)
        if used > limit and not stop.is_set():
            reached.append(used)
            stop.set()

    def watch() -> None:
        """Look now and then, so seldom that it takes hardly any time."""
        pace = Pace(_LOOK_SECONDS)
        while not ended.wait(_LOOK_SECONDS):
            if pace.is_due():
                with pace.timed():
                    look()

    watching = threading.Thread(target=watch, name="streambpe-disk", daemon=True)
    try:
        look()
        watching.start()
        if reached:
            raise Stopped("Stopped.", signal.SIGINT)
        yield
    except Stopped:
        if not reached:
            raise
        raise LimitError(
            f"--max-disk {format_size(limit)} is reached: {run} and its temporary files take "
            f"{format_size(reached[0])}. Everything committed is kept. Continue with more: streambpe resume "
            f"{typed(run)} --max-disk SIZE, or the same command."
        ) from None
    finally:
        ended.set()
        watching.join()
        if reached:
            stop.clear()


def used_bytes(run: Path, blocks: Path | None, temp_dir: Path | None) -> int:
    """What a run and its temporary files take: those of learning, and what its processes spill into --temp-dir."""
    used = folder_bytes(run)
    if temp_dir is not None:
        used += folder_bytes(blocks) if blocks is not None else 0
        for pid in tree_pids():  # DuckDB names a file after its process; other jobs may spill into the same folder
            for path in temp_dir.glob(f"duckdb_temp_{pid}_*"):
                with contextlib.suppress(OSError):
                    used += bytes_on_disk(path.stat())
    return used
