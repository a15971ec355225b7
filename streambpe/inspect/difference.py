"""What two vocabularies have in common: tokens of both, of one alone, and those with other ids."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TextIO, TypedDict

from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.columns import print_columns
from streambpe.plurals import counted
from streambpe.text.shown import harmless, shown

_LISTED = 20  # of each kind, in the table for people


@dataclass(frozen=True)
class Difference:
    """Tokens by their bytes, each with its id here, there, or both; in the order of ids."""

    here: str
    there: str
    only_here: list[tuple[bytes, int]]
    only_there: list[tuple[bytes, int]]
    other_ids: list[tuple[bytes, int, int]]
    same: int  # tokens with the same id in both

    def rows(self) -> list[dict[str, Any]]:
        """One row for each token that differs."""
        one = [(token, "only here", number, None) for token, number in self.only_here]
        two = [(token, "only there", None, number) for token, number in self.only_there]
        both = [(token, "other id", here, there) for token, here, there in self.other_ids]
        return [
            {"token": shown(token), "bytes": token.hex(), "difference": what, "id_here": here, "id_there": there}
            for token, what, here, there in [*one, *two, *both]
        ]

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {"here": self.here, "there": self.there, "same": self.same, "differences": self.rows()}


def difference(here: str, there: str) -> Difference:
    """Compare the vocabularies of two MODELs; special tokens too."""
    return _compared(here, there, *(Tokenizer.load(model).get_vocab() for model in (here, there)))


def _compared(here: str, there: str, mine: Mapping[bytes, int], theirs: Mapping[bytes, int]) -> Difference:
    return Difference(
        here,
        there,
        [(token, number) for token, number in mine.items() if token not in theirs],
        [(token, number) for token, number in theirs.items() if token not in mine],
        [(token, number, theirs[token]) for token, number in mine.items() if theirs.get(token, number) != number],
        sum(theirs.get(token) == number for token, number in mine.items()),
    )


class BesideFacts(TypedDict):
    """What the page says about another vocabulary beside its own."""

    model: str
    same: int
    other_ids: int
    only_here: int
    only_there: int
    shared_here: list[tuple[int, float]]  # (number of ids, share of that many first tokens that the other has too)
    shared_there: list[tuple[int, float]]  # the same of the other's first tokens


def beside(here: str, there: str) -> BesideFacts:
    """The facts about two MODELs."""
    mine, theirs = (Tokenizer.load(model).get_vocab() for model in (here, there))
    found = _compared(here, there, mine, theirs)
    return {
        "model": there,
        "same": found.same,
        "other_ids": len(found.other_ids),
        "only_here": len(found.only_here),
        "only_there": len(found.only_there),
        "shared_here": _shared(mine, theirs),
        "shared_there": _shared(theirs, mine),
    }


def _shared(mine: Mapping[bytes, int], theirs: Mapping[bytes, int]) -> list[tuple[int, float]]:
    """[(n, share of the first n tokens that the other has too)], in the order of ids."""
    sums = accumulate(token in theirs for token in mine)
    return [(n, shared / n) for n, shared in enumerate(sums, 1)]


def print_difference(found: Difference, form: str, out: TextIO) -> None:
    """All rows as csv; or how many there are, and the first of each kind, for people."""
    rows = found.rows()
    if form == "csv":
        writer = csv.DictWriter(out, ["token", "bytes", "difference", "id_here", "id_there"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return
    out.write(
        f"{counted(found.same, 'token')} with the same id, {len(found.other_ids):,} with another, "
        f"{len(found.only_here):,} only in {harmless(found.here)}, "
        f"{len(found.only_there):,} only in {harmless(found.there)}\n"
    )
    for what in ("only here", "only there", "other id"):
        some = [row for row in rows if row["difference"] == what]
        if not some:
            continue
        more = f", the first {_LISTED} of {len(some):,}" if len(some) > _LISTED else ""
        out.write(f"\n{what}{more}:\n")
        cells = [
            [row["token"], *("" if row[k] is None else str(row[k]) for k in ("id_here", "id_there"))] for row in some
        ]
        print_columns([["token", "id here", "id there"], *cells[:_LISTED]], 1, out)
