"""csv: the header. Where records end is found by the core (csv_records_end).

A field may be of any length. Python's reader refuses one above 128 KB unless the limit, one for the whole process, is
raised; so every reader is made here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from streambpe.errors import SourceError
from streambpe.plurals import some_of
from streambpe.sources.source import Source, name_of
from streambpe.sources.streams import BOM, SourceBytes

_LONGEST_FIELD = 2**31 - 1  # a C long on every system
_LONGEST_HEADER = 1 << 24
_NAMED = 20  # at most so many columns in a message, and so many characters of each


def csv_reader(lines: Iterable[str]) -> Any:
    """`csv.reader` without its limit."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(lines)


def listed_names(names: Sequence[str]) -> str:
    """Column names for a message: the first of many, the beginning of long ones."""
    short = [name if len(name) <= _NAMED else f"{name[:_NAMED]}..." for name in names]
    return some_of(short, _NAMED) or "nothing"


def read_header(stream: SourceBytes, source: Source) -> tuple[tuple[str, ...], int]:
    """The column names in a csv's first record, which is read again, and its size."""
    name, line = name_of(source), b""
    while not line.endswith(b"\n") or line.count(b'"') % 2:
        more = stream.readline(1 << 20)
        line += more
        if not more:
            break
        if len(line) > _LONGEST_HEADER:
            raise SourceError(
                f"{name} has a first line of more than {_LONGEST_HEADER >> 20} MB, which cannot be column names. If "
                "it is not csv, say what it is with --format."
            )
    text = stream.unread(line).removeprefix(BOM).decode("utf-8", "replace")
    try:
        names = tuple(next(csv_reader(io.StringIO(text, newline="")), []))
    except csv.Error as why:
        raise SourceError(f"{name}: its first line, the names of the columns, cannot be read: {why}.") from None
    refuse_column(name, names, source.column, " in its first line")
    return names, len(line)


def refuse_column(name: str, names: Sequence[str], column: str, where: str = "") -> None:
    """An error unless a table has one column of this name, and one only."""
    if column not in names:
        raise SourceError(
            f"{name} has no column {column!r}{where}; it has {listed_names(names)}. Choose one with --text-column."
        )
    if names.count(column) > 1:
        raise SourceError(
            f"{name} has more than one column {column!r}, so its name is ambiguous. None of it was counted. Give the "
            "columns different names, or choose another with --text-column."
        )
