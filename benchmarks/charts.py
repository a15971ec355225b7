"""Pictures for docs/, as SVG that can be read on white and on black: bars of contenders, lines of curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from measured import Row

OURS, OTHERS, WORDS = "#2a7de1", "#9a9a9a", "#777"
COLOURS = (OURS, "#e0663a", "#3aa66a", "#a05fd0", "#c9a227", "#d14a8b", "#29a3a3", "#8a6d5a")
_LEFT, _WIDTH, _BAR = 200, 320, 30  # no wider, so that a phone can show it
_PLOT = (56, 34, 448, 250)  # left, top, width, height
_KEY = 20  # height of a line of the key
FEW = 12  # points of a line that are drawn as dots, too

Points = Sequence[tuple[float, float]]


def short(value: float) -> str:
    """With as many digits as it takes to compare."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(title: str, rows: Sequence[Row], is_ours: Sequence[bool]) -> str:
    """A bar for each row: its median time; its memory in words."""
    longest = max(row.median("wall_s") for row in rows)
    heading = f"{escape(title)}: seconds, memory at most"
    lines = _begun(heading, _LEFT + _WIDTH, _BAR * len(rows) + 40)
    for place, (row, ours) in enumerate(zip(rows, is_ours, strict=True)):
        top, seconds = 30 + _BAR * place, row.median("wall_s")
        length = max(1, round((_WIDTH - 130) * seconds / longest))
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 16}" text-anchor="end" fill="{WORDS}">{escape(row.name)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{length}" height="22" rx="3" fill="{OURS if ours else OTHERS}"/>',
            f'<text x="{_LEFT + length + 8}" y="{top + 16}" fill="{WORDS}">{short(seconds)} s, '
            f"{max(row.figures['peak_MB']):.0f} MB</text>",
        ]
    return "\n".join([*lines, "</svg>\n"])


def curves(title: str, x_title: str, series: Mapping[str, Points], log_x: bool = False, log_y: bool = False) -> str:
    """A line for each series, with a key below."""
    every = [point for points in series.values() for point in points]
    x_of, x_ticks = _scale([x for x, _ in every], log_x)
    y_of, y_ticks = _scale([y for _, y in every], log_y)
    left, top, width, height = _PLOT
    lines = _begun(escape(title), left + width + 16, top + height + 50 + _KEY * len(series))
    for y in y_ticks:
        at = round(top + height * (1 - y_of(y)))
        lines += [
            f'<line x1="{left}" x2="{left + width}" y1="{at}" y2="{at}" stroke="{OTHERS}" stroke-width="0.5"/>',
            f'<text x="{left - 6}" y="{at + 4}" text-anchor="end" font-size="12" fill="{WORDS}">{_tick(y)}</text>',
        ]
    for x in x_ticks:
        at = round(left + width * x_of(x))
        lines += [
            f'<line x1="{at}" x2="{at}" y1="{top + height}" y2="{top + height + 4}" stroke="{WORDS}"/>',
            f'<text x="{at}" y="{top + height + 18}" text-anchor="middle" font-size="12" fill="{WORDS}">'
            f"{_tick(x)}</text>",
        ]
    lines.append(
        f'<text x="{left + width}" y="{top + height + 36}" text-anchor="end" fill="{WORDS}">{escape(x_title)}</text>'
    )
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        dashes = ' stroke-dasharray="6 4"' if number >= len(COLOURS) else ""
        places = [(left + width * x_of(x), top + height * (1 - y_of(y))) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        if len(places) <= FEW:
            lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        key = top + height + 54 + _KEY * number
        lines += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>',
            f'<line x1="{left}" x2="{left + 28}" y1="{key}" y2="{key}" stroke="{colour}" stroke-width="3"{dashes}/>',
            f'<text x="{left + 36}" y="{key + 5}" fill="{WORDS}">{escape(name)}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


def _begun(heading: str, width: int, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="14" role="img">',
        f"<title>{heading}</title>",
        f'<text x="0" y="18" fill="{WORDS}">{heading}</text>',
    ]


def _scale(values: Sequence[float], log: bool) -> tuple[Callable[[float], float], list[float]]:
    """(value -> its place between 0 and 1, values to write at the axis)."""
    least, most = min(values), max(values)
    if log:
        low, high = math.log10(least), math.log10(most)
        span = (high - low) or 1.0
        decades = [10.0**n for n in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]
        steps = (1, 2, 5) if len(decades) < 3 else (1,)
        ticks = [n * ten for ten in [10.0 ** math.floor(low), *decades] for n in steps]
        ticks = sorted({tick for tick in ticks if least * 0.999 <= tick <= most * 1.001})
        return (lambda value: (math.log10(value) - low) / span), ticks
    least = 0.0 if least > 0 and least < most / 3 else least
    most = most if most > least else least + 1.0
    step = 10.0 ** math.floor(math.log10(most - least))
    step = next(step / part for part in (1, 2, 4, 5, 10) if (most - least) / (step / part) >= 4)
    low = math.floor(least / step) * step
    high = math.ceil(most / step) * step
    ticks = [low + n * step for n in range(round((high - low) / step) + 1)]
    return (lambda value: (value - low) / (high - low)), ticks


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.4g}"
