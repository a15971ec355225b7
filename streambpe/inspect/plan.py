"""What a training will cost, before it is started: `streambpe plan SOURCE... [options of train]`.

    sample     windows at even distances, SAMPLE_BYTES in all                       (inspect/sample.py)
    growth     distinct chunks in 1, 2, 4, 8, 16 sixteenths of it, carried on to the whole corpus
    rehearsal  the sample counted and learned from by processes of their own, as `train` would, with the options
               given; what each stage took, its memory, its disk
    forecast   every stage's figures carried on by what it grows with

Nothing is known of the machine but what the rehearsal measured on it. docs/plan.md says how each figure is made.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.config import TrainConfig
from streambpe.core.strings import ChunkList, merge
from streambpe.count_config import CountConfig, Counting
from streambpe.errors import Stopped, StreambpeError, UsageError
from streambpe.inspect.sample import SUBSETS, SampleFiles, as_whole, draw_windows
from streambpe.inspect.status import folder_bytes
from streambpe.progress import clock
from streambpe.resources import (
    BASE_BYTES,
    LEFT_BEHIND_BYTES,
    SMALLEST_MEMORY_BYTES,
    SMALLEST_SUPERWORDS_BYTES,
    Resources,
    format_size,
)
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.source import BadUtf8, Source
from streambpe.store.database import open_store, use_training
from streambpe.store.job import Job, put_job
from streambpe.store.run import Run
from streambpe.store.trainings import list_batches
from streambpe.system import available_memory, tree_memory
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.threads import stopped_by
from streambpe.train.commands import counting_for, describe_job
from streambpe.train.counting.sizes import table_bytes
from streambpe.train.counting.worker import CHECKPOINT_SECONDS, prepared
from streambpe.train.engine.in_memory import BYTES_PER_PLACE
from streambpe.train.opening import engine_room, fits_in_memory, memory_for

SAMPLE_BYTES = 32 * 10**6
_LOOK_SECONDS = 0.02
_LOOKS_AT_DISK = 5  # one look in so many also takes in the disk
_BYTES_A_CHUNK = 440  # of a worker's memory for each distinct piece of a part, at most; measured, see docs/plan.md
_BYTES_A_PLACE = 24  # of learning in memory, for each symbol; likewise
_EMPTY_STORE_BYTES = 1 << 20  # of state.duckdb without rows
_ROUND_MEMORY = 100 * 10**6


@dataclass(frozen=True)
class Growth:
    """Something that grows with text, after 1, 2, 4, ... SUBSETS sixteenths of the sample (means of all such parts)."""

    seen: tuple[float, ...]

    def at(self, samples: float) -> float:
        """What it is after so many times the sample: between the points seen, or carried on.

        From one doubling of the text to the next it grows by a factor 2^slope; the slopes fall by the same ratio
        with every doubling, that of the slopes seen. (A power law is the case in which they do not fall.)
        """
        logs = np.log2(np.maximum(self.seen, 1e-9))
        x = math.log2(samples * SUBSETS)
        if x <= 0:
            return float(self.seen[0] * samples * SUBSETS)
        last = len(logs) - 1
        if x <= last:
            return float(2 ** np.interp(x, np.arange(len(logs)), logs))
        slopes = np.diff(logs)
        ratio = min(1.0, (slopes[-1] / slopes[0]) ** (1 / (len(slopes) - 1))) if min(slopes) > 0 else 0.0
        y, slope, left = logs[-1], float(slopes[-1]), x - last
        while left > 0:
            slope *= ratio
            y += slope * min(1.0, left)
            left -= 1.0
        return float(2**y)


@dataclass(frozen=True)
class Grown:
    """What the windows say of the corpus."""

    share: float  # of the corpus that the sample is
    text_bytes: int  # of the sample
    documents: int
    distinct: Growth  # chunks
    places: Growth  # bytes of the distinct chunks that are learned from, and one more for each
    bytes_a_chunk: float  # that counting holds of each distinct one
    count_seconds: float  # a byte, to split text and count its chunks, on one thread
    sort_seconds: float  # a distinct chunk, to take it out of the table


@dataclass
class Rehearsal:
    """What `train` took for the sample, as a process of its own."""

    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    count_peak_bytes: int = 0  # resident, of the process tree
    learn_peak_bytes: int = 0
    counted_disk_bytes: int = 0  # of the run after counting
    peak_disk_bytes: int = 0
    end_disk_bytes: int = 0
    parts_bytes: int = 0  # of it, the counts
    sequence_bytes: int = 0  # and the documents
    corpus: dict[str, Any] = field(default_factory=dict)
    batches: list[dict[str, Any]] = field(default_factory=list)
    from_disk: Rehearsal | None = None  # learning again, with less memory by as much as the sample is smaller


@dataclass(frozen=True)
class Plan:
    """The forecast."""

    sources: int
    source_bytes: int  # on disk
    sample_share: float
    text_bytes: int
    chunks: int
    distinct: int
    places: int  # symbols of the distinct chunks learned from, and one more for each
    memory_limit_bytes: int
    memory_bytes: int  # peak
    learns_in_memory: bool  # from the start
    memory_suits_bytes: int
    disk_bytes: int  # peak
    disk_left_bytes: int
    seconds: float
    stage_seconds: dict[str, float]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def plan(
    sources: Sequence[str],
    config: TrainConfig | None = None,
    *,
    like: str = "hf",
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    sample_bytes: int = SAMPLE_BYTES,
    stop: threading.Event | None = None,
) -> Plan:
    """Forecast a training of these sources; writes only to a temporary folder."""
    config, resources = config or TrainConfig(), resources or Resources.from_options()
    resources.check_superwords(config.superwords)
    how = counting_for(like, config, Counting.of(counting))
    if how.counts:
        raise UsageError("--counts: plan samples text. A table of counts is read whole, so train it and see.")
    found, warnings = find_sources(sources, how)
    if not found:
        raise UsageError("Nothing to plan: name at least one SOURCE.")
    if "bad_utf8" in how.options:
        found = [replace(source, any_bytes=True) for source in found]
    if any(source.is_stream for source in found):
        raise UsageError(
            "Standard input can be read only once, and plan reads a part of its sources: save it as a file."
        )
    if how.groups or how.group_by:
        raise UsageError(
            "--group and --group-by: keeping counts of groups apart costs hardly anything; a forecast without is the "
            "same. Leave them out."
        )
    if how.stdin_name != "-":
        raise UsageError("--stdin-name: plan does not read standard input. Leave it out.")
    if config.weights:
        raise UsageError(
            "--weight: the groups are known once they are counted; a forecast without it is much the same."
        )
    options = CountConfig(**how.options)
    pattern = find_pattern(
        options.pattern, gaps=options.gaps, split_scripts=options.split_scripts, prepared=options.prepares
    )
    if sample_bytes < 1:
        raise UsageError("--sample 0: there is nothing to learn from. The default, 32MB, suits most corpora.")
    stop = stop or threading.Event()
    if resources.temp_dir is not None and not resources.temp_dir.is_dir():
        raise UsageError(f"--temp-dir {resources.temp_dir} is no folder.")
    with tempfile.TemporaryDirectory(prefix="streambpe-plan-", dir=resources.temp_dir) as place:
        resources = replace(resources, temp_dir=None)  # what is spilled lies in the run that is looked at
        folder = Path(place)
        (folder / "sample").mkdir()
        files = SampleFiles(folder / "sample")
        grown = grow(found, sample_bytes, pattern, options, config, files)
        job = describe_job(files.arguments, how, config, resources)
        rehearsed = rehearse(folder / "run", job, stop)
        places = rehearsed.batches[0]["places"] if rehearsed.batches else 0
        if config.superwords == "none" and not fits_in_memory(
            round(places * _ratio(grown.places, 1 / grown.share)), resources.memory_bytes
        ):
            less = replace(resources, memory_bytes=memory_in_proportion(resources.memory_bytes, grown))
            again = describe_job([], how, config, less)
            rehearsed.from_disk = rehearse(folder / "run", again, stop, "from_disk")
    made = forecast(grown, rehearsed, config, resources)
    return Plan(
        sources=len(found),
        source_bytes=sum(source.bytes for source in found),
        sample_share=grown.share,
        memory_limit_bytes=resources.memory_bytes,
        notes=tuple(warnings + _notes(made, rehearsed, config, grown)),
        **made,
    )


def memory_in_proportion(memory_bytes: int, grown: Grown) -> int:
    """With how much learning from the sample would go from disk as learning from everything will."""
    room = engine_room(memory_bytes) / _ratio(grown.places, 1 / grown.share)
    return max(SMALLEST_MEMORY_BYTES, memory_for(round(room) // BYTES_PER_PLACE) - LEFT_BEHIND_BYTES)


def _notes(made: dict[str, Any], rehearsed: Rehearsal, config: TrainConfig, grown: Grown) -> list[str]:
    notes = []
    if made["memory_suits_bytes"] > available_memory():
        notes.append(
            f"This machine has {format_size(available_memory())} of memory: learning will go from disk whatever "
            f"--memory says."
        )
    learned = sum(batch["events"] for batch in rehearsed.batches)
    if grown.share < 1 and rehearsed.stages.get("learning") and learned + 256 < config.vocab_size - config.extra_ids:
        notes.append("The sample is too small for the whole vocabulary: the time is a guess. Give a larger --sample.")
    if config.superwords != "none":
        notes.append(
            "Superwords: their time, memory and disk are carried on in proportion to the text, which is rough."
        )
    return notes


# ---------------------------------------------------------------------------------------------------------
# growth


def grow(
    sources: Sequence[Source],
    sample_bytes: int,
    pattern: Pattern,
    options: CountConfig,
    config: TrainConfig,
    files: SampleFiles,
) -> Grown:
    chunker = Chunker(pattern)
    counts = [ChunkCounts(chunker, 1 << 40) for _ in range(SUBSETS)]
    text_bytes = documents = 0
    disk_bytes, count_seconds = 0.0, 0.0
    policy: BadUtf8 = options.bad_utf8  # type: ignore[assignment]
    for window in draw_windows(sources, sample_bytes, pattern):
        files.add(window.block)
        disk_bytes += window.disk_bytes
        block = as_whole(window.block)
        made = prepared(block, block_text(block, policy), options)
        began = time.perf_counter()
        counts[window.subset].add(made.text)
        count_seconds += time.perf_counter() - began
        text_bytes += len(made.text) - made.documents
        documents += made.documents
    files.write()
    if not text_bytes:
        raise UsageError("The sources hold no text: there is nothing to plan.")
    held = sum(count.held for count in counts)
    began = time.perf_counter()
    lists = [count.take() for count in counts]
    sort_seconds = time.perf_counter() - began
    distinct = max(1, sum(len(one) for one in lists))
    levels = _levels(lists, config)
    return Grown(
        share=min(1.0, disk_bytes / sum(source.bytes for source in sources)),
        text_bytes=text_bytes,
        documents=documents,
        distinct=Growth(tuple(level[0] for level in levels)),
        places=Growth(tuple(level[1] for level in levels)),
        bytes_a_chunk=held / distinct,
        count_seconds=count_seconds / text_bytes,
        sort_seconds=sort_seconds / distinct,
    )


def _levels(lists: list[ChunkList], config: TrainConfig) -> list[tuple[float, float]]:
    """(distinct chunks, places) in unions of 1, 2, 4, ... subsets, means over all unions."""
    levels = []
    while True:
        sizes = [_size(one.frame(), config) for one in lists]
        levels.append((sum(a for a, _ in sizes) / len(sizes), sum(b for _, b in sizes) / len(sizes)))
        if len(lists) == 1:
            return levels
        lists = [merge(lists[i : i + 2]) for i in range(0, len(lists), 2)]


def _size(frame: pl.DataFrame, config: TrainConfig) -> tuple[int, int]:
    words = frame.filter(pl.col("n") >= config.freq_cutoff)["chunk"].str.len_bytes()
    words = words.filter(words > 1)
    return frame.height, int(words.sum()) + len(words)


# ---------------------------------------------------------------------------------------------------------
# rehearsal


def rehearse(run: Path, job: Job, stop: threading.Event, name: str = "main") -> Rehearsal:
    """Do a job in a process of its own and look at it: its memory and disk often, its status as it tells it."""
    put_job(Run(run), name, job)
    found = Rehearsal()
    counting = not job.counted
    told: list[str] = []
    began = time.monotonic()
    command = [sys.executable, "-m", "streambpe", "resume", str(run), "--name", name, "--progress", "jsonl"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def listen() -> None:
        nonlocal counting
        assert child.stderr is not None
        for line in child.stderr:
            if not line.startswith(b"{"):
                told.append(line.decode(errors="replace").strip())
                continue
            status = json.loads(line)
            found.stages.update(status["stage_seconds"])
            found.corpus = status.get("corpus", found.corpus)
            counting = counting and "learning" not in found.stages and "preparing" not in found.stages

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    looks = 0
    try:
        while child.poll() is None:
            if stop.is_set():
                raise Stopped("Stopped. A plan keeps nothing.", stopped_by(stop))
            memory = tree_memory(child.pid)
            if looks % _LOOKS_AT_DISK == 0:
                disk = folder_bytes(run)
                found.peak_disk_bytes = max(found.peak_disk_bytes, disk)
            if counting:
                found.count_peak_bytes = max(found.count_peak_bytes, memory)
                found.counted_disk_bytes = disk
            else:
                found.learn_peak_bytes = max(found.learn_peak_bytes, memory)
            looks += 1
            time.sleep(_LOOK_SECONDS)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        listener.join()
        assert child.stderr is not None
        child.stderr.close()
    found.seconds = time.monotonic() - began
    if child.returncode:
        raise _refused(told, child.returncode)
    found.end_disk_bytes = folder_bytes(run)
    found.parts_bytes, found.sequence_bytes = folder_bytes(run / "counts"), folder_bytes(run / "sequences")
    with contextlib.closing(open_store(run / "state.duckdb", read_only=True)) as con:
        use_training(con, name)
        found.batches = list_batches(con)
    return found


def _refused(told: Sequence[str], code: int) -> StreambpeError:
    """The rehearsal's own message and exit code, as if the training itself had been started."""
    if code < 0:
        why = f"its process was ended by signal {-code}"
    elif "Traceback (most recent call last):" in told:
        why = told[-1]
    else:
        why = " ".join(told).removeprefix("streambpe: ")
    error = StreambpeError(f"The sample cannot be trained: {why}")
    error.exit_code = max(code, 1)
    return error


