"""Text -> chunks, counted or numbered: in the compiled core for presets, by `regex` for a pattern of the user's own.

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
from collections import defaultdict
from collections.abc import Callable, Sequence, Set

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.arrays import expanded
from streambpe.core.binding import DIGITS, PRESETS, Bytes, ChunkTable, Split, categories
from streambpe.core.classes import INHERITED, OTHER, SPACE, TAKES_SPACE, Classes
from streambpe.core.strings import ChunkList, as_buffers, as_strings, merge
from streambpe.errors import PatternTooSlow
from streambpe.later import polars as pl
from streambpe.text.marks import DOCUMENT_END, SCRIPT_RUN_END
from streambpe.text.patterns import WITH_DIGITS, Pattern
from streambpe.text.script_blocks import character_groups
from streambpe.text.script_rules import TAKE_SPACE
from streambpe.text.script_runs import mark_script_runs
from streambpe.text.split import explained, find_chunks, split_texts
from streambpe.text.split_worker import SplitProcess
from streambpe.text.whitespace import SPACES

Ids = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]

END_OF_DOCUMENT = -1
_SAME = {"r50k": "gpt2"}  # other expressions that find the same chunks
_NUMBERED_BYTES = 1 << 40  # limit of a table of numbered chunks, which is no larger than they make it
_KNOWN_BYTES = 160  # of a chunk and its number in a dictionary, about
_MARKS = re.compile(b"[\xfd-\xff]")
_BETWEEN = (" a", "1", ",", "a", "\n", " ,", " ")  # stands between two pieces: the first that is cut off from both
_AT_ONCE = 4096  # pieces in one text
_PIECE_BYTES = 4  # of the table of pieces, for each byte of text: 2 was enough for English, not for many languages
_REPEATS = 1 << 16  # bytes: in so long a text, pieces come again and again


class Numbered(msgspec.Struct, frozen=True):
    """One buffer's chunks."""

    chunks: pl.Series  # distinct, in the order of their bytes
    ids: Ids  # the row in `chunks` of each, in order; END_OF_DOCUMENT where a document ends

    @property
    def n(self) -> Lengths:
        """How often each distinct chunk occurs."""
        return np.bincount(self.ids[self.ids >= 0], minlength=len(self.chunks)).astype(np.int64)


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
    number = PRESETS.index(name)
    if name == "script":
        return Split(number, _script_groups())
    if name == "whitespace":
        return Split(number, _white_space())
    special = -1
    if pattern.script_expression:
        runs = "spaceless gpt4o" if "/]*" in pattern.script_expression else "spaceless"
        special = PRESETS.index(runs)
    return Split(number, categories(), special, DIGITS.index(pattern.digits))


