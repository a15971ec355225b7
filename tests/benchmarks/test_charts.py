"""benchmarks/charts.py: pictures that are well-formed, with every point inside."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def charts(benchmark):
    """The module."""
    return benchmark("charts")


@pytest.mark.parametrize("log", [False, True])
def test_curves_stay_inside_and_have_a_key(charts, log):
    """A name that would be markup is written as text; each axis has at least three numbers."""
    series = {"a & <b>": [(1, 5.0), (10, 50.0), (100, 55.0)], "other": [(1, 3.0), (100, 70.0)]}
    root = ElementTree.fromstring(charts.curves("title & more", "MB", series, log_x=log, log_y=log))
    width, height = float(root.get("width")), float(root.get("height"))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"title & more", "MB", "a & <b>", "other"} <= set(words)
    assert len([word for word in words if re.fullmatch(r"[\d.,]+", word)]) >= 6
    lines = list(root.iter(f"{SVG}polyline"))
    assert len(lines) == 2
    points = [point.split(",") for line in lines for point in line.get("points").split()]
    assert len(points) == 5
    assert all(0 < float(x) < width and 0 < float(y) < height for x, y in points)
    lowest = max(points, key=lambda point: float(point[1]))
    assert lowest == lines[1].get("points").split()[0].split(","), "more is higher"


def test_a_line_that_does_not_change_can_be_drawn(charts):
    """One value only, on both kinds of axis."""
    for log in (False, True):
        ElementTree.fromstring(charts.curves("flat", "x", {"a": [(1, 2.0), (2, 2.0)]}, log_x=log, log_y=log))
