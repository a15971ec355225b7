"""Text to base symbols and back, for each kind of alphabet.

A `Codec` knows how one alphabet cuts a chunk into symbols and what the symbols' contents say as
text. Symbols are bytes, characters, or SCRIPT's blocks and indices; a block and an index make a character,
and a token that holds only one of the two is not text by itself.

    codec = codec_for(header)
    codec.split("hi")                       -> [104, 105]
    codec.split_many([0, 2, 3], b"hia")     -> (array [104, 105, 97], array [2, 1])
    codec.text_bytes(b"hi")                 -> b"hi"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import Bytes, Longs
from streambpe.core.encoding import BYTES, CHARACTERS, DROP, ESCAPE, KEEP, REFUSE, SCRIPT, AlphabetSymbols
from streambpe.errors import ModelError, UndecodableSymbols, quoted
from streambpe.model.alphabet import BYTE_KINDS, UNKNOWN, Alphabet, Unknown
from streambpe.model.eventlog import Header
from streambpe.model.script import (
    FIRST_ESCAPE,
    DecodeErrors,
    decode_symbols,
    encode_text,
    encode_texts,
    read_characters,
    symbol_table,
)
from streambpe.text.script_blocks import Unencodable
from streambpe.text.script_runs import decode_code_points

Ids = npt.NDArray[np.int32]
_UNKNOWN = {"error": REFUSE, "drop": DROP, "unk": KEEP}


class Codec(Protocol):
    """One alphabet's way from text to base symbols and back."""

    def split(self, chunk: str) -> list[int]:
        """One chunk -> log ids of base symbols; UNKNOWN only in a model with an unknown token."""

    def split_many(self, offsets: Longs, data: Bytes) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Many chunks, UTF-8 from each offset to the next -> (their symbols one after another, symbols of each)."""

    @property
    def symbols(self) -> AlphabetSymbols:
        """What `split` does, as a table for the core."""

    def content(self, text: str) -> bytes:
        """The content that a token of exactly this text has, whether the alphabet holds its symbols or not."""

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """Contents of symbols, joined -> the UTF-8 they stand for; `errors`: for symbols that make no character."""

    def is_text(self, content: bytes) -> bool:
        """Whether a token's content says the same whatever stands around it."""


