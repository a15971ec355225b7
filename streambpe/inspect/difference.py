"""What two vocabularies have in common: tokens of both, of one alone, and those with other ids."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TextIO

from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.columns import print_columns, write_rows
from streambpe.plurals import counted
from streambpe.results import Result
from streambpe.terminal import columns_of, wrapped
from streambpe.text.shown import harmless, shown

_NAMES = ("token", "bytes", "difference", "id_here", "id_there")  # of the columns of a difference
_KINDS = ("only here", "only there", "other id")
_LISTED = 20  # of each kind, in the table for people


@dataclass(frozen=True)
class Difference(Result):
    """What two MODELs have in common, and a row for each token that differs."""

    here: str
    there: str
    same: int  # tokens with the same id in both
    differences: list[dict[str, Any]]  # token as it is shown, its bytes, what differs, id here, id there


def diff(here: str | os.PathLike[str], there: str | os.PathLike[str]) -> Difference:
    """Compare the vocabularies of two MODELs; special tokens too. The rows are in the order of ids."""
    mine, theirs = (Tokenizer(model).get_vocab() for model in (here, there))
    rows: list[tuple[bytes, str, int | None, int | None]] = [
        *((token, "only here", number, None) for token, number in mine.items() if token not in theirs),
        *((token, "only there", None, number) for token, number in theirs.items() if token not in mine),
        *((token, "other id", n, theirs[token]) for token, n in mine.items() if theirs.get(token, n) != n),
    ]
    differences = [dict(zip(_NAMES, (shown(row[0]), row[0].hex(), *row[1:]), strict=True)) for row in rows]
    return Difference(str(here), str(there), len(mine.items() & theirs.items()), differences)


def print_difference(found: Difference, out: TextIO, form: str = "table") -> None:
    """All rows as csv; or how many there are, and the first of each kind, for people."""
    if form == "csv":
        write_rows(form, _NAMES, [[tuple(row.values()) for row in found.differences]], out)
        return
    of_kind = {kind: [row for row in found.differences if row["difference"] == kind] for kind in _KINDS}
    only_here, only_there, other_ids = (len(rows) for rows in of_kind.values())
    about = (
        f"{counted(found.same, 'token')} with the same id, {other_ids:,} with another, "
        f"{only_here:,} only in {harmless(found.here)}, {only_there:,} only in {harmless(found.there)}"
    )
    out.write(wrapped(about, columns_of(out)) + "\n")
    for kind, rows in of_kind.items():
        if not rows:
            continue
        more = f", the first {_LISTED} of {len(rows):,}" if len(rows) > _LISTED else ""
        out.write(f"\n{kind}{more}:\n")
        cells = [
            ["" if row[name] is None else str(row[name]) for name in ("token", "id_here", "id_there")]
            for row in rows[:_LISTED]
        ]
        print_columns([["token", "id here", "id there"], *cells], 1, out)
