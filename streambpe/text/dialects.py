r"""Regular expressions of three programs: `regex` (here), Oniguruma (Hugging Face) and Rust's fancy-regex (tiktoken).

    translated(r"[\p{L}&&[^\p{Han}]]+", "oniguruma", "regex")  ->  r"(?:(?=\p{L})[^\p{Han}])+"
    translated(r"\p{N}{1,3}+|\s+$", "rust", "oniguruma")  ->  r"(?>\p{N}{1,3})|\s+(?![\s\S])"

An expression is read as its program reads it, into a tree of what it means, and a tree is written in words that mean
the same to all three. What is not known to mean one thing is not read: `Unsayable` names it. The three differ in

 - `^` and `$`; `{1,3}+`, which repeats a repetition in Oniguruma; `(?m)`, which makes `.` take line feeds there;
 - classes in classes and `&&`, which `regex` takes for characters; `\w`; escapes by number;
 - upper and lower case, so letters that ignore it become classes: `(?i:k)` -> `[Kk\u212a]`;
 - empty matches, and repetitions of what may be empty: not read.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec
import regex
from msgspec import structs

Dialect = Literal["regex", "oniguruma", "rust"]

PROPERTIES = (
    "L|Lu|Ll|Lt|Lm|Lo|M|Mn|Mc|Me|N|Nd|Nl|No|P|Pc|Pd|Ps|Pe|Pi|Pf|Po|S|Sm|Sc|Sk|So|Z|Zs|Zl|Zp|C|Cc|Cf|Co|Cn|Alphabetic|"
    "White_Space|Emoji|Extended_Pictographic|Arabic|Armenian|Bengali|Bopomofo|Common|Cyrillic|Devanagari|Ethiopic|"
    "Georgian|Greek|Gujarati|Gurmukhi|Han|Hangul|Hebrew|Hiragana|Inherited|Kannada|Katakana|Khmer|Lao|Latin|Malayalam|"
    "Mongolian|Myanmar|Oriya|Sinhala|Tamil|Telugu|Thai|Tibetan"
)
_PROPERTY = regex.compile(rf"\\[pP]\{{({PROPERTIES})\}}|\\[pP]\{{\w+\}}")
_END = r"(?![\s\S])"
_EDGES = {  # how each kind of place in a text is written
    "start": r"\A",
    "end": _END,
    "end or last line feed": rf"(?=\n?{_END})",
    "start of line": rf"(?:\A|(?<=\n)(?!{_END}))",
    "end of line": rf"(?=\n|{_END})",
}
_READ_EDGES: dict[Dialect, dict[str, str]] = {
    "regex": {"^": "start", r"\A": "start", "$": "end or last line feed", r"\Z": "end"},
    "oniguruma": {
        "^": "start of line",
        r"\A": "start",
        "$": "end of line",
        r"\Z": "end or last line feed",
        r"\z": "end",
    },
    "rust": {"^": "start", r"\A": "start", "$": "end", r"\z": "end"},
}
_DOT_ALL: dict[Dialect, str] = {"regex": "s", "oniguruma": "m", "rust": "s"}  # the flag
_NUMBER: dict[Dialect, regex.Pattern[str]] = {
    "regex": regex.compile(r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})"),
    "oniguruma": regex.compile(r"\\x([0-7][0-9A-Fa-f])|\\x\{([0-9A-Fa-f]{1,6})\}|\\u([0-9A-Fa-f]{4})"),
    "rust": regex.compile(r"\\x([0-9A-Fa-f]{2})|\\[xu]\{([0-9A-Fa-f]{1,6})\}|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})"),
}
_CONTROLS = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\f": "\f", r"\v": "\v"}
_SYNTAX = frozenset(r"\[](){}.*+?^$|-&~#")
_FLAGS = regex.compile(r"\(\?([a-z]+)\)")
_GROUP = regex.compile(r"\((?:\?(?:([a-z]*):|(>|<?[=!]))|(?!\?))")
_REPEAT = regex.compile(r"([*+?]|\{(\d+)(,(\d*))?\})([?+]?)")
_ALIKE = (0x17F, 0x212A, 0x130, 0x131)  # beyond ASCII, in another case within it; the last two for `regex` alone
_MOST = 1000  # Rust's program and Oniguruma refuse large repetitions


class Unsayable(ValueError):
    """What an expression holds and is not read here, in words that fit behind "has"."""


Range = tuple[int, int]


class Set(msgspec.Struct, frozen=True):
    r"""One character out of ranges, of classes by name (`\s`, `\p{L}`) and of other sets."""

    members: tuple[Range | str | Set | Both, ...]
    negated: bool = False


class Both(msgspec.Struct, frozen=True):
    """One character that is in each of several sets."""

    sides: tuple[Set | Both, ...]
    negated: bool = False


class Edge(msgspec.Struct, frozen=True):
    """A place: of _EDGES, or before or behind what is looked at."""

    kind: str
    inside: Node | None = None


class Sequence(msgspec.Struct, frozen=True):
    """One after the other."""

    parts: tuple[Node, ...]


class Alternatives(msgspec.Struct, frozen=True):
    """The first that leads to a match."""

    parts: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True):
    """As often as possible, or as seldom."""

    part: Node
    least: int
    most: int | None
    lazy: bool = False


class Atomic(msgspec.Struct, frozen=True):
    """What matched once is not tried otherwise: `(?>a+)`, or `a++`."""

    part: Node


Node = Set | Both | Edge | Sequence | Alternatives | Repeat | Atomic


def _set(*members: Range | str | Set | Both, negated: bool = False) -> Set | Both:
    """A set in its one form: sets in it are dissolved, where they are not negated."""
    flat: set[Range | str | Set | Both] = set()
    for member in members:
        flat.update(member.members if isinstance(member, Set) and not member.negated else [member])
    if len(flat) == 1 and not isinstance(only := next(iter(flat)), tuple | str):
        return structs.replace(only, negated=only.negated != negated)
    names = {_SAME.get(member, member) for member in flat if isinstance(member, str)}
    inverse = any(name.replace("P", "p", 1) in names for name in names if name[1] == "P")
    if inverse or any(flat.issuperset(m.members) for m in flat if isinstance(m, Set)):
        if negated:  # of these `regex` takes some for all
            raise Unsayable("a class without characters")
        return _ANY
    return Set(tuple(sorted(flat, key=repr)), negated)


_SAME = {r"\d": r"\p{Nd}", r"\D": r"\P{Nd}", r"\s": r"\p{White_Space}", r"\S": r"\P{White_Space}"}
_ANY = Set((r"\S", r"\s"))
_DOT = _set((10, 10), negated=True)
_WORD = (r"\p{Alphabetic}", r"\p{M}", r"\p{Nd}", r"\p{Pc}")
_JOINERS = ((0x200C, 0x200D),)
_RAISED = ((0xB2, 0xB3), (0xB9, 0xB9), (0xBC, 0xBE))  # digits and fractions of Latin-1


def may_be_empty(node: Node) -> bool:
    """Whether a match may have no character."""
    if isinstance(node, Repeat):
        return not node.least or may_be_empty(node.part)
    if isinstance(node, Sequence | Alternatives):
        every = all if isinstance(node, Sequence) else any
        return every(map(may_be_empty, node.parts))
    return may_be_empty(node.part) if isinstance(node, Atomic) else isinstance(node, Edge)


def _cased(member: Range | str | Set | Both) -> bool:
    """Whether a range or class may hold a letter and not its other case; of large ranges it is taken for granted."""
    if not isinstance(member, tuple):
        return member in (r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{M}", r"\p{Mn}")
    low, high = member
    return high - low > 0x7F or any(chr(c).lower() != chr(c).upper() for c in range(low, high + 1))


class _DialectReader:
    """Reads an expression of one program from left to right."""

    def __init__(self, expression: str, source: Dialect, any_property: bool = False) -> None:
        self.text, self.source, self.at, self.any_property = expression, source, 0, any_property
        self.fold = self.dot_all = self.behind = False
        self.in_either_case = self.but_letters = False

    def whole(self) -> Node:
        """The tree of the expression."""
        if found := _FLAGS.match(self.text):
            self.flags(found[1])
            self.at = found.end()
        tree = self.choice()
        if self.at < len(self.text):
            raise Unsayable("a bracket that closes nothing")
        if self.source == "regex" and self.in_either_case and self.but_letters:
            # a defect of `regex`: all such classes ignore case then, wherever they stand (and U+0345, an iota in upper
            # case, is in no class of all but letters, which is let pass; what is written for `regex` has no `(?i:`)
            raise Unsayable("`(?i:` and, in another place, a class of all but some letters")
        return tree

    def flags(self, letters: str) -> None:
        for letter in letters:
            if letter not in ("i", _DOT_ALL[self.source]):
                raise Unsayable(f"the flag {letter!r}")
        self.fold |= "i" in letters
        self.dot_all |= _DOT_ALL[self.source] in letters

    def take(self, text: str) -> bool:
        """Go past this text if it stands here."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def choice(self) -> Node:
        begin = self.at
        ways = [self.sequence()]
        while self.take("|"):
            ways.append(self.sequence())
        lone = regex.findall(r"\[\^\\?.\](?=[|)]|$)", self.text[begin : self.at]) if len(ways) > 1 else []
        if len(set(lone)) > 1 and self.source == "regex":  # a defect of `regex`: [^b]|[^a] finds no b
            raise Unsayable(f"the alternatives {' and '.join(lone)}")
        return ways[0] if len(ways) == 1 else Alternatives(tuple(ways))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            part = self.repeated(self.atom())
            parts += part.parts if isinstance(part, Sequence) else [part]
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, part: Node) -> Node:
        found = _REPEAT.match(self.text, self.at)
        if found is None:
            return part
        self.at = found.end()
        if may_be_empty(part):
            raise Unsayable(f"a repetition of what may be empty ({found[0]})")
        sign, low, comma, high, more = found.groups()
        least = int(low) if low else int(sign == "+")
        most = (int(high) if high else None) if comma else least if low else 1 if sign == "?" else None
        if least > (_MOST if most is None else most) or (most or 0) > _MOST or most == 0:
            raise Unsayable(f"the repetition {sign}")
        if self.source == "oniguruma" and low and (more == "+" or (more == "?" and not comma)):
            if more == "?" or not least:
                raise Unsayable(f"the repetition {found[0]}")
            return self.once(Repeat(Repeat(part, least, most), 1, None))
        repeat = Repeat(part, least, most, more == "?" and least != most)
        held = more == "+" and not (self.source == "regex" and least == most == 1)  # `regex` leaves {1}+ out
        return self.once(Atomic(repeat) if held else repeat)

    def once(self, repeat: Node) -> Node:
        if found := _REPEAT.match(self.text, self.at):
            raise Unsayable(f"a repetition of a repetition ({found[0]})")
        return repeat

    def atom(self) -> Node:
        character = self.text[self.at]
        if character == "(":
            return self.group()
        if self.take("["):
            return self.bracket()
        if character in "*+?{":
            raise Unsayable(f"{character!r} in that place")
        size = 2 if character == "\\" else 1
        if (edge := _READ_EDGES[self.source].get(self.text[self.at : self.at + size])) is not None:
            self.at += size
            return Edge(edge)
        if self.take("."):
            return _ANY if self.dot_all else _DOT
        first = self.at
        member = self.member(in_class=False)
        if isinstance(member, tuple):
            self.refuse_joined(first)
            return self.folded(member, in_class=False)
        return _set(member)

    def refuse_joined(self, first: int) -> None:
        """Oniguruma takes `(?i:ss)` for U+00DF too: letters of which several are one, in another case."""
        if self.fold and self.source == "oniguruma" and self.text[first] in "sfSF":
            behind = self.text[self.at :].lstrip("()?:")[:1]
            if behind and behind in "sStTfFiIlL{[":
                raise Unsayable(f"upper and lower case of {self.text[first] + behind!r}")

    def group(self) -> Node:
        found = _GROUP.match(self.text, self.at)
        if found is None or (self.behind and not found[2] and ":" not in found[0]):
            raise Unsayable(f"the group {self.text[self.at : self.at + 4]}")
        self.at = found.end()
        before = self.fold, self.dot_all, self.behind
        self.flags(found[1] or "")
        self.in_either_case |= "i" in (found[1] or "")
        kind = found[2] or ""
        self.behind |= "<" in kind
        inside = self.choice()
        self.fold, self.dot_all, self.behind = before
        if not self.take(")"):
            raise Unsayable("a bracket that is not closed")
        if "<" in kind:
            self.refuse_behind(inside)
        if kind == "!" and inside == _ANY:
            return Edge("end")
        return Atomic(inside) if kind == ">" else Edge(f"(?{kind}", inside) if kind else inside

    def refuse_behind(self, inside: Node) -> None:
        """All programs look behind for so many characters."""
        for way in inside.parts if isinstance(inside, Alternatives) else (inside,):
            parts = way.parts if isinstance(way, Sequence) else (way,)
            if not parts or not all(isinstance(part, Set | Both) for part in parts):
                raise Unsayable("more than characters in a look behind")

    def member(self, in_class: bool = True) -> Range | str | Set | Both:
        """A character, a class by name, or a set that stands for an escape."""
        text, start = self.text, self.at
        if text[start] != "\\":
            self.at += 1
            return ord(text[start]), ord(text[start])
        escape = text[start : start + 2]
        if found := _NUMBER[self.source].match(text, start):
            point = int(next(filter(None, found.groups())), 16)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise Unsayable(found[0])
            self.at = found.end()
            return point, point
        if found := _PROPERTY.match(text, start):
            if not (found[1] or self.any_property) or self.fold:
                raise Unsayable(found[0] + " in either case" * self.fold)
            self.at = found.end()
            self.but_letters |= found[0][1] == "P" and _cased(rf"\p{found[0][2:]}")
            return str(found[0])
        self.at += 2
        if escape in (r"\s", r"\S", r"\d", r"\D"):
            return escape
        if escape in (r"\w", r"\W") and not self.fold:
            more = _JOINERS if self.source != "oniguruma" else () if in_class else _RAISED
            return _set(*_WORD, *more, negated=escape == r"\W")
        if escape in _CONTROLS:
            return ord(_CONTROLS[escape]), ord(_CONTROLS[escape])
        if len(escape) == 2 and escape[1].isascii() and not escape[1].isalnum() and escape[1] not in "<>":
            return ord(escape[1]), ord(escape[1])
        raise Unsayable(escape)

    def folded(self, span: Range, in_class: bool = True) -> Set | Both:
        """The characters of a range; in either case, where that is ignored."""
        if not self.fold:
            return _set(span)
        if span[1] > 0x7F:
            raise Unsayable(f"upper and lower case of {chr(span[1])!r}")
        whole = _member(span)
        alike = regex.compile(f"(?i:{f'[{whole}]' if in_class else whole})")
        found = [c for c in [*range(0x80), *_ALIKE] if alike.match(chr(c))]
        dotted = _ALIKE[2:] if self.source != "regex" else ()
        return _set(*((c, c) for c in found if c not in dotted))

    def bracket(self) -> Set | Both:
        """A class, from behind its bracket."""
        negated = self.take("^")
        sides: list[Set | Both] = []
        members: list[Range | str | Set | Both] = []
        first = True
        nests = self.source != "regex"
        while first or not self.take("]"):
            if self.at >= len(self.text):
                raise Unsayable("a class that is not closed")
            here, there = self.text[self.at], self.text[self.at : self.at + 2]
            if there == "[:" or there in (("--", "~~") if nests else ("[.", "[=")):
                raise Unsayable(f"{there} in a class")
            if nests and self.fold and (here == "[" or there == "&&"):
                raise Unsayable("upper and lower case of classes in classes")
            if nests and self.take("&&"):
                sides.append(self.side(members))
                members = []
            elif nests and self.take("["):
                members.append(self.bracket())
            else:
                members.append(self.span(first))
            first = False
        if not sides:
            made = _set(*members, negated=negated)
            if negated and isinstance(made, Set):
                self.but_letters |= any(_cased(member) for member in made.members)
            return made
        return Both((*sides, self.side(members)), negated)

    def side(self, members: list[Range | str | Set | Both]) -> Set | Both:
        if not members:
            raise Unsayable("an empty side of &&")
        return _set(*members)

    def span(self, first: bool) -> str | Set | Both:
        """A member of a class, or a range of them."""
        hyphen = self.text[self.at] == "-" or self.text.startswith("]-", self.at)
        low = self.member()
        if hyphen and not first and not self.text.startswith("]", self.at):
            raise Unsayable("'-' in the middle of a class")
        if self.text.startswith("-]", self.at) or not self.take("-"):
            return self.folded(low) if isinstance(low, tuple) else low
        if hyphen or self.text[self.at : self.at + 1] in ("", "-", "&", "["):
            raise Unsayable("'-' at an end of a range")
        high = self.member()
        if not isinstance(low, tuple) or not isinstance(high, tuple) or low[0] > high[0]:
            raise Unsayable("a range that has no ends")
        return self.folded((low[0], high[0]))


