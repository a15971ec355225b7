"""Alphabets: the base symbols everything else is built from, and their ids.

A chunk of text enters training as base symbols. An alphabet says which symbols exist, and in
which order: order is id, so it decides ties under `--ties ids`. (codecs.py cuts chunks into them.)

    gpt2_alphabet()              "hi" is 71 72     256 bytes, ordered by printable stand-in
    bytes_alphabet()             "hi" is 104 105   id = byte
    bytes_alphabet(first_id=1)   "hi" is 105 106   id = byte + 1, 0 is left free
    utf8_alphabet()              243 bytes that valid UTF-8 can hold
    seen_alphabet(chunks)        gpt2 order, only the bytes that occur
    chars_alphabet("añ")         "ñ?" is 1 -1      characters; -1 = UNKNOWN
    script_alphabet()            symbols that are not text, written as 16-bit numbers

A symbol's *content* is a byte string: the byte, the character in UTF-8, or the number in two
bytes. Contents of one alphabet are prefix-free, so a token's content names its symbols and
two tokens are the same token exactly when their contents are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from streambpe.errors import OtherTable, quoted
from streambpe.model.script import ESCAPE_SYMBOLS, FIRST_ESCAPE, symbol_table
from streambpe.text.script_blocks import UNICODE, Unencodable

UNKNOWN = -1  # stands in a sequence for a symbol outside the alphabet; no pair with it is ever counted

BYTE_KINDS = ("gpt2", "bytes", "utf8", "seen")
Unknown = Literal["error", "drop", "unk"]


@dataclass(frozen=True)
class Alphabet:
    """Base symbols in id order: symbol number i has log id first_id + i."""

    kind: str
    symbols: tuple[bytes, ...]
    first_id: int = 0
    table_facts: dict[str, str | int] = field(default_factory=dict, compare=False)  # of kind script: its table

    def __post_init__(self) -> None:
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError(f"the alphabet {quoted(self.kind)} lists a symbol twice")
        one = "character" if self.kind == "chars" else "byte" if self.kind in BYTE_KINDS else ""
        for symbol in self.symbols:
            if not symbol or (one and len(symbol.decode() if one == "character" else symbol) != 1):
                raise ValueError(
                    f"the alphabet {quoted(self.kind)} lists {symbol!r:.80}, which is not one {one or 'symbol'}"
                )

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """Symbol content -> log id."""
        return {symbol: number for number, symbol in enumerate(self.symbols, self.first_id)}

    def check_table(self) -> None:
        """Refuse SCRIPT symbols of another table of characters than the one here."""
        mine = symbol_table().sha256
        if self.table_facts.get("sha256", mine) != mine:
            raise OtherTable(
                f"The model's symbols come from another character table ({self.table_facts.get('table')}, sha256 "
                f"{str(self.table_facts['sha256'])[:16]}) than the one here (unicode-{UNICODE}, {mine[:16]})."
            )

    def to_header(self) -> dict[str, Any]:
        """The alphabet as the event log's header writes it."""
        if self.kind == "script":
            return {"kind": self.kind, "first_id": self.first_id, "size": len(self), **self.table_facts}
        return {"kind": self.kind, "first_id": self.first_id, "symbols": [symbol.hex() for symbol in self.symbols]}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Alphabet:
        """The alphabet a header describes."""
        if header["kind"] == "script":
            return _script(header["size"], {k: v for k, v in header.items() if k not in ("kind", "first_id", "size")})
        symbols = tuple(bytes.fromhex(symbol) for symbol in header["symbols"])
        return cls(header["kind"], symbols, header["first_id"])


def byte_to_character() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte: 32 (space) -> "Ġ", 10 -> "Ċ", 65 -> "A".

    188 bytes print as themselves; the other 68, in order, take U+0100, U+0101, ...
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    rest = (byte for byte in range(256) if byte not in table)
    table.update({byte: chr(0x100 + i) for i, byte in enumerate(rest)})
    return table


def gpt2_alphabet() -> Alphabet:
    """All 256 bytes in the order of their stand-ins: "!" is 0, space is 220. Hugging Face's order."""
    table = byte_to_character()
    return Alphabet("gpt2", tuple(bytes([byte]) for byte in sorted(range(256), key=table.__getitem__)))


def bytes_alphabet(first_id: int = 0) -> Alphabet:
    """All 256 bytes in byte order; first_id=1 is the SCRIPT papers' byte variant (0 is padding)."""
    return Alphabet("bytes", tuple(bytes([byte]) for byte in range(256)), first_id)


def utf8_alphabet() -> Alphabet:
    """The 243 bytes that occur in valid UTF-8 (C0, C1 and F5-FF never do), in byte order."""
    return Alphabet("utf8", tuple(bytes([byte]) for byte in (*range(0xC0), *range(0xC2, 0xF5))))


def seen_alphabet(chunks: Iterable[bytes]) -> Alphabet:
    """The bytes that occur in these chunks, in gpt2 order: as Hugging Face has them without an initial alphabet."""
    seen = set(b"".join(chunks))
    return Alphabet("seen", tuple(symbol for symbol in gpt2_alphabet().symbols if symbol[0] in seen))


def chars_alphabet(characters: Iterable[str], in_given_order: bool = False) -> Alphabet:
    """Characters as symbols, by code point unless the given order is to be kept."""
    listed = list(characters) if in_given_order else sorted(set(characters))
    return Alphabet("chars", tuple(character.encode() for character in listed))


def script_alphabet(unencodable: Unencodable = "bytes") -> Alphabet:
    """The base symbols 1 .. 1916, or .. 2172 with the escape symbols that `bytes` needs."""
    size = FIRST_ESCAPE - 1 + (ESCAPE_SYMBOLS if unencodable == "bytes" else 0)
    return _script(size, symbol_table().facts(size))


def _script(size: int, table_facts: dict[str, str | int]) -> Alphabet:
    """SCRIPT's block and index symbols, which are only numbers, from 1; content = id in two bytes."""
    return Alphabet("script", tuple(number.to_bytes(2, "big") for number in range(1, size + 1)), 1, table_facts)
