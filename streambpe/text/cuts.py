"""Where a split is certain without matching anything: a border between two neighbouring bytes, whatever the text.

Matching is slow, so text is cut first, at places where *every* text has a chunk border. For gpt4

    "let x = (a,b)"   is cut into   "let", " x", " =", " (", "a", ",", "b", ")" ...

where " (" and "a" are cut apart because no branch of gpt4 joins two or more symbols to a letter.

A `CutRules` says where such places are, for two neighbouring ASCII bytes (a, b):

    between   pairs (a, b) with a border between them, whatever stands around
    before    pairs (a, b) with a border *before* a, where a is white space and b is not
    checked   pairs (a, b) with a border between them if the character left of a passes `check_left`
    camel     (lower, upper) has a border between them, unless an apostrophe stands left of the lower letter

Bytes above 0x7F take part only where their class does not matter (or `check_left` looks it up), so
every rule finds a subset of the true borders, and a subset is always right: a missing border makes a
piece longer, never a chunk wrong. Each rule set carries its reason; tests compare the result with find-all on the
whole text, on hostile strings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streambpe.text.characters import code_point_class
from streambpe.text.marks import DOCUMENT_END, RUN_END, SCRIPT_RUN_END

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
_SPACES = frozenset(" \t\x0b\x0c\r\n")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS = _LOWER | _UPPER
_DIGITS = frozenset("0123456789")
_BREAKS = frozenset("\r\n")
_BLANKS = _SPACES - _BREAKS
_CONTROLS = frozenset(map(chr, [*range(9), *range(14, 32), 127]))
_SYMBOLS = frozenset(map(chr, range(33, 127))) - _LETTERS - _DIGITS  # ASCII punctuation and symbols
_OTHER = _SYMBOLS | _CONTROLS  # what the GPT family calls [^\s\p{L}\p{N}]
_APOSTROPHE = frozenset("'")
_WINDOW = 2 << 20  # bytes that are cut together
_NEAR = 32  # more than any rule looks at on either side of a border
Pair = tuple[frozenset[str], frozenset[str]]


class Cutter(Protocol):
    """Finds borders in a counting buffer: `CutRules`, or the rules of a pattern without an expression."""

    @property
    def keeps_end(self) -> bool:
        """Whether a document's mark stays in its last piece."""

    def cut(self, text: bytes, ends: bool = True) -> npt.NDArray[np.int32]:
        """Offsets of the pieces, 0 first, len(text) last."""