@functools.lru_cache(64)
def read(expression: str, source: Dialect, any_property: bool = False) -> Node:
    """What an expression means. Raises Unsayable. `any_property`: also of names that other programs may not know."""
    try:
        tree = _DialectReader(expression, source, any_property).whole()
    except RecursionError:
        raise Unsayable("brackets nested too deeply") from None
    if may_be_empty(tree):
        raise Unsayable("a match that may be empty")
    return tree


def translated(expression: str, source: Dialect, target: Dialect) -> str:
    """The expression for another program; it stays as it is where it means the same there. Raises Unsayable."""
    tree = read(expression, source)
    try:
        same = read(expression, target) == tree and not (target == "regex" != source and "(?i" in expression)
    except Unsayable:
        same = False
    return expression if same else written(tree)


def written(node: Node) -> str:
    """A tree as an expression."""
    return ExpressionWriter().written(node)


class ExpressionWriter:
    """Writes trees as expressions that all three programs read alike."""

    def written(self, node: Node) -> str:
        """A tree as an expression."""
        if isinstance(node, Alternatives):
            return "|".join(map(self.written, node.parts))
        if isinstance(node, Sequence):
            return "".join(self._grouped(part, (Alternatives,)) for part in node.parts)
        if isinstance(node, Repeat):
            return self._grouped(node.part, (Alternatives, Sequence, Repeat, Atomic)) + times(node)
        if isinstance(node, Atomic):
            return self.atomic(node.part)
        if isinstance(node, Edge):
            return self.place(node.kind) if node.inside is None else f"{node.kind}{self.written(node.inside)})"
        return self.one_of(node)

    def _grouped(self, node: Node, kinds: tuple[type, ...]) -> str:
        text = self.written(node)
        return f"(?:{text})" if isinstance(node, kinds) else text

    def atomic(self, part: Node) -> str:
        """What is not tried otherwise."""
        inside = self.written(part)
        repeats = isinstance(part, Repeat) and not part.lazy and inside[-1] != "}"  # {1,3}+ repeats that in Oniguruma
        return f"{inside}+" if repeats else f"(?>{inside})"

    def place(self, kind: str) -> str:
        """A place in the text."""
        return _EDGES[kind]

    def one_of(self, node: Set | Both) -> str:
        """One character."""
        return _written_set(node)


