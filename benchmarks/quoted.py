"""Tables of other pages of docs/ that are made of results, between two comments:

    <!-- of benchmarks/results, by benchmarks/page.py: growth -->
    <!-- end -->

page.py writes them anew, and a test compares them. A table whose results are not there is empty.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import scale
from measured import RESULTS, Result

from streambpe.resources import parse_size

PAGES = ("scale.md", "training.md")
_BLOCK = re.compile(
    r"(<!-- of benchmarks/results, by benchmarks/page.py: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL
)
Results = Mapping[str, Result]


def filled(text: str, results: Sequence[Result]) -> str:
    """The page with its tables made anew."""
    by_name = {result.name: result for result in results}

    def block(found: re.Match[str]) -> str:
        lines = list(TABLES[found[2]](by_name))
        return found[1] + ("\n" + "\n".join(lines) + "\n\n" if lines else "") + found[4]

    return _BLOCK.sub(block, text)


def outside(text: str) -> str:
    """The page without these tables."""
    return _BLOCK.sub("", text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """As Markdown."""
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def _size(mb: float) -> str:
    return f"{mb / 1e6:g} TB" if mb >= 1e6 else f"{mb / 1000:g} GB" if mb >= 1000 else f"{mb:g} MB"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def _scaled(results: Results) -> tuple[Mapping[tuple[str, str], scale.BySize], Mapping[str, scale.BySize]]:
    return scale.grouped([row.facts for row in results["scale"].rows])


def growth(results: Results) -> Iterator[str]:
    """Whole trainings by size, and the exponent of the synthetic sizes."""
    if "scale" not in results:
        return
    measured, _ = _scaled(results)
    sizes = list(dict.fromkeys((kind, mb) for (_, kind), by_size in measured.items() for mb in sorted(by_size)))
    sizes.sort(key=lambda size: (size[0] != "real", size[1]))
    rows = []
    for job in dict.fromkeys(job for job, _ in measured):
        for figure in scale.FIGURES:
            found = [measured.get((job, kind), {}).get(mb, {}).get(scale.WHOLE, {}).get(figure) for kind, mb in sizes]
            grown = [(mb, value) for (kind, mb), value in zip(sizes, found, strict=True) if kind != "real" and value]
            slope = scale.exponent([mb for mb, _ in grown], [value for _, value in grown])
            cells = ["" if value is None else _short(value) for value in found]
            rows.append([f"{job}: {figure}", *cells, "" if slope is None else f"{slope:.2f}"])
    heads = [_size(mb) + (" synthetic" if kind != "real" else "") for kind, mb in sizes]
    yield from table(["", *heads, "exponent, synthetic"], rows)


def stages(results: Results) -> Iterator[str]:
    """Processor seconds of each stage, at the largest real size and at the largest synthetic one."""
    if "scale" not in results:
        return
    measured, _ = _scaled(results)
    jobs = list(dict.fromkeys(job for job, _ in measured))
    kinds = ("real", "synthetic")
    some = {job: [at for kind in kinds for at in _largest(measured.get((job, kind), {}))] for job in jobs}
    names = dict.fromkeys(stage for job in jobs for _, at in some[job] for stage in at if stage != scale.WHOLE)
    rows = []
    for job in jobs:
        for mb, at in some[job]:
            seconds = [at.get(stage, {}).get("cpu, s", 0.0) for stage in names]
            cells = [_short(value) if value else "" for value in seconds]
            rows.append([f"{job}, {_size(mb)}", *cells, _short(at[scale.WHOLE]["cpu, s"])])
    yield from table(["", *names, "whole"], rows)


def _largest(by_size: scale.BySize) -> list[tuple[float, Mapping[str, scale.Figures]]]:
    """The largest size."""
    return [(mb, by_size[mb]) for mb in sorted(by_size)[-1:]]


def vocabularies(results: Results) -> Iterator[str]:
    """Seconds by the size of the vocabulary."""
    if "scale" not in results:
        return
    _, by_ids = _scaled(results)
    sizes = sorted({ids for found in by_ids.values() for ids in found})
    cells = {
        job: [_short(found[ids][scale.WHOLE]["wall, s"]) if ids in found else "" for ids in sizes]
        for job, found in by_ids.items()
    }
    yield from table(["seconds", *(f"{ids:,.0f} ids" for ids in sizes)], [[job, *row] for job, row in cells.items()])


def forecast(results: Results) -> Iterator[str]:
    """What larger texts would take."""
    if "scale" not in results:
        return
    measured, _ = _scaled(results)
    memory = parse_size(results["scale"].about["memory"].split()[-1]) / 1e6
    rows = []
    for (job, _), by_size in measured.items():
        if max(by_size) < scale.FORECAST_FROM_MB:
            continue
        told = [scale.forecast(job, by_size, gb * 1000, memory) for gb in scale.FORECAST_GB]
        hours = [f"{figures['wall, s'] / 3600:.1f} hours" for figures in told]
        disk = ", ".join(f"{_short(figures['disk, MB'] / 1000)} GB" for figures in told)
        rows.append([job, *hours, disk])
    yield from table(["", *(_size(gb * 1000.0) for gb in scale.FORECAST_GB), "disk at most"], rows)


def cores(results: Results) -> Iterator[str]:
    """Every job of scaling.py on one thread and on two."""
    if "scaling" not in results:
        return
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in results["scaling"].rows:
        job = row.name, row.facts["corpus"], row.facts["contender"]
        found.setdefault(job, {})[row.facts["threads"]] = statistics.median(row.figures["seconds"])
    rows = [
        [what, corpus, who, f"{at['1']:.2f}", f"{at['2']:.2f}", f"**{at['1'] / at['2']:.2f}**"]
        for (what, corpus, who), at in found.items()
        if {"1", "2"} <= at.keys()
    ]
    yield from table(["job", "text", "", "one thread, s", "two, s", "times as quick"], rows)


def workers(results: Results) -> Iterator[str]:
    """The last table that forecast.py wrote."""
    lines = _written("forecast-en_100-uw.md")
    yield from lines[max((i for i, line in enumerate(lines) if line.startswith("| text")), default=len(lines)) :]


def balance(results: Results) -> Iterator[str]:
    """Gini of the groups by each way to balance them."""
    for name, found in results.items():
        if name.startswith("balance-"):
            ginis = [row for row in found.rows if row.name.startswith("Gini")]
            yield from table(["", *(row.name for row in ginis)], [
                [way, *(row.facts[way] for row in ginis)] for way in found.columns[2:]
            ])  # fmt: skip


def processes(results: Results) -> Iterator[str]:
    """Of --memory, the most that each kind of job took in processes."""
    if "memory-processes" not in results:
        return
    most: dict[str, tuple[float, str]] = {}
    for row in results["memory-processes"].rows:
        kind, _, memory, many, *_ = row.name.split(" ")
        most[kind] = max(most.get(kind, (0.0, "")), (row.figures["ratio"][0], f"{many} processes, {memory}"))
    yield from table(["", "of --memory at most", "with"], [[kind, f"{n:.2f}", at] for kind, (n, at) in most.items()])


def neighbours(results: Results) -> Iterator[str]:
    """What adding up neighbours takes."""
    if (found := results.get("neighbours")) is None:
        return
    yield f"{found.about['job']}:"
    yield ""
    rows = [[row.name, *(row.facts[c] for c in ("cpu_s", "peak_MB", "disk_MB"))] for row in found.rows]
    yield from table(["step", "processor, s", "memory so far, MB", "disk, MB"], rows)


def _written(name: str) -> list[str]:
    path: Path = RESULTS / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


TABLES: dict[str, Callable[[Results], Iterator[str]]] = {
    "growth": growth, "stages": stages, "vocabularies": vocabularies, "forecast": forecast, "cores": cores,
    "workers": workers, "balance": balance, "processes": processes, "neighbours": neighbours,
}  # fmt: skip
