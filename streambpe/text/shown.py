"""Tokens for people: what a terminal or a page would not show, or would obey, is spelled out.

    b" the"             ␠the
    b"\\n\\tx"            \\n\\tx
    b"\\xe2\\x80"         <E2 80>          bytes that are no whole character
    "a\\u202eb"          a<U+202E>b       characters that have no picture, or turn the line around

sql/macros/shown.sql says the same in SQL; a test compares the two. `read_shown` reads such lines.
"""

from __future__ import annotations

import re

# Controls, format characters, blanks other than the space, private use, and everything behind plane 2: not what
# Unicode's categories say, which differ between the programs that show tokens.
HIDDEN = (
    r"\x00-\x1F\x7F-\xA0\xAD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F"
    r"\u205F-\u206F\u3000\u3164\uE000-\uF8FF\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3"
    r"\U0001D173-\U0001D17A\U000E0000-\U0010FFFF"
)
# What a terminal obeys: controls other than the line feed, and what turns around the text beside it.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_OBEYED_IN_SENTENCES = re.compile(OBEYED.pattern.replace("\x00-\x09", "\x00-\x08"))
_HIDDEN = re.compile(f"[{HIDDEN} \\\\]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_BROKEN = re.compile("[\udc80-\udcff]+")
_MEANT = {"␠": " ", **{written: character for character, written in _NAMED.items()}}
_WRITTEN = re.compile(r"␠|\\[nrt\\]|<U\+([0-9A-F]{4,6})>")
_HEXED = re.compile("<([0-9A-F]{2}(?: [0-9A-F]{2})*)>")
_UNREADABLE = re.compile(rf"[{HIDDEN}\\<␠]|(?<=\.tx)t\Z")


def shown(content: bytes, space: str = "␠") -> str:
    """The bytes of a token, or of any text, as one line that can be shown anywhere."""
    text = content.decode("utf-8", "surrogateescape")

    def named(match: re.Match[str]) -> str:
        character = match.group()
        return space if character == " " else _NAMED.get(character) or f"<U+{ord(character):04X}>"

    def hexed(match: re.Match[str]) -> str:
        return f"<{match.group().encode('utf-8', 'surrogateescape').hex(' ').upper()}>"

    return _BROKEN.sub(hexed, _HIDDEN.sub(named, text))


def read_shown(line: str) -> str:
    """The text that a line shows; spaces may be written as they are. ValueError if it is none."""
    if not line or any(holds_part_of_a_character(bytes.fromhex(found)) for found in _HEXED.findall(line)):
        raise ValueError("a part of a character is no text" if line else "a text has at least one character")
    try:
        text = _WRITTEN.sub(lambda found: chr(int(found[1], 16)) if found[1] else _MEANT[found[0]], line)
        text.encode()
    except ValueError:
        raise ValueError("characters are U+0000 to U+10FFFF, without the surrogates U+D800 to U+DFFF") from None
    return text


def readable(text: str) -> str:
    """A text as a line that `read_shown` reads, and that is not called like a file (.txt)."""
    return _UNREADABLE.sub(lambda found: _NAMED.get(found[0]) or f"<U+{ord(found[0]):04X}>", text)


def harmless(sentence: str) -> str:
    """A sentence for a terminal or a page, in which the names of files and what others wrote may stand: what would be
    obeyed is spelled out.

    "\x1b[31mred.txt: 3 rows"     <U+001B>[31mred.txt: 3 rows
    """
    return _OBEYED_IN_SENTENCES.sub(lambda match: f"<U+{ord(match.group()):04X}>", sentence)


def holds_part_of_a_character(content: bytes) -> bool:
    """Whether bytes are not valid UTF-8 by themselves."""
    return bool(_BROKEN.search(content.decode("utf-8", "surrogateescape")))
