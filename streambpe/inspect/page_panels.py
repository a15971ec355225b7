"""The cards of the page: heading, verdict, what is shown, and a picture, a list, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from streambpe.inspect.charts import Point, Series, line_chart, thinned
from streambpe.inspect.curves import GrowthFacts, GrowthKey
from streambpe.inspect.page_facts import LISTED, Facts, PointFacts, TokenKey
from streambpe.inspect.page_vocabulary import UNDER_USED, kinds_counted, lengths_counted, under_used
from streambpe.inspect.sample_text import coloured_html
from streambpe.plurals import counted
from streambpe.progress import clock
from streambpe.resources import format_size
from streambpe.text.shown import shown

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


def label(facts: Facts) -> str:
    """What a run is called on the page."""
    name = PurePath(facts["run"]).name
    return name if facts["training"] == "main" else f"{name}:{facts['training']}"


def panels(facts: Facts) -> list[Panel]:
    """The page's cards, in order; those without data say why. Of several runs the verdicts are about the first."""
    found = _panels(facts)
    if facts["others"]:
        mine = label(facts)
        found = [replace(one, verdict=f"{mine}: {one.verdict}") if one.verdict else one for one in found]
    return found


def _panels(facts: Facts) -> list[Panel]:
    return [
        _kinds(facts),
        _lengths(facts),
        _under_used(facts),
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
        _supermerge_share(facts),
        _deletions(facts),
        _batch_sizes(facts),
        _speed(facts),
        _token_list(facts, "longest_superwords", "Longest superwords",
                    "This model has no superwords (--superwords none)."),
        _token_list(facts, "longest_tokens", "Longest tokens", "Nothing was learned yet."),
        _coloured(facts),
        _beside(facts),
        _left_out(facts),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------
# the vocabulary


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
                 kind_bar(kinds), heads=["kind", "ids", "share"], rows=rows, is_list=True)  # fmt: skip


def kind_bar(kinds: Sequence[tuple[str, str, int]]) -> str:
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


def _lengths(facts: Facts) -> Panel:
    title, lengths = "Lengths of tokens", lengths_counted(facts["vocabulary"])
    if not lengths:
        return Panel("lengths", title, "Nothing was learned yet.")
    total = sum(n for _, n in lengths)
    half = next(length for (length, _), so_far in zip(lengths, accumulate(n for _, n in lengths), strict=True)
                if 2 * so_far >= total)  # fmt: skip
    lines = [Series(label(one), [(float(a), float(b)) for a, b in lengths_counted(one["vocabulary"])])
             for one in _every(facts)]  # fmt: skip
    return Panel("lengths", title, "Ids by their length in bytes.",
                 f"Half of the tokens have at most {half} bytes; the longest has {lengths[-1][0]:,}.",
                 line_chart("lengths", lines, x="bytes", y="ids", log_x=True, log_y=True),
                 [line.name for line in lines], ["bytes", "ids"], lengths)  # fmt: skip


def _under_used(facts: Facts) -> Panel:
    title, vocabulary = "Hardly used tokens", facts["vocabulary"]
    if vocabulary["uses"] is None:
        return Panel("under-used", title, _no_growth(facts))
    learned = sum(kind not in "bxrs" for kind in vocabulary["kind"])
    n, rows = under_used(vocabulary, LISTED)
    if not n:
        return Panel("under-used", title, f"No learned token is used fewer than {UNDER_USED} times. {_measured(facts)}")
    return Panel("under-used", title, f"Learned tokens used fewer than {UNDER_USED} times. {_measured(facts)}",
                 f"{n:,} learned tokens ({_percent(n, learned)}) are hardly ever used; a model cannot learn them well.",
                 heads=["token", "id", "uses"], rows=[[_shortened(text), number, uses] for text, number, uses in rows],
                 is_list=True)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------
# lines, of this run and of those beside it


def _every(facts: Facts) -> list[Facts]:
    return [facts, *facts["others"]]


