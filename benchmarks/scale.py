"""How time, memory and disk grow with the corpus: the same training at several sizes, and a forecast.

    python benchmarks/scale.py --corpus en_300.txt --mb 100 300 1000 3000 10000 --ids 8192 32768 --work /big/disk

Up to the size of the text its first MB are used; beyond, and at the largest real size once more, synthetic.py makes
JSON lines of it, so that the two kinds can be compared at one size. Exponents are fitted to each kind by itself.
--until uw=3000 leaves out what is larger of one job.

    plain      --vocab-size 131072
    boundless  --pattern boundless --superwords boundless
    uw         --pattern superbpe1 --superwords uw, --transition at 90 000 of 131 072

While a training runs, its status.json is read four times a second: which stage it is in, the processor time of the
process tree so far, its memory, and what RUN takes up on disk. So every figure is told for each stage as well: seconds
and processor seconds are a stage's own, memory and disk are the most seen in it. A short stage may be missed.

With --ids, the smallest corpus is trained on once more for each of these sizes of the vocabulary, to see how time and
memory grow with that.

An exponent, printed at the end, is the slope of a line through the logarithms of all sizes: 1 grows as the corpus, 0.5
as its root, 0 not at all. Forecasts go on from the last two sizes, from 1 GB on: below, too much of every figure is
what does not grow. Without --corpus both are printed of the result that is there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import synthetic
from corpora import prepare
from harness import Contender, Table, parser, run_once, scratch, streambpe
from measured import RESULTS, Result, read

from streambpe.disk import folder_bytes
from streambpe.resources import parse_size

LOOK_SECONDS = 0.25
FIGURES = ("wall, s", "cpu, s", "memory, MB", "disk, MB")
COLUMNS = ("wall_s", "cpu_s", "peak_MB", "disk_MB")  # of the same in results/
NAMES = ("job", "vocabulary", "text", "MB", "stage")  # which row it is
GROWS = ("wall, s", "cpu, s")  # a sum over the stages; the others are the most of any
FORECAST_GB = (100, 1000)
FORECAST_FROM_MB = 1000  # below, too much of every figure is what does not grow
SHORT = 0.05  # of the whole: a stage that takes less does not show how it grows
STEEP = 1.2  # no stage's work grows so: it did it another way at the larger size, from disk and no longer in memory
READ_TEXT = ("counting", "neighbours", "runs", "documents")
WHOLE = "whole"
PLAIN = "plain"

Figures = dict[str, float]
BySize = dict[float, dict[str, Figures]]  # by stage


class Size(NamedTuple):
    """A corpus of one size."""

    kind: str  # real or synthetic
    mb: float
    path: str


def options_of(job: str, vocab_size: int) -> list[str]:
    """What is learned."""
    options = ["--vocab-size", str(vocab_size)]
    if job == "boundless":
        return [*options, "--pattern", "boundless", "--superwords", "boundless"]
    if job == "uw":
        transition = str(vocab_size * 90_000 // 131_072)
        return [*options, "--pattern", "superbpe1", "--superwords", "uw", "--transition", transition]
    return options


class Watcher(threading.Thread):
    """Looks at a RUN while it is made: figures by stage."""

    def __init__(self, run: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.ended = run, threading.Event()
        self.stages: dict[str, Figures] = {}
        self.seconds: dict[str, float] = {}  # counting and learning each tell of their own stages
        self._cpu = 0.0

    def run(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            with contextlib.suppress(OSError, ValueError, KeyError, psutil.Error):
                self._look(json.loads((self.path / "status.json").read_text()))

    def _look(self, status: Mapping[str, Any]) -> None:
        self.seconds |= status["stage_seconds"]
        figures = self.stages.setdefault(str(status["stage"]), dict.fromkeys(FIGURES, 0.0))
        process = psutil.Process(int(status["pid"]))
        times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
        used = sum(time.user + time.system for time in times) + times[0].children_user + times[0].children_system
        figures["cpu, s"] += max(0.0, used - self._cpu)
        self._cpu = max(used, self._cpu)
        figures["memory, MB"] = max(figures["memory, MB"], status["memory_bytes"] / 1e6)
        figures["disk, MB"] = max(figures["disk, MB"], folder_bytes(self.path) / 1e6)


def train(path: str, options: Sequence[str], work: Path, timeout: float) -> dict[str, Figures]:
    """One training: its figures by stage, and those of the whole."""
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as folder:
        out = Path(folder) / "out"
        watcher = Watcher(out)
        watcher.start()
        run = run_once(Contender("train", streambpe("train", "{out}", path, *options)), out, timeout)
        watcher.ended.set()
        watcher.join()
        if run.failed:
            sys.exit(f"{path} {' '.join(options)}: {run.failed}")
        took = watcher.seconds | json.loads((out / "status.json").read_text())["stage_seconds"]
        stages = {
            stage: {**watcher.stages.get(stage, dict.fromkeys(FIGURES, 0.0)), "wall, s": seconds}
            for stage, seconds in took.items()
        }
    whole = {"wall, s": run.figures["wall"], "cpu, s": run.figures["cpu"], "memory, MB": run.figures["peak"]}
    return {WHOLE: {**whole, "disk, MB": run.figures["disk"]}, **stages}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The slope of the line through the logarithms; None if there are not two sizes with something to see.

    exponent([100, 300, 900], [5, 15, 45])  ->  1.0
    """
    points = [(math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True) if value > 0]
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def carried_on(sizes: Sequence[float], values: Sequence[float], mb: float, as_text: bool, most: float = 9.0) -> float:
    """A figure at a larger size, from the last two sizes at which it was seen.

    as_text: along the straight line through both, which leaves out what does not grow. Else along a power: 9 times the
    size with exponent 0.5 is 3 times the figure; `most`: of exponents; 1 where the two sizes show STEEP.
    """
    seen = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0][-2:]
    if len(seen) < 2:
        return sum(value * (mb / size if as_text else 1.0) for size, value in seen)
    (small, before), (large, after) = seen
    if as_text:
        return after + max(0.0, after - before) / (large - small) * (mb - large)
    slope = math.log(after / before) / math.log(large / small)
    return after * (mb / large) ** min(max(0.0, slope if slope < STEEP else 1.0), most)


