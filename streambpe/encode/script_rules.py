r"""Splitting by script and category rules, without a regular expression: --pattern script.

    "Hello, wörld 123 東京へ行く ok"  ->  "Hello" "," " wörld" " " "123" " " "東京へ行く" " ok"

The definition (`split_by_rules`): characters with equal groups (script, super-category; see script.py)
form groups; a group of exactly one U+0020 goes with the group after it if that is letters of a
space-using script or (Common, PS); groups that are Inherited (combining marks, joiners), or of the
chunk's own key, or Han beside Hiragana, go on the chunk before them.

`ScriptRules.cut` finds the same borders with array work, because a border is a matter of few characters:

Take a character p of one document. Let q be the last character before it that is not Inherited
(an Inherited first character of the document counts as one that is not), r the last such before q, and
e(c) the group of c, with Han and Hiragana of one super-category taken together.

  (1) p Inherited, not the document's first: no border, groups that are Inherited always go on.
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

from streambpe.encode.marks import RUN_END
from streambpe.encode.script import UNASSIGNED, Group, character_groups

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Scripts written with spaces between words: letters of these take a U+0020 before them.
# fmt: off
SPACED_SCRIPTS = (
    "Latin", "Arabic", "Devanagari", "Hangul", "Ethiopic", "Cyrillic", "Greek", "Hebrew", "Bengali", "Syriac",
    "Oriya", "Tamil", "Telugu", "Gurmukhi", "Gujarati", "Sinhala", "Malayalam", "Armenian", "Kannada", "Georgian",
)
# fmt: on
_TAKE_SPACE: tuple[Group, ...] = (("Common", "PS"), *((script, "LM") for script in SPACED_SCRIPTS))
_BLANK: Group = ("Common", "Z")

# Classes of one byte: the mark between documents, groups that take a space, all other common groups, the
# Inherited ones, one class for all rare groups together (told apart in a second step).
_MARK = 0
_TAKERS = len(_TAKE_SPACE)  # classes 1 .. _TAKERS
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
        if chunk == " " and keys[i] in _TAKE_SPACE:
            chunk, key = chunk + groups[i], keys[i]
            i += 1
        while i < len(groups) and _goes_on(key, keys[i]):
            chunk += groups[i]
            i += 1
        chunks.append(chunk)
    return chunks + groups[i:]


def _goes_on(key: Group, following: Group) -> bool:
    """Whether a group goes on the chunk before it, whose key is `key`."""
    return (
        following[0] == "Inherited"
        or following == key
        or (following[1] == key[1] and {following[0], key[0]} == {"Hiragana", "Han"})
    )


@dataclass(frozen=True)
class _Classes:
    of_point: Bytes  # class of every code point; 1.1 MB
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
    for rank, group in enumerate(_TAKE_SPACE, 1):
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
    of_byte = np.zeros(256, np.uint8)
    of_byte[:128] = of_point[:128]
    return _Classes(of_point, exact, of_byte.tobytes(), int(class_of[names.index(_BLANK)]))


def code_points_at(data: Bytes, at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The characters beyond ASCII whose first bytes are at `at`; three bytes must follow the last of them."""
    words = np.ndarray((len(data) - 3,), "<u4", data.data, 0, (1,))[at]
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

        Cost: about 3 ns a byte of ASCII, 8 ns a byte of three-byte characters; memory: 7 bytes a byte.
        """
        if not text:
            return np.zeros(1, np.int32)
        size = len(text)
        classes = _classes()
        data = np.frombuffer(text, np.uint8)
        found = np.frombuffer(bytearray(text.translate(classes.of_byte)), np.uint8)
        rare = _classify_wide(text, data, found, classes)
        cut = np.empty(size + 1, np.bool_)
        cut[0] = cut[size] = True
        for low in range(1, size, _TILE):
            high = min(low + _TILE, size)
            mine = found[low:high]
            border = mine != found[low - 1 : high - 1]
            joined = data[low - 1 : high - 1] == 0x20
            joined &= (mine - np.uint8(1)) < _TAKERS
            if low == 1:
                joined[1:] &= found[: high - 2] != classes.blank
            else:
                joined &= found[low - 2 : high - 2] != classes.blank
            np.greater(border, joined, out=cut[low:high])
        if rare is not None:
            _part_rare(rare, found, classes, cut)
        if ends:
            marks = np.flatnonzero(data >= RUN_END)
            cut[marks] = True
            cut[marks + 1] = True
        return np.flatnonzero(cut).astype(np.int32)


_Rare = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]


def _classify_wide(text: bytes, data: Bytes, found: Bytes, classes: _Classes) -> _Rare | None:
    """Give every byte of characters beyond ASCII the class of its character; Inherited ones that of the
    character they hang on. Returns where characters of rare groups are, and their groups.
    """
    if text.isascii():
        return None
    padded = np.frombuffer(text + b"\0\0\0", np.uint8)
    rare: list[_Rare] = []
    for low in range(0, len(data), _TILE):
        tile = data[low : low + _TILE]
        at = np.flatnonzero((tile - np.uint8(0xC0)) < 0x38)
        if not len(at):
            continue
        at += low
        code = code_points_at(padded, at)
        mine = classes.of_point[code]
        found[at] = mine
        found[at + 1] = mine
        wide = code >= 0x800
        if wide.all():
            found[at + 2] = mine
        elif wide.any():
            found[at[wide] + 2] = mine[wide]
        huge = np.flatnonzero(code >= 0x10000)
        found[at[huge] + 3] = mine[huge]
        inherited = np.flatnonzero(mine == _INHERITED)
        if len(inherited):
            _hang(found, at[inherited], code[inherited])
        seldom = np.flatnonzero(mine == _RARE)
        if len(seldom):
            rare.append((at[seldom], classes.exact[code[seldom]]))
    if not rare:
        return None
    return np.concatenate([a for a, _ in rare]), np.concatenate([group for _, group in rare])


def _hang(found: Bytes, at: npt.NDArray[np.int64], code: npt.NDArray[np.uint32]) -> None:
    """Inherited characters take the class of the one before them; what is left of it was classified before."""
    size = 2 + (code >= 0x800) + (code >= 0x10000)
    begins = np.append(True, at[1:] != (at + size)[:-1])  # runs of Inherited characters
    first = at[begins]
    before = np.where(first > 0, found[first - 1], _MARK)
    # at the front of a document they hang on nothing and are a group like others
    taken = np.where(before == _MARK, _FIRST_INHERITED, before).astype(np.uint8)
    mine = taken[np.cumsum(begins) - 1]
    found[at] = mine
    found[at + 1] = mine
    for k in (2, 3):
        found[at[size > k] + k] = mine[size > k]


def _part_rare(rare: _Rare, found: Bytes, classes: _Classes, cut: Mask) -> None:
    """Add the borders between different rare groups, which share a class."""
    at, group = rare
    touches = found[at[1:] - 1] == _RARE  # then the character left of it, marks aside, is the one before it here
    cut[at[1:][touches & (group[1:] != group[:-1])]] = True
