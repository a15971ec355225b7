"""Tables of the README and of other pages than docs/benchmarks.md that are made of results, between two comments:

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
from charts import short
from measured import PAGE, RESULTS, Result

from streambpe.resources import parse_size

PAGES = ("README.md", "docs/scale.md", "docs/training.md", "docs/limits.md")
TRAINERS = ("streambpe", "gigabpe", "rustbpe", "ffbpe", "tokenizers", "bpeasy", "sentencepiece")
OTHER_JOB = "sentencepiece"  # cuts and characters of its own
CONTESTS = {  # results by the same lines and pattern, and what a text is called in a table of them
    "train-en_5-8000-gpt2": "5 MB of English to 8 000 ids",
    "train-en_100-131072-gpt2": "100 MB of English to 131 072",
    "train-en_300-131072-gpt2": "300 MB of English to 131 072",
    "train-synthetic_1000-131072-gpt2": "1 GB, synthetic, to 131 072",
    "train-multi_60-32768-gpt2": "60 MB, a hundred languages, to 32 768",
    "train-chinese-32768-gpt2": "10 MB of Chinese to 32 768",
    "train-code-32768-gpt2": "13 MB of Python to 32 768",
}
CONTEST_SIZES = {
    "train-en_100-131072-gpt2": 100,
    "train-en_300-131072-gpt2": 300,
    "train-synthetic_1000-131072-gpt2": 1000,
}
COUNTERS = {"streambpe": "wall_s", "rustbpe": "counted", "tokenizers": "counted"}  # which moment ends counting
ENCODERS = ("streambpe", "tuetoken", "wordchipper", "tokie", "tiktoken", "tokenizers")
ENCODING = {  # rows of the README's table: how the contenders of encode.py end
    "lists of texts, one thread": ("-batch", 1), "lists of texts, two threads": ("-batch", 2),
    "texts one by one": ("-text", 1), "from file to file, one thread": ("-corpus", 1),
    "from file to file, two threads": ("-corpus", 2),
}  # fmt: skip
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
    """All figures by the size of the vocabulary, and the exponent."""
    if "scale" not in results:
        return
    _, by_ids = _scaled(results)
    sizes = sorted({ids for found in by_ids.values() for ids in found})
    rows = []
    for job, found in by_ids.items():
        for figure in scale.FIGURES:
            at = [(ids, found[ids][scale.WHOLE][figure]) for ids in sizes if ids in found]
            slope = scale.exponent([ids for ids, _ in at], [value for _, value in at])
            cells = [_short(dict(at)[ids]) if ids in dict(at) else "" for ids in sizes]
            rows.append([f"{job}: {figure}", *cells, "" if slope is None else f"{slope:.2f}"])
    yield from table(["", *(f"{ids:,.0f} ids" for ids in sizes), "exponent"], rows)


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


def fixed_share(results: Results) -> Iterator[str]:
    """What a process takes before it holds any text."""
    yield from _as_it_is(results.get("fixed_share"))


def full_disks(results: Results) -> Iterator[str]:
    """What became of commands whose disk filled."""
    yield from _as_it_is(results.get("full-disks"))


def _as_it_is(result: Result | None) -> Iterator[str]:
    if result is not None:
        yield from table(result.columns, [[row.facts[column] for column in result.columns] for row in result.rows])


def contest(results: Results, titles: Mapping[str, str], trainers: Sequence[str], page: str = "") -> Iterator[str]:
    """Seconds and memory of every trainer on every text that was measured, each a link to its row."""
    rows = []
    for name, title in titles.items():
        if (result := results.get(name)) is None:
            continue
        found = {row.name: row for row in result.rows}
        least = min(row.median("wall_s") for who, row in found.items() if who in trainers and who != OTHER_JOB)
        cells = []
        for row in map(found.get, trainers):
            if row is None:
                cells.append("")
                continue
            seconds = row.median("wall_s")
            bold = "**" if row.name != OTHER_JOB and seconds == least else ""
            told = f"{bold}{short(seconds)} s{bold}, {row.median('peak_MB'):.0f} MB"
            cells.append(f"[{told}]({page}#{row.anchor})")
        rows.append([title, *cells])
    if rows:
        yield from table(["", *trainers], rows)


def contest_growth(results: Results, column: str) -> dict[str, list[tuple[float, float]]]:
    """Trainer -> (MB of text, a figure), at the sizes that are learned from to one number of ids."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, mb in CONTEST_SIZES.items():
        for row in results[name].rows if name in results else ():
            if row.name in TRAINERS:
                found.setdefault(row.name, []).append((mb, row.median(column)))
    return {who: found[who] for who in TRAINERS if len(found.get(who, ())) > 1}


