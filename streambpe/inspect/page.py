"""One page about a run: how good its vocabulary is, what is in it, how it is used. One file that fetches nothing.

    facts    what the page says, plain numbers and lists            (page_facts.gather)
    verdict  the sentences at its top                               (verdict.verdict)
    panels   a question, its answer, and a picture                  (page_panels.panels)
    page     HTML with its style and script inside                  (render)

All of `facts` is in the page too (the element `facts`: JSON, gzip, base64), so its numbers can be taken from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from streambpe.arguments import arguments
from streambpe.errors import UsageError
from streambpe.inspect.curves import refuse_reading_nothing
from streambpe.inspect.embedded import packed, read_asset
from streambpe.inspect.page_facts import Facts, gather, label
from streambpe.inspect.page_panels import Panel, panels
from streambpe.inspect.page_vocabulary import KINDS
from streambpe.inspect.playground import PlaygroundLeftOut, playground_html
from streambpe.inspect.verdict import verdict
from streambpe.options import several
from streambpe.outputs import refuse_existing, whole_output
from streambpe.plurals import counted
from streambpe.progress import present_meter, reported
from streambpe.resources import Resources, format_size
from streambpe.store.run import Run

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

_MARK = '<meta name="generator" content="streambpe report">'
_BLANK = '<i class="blank"> </i>'  # drawn by the style sheet: few fonts have a letter for it
_MOST_BYTES = 5_000_000  # of a page with a playground
MOST_RUNS = 6  # lines in one picture
_VOCABULARY = """<section class="card wide" id="vocabulary">
<h2>Which tokens are in it?</h2>
<p>A token is made by an event, which merges a pair. The count says how often that pair occurred then; the uses say how
often the finished vocabulary uses the token in {where}.</p>
<div class="asked">
<label>Find <input type="search" id="sought" placeholder="text, or an id" autocomplete="off" disabled></label>
<label>Kind <select id="kind" disabled></select></label>
<span id="found" role="status">This list needs a browser with JavaScript.</span>
</div>
<div class="scroll" tabindex="0" role="region" aria-label="Ids">
<table id="ids"><thead><tr></tr></thead><tbody></tbody></table></div>
<button type="button" id="more" hidden>Show more</button>
<script type="application/json" id="kinds-named">{kinds}</script>
</section>
"""


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
    playground: bool = True,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> Facts:
    """Write the page of a training to `output`; returns the facts it shows.

    A page that was written before is replaced; any other file only with `force`.

    `text`: measure growth on these instead of on the run's own chunks. `beside`: a MODEL
    that is compared with this one. `others`: (RUN, training) of those drawn on the same axes. `playground`: also a box
    to type into, which splits text in the browser, while the page stays below 5 MB.
    """
    _, how, resources = arguments("report", options, None, resources)
    meter, texts = present_meter(), several(text)
    refuse_reading_nothing(texts, how)
    if len(others) >= MOST_RUNS:
        raise UsageError(f"{len(others) + 1} RUNs on the same axes: at most {MOST_RUNS} can be told apart.")
    path = Path(output)
    refuse_existing(path, force or _is_page(path))
    opened = [(Run.open(folder), training) for folder, training in [(run, name), *others]]
    facts = gather(opened[0][0], name, texts, resources, how, meter, beside)
    facts["others"] = [gather(folder, training, texts, resources, how, meter) for folder, training in opened[1:]]
    page = render(facts)
    if playground:
        try:
            box = playground_html(opened[0][0], name, beside, texts, how)
        except PlaygroundLeftOut as why:
            box = _left_out(str(why))
        else:
            if len(page) + len(box) > _MOST_BYTES:
                box = _left_out(f"with it the page has more than {format_size(_MOST_BYTES)}.")
        page = render(facts, box)
    with whole_output(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return facts


def _left_out(why: str) -> str:
    return f'<p class="wide left-out">There is no playground here: {escape(why)}</p>'


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
    data = packed(json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode())
    cards = f"""{playground}{_VOCABULARY.format(where=escape(facts["measured_on"]), kinds=json.dumps(KINDS))}<main>
{"".join(html for _, html in drawn(panels(facts)))}
</main>
{_origin(facts)}"""
    return f"""{html_head(f"{title}: a vocabulary")}
