"""The rehearsal of a plan: `train` on the sample, as a process of its own that is measured."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from streambpe.disk import folder_bytes
from streambpe.errors import Stopped, StreambpeError
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.progress import present_meter
from streambpe.store.database import open_store, use_training
from streambpe.store.job import Job, put_job
from streambpe.store.passes import PassRow
from streambpe.store.run import Run
from streambpe.store.trainings import list_batches
from streambpe.system import tree_memory
from streambpe.threads import stopped_by

COUNTING = ("counting", "folding", "counted")  # the stages before learning
_LOOK_SECONDS = 0.02


class Rehearsal(msgspec.Struct):
    """What `train` took for the sample, as a process of its own."""

    seconds: float = 0.0
    stages: dict[str, float] = msgspec.field(default_factory=dict)
    peaks: dict[str, int] = msgspec.field(default_factory=dict)  # memory of the process tree, by stage
    counted_disk_bytes: int = 0  # of the run after counting
    peak_disk_bytes: int = 0
    end_disk_bytes: int = 0
    parts_bytes: int = 0  # of end_disk_bytes, the counts
    sequence_bytes: int = 0  # of end_disk_bytes, the documents
    word_bytes: int = 0  # of peak_disk_bytes, the words and the counts that they are made of
    superword_bytes: int = 0  # of peak_disk_bytes, what was made of the documents

    def peak(self, *stages: str) -> int:
        """The most memory in any of these stages."""
        return max((self.peaks.get(stage, 0) for stage in stages), default=0)

    corpus: CorpusFacts | None = None
    batches: list[PassRow] = msgspec.field(default_factory=list)


def rehearse(run: Path, job: Job, stop: threading.Event, name: str = "main") -> Rehearsal:
    """Run a job in a process of its own; measure its memory and disk often, and read its status as it prints it."""
    folder = Run(run)
    with folder.lock():
        put_job(folder, name, job)
    found = Rehearsal()
    told, stage = list[str](), ["counting"]
    meter = present_meter()
    began = time.monotonic()
    command = [sys.executable, "-m", "streambpe", "resume", str(run), "--name", name, "--progress", "jsonl"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def listen() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            if not line.startswith(b"{"):
                told.append(line.decode(errors="replace").strip())
                continue
            status = json.loads(line)
            meter.begin(f"rehearsal: {status['stage']}", status["total"] or 0, status["unit"], status["done"])
            found.stages.update(status["stage_seconds"])
            found.corpus = status.get("corpus", found.corpus)
            stage[:] = [status["stage"]]

    listener = threading.Thread(target=listen, daemon=True)
    with child:
        listener.start()
        try:
            while child.poll() is None:
                if stop.is_set():
                    raise Stopped("Stopped. A plan keeps nothing.", stopped_by(stop))
                _look(found, run, child.pid, name, stage[0])
                time.sleep(_LOOK_SECONDS)
        finally:
            child.kill()  # unless it has ended
            listener.join()
    found.seconds = time.monotonic() - began
    if child.returncode:
        raise _refused(told, child.returncode)
    found.end_disk_bytes = folder_bytes(run)
    found.peak_disk_bytes = max(found.peak_disk_bytes, found.end_disk_bytes)  # the last look may have been earlier
    found.parts_bytes, found.sequence_bytes = folder_bytes(run / "counts"), folder_bytes(run / "sequences")
    with contextlib.closing(open_store(run / "state.duckdb", read_only=True)) as con:
        use_training(con, name)
        found.batches = list_batches(con)
    return found


def _look(found: Rehearsal, run: Path, pid: int, name: str, stage: str) -> None:
    """Measure the process and its run now."""
    memory, disk, training = tree_memory(pid), folder_bytes(run), run / "training"
    found.peaks[stage] = max(memory, found.peaks.get(stage, 0))
    if disk > found.peak_disk_bytes:
        found.peak_disk_bytes = disk
        found.word_bytes = folder_bytes(training / name / "words") + folder_bytes(training / f"{name}.counts")
        found.superword_bytes = sum(map(folder_bytes, (training / name).glob("superwords-*")))
    if stage in COUNTING:
        found.counted_disk_bytes = disk


def _refused(told: Sequence[str], code: int) -> StreambpeError:
    """The rehearsal's own message and exit code, as if the training itself had been started."""
    said = " ".join(told).removeprefix("streambpe: ")
    why = said if code > 0 else f"its process was ended by signal {-code}"
    error = StreambpeError(f"The part that was read cannot be trained on: {why}")
    error.exit_code = max(code, 1)
    return error
