r"""Splitting by script and category rules, without a regular expression: --pattern script.

    "Hello, wörld 123 東京へ行く ok"  ->  "Hello" "," " wörld" " " "123" " " "東京へ行く" " ok"

The definition (`split_by_rules`): characters with equal groups (script, super-category; see script.py)
form groups; a group of exactly one U+0020 goes with the group after it if that is letters of a
space-using script or (Common, PS); groups that are Inherited (combining marks, joiners), or of the
chunk's own key, or Han beside Hiragana, continue the chunk before them.

`ScriptRules.cut` finds the same borders with array work, because a border is a matter of few characters:

Take a character p of one document. Let q be the last character before it that is not Inherited
(an Inherited first character of the document counts as one that is not), r the last such before q, and
e(c) the group of c, with Han and Hiragana of one super-category taken together.

  (1) p Inherited, not the document's first: no border, groups that are Inherited always continue a chunk.
  (2) e(p) = e(q): no border. Either they are one group, or Inherited groups lie between, or they are Han
      and Hiragana: the key K of q's chunk has e(K) = e(q), as a chunk takes in nothing with another e
      but Inherited groups and the group right after a leading space, whose key then is K.
  (3) e(p) != e(q): a border, unless q is a leading U+0020 that takes p's group: q stands right before p,
      p's group takes a space, q's group is this one character and begins its chunk. The last two
      together say e(r) != (Common, Z) or there is no r: were e(r) that, q would be in r's group or, behind
      Inherited characters, be taken in by (2); otherwise q begins a chunk by (3), as (Common, Z) takes no space.

So whether there is a border before p depends on q, r and p alone: nothing behind p matters, and if
there is one, the text from p on splits by itself as it does here (p is not Inherited; where p is the q of
the next character, r does not matter unless e(r) = e(p) = (Common, Z), and then (2) had given no border).
Every border is therefore a safe place to cut a document into blocks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streambpe.text.marks import RUN_END
from streambpe.text.script_blocks import UNASSIGNED, Group, character_groups

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Scripts written with spaces between words: letters of these take a U+0020 before them.
# fmt: off
SPACED_SCRIPTS = (
    "Latin", "Arabic", "Devanagari", "Hangul", "Ethiopic", "Cyrillic", "Greek", "Hebrew", "Bengali", "Syriac",
    "Oriya", "Tamil", "Telugu", "Gurmukhi", "Gujarati", "Sinhala", "Malayalam", "Armenian", "Kannada", "Georgian",
)
# fmt: on
TAKE_SPACE: tuple[Group, ...] = (("Common", "PS"), *((script, "LM") for script in SPACED_SCRIPTS))
_BLANK: Group = ("Common", "Z")

# Classes of one byte: the mark between documents, groups that take a space, all other common groups, the
# Inherited ones, one class for all rare groups together (told apart in a second step).
_MARK = 0
_TAKERS = len(TAKE_SPACE)  # classes 1 .. _TAKERS
_INHERITED, _FIRST_INHERITED, _RARE = 253, 254, 255
_TILE = 1 << 17  # bytes at once: temporaries stay in the processor's cache


def split_by_rules(text: str) -> list[str]:
    """The chunks of one text, rule by rule: slow, and the judge of `ScriptRules`."""
    names, group_of = character_groups()
    groups: list[str] = []
    keys: list[Group] = []
    for character in text:
        key = names[group_of[ord(character)]]
        if keys and keys[-1] == key:
            groups[-1] += character
        else:
            groups.append(character)
            keys.append(key)
    chunks: list[str] = []
    i = 0
    while i + 1 < len(groups):
        chunk, key = groups[i], keys[i]
        i += 1
        if chunk == " " and keys[i] in TAKE_SPACE:
            chunk, key = chunk + groups[i], keys[i]
            i += 1
        while i < len(groups) and _goes_on(key, keys[i]):
            chunk += groups[i]
            i += 1
        chunks.append(chunk)
    return chunks + groups[i:]


def _goes_on(key: Group, following: Group) -> bool:
    """Whether a group continues the chunk before it, whose key is `key`."""
    return (
        following[0] == "Inherited"
        or following == key
        or (following[1] == key[1] and {following[0], key[0]} == {"Hiragana", "Han"})
    )


_Rare = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]


@dataclass(frozen=True)
class _Classes:
    of_point: Bytes  # class of every code point; 1.1 MB
    of_bytes: Bytes  # class of characters of two or three bytes, by the low six bits of three bytes; 256 KB
    exact: npt.NDArray[np.uint16]  # group of every code point, Han and Hiragana taken together; 2.2 MB
    of_byte: bytes  # 256-byte table: ASCII characters and marks; 0 for bytes above
    blank: int  # the class of (Common, Z)


@functools.cache
def _classes() -> _Classes:
    names, group_of = character_groups()
    together = np.arange(len(names), dtype=np.uint16)
    for number, (script, supercategory) in enumerate(names):
        if script == "Hiragana":
            together[number] = names.index(("Han", supercategory)) if ("Han", supercategory) in names else number
    exact = together[group_of]
    class_of = np.full(len(names), _RARE, np.uint8)
    for rank, group in enumerate(TAKE_SPACE, 1):
        class_of[names.index(group)] = rank
    for number, (script, _) in enumerate(names):
        if script == "Inherited":
            class_of[number] = _INHERITED
    sizes = np.bincount(exact, minlength=len(names))
    others = [n for n in np.argsort(-sizes, kind="stable") if class_of[n] == _RARE and sizes[n]]
    first = [names.index(_BLANK), names.index(("Common", "C")), names.index(("Common", "N")), names.index(UNASSIGNED)]
    ranked = first + [int(n) for n in others if n not in first]
    for rank, number in enumerate(ranked[: _INHERITED - _TAKERS - 1], _TAKERS + 1):
        class_of[number] = rank
    of_point = class_of[exact]
    of_bytes = np.zeros((64, 64, 64), np.uint8)
    two, three = np.arange(0x80, 0x800), np.arange(0x800, 0x10000)
    of_bytes[two >> 6, two & 63] = of_point[two, None]  # the third byte is another character's
    of_bytes[0x20 | three >> 12, three >> 6 & 63, three & 63] = of_point[three]
    of_byte = np.zeros(256, np.uint8)
    of_byte[:128] = of_point[:128]
    return _Classes(of_point, of_bytes.ravel(), exact, of_byte.tobytes(), int(class_of[names.index(_BLANK)]))


def _words_at(data: Bytes, at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Four bytes from each of `at` on, the first lowest; three bytes must follow the last of them.

    The bytes C3 A9 00 00 of é give 0x0000A9C3. In `of_bytes` é stands at 03 << 12 | 29 << 6 | 00: the low six bits of
    the first three of these bytes, the first highest.
    """
    found: npt.NDArray[np.uint32] = np.ndarray((len(data) - 3,), "<u4", data.data, 0, (1,))[at]
    return found


