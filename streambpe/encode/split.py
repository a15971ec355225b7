"""Find-all over single texts. No numpy, no Polars: this is also what a worker process loads.

find_chunks(regex.compile(r"\\w+"), "a b", keep_gaps=True)  ->  ["a", " ", "b"]
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeAlias

import regex

# Above this many characters the matches of one text are streamed: a list of them would take about
# 60 bytes a chunk, ten times the text.
_STREAM_CHARS = 1 << 20

Compiled: TypeAlias = regex.Pattern[str] | re.Pattern[str]


def iterate_chunks(compiled: Compiled | None, text: str, keep_gaps: bool) -> Iterator[str]:
    """The chunks of one text in order; without a pattern the text itself. Empty chunks are left out."""
    if compiled is None:
        if text:
            yield text
        return
    at = 0
    for match in compiled.finditer(text):
        start, end = match.span()
        if keep_gaps and start > at:
            yield text[at:start]
        if end > start:
            yield text[start:end]
        at = end
    if keep_gaps and at < len(text):
        yield text[at:]


def find_chunks(compiled: Compiled | None, text: str, keep_gaps: bool) -> list[str]:
    """`iterate_chunks` as a list; find-all, several times faster, where the pattern allows it."""
    if compiled is None or keep_gaps or compiled.groups:
        return list(iterate_chunks(compiled, text, keep_gaps))
    found: list[str] = compiled.findall(text)
    return [chunk for chunk in found if chunk] if "" in found else found


def engine_for(text: str, compiled: Compiled | None, for_ascii: Compiled | None) -> Compiled | None:
    """Of an expression's two forms, the one to split this text with."""
    return for_ascii if for_ascii is not None and text.isascii() else compiled


def split_texts(
    compiled: Compiled | None, texts: Iterable[str], keep_gaps: bool, for_ascii: Compiled | None = None
) -> tuple[list[str], array[int], array[int]]:
    """Split many texts: (distinct chunks, the id of each chunk in order, chunks per text).

    `for_ascii`: the same expression for texts of ASCII (encode/ascii.py), if it has one.
    """
    ids: dict[str, int] = defaultdict(count().__next__)
    flat, lengths = array("i"), array("q")
    for text in texts:
        chunks: Iterable[str]
        if len(text) > _STREAM_CHARS:
            chunks = iterate_chunks(engine_for(text, compiled, for_ascii), text, keep_gaps)
        else:
            chunks = find_chunks(engine_for(text, compiled, for_ascii), text, keep_gaps)
        before = len(flat)
        flat.extend(map(ids.__getitem__, chunks))
        lengths.append(len(flat) - before)
    return list(ids), flat, lengths
