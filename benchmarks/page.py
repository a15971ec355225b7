"""docs/benchmarks.md and its pictures, made of the tables in results/, and tables of other pages (quoted.py).

    python benchmarks/page.py

Every row of a table has an address, which the README's figures link to; a test compares them (measured.py). The picture
of the README is made here too, from the rows that its first table shows.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import charts
import quoted
import scale
import scaling
from measured import HERE, UNITS, Result, Row, everything

ROOT = HERE.parent
DOCS = ROOT / "docs"
PICTURES = "benchmarks"  # a folder beside the page
BESIDE = ("train-en_300-131072-gpt2", ("streambpe", "gigabpe", "ffbpe", "rustbpe", "tokenizers", "bpeasy"))
_COMPARED = ("job", "corpus", "table", "paper", "difference")
_NOT_TOLD = ("chart", "lines", "axes")
TRAINERS_GROWTH = (("trainers-wall", "Seconds"), ("trainers-memory", "Memory in MB"))
GROWTH = "growth"  # pictures of scale.py's results
PUBLISHED = "published"  # figures that others have published
_FIGURES = {"wall_s": "seconds", "cpu_s": "processor seconds", "peak_MB": "memory, MB", "disk_MB": "disk, MB"}


class Section(NamedTuple):
    """A heading, and the results below it: those whose names begin so."""

    title: str
    begins: tuple[str, ...]
    told: str
    pictured: bool = False


SECTIONS = (
    Section(
        "Text to a vocabulary", ("train-",),
        "From files to a vocabulary file. Where `tokens` are equal, the vocabularies are equal to the last token. Our "
        "time has the durable tables of the counts in it; `streambpe-learn` begins from counts that are there.", True,
    ),
    Section("The same merges", ("equal-",), "Whether the merges of `--like hf` or `rustbpe` are equal, part by part."),
    Section(
        "Counting", ("count-",),
        "Distinct chunks alone. The others cannot just count: they are told to learn nothing, and `counted` is when "
        "their logs say that counting was over.", True,
    ),
    Section("Superwords", ("superwords-",), "BoundlessBPE and SuperBPE, the documents stored on the way.", True),
    Section(
        "Extended", ("extend-",),
        "A vocabulary of 50 257 ids made elsewhere, with 8 000 more of other text: [extend](extend.md). Where "
        "`learned` is equal, the new merges are.",
    ),
    Section("Deletions", ("picky-",), "PickyBPE at several tau, and what a deletion costs."),
    Section("SCRIPT and whole characters", ("script-",), "SCRIPT-BPE beside bytes, with and without the constraint."),
    Section(
        "Encoding", ("encode",),
        "Megabytes of text a second, with one vocabulary for all; `digest` tells whose ids are equal. `-corpus` is "
        "from file to file, `-batch` a list of texts in one call, `-text` one text after another, `-short` lines.",
    ),
    Section(
        "Memory", ("memory", "limits"),
        "The peak of the whole process tree, beside the limit that was given: [limits](limits.md).",
    ),
    Section("What a process takes", ("fixed_share",), "Before it holds any text: [limits](limits.md#measured)."),
    Section(
        "Disks that fill", ("full-disks",), "At every stage of every command: [limits](limits.md#a-disk-that-fills)."
    ),
    Section("Killed again and again", ("soak",), "A long training from kill to kill, after one that nobody disturbed."),
    Section("Many distinct chunks", ("many-chunks",), "Learning alone, from more distinct chunks than a limit holds."),
    Section("Two learners", ("learners-",), "The core, and the [learner in tables](learner-in-tables.md), from text."),
    Section("What it costs to be asked", ("queried-",), "A training that is queried with SQL ten times a second."),
    Section(
        "More cores", ("scaling", "task-costs"),
        "What a second core brings, beside the libraries that have threads too.",
    ),
    Section("Balance", ("balance-",), "Bytes per token of groups, and how unequal they are: [balance](training.md)."),
    Section(
        "Growth", ("scale", "neighbours", "held"), "How time, memory and disk grow with the corpus: [scale](scale.md)."
    ),
    Section("Forecasts", ("plan",), "What `plan` said, beside what the training took."),
    Section("One version beside another", ("versions-",), "This version and an older one, in turns."),
    Section(
        "The papers' tables", ("papers-",),
        "A paper's own figure beside ours on another text, with what makes them differ; made by benchmarks/papers.py.",
    ),
    Section("Giant chunks", ("giant",), "One chunk of 50 MB."),
    Section(
        "Published elsewhere, not measured here", (PUBLISHED,),
        "Of trainers that cannot be installed from a package registry, what their authors say, on machines and texts "
        "of their own; beside it the row here that comes nearest. No comparison, but an order of magnitude.",
    ),
)  # fmt: skip


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    lines = [
        "# Benchmarks", "",
        "Made by `python benchmarks/page.py` from the tables in [benchmarks/results](../benchmarks/results), where "
        "every run is. Whole processes, start-up included, contenders in turns; memory: the peak of the process tree. "
        "Figures of several runs are least / **median** / most; *x* is the ratio of medians to the first row. Machines "
        "differ and are noisy: compare within a table, not between them. What is measured, and how to repeat it: "
        "[benchmarks](../benchmarks/README.md).", "",
    ]  # fmt: skip
    lines += glance(results)
    shown = [(section, [result for result in results if _is_in(section, result)]) for section in SECTIONS]
    lines += [f"- [{section.title}](#{_heading(section.title)})" for section, found in shown if found]
    for section, found in shown:
        if found:
            lines += ["", f"## {section.title}", "", section.told]
        for result in found:
            lines += ["", f"### {result.name}", "", *_described(result)]
            if "chart" in result.about:
                lines += [f"![{escape(result.about['chart'])}]({PICTURES}/{result.name}.svg)", ""]
            if section.pictured and len(result.rows) > 1:
                lines += [f"![{escape(result.name)}: seconds, memory at most]({PICTURES}/{result.name}.svg)", ""]
            if result.columns[:2] == ["job", "vocabulary"]:  # scale.py's own report, then its rows
                for figure in growth_curves(result):
                    lines += [f"![{figure} by MB of text]({PICTURES}/{_growth_name(figure)}.svg)", ""]
                lines += scale.report([row.facts for row in result.rows], result.about["memory"].split()[-1])
            if result.columns[:2] == ["job", "corpus"]:  # likewise scaling.py's
                lines += [*_gains(result.rows), ""]
            if result.name == PUBLISHED:
                lines += _published(result, {row.anchor: row for other in results for row in other.rows})
            else:
                lines += _own_table(result) if result.columns else _table(result)
            lines += ["", *_verdict(result), *_made_by(result)]
    return "\n".join(lines) + "\n"


def pictures(results: Sequence[Result]) -> dict[str, str]:
    """File names below docs/ -> pictures."""
    found = {}
    by_name = {result.name: result for result in results}
    for (name, figure), column in zip(TRAINERS_GROWTH, ("wall_s", "peak_MB"), strict=True):
        if series := quoted.contest_growth(by_name, column):
            title = f"{figure}, by MB of English: text to 131 072 ids"
            found[f"{PICTURES}/{name}.svg"] = charts.curves(title, "MB", series, log_x=True, log_y=True)
    for result in results:
        if len(result.rows) > 1 and not result.columns and any(s.pictured and _is_in(s, result) for s in SECTIONS):
            found[f"{PICTURES}/{result.name}.svg"] = _bars(result.about.get("job", result.name), result.rows)
        if "chart" in result.about:
            found[f"{PICTURES}/{result.name}.svg"] = _curves(result)
        if result.columns[:2] == ["job", "vocabulary"]:
            for figure, series in growth_curves(result).items():
                title = f"{figure}, by MB of text: trainings to 131 072 ids"
                picture = charts.curves(title, "MB", series, log_x=True, log_y=True)
                found[f"{PICTURES}/{_growth_name(figure)}.svg"] = picture
        if result.name == BESIDE[0]:
            rows = [row for name in BESIDE[1] for row in result.rows if row.name == name]
            found["beside.svg"] = _bars("300 MB of English to 131 072 ids, two cores", rows)
    return found


def _bars(title: str, rows: Sequence[Row]) -> str:
    return charts.bars(title, rows, [_is_ours(row) for row in rows])


def _curves(result: Result) -> str:
    """The first column is x, each other one a line; cells that are empty are left out."""
    x, *names = result.columns
    series = {
        name: [(float(row.facts[x]), float(row.facts[name])) for row in result.rows if row.facts.get(name)]
        for name in result.about.get("lines", ";".join(names)).split(";")
    }
    axes = result.about.get("axes", "")
    return charts.curves(result.about["chart"], x, series, log_x="log x" in axes, log_y="log y" in axes)


def growth_curves(result: Result) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Figure -> a line for each job and kind of text."""
    measured, _ = scale.grouped([row.facts for row in result.rows])
    return {
        figure: {
            f"{job}, {kind} text": [(mb, by_size[mb][scale.WHOLE][figure]) for mb in sorted(by_size)]
            for (job, kind), by_size in measured.items()
            if len(by_size) > 1
        }
        for figure in scale.FIGURES
        if figure != "cpu, s"
    }


