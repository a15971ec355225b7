"""What was measured: the tables in results/, as rows that a text can quote.

    read(path) -> Result     a table of compare() (harness.py), or of a script with columns of its own
    Row.quotable             every figure of a row by its unit: all that a text may say of it
    wrong_figures(text, ...) figures in a text that its links to docs/benchmarks.md do not bear out

A link names a row: [3.8 s, 234 MB](docs/benchmarks.md#train-en_100-131072--streambpe). Each figure in its words must
be one of that row's, rounded to as many digits as it has. Of several runs the least, the median and the most count.
"""

from __future__ import annotations

import csv
import math
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = Path(os.environ.get("BENCH_RESULTS") or HERE / "results")  # everything.py lets them be written elsewhere
PAGE = "docs/benchmarks.md"
UNITS = {"wall_s": "s", "cpu_s": "s", "peak_MB": "MB", "maxrss_MB": "MB", "disk_MB": "MB"}
NOT_QUOTED = "disk_MB"  # of compare()'s tables: a text's MB are memory
OWN_UNITS = {  # columns of the scripts that do not write compare()'s table
    **UNITS, "best": "MB/s", "median": "MB/s", "best_cpu": "MB/s", "peak_mb": "MB", "said_mb": "MB", "ratio": "",
    "seconds": "s",
}  # fmt: skip
# of such a table: they name a row too
OWN_KEYS = ("corpus", "contender", "vocabulary", "text", "MB", "stage", "threads", "round", "what")
_LINK = re.compile(rf"\[([^\]]*)\]\((?:[\w./]*/)?{re.escape(Path(PAGE).name)}#([\w.+-]+)\)")
_FIGURE = re.compile(r"(\d+(?:\.\d+)?) ?(MB/s|MB|s)\b")


@dataclass(frozen=True)
class Row:
    """A contender: its figures by column, of all its runs."""

    name: str
    anchor: str
    figures: dict[str, list[float]]  # those of UNITS that the table has; then moments inside a run, in seconds
    facts: Mapping[str, str]
    warm: bool = True  # False: the only run was the one that warms up

    def median(self, column: str) -> float:
        """The median of all runs."""
        return statistics.median(self.figures[column])

    @property
    def quotable(self) -> dict[str, set[float]]:
        """Unit -> figures."""
        found: dict[str, set[float]] = {}
        for column, values in self.figures.items():
            if column == NOT_QUOTED and "maxrss_MB" in self.figures:
                continue
            unit = OWN_UNITS.get(column, "s")
            found.setdefault(unit, set()).update((min(values), statistics.median(values), max(values)))
        return found


@dataclass(frozen=True)
class Result:
    """One file of results."""

    name: str
    about: Mapping[str, str]  # command, date, machine, versions, and what was compared
    rows: list[Row]
    columns: list[str] = field(default_factory=list)  # of a table that is not compare()'s


def read(path: Path) -> Result:
    """The table in one .tsv."""
    lines = path.read_text(encoding="utf-8").splitlines()
    about = dict(_about([line[1:].strip() for line in lines if line.startswith("#")]))
    rows = (line for line in lines if line and line[0] != "#")
    table = list(csv.reader(rows, delimiter="\t", quoting=csv.QUOTE_NONE))
    head, body = table[0], [row for row in table if row != table[0]]  # a file may be two tables
    if head[:2] == ["contender", "run"]:
        return Result(path.stem, about, list(_compared(path.stem, head, body)))
    return Result(path.stem, about, list(_own(path.stem, head, body)), head)


def everything(folder: Path = RESULTS) -> list[Result]:
    """All results, by name."""
    return [read(path) for path in sorted(folder.glob("*.tsv"))]


def _about(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, colon, value = line.partition(": ")
        if line.startswith("python "):  # encode.py writes its two lines without names
            yield "command", f"`{line}`"
        elif re.match(r"\d{4}-\d\d-\d\d ", line):
            date, _, rest = line.partition(", load ")
            machine, _, versions = rest.partition("; ")[2].partition("; ")
            yield from (("date", date), ("machine", machine), ("versions", versions))
        elif colon:
            yield key, value


def _compared(result: str, head: list[str], body: list[list[str]]) -> Iterator[Row]:
    """Rows of compare(): the runs of each contender together; those that warm up only where there is no other."""
    for name in dict.fromkeys(row[0] for row in body):
        runs = [dict(zip(head, row, strict=False)) for row in body if row[0] == name and len(row) <= len(head)]
        warm = [run for run in runs if run["run"] != "warm-up"]
        if not runs:
            continue
        columns = [column for column in UNITS if column in head]  # older tables have no disk
        figures: dict[str, list[float]] = {column: [] for column in columns}
        for run in warm or runs:
            for column in columns:
                figures[column].append(float(run[column]))
            for mark, at in re.findall(r"(\S[^=]*?)=([\d.]+)(?: |$)", run.get("marks") or ""):
                figures.setdefault(mark, []).append(float(at))
        facts = re.findall(r"(\w+)=(.*?)(?= \w+=|$)", (warm or runs)[-1].get("facts") or "")
        yield Row(name, anchor(result, name), figures, dict(facts), bool(warm))


def _own(result: str, head: list[str], body: list[list[str]]) -> Iterator[Row]:
    """Rows of a script's own table: those that differ only in column `run` together, without the one that warms up."""
    rows: dict[str, Row] = {}
    for cells in body:
        row = dict(zip(head, cells, strict=False))
        keys = [row[key] for key in head[1:] if key in OWN_KEYS]
        address = anchor(result, *[cells[0], *keys])
        if row.get("run") == "warm-up":
            continue
        known = rows.setdefault(address, Row(cells[0], address, {}, row))
        for column in head:
            if column in OWN_UNITS and re.fullmatch(r"[\d.]+", row.get(column, "")):
                known.figures.setdefault(column, []).append(float(row[column]))
    yield from rows.values()


def anchor(result: str, *names: str) -> str:
    """How a link names a row."""
    return f"{result}--" + "-".join(re.sub(r"[^\w.+]+", "-", name).strip("-") for name in names)


# ---------------------------------------------------------------- what a text says of them


def wrong_figures(text: str, rows: Mapping[str, Row]) -> list[str]:
    """What is wrong with the figures in the links of a text; empty when every one is its row's."""
    said = []
    for words, target in _LINK.findall(text):
        if "--" not in target and not _FIGURE.search(words):  # a heading, for more to read
            continue
        if target not in rows:
            said.append(f"[{words}]: there is no row {target}")
            continue
        figures = _FIGURE.findall(words)
        if not figures:
            said.append(f"[{words}]: no figure with a unit is in it")
        for number, unit in figures:
            if not any(_rounds_to(value, number) for value in rows[target].quotable.get(unit, ())):
                said.append(f"[{words}]: {number} {unit} is no figure of {target}")
    return said


def unlinked_seconds(text: str) -> list[str]:
    """Times and speeds in a text that no link to a row bears out."""
    return [" ".join(found) for found in _FIGURE.findall(_LINK.sub("", text)) if found[1] != "MB"]


def _rounds_to(value: float, number: str) -> bool:
    digits = len(number.partition(".")[2])
    return math.isclose(round(value, digits), float(number), abs_tol=10**-digits / 1000)
