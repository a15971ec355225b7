"""Characters by script and super-category (Unicode 16.0.0): SCRIPT splits by them and makes its symbols of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
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


def read_table(name: str, number_of: Callable[[str], int]) -> npt.NDArray[np.uint16]:
    """A number for every code point, from a file of data/: a line says what begins at a code point."""
    text = resources.files("streambpe.text").joinpath(f"data/{name}.txt").read_text(encoding="utf-8")
    starts, values = zip(*(line.split(" ", 1) for line in text.splitlines()), strict=True)
    numbers = np.array([number_of(value) for value in values], np.uint16)
    return np.repeat(numbers, np.diff([*(int(start, 16) for start in starts), 0x110000]))


@functools.cache
def character_groups() -> tuple[tuple[Group, ...], npt.NDArray[np.uint16]]:
    """(all groups by name, the group number of every code point); 2.2 MB, kept. UNASSIGNED is number 0."""
    numbers: dict[Group, int] = {UNASSIGNED: 0}

    def number_of(script_and_category: str) -> int:
        script, category = script_and_category.split(" ")
        group = (script, "LM" if category[0] in "LM" else "PS" if category[0] in "PS" else category[0])
        return numbers.setdefault(group, len(numbers))

    table = read_table(f"characters-{UNICODE}", number_of)
    for point, group in MOVED.items():
        table[point] = numbers.setdefault(group, len(numbers))
    return tuple(numbers), table
