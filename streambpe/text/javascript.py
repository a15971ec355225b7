r"""A regular expression of the `regex` module as one of JavaScript that finds the same, or a refusal.

    translate(r"\p{L}+|\s")  ->  Translated(source=["[", 0, "]+|[", 1, "]"], classes=["1t,q,6,q,...", "9,5,..."])

A number in `source` stands for a class of characters: gaps and lengths of its ranges, in base 36. Every class is
looked up in the installed `regex`, so Unicode's version and the rules of sets and of upper and lower case are those of
the split itself. What remains (order, groups, repetition, looking around) means the same in both languages, but:

 - possessive and atomic parts, which JavaScript lacks, become (?=(?<p>...))\k<p>;
 - `$` is also before a last line feed, and `.` is all but the line feed;
 - a repetition whose body may be empty, and a match that may be empty, differ between the two: refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import regex

from streambpe.text.characters import code_point_class
from streambpe.text.expressions import ExpressionToken, tokens

_SAFE = frozenset(" _'\",;:<>=!@#%&~`")  # no syntax in JavaScript; other characters are written by number
_PLAIN_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\f": "\f"}
_CLASS_ESCAPES = frozenset(("\\s", "\\S", "\\d", "\\D", "\\w", "\\W"))
_REPEATS = ("*", "+", "?")
_GROUPS = {"?:": "(?:", "?=": "(?=", "?!": "(?!", "?<=": "(?<=", "?<!": "(?<!", "?>": "", "?i:": "(?:"}

Part = str | int
Source = list[Part]


class CannotTranslate(ValueError):
    """What the expression holds and a translation would not keep."""


@dataclass(frozen=True)
class Translated:
    """An expression for a browser."""

    source: Source
    classes: list[str]


def base36(number: int) -> str:
    """35 -> "z", 36 -> "10"."""
    digits = ""
    while number or not digits:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits


def packed_ranges(members: np.typing.NDArray[np.bool_]) -> str:
    """The ranges of a class, as gap, length, gap, length, ... in base 36."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], members, [False]]).astype(np.int8)))
    return ",".join(base36(step) for step in np.diff(edges, prepend=0).tolist())


class CharacterClasses:
    """The classes that some expressions use, each once."""

    def __init__(self) -> None:
        self.packed: list[str] = []

    def number(self, members: str) -> int:
        """The number of a class, given as an expression of one character."""
        try:
            packed = packed_ranges(code_point_class(members))
        except regex.error as why:
            raise CannotTranslate(f"{members} ({why})") from None
        if packed not in self.packed:
            self.packed.append(packed)
        return self.packed.index(packed)


def translate(expression: str, classes: CharacterClasses | None = None) -> Translated:
    """The expression for JavaScript (flag u). Raises CannotTranslate. `classes`: shared with other expressions."""
    shared = classes if classes is not None else CharacterClasses()
    reader = _ExpressionReader(list(tokens(expression)), shared)
    source, least = reader.alternatives(False, False)
    if reader.at < len(reader.tokens):
        raise CannotTranslate("a bracket that closes nothing")
    if not least:
        raise CannotTranslate("a match that may be empty")
    return Translated(_joined(source), shared.packed)


def _joined(source: Source) -> Source:
    """Neighbouring texts put together."""
    found: Source = []
    for part in source:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        else:
            found.append(part)
    return found