@dataclass(frozen=True)
class CutRules:
    """Certain borders of one pattern, as sets of ASCII characters (see the module docstring)."""

    between: tuple[Pair, ...]
    before: tuple[Pair, ...] = ()
    checked: tuple[Pair, ...] = ()
    check_left: Callable[[Bytes, Positions], Mask] | None = None
    camel: bool = False
    keeps_end: bool = False  # the mark stays in the last piece of a text: the pattern asks if a piece is last
    wide_left: bool = False  # `checked` also asks about a non-ASCII character before a space

    @functools.cached_property
    def tables(self) -> tuple[bytes, bytes]:
        """Two 256-byte tables A, B such that the bits of A[a] & B[b] say what holds for (a, b).

        Bits 0-5: between (one bit for each distinct set of left partners), 6: before, 7: checked;
        bit 5 is for camel where there is that rule.
        """
        left = np.zeros(256, np.uint8)
        right = np.zeros(256, np.uint8)
        columns: dict[frozenset[str], list[str]] = {}
        for b in map(chr, range(128)):
            partners = frozenset(a for lefts, rights in self.between if b in rights for a in lefts)
            if partners:
                columns.setdefault(partners, []).append(b)
        if len(columns) > (5 if self.camel else 6):
            raise AssertionError(f"{len(columns)} classes of right neighbours do not fit 6 bits")
        for bit, (partners, members) in enumerate(columns.items()):
            left[[ord(a) for a in partners]] |= 1 << bit
            right[[ord(b) for b in members]] |= 1 << bit
        if self.camel:
            left[[ord(a) for a in _LOWER]] |= 32
            right[[ord(b) for b in _UPPER]] |= 32
        for lefts, rights in self.before:
            left[[ord(a) for a in lefts]] |= 64
            right[[ord(b) for b in rights]] |= 64
        if self.before:  # beyond ASCII: any b, and the lead and second bytes of a space as a or b
            right[0xC2:0xF5] |= 64
            left[[0xC2, 0xE1, 0xE2, 0xE3]] |= 128
            right[[0x80, 0x81, 0x85, 0x9A, 0xA0]] |= 128
        for lefts, rights in self.checked:
            left[[ord(a) for a in lefts]] |= 128
            right[[ord(b) for b in rights]] |= 128
        if self.wide_left:
            left[0x80:0xC0] |= 128
        return left.tobytes(), right.tobytes()

    def cut(self, text: bytes, ends: bool = True) -> npt.NDArray[np.int32]:
        """Offsets of the pieces of `text`: 0 first, len(text) last. About 8 ns per byte.

        `ends`: whether the text holds any of the three marks besides a last DOCUMENT_END.

        Every rule looks at a few bytes to the left and right, so the text is cut a window at a time: the
        arrays stay small, whatever its length.
        """
        found = [np.zeros(1, np.int32)]
        view = memoryview(text)
        for start in range(0, len(text), _WINDOW):
            low, stop = max(0, start - _NEAR), min(len(text), start + _WINDOW)
            near = bytes(view[low : stop + _NEAR]) if len(text) > _WINDOW else text
            cuts = self._cut_window(near, ends) + np.int32(low)
            found.append(cuts[np.searchsorted(cuts, start, "right") : np.searchsorted(cuts, stop, "right")])
        return np.concatenate(found)

    def _cut_window(self, text: bytes, ends: bool) -> npt.NDArray[np.int32]:
        data = np.frombuffer(text, np.uint8)
        left, right = self.tables
        met = np.frombuffer(text.translate(left), np.uint8)[:-1] & np.frombuffer(text.translate(right), np.uint8)[1:]
        cut = np.empty(len(data) + 1, np.bool_)
        cut[0] = cut[-1] = True
        np.not_equal(met & (31 if self.camel else 63), 0, out=cut[1:-1])
        if self.camel:
            humps = np.flatnonzero((met & 32) != 0)
            cut[humps[(data[np.maximum(humps - 1, 0)] != 0x27) | (humps == 0)] + 1] = True
        maybe = np.flatnonzero(met >= 128)
        if self.before:
            is_wide = data[maybe] >= 0xC2
            self._cut_before(data, met, maybe[is_wide], cut)
            maybe = maybe[~is_wide]
        if self.check_left is not None:
            cut[maybe[self.check_left(data, maybe)] + 1] = True
        if ends:
            self._cut_at_marks(data, cut)
        elif data[-1] == DOCUMENT_END and not self.keeps_end:
            cut[-2] = True
        return np.flatnonzero(cut).astype(np.int32)

    def _cut_before(self, data: Bytes, met: Bytes, maybe: Positions, cut: Mask) -> None:
        """Cut before the last white space of every run that something else follows.

        This rule has to be complete, not a subset: the pattern that runs on pieces has no
        `\\s+(?!\\S)`. `maybe` holds every place where a space beyond ASCII could start.
        """
        hits = (met & 64) != 0
        wide = maybe[_is_wide_space(data, maybe)]
        hits[wide[wide > 0] - 1] = False  # what follows this byte is a space, one beyond ASCII
        after = wide + 2 + (data[wide] != 0xC2)
        follows = data[np.minimum(after, len(data) - 1)]
        last = (after < len(data)) & (follows < RUN_END) & ~_in_ascii(_SPACES, follows)
        inside = np.minimum(after, len(data) - 1)
        hits[wide[last & ~_is_wide_space(data, inside)]] = True
        cut[:-2] |= hits

    def _cut_at_marks(self, data: Bytes, cut: Mask) -> None:
        """Cut after every mark, and before those that are no part of the piece they end."""
        marks = np.flatnonzero(data >= RUN_END)
        kind = data[marks]
        cut[marks + 1] = True
        if not self.keeps_end:
            cut[marks[kind != SCRIPT_RUN_END]] = True


