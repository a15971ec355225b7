"""Line charts as SVG text: no library, no script needed to see them.

    line_chart("merge-counts", [Series("merges", [(1, 900), (2, 700)])], x="event", y="count", log_y=True)

Colours and sizes come from the page's style sheet (classes s0, s1, ...), so that one picture serves light and dark.
The points are in a data attribute too: the page's short script shows the values under the pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
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


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most _MOST_POINTS of the points, fewer to the right, as a log axis shows them; the first and the last too."""
    most = len(points)
    if most <= _MOST_POINTS:
        return list(points)
    at = {round(most ** (i / (_MOST_POINTS - 1))) - 1 for i in range(_MOST_POINTS)}
    return [points[i] for i in sorted(at)]


class _Scale:
    """Turns numbers into places along an axis."""

    def __init__(self, values: Iterable[float], start: float, stop: float, log: bool) -> None:
        numbers = list(values)
        low, high = min(numbers), max(numbers)
        self.pick: Callable[[float], float] = math.log10 if log else float
        self.low = low if log else min(low, 0.0)
        self.high = max(high, low * 1.0001) if log else high if high > self.low else self.low + 1
        self.start, self.stop = start, stop
        self.ticks = [(self(tick), short(tick)) for tick in (log_ticks if log else linear_ticks)(self.low, self.high)]

    def __call__(self, value: float) -> float:
        share = (self.pick(value) - self.pick(self.low)) / (self.pick(self.high) - self.pick(self.low))
        return round(self.start + share * (self.stop - self.start), 1)


def line_chart(name: str, series: Sequence[Series], *, x: str, y: str, log_y: bool = False) -> str:
    """An SVG with a line for each series that has points; on a log axis points at or below 0 are left out.

    The x axis is logarithmic. A linear y axis begins at 0. Where there are very many points, a selection is drawn.
    """
    lines = [
        Series(one.name, thinned([(a, b) for a, b in one.points if a > 0 and (b > 0 or not log_y)])) for one in series
    ]
    every = [point for one in lines for point in one.points]
    if not every:
        return ""
    right, base = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    across = _Scale((point[0] for point in every), _LEFT, right, True)
    up = _Scale((point[1] for point in every), base, _TOP, log_y)
    out = [
        f'<svg class="chart" id="chart-{name}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y)} by {escape(x)}">'
    ]
    for at, text in up.ticks:
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}"/>')
        out.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 3.5}" text-anchor="end">{text}</text>')
    for at, text in across.ticks:
        out.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{base}" y2="{base + 4}"/>')
        out.append(f'<text class="tick" x="{at}" y="{base + 16}" text-anchor="middle">{text}</text>')
    out.append(
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{base}" y2="{base}"/><text class="label" '
        f'x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)} (log)</text>'
        f'<text class="label" x="4" y="12">{escape(y)}{" (log)" * log_y}</text>'
    )
    for number, one in enumerate(lines):
        drawn = [[across(a), up(b), a, b] for a, b in one.points]
        places = " ".join(f"{left},{top}" for left, top, *_ in drawn)
        kind = f"s{number}{' alone' * (len(lines) == 1)}"  # several are told apart by width and dashes, too
        if len(drawn) == 1:
            out.append(f'<circle class="dot {kind}" cx="{drawn[0][0]}" cy="{drawn[0][1]}" r="4"/>')
        elif drawn:
            out.append(f'<polyline class="line {kind}" points="{places}"/>')
        if drawn:
            out.append(f'<g class="reading" data-name="{escape(one.name)}" data-points=\'{json.dumps(drawn)}\'></g>')
    return "".join(out) + '<line class="cross" y1="0" y2="0"/></svg>'