class _ExpressionReader:
    """Reads an expression from left to right. Each method returns (source, the least length of a match)."""

    def __init__(self, listed: Sequence[ExpressionToken], classes: CharacterClasses) -> None:
        self.tokens, self.classes = listed, classes
        self.at = 0
        self.kept = 0  # groups that stand for possessive and atomic parts

    def _text(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead].text if self.at + ahead < len(self.tokens) else ""

    def alternatives(self, ignore_case: bool, behind: bool) -> tuple[Source, int]:
        """Up to the closing bracket or the end."""
        source, least = self._sequence(ignore_case, behind)
        while self._text() == "|":
            self.at += 1
            more, length = self._sequence(ignore_case, behind)
            source, least = [*source, "|", *more], min(least, length)
        return source, least

    def _sequence(self, ignore_case: bool, behind: bool) -> tuple[Source, int]:
        source: Source = []
        least = 0
        while self.at < len(self.tokens) and self._text() not in ("|", ")"):
            atom, length, repeats = self._atom(ignore_case, behind)
            atom, length = self._repeated(atom, length, repeats, behind)
            source += atom
            least += length
        return source, least

    def _repeated(self, atom: Source, length: int, repeats: bool, behind: bool) -> tuple[Source, int]:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or (token.kind != "repeat" and token.text not in _REPEATS):
            return atom, length
        if not repeats:
            raise CannotTranslate(f"{token.text} behind what has no length")
        if not length:
            raise CannotTranslate("a repetition of what may be empty")
        times = int(token.text[1:-1].split(",")[0]) if token.kind == "repeat" else int(token.text == "+")
        self.at += 1
        source: Source = [*atom, token.text]
        if self._text() == "?":
            source.append("?")
            self.at += 1
        elif self._text() == "+":
            source = self._atomic(source, behind)
            self.at += 1
        if self._text() in _REPEATS or (self.at < len(self.tokens) and self.tokens[self.at].kind == "repeat"):
            raise CannotTranslate("a repetition of a repetition")
        return source, length * times

    def _atomic(self, source: Source, behind: bool) -> Source:
        if behind:
            raise CannotTranslate("a possessive part in a look behind")
        self.kept += 1
        return [f"(?=(?<p{self.kept}>", *source, f"))\\k<p{self.kept}>"]

    def _atom(self, ignore_case: bool, behind: bool) -> tuple[Source, int, bool]:
        """(source, least length, whether it may be repeated)."""
        token = self.tokens[self.at]
        if token.kind == "open":
            return self._group(ignore_case, behind)
        self.at += 1
        if token.kind == "end":
            return ["(?=\\n?(?![^]))"], 0, False
        if token.text == "^":
            return ["^"], 0, False
        if token.kind == "escape":
            return self._escape(token.text, ignore_case)
        if token.kind == "class":
            if any(mark in token.text for mark in ("[:", "[=", "[.")):
                raise CannotTranslate(f"the set {token.text}")
            return self._class(token.text, ignore_case)
        if token.text == ".":
            return self._class(".", False)
        if token.kind == "repeat" or token.text in (*_REPEATS, "{"):
            raise CannotTranslate(f"{token.text} where it stands")
        return self._character(token.text, ignore_case)

    def _class(self, members: str, ignore_case: bool) -> tuple[Source, int, bool]:
        return ["[", self.classes.number(f"(?i:{members})" if ignore_case else members), "]"], 1, True

    def _character(self, character: str, ignore_case: bool) -> tuple[Source, int, bool]:
        if ignore_case:
            return self._class(regex.escape(character), True)
        safe = character.isascii() and (character.isalnum() or character in _SAFE)
        return [character if safe else f"\\u{{{ord(character):x}}}"], 1, True

    def _escape(self, text: str, ignore_case: bool) -> tuple[Source, int, bool]:
        if text in _PLAIN_ESCAPES:
            return self._character(_PLAIN_ESCAPES[text], ignore_case)
        if text in _CLASS_ESCAPES or text[1:3] in ("p{", "P{"):
            return self._class(text, ignore_case)
        if len(text) in (6, 10) and text[1] in "uU":
            return self._character(chr(int(text[2:], 16)), ignore_case)
        if len(text) == 2 and not text[1].isalnum():
            return self._character(text[1], ignore_case)
        if text in ("\\A", "\\Z"):
            return ["^" if text == "\\A" else "(?![^])"], 0, False
        raise CannotTranslate(text)

    def _group(self, ignore_case: bool, behind: bool) -> tuple[Source, int, bool]:
        self.at += 1
        opening = ""
        if self._text() == "?":
            opening = next((o for o in _GROUPS if all(self._text(i) == c for i, c in enumerate(o))), "")
            if not opening:
                raise CannotTranslate("(?" + self._text(1))
            self.at += len(opening)
        looks = opening in ("?=", "?!", "?<=", "?<!")
        back = behind or opening in ("?<=", "?<!")
        inside, least = self.alternatives(ignore_case or opening == "?i:", back)
        if self._text() != ")":
            raise CannotTranslate("a bracket that is not closed")
        self.at += 1
        if opening == "?>":
            return ["(?:", *self._atomic(inside, behind), ")"], least, True
        return [_GROUPS.get(opening, "(?:"), *inside, ")"], 0 if looks else least, not looks
