"""Splitting at white space into marked words, as PickyBPE does: --pattern whitespace.

    "the cat\\n the"  ->  "▁the" "▁cat" "▁the"

White space is what `str.split` takes for it: the 25 characters of White_Space and U+001C to U+001F.
Line breaks are among them, so words are the same whether a document is read by lines or whole. White
space is in no chunk; a text cannot be restored from its words.
"""

from __future__ import annotations

WORD_MARK = "\u2581"
_ASCII_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_WIDE_SPACES = [0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
SPACES = _ASCII_SPACES + "".join(map(chr, _WIDE_SPACES))
