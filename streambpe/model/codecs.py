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

from functools import cached_property
from itertools import pairwise

import numpy as np

from streambpe.core.binding import Bytes, Longs
from streambpe.core.encoding import (
    BYTES,
    CHARACTERS,
    DROP,
    ESCAPE,
    KEEP,
    REFUSE,
    SCRIPT,
    AlphabetSymbols,
    EncoderCore,
    Ids,
    ModelTables,
    NumberedEvents,
    SymbolRefused,
)
from streambpe.errors import ModelError, UnknownSymbol, quoted
from streambpe.model.alphabet import BYTE_KINDS, UNKNOWN, Alphabet, Unknown
from streambpe.model.eventlog import Header
from streambpe.model.script import (
    FIRST_ESCAPE,
    DecodeErrors,
    decode_symbols,
    encode_text,
    read_characters,
    symbol_table,
)

_UNKNOWN = {"error": REFUSE, "drop": DROP, "unk": KEEP}


class Codec:
    """One alphabet's way from text to base symbols and back. Here symbols are bytes, or characters."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown) -> None:
        self.alphabet, self.unknown = alphabet, unknown

    def split(self, chunk: str) -> list[int]:
        """One chunk -> log ids of base symbols; UNKNOWN only in a model with an unknown token."""
        data = np.frombuffer(chunk.encode(), np.uint8)
        ids: list[int] = self.split_many(np.array([0, len(data)]), data)[0].tolist()
        return ids

    def split_many(self, offsets: Longs, data: Bytes) -> tuple[Ids, Longs]:
        """Many chunks, UTF-8 from each offset to the next -> (their symbols one after another, symbols of each)."""
        data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
        try:
            return EncoderCore(self._no_events, 0).chunks(offsets, data)
        except SymbolRefused:
            for start, stop in pairwise(offsets.tolist()):
                self.refuse_unknown(data[start:stop].tobytes().decode())
            raise

    def refuse_unknown(self, chunk: str) -> None:
        """An UnknownSymbol if a chunk holds a symbol outside the alphabet; what the core refuses is named so."""
        text, alphabet = chunk.encode(), self.alphabet
        pieces = map(str.encode, chunk) if alphabet.kind == "chars" else (bytes([byte]) for byte in text)
        for piece in pieces:
            if piece not in alphabet.id_of:
                raise UnknownSymbol(
                    f"{quoted(piece)} in {quoted(text)} is not in the {quoted(alphabet.kind)} alphabet of "
                    f"{len(alphabet)} symbols; train with --alphabet gpt2 or bytes to have every byte"
                )

    @cached_property
    def _no_events(self) -> ModelTables:
        sizes = np.ones(self.alphabet.first_id + len(self.alphabet) or 1, np.int32)
        return ModelTables(NumberedEvents([], {}, {}, {}, {}, sizes), self.symbols)

    @cached_property
    def symbols(self) -> AlphabetSymbols:
        """What `split` does, as a table for the core."""
        of_bytes = self.alphabet.kind in BYTE_KINDS
        table = np.full(256 if of_bytes else 0x110000, UNKNOWN, np.int32)
        for symbol, number in self.alphabet.id_of.items():
            table[symbol[0] if of_bytes else ord(symbol.decode())] = number
        return AlphabetSymbols(BYTES if of_bytes else CHARACTERS, _UNKNOWN[self.unknown], table)

    def content(self, text: str) -> bytes:
        """The content that a token of exactly this text has, whether the alphabet holds its symbols or not."""
        return text.encode()

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """Contents of symbols, joined -> the UTF-8 they stand for; `errors`: for symbols that make no character."""
        return content

    def is_text(self, content: bytes) -> bool:
        """Whether a token's content says the same whatever stands around it."""
        return True


class ScriptCodec(Codec):
    """Symbols are SCRIPT's: a block and an index make a character, escapes make the UTF-8 of one."""

    def __init__(self, alphabet: Alphabet, unknown: Unknown) -> None:
        alphabet.check_table()
        super().__init__(alphabet, "drop" if unknown == "drop" else "error")

    @cached_property
    def symbols(self) -> AlphabetSymbols:
        """See Codec."""
        table, escapes = symbol_table(), len(self.alphabet) >= FIRST_ESCAPE
        unknown = ESCAPE if escapes else _UNKNOWN[self.unknown]
        return AlphabetSymbols(SCRIPT, unknown, table.block_of, table.index_of, FIRST_ESCAPE)

    def refuse_unknown(self, chunk: str) -> None:
        """See Codec."""
        encode_text(chunk, "error")

    def content(self, text: str) -> bytes:
        """See Codec."""
        return np.array(encode_text(text, "bytes"), ">u2").tobytes()

    def text_bytes(self, content: bytes, errors: DecodeErrors = "replace") -> bytes:
        """See Codec."""
        return decode_symbols(content_symbols(content), errors).encode()

    def is_text(self, content: bytes) -> bool:
        """See Codec."""
        return all(character is not None for character, _ in read_characters(content_symbols(content)))

    def settled(self, content: bytes, errors: DecodeErrors = "replace") -> tuple[bytes, bytes]:
        """(the UTF-8 of the front that nothing after it can change, the content that may still be completed)."""
        used = 2 * sum(size for _, size in read_characters(content_symbols(content), ends=False))
        return self.text_bytes(content[:used], errors), content[used:]


def content_symbols(content: bytes) -> list[int]:
    """The content of a token -> its SCRIPT symbols."""
    symbols: list[int] = np.frombuffer(content, ">u2").tolist()
    return symbols


def shown_content(alphabet: Alphabet, content: bytes) -> bytes:
    """A token's content for people, as the tables have it: UTF-8; names for SCRIPT symbols that make no character."""
    return decode_symbols(content_symbols(content), "name").encode() if alphabet.kind == "script" else content


def codec_of(alphabet: Alphabet, unknown: Unknown) -> Codec:
    """The codec of an alphabet; `unknown`: what a symbol outside it becomes."""
    if alphabet.kind in (*BYTE_KINDS, "chars"):
        return Codec(alphabet, unknown)
    if alphabet.kind == "script":
        return ScriptCodec(alphabet, unknown)
    raise ModelError(
        f"The model's base symbols are of kind {quoted(alphabet.kind)}, and this version cannot turn text into them. "
        f"It knows: {', '.join([*BYTE_KINDS, 'chars', 'script'])}. A newer streambpe may know more."
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
