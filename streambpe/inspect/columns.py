"""Columns of text side by side, for people.

rich's own tables cut what is wider than the terminal. These never do: a file that they are piped into gets what the
screen shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len

from streambpe.text.shown import harmless


def print_columns(rows: Sequence[Sequence[str]], left: int, out: TextIO) -> None:
    """The first `left` columns are flush left, the others flush right; widths are as a terminal shows the text."""
    rows = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            cells.append(cell + space if i < left else space + cell)
        out.write("  ".join(cells).rstrip() + "\n")
