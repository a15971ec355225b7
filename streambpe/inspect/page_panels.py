"""The cards of the page: heading, verdict, what is shown, and a picture, a list, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from streambpe.inspect.charts import Point, Series, line_chart, thinned
from streambpe.inspect.curves import GrowthKey
from streambpe.inspect.page_facts import Facts, PassFacts
from streambpe.inspect.page_vocabulary import kinds_counted
from streambpe.plurals import counted
from streambpe.progress import clock
from streambpe.resources import format_size

_MOST_PASSES = 120  # drawn one by one; if there are more, means are drawn


@dataclass(frozen=True)
class Panel:
    """One card of the page."""

    name: str
    title: str
    says: str
    verdict: str = ""  # what the picture says, in a sentence
    chart: str = ""  # SVG
    legend: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()  # the numbers behind the picture, or a list that is the picture
    is_list: bool = False


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
    name = PurePath(facts["run"]).name
    return name if facts["training"] == "main" else f"{name}:{facts['training']}"


def panels(facts: Facts) -> list[Panel]:
    """The page's cards, in order; those without data say why. Of several runs the verdicts are about the first."""
    every = [
        _kinds(facts),
        _growth_panel(facts, "compression", "Bytes per token", "bytes per token", [("bytes_per_token", "bytes")],
                      "How much text a token holds on average, by the size of the vocabulary.", _compression_verdict),
        _growth_panel(facts, "used", "Vocabulary used", "share of the ids", [("used_share", "share used")],
                      "Share of the ids that occur at all, by the size of the vocabulary.", _used_verdict),
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
        every = [replace(one, verdict=f"{mine}: {one.verdict}") if one.verdict else one for one in every]
    return every


def _kinds(facts: Facts) -> Panel:
    title, vocabulary = "Kinds of tokens", facts["vocabulary"]
    size = len(vocabulary["kind"])
    if not size:
        return Panel("kinds", title, "Nothing was learned yet.")
    kinds = kinds_counted(vocabulary)
    most = max((row for row in kinds if row[0] != "b"), key=lambda row: row[2], default=kinds[0])
    rows = [[name, n, f"{n / size:.1%}"] for _, name, n in kinds]
    return Panel("kinds", title, "All ids by what they stand for.",
                 f"Most common: {most[1]}, {_percent(most[2], size)}.",
                 _kind_bar(kinds), heads=["kind", "ids", "share"], rows=rows, is_list=True)  # fmt: skip


def _kind_bar(kinds: Sequence[tuple[str, str, int]]) -> str:
    """One bar, a stretch for each kind."""
    total = sum(n for _, _, n in kinds)
    out = ['<svg class="bar" viewBox="0 0 440 26" preserveAspectRatio="none" role="img" aria-label="kinds of tokens">']
    at = 0.0
    for place, (_, name, n) in enumerate(kinds):
        wide = 440 * n / total
        out.append(
            f'<rect class="k{place}" x="{at:.2f}" y="0" width="{wide:.2f}" height="26">'
            f"<title>{name}: {counted(n, 'id')}, {n / total:.1%}</title></rect>"
        )
        at += wide
    return "".join(out) + "</svg>"


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
    where = facts["measured_on"]
    on = where if isinstance(where, str) else ", ".join(where)
    if facts["others"] and isinstance(where, str):
        return "Every run is measured on its own chunks, or with superwords on its stored documents."
    return f"Measured on {on}."


def _frequencies(facts: Facts) -> Panel:
    title, uses = "Token frequencies", facts["frequencies"]
    if not uses:
        return Panel("frequencies", title, _no_growth(facts))
    total = sum(uses)
    head = next(place for place, so_far in enumerate(accumulate(uses), 1) if 2 * so_far >= total)
    return picture("frequencies", title, f"Uses of every token, the most used first. {_measured(facts)}",
                   f"{counted(head, 'id')} ({_percent(head, len(uses))} of those used) make half of the text.",
                   _lines(facts, lambda one: list(enumerate(one["frequencies"], 1)), "uses"),
                   x="rank", y="uses", log_x=True, log_y=True)  # fmt: skip


Verdict = Callable[[Facts], str]


def _compression_verdict(facts: Facts) -> str:
    growth = facts["growth"]
    last, before = growth[-1], growth[-2] if len(growth) > 1 else None
    now = last["bytes_per_token"]
    if now is None:
        return ""
    says = f"{now:.3f} bytes per token at {last['size']:,} ids"
    if before is None or not before["bytes_per_token"]:
        return f"{says}."
    return f"{says}; from {before['size']:,} ids on that is {now / before['bytes_per_token'] - 1:+.1%}."


def _used_verdict(facts: Facts) -> str:
    share = facts["growth"][-1]["used_share"]
    if share is None:
        return ""
    what = "hardly any is idle" if share >= 0.97 else "some are idle" if share >= 0.85 else "many are idle"
    return f"{share:.1%} of the ids occur: {what}."


def _renyi_verdict(facts: Facts) -> str:
    known = [(value, stop["size"]) for stop in facts["growth"] if (value := stop["renyi_vocab"]) is not None]
    if not known:
        return ""
    best, last = max(known), known[-1]
    if best == last:
        return f"{last[0]:.4f} over all ids, the highest of the sizes measured."
    return f"{last[0]:.4f} over all ids at {last[1]:,}; it was highest, {best[0]:.4f}, at {best[1]:,}."


def _growth_panel(
    facts: Facts, name: str, title: str, y: str, keys: Sequence[tuple[GrowthKey, str]], says: str, verdict: Verdict
) -> Panel:
    """Of several runs only the first of `keys` is drawn."""
    if not facts["growth"]:
        return Panel(name, title, _no_growth(facts))
    if facts["others"] and len(keys) > 1:
        y, keys = f"{y}, {keys[0][1]}", keys[:1]

    def points(key: GrowthKey) -> Callable[[Facts], list[Point]]:
        return lambda one: [(stop["size"], value) for stop in one["growth"] if (value := stop[key]) is not None]

    lines = [line for key, what in keys for line in _lines(facts, points(key), what)]
    return picture(name, title, f"{says} {_measured(facts)}", verdict(facts), lines, x="ids", y=y, log_x=True)


def _group_of(passes: Sequence[PassFacts]) -> int:
    """How many neighbouring passes make a point."""
    return -(-len(passes) // _MOST_PASSES) or 1


def speeds(passes: Sequence[PassFacts]) -> list[Point]:
    """[(seconds so far, events per second)] of the passes; where there are very many, of groups of neighbours."""
    size, points, before = _group_of(passes), [], 0.0
    for start in range(0, len(passes), size):
        some = passes[start : start + size]
        now = some[-1]["seconds_so_far"]
        points.append((now, sum(one["events"] for one in some) / (now - before)))
        before = now
    return points


def _speed(facts: Facts) -> Panel:
    title, passes = "Events per second", facts["passes"]
    lines = _lines(facts, lambda one: speeds(one["passes"]), "events/s")
    if not any(line.points for line in lines):
        joined = facts["config"].get("superwords", "none") != "none"
        return Panel("speed", title, "With superwords passes are not kept: words and superwords are put in one order."
                     if joined else "No pass is in the tables.")  # fmt: skip
    says = f"At most {format_size(max((p['memory_bytes'] for p in passes), default=0))} of arrays."
    if (size := _group_of(passes)) > 1:
        says += f" A point is the mean of {size} passes."
    verdict = ""
    if passes:
        took = passes[-1]["seconds_so_far"]
        spent = f"{took:.1f} s" if took < 60 else clock(took)
        mean = sum(p["events"] for p in passes) / len(passes)
        verdict = (
            f"{counted(passes[-1]['events_so_far'], 'event')} in {counted(len(passes), 'pass', 'passes')}, {mean:,.1f} "
            f"each, which took {spent}."
        )
    return picture("speed", title, says, verdict, lines, x="seconds", y="events per second", log_y=True)


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
