"""The cards of the page: a question, the answer in a sentence, what is shown, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate

import msgspec

from streambpe.inspect.charts import Series, line_chart
from streambpe.inspect.embedded import fill
from streambpe.inspect.page_facts import Facts, label
from streambpe.inspect.sizes import RARE, SizeFacts, size_cells
from streambpe.inspect.verdict import doubled, percent
from streambpe.plurals import counted
from streambpe.text.shown import harmless


class Panel(msgspec.Struct, frozen=True):
    """One card of the page: a question, its answer, and lines."""

    name: str
    title: str
    answer: str
    says: str  # what the picture shows
    lines: Sequence[Series]
    x: str
    y: str
    log_y: bool = False

    @property
    def html(self) -> str:
        """The card. page.js puts the numbers of its lines into a table below it."""
        several = len(self.lines) > 1
        keys = "".join(f'<li class="s{i}">{escape(line.name)}</li>' for i, line in enumerate(self.lines))
        return fill(
            "panel.html",
            **{key: escape(getattr(self, key)) for key in ("name", "title", "answer", "says", "x", "y")},
            legend=f'<ul class="legend">{keys}</ul>' * several,
            chart=line_chart(self.name, self.lines, x=self.x, y=self.y, log_y=self.log_y),
            named="<th></th>" * several,
        )


def panels(facts: Facts) -> list[Panel]:
    """The page's cards for which there are figures, in order."""
    made = [make(facts) for make in (_sizes, _frequencies, _merge_counts)]
    return [panel for panel in made if panel is not None]


def _sizes(facts: Facts) -> Panel | None:
    if not facts.growth:
        return None
    drawn = [(label(facts), facts.growth)]
    if facts.beside is not None and facts.beside.growth:
        drawn.append((facts.beside.model, facts.beside.growth))
    lines = [
        Series(name, [(stop["vocab_size"] or 0, stop["bytes_per_token"]) for stop in of if stop["bytes_per_token"]])
        for name, of in drawn
    ]
    return Panel("sizes", "How large should it be?",
                   f"At the last sizes, twice as many ids save {percent(doubled(facts.growth))} of the tokens.",
                   f"How much text a token holds, by the size of the vocabulary. Measured on {facts.measured_on}.",
                   lines, x="ids", y="bytes per token")  # fmt: skip


def _frequencies(facts: Facts) -> Panel | None:
    uses = sorted(filter(None, facts.vocabulary.uses or ()), reverse=True)
    if not uses:
        return None
    total, even = sum(uses), facts.growth[-1]["renyi_vocab"]
    head = next(place for place, so_far in enumerate(accumulate(uses), 1) if 2 * so_far >= total)
    efficiency = "" if even is None else f" Rényi efficiency over all ids: {even:.4f}."
    return Panel("frequencies", "Are the ids used evenly?",
                   f"{counted(head, 'id')} of {len(facts.vocabulary.shown):,} make half of the text.{efficiency}",
                   f"How often each token is used, the most used first. Measured on {facts.measured_on}.",
                   [Series("uses", list(enumerate(uses, 1)))], x="rank", y="uses", log_y=True)  # fmt: skip


def _merge_counts(facts: Facts) -> Panel | None:
    joins = sorted([*facts.merges, *facts.supermerges])
    if not joins:
        return None
    lines = [Series("merges", facts.merges), *([Series("supermerges", facts.supermerges)] if facts.supermerges else [])]
    return Panel("merge-counts", "How rare are the last tokens?",
                   f"The last pair was merged at a count of {int(joins[-1][1]):,}, the first at {int(joins[0][1]):,}.",
                   "How often each pair occurred when it was merged.", lines,
                   x="event", y="count", log_y=True)  # fmt: skip


def size_table(found: Sequence[SizeFacts]) -> str:
    """The card with the table of `sizes`; nothing without texts."""
    if not found:
        return ""
    heads, *rows = size_cells(found)
    whole = {one.group: one.bytes_per_token or 0.0 for one in found if one.vocab_size == found[0].vocab_size}
    best, worst = (choose(whole, key=whole.__getitem__) for choose in (max, min))
    answer = f"With all its ids, a token holds {whole[best]:.2f} bytes of {best}, and {whole[worst]:.2f} of {worst}."
    return fill(
        "sizes.html",
        answer=escape(harmless(answer)) if best != worst else "",
        heads=_row(heads, "th"),
        rows="".join(_row(row, "td") for row in rows),
        rare=RARE,
    )


def _row(cells: Sequence[str], kind: str) -> str:
    first, *rest = (escape(harmless(cell)) for cell in cells)
    numbers = "".join(f'<{kind} class="n">{number}</{kind}>' for number in rest)
    return f"<tr><{kind}>{first}</{kind}>{numbers}</tr>"
