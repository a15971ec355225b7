"""The vocabulary itself, as the page lists and counts it: every id with its text, kind, length, count and uses."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import regex

from streambpe.arrays import Int64
from streambpe.errors import shortened
from streambpe.model.eventlog import EventLog
from streambpe.model.replay import Model
from streambpe.text.shown import holds_part_of_a_character, shown

# One letter each, in the order in which the page lists them.
KINDS = {
    "W": "begins a word",
    "i": "letters without a space",
    "w": "superword",
    "d": "numbers",
    "c": "punctuation, symbols",
    "z": "white space",
    "m": "of several kinds",
    "p": "part of a character",
    "s": "stop word",
    "b": "base symbol",
    "x": "special",
    "r": "reserved",
}
_MOST_SHOWN = 1000  # characters of a token
_KIND = regex.compile(
    r"(?P<z>[\s\x1c-\x1f]+)|(?P<i>[\p{L}\p{M}'’]+)|(?P<W>[ ▁][\p{L}\p{M}'’]+)|(?P<d>\s?[\p{N}\p{M}]+)"
    r"|(?P<c>\s?[^\s\p{L}\p{N}]+\s*)|(?P<m>.*)",
    regex.DOTALL,
)

# log id, what it stands for, kind in the tables, superword, number and count of the event that made it
Row = tuple[int, bytes, str, bool, int | None, int | None]


class VocabularyFacts(msgspec.Struct):
    """Columns by id, from the first id on."""

    first_id: int
    shown: list[str]  # "" for reserved ids
    kind: str  # a letter of KINDS each
    length: list[int]  # in bytes
    event: list[int | None]  # the number of the event that made it
    n: list[int | None]  # the count of that event
    uses: list[int] | None  # in what the page measures on


def kind_of(content: bytes, kind: str, joined: bool) -> str:
    """The letter of a token."""
    if kind != "learned":
        return "b" if kind == "base" else "s"
    if joined:
        return "w"
    if holds_part_of_a_character(content):
        return "p"
    found = _KIND.fullmatch(content.decode())
    return found.lastgroup if found and found.lastgroup else "m"


def vocabulary_of(rows: Sequence[Row], log: EventLog | None = None, uses: Int64 | None = None) -> VocabularyFacts:
    """All ids, by model id, with their uses; without a log, while a training goes on, the living tokens by log id."""
    by_log_id = {
        number: (content, kind_of(content, kind, joined), event, n) for number, content, kind, joined, event, n in rows
    }
    first, ids = next(iter(by_log_id), 0), list(by_log_id.values())
    if log is not None:
        model = Model(log)
        specials = {number: (text.encode(), "x", None, None) for text, number in model.special_ids.items()}
        first = model.alphabet.first_id
        ids = [
            by_log_id[model.log_id[number]] if number in model.log_id else specials.get(number, (b"", "r", None, None))
            for number in range(first, first + model.n_vocab)
        ]
    contents, kinds, events, n = zip(*ids, strict=True) if ids else ((),) * 4
    return VocabularyFacts(
        first_id=first,
        shown=[shortened(shown(content), _MOST_SHOWN) for content in contents],
        kind="".join(kinds),
        length=list(map(len, contents)),
        event=list(events),
        n=list(n),
        uses=None if uses is None else uses[first:].tolist(),
    )