def forecast(job: str, measured: Mapping[float, Mapping[str, Figures]], mb: float, memory_mb: float) -> Figures:
    """The figures of a larger corpus, from those by size and stage.

    Times of stages go on each for itself and are added up, with what no stage has (starting). Stages that read the
    text go on as the text does, the others by their exponent, which is 1 at most where a stage is too short to say, and
    1 where a stage was done from disk at the largest size only.
    Memory and disk are the whole's; the disk of superwords is mostly documents, and goes on as the text.
    """
    sizes = sorted(measured)
    largest = measured[sizes[-1]]
    found: Figures = {}
    for figure in FIGURES:
        if figure not in GROWS:
            values = [measured[size][WHOLE][figure] for size in sizes]
            found[figure] = carried_on(sizes, values, mb, figure == "disk, MB" and job != PLAIN, 1.0)
            continue
        stages = [stage for stage in largest if stage != WHOLE]
        found[figure] = max(0.0, largest[WHOLE][figure] - sum(largest[stage][figure] for stage in stages))
        for stage in stages:
            values = [measured[size].get(stage, {}).get(figure, 0.0) for size in sizes]
            short = values[-1] < SHORT * largest[WHOLE][figure]
            found[figure] += carried_on(sizes, values, mb, stage in READ_TEXT, 1.0 if short else 9.0)
    return {**found, "memory, MB": min(found["memory, MB"], max(memory_mb, largest[WHOLE]["memory, MB"]))}


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def growth(title: str, by_size: Mapping[float, Mapping[str, Figures]], unit: str) -> list[str]:
    """A table: figures of each stage by size, and exponents."""
    sizes = sorted(by_size)
    lines = [
        f"#### {title}",
        "",
        "| stage | figure | " + " | ".join(f"{size:g} {unit}" for size in sizes) + " | exponent |",
    ]
    lines += ["|---|---|" + "---|" * (len(sizes) + 1)]
    stages = dict.fromkeys(stage for size in sizes for stage in by_size[size])
    for stage, figure in product(stages, FIGURES):
        values = [by_size[size].get(stage, {}).get(figure, 0.0) for size in sizes]
        slope = exponent(sizes, values)
        cells = [shown(value) if value else "" for value in values]
        lines.append(f"| {stage} | {figure} | " + " | ".join([*cells, f"{slope:.2f}" if slope else ""]) + " |")
    return [*lines, ""]