def times(node: Repeat) -> str:
    """How often."""
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if node.most is None else node.most
    exact = f"{{{node.least}}}" if node.least == node.most else f"{{{node.least},{most}}}"
    return signs.get((node.least, node.most), exact) + "?" * node.lazy


def _written_set(node: Set | Both) -> str:
    """One class, or others side by side: `regex` knows no class in a class."""
    if node == _DOT:
        return "."
    if isinstance(node, Both):
        sides = [_written_set(side) for side in node.sides]
        found = "".join(f"(?={side})" for side in sides[:-1]) + sides[-1]
    else:
        members = [member for member in node.members if isinstance(member, tuple | str)]
        plain = [_member(member) for member in members]
        others = [_written_set(member) for member in node.members if isinstance(member, Set | Both)]
        only = members[0] if len(node.members) == len(members) == 1 else (0, 1)
        lone = only[0] in (only[1], "\\")  # a character, or a class by its name
        if not others and not (lone and node.negated and isinstance(only, tuple)):  # `regex` joins [^a]|[^b] wrongly
            return plain[0] if lone and not node.negated else f"[{'^' * node.negated}{''.join(plain)}]"
        found = "|".join([f"[{''.join(plain)}]"] * bool(plain) + others)
    return rf"(?:(?!{found})[\s\S])" if node.negated else f"(?:{found})"


def _member(member: Range | str) -> str:
    if isinstance(member, str):
        return member
    low, high = map(_character, member)
    return low if low == high else f"{low}-{high}"


def _character(point: int) -> str:
    character = chr(point)
    if character in _SYNTAX:
        return "\\" + character
    named = next((escape for escape, of in _CONTROLS.items() if of == character), f"\\u{point:04X}")
    return character if character.isprintable() or point > 0xFFFF else named