def _lines(facts: Facts, points: Callable[[Facts], Sequence[Point]], name: str) -> list[Series]:
    """A line for each run that has points; with one run only it is called `name`."""
    if not facts["others"]:
        return [Series(name, points(facts))]
    return [Series(label(one), points(one)) for one in _every(facts)]


def _rows(lines: Sequence[Series], log_x: bool = False) -> list[list[Any]]:
    """The numbers behind lines; with more than one, whose they are comes first."""
    named = len(lines) > 1
    return [[*([line.name] if named else []), *point] for line in lines for point in thinned(line.points, log_x)]


def _joins(facts: Facts) -> list[Point]:
    return sorted([*facts["merges"], *facts["supermerges"]])


def _merge_counts(facts: Facts) -> Panel:
    says = "How often the merged pair occurred when it was chosen. Where the line lies low, tokens are rarities."
    joins = _joins(facts)
    if not joins:
        return Panel("merge-counts", "Merge counts", "Nothing was learned yet.")
    if facts["others"]:
        lines = _lines(facts, _joins, "merges")
    else:
        lines = [Series("merges", facts["merges"])]
        if facts["supermerges"]:
            lines.append(Series("supermerges", facts["supermerges"]))
    last = int(joins[-1][1])
    what = "the last tokens are rarities" if last < 100 else "the last tokens are no rarities"
    return Panel("merge-counts", "Merge counts", says, f"The last pair was chosen at a count of {last:,}: {what}.",
                 line_chart("merge-counts", lines, x="event", y="count", log_x=True, log_y=True),
                 [s.name for s in lines], [*[""] * (len(lines) > 1), "event", "count"], _rows(lines, True))  # fmt: skip


def supermerge_shares(facts: Facts) -> list[list[float]]:
    """[(event, share of supermerges among the merges so far)]."""
    made = sorted([(i, 0) for i, _ in facts["merges"]] + [(i, 1) for i, _ in facts["supermerges"]])
    sums = accumulate(is_super for _, is_super in made)
    return [[i, so_far / number] for number, ((i, _), so_far) in enumerate(zip(made, sums, strict=True), 1)]


def _share_points(facts: Facts) -> list[Point]:
    return [(i, share) for i, share in supermerge_shares(facts)] if facts["supermerges"] else []


def _supermerge_share(facts: Facts) -> Panel:
    title = "Share of superwords"
    lines = _lines(facts, _share_points, "share")
    if not any(line.points for line in lines):
        return Panel("super-share", title, "This model has no superwords (--superwords none).")
    share = _percent(len(facts["supermerges"]), len(facts["merges"]) + len(facts["supermerges"]))
    return Panel("super-share", title, "Supermerges among all merges so far.", f"{share} of the merges join words.",
                 line_chart("super-share", lines, x="event", y="share"), [line.name for line in lines],
                 [*[""] * (len(lines) > 1), "event", "share"], _rows(lines))  # fmt: skip


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
    title = "Token frequencies"
    if not facts["frequencies"]:
        return Panel("frequencies", title, _no_growth(facts))
    lines = _lines(facts, lambda one: list(enumerate(one["frequencies"], 1)), "uses")
    every, total = facts["frequencies"], sum(facts["frequencies"])
    head = next(place for place, so_far in enumerate(accumulate(every), 1) if 2 * so_far >= total)
    return Panel("frequencies", title, f"Uses of every token, the most used first. {_measured(facts)}",
                 f"{counted(head, 'id')} ({_percent(head, len(every))} of those used) make half of the text.",
                 line_chart("frequencies", lines, x="rank", y="uses", log_x=True, log_y=True),
                 [line.name for line in lines], [*[""] * (len(lines) > 1), "rank", "uses"],
                 _rows(lines, True))  # fmt: skip


Verdict = Callable[[Sequence[GrowthFacts]], str]


def _compression_verdict(growth: Sequence[GrowthFacts]) -> str:
    last, before = growth[-1], growth[-2] if len(growth) > 1 else None
    now = last["bytes_per_token"]
    if now is None:
        return ""
    says = f"{now:.3f} bytes per token at {last['size']:,} ids"
    if before is None or not before["bytes_per_token"]:
        return f"{says}."
    return f"{says}; from {before['size']:,} ids on that is {now / before['bytes_per_token'] - 1:+.1%}."


