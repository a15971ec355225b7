r"""The same split for texts of ASCII alone, run by the standard library's `re`.

Every class of characters is replaced by its members below U+0080, as the `regex` module has them:

    ` ?(?:\p{L}\p{M}*)+`   ->   ` ?(?:[A-Za-z])+`

What is left are sets of a few ranges, which `re` runs two to four times as fast as `regex` runs classes of
Unicode. Sequence, alternation, greed, possession and look-ahead mean the same in both. Whatever the
translation does not know makes it None, and `regex` goes on alone.
"""

from __future__ import annotations

import functools
import re

import regex

# a class, a property, an escape, one plain character: what stands for one character of text
_ATOM = regex.compile(
    r"\[\^?\]?(?:\\[pP]\{\w+\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[^pPuUx]|[^\]\\\[])*+\]"
    r"|\\[pP]\{\w+\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[rnstSwWdD]|\\[^a-zA-Z0-9]|[^\\\[\](){}|*+?^$.]"
)
_SYNTAX = regex.compile(r"\(\?(?:i?:|[=!])|[)|.$]|[*+?]|\{\d+(?:,\d*)?\}")
_OPTIONAL = regex.compile(r"[*?][+?]?|\{0,\d*\}[+?]?")


@functools.cache
def ascii_twin(expression: str) -> re.Pattern[str] | None:
    """The expression for ASCII texts; None if it holds what is not known here. A few milliseconds, kept."""
    parts: list[str] = []
    at = 0
    while at < len(expression):
        if syntax := _SYNTAX.match(expression, at):
            parts.append(syntax.group())
            at = syntax.end()
            continue
        atom = _ATOM.match(expression, at)
        if atom is None:
            return None
        at = atom.end()
        members = _members(atom.group())
        if not members and (optional := _OPTIONAL.match(expression, at)):
            at = optional.end()  # what never comes, any number of times
            continue
        parts.append(_set_of(members))
    return re.compile("".join(parts), re.ASCII)


@functools.cache
def _members(atom: str) -> str:
    every = "".join(map(chr, range(128)))
    return "".join(regex.findall(atom, every))


def _set_of(members: str) -> str:
    if not members:
        return r"[^\x00-\U0010ffff]"
    if len(members) == 1:
        return re.escape(members)
    ranges, first = [], members[0]
    for here, following in zip(members, [*members[1:], ""], strict=True):
        if not following or ord(following) != ord(here) + 1:
            ranges.append(f"\\x{ord(first):02x}-\\x{ord(here):02x}")
            first = following
    return f"[{''.join(ranges)}]"
