"""What was measured: the tables in results/, as rows that a text can quote, and whether a text quotes them right.

A link names a row: [3.8 s, 234 MB](docs/benchmarks/training.md#train-en_100-131072--streambpe). Each figure in its
words must be one of that row's, rounded to as many digits as it has. Of several runs the least, the median and the most
count. A table of a page that has no links says of which result its figures are:

    <!-- figures of scale -->
    <!-- end -->
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = Path(os.environ.get("BENCH_RESULTS") or HERE / "results")  # everything.py lets them be written elsewhere
UNITS = {  # columns with figures
    "wall_s": "s", "cpu_s": "s", "peak_MB": "MB", "maxrss_MB": "MB", "disk_MB": "MB", "best": "MB/s", "median": "MB/s",
    "best_cpu": "MB/s", "peak_mb": "MB", "said_mb": "MB", "ratio": "", "seconds": "s",
}  # fmt: skip
# columns that name a row, beside the first one
KEYS = ("corpus", "contender", "vocabulary", "text", "MB", "stage", "threads", "round", "what")
WARM_UP = "warm-up"
LINKED = re.compile(r"\((?:docs/)?benchmarks/\w+\.md#([\w.+-]+)\)")
_LINK = re.compile(r"\[([^\]]*)\]" + LINKED.pattern)
_FIGURE = re.compile(r"(\d+(?:\.\d+)?) ?(MB/s|MB|s)\b")
_TABLE = re.compile(r"<!-- figures of ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_SCALES = (1, 1000, 1_000_000, 3600)  # MB are told as GB and TB, too, and seconds as hours


@dataclass(frozen=True)
class Row:
    """A contender, or what else a table has a row for: the cells of its last run, the figures of all its runs."""

    anchor: str
    cells: Mapping[str, str]
    figures: Mapping[str, list[float]]  # by column of UNITS; then moments inside a run, in seconds

    @property
    def name(self) -> str:
        """Its first cell."""
        return next(iter(self.cells.values()))

    @property
    def facts(self) -> dict[str, str]:
        """What a contender said of its job."""
        return dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", self.cells.get("facts", "")))

    @property
    def quotable(self) -> dict[str, set[float]]:
        """Unit -> figures. Of contenders a text's MB are memory, and not disk."""
        found: dict[str, set[float]] = {}
        for column, values in self.figures.items():
            if column != "disk_MB" or "maxrss_MB" not in self.figures:
                middle = statistics.median(values)
                found.setdefault(UNITS.get(column, "s"), set()).update((min(values), middle, max(values)))
        return found


@dataclass(frozen=True)
class Result:
    """One file of results."""

    name: str
    about: list[str]  # command, date, machine, versions, and what was compared
    columns: list[str]
    rows: list[Row]


def read(path: Path) -> Result:
    """The table in one .tsv. Runs that warm up count only where there is no other."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head, *body = (line.split("\t") for line in lines if line and line[0] != "#")
    runs: dict[str, list[dict[str, str]]] = {}
    for cells in body:
        if len(cells) <= len(head) and cells != head:  # what failed has more; a file may be two tables
            run = dict(zip(head, cells, strict=False))
            keys = [cells[0], *(run[key] for key in head[1:] if key in KEYS)]
            runs.setdefault(anchor(path.stem, *keys), []).append(run)
    rows = [
        Row(address, all_of[-1], _figures([run for run in all_of if run.get("run") != WARM_UP] or all_of))
        for address, all_of in runs.items()
    ]
    return Result(path.stem, [line[1:].strip() for line in lines if line.startswith("#")], head, rows)


def _figures(runs: Sequence[Mapping[str, str]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run in runs:
        marks = re.findall(r"(\S[^=]*?)=([\d.]+)(?: |$)", run.get("marks", ""))
        for column, value in [*((column, run.get(column, "")) for column in UNITS), *marks]:
            if re.fullmatch(r"[\d.]+", value):
                found.setdefault(column, []).append(float(value))
    return found


def everything(folder: Path = RESULTS) -> list[Result]:
    """All results, by name."""
    return [read(path) for path in sorted(folder.glob("*.tsv"))]


def anchor(result: str, *names: str) -> str:
    """How a link names a row."""
    return f"{result}--" + "-".join(re.sub(r"[^\w.+]+", "-", name).strip("-") for name in names)


# ---------------------------------------------------------------- what a text says of them


def wrong_figures(text: str, rows: Mapping[str, Row]) -> Iterator[str]:
    """What is wrong with the figures in the links of a text."""
    for words, target in _LINK.findall(text):
        figures = _FIGURE.findall(words)
        if "--" not in target and not figures:  # a heading, for more to read
            continue
        if target not in rows:
            yield f"[{words}]: there is no row {target}"
            continue
        if not figures:
            yield f"[{words}]: no figure with a unit is in it"
        for number, unit in figures:
            if not any(_rounds_to(value, number) for value in rows[target].quotable.get(unit, ())):
                yield f"[{words}]: {number} {unit} is no figure of {target}"


def wrong_in_tables(text: str, derived: str = "") -> Iterator[str]:
    """Numbers in the tables of a text that neither the results which they name have in any cell, nor what follows."""
    for name, table in _TABLE.findall(text):
        known = {
            float(number.replace(",", "")) / scale
            for number in _NUMBER.findall((RESULTS / f"{name}.tsv").read_text(encoding="utf-8") + derived)
            for scale in _SCALES
        }
        for row in table.splitlines()[2:]:
            for number in _NUMBER.findall(row.partition(" | ")[2]):
                if not any(_rounds_to(value, number.replace(",", "")) for value in known):
                    yield f"{name}: {number} is not in it"


def unlinked_seconds(text: str) -> list[str]:
    """Times and speeds in a text that neither a link to a row nor a table of a result bears out."""
    return [" ".join(found) for found in _FIGURE.findall(_LINK.sub("", _TABLE.sub("", text))) if found[1] != "MB"]


def _rounds_to(value: float, number: str) -> bool:
    digits = len(number.partition(".")[2])
    return math.isclose(round(value, digits), float(number), abs_tol=10**-digits / 1000)