def code_points_at(data: Bytes, at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The characters beyond ASCII whose first bytes are at `at`; three bytes must follow the last of them."""
    words = _words_at(data, at)
    lead = words & 0xFF
    second, third = words >> 8 & 63, words >> 16 & 63
    code: npt.NDArray[Any] = (lead & 31) << 6 | second
    if not len(lead) or lead.max() < 0xE0:
        return code
    three = (lead & 15) << 12 | second << 6 | third
    code = np.where(lead < 0xE0, code, three)
    if lead.max() >= 0xF0:
        code = np.where(lead < 0xF0, code, (lead & 7) << 18 | second << 12 | third << 6 | words >> 24 & 63)
    return code


class ScriptRules:
    """All borders of --pattern script, not only certain ones: its pieces are chunks."""

    keeps_end = False

    def cut(self, text: bytes, ends: bool = True) -> npt.NDArray[np.int32]:
        """Offsets of the chunks of `text`, and of the marks; 0 first, len(text) last.

        Cost: about 2 ns per byte of ASCII, 5 ns per byte of many scripts; memory: one byte per byte, and the offsets.
        """
        size = len(text)
        if not size:
            return np.zeros(1, np.int32)
        scan = _Scan(text, ends)
        offsets = [np.zeros(1, np.int32)]
        low = 0
        while low < size:
            high = min(low + _TILE, size)
            while high < size and text[high] & 0xC0 == 0x80:  # a tile ends with a character
                high += 1
            offsets.append(scan.borders(low, high))
            low = high
        offsets.append(np.array([size], np.int32))
        return np.concatenate(offsets)


class _Scan:
    """One buffer, tile after tile: every temporary array stays in the processor's cache.

    `found` has the class of a character at its first and at its last byte; nothing looks at those between.
    """

    def __init__(self, text: bytes, ends: bool) -> None:
        self.text, self.ends = text, ends
        self.data = np.frombuffer(text, np.uint8)
        self.found = np.empty(len(text), np.uint8)
        self.classes = _classes()
        self.last_rare = 0  # group of the last character of a rare group

    def borders(self, low: int, high: int) -> npt.NDArray[np.int32]:
        """The borders in a tile, except the one at 0. Tiles are asked for in order. For "a b,東 c", spaces shown as _:

        byte    0 1 2 3 4 5 6 7 8
        text    a _ b , 東 . . _ c     place i of `border` and `joined` is byte begin + i, and begin is 2
        border      1 1 1 0 0 1 1     another class than the byte before, where a character begins
        joined      1 0 0 0 0 0 1     a space before it, it takes one, and before the space is no space
        at      1 3 4 7               1 by `_is_second`; no border before b and c, which take their spaces
        """
        data, found = self.data, self.found
        part = self.text[low:high]
        found[low:high] = np.frombuffer(part.translate(self.classes.of_byte), np.uint8)
        is_ascii = part.isascii()
        rare = None if is_ascii else self._classify_wide(part, low)
        begin = max(low, 2)
        first = low <= 1 < high and self._is_second(1)
        if high <= begin:
            return np.array([1] if first else [], np.int32)
        mine = found[begin:high]
        border = mine != found[begin - 1 : high - 1]
        joined = data[begin - 1 : high - 1] == 0x20
        joined &= (mine - np.uint8(1)) < _TAKERS
        joined &= found[begin - 2 : high - 2] != self.classes.blank
        np.greater(border, joined, out=border)
        if not is_ascii:
            border &= data[begin:high].view(np.int8) >= -64  # no border before a byte that continues a character
            if self.ends:
                border |= data[begin:high] >= RUN_END
            if rare is not None:
                self._part_rare(rare, border, begin)
        at = np.flatnonzero(border)
        at += begin
        if first:
            at = np.concatenate([[1], at])
        return at.astype(np.int32)

    def _is_second(self, at: int) -> bool:
        """Whether there is a border before the second byte of the buffer: as in `borders`, with no r before q."""
        byte, mine = int(self.data[at]), int(self.found[at])
        if byte & 0xC0 == 0x80:
            return False
        if self.ends and byte >= RUN_END:
            return True
        joined = self.data[0] == 0x20 and 1 <= mine <= _TAKERS
        return bool(mine != self.found[0] and not joined)

    def _classify_wide(self, part: bytes, low: int) -> _Rare | None:
        """Give characters beyond ASCII their class, and Inherited ones the class of the character they hang on.
        Returns (where the characters of rare groups are, their groups).
        """
        found, classes = self.found, self.classes
        padded = np.frombuffer(part + b"\0\0\0", np.uint8)
        at = np.flatnonzero((padded - np.uint8(0xC0)) < 0x38)
        if not len(at):
            return None
        words = _words_at(padded, at)
        lead = words.astype(np.uint8)
        mine = classes.of_bytes[(words & 0x3F) << 12 | words >> 2 & 0xFC0 | words >> 16 & 0x3F]
        last = at + low
        first = last.copy()
        last += 1
        last += lead >= 0xE0
        huge = np.flatnonzero(lead >= 0xF0)
        if len(huge):
            last[huge] += 1
            mine[huge] = classes.of_point[code_points_at(padded, at[huge])]
        found[first] = mine
        found[last] = mine
        inherited = np.flatnonzero(mine == _INHERITED)
        if len(inherited):
            self._hang(first[inherited], last[inherited])
        seldom = np.flatnonzero(mine == _RARE)
        if not len(seldom):
            return None
        return first[seldom], classes.exact[code_points_at(padded, at[seldom])]

    def _hang(self, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> None:
        """Inherited characters take the class of the one before them; what stands before has its class already.

        first 3 5 9   last 4 6 10   classes at 2 and 8: 40 and 7, at 3 to 6 and at 9 and 10 Inherited
        begins 1 0 1   start 3 9   before 40 7   mine 40 40 7: the second takes what the first took
        """
        found = self.found
        begins = np.append(True, first[1:] != last[:-1] + 1)  # runs of Inherited characters
        start = first[begins]
        before = np.where(start > 0, found[start - 1], _MARK)
        # at the front of a document Inherited characters hang on nothing and are a group like others
        taken = np.where(before == _MARK, _FIRST_INHERITED, before).astype(np.uint8)
        mine = taken[np.cumsum(begins) - 1]
        found[first] = mine
        found[last] = mine

    def _part_rare(self, rare: _Rare, border: Mask, begin: int) -> None:
        """Add the borders between different rare groups, which share a class.

        at 2 5 8   group 4 4 6, the last one before them 4:   before 4 4 4   a border before 8
        """
        at, group = rare
        before = np.append(np.uint16(self.last_rare), group[:-1])
        self.last_rare = int(group[-1])
        touches = (at > 0) & (
            self.found[at - 1] == _RARE
        )  # then the rare character before it, Inherited ones aside, stands directly left of it
        border[at[touches & (group != before)] - begin] = True
