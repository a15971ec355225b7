"""The chart of the page, bytes per token by size, as SVG text: no library, no script needed to see it.

Colours and sizes come from the page's style sheet (classes s0, s1, ...), so that one picture serves light and dark.
The points are in a data attribute too: the page's short script shows the values under the pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 28, 42


def short(value: float) -> str:
    """A number as an axis has it: 0, 0.25, 12, 3.5k, 2M, 1.2G."""
    size = abs(value)
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def linear_ticks(high: float) -> list[float]:
    """About five round numbers from 0 to high: [0, 20, 40, 60, 80, 100]."""
    rough = high / 5
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough)
    return [round(i * step, 12) for i in range(math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between low and high; also 2 and 5 times these if they are few; if many, some are left out."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(decades) > 3 else (1, 2, 5)
    ticks = [m * 10.0**d for d in decades for m in steps if low * (1 - 1e-9) <= m * 10.0**d <= high * (1 + 1e-9)]
    return ticks[:: 1 + len(ticks) // 8] or [low]


def size_chart(lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """An SVG with a line for each (name, points): (ids, bytes per token), all above 0; "" if there are no points.

    The x axis is logarithmic; the y axis is linear and begins at 0.
    """
    every = [point for _, points in lines for point in points]
    if not every:
        return ""
    right, base = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    least, top = min(ids for ids, _ in every), max(value for _, value in every)
    most = max(*(ids for ids, _ in every), least * 1.0001)

    def across(ids: float) -> float:
        return round(_LEFT + math.log(ids / least) / math.log(most / least) * (right - _LEFT), 1)

    def up(value: float) -> float:
        return round(base - value / top * (base - _TOP), 1)

    out = [
        f'<svg class="chart" id="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="bytes per token by ids">'
    ]
    for tick in linear_ticks(top):
        at = up(tick)
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}"/>')
        out.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 3.5}" text-anchor="end">{short(tick)}</text>')
    for tick in log_ticks(least, most):
        at = across(tick)
        out.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{base}" y2="{base + 4}"/>')
        out.append(f'<text class="tick" x="{at}" y="{base + 16}" text-anchor="middle">{short(tick)}</text>')
    out.append(
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{base}" y2="{base}"/><text class="label" '
        f'x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">ids (log)</text>'
        f'<text class="label" x="4" y="12">bytes per token</text>'
    )
    for number, (name, points) in enumerate(lines):
        drawn = [[across(ids), up(value), ids, value] for ids, value in points]
        places = " ".join(f"{left},{top}" for left, top, *_ in drawn)
        kind = f"s{number}{' alone' * (len(lines) == 1)}"  # several are told apart by width and dashes, too
        if len(drawn) == 1:
            out.append(f'<circle class="dot {kind}" cx="{drawn[0][0]}" cy="{drawn[0][1]}" r="4"/>')
        else:
            out.append(f'<polyline class="line {kind}" points="{places}"/>')
        out.append(f'<g class="reading" data-name="{escape(name)}" data-points=\'{json.dumps(drawn)}\'></g>')
    return "".join(out) + '<line class="cross" y1="0" y2="0"/></svg>'
