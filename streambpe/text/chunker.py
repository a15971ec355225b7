"""Text -> chunks, counted or numbered in the compiled core; a pattern that it cannot split by is cut by `regex` before.

A counting buffer holds documents, each ended by a mark (`marks`), or one stretch of a document:

    b"the cat\\xffthe dog\\xff"   counted    "the" 2, " cat" 1, " dog" 1
                                 numbered   [" cat", " dog", "the"] and 2 0 -1 2 1 -1   (-1 ends a document)

Tests compare both ways with the definition of every split (tests/oracles/splits.py) on hostile text.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from streambpe.core.binding import DIGITS, PRESETS, Bytes, ChunkTable, Split, categories
from streambpe.core.classes import INHERITED, OTHER, SPACE, TAKES_SPACE, Classes
from streambpe.core.strings import ChunkList, as_strings, merge
from streambpe.later import polars as pl
from streambpe.text.marks import DOCUMENT_END, END_MARK, SCRIPT_RUN_END
from streambpe.text.patterns import WITH_DIGITS, Pattern
from streambpe.text.script_blocks import character_groups
from streambpe.text.script_rules import TAKE_SPACE
from streambpe.text.script_runs import mark_script_runs
from streambpe.text.split import alarm, explained, find_chunks
from streambpe.text.whitespace import SPACES

Ids = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]

END_OF_DOCUMENT = -1
_SAME = {"r50k": "gpt2"}  # other expressions that find the same chunks
_NUMBERED_BYTES = 1 << 40  # limit of a table of numbered chunks, which is no larger than they make it
_AT_ONCE = 10_000  # chunks that `regex` finds, in a list
_MARKS = re.compile(b"[\xfd-\xff]")
_STEPS_A_SECOND = 100_000_000  # of a program: what a slow processor does


@functools.cache
def _script_groups() -> Classes:
    """For the rules of --pattern script: the group of every code point, Han and Hiragana taken together."""
    names, group_of = character_groups()
    entries = np.arange(1, len(names) + 1, dtype=np.uint16)  # 0 is for what is no character
    for number, (script, supercategory) in enumerate(names):
        if script == "Hiragana" and ("Han", supercategory) in names:
            entries[number] = entries[names.index(("Han", supercategory))]
        elif script == "Inherited":
            entries[number] |= INHERITED
        elif (script, supercategory) in TAKE_SPACE:
            entries[number] |= TAKES_SPACE
    return Classes(entries[group_of])


@functools.cache
def _white_space() -> Classes:
    """For --pattern whitespace."""
    table = np.full(0x110000, OTHER, np.uint16)
    table[[ord(character) for character in SPACES]] = SPACE
    return Classes(table)


def core_split(pattern: Pattern) -> Split | None:
    """How the core splits by a pattern; None if it is the user's own."""
    name = pattern.name.partition(WITH_DIGITS)[0]
    name = _SAME.get(name, name)
    if name not in PRESETS:
        return None
    classes = {"script": _script_groups, "whitespace": _white_space}.get(name, categories)()
    runs = pattern.script_expression and ("spaceless gpt4o" if "/]*" in pattern.script_expression else "spaceless")
    special = PRESETS.index(runs) if runs else -1
    return Split(PRESETS.index(name), classes, special, DIGITS.index(pattern.digits))


def own_split(pattern: Pattern) -> Split | None:
    """How the core splits by an expression of the user's own; None if it cannot."""
    own = pattern.program
    if own is None:
        return None
    steps = int(pattern.document_seconds * _STEPS_A_SECOND)
    return Split(PRESETS.index("own"), own, program=own.steps, sets=own.sets, steps=steps, gaps=pattern.keep_gaps)


@functools.cache
def whole_documents() -> Split:
    """For what is cut already: a document for each chunk."""
    return Split(PRESETS.index("none"), categories())


class Chunker:
    """Splits buffers by one pattern; used by one thread at a time."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.preset = core_split(pattern)
        self.own = None if self.preset else own_split(pattern)
        self.by_regex = self.preset is None and self.own is None
        self.split = self.preset or self.own or whole_documents()

    def ready(self, text: bytes) -> bytes:
        """The buffer as the core is to split it: with its script runs marked, if the pattern asks for them; or cut."""
        marked = mark_script_runs(text) if self.pattern.script_expression and not text.isascii() else text
        return self._cut(marked) if self.by_regex else marked

    def rows(self, text: bytes) -> tuple[Lengths, Bytes, Ids]:
        """The distinct chunks of a buffer in the order of their bytes (offsets, bytes), and the row there of each in
        order; END_OF_DOCUMENT where a document ends."""
        table = ChunkTable(_NUMBERED_BYTES)
        ids = self.numbers(text, table)
        offsets, data, first = table.take()
        return offsets, data, _row_of(first)[ids]

    def numbers(self, text: bytes, table: ChunkTable) -> Ids:
        """The number in a table of each chunk of a buffer, in order; END_OF_DOCUMENT where a document ends."""
        with self._timed(text):
            ids = table.number(self.ready(text), self.split)
        return ids[np.roll(ids, 1) < 0] if self.by_regex else ids  # without the ends of chunks

    def counted(self, text: bytes) -> tuple[Lengths, Bytes, Lengths]:
        """The distinct chunks of a buffer, and how often each occurs."""
        table = ChunkTable(_NUMBERED_BYTES)
        with self._timed(text):
            table.count(self.ready(text), self.split)
        return table.take()

    @contextlib.contextmanager
    def _timed(self, text: bytes) -> Iterator[None]:
        """What the core gives up in a buffer becomes an error that names the document."""
        try:
            yield
        except TimeoutError as why:
            at = why.args[0]
            start, stop = text.rfind(END_MARK, 0, at) + 1, text.find(END_MARK, at)
            document = text[start : stop if stop >= 0 else len(text)].decode()
            with explained(self.pattern.compiled, document, text.count(END_MARK, 0, at)):
                raise

    def _cut(self, text: bytes) -> bytes:
        """A buffer with the mark of a document's end behind every chunk that `regex` finds: two, where one ends."""
        cut, start, document = bytearray(), 0, 0
        for end, mark in [*((match.start(), match[0][0]) for match in _MARKS.finditer(text)), (len(text), 0)]:
            part = text[start:end].decode()
            by = (mark == SCRIPT_RUN_END and self.pattern.script_compiled) or self.pattern.compiled
            with explained(by, part, document), alarm.limiting(self.pattern.document_seconds) as seconds:
                chunks = iter(find_chunks(by, part, self.pattern.keep_gaps, seconds))
                while some := list(itertools.islice(chunks, _AT_ONCE)):
                    # a lone surrogate becomes the byte of the mark
                    cut += "\udcff".join([*some, ""]).encode("utf-8", "surrogateescape")
            if mark == DOCUMENT_END:
                cut += END_MARK
                document += 1
            start = end + 1
        return bytes(cut)