def _growth_name(figure: str) -> str:
    return f"{GROWTH}-{figure.partition(',')[0]}"


def glance(results: Sequence[Result]) -> list[str]:
    """The first table: every trainer on every text, by the same lines and pattern."""
    table = list(quoted.contest({result.name: result for result in results}, quoted.CONTESTS, quoted.TRAINERS))
    told = (
        "From a text file to a vocabulary file: median seconds and peak memory, two cores, pattern `gpt2`, each line a "
        "document. The quickest of those that do the same job is bold; sentencepiece does another (cuts of its own). "
        "Each time links to its row, with every run and the disk that was taken."
    )
    drawn = [f"![{figure} of every trainer, by MB of text]({PICTURES}/{name}.svg)" for name, figure in TRAINERS_GROWTH]
    found = quoted.contest_growth({result.name: result for result in results}, "wall_s")
    more = [line for picture in drawn for line in (picture, "")] if found else []
    return ["", "## At a glance", "", told, "", *table, "", *more] if table else []


def _is_in(section: Section, result: Result) -> bool:
    return result.name.startswith(section.begins)


def _heading(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _described(result: Result) -> list[str]:
    told = [f"{key}: {value.rstrip('.')}" for key, value in result.about.items() if key in _COMPARED]
    return ["; ".join(told) + ".", ""] if told else []


def _table(result: Result) -> list[str]:
    columns = [column for column in _FIGURES if all(column in row.figures for row in result.rows)]
    lines = [
        "| | " + " | ".join(f"{_FIGURES[column]} | x" for column in columns) + " |",
        "|---|" + "---|---|" * len(columns),
    ]
    for row in result.rows:
        cells = []
        for column in columns:
            cells += [
                _spread(row.figures[column]),
                f"{row.median(column) / max(1e-9, result.rows[0].median(column)):.2f}",
            ]
        lines.append(f'| <a id="{row.anchor}"></a>{escape(row.name)} | ' + " | ".join(cells) + " |")
    inside = [(row, _inside(row)) for row in result.rows]
    if any(moments for _, moments in inside):
        lines += [
            "",
            "Inside, in seconds:",
            "",
            *(f"- {escape(row.name)}: {moments}" for row, moments in inside if moments),
        ]
    return lines


def _inside(row: Row) -> str:
    marks = [name for name in row.figures if name not in UNITS]
    return ", ".join(f"{name} {_spread(row.figures[name])}" for name in marks)


def _own_table(result: Result) -> list[str]:
    columns = [column for column in result.columns if column != "run"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in result.rows:
        name, *cells = (
            _spread(row.figures[column]) if len(row.figures.get(column, ())) > 1 else escape(row.facts.get(column, ""))
            for column in result.columns
            if column != "run"
        )
        lines.append(f'| <a id="{row.anchor}"></a>{name} | ' + " | ".join(cells) + " |")
    return lines


def _published(result: Result, rows: Mapping[str, Row]) -> list[str]:
    """Their figures with links to their sources, beside a row of ours."""
    lines = ["| trainer | job | published | nearest here |", "|---|---|---|---|"]
    for row in result.rows:
        told, target = row.facts, rows[row.facts["nearest"]]
        figure = target.figures.get("wall_s") or target.figures["seconds"]
        nearest = f"[{charts.short(statistics.median(figure))} s](#{target.anchor}): {told['there']}"
        lines.append(
            f'| <a id="{row.anchor}"></a>{told["trainer"]} | {told["job"]} | {told["published"]} '
            f"([source]({told['source']})) | {nearest} |"
        )
    return lines


def _gains(rows: Sequence[Row]) -> list[str]:
    """What more threads bring: the table of scaling.py."""
    measured: dict[tuple[str, str, str], dict[int, list[scaling.Took]]] = {}
    for row in rows:
        job = row.name, row.facts["corpus"], row.facts["contender"]
        figures = zip(row.figures["seconds"], row.figures["cpu_s"], row.figures["peak_MB"], strict=True)
        measured.setdefault(job, {})[int(row.facts["threads"])] = [scaling.Took(*took, load=0) for took in figures]
    return scaling.table(measured, sorted(next(iter(measured.values()))))


def _verdict(result: Result) -> list[str]:
    """Who was quicker, and by how much: losses as plain as wins."""
    ours = next((row for row in result.rows if row.name.split()[0] == "streambpe"), None)
    others = [row for row in result.rows if not _is_ours(row) and row.name not in ("read_only", quoted.OTHER_JOB)]
    if result.columns or not ours or not others or not result.name.startswith(("train-", "count-")):
        return []
    at = min(others, key=lambda row: row.median(_job(row)))
    ratio = at.median(_job(at)) / ours.median("wall_s")
    smaller = min(others, key=lambda row: row.median("peak_MB"))
    memory = smaller.median("peak_MB") / ours.median("peak_MB")
    time = (
        f"{at.name} takes {ratio:.2f} times as long"
        if ratio >= 1
        else f"**{at.name} is quicker: {ratio:.2f} of our time**"
    )
    space = (
        f"{smaller.name} needs {memory:.2f} times the memory"
        if memory >= 1
        else f"**{smaller.name} needs less memory: {memory:.2f} of ours**"
    )
    return [f"Of the others, {time}; {space}.", ""]


def _job(row: Row) -> str:
    """Which moment ends what is compared."""
    return "counted" if "counted" in row.figures and "merged" not in row.figures else "wall_s"


def _made_by(result: Result) -> list[str]:
    facts = [
        f"{key}: {escape(value.strip('`'))}"
        for key, value in result.about.items()
        if key not in (*_COMPARED, *_NOT_TOLD)
    ]
    once = ["one run each, without a warm-up"] if any(not row.warm for row in result.rows) else []
    said = [
        f"{escape(row.name)}: " + ", ".join(f"{k} {escape(v)}" for k, v in row.facts.items())
        for row in result.rows
        if row.facts and not result.columns
    ]
    return [
        "<details><summary>command, machine, versions, what was learned</summary>", "",
        *(f"- {line}" for line in [*facts, *once, *said]), "", "</details>",
    ]  # fmt: skip


def _is_ours(row: Row) -> bool:
    return row.name.startswith(("streambpe", "now", "before", "plain", "tau", "bytes", "script", "boundless"))


def _spread(values: Sequence[float]) -> str:
    least, most = min(values), max(values)
    if least == most:
        return f"**{charts.short(least)}**"
    middle = (
        sorted(values)[len(values) // 2] if len(values) % 2 else sum(sorted(values)[len(values) // 2 - 1 :][:2]) / 2
    )
    return f"{charts.short(least)} / **{charts.short(middle)}** / {charts.short(most)}"


def write() -> None:
    """Everything anew; pictures of results that are gone go too."""
    results = everything()
    folder = DOCS / PICTURES
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, picture in pictures(results).items():
        (DOCS / name).write_text(picture, encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(page(results), encoding="utf-8")
    for name in quoted.PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        (ROOT / name).write_text(quoted.filled(text, results), encoding="utf-8")


if __name__ == "__main__":
    write()
