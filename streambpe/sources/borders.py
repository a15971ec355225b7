"""Where a block may end: a place where the pattern has a border whatever stands around."""

from __future__ import annotations

import codecs
import sys

import regex

from streambpe.text.patterns import Pattern
from streambpe.text.prepare import is_stable

# Every invalid byte becomes a NUL, so that positions stay what they are.
_BLANK_INVALID = "streambpe-blank"
codecs.register_error(_BLANK_INVALID, lambda why: ("\0" * (why.end - why.start), why.end))  # type: ignore[attr-defined]
_WINDOW_OVERLAP = 16  # bytes; more than the two characters beside a border


def find_border(held: bytes, pattern: Pattern) -> int:
    """The last chunk border in `held` that is certain whatever stands around, or 0. Looks at the end first.

    The characters on both sides of it (Pattern.border and cuts) are valid UTF-8, so they stay what they are when
    invalid bytes around them are replaced or left out; and --normalize and --unencodable leave them alone, if they are
    given.
    """
    if not pattern.has_cuts:
        return 0
    stop, size = len(held), 1 << 16
    while stop:
        low = max(0, stop - size)
        text = held[low:stop].decode("utf-8", _BLANK_INVALID)
        at = pattern.cuts.last_cut(text, pattern.keep_gaps) if pattern.cuts else last_border(text, pattern)
        if at:
            return low + len(text[:at].encode())
        stop, size = low + _WINDOW_OVERLAP if low else 0, 1 << 20
    return 0


def last_border(text: str, pattern: Pattern, most: int = sys.maxsize) -> int:
    """The last border of a preset, behind so many characters at most, or 0."""
    assert pattern.border is not None
    for found in regex.finditer(pattern.border, text, regex.REVERSE):
        if found.start() < most and (not pattern.prepared or is_stable(found[0][0])):
            return int(found.start()) + 1
    return 0
