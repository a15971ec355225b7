"""What a training will cost, before it is started: `streambpe plan SOURCE... [options of train]`.

    reading    windows at even distances, REHEARSE_BYTES in all (sample.py)
    growth     distinct chunks in 1, 2, 4, 8, 16 sixteenths of it, extrapolated to the whole corpus
    rehearsal  what was read, counted and learned from by processes of their own, as `train` would, with the options
               given; what each stage took, its memory, its disk (rehearsal.py)
    forecast   every stage's figures, scaled by what they grow with (forecast.py)

All that is known of the machine is what the rehearsal measured on it. docs/plan.md says how each figure is made.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from streambpe.config import TrainConfig
from streambpe.core.strings import ChunkList, merge
from streambpe.count_config import CountConfig, Counting
from streambpe.errors import UsageError, typed
from streambpe.inspect.forecast import Forecast, Grown, Growth, forecast, growth_ratio, memory_in_proportion
from streambpe.inspect.rehearsal import Rehearsal, rehearse
from streambpe.inspect.sample import SUBSETS, SampleFiles, as_whole, draw_windows
from streambpe.plurals import counted
from streambpe.progress import Meter, clock
from streambpe.resources import SMALLEST_MEMORY_BYTES, Resources, format_size, release_memory
from streambpe.runners.ray import refuse_missing_engine, workers_on
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.find import find_sources
from streambpe.sources.samples import sampled
from streambpe.sources.source import BadUtf8, Source
from streambpe.system import available_memory
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.train.commands import counting_for, describe_job
from streambpe.train.counting.spread import on_ray, workers_for
from streambpe.train.counting.worker import prepared
from streambpe.train.opening import fits_in_memory
from streambpe.train.superwords.forecast import processes_for

REHEARSE_BYTES = 32 * 10**6


@dataclass(frozen=True)
class Plan:
    """The forecast."""

    sources: int
    source_bytes: int  # on disk
    read_share: float
    text_bytes: int
    chunks: int
    distinct: int
    places: int  # symbols of the distinct chunks learned from, and one more for each chunk
    memory_limit_bytes: int
    memory_bytes: int  # peak
    learns_in_memory: bool  # from the start
    memory_suits_bytes: int
    disk_bytes: int  # peak
    disk_left_bytes: int
    seconds: float
    stage_seconds: dict[str, float]
    processes: int  # that will count; 0: threads of one process
    superword_processes: dict[str, int]  # that will do what is asked of documents; what one process does is left out
    nodes: int  # of Ray that they are on; 0: no Ray
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
    rehearse_bytes: int = REHEARSE_BYTES,
    stop: threading.Event | None = None,
    meter: Meter | None = None,
) -> Plan:
    """Forecast a training of these sources; writes only to a temporary folder. `meter` is told how far it is."""
    config, resources = config or TrainConfig(), resources or Resources.from_options()
    resources.check_superwords(config.superwords)
    refuse_missing_engine(resources.engine)
    how = counting_for(like, config, Counting.of(counting))
    if how.counts:
        raise UsageError("--counts: plan reads parts of texts. A table of counts is read whole, so train it and see.")
    for source in sources:
        if (Path(source) / "state.duckdb").is_file():
            raise UsageError(
                f"{source} is a RUN, and plan forecasts from the sources themselves, before they are counted. Nothing "
                f"was changed. `streambpe sql {typed(source)} source_files` lists the sources of that RUN; with it "
                f"counted, `streambpe train {typed(source)}` only learns, and `watch` shows the time left."
            )
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
    if config.balance:
        raise UsageError(
            "--balance: the groups are known once they are counted. A forecast without it tells of everything but the "
            "memory, which --balance takes more of (`streambpe docs training`)."
        )
    options = CountConfig(**how.options)
    whole = next((source for source in found if source.kind == "txt"), None)
    if options.one_in > 1 and whole is not None:
        raise UsageError(
            f"--sample {options.sample}: {whole.path} is one document, and plan reads parts of it, which do not tell "
            f"whether it is in the sample. Nothing was changed. Leave --sample out: a sample takes less."
        )
    pattern = find_pattern(
        options.pattern,
        gaps=options.gaps,
        split_scripts=options.split_scripts,
        prepared=options.prepares,
        document_seconds=resources.document_seconds,
    )
    if rehearse_bytes < 1:
        raise UsageError("--rehearse 0: there is nothing to learn from. The default, 32MB, suits most corpora.")
    stop = stop or threading.Event()
    if resources.temp_dir is not None and not resources.temp_dir.is_dir():
        raise UsageError(f"--temp-dir {resources.temp_dir} is no folder.")
    with tempfile.TemporaryDirectory(prefix="streambpe-plan-", dir=resources.temp_dir) as place:
        resources = replace(resources, temp_dir=None)  # then files are spilled into the run, which is measured
        folder = Path(place)
        (folder / "sample").mkdir()
        files = SampleFiles(folder / "sample")
        meter = meter or Meter("sampling")
        meter.total = min(rehearse_bytes, sum(source.bytes for source in found))
        grown = grow(found, rehearse_bytes, pattern, options, config, files, meter)
        release_memory()  # the rehearsal takes --memory beside what this process keeps
        job = describe_job(files.arguments, how, config, resources)
        rehearsed = rehearse(folder / "run", job, stop, meter=meter)
        places = rehearsed.batches[0]["places"] if rehearsed.batches else 0
        if config.superwords == "none" and not fits_in_memory(
            round(places * growth_ratio(grown.places, 1 / grown.share)), resources.memory_bytes
        ):
            less = replace(resources, memory_bytes=memory_in_proportion(resources.memory_bytes, grown))
            again = describe_job([], how, config, less)
            rehearsed.from_disk = rehearse(folder / "run", again, stop, "from_disk", meter)
    processes, nodes = workers_for(found, pattern, resources), 0
    if resources.engine == "ray":
        processes, nodes = workers_on(on_ray(resources, None, ()))
    made = forecast(grown, rehearsed, config, resources)
    return Plan(
        sources=len(found),
        source_bytes=sum(source.bytes for source in found),
        read_share=grown.share,
        memory_limit_bytes=resources.memory_bytes,
        processes=processes,
        superword_processes=_superword_processes(made, config, grown, resources),
        nodes=nodes,
        notes=tuple(warnings + _notes(made, rehearsed, config, grown)),
        **made,
    )


def _superword_processes(made: Forecast, config: TrainConfig, grown: Grown, resources: Resources) -> dict[str, int]:
    if config.superwords == "none":
        return {}
    places = made["chunks"] + round(grown.documents / grown.share)
    return processes_for(config, places, made["text_bytes"], resources)


def _notes(made: Forecast, rehearsed: Rehearsal, config: TrainConfig, grown: Grown) -> list[str]:
    notes = []
    if made["memory_suits_bytes"] > available_memory():
        notes.append(
            f"This machine has {format_size(available_memory())} of memory: learning will go from disk whatever "
            f"--memory says."
        )
    learned = sum(batch["events"] for batch in rehearsed.batches)
    if grown.share < 1 and rehearsed.stages.get("learning") and learned + 256 < config.vocab_size - config.extra_ids:
        notes.append("What was read is too little for the whole vocabulary: the time is a guess. Give --rehearse more.")
    if config.superwords != "none":
        notes.append(
            "Superwords: their time, memory and disk are carried on in proportion to the text, which is rough."
        )
    return notes


# ---------------------------------------------------------------------------------------------------------
# growth


def grow(
    sources: Sequence[Source],
    rehearse_bytes: int,
    pattern: Pattern,
    options: CountConfig,
    config: TrainConfig,
    files: SampleFiles,
    meter: Meter,
) -> Grown:
    chunker = Chunker(pattern)
    counts = [ChunkCounts(chunker, 1 << 40) for _ in range(SUBSETS)]
    text_bytes = documents = 0
    disk_bytes, count_seconds = 0.0, 0.0
    policy: BadUtf8 = options.bad_utf8  # type: ignore[assignment]
    with contextlib.closing(files):
        for window in draw_windows(sources, rehearse_bytes, pattern):
            files.add(window.block)
            disk_bytes += window.disk_bytes
            meter.advance(round(window.disk_bytes))
            block = as_whole(window.block)
            made = block_text(block, policy, options.bad_lines)
            made = prepared(block, sampled(block, made, options.one_in, policy), options)
            began = time.perf_counter()
            with naming_documents(block, policy, made.chosen):
                counts[window.subset].add(made.text)
            count_seconds += time.perf_counter() - began
            text_bytes += len(made.text) - made.documents
            documents += made.documents
    if not text_bytes:
        if options.one_in > 1:
            raise UsageError(
                f"No document of the part that is read is in --sample {options.sample}: there is nothing to plan from. "
                f"Nothing was changed. Read more with --rehearse."
            )
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
    """(distinct chunks, places) in unions of 1, 2, 4, ... subsets: means over all unions of one size."""
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
# for people


def print_plan(made: Plan, out: TextIO) -> None:
    """Print the forecast as lines."""
    each = f"{counted(made.sources, 'source')}, {format_size(made.source_bytes)}"
    sampled = "all of it" if made.read_share >= 1 else f"{made.read_share:.1%} of it read"
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
    if made.processes:
        on = f" on {counted(made.nodes, 'node')} of Ray" * bool(made.nodes)
        many = counted(made.processes, "process", "processes")
        out.write(f"workers {many}{on} will count, each its own stretches of the sources\n")
    if made.superword_processes:
        listed = ", ".join(f"{asked} by {many}" for asked, many in made.superword_processes.items())
        out.write(f"workers processes for superwords: {listed}\n")
    for note in made.notes:
        out.write(f"note    {note}\n")


def _flag(size: int) -> str:
    return f"{size // 10**6}MB"


def _shown_stages(stages: dict[str, float]) -> str:
    return ", ".join(f"{stage} {clock(took)}" for stage, took in stages.items() if took >= 0.5)
