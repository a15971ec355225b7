"""Splitting at white space into marked words, as PickyBPE does: --pattern whitespace.

    "the cat\\n the"  ->  "▁the" "▁cat" "▁the"

White space is what `str.split` takes for it: the 25 characters of White_Space and U+001C to U+001F.
Line breaks are among them, so words are the same whether a document is read by lines or whole. White
space is in no chunk; a text cannot be restored from its words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streambpe.text.marks import RUN_END

WORD_MARK = "\u2581"
_ASCII_SPACES = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_WIDE_SPACES = [0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
SPACES = _ASCII_SPACES.decode() + "".join(map(chr, _WIDE_SPACES))
_IS_SPACE = bytes(byte in _ASCII_SPACES for byte in range(256))


def split_words(text: str) -> list[str]:
    """The marked words of one text."""
    return [WORD_MARK + word for word in text.split()]


class WordRules:
    """Every border between white space and anything else; runs of white space are pieces too."""

    keeps_end = False

    def cut(self, text: bytes, ends: bool = True) -> npt.NDArray[np.int32]:
        """Offsets of words, of white space between them, and of marks; 0 first, len(text) last."""
        data = np.frombuffer(text, np.uint8)
        space = np.frombuffer(bytearray(text.translate(_IS_SPACE)), np.bool_)
        if not text.isascii():
            _find_wide_spaces(data, space)
        cut = np.empty(len(data) + 1, np.bool_)
        cut[0] = cut[-1] = True
        if len(data):
            np.not_equal(space[1:], space[:-1], out=cut[1:-1])
        marks = np.flatnonzero(data >= RUN_END) if ends else np.flatnonzero(data[-1:] >= RUN_END) + len(data) - 1
        cut[marks] = True
        cut[marks + 1] = True
        return np.flatnonzero(cut).astype(np.int32)


def _find_wide_spaces(data: npt.NDArray[np.uint8], space: npt.NDArray[np.bool_]) -> None:
    """Set every byte of white space beyond ASCII."""
    at = np.flatnonzero((data == 0xC2) | ((data >= 0xE1) & (data <= 0xE3)))
    padded = np.append(data, np.zeros(2, np.uint8))
    lead, second, third = padded[at], padded[at + 1], padded[at + 2]
    two = at[(lead == 0xC2) & ((second == 0x85) | (second == 0xA0))]
    space[two] = space[two + 1] = True
    for character in _WIDE_SPACES[2:]:
        encoded = chr(character).encode()
        three = at[(lead == encoded[0]) & (second == encoded[1]) & (third == encoded[2])]
        space[three] = space[three + 1] = space[three + 2] = True
