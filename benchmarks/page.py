"""docs/benchmarks.md, a page for each topic, and the picture of the README, made of the tables in results/.

    python benchmarks/page.py

Every row of a table has an address, which figures of other pages link to; a test compares them (measured.py).
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Collection, Sequence
from html import escape

from measured import HERE, LINKED, UNITS, Result, Row, everything, read

DOCS = HERE.parent / "docs"
HEAD = """# Benchmarks

`python benchmarks/page.py` makes these pages from [benchmarks/results](../benchmarks/results), which has every run and
the versions. Times are of whole processes, start-up included, and contenders take turns. Memory is the peak of the
process tree. Figures of several runs are least / **median** / most; *x* is the ratio of medians to the first row.
Machines differ and are noisy: compare within a table, not between tables. A long table shows its first rows and those
that other pages quote. [How to repeat the benchmarks](../benchmarks/README.md).

"""
TOPICS = {  # page -> (title, the scripts whose results it shows)
    "training": ("Training compared with other programs", ("train", "extend", "fixed_share", "neighbours")),
    "counting": ("Counting", ("count", "many_chunks", "scaling")),
    "encoding": ("Encoding", ("encode",)),
    "vocabularies": ("Kinds of vocabularies", ("superwords", "picky", "script", "balance", "choosing", "graphemes")),
    "memory": (
        "Memory, disk and large corpora",
        ("memory", "held", "scale", "segments", "heaps", "plan", "soak", "cluster", "learners", "queried"),
    ),
    "papers": ("Figures of papers, and other results", ("papers", "others")),
}
MOST_ROWS, FIRST_ROWS = 8, 4  # a longer table shows so many, beside those that are quoted
NOT_SHOWN = ("run", "load", "maxrss_MB", "marks", "facts")
BESIDE = ("train-en_300-131072-gpt2", ("streambpe", "gigabpe", "ffbpe", "rustbpe", "tokenizers", "bpeasy"))
_LEFT, _WIDTH, _BAR = 200, 320, 30  # no wider, so that a phone can show it


def pages(results: Sequence[Result]) -> dict[str, str]:
    """All pages by their path in docs/: a list of topics, and for each a section for each of its scripts."""
    sections: dict[str, list[Result]] = {}
    for result in results:
        found = re.search(r"benchmarks/(\w+)\.py", " ".join(result.about))
        sections.setdefault(found[1] if found else "others", []).append(result)
    places = [HERE.parent / "README.md", *DOCS.glob("*.md")]
    quoted = {target for place in places for target in LINKED.findall(place.read_text(encoding="utf-8"))}
    made = {"benchmarks.md": HEAD}
    for name, (title, scripts) in TOPICS.items():
        made["benchmarks.md"] += f"- [{title}](benchmarks/{name}.md)\n"
        lines = [f"# Benchmarks: {title[0].lower()}{title[1:]}", ""]
        for script in filter(sections.get, scripts):
            lines += [f"## {script}", "", _first_sentence(script), ""]
            for result in sections.pop(script):
                lines += [f"### {result.name}", *shown(result, quoted), ""]
        made[f"benchmarks/{name}.md"] = "\n".join(lines)
    if sections:
        raise ValueError(f"TOPICS names no page for the results of {', '.join(sections)}")
    return made


def _first_sentence(script: str) -> str:
    path = HERE / f"{script}.py"
    if not path.exists():
        return "Measured by a script that is no longer here."
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return told.split("\n\n")[0].replace("\n", " ")


def shown(result: Result, quoted: Collection[str] | None = None) -> list[str]:
    """What was measured with what, and a row for each contender; if it is given which rows are quoted, of many only
    those and the first."""
    about = [line for line in result.about if not line.startswith("versions: ")]
    rows = [row for row in result.rows if "MB" not in row.cells or row.cells.get("stage", "whole") == "whole"]
    if quoted is not None and len(rows) > MOST_ROWS:
        every, rows = len(rows), [row for at, row in enumerate(rows) if at < FIRST_ROWS or row.anchor in quoted]
        about += [f"{len(rows)} of {every} rows"] * (len(rows) < every)
    columns = [column for column in result.columns[1:] if column not in NOT_SHOWN]
    more = ["told"] * ("facts" in result.columns)
    lines = [escape("; ".join(about), quote=False), "", f"| {' | '.join([result.columns[0], *columns, *more])} |"]
    lines.append("|---" * (1 + len(columns) + len(more)) + "|")
    for row in rows:
        cells = [_cell(row, column, result.rows[0] if more else None) for column in columns]
        if more:
            moments = [f"{name} {spread(values)}" for name, values in row.figures.items() if name not in UNITS]
            cells.append(", ".join([*moments, *(f"{name} {escape(fact)}" for name, fact in row.facts.items())]))
        lines.append(f'| <a id="{row.anchor}"></a>{" | ".join([escape(row.name), *cells])} |')
    return lines


def _cell(row: Row, column: str, first: Row | None) -> str:
    """As it stands in the result, or what all runs of a contender took, with the ratio to the first one."""
    values = row.figures.get(column, [])
    if first is None and len(values) < 2:
        return escape(row.cells.get(column, ""))
    ratio = statistics.median(values) / max(1e-9, statistics.median(first.figures[column])) if first else 0
    return spread(values) + (f", x {ratio:.2f}" if first and row is not first else "")


def spread(values: Sequence[float]) -> str:
    """Least, median and most; one of them where all are equal."""
    told = dict.fromkeys(short(value) for value in (min(values), statistics.median(values), max(values)))
    return " / ".join(f"**{value}**" if value == short(statistics.median(values)) else value for value in told)


def short(value: float) -> str:
    """With as many digits as it takes to compare."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def picture() -> str:
    """A bar for each trainer: its median time, its memory in words. It can be read on white and on black."""
    name, trainers = BESIDE
    found = {row.name: row.figures for row in read(HERE / "results" / f"{name}.tsv").rows}
    seconds = {trainer: statistics.median(found[trainer]["wall_s"]) for trainer in trainers}
    heading = "300 MB of English to 131 072 ids, two cores: seconds, memory at most"
    width, height = _LEFT + _WIDTH, _BAR * len(trainers) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="14" role="img">',
        f"<title>{heading}</title>",
        f'<text x="0" y="18" fill="#777">{heading}</text>',
    ]
    for place, trainer in enumerate(trainers):
        top, length = 30 + _BAR * place, round((_WIDTH - 130) * seconds[trainer] / max(seconds.values()))
        colour = "#2a7de1" if trainer == "streambpe" else "#9a9a9a"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 16}" text-anchor="end" fill="#777">{trainer}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{length}" height="22" rx="3" fill="{colour}"/>',
            f'<text x="{_LEFT + length + 8}" y="{top + 16}" fill="#777">{short(seconds[trainer])} s, '
            f"{max(found[trainer]['peak_MB']):.0f} MB</text>",
        ]
    return "\n".join([*lines, "</svg>\n"])


def write() -> None:
    """All anew."""
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    for name, text in pages(everything()).items():
        (DOCS / name).write_text(text, encoding="utf-8")
    (DOCS / "beside.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    write()