def _used_verdict(growth: Sequence[GrowthFacts]) -> str:
    share = growth[-1]["used_share"]
    if share is None:
        return ""
    what = "hardly any is idle" if share >= 0.97 else "some are idle" if share >= 0.85 else "many are idle"
    return f"{share:.1%} of the ids occur: {what}."


def _renyi_verdict(growth: Sequence[GrowthFacts]) -> str:
    known = [(value, stop["size"]) for stop in growth if (value := stop["renyi_vocab"]) is not None]
    if not known:
        return ""
    best, last = max(known), known[-1]
    if best == last:
        return f"{last[0]:.4f} over all ids, the highest of the sizes measured."
    return f"{last[0]:.4f} over all ids at {last[1]:,}; it was highest, {best[0]:.4f}, at {best[1]:,}."


def _growth_panel(
    facts: Facts, name: str, title: str, y: str, keys: Sequence[tuple[GrowthKey, str]], says: str, verdict: Verdict
) -> Panel:
    if not facts["growth"]:
        return Panel(name, title, _no_growth(facts))

    def points(one: Facts, key: GrowthKey) -> list[Point]:
        return [(s["size"], value) for s in one["growth"] if (value := s[key]) is not None]

    if facts["others"]:
        key, what = keys[0]
        series = _lines(facts, lambda one: points(one, key), what)
        y = f"{y}, {what}" if len(keys) > 1 else y
        heads, rows = ["", "ids", what], _rows(series)
    else:
        series = [Series(what, points(facts, key)) for key, what in keys]
        heads = ["ids", *(what for _, what in keys)]
        rows = [[s["size"], *(s[key] for key, _ in keys)] for s in facts["growth"]]
    chart = line_chart(name, series, x="ids", y=y, log_x=True)
    return Panel(name, title, f"{says} {_measured(facts)}", verdict(facts["growth"]), chart,
                 [s.name for s in series], heads, rows)  # fmt: skip


def _deletions(facts: Facts) -> Panel:
    title = "Deletions"
    lines = _lines(facts, lambda one: [(i, n) for n, (i, _) in enumerate(one["deletions"], 1)], "deleted")
    if not any(line.points for line in lines):
        return Panel("deletions", title, "This model takes no token back (it was learned without --tau).")
    joins = len(facts["merges"]) + len(facts["supermerges"])
    n = len(facts["deletions"])
    return Panel("deletions", title, "Tokens taken back so far, by event.",
                 f"Taken back: {counted(n, 'token')}, {_percent(n, joins)} of the merges." if n else "",
                 line_chart("deletions", lines, x="event", y="tokens taken back"),
                 [line.name for line in lines], [*[""] * (len(lines) > 1), "event", "deleted so far"],
                 _rows(lines))  # fmt: skip


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
    title, passes = "Events per pass", facts["passes"]
    lines = _lines(facts, lambda one: [(p["events_so_far"], p["events"]) for p in grouped(one["passes"])], "events")
    if not any(line.points for line in lines):
        return Panel("batches", title, _no_passes(facts))
    mean = sum(p["events"] for p in passes) / max(len(passes), 1)
    return Panel("batches", title, f"Merges proved and made together.{_means(passes)}",
                 f"{mean:,.1f} per pass over {counted(len(passes), 'pass', 'passes')}." if passes else "",
                 line_chart("batches", lines, x="event", y="events per pass", log_y=True),
                 [line.name for line in lines], [*[""] * (len(lines) > 1), "event", "events per pass"],
                 _rows(lines))  # fmt: skip


