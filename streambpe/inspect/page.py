"""One page about a run: what was learned, how its tokens are used, how training went. One file that fetches nothing.

    facts    what the page says, plain numbers and lists          (page_facts.gather)
    panels   a heading, a sentence, a picture or why there is none  (panels)
    page     HTML with its style and script inside                  (render)

All of `facts` is in the page as JSON too (the element `facts`), so its numbers can be taken from there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources as package
from itertools import accumulate
from pathlib import Path
from typing import Any

from streambpe.count_config import SourceOptions
from streambpe.errors import UsageError
from streambpe.inspect.charts import Series, line_chart, thinned
from streambpe.inspect.curves import GrowthKey
from streambpe.inspect.page_facts import LISTED, Facts, PointFacts, TokenKey, gather
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import clock
from streambpe.resources import Resources, format_size
from streambpe.store.run import Run
from streambpe.text.shown import shown

_MARK = '<meta name="generator" content="streambpe report">'
_MOST_PASSES = 120  # drawn one by one; if there are more, means are drawn


@dataclass(frozen=True)
class Panel:
    """One card of the page."""

    name: str
    title: str
    says: str
    chart: str = ""  # SVG
    legend: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()  # the numbers behind the picture, or a list that is the picture
    is_list: bool = False


def report(
    run: Path | str,
    output: Path | str,
    *,
    name: str = "main",
    texts: Sequence[str] = (),
    resources: Resources | None = None,
    force: bool = False,
    how: SourceOptions = SourceOptions(),
) -> Facts:
    """Write the page of a training to `output`; returns the facts it shows.

    A page that was written before is replaced; any other file only with `force`.

    `texts`: measure growth on these instead of on the run's own chunks. `how`: how they are read.
    """
    if not texts and (how.lines or how.text_column):
        raise UsageError("--lines and --text-column say how --text FILE is read: name one, or leave them out.")
    path = Path(output)
    refuse_existing(path, force or _is_page(path))
    facts = gather(Run.open(run), name, texts, resources or Resources.from_options(), how)
    with whole_output(path) as temporary:
        temporary.write_text(render(facts), encoding="utf-8")
    return facts


def _is_page(path: Path) -> bool:
    """Whether `report` wrote this file, also in a version whose pages did not say so."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"<!doctype html>") and (_MARK.encode() in head or b": a vocabulary</title>" in head)


# ---------------------------------------------------------------------------------------------------------
# the panels


def panels(facts: Facts) -> list[Panel]:
    """The page's cards, in order; those without data say why."""
    return [
        _merge_counts(facts),
        _supermerge_share(facts),
        _frequencies(facts),
        _growth_panel(facts, "used", "Vocabulary used", "share of the ids", [("used_share", "share used")],
                      "Share of the ids that occur at all, by the size of the vocabulary."),
        _growth_panel(facts, "renyi", "Rényi efficiency", "efficiency", [("renyi", "over ids that occur"),
                      ("renyi_vocab", "over all ids")],
                      "How evenly the ids are used (alpha 2.5): 1 if all alike, near 0 if a few do everything."),
        _growth_panel(facts, "compression", "Bytes per token", "bytes per token", [("bytes_per_token", "bytes")],
                      "How much text a token holds on average, by the size of the vocabulary."),
        _deletions(facts),
        _batch_sizes(facts),
        _speed(facts),
        _token_list(facts, "longest_superwords", "Longest superwords",
                    "This model has no superwords (--superwords none)."),
        _token_list(facts, "longest_tokens", "Longest tokens", "Nothing was learned yet."),
        _left_out(facts),
    ]  # fmt: skip


