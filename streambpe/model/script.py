"""The SCRIPT encoding: a character is two symbols, its block and its place in the block.

    "hi"   ->  1550 34  1550 35      Latin letters are block 1550; h is number 34 there, i number 35
    "中"   ->  1454 848             one of the 69 blocks of Han letters

Characters are grouped by (script, super-category), as Unicode 16.0.0 has them; groups are ordered by
the size of their script and cut into blocks of at most 1 448. The symbols, whose numbers never change:

    1 .. 1448        index symbols: the place in a block, from 1 (0 is never used)
    1449 .. 1916     block symbols: 468 of them
    1917 .. 2172     with --unencodable bytes: the 256 bytes, for characters the table does not hold
                     (unassigned in 16.0.0, private use), in UTF-8

The super-categories are LM (letters and marks), PS (punctuation and symbols), N, Z and C. Five
characters are moved: tab and line feed to (Common, Z), U+30FC and U+FF70 to (Inherited, LM), U+0640
to (Arabic, LM); inside a group moved characters come first, then the others by code point.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.errors import UndecodableSymbols, UnknownSymbol
from streambpe.text.script_blocks import MOVED, UNASSIGNED, UNICODE, Group, Unencodable, character_groups

INDEX_SYMBOLS = 1448  # characters of the largest group that is not cut up: Latin LM
FIRST_BLOCK = INDEX_SYMBOLS + 1
FIRST_ESCAPE = 1917
ESCAPE_SYMBOLS = 256


# Groups larger than Latin LM, which yet do not set the size of a block.
_CUT_UP = {("Han", "LM"), ("Hangul", "LM"), ("Common", "PS"), ("Tangut", "LM"), ("Egyptian_Hieroglyphs", "LM")}
DecodeErrors = Literal["replace", "name", "strict"]


class ScriptBlock(msgspec.Struct, frozen=True):
    """One block symbol and its characters, index 1 first."""

    symbol: int
    script: str
    supercategory: str
    sub_block: int  # place among the blocks of its group
    characters: tuple[int, ...]


class SymbolTable(msgspec.Struct, frozen=True):
    """All blocks, and look-ups both ways. About 7 MB."""

    blocks: tuple[ScriptBlock, ...]
    block_of: npt.NDArray[np.int32]  # code point -> block symbol; 0: not in the table
    index_of: npt.NDArray[np.int32]  # code point -> index symbol
    sha256: str  # of one line per block: script, super-category, sub-block, characters in hex

    def character(self, block: int, index: int) -> str | None:
        """The character that two symbols stand for."""
        if not FIRST_BLOCK <= block < FIRST_BLOCK + len(self.blocks) or index < 1:
            return None
        characters = self.blocks[block - FIRST_BLOCK].characters
        return chr(characters[index - 1]) if index <= len(characters) else None

    def facts(self, size: int) -> dict[str, str | int]:
        """What the header of a model says of its symbols, beside kind, first_id and size."""
        return {
            "table": f"unicode-{UNICODE}",
            "index_symbols": INDEX_SYMBOLS,
            "block_symbols": len(self.blocks),
            "escape_symbols": size - INDEX_SYMBOLS - len(self.blocks),
            "sha256": self.sha256,
        }


@functools.cache
def symbol_table() -> SymbolTable:
    """The table of Unicode 16.0.0; made in 0.3 s from data/characters-16.0.0.txt, kept."""
    names, group_of = character_groups()
    members: dict[Group, list[int]] = {name: [] for name in names if name != UNASSIGNED}
    points = np.flatnonzero(group_of)
    order = np.argsort(group_of[points], kind="stable")  # by code point inside a group
    cuts = np.flatnonzero(np.diff(group_of[points][order])) + 1
    for part in np.split(points[order], cuts):
        listed = part.tolist()
        members[names[group_of[listed[0]]]] = sorted(listed, key=lambda point: (point not in MOVED, point))
    in_script: dict[str, int] = {}
    for (script, _), characters in members.items():
        in_script[script] = in_script.get(script, 0) + len(characters)
    ordered = sorted(members.items(), key=lambda item: (in_script[item[0][0]], item[1]), reverse=True)
    largest = max(len(characters) for group, characters in members.items() if group not in _CUT_UP)
    assert largest == INDEX_SYMBOLS, largest
    blocks: list[ScriptBlock] = []
    block_of = np.zeros(0x110000, np.int32)
    index_of = np.zeros(0x110000, np.int32)
    digest = hashlib.sha256()
    for (script, supercategory), characters in ordered:
        for sub_block, start in enumerate(range(0, len(characters), INDEX_SYMBOLS)):
            mine = characters[start : start + INDEX_SYMBOLS]
            symbol = FIRST_BLOCK + len(blocks)
            blocks.append(ScriptBlock(symbol, script, supercategory, sub_block, tuple(mine)))
            block_of[mine] = symbol
            index_of[mine] = np.arange(1, len(mine) + 1)
            listed_hex = " ".join(f"{point:04X}" for point in mine)
            digest.update(f"{script} {supercategory} {sub_block} {listed_hex}\n".encode())
    assert FIRST_BLOCK + len(blocks) == FIRST_ESCAPE, len(blocks)
    return SymbolTable(tuple(blocks), block_of, index_of, digest.hexdigest())


def encode_text(text: str, unencodable: Unencodable = "bytes") -> list[int]:
    """The symbols of a text: two of each character; of one outside the table one of each byte of its UTF-8 (`bytes`),
    none (`drop`), or an UnknownSymbol (`error`). The core does it for many texts (codecs.py)."""
    table, symbols = symbol_table(), []
    for character in text:
        block = int(table.block_of[ord(character)])
        if block:
            symbols += [block, int(table.index_of[ord(character)])]
        elif unencodable == "bytes":
            symbols += [FIRST_ESCAPE + byte for byte in character.encode()]
        elif unencodable == "error":
            raise UnknownSymbol(
                f"U+{ord(character):04X} is not among the {FIRST_ESCAPE - 1} symbols of the SCRIPT table "
                f"(Unicode {UNICODE}); --unencodable bytes keeps such characters."
            )
    return symbols


def symbol_name(symbol: int) -> str:
    """A symbol for people: "<Latin LM 0>", "<index 34>", "<byte ee>"; "<7000>" for an id that is no symbol."""
    if 1 <= symbol <= INDEX_SYMBOLS:
        return f"<index {symbol}>"
    if FIRST_BLOCK <= symbol < FIRST_ESCAPE:
        block = symbol_table().blocks[symbol - FIRST_BLOCK]
        return f"<{block.script} {block.supercategory} {block.sub_block}>"
    if FIRST_ESCAPE <= symbol < FIRST_ESCAPE + ESCAPE_SYMBOLS:
        return f"<byte {symbol - FIRST_ESCAPE:02x}>"
    return f"<{symbol}>"


def read_characters(symbols: Sequence[int], ends: bool = True) -> Iterator[tuple[str | None, int]]:
    """(a character and how many symbols make it; None and 1 for a symbol that begins none), one after another.

    With `ends` False more symbols may follow: reading stops before those that may be the front of a character.
    """
    at = 0
    while at < len(symbols):
        wanted = _symbols_wanted(symbols[at])
        some = symbols[at : at + wanted]
        character = _character(some)
        if character is None:
            if not ends and len(some) < wanted and all(symbol >= FIRST_ESCAPE for symbol in some[1:]):
                return
            wanted = 1
        yield character, wanted
        at += wanted


def _symbols_wanted(symbol: int) -> int:
    """How many symbols make a character that begins with this one; 1 for a symbol that begins none."""
    lead = symbol - FIRST_ESCAPE
    if not 0 <= lead < ESCAPE_SYMBOLS:
        return 2 if FIRST_BLOCK <= symbol < FIRST_ESCAPE else 1
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _character(some: Sequence[int]) -> str | None:
    """The character that these symbols make: a block and an index, or escapes that are its UTF-8."""
    if some[0] < FIRST_ESCAPE:
        return symbol_table().character(some[0], some[1]) if len(some) == 2 else None
    try:
        return bytes(symbol - FIRST_ESCAPE for symbol in some).decode()
    except ValueError:  # no bytes, or no UTF-8
        return None


def decode_symbols(symbols: Iterable[int], errors: DecodeErrors = "replace") -> str:
    """The text behind symbols. A block and an index of it make a character; escapes make UTF-8.

    A symbol that makes neither becomes U+FFFD ("replace"), its name ("name"), or raises
    UndecodableSymbols ("strict"); reading goes on with the symbol after it.
    """
    listed = list(symbols)
    out: list[str] = []
    at = 0
    for character, used in read_characters(listed):
        if character is None:
            if errors == "strict":
                raise UndecodableSymbols(
                    f"symbol {at} of {len(listed)}, {listed[at]} {symbol_name(listed[at])}, does not begin a character"
                )
            character = "\ufffd" if errors == "replace" else symbol_name(listed[at])
        out.append(character)
        at += used
    return "".join(out)
