"""One page about a model: how good it is, which tokens it has, and how they are used. One file that fetches nothing.

    facts    what the page says, plain numbers and lists            (page_facts.gather)
    verdict  the sentences at its top                               (verdict.verdict)
    page     HTML with its style and script inside                  (render)

All of `facts` is in the page too (the element `facts`: JSON, gzip, base64), so its numbers can be taken from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from streambpe.arguments import arguments
from streambpe.errors import UsageError
from streambpe.inspect.charts import size_chart
from streambpe.inspect.curves import GrowthFacts
from streambpe.inspect.embedded import fill, packed, read_assets
from streambpe.inspect.page_facts import BesideFacts, Facts, gather
from streambpe.inspect.page_vocabulary import KINDS
from streambpe.inspect.playground import PlaygroundLeftOut, playground_html
from streambpe.inspect.sizes import RARE, SizeFacts, grouped, size_cells, sizes
from streambpe.inspect.verdict import doubled, percent, verdict
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import reported
from streambpe.resources import Resources, format_size
from streambpe.results import Result
from streambpe.store.models import read_model
from streambpe.text.shown import harmless
from streambpe.train.balance_texts import Given

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

_MARK = b'<meta name="generator" content="streambpe report">'  # of head.html
_MOST_BYTES = 5_000_000  # of a page with a playground


@dataclass(frozen=True)
class Report(Result):
    """A page that was written, and what it says first."""

    model: str
    page: Path
    events: int
    verdict: tuple[str, ...]  # the sentences at its top
    figures: GrowthFacts  # of the whole vocabulary on the text, by their names in `evaluate`


@reported("measuring")
def report(
    model: str | os.PathLike[str],
    output: Path | str,
    *,
    text: Given | str = (),
    resources: Resources | None = None,
    force: bool = False,
    beside: str | os.PathLike[str] | None = None,
    playground: bool = True,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> Report:
    """Write a page about a MODEL to `output`.

    A page that was written before is replaced; any other file only with `force`.

    `text`: measure on these instead of on what the model's RUN has counted, and show the table of `sizes`. `beside`: a
    MODEL that is compared with this one on these texts. `playground`: also a box to type into, which splits text in the
    browser, while the page stays below 5 MB.
    """
    _, how, resources = arguments("report", options, None, resources)
    texts = [file for files in grouped(text).values() for file in files]
    if beside is not None and not texts:
        raise UsageError(
            f"--beside {beside}: two models are compared on a text, best one that neither learned from. Nothing was "
            "written. Name it with --text FILE."
        )
    path = Path(output)
    refuse_existing(path, force or _is_page(path))
    log, rival = read_model(model), None if beside is None else read_model(beside)
    facts = gather(model, log, texts, resources, how, beside, rival)
    if texts and "-" not in texts:  # standard input is read once
        facts.sizes = sizes(model, text, resources=resources, lines=how.lines, text_column=how.text_column)
    box = ""
    if playground:
        try:
            box = playground_html(log, facts.beside.model if facts.beside else "", rival)
            if len(render(facts, box)) > _MOST_BYTES:
                raise PlaygroundLeftOut(f"with it the page has more than {format_size(_MOST_BYTES)}.")
        except PlaygroundLeftOut as why:
            box = f'<p class="wide left-out">There is no playground here: {escape(str(why))}</p>'
    page = render(facts, box)
    with whole_output(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Report(str(model), path, len(log.events), tuple(verdict(facts)), facts.growth[-1])


def _is_page(path: Path) -> bool:
    """Whether `report` wrote this file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return _MARK in file.read(4096)
    return False


def render(facts: Facts, playground: str = "") -> str:
    """The page as HTML; `playground`: its box to type into, as playground_html has made it."""
    title = facts.model
    vocabulary = fill("vocabulary.html", where=escape(facts.measured_on), kinds=json.dumps(KINDS))
    origin = fill("origin.html", rows=_terms(facts.head))
    cards = f"{playground}{vocabulary}<main>{_sizes(facts)}{origin}{_groups(facts.sizes)}</main>"
    return fill(
        "report.html",
        head=fill("head.html", title=escape(f"{title}: a vocabulary"), style=read_assets("page.css")),
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


def _groups(found: Sequence[SizeFacts]) -> str:
    """The card with the table of `sizes`; nothing without texts."""
    if not found:
        return ""
    heads, *rows = size_cells(found)
    whole = {one.group: one.bytes_per_token or 0.0 for one in found if one.vocab_size == found[0].vocab_size}
    best, worst = (choose(whole, key=whole.__getitem__) for choose in (max, min))
    answer = f"With all its ids, a token holds {whole[best]:.2f} bytes of {best}, and {whole[worst]:.2f} of {worst}."
    return fill(
        "groups.html",
        answer=escape(harmless(answer)) if best != worst else "",
        heads=_row(heads, "th"),
        rows="".join(_row(row, "td") for row in rows),
        rare=RARE,
    )


def _row(cells: Sequence[str], kind: str) -> str:
    first, *rest = (escape(harmless(cell)) for cell in cells)
    numbers = "".join(f'<{kind} class="n">{number}</{kind}>' for number in rest)
    return f"<tr><{kind}>{first}</{kind}>{numbers}</tr>"


def _contents(cards: str) -> str:
    """A link to each card."""
    found = re.findall(r'<section class="card[^"]*" id="([\w-]+)"[^>]*>\s*<h2[^>]*>(.*?)</h2>', cards)
    return "".join(f'<a href="#{name}">{title}</a>' for name, title in found)


def _sizes(facts: Facts) -> str:
    """The card with the curve. page.js puts its numbers into a table below it."""
    shown: list[Facts | BesideFacts] = [facts, facts.beside] if facts.beside else [facts]
    lines = [(one.model, _points(one.growth)) for one in shown]
    several = len(lines) > 1
    keys = "".join(f'<li class="s{i}">{escape(name)}</li>' for i, (name, _) in enumerate(lines))
    return fill(
        "sizes.html",
        saved=percent(doubled(facts.growth)),
        where=escape(facts.measured_on),
        legend=f'<ul class="legend">{keys}</ul>' * several,
        chart=size_chart(lines),
        named="<th></th>" * several,
    )


def _points(growth: Iterable[GrowthFacts]) -> list[tuple[float, float]]:
    """(ids, bytes per token) of every size, where there is text."""
    return [(stop["vocab_size"] or 0, stop["bytes_per_token"]) for stop in growth if stop["bytes_per_token"]]


def _terms(rows: Iterable[tuple[str, str]]) -> str:
    """What there is to say about each of some terms, for a <dl>."""
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows if value)