def _merge_counts(facts: Facts) -> Panel:
    lines = [Series("merges", facts["merges"])]
    if facts["supermerges"]:
        lines.append(Series("supermerges", facts["supermerges"]))
    chart = line_chart("merge-counts", lines, x="event", y="count", log_x=True, log_y=True)
    says = "How often the merged pair occurred when it was chosen. Where the line lies low, tokens are rarities."
    if not facts["merges"]:
        says = "Nothing was learned yet."
    rows = [[kind, i, n] for kind in ("merges", "supermerges") for i, n in thinned(facts[kind], log_x=True)]
    return Panel("merge-counts", "Merge counts", says, chart, [s.name for s in lines], ["", "event", "count"], rows)


def supermerge_shares(facts: Facts) -> list[list[float]]:
    """[(event, share of supermerges among the merges so far)]."""
    made = sorted([(i, 0) for i, _ in facts["merges"]] + [(i, 1) for i, _ in facts["supermerges"]])
    sums = accumulate(is_super for _, is_super in made)
    return [[i, so_far / number] for number, ((i, _), so_far) in enumerate(zip(made, sums, strict=True), 1)]


def _supermerge_share(facts: Facts) -> Panel:
    title = "Share of superwords"
    if not facts["supermerges"]:
        return Panel("super-share", title, "This model has no superwords (--superwords none).")
    shares = supermerge_shares(facts)
    chart = line_chart("super-share", [Series("share", [(i, s) for i, s in shares])], x="event", y="share")
    return Panel("super-share", title, "Supermerges among all merges so far.", chart,
                 heads=["event", "share"], rows=thinned([(i, s) for i, s in shares]))  # fmt: skip


def _no_growth(facts: Facts) -> str:
    if facts["state"] != "done":
        return "Not measured while the run still learns."
    return (
        "Superwords reach across chunks, and the tables hold only chunks: give `--text FILE` to measure this on a text."
    )


def _measured(facts: Facts) -> str:
    where = facts["measured_on"]
    return "Measured on all chunks of the corpus." if isinstance(where, str) else f"Measured on {', '.join(where)}."


def _frequencies(facts: Facts) -> Panel:
    title, points = "Token frequencies", list(enumerate(facts["frequencies"], 1))
    if not points:
        return Panel("frequencies", title, _no_growth(facts))
    chart = line_chart("frequencies", [Series("uses", points)], x="rank", y="uses", log_x=True, log_y=True)
    return Panel("frequencies", title, f"Uses of every token, the most used first. {_measured(facts)}", chart,
                 heads=["rank", "uses"], rows=thinned(points, log_x=True))  # fmt: skip


def _growth_panel(
    facts: Facts, name: str, title: str, y: str, shown: Sequence[tuple[GrowthKey, str]], says: str
) -> Panel:
    if not facts["growth"]:
        return Panel(name, title, _no_growth(facts))
    series = []
    for key, label in shown:
        series.append(Series(label, [(s["size"], share) for s in facts["growth"] if (share := s[key]) is not None]))
    chart = line_chart(name, series, x="ids", y=y, log_x=True)
    rows = [[s["size"], *(s[key] for key, _ in shown)] for s in facts["growth"]]
    return Panel(name, title, f"{says} {_measured(facts)}", chart, [s.name for s in series],
                 ["ids", *(label for _, label in shown)], rows)  # fmt: skip


def _deletions(facts: Facts) -> Panel:
    title = "Deletions"
    if not facts["deletions"]:
        return Panel("deletions", title, "This model takes no token back (it was learned without --tau).")
    points = [(i, number) for number, (i, _) in enumerate(facts["deletions"], 1)]
    chart = line_chart("deletions", [Series("deleted", points)], x="event", y="tokens taken back")
    return Panel("deletions", title, "Tokens taken back so far, by event.", chart,
                 heads=["event", "deleted so far"], rows=thinned(points))  # fmt: skip


