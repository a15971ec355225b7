"""Text to base symbols and back, for each kind of alphabet.

A `Codec` knows how one alphabet cuts a chunk into symbols and what the symbols' contents say as
text. Kinds whose symbols are bytes or characters are here; a kind that needs a character table of
its own (SCRIPT) registers a factory in CODECS under the alphabet's kind.

    codec = codec_for(header)
    codec.split("hi")                       -> [104, 105]
    codec.split_many(["hi", "a"])           -> (array [104, 105, 97], array [2, 1])
    codec.text_bytes(b"hi")                 -> b"hi"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.encode.alphabet import BYTE_KINDS, UNKNOWN, Alphabet, Unknown
from streambpe.encode.eventlog import Header
from streambpe.encode.model import WORD_MARK
from streambpe.encode.scripts import decode_code_points
from streambpe.errors import ModelError

Ids = npt.NDArray[np.int32]


class Codec(Protocol):
    """One alphabet's way from text to base symbols and back."""

    def split(self, chunk: str) -> list[int]:
        """One chunk -> log ids of base symbols; UNKNOWN only in a model with an unknown token."""

    def split_many(self, chunks: pl.Series) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Many chunks -> (their symbols one after another, symbols of each)."""

    def text_bytes(self, content: bytes) -> bytes:
        """Contents of symbols, joined -> the UTF-8 they stand for."""


def utf8_of(chunks: pl.Series) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(the chunks' bytes one after another, where each ends; 0 first): views of Polars' own buffers."""
    array = chunks.cast(pl.String).to_arrow(compat_level=pl.CompatLevel.oldest())
    buffers = array.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(buffers[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def _lengths(kept: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many places are kept between one start and the next."""
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

    def split_many(self, chunks: pl.Series) -> tuple[Ids, npt.NDArray[np.int64]]:
        """See Codec."""
        data, offsets = utf8_of(chunks)
        symbols = self._table[data]
        if self._complete or (symbols >= 0).all() or self.unknown == "unk":
            return symbols, np.diff(offsets)
        if self.unknown == "error":
            self._refuse(data, symbols)
        known = symbols >= 0
        return symbols[known], _lengths(known, offsets)

    def _refuse(self, data: npt.NDArray[np.uint8], symbols: Ids) -> None:
        at = int(np.flatnonzero(symbols < 0)[0])
        self.alphabet.split(data[at : at + 1].tobytes(), "error")

    def text_bytes(self, content: bytes) -> bytes:
        """See Codec."""
        return content


class CharacterCodec:
    """Symbols are characters; under --pattern whitespace every chunk begins with the word mark."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown, mark: str) -> None:
        self.alphabet, self.unknown, self.mark = alphabet, unknown, mark
        self._table: Ids = np.full(0x110000, UNKNOWN, np.int32)
        for symbol, number in alphabet.id_of.items():
            self._table[ord(symbol.decode())] = number

    def split(self, chunk: str) -> list[int]:
        """See Codec."""
        return self.alphabet.split((self.mark + chunk).encode(), self.unknown)

    def split_many(self, chunks: pl.Series) -> tuple[Ids, npt.NDArray[np.int64]]:
        """See Codec."""
        if self.mark:
            chunks = (
                (pl.lit(self.mark) + chunks.cast(pl.String)).pipe(lambda e: chunks.to_frame().select(e)).to_series()
            )
        data, offsets = utf8_of(chunks)
        at, points = decode_code_points(data)
        symbols = self._table[points]
        starts = np.searchsorted(at, offsets)
        known = symbols >= 0
        if known.all() or self.unknown == "unk":
            return symbols, np.diff(starts)
        if self.unknown == "error":
            self.alphabet.split(chr(points[np.flatnonzero(~known)[0]]).encode(), "error")
        return symbols[known], _lengths(known, starts)

    def text_bytes(self, content: bytes) -> bytes:
        """See Codec."""
        return content


def split_each(codec: Codec, chunks: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
    """`split_many` by way of `split`, for a codec without array work of its own."""
    parts = [codec.split(chunk) for chunk in chunks]
    flat = np.array([symbol for part in parts for symbol in part], np.int32)
    return flat, np.array([len(part) for part in parts], np.int64)


CODECS: dict[str, Callable[[Header], Codec]] = {}


def codec_for(header: Header) -> Codec:
    """The codec of a model. A symbol outside the alphabet is an error, unless the model has an
    unknown token or its config says `"unencodable": "drop"`."""
    kind = header.alphabet["kind"]
    if kind in CODECS:
        return CODECS[kind](header)
    unknown: Unknown = "error"
    if header.unk is not None:
        unknown = "unk"
    elif header.config.get("unencodable") == "drop":
        unknown = "drop"
    alphabet = Alphabet.from_header(header.alphabet)
    if kind in BYTE_KINDS:
        return ByteCodec(alphabet, unknown)
    if kind == "chars":
        return CharacterCodec(alphabet, unknown, WORD_MARK if header.config.get("pattern") == "whitespace" else "")
    raise ModelError(
        f"The model's base symbols are of kind {kind!r}, and this program knows no way from text to them. "
        f"Kinds it knows: {', '.join([*BYTE_KINDS, 'chars', *CODECS])}. A newer streambpe may."
    )


__all__ = ["CODECS", "ByteCodec", "CharacterCodec", "Codec", "codec_for", "split_each", "utf8_of"]
