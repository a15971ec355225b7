r"""Where a pattern of the user's own cuts whatever stands around: two characters that no match holds side by side.

    sure_cuts(r" ?\p{L}+|\p{N}+|\s+(?!\S)|\s+")     "the 12 cats"  ->  "the| 12| cats"

The pieces between such cuts give the same chunks as the whole text, so `regex` runs once on each distinct piece. Why:

- A match that held both characters would consume them by two atoms of one alternative, the second of which can follow
  the first. `_neighbours` lists all pairs of atoms for which that is possible, and some for which it is not.
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
from streambpe.text.expressions import tokens

_CHARACTERS = "".join(map(chr, range(0x3000)))  # there are no cuts beside characters beyond these
_ONE_CHARACTER = r"\\[sSdDwWnrtfv]|\\[pP]\{[^}]*\}"
_ATOM = regex.compile(rf"(?s){_ONE_CHARACTER}|\\u.{{4}}|\\U.{{8}}|\\[^\w\s]|\[[^\[]*\]|[^\\\[\^${{}}?]")
_OPEN = regex.compile(rf"\((?:\?(?:i?:|>)|\?[!=](?P<looked>{_ONE_CHARACTER})\)|(?![?*]))")


def _neighbours(expression: str) -> tuple[list[str], set[tuple[int, int]]] | None:
    """(the atoms, with "" for a look-ahead; pairs of atoms of which the second may follow the first), or None."""
    atoms: list[str] = []
    pairs: set[tuple[int, int]] = set()
    outer: list[
        tuple[int, bool]
    ] = []  # groups that are open: the first atom of each, whether case was ignored before it
    flags = regex.match(r"(?:\(\?[is]+\))?", expression)[0]
    branch = last = 0  # where the alternative begins, and what a repetition repeats
    at, folds = len(flags), False
    for token in tokens(expression):
        if token.at < at:
            continue
        if token.kind == "open":
            opened = _OPEN.match(expression, token.at)
            if not opened:
                return None
            at = opened.end()
            if not opened["looked"]:
                outer.append((len(atoms), folds))
                folds = folds or "i" in opened[0]
                continue
        if token.kind == "close":
            last, folds = outer.pop()
        elif token.kind == "bar":
            branch = branch if outer else len(atoms)
        elif token.kind == "repeat" or token.text in ("*", "+"):
            pairs.update(itertools.product(range(last, len(atoms)), range(last, len(atoms))))
        elif token.kind == "open" or _ATOM.fullmatch(token.text):
            last = len(atoms)
            pairs.update((before, last) for before in range(branch, last))
            atoms.append("" if token.kind == "open" else flags + (f"(?i:{token.text})" if folds else token.text))
        elif token.text != "?":
            return None
    return atoms, pairs


@functools.cache
def sure_cuts(expression: str) -> Classes | None:
    """A table for the core's rule `cuts`, or None if no cut is proved. There are up to eight kinds of cuts: the lower
    eight bits of a character say before which of them it stands, the upper eight after which."""
    found = _neighbours(expression)
    if found is None or not found[1] or regex.fullmatch(expression, ""):
        return None
    atoms, pairs = found
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
