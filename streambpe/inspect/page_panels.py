"""The cards of the page: heading, verdict, what is shown, and a picture, a list, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import structs

from streambpe.inspect.charts import Point, Series, line_chart, thinned
from streambpe.inspect.page_facts import Facts
from streambpe.plurals import counted
from streambpe.progress import clock


class Panel(msgspec.Struct, frozen=True):
    """One card of the page."""

    name: str
    title: str
    says: str
    verdict: str = ""  # what the picture says, in a sentence
    chart: str = ""  # SVG
    legend: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()  # the numbers behind the picture


def picture(
    name: str,
    title: str,
    says: str,
    verdict: str,
    lines: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> Panel:
    """A card of lines and the numbers behind them; with more than one line, whose they are comes first."""
    named = len(lines) > 1
    chart = line_chart(name, lines, x=x, y=y, log_x=log_x, log_y=log_y)
    rows = [[*([line.name] if named else []), *point] for line in lines for point in thinned(line.points, log_x)]
    heads = ["", x, y] if named else [x, y]
    return Panel(name, title, says, verdict, chart, [line.name for line in lines], heads, rows)


def label(facts: Facts) -> str:
    """What a run is called on the page."""
    return facts["run"] if facts["training"] == "main" else f"{facts['run']}:{facts['training']}"


def panels(facts: Facts) -> list[Panel]:
    """The page's cards, in order; those without data say why. Of several runs the verdicts are about the first."""
    every = [
        _growth_panel(facts, "compression", "Bytes per token", "bytes per token", [("bytes_per_token", "bytes")],
                      "How much text a token holds on average, by the size of the vocabulary.", _compression_verdict),
        _growth_panel(facts, "renyi", "Rényi efficiency", "efficiency", [("renyi_vocab", "over all ids"),
                      ("renyi", "over ids that occur")],
                      "How evenly the ids are used (alpha 2.5): 1 if all alike, near 0 if a few do everything.",
                      _renyi_verdict),
        _frequencies(facts),
        _merge_counts(facts),
        _speed(facts),
        _beside(facts),
    ]  # fmt: skip
    if facts["others"]:
        mine = label(facts)
        every = [structs.replace(one, verdict=f"{mine}: {one.verdict}") if one.verdict else one for one in every]
    return every


# ---------------------------------------------------------------------------------------------------------
# lines, of this run and of those beside it


def _lines(facts: Facts, points: Callable[[Facts], Sequence[Point]], name: str) -> list[Series]:
    """A line for each run; with one run only it is called `name`."""
    if not facts["others"]:
        return [Series(name, points(facts))]
    return [Series(label(one), points(one)) for one in [facts, *facts["others"]]]


def _joins(facts: Facts) -> list[Point]:
    return sorted([*facts["merges"], *facts["supermerges"]])


def _merge_counts(facts: Facts) -> Panel:
    title, joins = "Merge counts", _joins(facts)
    if not joins:
        return Panel("merge-counts", title, "Nothing was learned yet.")
    if facts["supermerges"] and not facts["others"]:
        lines = [Series("merges", facts["merges"]), Series("supermerges", facts["supermerges"])]
    else:
        lines = _lines(facts, _joins, "merges")
    says = "How often the merged pair occurred when it was chosen. Where the line lies low, tokens are rarities."
    last = int(joins[-1][1])
    what = "the last tokens are rarities" if last < 100 else "the last tokens are no rarities"
    return picture("merge-counts", title, says, f"The last pair was chosen at a count of {last:,}: {what}.", lines,
                   x="event", y="count", log_x=True, log_y=True)  # fmt: skip


def _no_growth(facts: Facts) -> str:
    learns = facts["state"] != "done"
    return "Not measured while the run still learns." if learns else "There is nothing to measure it on."


def _measured(facts: Facts) -> str:
    if len({one["measured_on"] for one in [facts, *facts["others"]]}) > 1:
        return "Every run is measured on its own chunks, or with superwords on its stored documents."
    return f"Measured on {facts['measured_on']}."


def _uses(facts: Facts) -> list[int]:
    """How often each token is used that is used at all, the most used first."""
    return sorted(filter(None, facts["vocabulary"]["uses"] or ()), reverse=True)


