"""What happens to text before it is split: --unencodable and --normalize.

    drop_unencodable("a\\ue000b")  ->  "ab", 1       characters that the SCRIPT table does not hold
    nfc("A\\u030a")                ->  "Å"          NFC of Unicode 16.0.0, under any Python

In this order, as the SCRIPT papers' trainer has it. Both work on counting buffers (UTF-8, a mark behind
every document; text/marks.py), and no document touches another one's characters.

NFC is that of unicodedata2 16.0.0 (of Python 3.14, which has the same tables): characters that a later Unicode assigns
stay as they are, and nothing is composed across them.

A document is cut into blocks only between a letter or number that is `stable`, and white space or punctuation that
composes with nothing in front of it. NFC of the blocks is then NFC of the document.
"""

from __future__ import annotations

import contextlib
import itertools
import unicodedata
from typing import Literal

import numpy as np
import regex

from streambpe.errors import ModelError
from streambpe.text.script_blocks import UNICODE, Unencodable, character_groups
from streambpe.text.script_runs import decode_code_points

if unicodedata.unidata_version != UNICODE:
    with contextlib.suppress(ImportError):
        import unicodedata2 as unicodedata  # type: ignore[no-redef]

Normalize = Literal["none", "nfc"]
_TILE = 1 << 20


class UnencodableText(ValueError):
    """A character that the SCRIPT table does not hold, under --unencodable error."""


def prepare(text: bytes, normalize: Normalize, unencodable: Unencodable) -> tuple[bytes, int]:
    """A counting buffer made ready for splitting, and how many characters were dropped."""
    dropped = 0
    if text.isascii():
        return text, dropped
    if unencodable != "bytes":
        text, dropped = drop_unencodable(text, raise_first=unencodable == "error")
    if normalize == "nfc":
        refuse_other_tables(normalize)
        # a mark becomes a lone surrogate, which composes with nothing
        text = nfc(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return text, dropped


def refuse_other_tables(normalize: Normalize) -> None:
    """ModelError for nfc where the tables of its Unicode are missing: some machines have no wheel of unicodedata2."""
    if normalize == "nfc" and unicodedata.unidata_version != UNICODE:
        raise ModelError(
            f"--normalize nfc is that of Unicode {UNICODE}, which this Python lacks. Nothing was changed. `pip install "
            f"unicodedata2=={UNICODE}` brings it; where that has no wheel, it needs a C compiler, or use Python 3.14."
        )


def drop_unencodable(text: bytes, raise_first: bool = False) -> tuple[bytes, int]:
    """A buffer without the characters outside the table, and how many there were."""
    _, group_of = character_groups()
    data, low, dropped, parts = np.frombuffer(text, np.uint8), 0, 0, []
    while low < len(data):
        high = low + _TILE
        while high < len(data) and data[high] & 0xC0 == 0x80:  # not within a character
            high += 1
        tile = data[low:high]
        at, code = decode_code_points(tile)
        outside = group_of[code] == 0
        if outside.any():
            if raise_first:
                first, why = int(code[outside.argmax()]), f"unassigned in Unicode {UNICODE}, or private use"
                raise UnencodableText(f"U+{first:04X} is not in the SCRIPT table ({why})")
            dropped += int(outside.sum())
            tile = tile[np.repeat(~outside, np.diff(at, append=len(tile)))]
        parts.append(tile)
        low = high
    return (np.concatenate(parts).tobytes() if dropped else text), dropped


# Marks in a row, of which sorting takes time that grows with the square of their number: they are sorted here.
_MANY_MARKS = regex.compile(r"\p{M}{1024,}")


def nfc(text: str) -> str:
    """NFC as of Unicode 16.0.0; characters outside its table are left alone and separate what is around them."""
    return str(unicodedata.normalize("NFC", _MANY_MARKS.sub(_sorted_marks, text)))


def _sorted_marks(found: regex.Match[str]) -> str:
    """Marks decomposed, and those between two of class 0 in the order of their classes."""
    marks = [part for mark in found[0] for part in unicodedata.normalize("NFD", mark)]
    between = itertools.groupby(marks, lambda mark: unicodedata.combining(mark) == 0)
    return "".join(mark for _, some in between for mark in sorted(some, key=unicodedata.combining))


def is_stable(character: str) -> bool:
    """Whether neither --unencodable nor --normalize changes a letter or a number, whatever stands around it."""
    _, group_of = character_groups()
    return character.isascii() or bool(group_of[ord(character)] and nfc(character) == character)