def _is_wide_space(data: Bytes, at: Positions) -> Mask:
    """Whether White_Space beyond ASCII starts at each position (19 code points)."""
    padded = np.append(data[-2:], [0, 0]) if len(data) < 3 else data
    second = padded[np.minimum(at + 1, len(padded) - 1)]
    third = padded[np.minimum(at + 2, len(padded) - 1)]
    first = data[at]
    found: Mask = (
        ((first == 0xC2) & ((second == 0x85) | (second == 0xA0)))
        | ((first == 0xE1) & (second == 0x9A) & (third == 0x80))
        | (
            (first == 0xE2)
            & (
                ((second == 0x80) & ((third <= 0x8A) | (third == 0xA8) | (third == 0xA9) | (third == 0xAF)))
                | ((second == 0x81) & (third == 0x9F))
            )
        )
        | ((first == 0xE3) & (second == 0x80) & (third == 0x80))
    )
    return found


def characters_before(data: Bytes, last: Positions) -> npt.NDArray[np.int64]:
    """Code points of the characters whose last byte is at `last`; of invalid UTF-8 some code point or other."""
    one = data[last].astype(np.int64)
    two = data[np.maximum(last - 1, 0)].astype(np.int64)
    three = data[np.maximum(last - 2, 0)].astype(np.int64)
    four = data[np.maximum(last - 3, 0)].astype(np.int64)
    low = one & 63
    mid = low | (two & 63) << 6
    points: npt.NDArray[np.int64] = np.where(
        one < 0x80,
        one,
        np.where(
            two >= 0xC0,
            low | (two & 31) << 6,
            np.where(three >= 0xE0, mid | (three & 15) << 12, mid | (three & 63) << 12 | (four & 7) << 18),
        ),
    )
    return np.minimum(points, 0x10FFFF)


def _symbol_left(data: Bytes, at: Positions) -> Mask:
    """Whether two symbols stand before the border: a run of two or more is one chunk of its own, one alone is not."""
    return _in_ascii(_OTHER, data[np.maximum(at - 1, 0)]) & (at > 0)


def _gpt4o_left(data: Bytes, at: Positions) -> Mask:
    """Whether two symbols stand there as above, the first of them no slash: a slash may still belong to a
    chunk that ends in line breaks and slashes."""
    found: Mask = _in_ascii(_OTHER - frozenset("/"), data[np.maximum(at - 1, 0)]) & (at > 0)
    return found


def _visible_left(data: Bytes, at: Positions) -> Mask:
    """Whether it is a line break right after a visible character, or a space after a wide letter, number or symbol."""
    here, space_follows = data[at], _in_ascii(_SPACES, data[at + 1])
    left = data[np.maximum(at - 1, 0)]
    passed = (left >= 33) & (left <= 126) & (at > 0) & (here < 0x80) & ~space_follows
    where = np.flatnonzero((here >= 0x80) & space_follows)
    visible = code_point_class(r"[\p{L}\p{N}\p{P}\p{S}]")
    passed[where] = visible[characters_before(data, at[where])]
    return passed


def _in_ascii(members: frozenset[str], values: Bytes) -> Mask:
    table = np.zeros(256, np.bool_)
    table[[ord(c) for c in members]] = True
    found: Mask = table[values]
    return found


def _pairs(*pairs: tuple[Iterable[str], Iterable[str]]) -> tuple[Pair, ...]:
    return tuple((frozenset(a), frozenset(b)) for a, b in pairs)


_VISIBLE = _LETTERS | _DIGITS | _SYMBOLS
_NOT_SPACE = _VISIBLE | _CONTROLS


# gpt2: letters, numbers and symbols never share a chunk, except in a contraction, which begins with an
# apostrophe; a U+0020 may stand in front. `\s+(?!\S)` leaves the last space of a run to what follows.
GPT2 = CutRules(
    between=_pairs(
        (_LETTERS, _DIGITS | _OTHER | _SPACES),
        (_DIGITS, _LETTERS | _OTHER | _SPACES),
        (_OTHER, _DIGITS | _SPACES),
        (_OTHER - _APOSTROPHE, _LETTERS),
    ),
    before=_pairs((_SPACES, _NOT_SPACE)),
)