def grouped(passes: Sequence[PointFacts]) -> list[PointFacts]:
    """The passes; where there are very many, means of groups of neighbouring passes, placed at each group's last."""
    size = -(-len(passes) // _MOST_PASSES) or 1
    found: list[PointFacts] = []
    before = 0.0
    for start in range(0, len(passes), size):
        some = passes[start : start + size]
        events = sum(one["events"] for one in some)
        last = some[-1]
        found.append(
            {
                "events_so_far": last["events_so_far"],
                "seconds_so_far": last["seconds_so_far"],
                "events": events / len(some),
                "events_per_second": events / (last["seconds_so_far"] - before),
            }
        )
        before = last["seconds_so_far"]
    return found


def _means(passes: Sequence[PointFacts]) -> str:
    size = -(-len(passes) // _MOST_PASSES) or 1
    return f" A point is the mean of {size} passes." if size > 1 else ""


def _no_passes(facts: Facts) -> str:
    joined = facts["config"].get("superwords", "none") != "none"
    return (
        "With superwords passes are not kept: words and superwords are put in one order."
        if joined
        else ("No pass is in the tables.")
    )


def _batch_sizes(facts: Facts) -> Panel:
    passes = facts["passes"]
    if not passes:
        return Panel("batches", "Events per pass", _no_passes(facts))
    points = [(p["events_so_far"], p["events"]) for p in grouped(passes)]
    chart = line_chart("batches", [Series("events", points)], x="event", y="events per pass", log_y=True)
    mean = sum(p["events"] for p in passes) / len(passes)
    says = f"Merges proved and made together: {mean:,.1f} per pass over {len(passes):,} passes.{_means(passes)}"
    return Panel("batches", "Events per pass", says, chart, heads=["event", "events per pass"], rows=points)


def _speed(facts: Facts) -> Panel:
    passes = facts["passes"]
    if not passes:
        return Panel("speed", "Events per second", _no_passes(facts))
    points = [(p["seconds_so_far"], p["events_per_second"]) for p in grouped(passes)]
    chart = line_chart("speed", [Series("events/s", points)], x="seconds", y="events per second", log_y=True)
    last = passes[-1]
    took = last["seconds_so_far"]
    most = max(p["memory_bytes"] for p in passes)
    says = (
        f"{last['events_so_far']:,} events in {f'{took:.1f} s' if took < 60 else clock(took)} of passes; at most "
        f"{format_size(most)} of arrays.{_means(passes)}"
    )
    return Panel("speed", "Events per second", says, chart, heads=["seconds", "events per second"], rows=points)


def _token_list(facts: Facts, key: TokenKey, title: str, nothing: str) -> Panel:
    name = key.replace("_", "-")
    if not facts[key]:
        return Panel(name, title, nothing)
    rows = [[_shortened(text), length, n] for text, length, n in facts[key]]
    return Panel(name, title, "With the count they were learned at.", heads=["token", "bytes", "count"], rows=rows,
                 is_list=True)  # fmt: skip


def _shortened(text: str) -> str:
    """A token as it is shown, even one of 512 spaces."""
    return f"{text[0]} × {len(text)}" if len(text) > 8 and len(set(text)) == 1 else text


def _left_out(facts: Facts) -> Panel:
    cut, stops = facts["cutoff"], facts["stop_words"]
    says = []
    if stops:
        n = sum(row[1] for row in stops)
        says.append(
            f"The stop list gives {len(stops):,} chunks an id of their own: {_percent(n, cut['occurrences'])} of all "
            f"occurrences."
        )
    else:
        says.append("There is no stop list.")
    if cut["chunks_left_out"]:
        says.append(
            f"--freq-cutoff {cut['freq_cutoff']} leaves out {cut['chunks_left_out']:,} of {cut['chunks']:,} distinct "
            f"chunks, {_percent(cut['occurrences_left_out'], cut['occurrences'])} of all occurrences."
        )
    else:
        says.append("The cut-off leaves nothing out.")
    if facts["vetoed"]:
        says.append(f"--block-token vetoed {facts['vetoed']:,} pairs.")
    rows = [[_shortened(shown(chunk.encode())), n] for chunk, n in stops[:LISTED]]
    heads = ["stop word", "occurrences"] if rows else []
    return Panel("left-out", "Left out", " ".join(says), heads=heads, rows=rows, is_list=True)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "none"


# ---------------------------------------------------------------------------------------------------------
# HTML


def _shown_option(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def render(facts: Facts) -> str:
    """The page as HTML."""
    title = f"{Path(facts['run']).name}" + ("" if facts["training"] == "main" else f":{facts['training']}")
    every = panels(facts)
    cards = "\n".join(_card(panel) for panel in every if panel.chart or panel.rows)
    empty = "\n".join(_card(panel) for panel in every if not panel.chart and not panel.rows)
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in _tiles(facts))
    data = json.dumps(facts, ensure_ascii=False).replace("</", "<\\/")
    options = ", ".join(
        f"{key.replace('_', '-')} {_shown_option(value)}"
        for key, value in facts["config"].items()
        if value not in (None, [], False)
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{_MARK}
<title>{escape(title)}: a vocabulary</title>
<link rel="icon" href="data:,">
<style>
{_read("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{escape(options)}</p>
<dl class="tiles">{tiles}</dl>
</header>
<main>
{cards}
</main>
<aside>
{empty}
</aside>
<footer>Made by streambpe from {escape(facts["run"])}{_digest(facts)}</footer>
<div id="tip" hidden></div>
<script type="application/json" id="facts">{data}</script>
<script>
{_read("page.js")}</script>
</body>
</html>
"""


def _read(name: str) -> str:
    return package.files("streambpe").joinpath("inspect", name).read_text(encoding="utf-8")


def _digest(facts: Facts) -> str:
    return f"; events sha256 <code>{escape(facts['sha256'])}</code>" if facts["sha256"] else ""


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    corpus = facts["corpus"]
    tiles = [("state", "finished" if facts["state"] == "done" else "still learning")]
    tiles.append(("events", f"{facts['events']:,}"))
    if corpus:
        tiles.append(("text", format_size(corpus["bytes"])))
        tiles.append(("documents", f"{corpus['documents']:,}"))
        tiles.append(("distinct chunks", f"{corpus['distinct']:,}"))
    if facts["growth"]:
        last = facts["growth"][-1]
        tiles.insert(1, ("ids", f"{last['size']:,}"))
        shares: list[tuple[str, float | None, str]] = [
            ("bytes per token", last["bytes_per_token"], ".3f"),
            ("Rényi efficiency", last["renyi"], ".4f"),
            ("ids used", last["used_share"], ".1%"),
        ]
        tiles += [(name, format(share, form)) for name, share, form in shares if share is not None]
    return tiles


def _card(panel: Panel) -> str:
    parts = [f'<section class="card" id="{panel.name}">', f"<h2>{escape(panel.title)}</h2>"]
    parts.append(f"<p>{escape(panel.says)}</p>")
    if len(panel.legend) > 1:
        keys = "".join(f'<li class="s{i}">{escape(name)}</li>' for i, name in enumerate(panel.legend))
        parts.append(f'<ul class="legend">{keys}</ul>')
    parts.append(panel.chart)
    if panel.rows:
        head = "".join(f"<th>{escape(str(h))}</th>" for h in panel.heads)
        body = "".join("<tr>" + "".join(_td(cell) for cell in row) + "</tr>" for row in panel.rows)
        table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        parts.append(table if panel.is_list else f"<details><summary>Numbers</summary>{table}</details>")
    return "".join(parts) + "</section>"


def _td(cell: Any) -> str:
    if isinstance(cell, str):
        return f"<td><code>{escape(cell)}</code></td>"
    if cell is None:
        return "<td>–</td>"
    return f'<td class="n">{cell:,}</td>' if isinstance(cell, int) else f'<td class="n">{cell:,.4g}</td>'
