"""csv: the header, and where records end.

A field may be of any length. Python's reader refuses one above 128 KB unless the limit, one for the whole process, is
raised; so every reader is made here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streambpe.errors import SourceError
from streambpe.sources.source import Stream
from streambpe.sources.streams import DAMAGE

_LONGEST_FIELD = 2**31 - 1  # a C long on every system
_LONGEST_HEADER = 1 << 24
_WINDOW = 1 << 20  # bytes in which line breaks are looked at together
_NAMED = 20  # at most so many columns in a message, and so many characters of each


def csv_reader(lines: Iterable[str]) -> Any:
    """`csv.reader` without its limit."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(lines)


def listed_names(names: Sequence[str]) -> str:
    """Column names for a message: the first of many, the beginning of long ones."""
    some = [name if len(name) <= _NAMED else f"{name[:_NAMED]}..." for name in names[:_NAMED]]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join(some + more) or "nothing"


def read_header(stream: Stream, name: str, column: str) -> tuple[tuple[str, ...], bytes]:
    """The column names in a csv's first record, and its bytes."""
    line = b""
    while not line.endswith(b"\n") or line.count(b'"') % 2:
        try:
            more = stream.readline(1 << 20)  # type: ignore[attr-defined]
        except DAMAGE as why:
            raise SourceError(f"{name} is cut off or damaged in its first line ({why}).") from None
        line += more
        if not more:
            break
        if len(line) > _LONGEST_HEADER:
            raise SourceError(
                f"{name} has a first line of more than {_LONGEST_HEADER >> 20} MB, which cannot be column names. If "
                "it is not csv, say what it is with --format."
            )
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        names = tuple(next(csv_reader(io.StringIO(text, newline="")), []))
    except csv.Error as why:
        raise SourceError(f"{name}: its first line, the names of the columns, cannot be read: {why}.") from None
    refuse_column(name, names, column, " in its first line")
    return names, line


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


def last_record_end(held: bytes) -> int:
    """The end of the last whole csv record: a line break outside quotes. 0 if there is none. `held` begins with one.

    With quotes that do not pair up the csv reader itself is asked, which costs five times as much.
    """
    end = paired_record_end(held)
    return _last_record_read(held) if end is None else end


def paired_record_end(held: bytes) -> int | None:
    """The same; None if its quotes do not pair up: they do if each opens or closes a whole field (unlike `5" pipe`)."""
    last = held.rfind(b"\n")
    if last < 0 or b'"' not in held:
        return last + 1
    data = np.frombuffer(held, np.uint8)
    quotes = np.flatnonzero(data == 0x22)
    if not _are_field_quotes(data, quotes):
        return None
    if np.searchsorted(quotes, last) % 2 == 0:
        return last + 1
    for begin in range(last // _WINDOW * _WINDOW, -1, -_WINDOW):  # from the end: eight bytes for each break
        breaks = begin + np.flatnonzero(data[begin : begin + _WINDOW] == 0x0A)
        outside = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        if len(outside):
            return int(outside[-1]) + 1
    return 0


def _are_field_quotes(data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]) -> bool:
    opening, closing = quotes[::2], quotes[1::2]
    before = data[opening[opening > 0] - 1]
    after = data[closing[closing < len(data) - 1] + 1]
    beside = np.array([0x22, 0x2C, 0x0A, 0x0D], np.uint8)
    return bool(np.isin(before, beside).all() and np.isin(after, beside).all())


def _last_record_read(held: bytes) -> int:
    read = end = 0
    exhausted = False

    def lines() -> Iterator[str]:
        nonlocal read, exhausted
        for line in io.StringIO(held.decode("latin-1"), newline=""):  # bytes as characters: only ASCII matters
            read += len(line)
            yield line
        exhausted = True

    for _ in csv_reader(lines()):
        if not exhausted and held[read - 1] == 0x0A:
            end = read
    return end