def grouped(rows: Sequence[Mapping[str, str]]) -> tuple[dict[tuple[str, str], BySize], dict[str, BySize]]:
    """The rows of results/scale.tsv by job and kind of text, of the usual size of the vocabulary; then the least corpus
    of each job by sizes of the vocabulary."""
    measured: dict[str, dict[tuple[str, str], BySize]] = {}
    for row in rows:
        by_size = measured.setdefault(row["vocabulary"], {}).setdefault((row["job"], row["text"]), {})
        of_stage = {figure: float(row[column]) for figure, column in zip(FIGURES, COLUMNS, strict=True)}
        by_size.setdefault(float(row["MB"]), {})[row["stage"]] = of_stage
    usual = max(measured, key=lambda ids: (sum(map(len, measured[ids].values())), int(ids)))
    least = min(float(row["MB"]) for row in rows)
    by_ids: dict[str, BySize] = {}
    for ids, jobs in measured.items():
        for (job, _), sizes in jobs.items():
            if least in sizes:
                by_ids.setdefault(job, {})[int(ids)] = sizes[least]
    return measured[usual], by_ids


def report(result: Result) -> list[str]:
    """What follows from the rows: corpora of one vocabulary's size, with forecasts, then sizes of vocabularies."""
    memory_mb = next(parse_size(line.split()[-1]) / 1e6 for line in result.about if line.startswith("memory: "))
    measured, by_ids = grouped([row.cells for row in result.rows])
    lines: list[str] = []
    for (job, kind), by_size in measured.items():
        lines += growth(f"{job}, {kind} text", by_size, "MB")
        if len(by_size) > 1 and max(by_size) >= FORECAST_FROM_MB:
            lines += ["**Forecast** (not measured), from the last two sizes:", ""]
            lines += ["| corpus | " + " | ".join(FIGURES) + " |", "|---|" + "---|" * len(FIGURES)]
            for gb in FORECAST_GB:
                figures = forecast(job, by_size, gb * 1000, memory_mb)
                lines.append(f"| {gb:,} GB | " + " | ".join(shown(figures[figure]) for figure in FIGURES) + " |")
            lines += [""]
    for job, of_job in by_ids.items():
        lines += growth(f"{job}, by size of the vocabulary", of_job, "ids")
    return lines


def corpora(text: str, sizes: Sequence[float], work: Path) -> list[Size]:
    """A file for each size: real ones up to the size of the text, synthetic ones from there on."""
    there = Path(text).stat().st_size / 1e6
    real = [mb for mb in sizes if mb <= there * 1.01]
    found = [Size("real", mb, prepare(text, str(work), "blocks", min(mb, there))["path"]) for mb in real]
    if len(real) == len(sizes):
        return found
    for mb in [*real[-1:], *(mb for mb in sizes if mb not in real)]:
        made = work / f"synthetic-{Path(text).stem}-{mb:g}.jsonl"
        if not made.exists():
            synthetic.write([Path(text)], made, mb)
        found.append(Size("synthetic", mb, str(made)))
    return found


def main() -> None:
    """Train every job at every size, write results/scale.tsv, and print what follows from it."""
    options = parser(__doc__, "vocab-size", "timeout", "name", "work", timeout=24 * 3600, name="scale")
    options.add_argument("--corpus", help="a plain text; without it only what follows from the result is printed")
    options.add_argument("--mb", type=float, nargs="+", default=[100, 300, 1000, 3000, 10_000])
    options.add_argument("--job", action="append", choices=[PLAIN, "boundless", "uw"], help="(default: all three)")
    options.add_argument("--until", action="append", default=[], metavar="JOB=MB", help="a job's largest corpus")
    options.add_argument(
        "--ids", type=int, nargs="+", default=[], help="other sizes of the vocabulary, smallest corpus"
    )
    options.add_argument("--memory", default="2GB")
    given = options.parse_args()
    if given.corpus:
        measure(given)
    print("\n".join(report(read(RESULTS / f"{given.name}.tsv"))))


def measure(given: argparse.Namespace) -> None:
    """All trainings."""
    work = scratch(given.work)
    until = {job: float(mb) for job, mb in (one.split("=") for one in given.until)}
    about = {"job": f"{given.vocab_size} ids; one run of each size and job", "memory": f"--memory {given.memory}"}
    with Table(given.name, about, (*NAMES, *COLUMNS)) as table:
        sizes = corpora(given.corpus, sorted(given.mb), work)
        asked = [(sizes[0], ids) for ids in sorted(given.ids) if ids != given.vocab_size]
        asked += [(size, given.vocab_size) for size in sizes]
        for (size, ids), job in product(asked, given.job or [PLAIN, "boundless", "uw"]):
            if size.mb > until.get(job, math.inf):
                continue
            figures = train(size.path, [*options_of(job, ids), "--memory", given.memory], work, given.timeout)
            for stage, of_stage in figures.items():
                cells = [job, str(ids), size.kind, f"{size.mb:g}", stage]
                cells += [f"{of_stage[figure]:.2f}" for figure in FIGURES]
                table.add(*cells)


if __name__ == "__main__":
    main()
