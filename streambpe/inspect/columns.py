"""Rows on the way out: as columns of text side by side, for people, and as csv or JSON.

rich's own tables cut what is wider than the terminal. These break it into blocks; in a file, each row is one line.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.cells import cell_len

from streambpe.errors import QueryRefused, UsageError
from streambpe.outputs import refuse_existing
from streambpe.terminal import columns_of, wrapped
from streambpe.text.shown import harmless

FILE_FORMS = ("csv", "json", "jsonl", "parquet")


def print_columns(rows: Sequence[Sequence[str]], left: int, out: TextIO) -> None:
    """The first `left` columns are flush left, the others flush right; widths are as a terminal shows the text.

    Where a terminal has no room for all columns, those on the right follow below, with those on the left again; if all
    are flush left, the last one is broken into lines."""
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths, room = _widths(cells), columns_of(out) or sys.maxsize
    if sum(widths) + 2 * len(widths) - 2 <= room:
        _print_block(cells, left, out)
    elif left == len(widths):
        cells = [[*(_shortened(cell, room // 3) for cell in row[:-1]), row[-1]] for row in cells]
        widths = _widths(cells)
        rest = room - sum(widths[:-1]) - 2 * len(widths) + 2
        for row in cells:
            first, *more = wrapped(row[-1], max(rest, 10), unbroken='"[^"]*"').split("\n")
            _print_block([[*row[:-1], first], *([*[""] * (left - 1), line] for line in more)], left, out, widths)
    else:
        for i in range(left):
            most = max(room // 8, room // 2 - sum(widths[:left]) + widths[i])
            cells = [[*row[:i], _shortened(row[i], most), *row[i + 1 :]] for row in cells]
            widths = _widths(cells)
        begin, taken = left, sum(widths[:left]) + 2 * left - 2
        while begin < len(widths):
            end = begin + 1
            while end < len(widths) and taken + sum(widths[begin : end + 1]) + 2 * (end + 1 - begin) <= room:
                end += 1
            out.write("\n" * (begin > left))
            _print_block([[*row[:left], *row[begin:end]] for row in cells], left, out)
            begin = end


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _shortened(cell: str, most: int) -> str:
    """A cell that is too wide without its middle: the end of a path says more than what stands before."""
    shorter, kept = cell, most - 3
    while cell_len(shorter) > most and kept > 3:
        shorter = f"{cell[: kept // 3]}...{cell[kept // 3 - kept :]}"
        kept -= 1
    return shorter


def _print_block(rows: Sequence[Sequence[str]], left: int, out: TextIO, widths: Sequence[int] = ()) -> None:
    widths = widths or _widths(rows)
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            cells.append(cell + space if i < left else space + cell)
        out.write("  ".join(cells).rstrip() + "\n")


def file_form(output: str | os.PathLike[str], force: bool) -> str:
    """In which form rows are written to a file, by its name; an error if they cannot be written there."""
    path = Path(output)
    form = path.suffix.removeprefix(".")
    if form not in FILE_FORMS:
        raise UsageError(f"{path}: rows can be written as .{', .'.join(FILE_FORMS)}; give such a name.")
    refuse_existing(path, force)
    return form


def write_rows(form: str, names: Sequence[str], blocks: Iterable[Sequence[Sequence[Any]]], out: TextIO) -> int:
    """Write blocks of rows as csv, json (one list) or jsonl; returns how many rows."""
    written = 0
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for rows in blocks:
            writer.writerows(rows)
            written += len(rows)
        return written
    refuse_equal_names(names)
    is_list = form == "json"
    out.write("[" * is_list)
    for written, row in enumerate(itertools.chain.from_iterable(blocks), 1):
        line = _json_row(names, row)
        out.write(f"{',' * (written > 1)}\n{line}" if is_list else f"{line}\n")
    out.write("\n]\n" * is_list)
    return written


def refuse_equal_names(names: Sequence[str]) -> None:
    """An error if two columns have one name: a JSON object and a Parquet file hold each once."""
    equal = sorted({name for name in names if list(names).count(name) > 1})
    if equal:
        raise QueryRefused(
            f"Several columns are named {equal[0]!r}, and only one of them could be written. Name them apart: "
            f"SELECT ... AS other_name."
        )


def _json_row(names: Sequence[str], row: Sequence[Any]) -> str:
    plain = [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in row]  # JSON has no NaN
    return json.dumps(dict(zip(names, plain, strict=True)), default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
