"""Script-aware splitting: cut a text where its script changes, then run a pattern on each run.

Scripts written without spaces (Han, Hiragana, Katakana, Thai, Myanmar, Khmer, Lao) get a pattern of
their own. Common characters (spaces, digits, punctuation) go with the run that *follows*, combining
marks with the run before:

    "abc 中文 x"  ->  ("abc", False) (" 中文", True) (" x", False)

The script of a character is that of Unicode 17.0.0 (data/scripts-17.0.0.txt).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from streambpe.text.marks import DOCUMENT_END, END_MARK, RUN_END, SCRIPT_RUN_END
from streambpe.text.script_blocks import read_table

TABLE = "scripts-17.0.0"
SPACELESS = ("Han", "Hiragana", "Katakana", "Thai", "Myanmar", "Khmer", "Lao")
# codes of the three that do not start a run; real scripts come after them
COMMON, UNKNOWN, INHERITED, FIRST_REAL = 0, 1, 2, 3


@functools.cache
def script_table() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """(script code of every code point, whether a code is of a script without spaces); 1.1 MB, kept."""
    codes = {"Common": COMMON, "Unknown": UNKNOWN, "Inherited": INHERITED}
    table = read_table(TABLE, lambda name: codes.setdefault(name, len(codes))).astype(np.uint8)
    spaceless = np.zeros(256, np.bool_)
    spaceless[[codes[name] for name in SPACELESS]] = True
    return table, spaceless


def decode_code_points(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """(byte position, code point) of every character of UTF-8; the mark of a document's end is a NUL."""
    text = data.tobytes().replace(END_MARK, b"\0").decode()
    return np.flatnonzero((data & 0xC0) != 0x80), np.frombuffer(text.encode("utf-32-le"), "<i4")


def mark_script_runs(text: bytes) -> bytes:
    """A counting buffer with a mark behind every script run; documents in it end with DOCUMENT_END. It takes about 60
    bytes of memory per character.

        text    a b _ 日 本 END      characters 0 to 5, of bytes 0 1 2 3 6 9; the space belongs to no script
        real    0 1 3 4             a new script begins at 3; the anchor before it is 1, so a mark goes before byte 2
        lasts   4                   the document's last run is spaceless: a mark goes before its END, byte 9
        marked  a b | _ 日 本 | END  marks at bytes 2 and 10
    """
    data = np.frombuffer(text, np.uint8)
    table, spaceless = script_table()
    at, code = decode_code_points(data)
    is_end = data[at] == DOCUMENT_END
    script = table[code]
    document = np.cumsum(is_end) - is_end
    # characters that can end or start a run: real scripts; inherited ones stretch a run
    anchors = np.flatnonzero((script >= INHERITED) | is_end)
    real = np.flatnonzero(script >= FIRST_REAL)
    if not len(real):
        return text
    same_document = document[real[1:]] == document[real[:-1]]
    changes = np.flatnonzero((script[real[1:]] != script[real[:-1]]) & same_document)
    starters = real[1:][changes]  # the characters at which a new script begins
    before = anchors[np.searchsorted(anchors, starters) - 1]  # last character of the run before
    borders = np.append(at, len(data))[before + 1]
    marks = np.where(spaceless[script[real[:-1][changes]]], SCRIPT_RUN_END, RUN_END)
    # a document's last run, if spaceless, is marked too
    lasts = np.append(np.flatnonzero(~same_document), len(real) - 1)
    lasts = lasts[spaceless[script[real[lasts]]]]
    ends = np.flatnonzero(is_end)
    last_borders = np.append(at[ends], len(data))[np.searchsorted(ends, real[lasts])]
    inserts = np.append(borders, last_borders), np.append(marks, np.full(len(lasts), SCRIPT_RUN_END))
    return np.insert(data, *inserts).tobytes()
