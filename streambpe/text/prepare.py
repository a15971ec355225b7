"""What happens to text before it is split: --unencodable and --normalize.

    drop_unencodable("a\\ue000b")  ->  "ab", 1       characters that the SCRIPT table does not hold
    nfc("A\\u030a")                ->  "Å"          NFC of Unicode 16.0.0, under any Python

In this order, as the SCRIPT papers' trainer has it. Both work on counting buffers (UTF-8, a mark behind
every document; text/marks.py), and no document touches another one's characters.

NFC never changes for characters once they are assigned, so the running Python's tables serve, except for
two kinds of characters. Those that Unicode 16.0.0 has and an older Python lacks stand in
data/normalization-16.0.0.txt, and stretches of text that hold one take a slow route, as do those with very many
marks in a row. Those outside the table, which a newer Python may know, stay as they are, and nothing is composed
across them.

pyunormalize 16.0.0 gives the same for every character and for 200 000 random strings of characters that compose. On
lines of many languages it is a third as fast (7.9 against 22.8 MB per second of processor time), and its time grows
faster than a text's length (40 000 characters: 1.1 s). So it is not used.

A document is cut into blocks only between a letter or number that is `stable`, and white space or punctuation that
composes with nothing in front of it. NFC of the blocks is then NFC of the document.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from importlib import resources
from typing import Literal

import numpy as np
import numpy.typing as npt

from streambpe.text.script_blocks import UNICODE, Unencodable, character_groups
from streambpe.text.script_runs import code_points_at

Normalize = Literal["none", "nfc"]
_TILE = 1 << 20


class UnencodableText(ValueError):
    """A character that the SCRIPT table does not hold, under --unencodable error."""

    def __init__(self, point: int) -> None:
        super().__init__(f"U+{point:04X} is not in the SCRIPT table (unassigned in Unicode {UNICODE}, or private use)")
        self.point = point


def prepare(text: bytes, normalize: Normalize, unencodable: Unencodable) -> tuple[bytes, int]:
    """A counting buffer made ready for splitting, and how many characters were dropped."""
    dropped = 0
    if text.isascii():
        return text, dropped
    if unencodable != "bytes":
        text, dropped = drop_unencodable(text, raise_first=unencodable == "error")
    if normalize == "nfc":
        # a mark becomes a lone surrogate, which composes with nothing
        text = nfc(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return text, dropped


def drop_unencodable(text: bytes, raise_first: bool = False) -> tuple[bytes, int]:
    """A buffer without the characters outside the table, and how many there were."""
    _, group_of = character_groups()
    data = np.frombuffer(text, np.uint8)
    padded = np.frombuffer(text + b"\0\0\0", np.uint8)
    found: list[npt.NDArray[np.int64]] = []
    for low in range(0, len(data), _TILE):
        at = np.flatnonzero((data[low : low + _TILE] - np.uint8(0xC0)) < 0x38) + low
        code = code_points_at(padded, at)
        outside = np.flatnonzero(group_of[code] == 0)
        if len(outside) and raise_first:
            raise UnencodableText(int(code[outside[0]]))
        found.append(at[outside])
    at = np.concatenate(found) if found else np.zeros(0, np.int64)
    if not len(at):
        return text, 0
    keep = np.ones(len(padded), np.bool_)
    lead = data[at]
    for k, at_least in enumerate((0, 0, 0xE0, 0xF0)):
        keep[at[lead >= at_least] + k] = False
    return data[keep[: len(data)]].tobytes(), len(at)


@functools.cache
def _young() -> dict[str, tuple[int, str]]:
    """Characters that a supported Python may not know: combining class, canonical decomposition."""
    text = resources.files("streambpe.text").joinpath(f"data/normalization-{UNICODE}.txt").read_text(encoding="utf-8")
    rows = (line.split(" ") for line in text.splitlines())
    return {chr(int(point, 16)): (int(ccc), "".join(chr(int(p, 16)) for p in parts)) for point, ccc, *parts in rows}


@functools.cache
def _composed_young() -> dict[str, str]:
    return {parts: character for character, (_, parts) in _young().items() if parts}


@functools.cache
def _strangers() -> frozenset[str]:
    """Characters outside the table that this Python's NFC would not treat as inert."""
    _, group_of = character_groups()
    outside = (chr(point) for point in np.flatnonzero(group_of == 0) if not 0xD800 <= point < 0xE000)
    return frozenset(c for c in outside if unicodedata.combining(c) or unicodedata.normalize("NFD", c) != c)


