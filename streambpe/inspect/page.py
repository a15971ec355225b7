"""One page about a run: its vocabulary, how the tokens are used, how training went. One file that fetches nothing.

    facts    what the page says, plain numbers and lists          (page_facts.gather)
    panels   a heading, a sentence, a picture or why there is none  (page_panels.panels)
    page     HTML with its style and script inside                  (render)

All of `facts` is in the page too (the element `facts`: JSON, gzip, base64), so its numbers can be taken from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from streambpe.arguments import arguments
from streambpe.errors import UsageError
from streambpe.inspect.curves import refuse_reading_nothing
from streambpe.inspect.embedded import packed, read_asset
from streambpe.inspect.page_facts import Facts, gather
from streambpe.inspect.page_panels import Panel, label, panels
from streambpe.inspect.page_vocabulary import KINDS, kinds_counted
from streambpe.inspect.playground import playground_html
from streambpe.options import several
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import Meter, reported
from streambpe.resources import Resources, format_size
from streambpe.store.run import Run

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

_MARK = '<meta name="generator" content="streambpe report">'
_FIRST_TOKENS = 50  # listed without a script
MOST_RUNS = 6  # lines in one picture


@reported("measuring")
def report(
    run: Path | str,
    output: Path | str,
    *,
    name: str = "main",
    text: str | Sequence[str] = (),
    resources: Resources | None = None,
    force: bool = False,
    beside: str | None = None,
    others: Sequence[tuple[Path | str, str]] = (),
    playground: bool = False,
    progress: str | Meter = "none",
    **options: Unpack[ReadKeywords],
) -> Facts:
    """Write the page of a training to `output`; returns the facts it shows.

    A page that was written before is replaced; any other file only with `force`.

    `text`: measure growth on these instead of on the run's own chunks. `beside`: a MODEL
    whose tokens are laid beside these. `others`: (RUN, training) of those drawn on the same axes. `playground`: also a
    box to type into, which splits text in the browser.
    """
    assert isinstance(progress, Meter)
    _, how, resources = arguments("report", options, None, resources)
    meter, texts = progress, several(text)
    refuse_reading_nothing(texts, how)
    if len(others) >= MOST_RUNS:
        raise UsageError(f"{len(others) + 1} RUNs on the same axes: at most {MOST_RUNS} can be told apart.")
    path = Path(output)
    refuse_existing(path, force or _is_page(path))
    opened = [(Run.open(folder), training) for folder, training in [(run, name), *others]]
    box = playground_html(opened[0][0], name, beside, texts, how) if playground else ""
    facts = gather(opened[0][0], name, texts, resources, how, meter, beside)
    facts["others"] = [gather(folder, training, texts, resources, how, meter) for folder, training in opened[1:]]
    with whole_output(path) as temporary:
        temporary.write_text(render(facts, box), encoding="utf-8")
    return facts


def _is_page(path: Path) -> bool:
    """Whether `report` wrote this file."""
    try:
        with open(path, "rb") as file:
            return _MARK.encode() in file.read(4096)
    except OSError:
        return False


def render(facts: Facts, playground: str = "") -> str:
    """The page as HTML; `playground`: its box to type into, as playground_html has made it."""
    title = " and ".join(map(label, [facts, *facts["others"]]))
    cards, lines = drawn(panels(facts))
    data = packed(json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode())
    return f"""{html_head(f"{title}: a vocabulary")}
<body>
<header>
<h1>{escape(title)}</h1>
<dl class="head">{terms(facts["head"])}</dl>
<dl class="tiles">{terms(_tiles(facts))}</dl>
</header>
<script>
{read_asset("unpack.js")}</script>
{playground}{_vocabulary(facts)}<main>
{"".join(html for _, html in cards)}
</main>
<aside aria-label="Not in this page">
{lines}
</aside>
<footer>Made by streambpe from {escape(facts["run"])}{_digest(facts)}</footer>
<div id="tip" hidden></div>
<script type="text/plain" id="facts">{data}</script>
<script>
{read_asset("page.js")}{read_asset("vocabulary.js")}</script>
</body>
</html>
"""


def html_head(title: str) -> str:
    """The beginning of a page, up to its body."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{_MARK}
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{read_asset("page.css")}</style>
</head>"""


def terms(rows: Sequence[tuple[str, str]]) -> str:
    """What there is to say about each of some terms, for a <dl>."""
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows if value)


def drawn(every: Sequence[Panel]) -> tuple[list[tuple[str, str]], str]:
    """([(name, HTML)] of the panels that are cards, HTML of those without data, a line each)."""
    cards, lines = [], []
    for panel in every:
        if panel.chart:
            cards.append((panel.name, _card(panel)))
        else:
            lines.append(f"<p><b>{escape(panel.title)}</b>: {escape(panel.says)}</p>")
    return cards, "\n".join(lines)


def _vocabulary(facts: Facts) -> str:
    """All ids, to be searched and sorted; the first few stand there without a script too."""
    vocabulary = facts["vocabulary"]
    size = len(vocabulary["shown"])
    if not size:
        return ""
    many = min(size, _FIRST_TOKENS)
    columns: dict[str, tuple[str, Sequence[Any]]] = {
        "id": ("id", range(vocabulary["first_id"], vocabulary["first_id"] + many)),
        "token": ("token", vocabulary["shown"]),
        "kind": ("kind", [KINDS[letter] for letter in vocabulary["kind"][:many]]),
        "length": ("bytes", vocabulary["length"]),
        "n": ("learned at", vocabulary["n"]),
    }
    if vocabulary["uses"] is not None:
        columns["uses"] = ("uses", vocabulary["uses"])
    head = "".join(
        f'<th scope="col" data-key="{key}"{_sorted(key)}><button type="button">{name}</button></th>'
        for key, (name, _) in columns.items()
    )
    body = _body(zip(*(values[:many] for _, values in columns.values()), strict=True))
    options = "".join(
        f'<option value="{letter}">{escape(name)} ({n:,})</option>' for letter, name, n in kinds_counted(vocabulary)
    )
    return f"""<section class="card wide" id="vocabulary" aria-labelledby="vocabulary-title">
