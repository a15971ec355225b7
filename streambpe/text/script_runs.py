"""Script-aware splitting: cut a text where its script changes, then run a pattern on each run.

Scripts written without spaces (Han, Hiragana, Katakana, Thai, Myanmar, Khmer, Lao) get a pattern of
their own. Common characters (spaces, digits, punctuation) go with the run that *follows*, combining
marks with the run before:

    "abc 中文 x"  ->  ("abc", False) (" 中文", True) (" x", False)

The script of a character is that of Unicode 17.0.0 (data/scripts-17.0.0.txt).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources

import numpy as np
import numpy.typing as npt

from streambpe.text.marks import DOCUMENT_END, RUN_END, SCRIPT_RUN_END

TABLE = "scripts-17.0.0"
SPACELESS = ("Han", "Hiragana", "Katakana", "Thai", "Myanmar", "Khmer", "Lao")
# codes of the three that do not start a run; real scripts come after them
_COMMON, _UNKNOWN, _INHERITED, _FIRST_REAL = 0, 1, 2, 3


@functools.cache
def script_table() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """(script code of every code point, whether a code is of a script without spaces); 1.1 MB, kept."""
    text = resources.files("streambpe.text").joinpath(f"data/{TABLE}.txt").read_text(encoding="utf-8")
    codes = {"Common": _COMMON, "Unknown": _UNKNOWN, "Inherited": _INHERITED}
    starts, values = [], []
    for line in text.splitlines():
        start, name = line.split(" ", 1)
        starts.append(int(start, 16))
        values.append(codes.setdefault(name, len(codes)))
    table = np.repeat(np.array(values, np.uint8), np.diff([*starts, 0x110000]))
    spaceless = np.zeros(256, np.bool_)
    spaceless[[codes[name] for name in SPACELESS]] = True
    return table, spaceless


def split_script_runs(text: str) -> Iterator[tuple[str, bool]]:
    """The script runs of one text and whether each is of a script without spaces. This is the definition, and slow."""
    table, spaceless = script_table()
    run_start, current, last = 0, -1, -1
    for i, character in enumerate(text):
        script = int(table[ord(character)])
        if script == current:
            last = i
        elif script == _INHERITED:
            current = script if current < 0 else current
            last = i
        elif script < _INHERITED:
            current = _COMMON if current < 0 else current
        else:
            if current >= _FIRST_REAL:
                yield text[run_start : last + 1], bool(spaceless[current])
                run_start = last + 1
            current, last = script, i
    if text:
        yield text[run_start:], current >= 0 and bool(spaceless[current])


def decode_code_points(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """(byte position, code point) of every character of valid UTF-8; a mark byte decodes to itself."""
    at = np.flatnonzero((data & 0xC0) != 0x80)
    padded = np.concatenate([data, np.zeros(3, np.uint8)])
    first = data[at].astype(np.int32)
    code = first.copy()
    two = np.flatnonzero((first >= 0xC0) & (first < 0xE0))
    three = np.flatnonzero((first >= 0xE0) & (first < 0xF0))
    four = np.flatnonzero((first >= 0xF0) & (first < 0xF8))
    for where, lead, extra in ((two, 31, 1), (three, 15, 2), (four, 7, 3)):
        value = first[where] & lead
        for k in range(1, extra + 1):
            value = value << 6 | (padded[at[where] + k] & 63)
        code[where] = value
    return at, code


def mark_script_runs(text: bytes) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Put a mark behind every script run of a counting buffer; documents in it end with DOCUMENT_END.

    Returns the marked buffer and the [start, end) of each spaceless run in it, its mark included, in
    one flat sorted array. It takes about 60 bytes of memory per character.

        text    a b _ 日 本 END      characters 0 to 5, of bytes 0 1 2 3 6 9; the space belongs to no script
        real    0 1 3 4             a new script begins at 3; the anchor before it is 1, so a mark goes before byte 2
        lasts   4                   the document's last run is spaceless: a mark goes before its END, byte 9
        marked  a b | _ 日 本 | END  marks at bytes 2 and 10; the spaceless run is [3, 11), its mark included
    """
    data = np.frombuffer(text, np.uint8)
    table, spaceless = script_table()
    at, code = decode_code_points(data)
    is_end = data[at] == DOCUMENT_END
    script = table[np.where(is_end, 0, code)]
    document = np.cumsum(is_end) - is_end
    # characters that can end or start a run: real scripts; inherited ones stretch a run
    anchors = np.flatnonzero((script >= _INHERITED) | is_end)
    real = np.flatnonzero(script >= _FIRST_REAL)
    inserts: list[npt.NDArray[np.int64]] = []
    marks: list[npt.NDArray[np.uint8]] = []
    if len(real):
        same_document = document[real[1:]] == document[real[:-1]]
        changes = np.flatnonzero((script[real[1:]] != script[real[:-1]]) & same_document)
        starters = real[1:][changes]  # the characters at which a new script begins
        before = anchors[np.searchsorted(anchors, starters) - 1]  # last character of the run before
        inserts.append(np.append(at, len(data))[before + 1])
        marks.append(np.where(spaceless[script[real[:-1][changes]]], SCRIPT_RUN_END, RUN_END).astype(np.uint8))
        # a document's last run, if spaceless, is marked too
        lasts = np.append(np.flatnonzero(~same_document), len(real) - 1)
        lasts = lasts[spaceless[script[real[lasts]]]]
        ends = np.flatnonzero(is_end)
        which = np.searchsorted(ends, real[lasts])
        inserts.append(np.append(at[ends], len(data))[which])
        marks.append(np.full(len(lasts), SCRIPT_RUN_END, np.uint8))
    if not inserts:
        return text, np.zeros(0, np.int64)
    where = np.concatenate(inserts)
    order = np.argsort(where, kind="stable")
    where, mark = where[order], np.concatenate(marks)[order]
    marked = np.insert(data, where, mark)
    places = where + np.arange(len(where))  # of the marks, in the new buffer
    stops = np.union1d(places, np.flatnonzero(marked == DOCUMENT_END))
    run_ends = places[mark == SCRIPT_RUN_END]
    previous = np.searchsorted(stops, run_ends) - 1
    run_starts = np.where(previous >= 0, stops[np.maximum(previous, 0)] + 1, 0)
    return marked.tobytes(), np.stack([run_starts, run_ends + 1], 1).ravel()
