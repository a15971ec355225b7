"""What a training will cost, before it is started: `streambpe plan SOURCE... [options of train]`.

    reading    windows at even distances, --rehearse in all (sample.py)
    growth     distinct chunks in 1, 2, 4, 8, 16 sixteenths of it, extrapolated to the whole corpus
    rehearsal  what was read, counted and learned from by processes of their own, as `train` would, with the options
               given; what each stage took, its memory, its disk (rehearsal.py)
    forecast   every stage's figures, scaled by what they grow with (forecast.py)

All that is known of the machine is what the rehearsal measured on it. docs/plan.md says how each figure is made.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import polars as pl

from streambpe.arguments import arguments
from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting
from streambpe.errors import UsageError, typed
from streambpe.inspect.evaluate import refuse_read_again
from streambpe.inspect.forecast import Forecast, Grown, Growth
from streambpe.inspect.rehearsal import Rehearsal
from streambpe.inspect.rehearsal import rehearse as train_on_it
from streambpe.inspect.sample import SUBSETS, draw_windows, sample_path, writing_sample
from streambpe.model.eventlog import EventLog
from streambpe.plurals import counted
from streambpe.progress import clock, present_meter, reported
from streambpe.resources import (
    SMALLEST_MEMORY_BYTES,
    SMALLEST_SUPERWORDS_BYTES,
    Resources,
    format_size,
    parse_size,
    release_memory,
)
from streambpe.results import Result
from streambpe.runners.ray import refuse_missing_engine
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.find import Named, as_given, find_sources
from streambpe.sources.samples import FileSample, sampled
from streambpe.sources.source import Source
from streambpe.system import available_memory
from streambpe.terminal import columns_of, wrapped
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern
from streambpe.train.as_model import options_as, refuse_together, with_options
from streambpe.train.counting.worker import prepared
from streambpe.train.request import counting_for, describe_job

if TYPE_CHECKING:
    from streambpe.keywords import TrainKeywords

REHEARSE_BYTES = 32 * 10**6
_LEAST_BYTES = 1500 * 10**6  # of sources: to train on less takes less than three times as long as a plan of it
_SUPERWORDS_TAKE = 3  # times as long as words alone, at least
_MOST_FOLLOWED = 1 << 20  # chunks of windows whose growth is followed
_CHUNKS = {"subset": pl.Int64, "hash": pl.UInt64, "n": pl.Int64, "length": pl.Int64}


@dataclass(frozen=True)
class Plan(Result):
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
    notes: tuple[str, ...]


@reported("sampling")
def plan(
    sources: Named | Sequence[Named],
    *,
    like: str | None = None,
    as_model: str | os.PathLike[str] | EventLog | None = None,
    counting: Counting | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    rehearse: str | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
    progress: str = "none",
    **given: Unpack[TrainKeywords],
) -> Plan:
    """Forecast a training of these sources; writes only to a temporary folder.

    `rehearse`: how much to train on; None: 32 MB. `tell` is told beforehand how much that is.
    """
    learning, asked, resources = arguments("plan", given, counting, resources)
    refuse_together({"--as": as_model, "--like": like})
    if as_model is not None:
        learning, asked = with_options(options_as(as_model), learning, asked)
    like = like or "hf"
    config = TrainConfig.from_options(like, **learning)
    stop = stop or threading.Event()
    size = None if rehearse is None else parse_size(rehearse, "--rehearse")
    resources.check_superwords(config.superwords)
    refuse_missing_engine(resources.engine)
    how = counting_for(like, config, asked)
    options = CountConfig(**how.options)
    _refuse_options(how, config, resources, size)
    found, warnings = _find_sources([str(source) for source in as_given(sources)], how, options)
    how = replace(how, options={**how.options, "sample_files": "all", "seed": 0})  # the files are chosen
    pattern = options.split_pattern(resources.document_seconds)
    source_bytes = sum(source.bytes for source in found)
    if size is None:
        if source_bytes < _LEAST_BYTES // (1 if config.superwords == "none" else _SUPERWORDS_TAKE):
            raise UsageError(
                f"The sources have {format_size(source_bytes)}, and training on them takes less than three times as "
                "long as a plan. Nothing was planned. Train, or plan all the same with --rehearse 32MB."
            )
        size = REHEARSE_BYTES
    size = min(size, source_bytes)
    tell(f"reading {format_size(size)} of {format_size(source_bytes)}, and training on it")
    with tempfile.TemporaryDirectory(prefix="streambpe-plan-", dir=resources.temp_dir) as place:
        resources = replace(resources, temp_dir=None)  # then files are spilled into the run, which is measured
        sample, run = Path(place) / "sample", Path(place) / "run"
        sample.mkdir()
        present_meter().total = size
        files, grown = grow(found, size, pattern, options, config, sample)
        release_memory()  # the rehearsal takes --memory beside what this process keeps
        rehearsed = train_on_it(run, describe_job(files, how, config, resources), stop)
        forecast = Forecast(grown, rehearsed, resources)
        if config.superwords == "none" and not forecast.in_memory:
            less = replace(resources, memory_bytes=forecast.less_memory())
            forecast.learner = train_on_it(run, describe_job([], how, config, less), stop, "from_disk")
    corpus = rehearsed.corpus or {"bytes": 0, "chunks": 0}
    text_bytes, chunks = round(corpus["bytes"] * forecast.text), round(corpus["chunks"] * forecast.text)
    suits = forecast.suitable_memory()
    if config.superwords != "none":
        suits = max(suits, SMALLEST_SUPERWORDS_BYTES)
    stages = forecast.stage_seconds()
    disk_bytes, disk_left_bytes = forecast.disk_bytes()
    return Plan(
        sources=len(found),
        source_bytes=source_bytes,
        read_share=grown.share,
        text_bytes=text_bytes,
        chunks=chunks,
        distinct=round(grown.distinct.at(forecast.text)),
        places=forecast.all_places,
        memory_limit_bytes=resources.memory_bytes,
        memory_bytes=forecast.memory_bytes(),
        learns_in_memory=forecast.in_memory,
        memory_suits_bytes=suits,
        disk_bytes=disk_bytes,
        disk_left_bytes=disk_left_bytes,
        seconds=round(sum(stages.values()), 2),
        stage_seconds=stages,
        notes=(*warnings, *_notes(suits, rehearsed, config, grown)),
    )


def _refuse_options(how: Counting, config: TrainConfig, resources: Resources, size: int | None) -> None:
    for option in ("--group" if how.groups else "", "--group-by" if how.group_by else "", config.by_groups):
        if option:
            more = " except for the memory, which is higher (`streambpe docs training`)" * (option == "--balance")
            raise UsageError(
                f"{option}: groups are only known after counting. A forecast without it is much the same{more}. Leave "
                "it out."
            )
    if how.counts:
        raise UsageError("--counts: plan reads parts of texts, and cannot read a part of a table of counts.")
    if how.stdin_name != "-":
        raise UsageError("--stdin-name: plan does not read standard input. Leave it out.")
    if size is not None and size < 1:
        raise UsageError("--rehearse 0: there is nothing to learn from. The default, 32MB, suits most corpora.")
    if resources.temp_dir is not None and not resources.temp_dir.is_dir():
        raise UsageError(f"--temp-dir {resources.temp_dir} is no folder.")


def _find_sources(sources: Sequence[str], how: Counting, options: CountConfig) -> tuple[list[Source], list[str]]:
    """The sources, of all of which parts can be read; and warnings."""
    for source in sources:
        if (Path(source) / "state.duckdb").is_file():
            raise UsageError(
                f"{source} is a RUN, but plan reads the sources themselves, before they are counted. Nothing was "
                f"changed. `streambpe sql {typed(source)} source_files` lists the sources of that RUN; since it is "
                f"counted, `streambpe train {typed(source)}` only learns, and `watch` shows the time left."
            )
    found, warnings = find_sources(sources, how, sample=FileSample(options.sample_files, options.seed))
    if not found:
        raise UsageError("Nothing to plan: name at least one SOURCE.")
    refuse_read_again(found, 2)
    whole = next((source for source in found if source.kind == "txt"), None)
    if options.of_documents and whole is not None:
        raise UsageError(
            f"{options.of_documents}: {whole.path} is one document, and the parts of it that plan reads do not "
            "show what is counted of it. Nothing was changed. Leave the option out: it takes less than the forecast."
        )
    if "bad_utf8" in how.options:
        found = [replace(source, any_bytes=True) for source in found]
    return found, warnings


def _notes(suits: int, rehearsed: Rehearsal, config: TrainConfig, grown: Grown) -> list[str]:
    notes = []
    if suits > available_memory():
        notes.append(
            f"This machine has {format_size(available_memory())} of memory: it will learn from disk, whatever "
            "--memory says."
        )
    learned = sum(batch.events for batch in rehearsed.batches)
    if grown.share < 1 and rehearsed.stages.get("learning") and learned + 256 < config.vocab_size - config.extra_ids:
        notes.append("The time is a guess: the text is too small for the vocabulary. Give a larger --rehearse.")
    if config.superwords != "none":
        notes.append("Superwords: their time, memory and disk are a rough estimate, in proportion to the text.")
    return notes


# ---------------------------------------------------------------------------------------------------------
# growth


def grow(
    sources: Sequence[Source], size: int, pattern: Pattern, options: CountConfig, config: TrainConfig, folder: Path
) -> tuple[list[str], Grown]:
    """Write the sample as files in a folder, and count it: (the files as SOURCE arguments, how it grows)."""
    chunker, subsets = Chunker(pattern), Subsets()
    files: list[str] = []
    disk_bytes = 0.0
    windows = draw_windows(sources, size, pattern)
    for source, of_source in itertools.groupby(windows, key=lambda window: window[0].source):
        path, argument = sample_path(source, folder / f"{len(files):06d}")
        files.append(argument)
        with writing_sample(source, path) as write:
            for block, its_bytes in of_source:
                write(block)
                disk_bytes += its_bytes
                present_meter().advance(round(its_bytes))
                made = block_text(block, options.bad_utf8, options.bad_lines)
                made = prepared(block, sampled(block, made, options.one_in, options.bad_utf8), options)
                counts = ChunkCounts(chunker, 1 << 40)
                with naming_documents(block, options.bad_utf8, made.chosen):
                    counts.add(made.text)
                subsets.add(counts)
    if not subsets.rows:
        if options.one_in > 1:
            raise UsageError(
                f"The part that was read has no document in --sample {options.sample}. Nothing was changed. Read more "
                "with --rehearse."
            )
        raise UsageError("The sources hold no text: there is nothing to plan.")
    distinct, places = subsets.growth(config.freq_cutoff)
    bytes_a_chunk = subsets.counted_bytes / subsets.rows
    return files, Grown(min(1.0, disk_bytes / sum(source.bytes for source in sources)), distinct, places, bytes_a_chunk)


class Subsets:
    """The distinct chunks of the windows, dealt out to SUBSETS. A chunk is known by its hash; if there are too many,
    those whose hash ends in a number of zero bits stand for all."""

    def __init__(self) -> None:
        self.rows = self.counted_bytes = 0  # distinct chunks in each window, and the memory that counting them took
        self._zeros = 0
        self._windows: list[pl.DataFrame] = []

    def add(self, counts: ChunkCounts) -> None:
        """Add the chunks of the next window."""
        self.counted_bytes += counts.held
        chunks = counts.take()
        self.counted_bytes += chunks.offsets.nbytes + chunks.data.nbytes + chunks.n.nbytes  # the part that is written
        self.rows += len(chunks)
        hashes = chunks.frame()["chunk"].hash()
        columns = {"subset": len(self._windows) % SUBSETS, "hash": hashes, "n": chunks.n, "length": chunks.lengths}
        self._windows.append(self._followed(pl.DataFrame(columns, schema=_CHUNKS)))
        while sum(map(len, self._windows)) > _MOST_FOLLOWED:
            self._zeros += 1
            self._windows = list(map(self._followed, self._windows))

    def _followed(self, window: pl.DataFrame) -> pl.DataFrame:
        return window.filter(pl.col("hash") % 2**self._zeros == 0)

    def growth(self, freq_cutoff: int) -> tuple[Growth, Growth]:
        """Of the distinct chunks, and of the places of those that count enough."""
        chunks, parts, levels = _united(pl.concat(self._windows)), SUBSETS, []
        while parts:
            words = chunks.filter(pl.col("n") >= freq_cutoff, pl.col("length") > 1)["length"]
            levels.append([size * 2**self._zeros / parts for size in (len(chunks), words.sum() + len(words))])
            chunks, parts = _united(chunks.with_columns(pl.col("subset") // 2)), parts // 2
        distinct, places = zip(*levels, strict=True)
        return Growth(distinct), Growth(places)


def _united(chunks: pl.DataFrame) -> pl.DataFrame:
    """Each chunk once a subset, with its counts added up."""
    return chunks.group_by("subset", "hash").agg(pl.col("n").sum(), pl.col("length").first())


# ---------------------------------------------------------------------------------------------------------
# for people


def print_plan(made: Plan, out: TextIO) -> None:
    """Print the forecast as lines."""
    each = f"{counted(made.sources, 'source')}, {format_size(made.source_bytes)}"
    sampled = "all of it" if made.read_share >= 1 else f"{made.read_share:.1%} of it read"
    stages = ", ".join(f"{stage} {clock(took)}" for stage, took in made.stage_seconds.items() if took >= 0.5)
    where = "in memory" if made.learns_in_memory else "from disk, until the rest fits: slower"
    rows = [
        ("corpus", f"{each} on disk, {format_size(made.text_bytes)} of text; {sampled}"),
        ("chunks", f"about {made.chunks:,}, {made.distinct:,} distinct"),
        ("time", f"about {clock(made.seconds)} ({stages})"),
        ("memory", f"about {format_size(made.memory_bytes)} with --memory {_flag(made.memory_limit_bytes)}; "
                   f"learning {where}"),
        ("disk", f"about {format_size(made.disk_bytes)} at most, {format_size(made.disk_left_bytes)} at the end"),
        ("suits", f"--memory {_flag(made.memory_suits_bytes)}: the least for learning entirely in memory "
                  f"({_flag(SMALLEST_MEMORY_BYTES)} works, more slowly)"),
    ]  # fmt: skip
    for name, text in [*rows, *(("note", note) for note in made.notes)]:
        out.write(wrapped(f"{name:8}{text}", columns_of(out), 8) + "\n")


def _flag(size: int) -> str:
    return f"{size // 10**6}MB"
