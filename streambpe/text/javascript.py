r"""A regular expression of the `regex` module as one of JavaScript that finds the same, or a refusal.

    translate(r"\p{L}+|\s", classes)  ->  ["[", 0, "]+|[", 1, "]"]       classes.packed ["1t,q,6,q,...", "9,5,..."]

A number stands for a class of characters: gaps and lengths of its ranges, in base 36. Every class is
looked up in the installed `regex`, so Unicode's version and the rules of sets and of upper and lower case are those of
the split itself. What remains (order, groups, repetition, looking around) means the same in both languages, but:

 - possessive and atomic parts, which JavaScript lacks, become (?=(?<p>...))\k<p>;
 - `$` is also before a last line feed, and `.` is all but the line feed;
 - a repetition whose body may be empty, and a match that may be empty, differ between the two: refused.
"""

from __future__ import annotations

import numpy as np
import regex

from streambpe.text.characters import code_point_class
from streambpe.text.dialects import Both, ExpressionWriter, Node, Set, Unsayable, read, written

_SAFE = frozenset(" _'\",;:<>=!@#%&~`")  # no syntax in JavaScript; other characters are written by number

Part = str | int
Source = list[Part]


def base36(number: int) -> str:
    """35 -> "z", 36 -> "10"."""
    return np.base_repr(number, 36).lower()


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
            raise Unsayable(f"{members} ({why})") from None
        if packed not in self.packed:
            self.packed.append(packed)
        return self.packed.index(packed)


def translate(expression: str, classes: CharacterClasses) -> Source:
    """The expression for JavaScript (flag u), with numbers of these classes. Raises Unsayable."""
    made = _JavaScriptWriter(classes).written(read(expression, "regex", any_property=True))
    return [int(part) if number % 2 else part for number, part in enumerate(made.split("\0"))]


class _JavaScriptWriter(ExpressionWriter):
    """Writes the number of a class, between two NUL, in place of the class."""

    def __init__(self, classes: CharacterClasses) -> None:
        self.classes = classes
        self.kept = 0  # groups that stand for possessive and atomic parts

    def atomic(self, part: Node) -> str:
        """As a group that is looked for, and then taken."""
        self.kept += 1
        name = f"p{self.kept}"
        return f"(?=(?<{name}>{self.written(part)}))\\k<{name}>"

    def place(self, kind: str) -> str:
        """A place in the text."""
        return "^" if kind == "start" else super().place(kind)

    def one_of(self, node: Set | Both) -> str:
        """A class by its number, but for a single character."""
        only = node.members[0] if isinstance(node, Set) and not node.negated and len(node.members) == 1 else None
        if isinstance(only, tuple) and only[0] == only[1]:
            return _character(chr(only[0]))
        return f"[\0{self.classes.number(written(node))}\0]"


def _character(character: str) -> str:
    safe = character.isascii() and (character.isalnum() or character in _SAFE)
    return character if safe else f"\\u{{{ord(character):x}}}"
