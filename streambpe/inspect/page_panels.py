"""The cards of the page: a question, the answer in a sentence, what is shown, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import accumulate

import msgspec
from msgspec import structs

from streambpe.inspect.charts import Point, Series, line_chart
from streambpe.inspect.embedded import fill
from streambpe.inspect.page_facts import Facts, label
from streambpe.inspect.verdict import doubled, percent
from streambpe.plurals import counted


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
    """The page's cards for which there are figures, in order. Of several runs the answers are about the first."""
    made = [make(facts) for make in (_sizes, _frequencies, _merge_counts)]
    named = f"{label(facts)}: " if facts.others else ""
    return [structs.replace(panel, answer=named + panel.answer) for panel in made if panel is not None]


def _lines(facts: Facts, points: Callable[[Facts], Sequence[Point]], name: str) -> list[Series]:
    """A line for each run; with one run only it is called `name`."""
    if not facts.others:
        return [Series(name, points(facts))]
    return [Series(label(one), points(one)) for one in [facts, *facts.others]]


def _sizes(facts: Facts) -> Panel | None:
    if not facts.growth:
        return None
    drawn = [(label(one), one.growth) for one in [facts, *facts.others]]
    if facts.beside is not None and facts.beside.growth:
        drawn.append((facts.beside.model, facts.beside.growth))
    lines = [
        Series(name, [(stop["vocab_size"] or 0, stop["bytes_per_token"]) for stop in of if stop["bytes_per_token"]])
        for name, of in drawn
    ]
    return Panel("sizes", "How large should it be?",
                   f"At the last sizes, twice as many ids save {percent(doubled(facts.growth))} of the tokens.",
                   f"How much text a token holds, by the size of the vocabulary. {_measured(facts)}",
                   lines, x="ids", y="bytes per token")  # fmt: skip


def _measured(facts: Facts) -> str:
    if len({one.measured_on for one in [facts, *facts.others]}) > 1:
        return "Every run is measured on its own chunks, or with superwords on its stored documents."
    return f"Measured on {facts.measured_on}."


def _uses(facts: Facts) -> list[int]:
    """How often each token is used that is used at all, the most used first."""
    return sorted(filter(None, facts.vocabulary.uses or ()), reverse=True)


def _frequencies(facts: Facts) -> Panel | None:
    uses = _uses(facts)
    if not uses:
        return None
    total, even = sum(uses), facts.growth[-1]["renyi_vocab"]
    head = next(place for place, so_far in enumerate(accumulate(uses), 1) if 2 * so_far >= total)
    efficiency = "" if even is None else f" Rényi efficiency over all ids: {even:.4f}."
    return Panel("frequencies", "Are the ids used evenly?",
                   f"{counted(head, 'id')} of {len(facts.vocabulary.shown):,} make half of the text.{efficiency}",
                   f"How often each token is used, the most used first. {_measured(facts)}",
                   _lines(facts, lambda one: list(enumerate(_uses(one), 1)), "uses"),
                   x="rank", y="uses", log_y=True)  # fmt: skip


def _joins(facts: Facts) -> list[Point]:
    return sorted([*facts.merges, *facts.supermerges])


def _merge_counts(facts: Facts) -> Panel | None:
    joins = _joins(facts)
    if not joins:
        return None
    if facts.supermerges and not facts.others:
        lines = [Series("merges", facts.merges), Series("supermerges", facts.supermerges)]
    else:
        lines = _lines(facts, _joins, "merges")
    return Panel("merge-counts", "How rare are the last tokens?",
                   f"The last pair was merged at a count of {int(joins[-1][1]):,}, the first at {int(joins[0][1]):,}.",
                   "How often each pair occurred when it was merged.", lines,
                   x="event", y="count", log_y=True)  # fmt: skip