# ---------------------------------------------------------------------------------------------------------
# forecast


def forecast(grown: Grown, rehearsed: Rehearsal, config: TrainConfig, resources: Resources) -> dict[str, Any]:
    """The fields of a Plan that are forecasts."""
    times = 1 / grown.share  # the sample
    places = round((rehearsed.batches[0]["places"] if rehearsed.batches else 0) * _ratio(grown.places, times))
    in_memory = fits_in_memory(places, resources.memory_bytes)
    stages = {**rehearsed.stages}
    start = max(0.0, rehearsed.seconds - sum(stages.values()))
    small, large = _Parts.of(grown, 1.0, rehearsed, resources), _Parts.of(grown, times, rehearsed, resources)
    more_distinct, more_places = _ratio(grown.distinct, times), _ratio(grown.places, times)
    for stage in stages:
        if stage == "counting":
            stages[stage] *= large.cost / small.cost
        elif stage == "folding":
            stages[stage] *= more_distinct
        elif stage == "words":
            stages[stage] *= more_places
        elif stage in _BY_TEXT:
            stages[stage] *= times
    if rehearsed.from_disk is not None and not in_memory:
        stages["learning"] = rehearsed.from_disk.stages["learning"] * more_places
    else:
        stages["learning"] = _learning_seconds(rehearsed, more_places)

    limit = resources.memory_bytes
    count_peak = rehearsed.count_peak_bytes + resources.threads * _BYTES_A_CHUNK * (large.chunks - small.chunks)
    learn_peak = rehearsed.learn_peak_bytes + _BYTES_A_PLACE * (places - places / more_places)
    if rehearsed.from_disk is not None and not in_memory:  # the engine's share is what differs
        learn_peak = BASE_BYTES + max(0, rehearsed.from_disk.learn_peak_bytes - BASE_BYTES) * more_places
    memory = max(rehearsed.count_peak_bytes, rehearsed.learn_peak_bytes, min(limit, max(count_peak, learn_peak)))

    rows = rehearsed.parts_bytes / grown.distinct.at(1)
    superwords = config.superwords != "none"
    tables = rehearsed.counted_disk_bytes - rehearsed.sequence_bytes - _EMPTY_STORE_BYTES  # grow with distinct chunks
    counted = rehearsed.counted_disk_bytes + max(0, tables) * (more_distinct - 1)
    left = rehearsed.end_disk_bytes + max(0, tables) * (more_distinct - 1) + rehearsed.sequence_bytes * (times - 1)
    learner = rehearsed.from_disk if rehearsed.from_disk is not None and not in_memory else rehearsed
    scratch = learner.peak_disk_bytes - learner.end_disk_bytes
    learning_disk = left + scratch * (times if superwords else more_places)
    counting_disk = counted + large.number * grown.distinct.at(times * large.share) * rows
    return {
        "text_bytes": round(grown.text_bytes * times),
        "chunks": round(rehearsed.corpus["chunks"] * times),
        "distinct": round(grown.distinct.at(times)),
        "places": places,
        "memory_bytes": round(memory),
        "learns_in_memory": in_memory,
        "memory_suits_bytes": max(suitable_memory(places), SMALLEST_SUPERWORDS_BYTES if superwords else 0),
        "disk_bytes": round(max(learning_disk, counting_disk)),
        "disk_left_bytes": round(left),
        "seconds": round(start + sum(stages.values()), 2),
        "stage_seconds": {"start": round(start, 2), **{stage: round(took, 2) for stage, took in stages.items()}},
    }


