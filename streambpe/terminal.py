"""Lines for people, as wide as the terminal that they go to; a file or a pipe gets them whole."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import TextIO

_STUCK = "\x00"  # a space at which no line breaks


def columns_of(out: TextIO) -> int | None:
    """How wide the terminal is that a stream goes to; None if it goes elsewhere, where lines may be of any length."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def wrapped(text: str, columns: int | None, hang: int = 0, unbroken: str = "`[^`]*`") -> str:
    """A text whose lines break at spaces so that they fit, but not inside `unbroken`, such as a command in backticks,
    unless that is longer than a line. Lines after the first begin `hang` columns further in."""
    return text if columns is None else "\n".join(_line(line, columns, hang, unbroken) for line in text.split("\n"))


def _line(line: str, columns: int, hang: int, unbroken: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + hang)
    kept = re.sub(unbroken, lambda found: found[0].replace(" ", _STUCK), line)
    wrapper = textwrap.TextWrapper(columns, "", indent, break_long_words=False, break_on_hyphens=False)
    broken = wrapper.wrap(kept)
    if any(len(part) > columns and _STUCK in part for part in broken):
        broken = wrapper.wrap(line)
    return "\n".join(broken).replace(_STUCK, " ")
