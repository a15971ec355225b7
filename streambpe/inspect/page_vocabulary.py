"""The vocabulary itself, as the page lists and counts it: every id with its text, kind, length, count and uses."""

from __future__ import annotations

import msgspec
import regex

from streambpe.arrays import Int64
from streambpe.errors import shortened
from streambpe.model.codecs import shown_content
from streambpe.model.eventlog import EventLog, Op
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


class VocabularyFacts(msgspec.Struct):
    """Columns by id, from the first id on."""

    first_id: int
    shown: list[str]  # "" for reserved ids
    kind: str  # a letter of KINDS each
    length: list[int]  # in bytes
    event: list[int | None]  # the number of the event that made it first
    n: list[int | None]  # the count of that event
    uses: list[int]  # in what the page measures on


def kind_of(content: bytes) -> str:
    """The letter of a token that a merge made."""
    if holds_part_of_a_character(content):
        return "p"
    found = _KIND.fullmatch(content.decode())
    return found.lastgroup if found and found.lastgroup else "m"


def vocabulary_of(log: EventLog, uses: Int64) -> VocabularyFacts:
    """All ids, by model id; `uses`: of each of them."""
    model, header = Model(log), log.header
    made: dict[int, int] = {}  # log id -> the event that made it first
    for number, event in enumerate(log.events, 1):
        if event.op is not Op.DELETE:
            made.setdefault(event.id, number)
    specials = {number: (text.encode(), "x", None, None) for text, number in model.special_ids.items()}

    def row(number: int) -> tuple[bytes, str, int | None, int | None]:
        """What an id stands for, its kind, and the number and the count of its event."""
        log_id = model.log_id.get(number)
        if log_id is None:
            return specials.get(number, (b"", "r", None, None))
        content, birth = model.content(log_id), made.get(log_id)
        if log_id >= header.symbols.stop and birth is None:
            return content, "s", None, None
        content = shown_content(model.alphabet, content)
        if birth is None:
            return content, "b", None, None
        event = log.events[birth - 1]
        return content, "w" if event.op is Op.SUPERMERGE else kind_of(content), birth, event.n

    first = model.alphabet.first_id
    contents, kinds, events, n = zip(*map(row, range(first, first + model.n_vocab)), strict=True)
    return VocabularyFacts(
        first_id=first,
        shown=[shortened(shown(content), _MOST_SHOWN) for content in contents],
        kind="".join(kinds),
        length=list(map(len, contents)),
        event=list(events),
        n=list(n),
        uses=uses[first:].tolist(),
    )