_BY_TEXT = ("documents", "stage 2", "neighbours", "runs", "superwords")


def _ratio(growth: Growth, times: float) -> float:
    return growth.at(times) / growth.at(1)


@dataclass(frozen=True)
class _Parts:
    """How counting would commit so much text."""

    number: float
    share: float  # of the text in each
    chunks: float  # distinct ones in each
    cost: float  # seconds of one thread

    @classmethod
    def of(cls, grown: Grown, times: float, rehearsed: Rehearsal, resources: Resources) -> _Parts:
        """Of `times` the sample."""
        text = grown.text_bytes * times
        speed = grown.text_bytes / max(rehearsed.stages["counting"], 1e-3)
        size = min(text, CHECKPOINT_SECONDS * speed) / resources.threads
        most_chunks = table_bytes(resources) / max(grown.bytes_a_chunk, 1.0)
        while True:
            chunks = grown.distinct.at(size / grown.text_bytes)
            if chunks <= most_chunks or size < grown.text_bytes / SUBSETS:
                break
            size *= 0.9
        number = text / size
        return cls(number, size / text, chunks, grown.count_seconds * text + grown.sort_seconds * chunks * number)


def _learning_seconds(rehearsed: Rehearsal, more_places: float) -> float:
    """What passes cost each and an event costs stays; what occurrences cost, and counting pairs, grows with places."""
    batches = rehearsed.batches
    total = float(rehearsed.stages.get("learning", 0.0))
    counted = sum(batch["seconds"] for batch in batches if batch["refills"])
    plain = [batch for batch in batches if not batch["refills"]]
    if len(plain) < 3:
        return total * more_places
    facts = np.array([[1, batch["events"], batch["executed"]] for batch in plain], np.float64)
    each = _least_squares(facts, np.array([batch["seconds"] for batch in plain]))
    grows = counted + each[2] * sum(batch["executed"] for batch in batches)
    grows = min(float(grows), total)
    return total + grows * (more_places - 1)


