"""Where a block may end: a place where the pattern has a border whatever stands around."""

from __future__ import annotations

import codecs

import numpy as np

from streambpe.text.marks import RUN_END
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import inert_around

# Every invalid byte becomes a NUL, so that positions stay what they are.
_BLANK_INVALID = "streambpe-blank"
codecs.register_error(_BLANK_INVALID, lambda why: ("\0" * (why.end - why.start), why.end))  # type: ignore[attr-defined]
_BLANK = np.zeros(256, np.bool_)
_BLANK[[0x09, 0x0B, 0x0C, 0x20]] = True
_WINDOW_OVERLAP = 64  # bytes; a border has to stand clear of the ends of a window


def find_border(held: bytes, pattern: Pattern) -> int:
    """The last chunk border in `held` that is certain whatever follows, or 0. Looks at the end first.

    Preferred: a border between ASCII characters, which stays one when invalid bytes around are
    replaced or left out; else one between characters that --normalize and --unencodable leave alone;
    else, unless those options change the text, any border. The last two need a stretch of valid UTF-8 around.
    """
    if not pattern.has_cuts:
        return 0
    for near in ("ascii", "inert") if pattern.prepared else ("ascii", "inert", "any"):
        stop, size = len(held), 1 << 16
        while stop:
            low = max(0, stop - size)
            border = _border_in(held[low:stop], pattern, near)
            if border:
                return low + border
            stop, size = low + _WINDOW_OVERLAP if low else 0, 1 << 20
    return 0


def _border_in(window: bytes, pattern: Pattern, near: str) -> int:
    start = next((i for i in range(min(4, len(window))) if window[i] & 0xC0 != 0x80), 0)
    data = np.frombuffer(window, np.uint8)
    if near != "ascii":
        try:
            window[start:].decode()
        except UnicodeDecodeError as why:
            if why.start + start < len(window) - 3:
                return 0
    if (data >= RUN_END).any() and near != "ascii":
        return 0
    if pattern.definition is None:
        cuts = pattern.rules.cut(window, False)
    else:
        # the first border hangs on what stands before the window; see script_rules for the others
        cuts = pattern.rules.cut(window[start:].decode("utf-8", _BLANK_INVALID).encode(), False)[2:] + start
    # the rules look at one character to the left and one to the right: leave a margin at both ends
    cuts = cuts[(cuts > start + 12) & (cuts < len(window) - 12)]
    if near == "ascii" and len(cuts):
        around = data[cuts[:, None] + np.arange(-2, 2)]
        cuts = cuts[(around < 0x80).all(axis=1)]
    if near == "inert" and len(cuts):
        cuts = cuts[inert_around(data, cuts)]
    if len(cuts) and pattern.definition is None:
        # the last blank of several goes with what follows, which the block before would not see
        cuts = cuts[~_BLANK[data[cuts - 1]]]
    if pattern.script_expression and len(cuts):
        # the script run on both sides has to be one and the same: a letter before, and one right behind
        # the space, else a mark could belong to the run before or another script begin
        left, right, behind = data[cuts - 1] | 0x20, data[cuts], data[cuts + 1] | 0x20
        cuts = cuts[(left >= 97) & (left <= 122) & (right == 32) & (behind >= 97) & (behind <= 122)]
    return int(cuts[-1]) if len(cuts) else 0