def _speed(facts: Facts) -> Panel:
    title, passes = "Events per second", facts["passes"]
    lines = _lines(
        facts, lambda one: [(p["seconds_so_far"], p["events_per_second"]) for p in grouped(one["passes"])], "events/s"
    )
    if not any(line.points for line in lines):
        return Panel("speed", title, _no_passes(facts))
    most, says = max((p["memory_bytes"] for p in passes), default=0), ""
    if passes:
        took = passes[-1]["seconds_so_far"]
        spent = f"{took:.1f} s" if took < 60 else clock(took)
        says = f"{counted(passes[-1]['events_so_far'], 'event')} in {spent} of passes."
    return Panel("speed", title, f"At most {format_size(most)} of arrays.{_means(passes)}", says,
                 line_chart("speed", lines, x="seconds", y="events per second", log_y=True),
                 [line.name for line in lines], [*[""] * (len(lines) > 1), "seconds", "events per second"],
                 _rows(lines))  # fmt: skip


def _token_list(facts: Facts, key: TokenKey, title: str, nothing: str) -> Panel:
    name = key.replace("_", "-")
    if not facts[key]:
        return Panel(name, title, nothing)
    rows = [[_shortened(text), length, n] for text, length, n in facts[key]]
    longest = facts[key][0]
    return Panel(name, title, "With the count they were learned at; runs of white space are left out.",
                 f"The longest has {longest[1]:,} bytes.", heads=["token", "bytes", "count"], rows=rows,
                 is_list=True)  # fmt: skip


def _shortened(text: str) -> str:
    """A token as it is shown, even one of 512 spaces."""
    return f"{text[0]} × {len(text)}" if len(text) > 8 and len(set(text)) == 1 else text


def _beside(facts: Facts) -> Panel:
    title, found = "Beside another vocabulary", facts["beside"]
    if found is None:
        return Panel("beside", title, "None was named (--beside MODEL).")
    lines = [Series("of these tokens", found["shared_here"]), Series("of the other's", found["shared_there"])]
    chart = line_chart("beside", lines, x="first tokens", y="share that both have")
    says = (
        f"{found['model']}: {found['same']:,} tokens have the same id in both, {found['other_ids']:,} another. "
        f"{found['only_here']:,} are only here, {found['only_there']:,} only there. The lines: of the first tokens of "
        f"each, by id, the share that both have. Listed are the first {LISTED} of each kind."
    )
    both = found["same"] + found["other_ids"]
    verdict = f"{_percent(both, both + found['only_here'])} of these tokens are in both."
    rows = [[_shortened(token), what, here, there] for token, what, here, there in found["listed"]]
    return Panel("beside", title, says, verdict, chart, [line.name for line in lines],
                 ["token", "", "id here", "id there"], rows, is_list=True)  # fmt: skip


def _coloured(facts: Facts) -> Panel:
    title, models = "A text as tokens", facts["coloured"]
    if not models or not models[0]["ids"]:
        return Panel("coloured", title, "No text was given (--text FILE; with --beside MODEL as both see it).")
    says = "The beginning of the text that was given. A token's id is shown when the pointer is over it."
    verdict = ""
    if len(models) > 1:
        here, there = (len(one["ids"]) for one in models)
        other = models[1]["model"]
        verdict = f"As many tokens as {other} needs." if here == there else (
            f"{abs(there - here) / there:.1%} {'fewer' if here < there else 'more'} tokens than {other} needs."
        )  # fmt: skip
    return Panel("coloured", title, says, verdict, coloured_html(models))


def _left_out(facts: Facts) -> Panel:
    cut, stops = facts["cutoff"], facts["stop_words"]
    says = []
    if stops:
        n = sum(row[1] for row in stops)
        says.append(
            f"The stop list gives an id of their own to {counted(len(stops), 'chunk')}: "
            f"{_percent(n, cut['occurrences'])} of all occurrences."
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
        says.append(f"--block-token vetoed {counted(facts['vetoed'], 'pair')}.")
    rows = [[_shortened(shown(chunk.encode())), n] for chunk, n in stops[:LISTED]]
    heads = ["stop word", "occurrences"] if rows else []
    return Panel("left-out", "Left out", " ".join(says), heads=heads, rows=rows, is_list=True)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "none"