class Chunker:
    """Splits buffers by one pattern; used by one thread at a time. `close` it."""

    def __init__(self, pattern: Pattern, *, beside: bool = False) -> None:
        """`beside`: run a pattern of the user's own in a process beside this one, since `regex` holds the GIL."""
        self.pattern = pattern
        self.split = core_split(pattern)
        self._beside = beside
        self._process: SplitProcess | None = None

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def ready(self, text: bytes) -> bytes:
        """The buffer with its script runs marked, if the pattern asks for them."""
        return mark_script_runs(text) if self.pattern.script_expression and not text.isascii() else text

    def number(self, text: bytes) -> Numbered:
        """The distinct chunks of a buffer, and all of them in order."""
        texts = NumberedTexts(self)
        texts.add(text)
        chunks, (ids,) = texts.take()
        return Numbered(chunks, ids)

    def count_pieces(self, text: bytes) -> tuple[pl.Series, Lengths] | None:
        """The distinct chunks of a buffer and their counts, by a pattern of the user's own that is run on each distinct
        piece; None if it has no sure cuts, if too many pieces are distinct, or if one takes too long."""
        kinds, table = self._cuts, ChunkTable(_PIECE_BYTES * len(text))
        if kinds is None or table.count(text, Split(PRESETS.index("cuts"), kinds))[0] < len(text):
            return None
        offsets, data, n = table.take()
        try:
            found, flat, lengths = self._run_pieces(as_strings(offsets, data).to_list(), kinds)
        except PatternTooSlow:  # splitting whole documents will say which one it is
            return None
        return _counted(found, flat, np.repeat(n, lengths))

    def matched(self, text: bytes, *, by_pieces: bool = True) -> tuple[list[str], Ids]:
        """What `regex` finds in a buffer: (the distinct chunks, the place there of each in order; END_OF_DOCUMENT where
        a document ends). `by_pieces`: try as in count_pieces first, if the buffer is long."""
        text = self.ready(text)
        if by_pieces and len(text) >= _REPEATS and self._cuts is not None:
            with contextlib.suppress(PatternTooSlow, MemoryError):
                return self._matched_pieces(text, self._cuts)
        ends = [match.start() for match in _MARKS.finditer(text)]
        if not text or ends[-1:] != [len(text) - 1]:
            ends.append(len(text))
        kinds = [text[end] if end < len(text) else 0 for end in ends]
        texts = [text[a:b].decode() for a, b in zip([0, *(end + 1 for end in ends)], ends, strict=False)]
        try:
            found, flat, lengths = self._run(texts, {i for i, kind in enumerate(kinds) if kind == SCRIPT_RUN_END})
        except PatternTooSlow as why:
            why.document = kinds[: why.document].count(DOCUMENT_END)
            raise
        ended = np.array([kind == DOCUMENT_END for kind in kinds])
        behind = np.cumsum(lengths, dtype=np.int64)[ended]
        return found, np.insert(flat, behind, END_OF_DOCUMENT)

    @functools.cached_property
    def _cuts(self) -> Classes | None:
        """Where the user's own pattern surely cuts."""
        from streambpe.text.cuts import sure_cuts  # not above: presets do not need to know what expressions mean

        pattern = self.pattern
        return None if pattern.keep_gaps or pattern.script_expression else sure_cuts(pattern.expression)

    def _matched_pieces(self, text: bytes, kinds: Classes) -> tuple[list[str], Ids]:
        """As `matched`, by pieces."""
        table = ChunkTable(_PIECE_BYTES * len(text))
        rows = table.number(text, Split(PRESETS.index("cuts"), kinds))
        offsets, data, first = table.take()
        found, flat, lengths = self._run_pieces(as_strings(offsets, data).to_list(), kinds)
        places = np.append(np.argsort(first), END_OF_DOCUMENT)[rows]  # -1 among the rows means the last entry
        return found, expanded(np.append(flat, np.int32(END_OF_DOCUMENT)), np.append(lengths, 1), places)

    def _run_pieces(self, pieces: list[str], kinds: Classes) -> tuple[list[str], Ids, Lengths]:
        """As `_run`, on pieces between sure cuts. They are joined, since one text is split faster than many."""
        texts, sizes, piece = _joined(pieces, kinds)
        found, flat, _ = self._run(texts)
        chunk_sizes = np.fromiter(map(len, found), np.int64, len(found))[flat]
        if chunk_sizes.sum() != sizes.sum():  # there are gaps, so that nothing says where a chunk begins
            return self._run(pieces)
        of_chunk = piece[np.searchsorted(np.cumsum(sizes), np.cumsum(chunk_sizes))]
        order = np.argsort(of_chunk, kind="stable")[np.count_nonzero(of_chunk < 0) :]
        lengths = np.bincount(of_chunk[order], minlength=len(pieces))
        used = np.bincount(flat[order], minlength=len(found)) > 0  # others only stand between pieces
        row = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return list(itertools.compress(found, used.tolist())), row[flat[order]], lengths

    def _run(self, texts: Sequence[str], runs: Set[int] = frozenset()) -> tuple[list[str], Ids, Lengths]:
        pattern = self.pattern
        how = pattern.keep_gaps, pattern.document_seconds
        if not self._beside:
            found, flat, lengths = split_texts(pattern.compiled, pattern.script_compiled, *how, texts, runs)
        else:
            self._process = self._process or SplitProcess(pattern.compiled.pattern, pattern.script_expression, *how)
            found, flat, lengths = self._process.split(texts, runs)
        return found, np.asarray(flat, np.int32), np.asarray(lengths, np.int64)


def _counted(found: list[str], rows: Ids, times: Lengths | None = None) -> tuple[pl.Series, Lengths]:
    """Distinct chunks, and how often each of them stands in `rows`."""
    sums = np.bincount(rows, times, len(found))  # exact: below 2 ** 53
    return pl.Series("chunk", found, dtype=pl.String), sums.astype(np.int64)


def _joined(pieces: list[str], kinds: Classes) -> tuple[list[str], Lengths, Lengths]:
    """A few texts that hold all pieces, each between sure cuts: (texts, the length of each of their parts in order,
    which piece a part is: -1 for what stands between two)."""
    size = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = ("".join([piece[end] for piece in pieces]).encode("utf-32-le") for end in (0, -1))
    first, last = (kinds.table[np.frombuffer(code_points, np.uint32)] for code_points in ends)
    left, texts, parts = np.ones(len(pieces), bool), [], []
    for between in _BETWEEN:
        opens, closes = kinds.table[ord(between[0])] >> 8, kinds.table[ord(between[-1])] & 0xFF
        rows = np.flatnonzero(left & (last & opens != 0) & (first >> 8 & closes != 0))
        left[rows] = False
        for at in range(0, len(rows), _AT_ONCE):
            some = rows[at : at + _AT_ONCE]
            texts.append(between.join([pieces[row] for row in some.tolist()]))
            part = np.full((2 * len(some), 2), (len(between), -1), np.int64)
            part[::2] = np.column_stack([size[some], some])
            parts.append(part[:-1])
    rest = np.flatnonzero(left)
    sizes, piece = np.concatenate([*parts, np.column_stack([size[rest], rest])]).T
    return [*texts, *(pieces[row] for row in rest.tolist())], sizes, piece


