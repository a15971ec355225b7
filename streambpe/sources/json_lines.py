"""JSON lines: one object a line, of which one field is read.

The core takes line after line where it is certain that each is one object with the field, and lets go of the
interpreter's lock meanwhile. A line that it leaves is read here, by itself, and is a BadLine if it is not one object
with the field. So what becomes of a line never depends on the lines around it.
"""

from __future__ import annotations

import json

from streambpe.sources.csv_records import listed_names


class BadLine(Exception):
    """Why a line is not taken, as the end of a sentence that begins with its place."""


class TooDeep(BadLine):
    """Brackets in brackets, deeper than can be read; how deep that is depends on the Python."""


def read_line(line: bytes, column: str) -> str | None:
    """The field of a line, or a BadLine."""
    try:
        row = json.loads(line, parse_int=_parse_int)
    except RecursionError:
        raise TooDeep(
            " has brackets nested too deeply (some hundreds). Everything before it is kept. Leave the line out, or "
            "write the field to a file of its own."
        ) from None
    except ValueError as why:
        raise BadLine(f" is not JSON ({why}). Everything before it is kept.") from None
    if not isinstance(row, dict):
        raise BadLine(" is not a JSON object. Everything before it is kept.")
    if column not in row:
        raise BadLine(
            f" has no field {column!r}; it has {listed_names(list(row))}. Everything before it is kept. Choose the "
            "field with --text-column, or FILE:FIELD."
        )
    value = row[column]
    if value is not None and not isinstance(value, str):
        raise BadLine(f": field {column!r} is {type(value).__name__}, not a string. Everything before it is kept.")
    return value


def _parse_int(digits: str) -> int | float:
    """Python refuses integers of more than 4 300 digits; the core skips them unread, so they are legal."""
    return int(digits) if len(digits) < 4000 else float(digits)