# gpt4: one symbol or blank may lead a word, so (symbol, letter) needs a second symbol before it;
# line breaks end the chunk of symbols or blanks before them; numbers take no space in front.
_GPT4_BETWEEN = _pairs(
    (_LETTERS, _DIGITS | _OTHER | _SPACES),
    (_DIGITS, _LETTERS | _OTHER | _SPACES),
    (_OTHER, _DIGITS | _BLANKS),
    (_SPACES, _DIGITS),
    (_BREAKS, _LETTERS | _OTHER),
)
GPT4 = CutRules(
    between=_GPT4_BETWEEN,
    before=_pairs((_BLANKS, _NOT_SPACE)),
    checked=_pairs((_OTHER, _LETTERS)),
    check_left=_symbol_left,
)
CL100K = CutRules(
    between=_GPT4_BETWEEN,
    before=GPT4.before,
    checked=GPT4.checked,
    check_left=_symbol_left,
    keeps_end=True,
)


# punct: as gpt4, but only U+0020 leads a word, so (symbol, letter) is a border by itself.
PUNCT = CutRules(
    between=(*_GPT4_BETWEEN, *_pairs((_OTHER, _LETTERS))),
    before=_pairs((_BLANKS, _NOT_SPACE)),
)


# gpt4o: contractions hang on the word before them; after a line break a slash continues a chunk of
# symbols, so no cut between a line break and a symbol; no chunk goes from a lower to an upper letter.
GPT4O = CutRules(
    between=_pairs(
        (_LETTERS, _DIGITS | (_OTHER - _APOSTROPHE) | _SPACES),
        (_DIGITS, _LETTERS | _OTHER | _SPACES),
        (_OTHER, _DIGITS | _BLANKS),
        (_SPACES, _DIGITS),
        (_BREAKS, _LETTERS),
    ),
    before=_pairs((_BLANKS, _NOT_SPACE)),
    checked=_pairs((_OTHER, _LETTERS)),
    check_left=_gpt4o_left,
    camel=True,  # except in 'lL, 'rE, 'vE
)
SUPERBPE1 = CutRules(
    between=_pairs(
        (_LETTERS, _DIGITS | _OTHER | _SPACES),
        (_LOWER, _UPPER),
        (_DIGITS, _LETTERS | _OTHER | _SPACES),
        (_OTHER, _DIGITS | _BLANKS),
        (_SPACES, _DIGITS),
    ),
    before=_pairs((_BLANKS, _NOT_SPACE)),
    checked=_pairs((_OTHER, _LETTERS)),
    check_left=_gpt4o_left,
)


# boundless, ultimate1: control characters may swallow spaces, so only visible neighbours count;
# an underscore or an apostrophe may lead or join letters.
BOUNDLESS = CutRules(
    between=_pairs(
        (_LETTERS, _DIGITS | (_SYMBOLS - _APOSTROPHE) | _SPACES),
        (_DIGITS, _LETTERS | _SYMBOLS | _SPACES),
        (_SYMBOLS, _DIGITS | _SPACES),
        (_SYMBOLS - frozenset("'_"), _LETTERS),
    ),
    checked=_pairs((_BREAKS, _VISIBLE), ((), _SPACES)),
    check_left=_visible_left,
    wide_left=True,
)


# word-level: symbols come in chunks of at most 16 and never hold a letter or number; a word ends
# before an upper letter that follows a lower one, also inside a contraction.
WORD_LEVEL = CutRules(
    between=_pairs(
        (_LETTERS, _DIGITS | (_SYMBOLS - _APOSTROPHE) | _SPACES),
        (_LOWER, _UPPER),
        (_DIGITS, _LETTERS | _SYMBOLS | _SPACES),
        (_SYMBOLS, _DIGITS | _SPACES),
        (_SYMBOLS - _APOSTROPHE, _LETTERS),
    ),
    checked=_pairs(((), _SPACES)),
    check_left=_visible_left,
    wide_left=True,
)


# superbpe2: a number run is a chunk of its own; U+0020 before one may belong to the gap before it.
SUPERBPE2 = CutRules(
    between=_pairs(
        (_DIGITS, _LETTERS | _OTHER | _SPACES),
        (_LETTERS | _OTHER | (_SPACES - frozenset(" ")), _DIGITS),
    ),
)


# no rule at all: only documents are cut from each other.
NO_CUTS = CutRules(between=())
