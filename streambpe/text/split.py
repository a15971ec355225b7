"""Find-all over single texts. No numpy, no Polars: this is also what a worker process loads.

find_chunks(regex.compile(r"\\w+"), "a b", keep_gaps=True)  ->  ["a", " ", "b"]
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count

import regex

from streambpe.errors import PatternError

# Above this many characters the matches of one text are streamed: a list of them would take about
# 60 bytes per chunk, ten times the text.
_STREAM_CHARS = 1 << 20


def iterate_chunks(compiled: regex.Pattern[str] | None, text: str, keep_gaps: bool) -> Iterator[str]:
    """The chunks of one text in order; without a pattern the text itself. Empty chunks are left out."""
    if compiled is None:
        if text:
            yield text
        return
    at = 0
    try:
        for match in compiled.finditer(text):
            start, end = match.span()
            if keep_gaps and start > at:
                yield text[at:start]
            if end > start:
                yield text[start:end]
            at = end
    except (MemoryError, RecursionError):
        raise _overflowed(compiled, text) from None
    if keep_gaps and at < len(text):
        yield text[at:]


def find_chunks(compiled: regex.Pattern[str] | None, text: str, keep_gaps: bool) -> list[str]:
    """`iterate_chunks` as a list; find-all, several times faster, where the pattern allows it."""
    if compiled is None or keep_gaps or compiled.groups:
        return list(iterate_chunks(compiled, text, keep_gaps))
    try:
        found: list[str] = compiled.findall(text)
    except (MemoryError, RecursionError):
        raise _overflowed(compiled, text) from None
    return [chunk for chunk in found if chunk] if "" in found else found


def _overflowed(compiled: regex.Pattern[str], text: str) -> PatternError:
    return PatternError(
        f"The pattern {compiled.pattern[:200]!r} runs out of memory on a text of {len(text):,} characters "
        f"({text[:20]!r}): it calls itself without end, or tries too many ways. Everything committed is "
        f"kept. Give another pattern."
    )


def split_texts(
    compiled: regex.Pattern[str] | None, texts: Iterable[str], keep_gaps: bool
) -> tuple[list[str], array[int], array[int]]:
    """Split many texts: (distinct chunks, the id of each chunk in order, chunks per text)."""
    ids: dict[str, int] = defaultdict(count().__next__)
    flat, lengths = array("i"), array("q")
    for text in texts:
        chunks: Iterable[str]
        if len(text) > _STREAM_CHARS:
            chunks = iterate_chunks(compiled, text, keep_gaps)
        else:
            chunks = find_chunks(compiled, text, keep_gaps)
        before = len(flat)
        flat.extend(map(ids.__getitem__, chunks))
        lengths.append(len(flat) - before)
    return list(ids), flat, lengths
