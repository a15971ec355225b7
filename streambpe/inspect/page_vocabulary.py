"""The vocabulary itself, as the page lists and counts it: every id with its text, kind, length, count and uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

import regex

from streambpe.arrays import Int64
from streambpe.model.eventlog import EventLog
from streambpe.model.replay import Model
from streambpe.text.shown import shown

# One letter each, in the order in which the page's bar shows them.
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
UNDER_USED = 10  # a token used fewer times is hardly ever seen in training
_LETTERS = regex.compile(r"[\p{L}\p{M}'’]+")
_NUMBERS = regex.compile(r"\s?[\p{N}\p{M}]+")
_MARKS = regex.compile(r"\s?[^\s\p{L}\p{N}]+\s*")

Row = tuple[int, bytes, str, bool, int | None]  # log id, what it stands for, kind in the tables, superword, count


class VocabularyFacts(TypedDict):
    """Columns by id, from the first id on."""

    first_id: int
    shown: list[str]  # "" for reserved ids
    kind: str  # a letter of KINDS each
    length: list[int]  # in bytes
    n: list[int | None]  # the count it was learned at
    uses: list[int] | None  # in what the page measures on


def kind_of(content: bytes, kind: str, joined: bool) -> str:
    """The letter of a token."""
    if kind == "base":
        return "b"
    if kind == "stop word":
        return "s"
    if joined:
        return "w"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "p"
    if text.isspace():
        return "z"
    if _LETTERS.fullmatch(text):
        return "i"
    if text[0] in " \u2581" and _LETTERS.fullmatch(text[1:]):
        return "W"
    return "d" if _NUMBERS.fullmatch(text) else "c" if _MARKS.fullmatch(text) else "m"


def vocabulary_so_far(rows: Sequence[Row]) -> VocabularyFacts:
    """While a training goes on: the living tokens in the order of their log ids."""
    return {
        "first_id": rows[0][0] if rows else 0,
        "shown": [shown(content) for _, content, _, _, _ in rows],
        "kind": "".join(kind_of(content, kind, joined) for _, content, kind, joined, _ in rows),
        "length": [len(content) for _, content, _, _, _ in rows],
        "n": [n for *_, n in rows],
        "uses": None,
    }


def vocabulary_of(log: EventLog, rows: Sequence[Row], uses: Int64) -> VocabularyFacts:
    """A finished one, by model id. `uses`: by model id."""
    model = Model(log)
    by_log_id = {row[0]: row for row in rows}
    specials = {number: text for text, number in model.special_ids.items()}
    first = model.alphabet.first_id
    found: VocabularyFacts = {"first_id": first, "shown": [], "kind": "", "length": [], "n": [], "uses": None}
    kinds = []
    for number in range(first, first + model.n_vocab):
        if number in model.log_id:
            _, content, kind, joined, n = by_log_id[model.log_id[number]]
            letter = kind_of(content, kind, joined)
        else:
            content, n = specials.get(number, "").encode(), None
            letter = "x" if number in specials else "r"
        kinds.append(letter)
        found["shown"].append(shown(content))
        found["length"].append(len(content))
        found["n"].append(n)
    found["kind"] = "".join(kinds)
    found["uses"] = uses[first : first + model.n_vocab].tolist()
    return found


def kinds_counted(vocabulary: VocabularyFacts) -> list[tuple[str, str, int]]:
    """[(letter, name, ids)] of the kinds there are."""
    counts = Counter(vocabulary["kind"])
    return [(letter, name, counts[letter]) for letter, name in KINDS.items() if counts[letter]]


def lengths_counted(vocabulary: VocabularyFacts) -> list[tuple[int, int]]:
    """[(bytes, tokens)] of all but special and reserved ids, by length."""
    pairs = zip(vocabulary["kind"], vocabulary["length"], strict=True)
    return sorted(Counter(length for kind, length in pairs if kind not in "xr").items())


def under_used(vocabulary: VocabularyFacts, most: int) -> tuple[int, list[tuple[str, int, int]]]:
    """(learned tokens used fewer than UNDER_USED times, the least used of them: token, id, uses)."""
    uses = vocabulary["uses"]
    if uses is None:
        return 0, []
    rows = zip(vocabulary["kind"], vocabulary["shown"], uses, strict=True)
    found = [
        (text, vocabulary["first_id"] + place, n)
        for place, (kind, text, n) in enumerate(rows)
        if n < UNDER_USED and kind not in "bxrs"
    ]
    return len(found), sorted(found, key=lambda row: (row[2], row[1]))[:most]
