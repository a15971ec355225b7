"""Characters by script and super-category (Unicode 16.0.0): SCRIPT splits by them and makes its symbols of them."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Literal

import numpy as np
import numpy.typing as npt

UNICODE = "16.0.0"
MOVED = {
    0x09: ("Common", "Z"),
    0x0A: ("Common", "Z"),
    0x640: ("Arabic", "LM"),
    0x30FC: ("Inherited", "LM"),
    0xFF70: ("Inherited", "LM"),
}
UNASSIGNED = ("Unknown", "C")  # the group of everything outside the table
Unencodable = Literal["bytes", "drop", "error"]
Group = tuple[str, str]  # script, super-category


@functools.cache
def character_groups() -> tuple[tuple[Group, ...], npt.NDArray[np.uint16]]:
    """(all groups by name, the group number of every code point); 2.2 MB, kept. UNASSIGNED is number 0."""
    text = resources.files("streambpe.text").joinpath(f"data/characters-{UNICODE}.txt").read_text(encoding="utf-8")
    numbers: dict[Group, int] = {UNASSIGNED: 0}
    starts, values = [], []
    for line in text.splitlines():
        start, script, category = line.split(" ")
        group = (script, "LM" if category[0] in "LM" else "PS" if category[0] in "PS" else category[0])
        starts.append(int(start, 16))
        values.append(numbers.setdefault(group, len(numbers)))
    table = np.repeat(np.array(values, np.uint16), np.diff([*starts, 0x110000]))
    for point, group in MOVED.items():
        table[point] = numbers.setdefault(group, len(numbers))
    return tuple(numbers), table
