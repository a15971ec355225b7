r"""An expression of the user's own as a program that the core runs (core/split_own.c), and where it surely cuts.

    ' ?\p{L}+|\s'   ->   0 EITHER 1 3   1 TIMES [ ] 0 to 1   2 TIMES [\p{L}] 1 or more, GO 4   3 ONE [\s]   4 DONE

The tree of the expression is that of dialects.py, so what is not read there has no program, and `regex` runs it. A
program knows characters by the sets of the expression that hold them: `kinds` are the combinations that occur.

**Sure cuts** are two characters that no match holds side by side, whatever stands around. A document may be split in
pieces there, each by itself, with the same chunks. Why:

- A match that read both characters would read them by two sets of one alternative, the second of which can come behind
  the first. `_behind` has all such pairs, and some that cannot be. Sets that only look ahead are among them: so a set
  that is tried on the second character fails there, as it fails where a text ends.
- What is tested besides could tell a cut from the end or the start of a text: there is no cut behind a character after
  which the end of the text may be tested, nor behind one that something may look back at. `^` is not accepted.
- Where text between matches is a chunk, a match has to begin at the cut in any case: `_surely` has the sets for that.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import regex
from msgspec import structs

from streambpe.core.classes import PAGE, Classes
from streambpe.errors import PatternError
from streambpe.text import dialects
from streambpe.text.dialects import Alternatives, Atomic, Both, Edge, Node, Repeat, Set, Unsayable

Kinds = npt.NDArray[np.uint16]
_ONE, _TIMES, _EITHER, _GO, _OPEN, _CLOSE, _FAIL, _BACK, _AT, _DONE = range(10)  # as in split_own.c
_PLACES = {"start": 0, "end": 1, "end or last line feed": 2}
_MOST_STEPS, _MOST_SETS = 4000, 63
_ALWAYS = 1 << 63  # in the sets of every character, and of the end of the text
_ANY = (1 << 64) - 1
_NO_END = (1 << 63) - 1
_LINE_FEED = Set(((10, 10),))


class Program(Classes):
    """Steps for the core, and a table of the kinds of characters, made one page at a time. Raises Unsayable."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._bits: dict[Set | Both, int] = {}
        self._steps: list[list[int]] = []
        self._behind: dict[int, int] = defaultdict(int)  # the sets that may come behind each
        self._no_cut = 0  # sets behind whose characters there is none
        tree = _in_one(dialects.read(expression, "regex", any_property=True))
        self._emit(tree)
        self._put(_DONE)
        self._sure = self._surely(tree)
        self._follow(tree)
        self.steps = np.array(self._steps, np.uint64)
        self._members = [regex.compile(dialects.written(one)) for one in self._bits]
        self._kinds: dict[int, int] = {}
        self.sets = np.zeros(1 << 16, np.uint64)  # of each kind
        self.behind = np.zeros(1 << 16, np.uint64)  # the sets that may come behind it
        super().__init__()

    def entries(self, text: str) -> Kinds:
        """As in Classes."""
        found = np.full(PAGE, _ALWAYS, np.uint64)
        for bit, member in enumerate(self._members):
            found[[match.start() for match in member.finditer(text)]] |= np.uint64(1 << bit)
        sets, place = np.unique(found, return_inverse=True)
        kinds: Kinds = np.array([self._kind(one) for one in sets.tolist()], np.uint16)[place]
        return kinds

    def _kind(self, sets: int) -> int:
        kind = self._kinds.setdefault(sets, len(self._kinds))
        if kind == len(self.sets):
            raise PatternError(f"The pattern {self._expression[:200]!r} has more than {kind:,} kinds of characters.")
        self.sets[kind] = sets
        behind = [self._behind[bit] for bit in range(_MOST_SETS) if sets >> bit & 1]
        self.behind[kind] = _ANY if sets & self._no_cut else functools.reduce(operator.or_, behind, 0)
        return kind

    def _cuts(self, before: Kinds, behind: Kinds, gaps: bool) -> npt.NDArray[np.bool_]:
        cuts: npt.NDArray[np.bool_] = self.behind[before] & self.sets[behind] == 0
        if gaps:
            cuts &= self.sets[behind] & np.uint64(self._sure) != 0
        return cuts

    def has_cuts(self, gaps: bool) -> bool:
        """Whether two characters of ASCII are known between which it surely cuts. `gaps`: what it leaves is a chunk."""
        kinds = self.table[:0x80]
        return bool(self._cuts(kinds[:, None], kinds[None], gaps).any())

    def last_cut(self, text: str, gaps: bool = False) -> int:
        """The last place in a text where it surely cuts, or 0; never beside a NUL."""
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        self.learn(np.unique(points // PAGE).tolist())
        kinds = self.table[points]
        cuts = self._cuts(kinds[:-1], kinds[1:], gaps)
        places = np.flatnonzero(cuts & (points[:-1] != 0) & (points[1:] != 0))
        return int(places[-1]) + 1 if len(places) else 0

    # What may come behind what.

    def _follow(self, node: Node) -> tuple[int, bool]:
        """(the sets of a part of the expression, whether it may ask for the end of the text)."""
        if isinstance(node, Set | Both):
            return self._bit(node), False
        if isinstance(node, Edge):
            if node.inside is None:
                self._no_cut |= _ANY if node.kind == "start" else 0
                feed = self._bit(_LINE_FEED) if node.kind == "end or last line feed" else 0
                self._no_cut |= feed
                return feed, node.kind != "start"
            sets, ends = self._follow(node.inside)
            if "<" not in node.kind:
                return sets, ends
            self._no_cut |= sets
            return 0, False
        if isinstance(node, Repeat | Atomic):
            inside = self._follow(node.part)
            if isinstance(node, Repeat) and node.most != 1:
                self._join(inside[0], *inside)
            return inside
        sets, ends = 0, False
        for part in node.parts:
            more = self._follow(part)
            if isinstance(node, dialects.Sequence):
                self._join(sets, *more)
            sets, ends = sets | more[0], ends or more[1]
        return sets, ends

    def _join(self, before: int, behind: int, ends: bool) -> None:
        for bit in range(_MOST_SETS):
            if before >> bit & 1:
                self._behind[bit] |= behind
        self._no_cut |= before if ends else 0

    def _surely(self, node: Node) -> int:
        """Sets such that some match begins at any of their characters, whatever follows it."""
        if isinstance(node, Set | Both):
            return self._bit(node)
        if isinstance(node, Repeat):
            return self._surely(node.part) if node.least == 1 else 0
        if isinstance(node, Atomic):
            return self._surely(node.part)
        if isinstance(node, Edge):
            return 0
        sets = 0
        for at, part in enumerate(node.parts):
            rest = [one.part if isinstance(one, Atomic) else one for one in node.parts[at + 1 :]]
            alone = [*node.parts[:at], *rest]
            if isinstance(node, Alternatives) or all(isinstance(one, Repeat) and not one.least for one in alone):
                sets |= self._surely(part)
        return sets

    # Steps.

    def _put(self, op: int, a: int = 0, b: int = 0, within: int = 0, other: int = 0) -> int:
        self._steps.append([op, a, b, within, other])
        if len(self._steps) > _MOST_STEPS:
            raise Unsayable("too many repetitions")
        return len(self._steps) - 1

    def _bit(self, one: Set | Both) -> int:
        bit = self._bits.setdefault(one, len(self._bits))
        if bit == _MOST_SETS:
            raise Unsayable("too many sets of characters")
        return 1 << bit

    def _first(self, node: Node) -> int:
        """The sets that a match of this may begin with."""
        return _ANY if dialects.may_be_empty(node) else self._begin(node)

    def _begin(self, node: Node) -> int:
        if isinstance(node, Set | Both):
            return self._bit(node)
        if isinstance(node, Repeat | Atomic):
            return self._begin(node.part)
        sets = 0
        for part in node.parts if not isinstance(node, Edge) else ():
            sets |= self._begin(part)
            if isinstance(node, dialects.Sequence) and not dialects.may_be_empty(part):
                break
        return sets

    def _emit(self, node: Node) -> None:
        if isinstance(node, Set | Both):
            self._put(_ONE, within=self._bit(node))
        elif isinstance(node, dialects.Sequence):
            for part in node.parts:
                self._emit(part)
        elif isinstance(node, Alternatives):
            self._either(node.parts, False)
        elif isinstance(node, Edge):
            self._edge(node)
        elif isinstance(node, Repeat):
            self._repeat(node, False)
        elif isinstance(node.part, Repeat):
            self._repeat(node.part, True)
        else:
            self._held(node.part, 0)

    def _held(self, part: Node, looked: int) -> None:
        self._put(_OPEN)
        self._emit(part)
        self._put(_CLOSE, looked)

    def _either(self, ways: Sequence[Node], back: bool) -> None:
        """The first of these that leads to a match. `back`: of what stands before this place."""
        ends = []
        firsts = [_ANY if back else self._first(one) for one in ways]
        rests = [*itertools.accumulate(reversed(firsts), operator.or_)][-2::-1]  # of all behind each
        for number, way in enumerate(ways):
            left = number < len(rests)
            at = self._put(_EITHER, len(self._steps) + 1, within=firsts[number], other=rests[number]) if left else 0
            if back:
                self._put(_BACK, len(way.parts) if isinstance(way, dialects.Sequence) else 1)
            self._emit(way)
            if left:
                ends.append(self._put(_GO))
                self._steps[at][2] = len(self._steps)
        for end in ends:
            self._steps[end][1] = len(self._steps)

    def _repeat(self, node: Repeat, possessive: bool) -> None:
        part, most = node.part, node.most
        if isinstance(part, Set | Both) and not node.lazy:
            self._put(_TIMES, node.least, _NO_END if most is None else most, self._bit(part), int(possessive))
            return
        if possessive:
            self._held(node, 0)
            return
        for _ in range(node.least):
            self._emit(part)
        ways = [self._first(part), _ANY]
        open_ends = []
        for _ in range(1 if most is None else most - node.least):
            at = self._put(_EITHER, 0, 0, *ways[:: -1 if node.lazy else 1])
            open_ends.append(at)
            self._steps[at][2 if node.lazy else 1] = at + 1
            self._emit(part)
            if most is None:
                self._put(_GO, at)
        for at in open_ends:
            self._steps[at][1 if node.lazy else 2] = len(self._steps)

    def _edge(self, node: Edge) -> None:
        inside = node.inside
        if inside is None:
            self._put(_AT, _PLACES[node.kind])
            return
        at = self._put(_OPEN)
        if "<" in node.kind:
            self._either(inside.parts if isinstance(inside, Alternatives) else (inside,), True)
        else:
            self._emit(inside)
        if "!" in node.kind:
            self._put(_FAIL)
            self._steps[at][1] = len(self._steps)
        else:
            self._put(_CLOSE, 1)


def _in_one(node: Node) -> Node:
    r"""The same with one set for a character that is looked at before it is read: `(?=\p{L})[^\p{Han}]`."""
    if isinstance(node, Repeat | Atomic):
        return structs.replace(node, part=_in_one(node.part))
    if isinstance(node, Edge):
        return node if node.inside is None else structs.replace(node, inside=_in_one(node.inside))
    if isinstance(node, Set | Both):
        return node
    parts: list[Node] = []
    for part in map(_in_one, node.parts):
        looked = parts[-1] if parts and isinstance(node, dialects.Sequence) else None
        ahead = looked.inside if isinstance(looked, Edge) and "<" not in looked.kind else None
        if isinstance(part, Set | Both) and isinstance(ahead, Set | Both) and isinstance(looked, Edge):
            parts[-1] = Both((Both((ahead,), negated="!" in looked.kind), part))
        else:
            parts.append(part)
    return parts[0] if len(parts) == 1 else structs.replace(node, parts=tuple(parts))


@functools.lru_cache(16)
def program_of(expression: str) -> Program | None:
    """The program of an expression; None if it has to be left to `regex`."""
    try:
        return Program(expression)
    except (Unsayable, RecursionError):
        return None