<h2 id="vocabulary-title">Vocabulary</h2>
<div class="asked">
<label>Find <input type="search" id="sought" placeholder="text, or an id" autocomplete="off" disabled></label>
<label>Kind <select id="kind" disabled><option value="">all ({size:,})</option>{options}</select></label>
<span id="found" role="status">The first {many} of {size:,} ids.</span>
</div>
<div class="scroll" tabindex="0" role="region" aria-label="Ids"><table id="ids">
<thead><tr>{head}</tr></thead>
<tbody>{body}</tbody>
</table></div>
<button type="button" id="more" hidden>Show more</button>
<script type="application/json" id="kinds-named">{json.dumps(KINDS)}</script>
</section>
"""


def _sorted(key: str) -> str:
    return ' aria-sort="ascending"' if key == "id" else ""


def _digest(facts: Facts) -> str:
    return f"; events sha256 <code>{escape(facts['sha256'])}</code>" if facts["sha256"] else ""


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    corpus = facts["corpus"]
    tiles = [
        ("state", "finished" if facts["state"] == "done" else "still learning"),
        ("events", f"{facts['events']:,}"),
    ]
    if corpus:
        tiles += [
            ("text", format_size(corpus["bytes"])),
            ("documents", f"{corpus['documents']:,}"),
            ("distinct chunks", f"{corpus['distinct']:,}"),
        ]
    if facts["growth"]:
        last = facts["growth"][-1]
        tiles.insert(1, ("ids", f"{last['vocab_size']:,}"))
        shares: list[tuple[str, float | None, str]] = [
            ("bytes per token", last["bytes_per_token"], ".3f"),
            ("Rényi efficiency, all ids", last["renyi_vocab"], ".4f"),
            ("ids used", last["vocab_used_share"], ".1%"),
        ]
        tiles += [(name, format(share, form)) for name, share, form in shares if share is not None]
    return tiles


def _card(panel: Panel) -> str:
    """A panel as HTML."""
    parts = [f'<section class="card" id="{panel.name}">', f"<h2>{escape(panel.title)}</h2>"]
    if panel.verdict:
        parts.append(f'<p class="verdict">{escape(panel.verdict)}</p>')
    parts.append(f"<p>{escape(panel.says)}</p>")
    if len(panel.legend) > 1:
        keys = "".join(f'<li class="s{i}">{escape(name)}</li>' for i, name in enumerate(panel.legend))
        parts.append(f'<ul class="legend">{keys}</ul>')
    parts.append(panel.chart)
    if panel.rows:
        # heads stand as their numbers do
        over = ["" if isinstance(cell, str) else ' class="n"' for cell in panel.rows[0]]
        head = "".join(f'<th scope="col"{n}>{escape(str(h))}</th>' for n, h in zip(over, panel.heads, strict=True))
        parts.append(
            f'<details><summary>Numbers</summary><div class="scroll" tabindex="0" role="region" '
            f'aria-label="{escape(panel.title)}"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{_body(panel.rows)}</tbody></table></div></details>"
        )
    return "".join(parts) + "</section>"


def _body(rows: Iterable[Sequence[Any]]) -> str:
    return "".join("<tr>" + "".join(_td(cell) for cell in row) + "</tr>" for row in rows)


def _td(cell: Any) -> str:
    if isinstance(cell, str):
        return f"<td><code>{escape(cell)}</code></td>"
    if cell is None:
        return '<td class="n">–</td>'
    return f'<td class="n">{cell:,}</td>' if isinstance(cell, int) else f'<td class="n">{cell:,.4g}</td>'
