"""--max-disk: what a job needs is compared with it before anything is read, and what it takes while it runs.

A job that reaches it stops as one that is asked to stop: everything finished is committed, and `resume` goes on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from streambpe.disk import folder_bytes
from streambpe.errors import LimitError, Stopped, typed
from streambpe.resources import Resources, format_size
from streambpe.sources.source import Source
from streambpe.system import bytes_on_disk, tree_pids
from streambpe.threads import StopSignal, stopped_by

# Bytes on disk for each byte of text, of ordinary English; docs/scale.md. Distinct chunks come on top. superbpe was not
# measured: it makes the same files as boundless.
_DOCUMENTS = 0.42
_WORKING = {"none": 0.0, "boundless": 0.6, "superbpe": 0.6, "uw": 1.2}
_FORWARD_SECONDS = 0.1  # until a stop that the caller asks for is seen
_LOOK_SECONDS = 0.5  # at least, between two looks at the disk
_LOOK_SHARE = 20  # looking may take one part in so many of the time


def source_bytes(sources: Sequence[Source]) -> int:
    """What is known of the size of sources: of a stream nothing, of a compressed file its size as it is."""
    return sum(source.bytes for source in sources)


def disk_needed(text_bytes: int, superwords: str) -> dict[str, int]:
    """About what a job that keeps its documents needs of the disk at its peak, by what it is for."""
    needed = {"the documents": round(_DOCUMENTS * text_bytes)}
    if superwords != "none":
        needed["neighbours, runs and words of superwords"] = round(_WORKING[superwords] * text_bytes)
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
    then = "Nothing was changed. Give more, or fewer sources; `streambpe plan` measures a sample of them."
    if counted is not None:
        then = f"All counts and documents are kept. Go on with more: {counted} --max-disk SIZE"
    raise LimitError(
        f"--max-disk {format_size(limit)} is too small: {format_size(text_bytes)} of text need about "
        f"{format_size(whole)} or more at the peak, if it is like English ({parts}), and distinct chunks come on top. "
        f"{then}"
    )


@contextlib.contextmanager
def within_disk(
    run: Path, blocks: Path | None, resources: Resources, stop: threading.Event
) -> Iterator[threading.Event]:
    """The event that stops the job inside: the caller's own, or one that is also set when --max-disk is reached.

    `blocks`: where learning spills. Stopped for that reason, the block ends with a LimitError.
    """
    limit = resources.max_disk_bytes
    if limit is None:
        yield stop
        return
    bound = _Bound(limit, run, blocks, resources.temp_dir, stop)
    bound.look()
    if bound.reached:
        raise LimitError(bound.told())
    watching = threading.Thread(target=bound.watch, name="streambpe-disk", daemon=True)
    watching.start()
    try:
        yield bound.stop
    except Stopped:
        if bound.reached:
            raise LimitError(bound.told()) from None
        raise
    finally:
        bound.ended.set()
        watching.join()


class _Bound:
    """Looks at the disk now and then, so seldom that it takes hardly any time."""

    def __init__(
        self, limit: int, run: Path, blocks: Path | None, temp_dir: Path | None, outer: threading.Event
    ) -> None:
        self.limit, self.run, self.blocks, self.temp_dir, self.outer = limit, run, blocks, temp_dir, outer
        self.stop = StopSignal()
        self.ended = threading.Event()
        self.reached = 0  # bytes, when they were too many
        self._forward()

    def look(self) -> None:
        """Measure, and stop the job if it is too much."""
        used = used_bytes(self.run, self.blocks, self.temp_dir)
        if used > self.limit and not self.stop.is_set():
            self.reached = used
            self.stop.set()

    def _forward(self) -> None:
        if self.outer.is_set() and not self.stop.is_set():
            self.stop.number = stopped_by(self.outer)
            self.stop.set()

    def watch(self) -> None:
        """Until the job ends."""
        due = time.monotonic() + _LOOK_SECONDS
        while not self.ended.wait(_FORWARD_SECONDS):
            self._forward()
            if (began := time.monotonic()) >= due:
                self.look()
                now = time.monotonic()
                due = now + max(_LOOK_SECONDS, _LOOK_SHARE * (now - began))

    def told(self) -> str:
        """What the user is told."""
        return (
            f"--max-disk {format_size(self.limit)} is reached: {self.run} and its temporary files take "
            f"{format_size(self.reached)}. Everything committed is kept. Go on with more: streambpe resume "
            f"{typed(self.run)} --max-disk SIZE, or the same command."
        )


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