def chunks_of(pattern: Pattern, text: str) -> list[str]:
    """The chunks of one whole document, in order: quick for a short text, slow for a long one."""
    if pattern.expression and not pattern.by_rules and (text.isascii() or not pattern.script_expression):
        seconds = pattern.document_seconds if pattern.name == "regex" else None
        with explained(pattern.compiled, text):
            return list(find_chunks(pattern.compiled, text, pattern.keep_gaps, seconds))
    chunker, table = Chunker(pattern), ChunkTable(_NUMBERED_BYTES)
    if chunker.split is None:
        found, places = chunker.matched(text.encode(), by_pieces=False)
        return [found[place] for place in places.tolist()]
    ids = table.number(chunker.ready(text.encode()), chunker.split)
    offsets, data, first = table.take()
    chunks, ends = data.tobytes(), offsets.tolist()
    by_number = {n: chunks[a:b].decode() for n, a, b in zip(first.tolist(), ends, ends[1:], strict=False)}
    return [by_number[number] for number in ids.tolist()]


class ChunkSums:
    """Distinct chunks and their counts; memory grows with the distinct ones only.

    The table takes at most `limit` bytes: when it is full it is taken out sorted, and another one is begun.
    """

    def __init__(self, limit: int) -> None:
        self._table = ChunkTable(limit)
        self._taken: list[ChunkList] = []
        self._taken_bytes = 0

    @property
    def held(self) -> int:
        """Bytes of memory, now."""
        return self._table.taken + self._taken_bytes

    def count(self, text: bytes, split: Split) -> None:
        """Count the chunks of a buffer."""
        self._fill(len(text), len(text), lambda at: self._table.count(text, split, at)[0])

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
        self._forget()

    def _forget(self) -> None:
        self._table = ChunkTable(_NUMBERED_BYTES)
        # in place of the table, for a pattern of the user's own; its own length as the next number would be a circle,
        # which keeps all chunks until the garbage collector comes by
        self._known: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self._ids: list[Ids] = []  # of each buffer, by first occurrence in any

    @property
    def held(self) -> int:
        """Bytes of memory, now."""
        return self._table.taken + _KNOWN_BYTES * len(self._known) + sum(ids.nbytes for ids in self._ids)

    def add(self, text: bytes) -> None:
        """Number one buffer's chunks."""
        split = self.chunker.split
        if split is not None:
            self._ids.append(self._table.number(self.chunker.ready(text), split).copy())
            return
        found, places = self.chunker.matched(text)
        number = np.array([*map(self._known.__getitem__, found), END_OF_DOCUMENT], np.int32)
        self._ids.append(number[places])

    def take(self) -> tuple[pl.Series, list[Ids]]:
        """(the distinct chunks in the order of their bytes, the rows of each buffer's); nothing is left afterwards."""
        if self.chunker.split is not None:
            offsets, data, first = self._table.take()
            chunks = as_strings(offsets, data)
        else:
            chunks = pl.Series("chunk", sorted(self._known), dtype=pl.String)
            first = np.array([self._known[chunk] for chunk in chunks.to_list()], np.int64)
        row = np.append(np.argsort(first), END_OF_DOCUMENT).astype(np.int32)  # -1 among the ids means the last entry
        ids = self._ids
        self._forget()
        for at in range(len(ids)):  # one after another, so that none is held twice for long
            ids[at] = row[ids[at]]
        return chunks, ids


class ChunkCounts(ChunkSums):
    """Distinct chunks of many buffers and their counts, in about `limit` bytes and those of the distinct chunks."""

    def __init__(self, chunker: Chunker, limit: int) -> None:
        super().__init__(limit)
        self.chunker = chunker

    def add(self, text: bytes) -> None:
        """Count one buffer's chunks."""
        split = self.chunker.split
        if split is not None:
            self.count(self.chunker.ready(text), split)
            return
        counted = self.chunker.count_pieces(text)
        if counted is None:
            found, places = self.chunker.matched(text, by_pieces=False)
            counted = _counted(found, places[places >= 0])
        self.add_counted(*as_buffers(counted[0]), counted[1])
