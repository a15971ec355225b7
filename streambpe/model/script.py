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
    table = symbol_table()
    size = len(symbols)
    at = 0
    while at < size:
        character: str | None
        if FIRST_ESCAPE <= symbols[at] < FIRST_ESCAPE + ESCAPE_SYMBOLS:
            character, used = _escaped(symbols, at)
            wanted = _escapes_wanted(symbols[at])
            open_end = at + wanted > size and all(s >= FIRST_ESCAPE for s in symbols[at:])
        else:
            character, used = table.character(symbols[at], symbols[at + 1] if at + 1 < size else 0), 2
            open_end = at + 1 == size and FIRST_BLOCK <= symbols[at] < FIRST_ESCAPE
        if character is None:
            if open_end and not ends:
                return
            used = 1
        yield character, used
        at += used


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


def _escapes_wanted(symbol: int) -> int:
    """How many escapes make the character whose first byte is this one."""
    lead = symbol - FIRST_ESCAPE
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _escaped(listed: Sequence[int], at: int) -> tuple[str | None, int]:
    """The character whose UTF-8 bytes stand as escapes from `at` on, and how many they are."""
    size = _escapes_wanted(listed[at])
    values = [symbol - FIRST_ESCAPE for symbol in listed[at : at + size]]
    if all(0 <= value < ESCAPE_SYMBOLS for value in values):
        try:
            return bytes(values).decode(), size
        except UnicodeDecodeError:
            pass
    return None, 1