<body>
<header>
<h1>{escape(title)}</h1>
<div class="verdict">{_sentences(verdict(facts))}</div>
<nav aria-label="Contents">{_contents(cards)}</nav>
</header>
<script>
{read_asset("unpack.js")}</script>
{cards}
<div id="tip" hidden></div>
<script type="text/plain" id="facts">{data}</script>
<script>
{read_asset("page.js")}{read_asset("vocabulary.js")}</script>
</body>
</html>
"""


def _sentences(every: Iterable[str]) -> str:
    code = (re.sub("`(.*?)`", r"<code>\1</code>", escape(sentence)) for sentence in every if sentence)
    return "".join(f"<p>{sentence}</p>" for sentence in code)


def _contents(cards: str) -> str:
    """A link to each card."""
    found = re.findall(r'<section class="card[^"]*" id="([\w-]+)"[^>]*>\s*<h2[^>]*>(.*?)</h2>', cards)
    return "".join(f'<a href="#{name}">{title}</a>' for name, title in found)


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


def _shown(text: str) -> str:
    return escape(text).replace("␠", _BLANK)


def terms(rows: Sequence[tuple[str, str]]) -> str:
    """What there is to say about each of some terms, for a <dl>."""
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{_shown(value)}</dd></div>" for name, value in rows if value)


def drawn(every: Sequence[Panel]) -> list[tuple[str, str]]:
    """[(name, HTML)] of the panels."""
    return [(panel.name, _card(panel)) for panel in every]


def _origin(facts: Facts) -> str:
    """What was learned from what, and how."""
    other, corpus, rows = facts["beside"], facts["corpus"], list(facts["head"])
    if corpus:
        rows.append(("text", f"{format_size(corpus['bytes'])} in {counted(corpus['documents'], 'document')}, with "
                     f"{counted(corpus['distinct'], 'distinct chunk')}"))  # fmt: skip
    if other is not None:
        both = other["same"] + other["other_ids"]
        rows.append((other["model"], f"{both:,} tokens are in both, {other['same']:,} of them with the same id; "
                     f"{other['only_here']:,} are only here, {other['only_there']:,} only there"))  # fmt: skip
    if facts["sha256"]:
        rows.append(("events", f"{facts['events']:,}, sha256 {facts['sha256']}"))
    return f"""<section class="card wide" id="origin">
<h2>What was it learned from?</h2>
<dl class="head">{terms(rows)}</dl>
</section>"""


def _card(panel: Panel) -> str:
    """A panel as HTML."""
    parts = [f'<section class="card" id="{panel.name}">', f"<h2>{escape(panel.title)}</h2>"]
    parts.append(f'<p class="answer">{escape(panel.answer)}</p><p>{escape(panel.says)}</p>')
    if panel.legend:
        keys = "".join(f'<li class="s{i}">{escape(name)}</li>' for i, name in enumerate(panel.legend))
        parts.append(f'<ul class="legend">{keys}</ul>')
    head = "<th></th>" * bool(panel.legend)
    head += "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in (panel.x, panel.y))
    parts.append(
        f'{panel.chart}<details><summary>Numbers</summary><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(panel.title)}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{_body(panel.rows)}</tbody></table></div></details>"
    )
    return "".join(parts) + "</section>"


def _body(rows: Iterable[Sequence[Any]]) -> str:
    return "".join("<tr>" + "".join(_td(cell) for cell in row) + "</tr>" for row in rows)


def _td(cell: Any) -> str:
    if isinstance(cell, str):
        return f"<td><code>{_shown(cell)}</code></td>"
    if cell is None:
        return '<td class="n">–</td>'
    return f'<td class="n">{cell:,}</td>' if isinstance(cell, int) else f'<td class="n">{cell:,.4g}</td>'
