r"""Where a pattern of the user's own cuts whatever stands around: two characters that no match holds side by side.

    sure_cuts(r" ?\p{L}+|\p{N}+|\s+(?!\S)|\s+")     "the 12 cats"  ->  "the| 12| cats"

The pieces between such cuts give the same chunks as the whole text, so `regex` runs once on each distinct piece. Why:

- A match that held both characters would consume them by two atoms of one alternative, the second of which can follow
  the first. `_Atoms` lists all pairs of atoms for which that is possible, and some for which it is not.
- No match looks across a cut. Only look-aheads at a single character are accepted, and a place at which one may be
  tested after a character is no cut. Anchors, look-behinds and back-references are not accepted.

An expression with anything that is not accepted has no cuts.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import regex

from streambpe.core.classes import Classes
from streambpe.text import dialects

_CHARACTERS = "".join(map(chr, range(0x3000)))  # there are no cuts beside characters beyond these


class _Atoms:
    """What consumes one character in an expression, and what may follow what."""

    def __init__(self, expression: str) -> None:
        self.atoms: list[str] = []  # "" for a look-ahead
        self.pairs: set[tuple[int, int]] = set()  # the second may follow the first
        self._add(dialects.read(expression, "regex", any_property=True))

    def _add(self, node: dialects.Node) -> range:
        """The atoms of a part of the expression. Raises Unsayable."""
        first = len(self.atoms)
        if isinstance(node, dialects.Set | dialects.Both):
            self.atoms.append(dialects.written(node))
        elif isinstance(node, dialects.Edge):
            if node.kind not in ("(?=", "(?!") or not isinstance(node.inside, dialects.Set | dialects.Both):
                raise dialects.Unsayable(node.kind)
            self.atoms.append("")
        elif isinstance(node, dialects.Sequence):
            for part in node.parts:
                before = range(first, len(self.atoms))
                self.pairs.update(itertools.product(before, self._add(part)))
        elif isinstance(node, dialects.Alternatives):
            for way in node.parts:
                self._add(way)
        else:
            self._add(node.part)
            if isinstance(node, dialects.Repeat) and node.most != 1:
                inside = range(first, len(self.atoms))
                self.pairs.update(itertools.product(inside, inside))
        return range(first, len(self.atoms))


@functools.cache
def sure_cuts(expression: str) -> Classes | None:
    """A table for the core's rule `cuts`, or None if no cut is proved. There are up to eight kinds of cuts: the lower
    eight bits of a character say before which of them it stands, the upper eight after which."""
    try:
        found = _Atoms(expression)
    except dialects.Unsayable:
        return None
    atoms, pairs = found.atoms, found.pairs
    if not pairs:
        return None
    member = np.zeros((len(atoms), len(_CHARACTERS)), bool)
    for row, atom in zip(member, atoms, strict=True):
        row[[match.start() for match in regex.finditer(atom, _CHARACTERS)] if atom else []] = True
    kinds, kind = np.unique(member, axis=1, return_inverse=True)
    may_follow = np.zeros((len(atoms), len(atoms)), bool)
    may_follow[tuple(np.array(sorted(pairs)).T)] = True
    behind = kinds | np.array([not atom for atom in atoms])[:, None]
    columns, column = np.unique(~(kinds.T @ may_follow @ behind), axis=1, return_inverse=True)
    many = np.bincount(column.ravel()[kind.ravel()[:0x250]], minlength=columns.shape[1]) * columns.any(axis=0)
    entries = np.zeros(kinds.shape[1], np.uint16)
    for bit, best in enumerate(np.argsort(-many, kind="stable")[:8]):
        entries |= (columns[:, best].astype(np.uint16) << bit) | (
            (column.ravel() == best).astype(np.uint16) << (bit + 8)
        )
    table = np.zeros(0x110000, np.uint16)
    table[: len(_CHARACTERS)] = entries[kind.ravel()]
    return Classes(table) if table.any() else None
