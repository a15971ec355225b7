"""A `.model` of sentencepiece (BPE) as sentencepiece encodes with it: to be measured beside a vocabulary.

    text  ->  normalized by the file's rules, spaces as ▁  ->  characters  ->  the neighbours that make the piece with
    the highest score are joined, again and again  ->  ids; what is no piece is its bytes, or the unknown id

An event log cannot hold such a vocabulary: ids stand in an order of their own, and the text is changed first. So it
has an encoder of its own. It is plain Python and encodes each distinct word once (`Words`).
"""

from __future__ import annotations

import heapq
import itertools
import os
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streambpe.encode.formats.sentencepiece_file import PieceKind, SentencePieceFile, byte_names, read_sentencepiece
from streambpe.errors import ModelError
from streambpe.text.whitespace import WORD_MARK

_SPACE = ord(" ")
_CHILDREN = np.arange(1, 256, dtype=np.int64)
_AT_ONCE = 1 << 12  # nodes of the trie
_PART = 1 << 16  # characters of a document that are encoded together


class CharsMap:
    """Rules of a normalizer: a double array of keys, in UTF-8, and the texts that replace them. Never read beyond."""

    def __init__(self, data: bytes) -> None:
        (size,) = struct.unpack_from("<I", data) if len(data) >= 4 else (0,)
        if size % 4 or not 4 <= size <= len(data) - 5 or data[-1]:
            raise ModelError("The rules of its normalizer are damaged.")
        self._array = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64)
        self._units: list[int] = self._array.tolist()
        self._texts = data[4 + size :]

    def longest(self, text: bytes, at: int) -> tuple[int, bytes]:
        """(length of the longest key that begins here, its replacement); length 0 if there is none."""
        units, most = self._units, len(self._units)
        node = _offset(units[0])
        found = (0, b"")
        for end in range(at, len(text)):
            node ^= text[end]
            if node >= most or units[node] & 0x800000FF != text[end]:
                break
            unit = units[node]
            node ^= _offset(unit)
            if unit >> 8 & 1:
                found = (end + 1 - at, self._text(node))
        return found

    def _text(self, node: int) -> bytes:
        start = self._units[node] & 0x7FFFFFFF if node < len(self._units) else len(self._texts)
        if start >= len(self._texts):
            raise ModelError("The rules of its normalizer are damaged.")
        return self._texts[start : self._texts.index(b"\0", start)]

    @property
    def makes_spaces(self) -> bool:
        """Whether some replacement holds a space."""
        return b" " in self._texts

    @property
    def makes_marks(self) -> bool:
        """Whether some replacement holds the mark of a space."""
        return WORD_MARK.encode() in self._texts

    @cached_property
    def holds_spaces(self) -> bool:
        """Whether a space stands in some key that is longer, or is a key: then words are not what spaces part."""
        array = self._array
        first = _offset(self._units[0])
        if first ^ _SPACE < len(array) and array[first ^ _SPACE] & 0x800000FF == _SPACE:
            return True
        nodes, seen = np.array([first], np.int64), np.zeros(len(array), np.bool_)
        while len(nodes):
            below = []
            for low in range(0, len(nodes), _AT_ONCE):
                places = nodes[low : low + _AT_ONCE, None] ^ _CHILDREN
                inside = places < len(array)
                units = array[np.where(inside, places, 0)]
                there = inside & (units & 0x800000FF == _CHILDREN)
                if there[:, _SPACE - 1].any():
                    return True
                below.append((places ^ _offsets(units))[there])
            found = np.unique(np.concatenate(below))
            found = found[found < len(array)]
            nodes = found[~seen[found]]  # nodes share what follows them, so many lead to one
            seen[nodes] = True
        return False

    @cached_property
    def plain(self) -> bytes:
        """Printable ASCII that no key consists of: a run of these stays what it is, but for the last before others."""
        printable = range(0x20, 0x7F)
        return bytes(c for c in printable if not self.longest(bytes([c]), 0)[0] and not self._goes_on_in_ascii(c))

    def _goes_on_in_ascii(self, first: int) -> bool:
        units, most = self._units, len(self._units)
        node = _offset(units[0]) ^ first
        if node >= most or units[node] & 0x800000FF != first:
            return False
        node ^= _offset(units[node])
        return any(node ^ c < most and units[node ^ c] & 0x800000FF == c for c in range(1, 0x80))


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


