"""Line charts as SVG text: no library, no script needed to see them.

    line_chart("merge-counts", [Series("merges", [(1, 900), (2, 700)])], x="event", y="count", log_x=True, log_y=True)

Colours and sizes come from the page's style sheet (classes s0, s1, ...), so that one picture serves light and dark.
The points are in a data attribute too: the page's short script shows the values under the pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 28, 42
_MOST_POINTS = 400  # drawn in a line; the eye sees no more

Point = tuple[float, float]


class Series(msgspec.Struct, frozen=True):
    """One line."""

    name: str
    points: Sequence[Point]


def short(value: float) -> str:
    """A number as an axis has it: 0, 0.25, 12, 3.5k, 2M, 1.2G."""
    size = abs(value)
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between low and high: [0, 50, 100]."""
    if high <= low:
        return [low]
    rough = (high - low) / wanted
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between low and high; also 2 and 5 times these if they are few; if many, some are left out."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(decades) > 3 else (1, 2, 5)
    ticks = [m * 10.0**d for d in decades for m in steps if low * (1 - 1e-9) <= m * 10.0**d <= high * (1 + 1e-9)]
    return ticks[:: 1 + len(ticks) // 8] or [low]


def thinned(points: Sequence[Point], log_x: bool = False) -> list[Point]:
    """At most _MOST_POINTS of the points, including the first and the last."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    last = len(points) - 1
    if log_x:
        at = {round(math.exp(math.log(last + 1) * i / (_MOST_POINTS - 1))) - 1 for i in range(_MOST_POINTS)}
    else:
        at = {round(last * i / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)}
    return [points[i] for i in sorted(at)]


class _Scale:
    """Turns numbers into places along an axis."""

    def __init__(self, values: Sequence[float], start: float, stop: float, log: bool) -> None:
        low, high = min(values), max(values)
        self.log, self.start, self.stop = log, start, stop
        self.low = low if log else min(low, 0.0)
        self.high = max(high, low * 1.0001) if log else high if high > self.low else self.low + 1
        self.ticks = (log_ticks if log else linear_ticks)(self.low, self.high)

    def __call__(self, value: float) -> float:
        pick: Callable[[float], float] = math.log10 if self.log else float
        share = (pick(value) - pick(self.low)) / (pick(self.high) - pick(self.low))
        return round(self.start + share * (self.stop - self.start), 1)


def line_chart(
    name: str,
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """An SVG with a line for each series that has points; on a log axis points at or below 0 are left out.

    Linear axes begin at 0. Where there are very many points, a selection is drawn.
    """
    lines = []
    for one in series:
        points = [p for p in one.points if (p[0] > 0 or not log_x) and (p[1] > 0 or not log_y)]
        lines.append(Series(one.name, thinned(points, log_x)))
    every = [point for one in lines for point in one.points]
    if not every:
        return ""
    across = _Scale([p[0] for p in every], _LEFT, WIDTH - _RIGHT, log_x)
    up = _Scale([p[1] for p in every], HEIGHT - _BOTTOM, _TOP, log_y)
    out = [
        f'<svg class="chart" id="chart-{name}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y)} by {escape(x)}">'
    ]
    for tick in up.ticks:
        at = up(tick)
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
        out.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 3.5}" text-anchor="end">{short(tick)}</text>')
    for tick in across.ticks:
        at = across(tick)
        out.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 4}"/>')
        out.append(f'<text class="tick" x="{at}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{short(tick)}</text>')
    base = HEIGHT - _BOTTOM
    out.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>')
    out.append(
        f'<text class="label" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x)}{' (log)' if log_x else ''}</text>"
    )
    out.append(f'<text class="label" x="4" y="12">{escape(y)}{" (log)" if log_y else ""}</text>')
    for number, one in enumerate(lines):
        if not one.points:
            continue
        places = " ".join(f"{across(px)},{up(py)}" for px, py in one.points)
        if len(one.points) == 1:
            cx, cy = places.split(",")
            out.append(f'<circle class="dot s{number}" cx="{cx}" cy="{cy}" r="4"/>')
        else:
            alone = (
                " alone" if len(lines) == 1 else ""
            )  # lines that lie on each other are told apart by width and dashes
            out.append(f'<polyline class="line s{number}{alone}" points="{places}"/>')
        drawn = [[across(px), up(py), px, py] for px, py in one.points]
        out.append(
            f'<g class="reading" data-name="{escape(one.name)}" data-series="{number}" '
            f"data-points='{json.dumps(drawn)}'></g>"
        )
    out.append('<line class="cross" y1="0" y2="0"/></svg>')
    return "".join(out)
