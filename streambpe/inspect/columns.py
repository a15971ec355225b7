"""Rows on the way out: as columns of text side by side, for people, and as csv or JSON.

rich's own tables cut what is wider than the terminal. These never do: a file that they are piped into gets what the
screen shows.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rich.cells import cell_len

from streambpe.errors import QueryRefused
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


def write_rows(form: str, names: Sequence[str], blocks: Iterable[Iterable[Sequence[Any]]], out: TextIO) -> None:
    """Write blocks of rows as csv, json (one list) or jsonl."""
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for rows in blocks:
            writer.writerows(rows)
        return
    refuse_equal_names(names)
    is_list = form == "json"
    out.write("[" * is_list)
    for number, row in enumerate(itertools.chain.from_iterable(blocks)):
        line = _json_row(names, row)
        out.write(f"{',' * bool(number)}\n{line}" if is_list else f"{line}\n")
    out.write("\n]\n" * is_list)


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
