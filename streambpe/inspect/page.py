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
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from streambpe.arguments import arguments
from streambpe.inspect.curves import GrowthFacts, refuse_reading_nothing
from streambpe.inspect.embedded import fill, packed, read_assets
from streambpe.inspect.page_facts import Facts, gather, label
from streambpe.inspect.page_panels import panels, size_table
from streambpe.inspect.page_vocabulary import KINDS
from streambpe.inspect.playground import PlaygroundLeftOut, playground_html
from streambpe.inspect.sizes import grouped, sizes
from streambpe.inspect.verdict import verdict
from streambpe.outputs import refuse_existing, whole_output
from streambpe.plurals import counted
from streambpe.progress import reported
from streambpe.resources import Resources, format_size
from streambpe.results import Result
from streambpe.store.run import Run
from streambpe.store.training_files import log_path
from streambpe.train.balance_texts import Given

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

_MARK = b'<meta name="generator" content="streambpe report">'  # of head.html
_BLANK = '<i class="blank"> </i>'  # drawn by the style sheet: few fonts have a letter for it
_MOST_BYTES = 5_000_000  # of a page with a playground


@dataclass(frozen=True)
class Report(Result):
    """A page that was written, and what it says first."""

    run: str
    training: str
    page: Path
    events: int
    verdict: tuple[str, ...]  # the sentences at its top
    figures: GrowthFacts  # of the whole vocabulary on the text, by their names in `evaluate`; empty while it learns


@reported("measuring")
def report(
    run: Path | str,
    output: Path | str,
    *,
    name: str = "main",
    text: Given | str = (),
    resources: Resources | None = None,
    force: bool = False,
    beside: str | None = None,
    playground: bool = True,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> Report:
    """Write the page of a training to `output`.

    A page that was written before is replaced; any other file only with `force`.

    `text`: measure growth on these instead of on the run's own chunks, and show the table of `sizes`. `beside`: a MODEL
    that is compared with this one. `playground`: also a box to type into, which splits text in the browser, while the
    page stays below 5 MB.
    """
    _, how, resources = arguments("report", options, None, resources)
    texts = [file for files in grouped(text).values() for file in files]
    refuse_reading_nothing(texts, how)
    path = Path(output)
    refuse_existing(path, force or _is_page(path))
    folder = Run.open(run)
    facts = gather(folder, name, texts, resources, how, beside)
    if texts and facts.growth and "-" not in texts:  # standard input is read once
        log = log_path(folder, name)
        facts.sizes = sizes(log, text, resources=resources, lines=how.lines, text_column=how.text_column)
    box = ""
    if playground:
        try:
            box = playground_html(folder, name, beside, texts, how)
            if len(render(facts, box)) > _MOST_BYTES:
                box = _left_out(f"with it the page has more than {format_size(_MOST_BYTES)}.")
        except PlaygroundLeftOut as why:
            box = _left_out(str(why))
    page = render(facts, box)
    with whole_output(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    figures = facts.growth[-1] if facts.growth else {}
    return Report(str(run), name, path, facts.events, tuple(verdict(facts)), figures)


def _left_out(why: str) -> str:
    return f'<p class="wide left-out">There is no playground here: {escape(why)}</p>'


def _is_page(path: Path) -> bool:
    """Whether `report` wrote this file."""
    try:
        with open(path, "rb") as file:
            return _MARK in file.read(4096)
    except OSError:
        return False


def render(facts: Facts, playground: str = "") -> str:
    """The page as HTML; `playground`: its box to type into, as playground_html has made it."""
    title = label(facts)
    vocabulary = fill("vocabulary.html", where=escape(facts.measured_on), kinds=json.dumps(KINDS))
    cards = f"{playground}{vocabulary}<main>{''.join(panel.html for panel in panels(facts))}</main>"
    cards += size_table(facts.sizes) + _origin(facts)
    return fill(
        "report.html",
        head=html_head(f"{title}: a vocabulary"),
        title=escape(title),
        verdict=_sentences(verdict(facts)),
        contents=_contents(cards),
        unpack=read_assets("unpack.js"),
        cards=cards,
        facts=packed(msgspec.json.encode(facts)),
        scripts=read_assets("page.js", "vocabulary.js"),
    )


def _sentences(every: Iterable[str]) -> str:
    code = (re.sub("`(.*?)`", r"<code>\1</code>", escape(sentence)) for sentence in every)
    return "".join(f"<p>{sentence}</p>" for sentence in code)


def _contents(cards: str) -> str:
    """A link to each card."""
    found = re.findall(r'<section class="card[^"]*" id="([\w-]+)"[^>]*>\s*<h2[^>]*>(.*?)</h2>', cards)
    return "".join(f'<a href="#{name}">{title}</a>' for name, title in found)


def html_head(title: str) -> str:
    """The beginning of a page, up to its body."""
    return fill("head.html", title=escape(title), style=read_assets("page.css"))


def terms(rows: Iterable[tuple[str, str]]) -> str:
    """What there is to say about each of some terms, for a <dl>."""
    told = ((escape(name), escape(value).replace("␠", _BLANK)) for name, value in rows if value)
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told)


def _origin(facts: Facts) -> str:
    """What was learned from what, and how."""
    other, corpus, rows = facts.beside, facts.corpus, list(facts.head)
    if corpus:
        rows.append(("text", f"{format_size(corpus['bytes'])} in {counted(corpus['documents'], 'document')}, with "
                     f"{counted(corpus['distinct'], 'distinct chunk')}"))  # fmt: skip
    if other is not None:
        both = other.same + other.other_ids
        rows.append((other.model, f"{both:,} tokens are in both, {other.same:,} of them with the same id; "
                     f"{other.only_here:,} are only here, {other.only_there:,} only there"))  # fmt: skip
    if facts.sha256:
        rows.append(("events", f"{facts.events:,}, sha256 {facts.sha256}"))
    return f"""<section class="card wide" id="origin">
<h2>What was it learned from?</h2>
<dl class="head">{terms(rows)}</dl>
</section>"""