def _frequencies(facts: Facts) -> Panel:
    title, uses = "Token frequencies", _uses(facts)
    if not uses:
        return Panel("frequencies", title, _no_growth(facts))
    total = sum(uses)
    head = next(place for place, so_far in enumerate(accumulate(uses), 1) if 2 * so_far >= total)
    return picture("frequencies", title, f"Uses of every token, the most used first. {_measured(facts)}",
                   f"{counted(head, 'id')} ({_percent(head, len(uses))} of those used) make half of the text.",
                   _lines(facts, lambda one: list(enumerate(_uses(one), 1)), "uses"),
                   x="rank", y="uses", log_x=True, log_y=True)  # fmt: skip


Verdict = Callable[[Facts], str]


def _compression_verdict(facts: Facts) -> str:
    growth = facts["growth"]
    last, before = growth[-1], growth[-2] if len(growth) > 1 else None
    now = last["bytes_per_token"]
    if now is None:
        return ""
    says = f"{now:.3f} bytes per token at {last['vocab_size']:,} ids"
    if before is None or not before["bytes_per_token"]:
        return f"{says}."
    return f"{says}; from {before['vocab_size']:,} ids on that is {now / before['bytes_per_token'] - 1:+.1%}."


def _renyi_verdict(facts: Facts) -> str:
    known = [(value, stop["vocab_size"]) for stop in facts["growth"] if (value := stop["renyi_vocab"]) is not None]
    if not known:
        return ""
    best, last = max(known), known[-1]
    if best == last:
        return f"{last[0]:.4f} over all ids, the highest of the sizes measured."
    return f"{last[0]:.4f} over all ids at {last[1]:,}; it was highest, {best[0]:.4f}, at {best[1]:,}."


def _growth_panel(
    facts: Facts, name: str, title: str, y: str, keys: Sequence[tuple[str, str]], says: str, verdict: Verdict
) -> Panel:
    """Of several runs only the first of `keys` is drawn."""
    if not facts["growth"]:
        return Panel(name, title, _no_growth(facts))
    if facts["others"] and len(keys) > 1:
        y, keys = f"{y}, {keys[0][1]}", keys[:1]

    def points(key: str) -> Callable[[Facts], list[Point]]:
        return lambda one: [
            (float(stop["vocab_size"] or 0), value) for stop in one["growth"] if (value := stop[key]) is not None
        ]

    lines = [line for key, what in keys for line in _lines(facts, points(key), what)]
    return picture(name, title, f"{says} {_measured(facts)}", verdict(facts), lines, x="ids", y=y, log_x=True)


def _speed(facts: Facts) -> Panel:
    title, passes = "Events over time", facts["passes"]
    lines = _lines(facts, lambda one: one["passes"], "events")
    if not any(line.points for line in lines):
        joined = facts["config"].get("superwords", "none") != "none"
        return Panel("speed", title, "With superwords passes are not kept: words and superwords are put in one order."
                     if joined else "No pass is in the tables.")  # fmt: skip
    verdict = ""
    if passes:
        took, events = passes[-1]
        spent = f"{took:.1f} s" if took < 60 else clock(took)
        verdict = (
            f"{counted(events, 'event')} in {counted(len(passes), 'pass', 'passes')}, {events / len(passes):,.1f} "
            f"each, which took {spent}: {events / took:,.0f} a second."
        )
    says = "How far learning was after each of its passes; where the line is steep, it was fast."
    return picture("speed", title, says, verdict, lines, x="seconds", y="events")


def _beside(facts: Facts) -> Panel:
    title, other = "Beside another vocabulary", facts["beside"]
    if other is None:
        return Panel("beside", title, "None was named (--beside MODEL).")
    says = (
        f"{other['model']}: {other['same']:,} tokens have the same id in both, {other['other_ids']:,} another. "
        f"{other['only_here']:,} are only here, {other['only_there']:,} only there: `streambpe diff` lists them. The "
        f"lines: of the first tokens of each, by id, the share that both have."
    )
    both = other["same"] + other["other_ids"]
    lines = [Series("of these tokens", other["shared_here"]), Series("of the other's", other["shared_there"])]
    return picture("beside", title, says, f"{_percent(both, both + other['only_here'])} of these tokens are in both.",
                   lines, x="first tokens", y="share that both have")  # fmt: skip


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "none"