def _row_of(first: Lengths) -> Ids:
    """The row of each number, where these numbers stand in the rows; -1, which ends a document, is the last entry."""
    return np.append(np.argsort(first), END_OF_DOCUMENT).astype(np.int32)


def chunks_of(pattern: Pattern, text: str) -> list[str]:
    """The chunks of one whole document, in order: quick for a short text, slow for a long one."""
    if pattern.expression and not pattern.by_rules and (text.isascii() or not pattern.script_expression):
        seconds = pattern.document_seconds if pattern.name == "regex" else None
        with explained(pattern.compiled, text):
            return list(find_chunks(pattern.compiled, text, pattern.keep_gaps, seconds))
    offsets, data, rows = Chunker(pattern).rows(text.encode())
    chunks = as_strings(offsets, data).to_list()
    return [chunks[row] for row in rows.tolist()]


class ChunkCounts:
    """Distinct chunks of many buffers and their counts; memory grows with the distinct ones only.

    The table takes at most `limit` bytes: when it is full it is taken out sorted, and another one is begun. Without a
    chunker, chunks are added that are counted.
    """

    def __init__(self, chunker: Chunker | None, limit: int) -> None:
        self.chunker = chunker
        self._table = ChunkTable(limit)
        self._taken: list[ChunkList] = []
        self._taken_bytes = 0

    @property
    def held(self) -> int:
        """Bytes of memory, now."""
        return self._table.taken + self._taken_bytes

    def add(self, text: bytes) -> None:
        """Count one buffer's chunks; nothing stays of one that is given up."""
        assert self.chunker is not None
        if self.chunker.own:
            self.add_counted(*self.chunker.counted(text))
        else:
            ready, split = self.chunker.ready(text), self.chunker.split
            self._fill(len(ready), len(ready), lambda at: self._table.count(ready, split, at)[0])

    def add_counted(self, offsets: Lengths, data: Bytes, n: Lengths) -> None:
        """Add chunks that are counted."""
        self._fill(len(n), len(data), lambda at: self._table.add(offsets, data, n, at))

    def _fill(self, stop: int, size: int, put: Callable[[int], int]) -> None:
        """Put all up to a place into the table, which is taken out when it is full; `put` says how far it came."""
        at = 0
        while at < stop:
            at = put(at)
            if at < stop:
                self._make_room(size)

    def _make_room(self, size: int) -> None:
        """Take the full table out. An empty table that is too small for a chunk gets a limit that holds any of them."""
        taken = ChunkList(*self._table.take())
        if not len(taken):
            self._table = ChunkTable(self._table.limit + 4 * size)
            return
        self._taken.append(taken)
        self._taken_bytes += taken.text_bytes + 16 * len(taken)

    def take(self) -> ChunkList:
        """All chunks and their counts; nothing is left afterwards."""
        taken, self._taken, self._taken_bytes = [*self._taken, ChunkList(*self._table.take())], [], 0
        return taken[0] if len(taken) == 1 else merge(taken)


class NumberedTexts:
    """The chunks of many buffers by one numbering: the ids of each buffer, and the distinct chunks of all."""

    def __init__(self, chunker: Chunker) -> None:
        self.chunker = chunker
        self._table = ChunkTable(_NUMBERED_BYTES)
        self._ids: list[Ids] = []  # of each buffer, by first occurrence in any

    @property
    def held(self) -> int:
        """Bytes of memory, now."""
        return self._table.taken + sum(ids.nbytes for ids in self._ids)

    def add(self, text: bytes) -> None:
        """Number one buffer's chunks; nothing stays of one that is given up."""
        if self.chunker.own:
            offsets, data, rows = self.chunker.rows(text)
            each = np.insert(data, offsets[1:], DOCUMENT_END).tobytes()
            known = self._table.number(each, whole_documents())[::2]
            self._ids.append(np.append(known, np.int32(END_OF_DOCUMENT))[rows])
        else:
            self._ids.append(self.chunker.numbers(text, self._table).copy())

    def take(self) -> tuple[pl.Series, list[Ids]]:
        """(the distinct chunks in the order of their bytes, the rows of each buffer's); nothing is left afterwards."""
        offsets, data, first = self._table.take()
        row, ids, self._ids = _row_of(first), self._ids, []
        for at in range(len(ids)):  # one after another, so that none is held twice for long
            ids[at] = row[ids[at]]
        return as_strings(offsets, data), ids