def _offsets(units: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (units >> 10) << ((units & 1 << 9) >> 6)


class SentencePiece:
    """Encodes as the package `sentencepiece` does with the same file. Never changes."""

    def __init__(self, file: SentencePieceFile) -> None:
        self.file = file
        self._map = CharsMap(file.charsmap) if file.charsmap else None
        self._score: dict[str, float] = {}
        self._joined: dict[str, int] = {}  # pieces that are joined from others, or single characters
        self._reserved: dict[str, int] = {}
        joins = (PieceKind.NORMAL, PieceKind.USER_DEFINED, PieceKind.UNUSED)
        for number, piece in enumerate(file.pieces):
            if piece.kind in joins:
                self._joined[piece.text], self._score[piece.text] = number, piece.score
            else:
                self._reserved[piece.text] = number
        self._unknown = next(i for i, piece in enumerate(file.pieces) if piece.kind is PieceKind.UNKNOWN)
        self._unused = {i for i, piece in enumerate(file.pieces) if piece.kind is PieceKind.UNUSED}
        self._bytes = [self._reserved[name] for name in byte_names()] if file.byte_fallback else []
        given = [piece.text for piece in file.pieces if piece.kind is PieceKind.USER_DEFINED]
        longest_first = "|".join(map(re.escape, sorted(given, key=len, reverse=True)))
        self._given = re.compile(longest_first) if given else None
        self._given_bytes = re.compile(longest_first.encode()) if given else None
        self._words_stand_alone = self._cuts_at_marks(given)
        self._plain = self._plain_run()
        self._given_spaces = any(" " in text or WORD_MARK in text for text in given)

    @cached_property
    def counts_words(self) -> bool:
        """Whether a document is its words, each encoded by itself, as the text has them before it is normalized."""
        file, rules = self.file, self._map
        if not self._words_stand_alone or not file.escape_whitespaces or self._given_spaces:
            return False
        if rules is not None and (rules.holds_spaces or rules.makes_marks):
            return False
        if file.remove_extra_whitespaces:
            return file.add_dummy_prefix
        return rules is None or not rules.makes_spaces

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SentencePiece:
        """The model of a file."""
        try:
            return cls(read_sentencepiece(path))
        except (ModelError, struct.error, ValueError) as why:
            text = str(why)
            raise ModelError(text if text.startswith(str(path)) else f"{path}: {text}") from None

    def _cuts_at_marks(self, given: Iterable[str]) -> bool:
        """Whether no piece reaches over the beginning of a word, nor does a run of unknown characters."""
        known = self._joined.get(WORD_MARK)
        if not self._bytes and (known is None or known in self._unused):
            return False
        if any(WORD_MARK in text for text in given):
            return False
        return not any(WORD_MARK in text.lstrip(WORD_MARK) for text in self._joined)

    def _plain_run(self) -> re.Pattern[bytes] | None:
        if self._map is None or self._given is not None or not self._map.plain:
            return None
        return re.compile(b"[" + re.escape(self._map.plain) + rb"]+(?![\x80-\xff])")

    def __len__(self) -> int:
        return len(self.file.pieces)

    def contents(self) -> dict[int, bytes]:
        """The bytes of every id that stands for some, marks as spaces."""
        found = {number: text.replace(WORD_MARK, " ").encode() for text, number in self._joined.items()}
        found.update({number: bytes([byte]) for byte, number in enumerate(self._bytes)})
        return found

    # Encoding.

    def encode(self, text: str) -> list[int]:
        """Text -> ids, as `SentencePieceProcessor.encode` gives them."""
        return [number for unit in self.units(self.normalize(text)) for number in self.encode_unit(unit)]

    def units(self, normalized: str) -> list[str]:
        """A normalized text cut where no piece reaches: before marks; or whole."""
        if not self._words_stand_alone or not self.file.escape_whitespaces:
            return [normalized] if normalized else []
        return [unit for unit in re.findall(f"{WORD_MARK}*[^{WORD_MARK}]*", normalized) if unit]

    def normalize(self, text: str, begins: bool = True) -> str:
        """The text that is cut into characters. begins: a document does, so that it may get a space before it."""
        file = self.file
        mark = WORD_MARK if file.escape_whitespaces else " "
        parts = list(self._replaced(text))
        if file.remove_extra_whitespaces:
            parts = list(itertools.dropwhile(" ".__eq__, parts))
        if not parts:
            return ""
        after_space = file.remove_extra_whitespaces
        out = [mark] if file.add_dummy_prefix and (begins or after_space) else []
        for part in parts:
            if after_space:
                part = part.lstrip(" ")
            if part:
                after_space = file.remove_extra_whitespaces and part.endswith(" ")
                out.append(part.replace(" ", mark))
        made = "".join(out)
        if file.remove_extra_whitespaces:
            while made.endswith(mark):
                made = made[: -len(mark)]
        return made

    def _replaced(self, text: str) -> Iterator[str]:
        """The text in stretches, each as the rules leave it; a space that ends one, or is one, stands alone."""
        if self._map is None and self._given is None:
            yield from re.findall(" |[^ ]+", text)
            return
        data, at = text.encode(), 0
        while at < len(data):
            if self._given_bytes is not None and (given := self._given_bytes.match(data, at)):
                yield given.group().decode()
                at = given.end()
                continue
            if self._plain is not None and (run := self._plain.match(data, at)):
                yield from re.findall(" |[^ ]+", run.group().decode())
                at = run.end()
                continue
            length, replacement = self._map.longest(data, at) if self._map is not None else (0, b"")
            if not length:
                lead = data[at]
                length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
                replacement = data[at : at + length]
            yield replacement.decode("utf-8", "replace")
            at += length

    def encode_unit(self, unit: str) -> list[int]:
        """One unit of a normalized text -> ids."""
        ids: list[int] = []
        was_unknown = False
        for text, number in self._joined_pieces(unit):
            unknown = number == self._unknown
            if unknown and self._bytes:
                ids += [self._bytes[byte] for byte in text.encode()]
            elif not (unknown and was_unknown):  # unknown pieces side by side are one id
                ids.append(number)
            was_unknown = unknown
        return ids

    def _symbols(self, unit: str) -> tuple[list[str], set[int]]:
        """(characters, and pieces that were given as they are; the places of these)."""
        if self._given is None:
            return list(unit), set()
        symbols: list[str] = []
        frozen: set[int] = set()
        at = 0
        for given in self._given.finditer(unit):
            symbols += unit[at : given.start()]
            frozen.add(len(symbols))
            symbols.append(given.group())
            at = given.end()
        return symbols + list(unit[at:]), frozen

    def _joined_pieces(self, unit: str) -> Iterator[tuple[str, int]]:
        symbols, frozen = self._symbols(unit)
        before = list(range(-1, len(symbols) - 1))
        after = [*range(1, len(symbols)), -1]
        made_of: dict[str, tuple[str, str]] = {}
        agenda: list[tuple[float, int, int, int]] = []

        def propose(left: int, right: int) -> None:
            if left < 0 or right < 0 or left in frozen or right in frozen:
                return
            both = symbols[left] + symbols[right]
            score = self._score.get(both)
            if score is not None:
                heapq.heappush(agenda, (-score, left, right, len(both)))
                if self._joined[both] in self._unused:
                    made_of[both] = (symbols[left], symbols[right])

        for i in range(1, len(symbols)):
            propose(i - 1, i)
        while agenda:
            _, left, right, size = heapq.heappop(agenda)
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != size:
                continue
            symbols[left] += symbols[right]
            symbols[right] = ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            propose(before[left], left)
            propose(left, after[left])
        for text in symbols:
            if text:
                yield from self._named(text, made_of)

    def _named(self, text: str, made_of: dict[str, tuple[str, str]]) -> Iterator[tuple[str, int]]:
        """(piece, id); a piece that is not used is what it was joined from, or unknown if it is one character."""
        number = self._reserved.get(text, self._joined.get(text, self._unknown))
        if number not in self._unused:
            yield text, number
        elif text in made_of:
            for part in made_of[text]:
                yield from self._named(part, made_of)
        else:
            yield text, self._unknown


class Words:
    """Counts the words of documents, each to be encoded once; whole documents where that is not the same."""

    def __init__(self, model: SentencePiece) -> None:
        self.model = model
        self._words: Counter[str] = Counter()
        self.n = np.zeros(len(model), np.int64)
        self.units = self.single_units = 0
        self.held = 0  # bytes of distinct words, roughly

    @staticmethod
    def last_border(text: str) -> int:
        """Where a document may be cut, so that `add` takes it in parts: before its last spaces; 0: nowhere."""
        cut = text.rfind(" ")
        while cut > 0 and text[cut - 1] in (" ", WORD_MARK):
            cut -= 1
        return max(cut, 0)

    def add(self, text: str, begins: bool = True) -> None:
        """Add one document, or the part of one that begins it or does not."""
        if not text:
            return
        file = self.model.file
        if not self.model.counts_words:
            self._encoded(self.model.units(self.model.normalize(text, begins)), 1)
            return
        if WORD_MARK in text:
            for part in self._parts(text):
                self._encoded(self.model.units(self.model.normalize(part, begins)), 1)
                begins = False
            return
        before = len(self._words)
        if file.remove_extra_whitespaces:
            self._words.update(text.split(" "))
        else:
            self._words.update(re.findall(" +[^ ]*|[^ ]+", f" {text}" if file.add_dummy_prefix and begins else text))
        self.held += (len(self._words) - before) * 150

    def _parts(self, text: str) -> Iterator[str]:
        """A document in stretches that are encoded by themselves."""
        while text:
            size = _PART
            while size < len(text) and not self.last_border(text[:size]):
                size *= 2
            cut = self.last_border(text[:size]) if size < len(text) else len(text)
            yield text[:cut]
            text = text[cut:]

    def fold(self) -> None:
        """Encode the words that were counted, and begin again."""
        removes = self.model.file.remove_extra_whitespaces
        for word, n in self._words.items():
            self._encoded(self.model.units(self.model.normalize(word, begins=removes)), n)
        self._words.clear()
        self.held = 0

    def _encoded(self, units: list[str], n: int) -> None:
        for unit in units:
            ids = self.model.encode_unit(unit)
            self.units += n
            self.single_units += n * (len(ids) == 1)
            for number in ids:
                self.n[number] += n