def contest_exponents(results: Results) -> Iterator[str]:
    """How time and memory of every trainer grow with the text."""
    series = {column: contest_growth(results, column) for column in ("wall_s", "cpu_s", "peak_MB")}
    rows = []
    for who in series["wall_s"]:
        slopes = [scale.exponent(*zip(*of[who], strict=True)) for of in series.values()]
        sizes = ", ".join(f"{mb:g}" for mb, _ in series["wall_s"][who])
        rows.append([who, *("" if slope is None else f"{slope:.2f}" for slope in slopes), sizes])
    if rows:
        yield from table(["exponent of", "wall", "processor", "memory", "MB of text"], rows)


def readme_training(results: Results) -> Iterator[str]:
    """Without sentencepiece; first with the pattern of GPT-4, which gigabpe does not have."""
    titles = {"train-en_100-131072": "100 MB of English to 131 072 ids, pattern gpt4", **CONTESTS}
    yield from contest(results, titles, TRAINERS[:-1], PAGE)


def readme_counting(results: Results) -> Iterator[str]:
    """Counting alone: ours is over when all is on disk, theirs when their logs say so."""
    rows = []
    for name, title in {"count-en_100": "100 MB of English", "count-multi_60": "60 MB of a hundred languages"}.items():
        if name in results:
            found = {row.name: row for row in results[name].rows}
            took = {who: found[who].median(ends) for who, ends in COUNTERS.items()}
            bold = {who: "**" if seconds == min(took.values()) else "" for who, seconds in took.items()}
            cells = [
                f"[{bold[who]}{short(seconds)} s{bold[who]}]({PAGE}#{found[who].anchor})"
                for who, seconds in took.items()
            ]
            rows.append([f"counting alone, {title}", *cells])
    if rows:
        yield from table(["", *COUNTERS], rows)


def readme_encoding(results: Results) -> Iterator[str]:
    """The better of two rounds, in MB of text a second. Who gives other ids than we do is told, and is no rival."""
    if "encode" not in results:
        return
    found = {(row.name, row.facts["threads"]): row for row in results["encode"].rows}
    rows = []
    for title, (ending, threads) in ENCODING.items():
        at = {who: found.get((f"{who}{ending}", str(threads))) for who in ENCODERS}
        if ending == "-batch":  # some have but one way
            at = {who: row or found.get((who, str(threads))) for who, row in at.items()}
        ours = at["streambpe"]
        assert ours is not None
        same = [row for row in at.values() if row and row.facts["digest"] == ours.facts["digest"]]
        most = max(max(row.figures["best"]) for row in same)
        cells = []
        for row in at.values():
            if row is None:
                cells.append("")
                continue
            speed = max(row.figures["best"])
            told = f"{short(speed)} MB/s"
            bold = "**" if row in same and speed == most else ""
            cells.append(f"[{bold}{told}{bold}]({PAGE}#{row.anchor})" + ("" if row in same else ", other ids"))
        rows.append([title, *cells])
    yield from table(["", *ENCODERS], rows)


def _written(name: str) -> list[str]:
    path: Path = RESULTS / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


TABLES: dict[str, Callable[[Results], Iterator[str]]] = {
    "growth": growth, "stages": stages, "vocabularies": vocabularies, "forecast": forecast, "cores": cores,
    "workers": workers, "balance": balance, "processes": processes, "neighbours": neighbours,
    "readme-training": readme_training, "readme-counting": readme_counting, "readme-encoding": readme_encoding,
    "fixed-share": fixed_share, "trainers-growth": contest_exponents, "full-disks": full_disks,
}  # fmt: skip