@functools.cache
def _odd() -> re.Pattern[str]:
    parts = {part for composed in _composed_young() for part in composed}
    return re.compile("[" + "".join(sorted(_strangers() | _young().keys() | parts)) + "]")


# A stretch that normalises by itself: ASCII characters never compose with what is before them.
_STRETCH = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")

_STARTERS_OF_MARKS = "\u0f73\u0f75\u0f81"  # of class 0, and decomposed to marks


def nfc(text: str) -> str:
    """NFC as of Unicode 16.0.0; characters outside its table are left alone and separate what is around them."""
    if not _needs_slow_route(text):
        return unicodedata.normalize("NFC", text)
    out, done = [], 0
    for stretch in _STRETCH.finditer(text):
        if _needs_slow_route(stretch.group()):
            out.append(unicodedata.normalize("NFC", text[done : stretch.start()]))
            out.append(_nfc_slowly(stretch.group()))
            done = stretch.end()
    out.append(unicodedata.normalize("NFC", text[done:]))
    return "".join(out)


def _needs_slow_route(text: str) -> bool:
    """Whether a text holds odd characters, or 1024 marks in a row, of which every 64th is looked at: the time that
    Python's own NFC takes to sort them grows with the square of their number."""
    is_mark = "".join("m" if unicodedata.combining(c) or c in _STARTERS_OF_MARKS else "-" for c in text[::64])
    return "m" * 16 in is_mark or bool(_odd().search(text))


def _nfc_slowly(text: str) -> str:
    """Character by character: decompose, order marks by class, compose."""
    strangers = _strangers()
    out: list[str] = []
    held: list[str] = []
    for character in text:
        if character in strangers:
            out += [*_compose(held), character]
            held = []
        else:
            held += _decompose(character)
    return "".join(out + _compose(held))


def _decompose(character: str) -> list[str]:
    parts = _young().get(character, (0, ""))[1]
    if parts:
        return [deeper for part in parts for deeper in _decompose(part)]
    return list(unicodedata.normalize("NFD", character)) if character not in _young() else [character]


def _class(character: str) -> int:
    return _young()[character][0] if character in _young() else unicodedata.combining(character)


def _compose(characters: list[str]) -> list[str]:
    ordered: list[str] = []
    at = 0
    while at < len(characters):  # runs of marks are sorted by class, stably
        end = at + 1
        if _class(characters[at]):
            while end < len(characters) and _class(characters[end]):
                end += 1
        ordered += sorted(characters[at:end], key=_class)
        at = end
    out: list[str] = []
    starter, last = -1, 0  # place of the last starter in `out`, and the class of what follows it there
    for character in ordered:
        mine = _class(character)
        if starter >= 0 and (starter == len(out) - 1 or last < mine):
            both = _primary(out[starter], character)
            if both is not None:
                out[starter] = both
                continue
        if mine == 0:
            starter = len(out)
        out.append(character)
        last = mine
    return out


def _primary(left: str, right: str) -> str | None:
    """The character that two compose to."""
    young = _young()
    if left + right in _composed_young():
        return _composed_young()[left + right]
    if left in young or right in young:
        return None
    both = unicodedata.normalize("NFC", left + right)
    return both if len(both) == 1 else None


def is_stable(character: str) -> bool:
    """Whether neither --unencodable nor --normalize changes a letter or a number, whatever stands around it."""
    _, group_of = character_groups()
    return character.isascii() or bool(group_of[ord(character)] and nfc(character) == character)