def _least_squares(facts: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Coefficients that are not negative; a column whose own would be is left out."""
    kept = list(range(facts.shape[1]))
    while True:
        found = np.linalg.lstsq(facts[:, kept], wanted, rcond=None)[0]
        if len(kept) == 1 or (found >= 0).all():
            all_of_them = np.zeros(facts.shape[1])
            all_of_them[kept] = np.maximum(found, 0)
            return all_of_them
        kept.pop(int(np.argmin(found)))


def suitable_memory(places: int) -> int:
    """The least --memory, in hundreds of MB, with which all of learning happens in memory."""
    wanted = max(memory_for(places), SMALLEST_MEMORY_BYTES)
    return -(-wanted // _ROUND_MEMORY) * _ROUND_MEMORY


# ---------------------------------------------------------------------------------------------------------
# for people


def print_plan(made: Plan, out: TextIO) -> None:
    """The forecast as lines."""
    each = f"{made.sources:,} source{'s' * (made.sources != 1)}, {format_size(made.source_bytes)}"
    sampled = "all of it" if made.sample_share >= 1 else f"{made.sample_share:.1%} of it sampled"
    where = "in memory" if made.learns_in_memory else "from disk, until the rest fits: slower"
    rows = [
        ("corpus", f"{each} on disk, {format_size(made.text_bytes)} of text; {sampled}"),
        ("chunks", f"about {made.chunks:,}, {made.distinct:,} distinct"),
        ("time", f"about {clock(made.seconds)} ({_shown_stages(made.stage_seconds)})"),
        ("memory", f"about {format_size(made.memory_bytes)} with --memory {_flag(made.memory_limit_bytes)}; "
                   f"learning {where}"),
        ("disk", f"about {format_size(made.disk_bytes)} at most, {format_size(made.disk_left_bytes)} left at the end"),
        ("suits", f"--memory {_flag(made.memory_suits_bytes)}: the least with which all of learning happens in "
                  f"memory ({_flag(SMALLEST_MEMORY_BYTES)} works, more slowly)"),
    ]  # fmt: skip
    for name, text in rows:
        out.write(f"{name:8}{text}\n")
    for note in made.notes:
        out.write(f"note    {note}\n")


def _flag(size: int) -> str:
    return f"{size // 10**6}MB"


def _shown_stages(stages: dict[str, float]) -> str:
    return ", ".join(f"{stage} {clock(took)}" for stage, took in stages.items() if took >= 0.5)