def _lengths(kept: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many places are kept between one start and the next.

    kept 1 0 1 1 0   starts 0 2 5   running 0 1 1 2 3 3: at the starts 0 1 3   -> 1 2
    """
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return np.diff(running[starts])


class ByteCodec:
    """Symbols are bytes."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown) -> None:
        self.alphabet, self.unknown = alphabet, unknown
        self._table: Ids = np.full(256, UNKNOWN, np.int32)
        for symbol, number in alphabet.id_of.items():
            self._table[symbol[0]] = number
        self._complete = bool((self._table >= 0).all())
        self._list = self._table.tolist()

    def split(self, chunk: str) -> list[int]:
        """See Codec."""
        data = chunk.encode()
        if self._complete:
            return [self._list[byte] for byte in data]
        return self.alphabet.split(data, self.unknown)

    def split_many(self, offsets: Longs, data: Bytes) -> tuple[Ids, npt.NDArray[np.int64]]:
        """See Codec."""
        data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
        symbols = self._table[data]
        if self._complete or (symbols >= 0).all() or self.unknown == "unk":
            return symbols, np.diff(offsets)
        if self.unknown == "error":
            self._refuse(data, symbols)
        known = symbols >= 0
        return symbols[known], _lengths(known, offsets)

    @property
    def symbols(self) -> AlphabetSymbols:
        """See Codec."""
        return AlphabetSymbols(BYTES, _UNKNOWN[self.unknown], self._table)

    def _refuse(self, data: npt.NDArray[np.uint8], symbols: Ids) -> None:
        at = int(np.flatnonzero(symbols < 0)[0])
        self.alphabet.split(data[at : at + 1].tobytes(), "error")

    def content(self, text: str) -> bytes:
        """See Codec."""
        return text.encode()

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """See Codec."""
        return content

    def is_text(self, content: bytes) -> bool:
        """See Codec."""
        return True


class CharacterCodec:
    """Symbols are characters."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown) -> None:
        self.alphabet, self.unknown = alphabet, unknown
        self._table: Ids = np.full(0x110000, UNKNOWN, np.int32)
        for symbol, number in alphabet.id_of.items():
            self._table[ord(symbol.decode())] = number

    def split(self, chunk: str) -> list[int]:
        """See Codec."""
        return self.alphabet.split(chunk.encode(), self.unknown)

    def split_many(self, offsets: Longs, data: Bytes) -> tuple[Ids, npt.NDArray[np.int64]]:
        """See Codec."""
        data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
        at, points = decode_code_points(data)
        symbols = self._table[points]
        starts = np.searchsorted(at, offsets)  # "aé", "日b": at 0 1 3 6, offsets in bytes 0 3 7, in characters 0 2 4
        known = symbols >= 0
        if known.all() or self.unknown == "unk":
            return symbols, np.diff(starts)
        if self.unknown == "error":
            self.alphabet.split(chr(points[np.flatnonzero(~known)[0]]).encode(), "error")
        return symbols[known], _lengths(known, starts)

    @property
    def symbols(self) -> AlphabetSymbols:
        """See Codec."""
        return AlphabetSymbols(CHARACTERS, _UNKNOWN[self.unknown], self._table)

    def content(self, text: str) -> bytes:
        """See Codec."""
        return text.encode()

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """See Codec."""
        return content

    def is_text(self, content: bytes) -> bool:
        """See Codec."""
        return True


class _SymbolsOfCharacters(dict[str, tuple[int, ...]]):
    """Character -> its SCRIPT symbols; filled on first use."""

    def __init__(self, unencodable: Unencodable) -> None:
        super().__init__()
        self._unencodable = unencodable

    def __missing__(self, character: str) -> tuple[int, ...]:
        symbols = tuple(encode_text(character, self._unencodable))
        self[character] = symbols
        return symbols


class ScriptCodec:
    """Symbols are SCRIPT's: a block and an index make a character, escapes make the UTF-8 of one."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown) -> None:
        alphabet.check_table()
        self._unencodable: Unencodable = "drop" if unknown == "drop" else "error"
        if alphabet.first_id + len(alphabet) > FIRST_ESCAPE:
            self._unencodable = "bytes"
        self._symbols = _SymbolsOfCharacters(self._unencodable)

    def split(self, chunk: str) -> list[int]:
        """See Codec."""
        of = self._symbols
        return [symbol for character in chunk for symbol in of[character]]

    def split_many(self, offsets: Longs, data: Bytes) -> tuple[Ids, npt.NDArray[np.int64]]:
        """See Codec."""
        symbols, offsets = encode_texts(offsets, data, self._unencodable)
        return symbols, np.diff(offsets)

    @property
    def symbols(self) -> AlphabetSymbols:
        """See Codec."""
        table, unknown = symbol_table(), {"bytes": ESCAPE, "drop": DROP, "error": REFUSE}[self._unencodable]
        return AlphabetSymbols(SCRIPT, unknown, table.block_of, table.index_of, FIRST_ESCAPE)

    def content(self, text: str) -> bytes:
        """See Codec."""
        return symbols_content(encode_text(text, "bytes"))

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """See Codec."""
        return decode_symbols(content_symbols(content), errors).encode()

    def is_text(self, content: bytes) -> bool:
        """See Codec."""
        return all(character is not None for character, _ in read_characters(content_symbols(content)))

    def settled(self, content: bytes) -> tuple[bytes, bytes]:
        """(the UTF-8 of the front that nothing after it can change, the content that may still be completed)."""
        symbols = content_symbols(content)
        text, used = [], 0
        for character, size in read_characters(symbols, ends=False):
            text.append(character or "\ufffd")
            used += size
        return "".join(text).encode(), content[2 * used :]

    def spread(self, contents: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
        """For each of the tokens in a row: (the UTF-8 of the characters that begin in it, the size in UTF-8 of the
        character that it begins inside of, or 0 if none). UndecodableSymbols if the tokens are not text."""
        ends = np.cumsum([len(content) // 2 for content in contents]).tolist()
        symbols = content_symbols(b"".join(contents))
        at, held, inside, token = 0, b"", 0, 0
        for character, size in read_characters(symbols):
            if character is None:
                raise UndecodableSymbols(f"symbol {at} of {len(symbols)} does not begin a character")
            encoded = character.encode()
            held += encoded
            at += size
            while token < len(ends) and ends[token] <= at:
                yield held, inside
                held, inside = b"", len(encoded) if ends[token] < at else 0
                token += 1


def symbols_content(symbols: Sequence[int]) -> bytes:
    """SCRIPT symbols -> the content of a token of them."""
    return np.array(symbols, ">u2").tobytes()


def content_symbols(content: bytes) -> list[int]:
    """The content of a token -> its SCRIPT symbols."""
    symbols: list[int] = np.frombuffer(content, ">u2").tolist()
    return symbols


def shown_content(alphabet: Alphabet, content: bytes) -> bytes:
    """A token's content for people, as the tables have it: UTF-8; names for SCRIPT symbols that make no character."""
    return decode_symbols(content_symbols(content), "name").encode() if alphabet.kind == "script" else content


def codec_of(alphabet: Alphabet, unknown: Unknown) -> Codec:
    """The codec of an alphabet; `unknown`: what a symbol outside it becomes."""
    if alphabet.kind in BYTE_KINDS:
        return ByteCodec(alphabet, unknown)
    if alphabet.kind == "chars":
        return CharacterCodec(alphabet, unknown)
    if alphabet.kind == "script":
        return ScriptCodec(alphabet, unknown)
    raise ModelError(
        f"The model's base symbols are of kind {quoted(alphabet.kind)}, and this program knows no way from text to "
        f"them. Kinds it knows: {', '.join([*BYTE_KINDS, 'chars', 'script'])}. A newer streambpe may."
    )


def codec_for(header: Header) -> Codec:
    """The codec of a model. A symbol outside the alphabet is an error, unless the model has an unknown token or its
    config says "drop": under "unknown" (Hugging Face models that lack some bytes) or, for SCRIPT, "unencodable"."""
    unknown: Unknown = "error"
    if header.unk is not None:
        unknown = "unk"
    elif header.config.get("unencodable" if header.alphabet["kind"] == "script" else "unknown") == "drop":
        unknown = "drop"
    return codec_of(Alphabet.from_header(header.alphabet), unknown)
