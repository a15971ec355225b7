"""Bytes -> pieces -> distinct pieces -> chunks, with array work instead of a match per chunk.

A counting buffer holds documents, each ended by a mark (`marks`), or one stretch of a document:

    b"the cat\\xffthe dog\\xff"  --cut-->       the| cat|\\xff|the| dog|\\xff
                                --distinct-->  "the" 2, " cat" 1, " dog" 1, end of document 2
                                --split-->     chunks and their counts

Pieces of up to 7 bytes (four in five of English ones) become 64-bit keys, the length in the top byte,
and are counted by a sort (10 ns a piece); longer ones by a group-by over views of the buffer. Only
distinct pieces are ever matched against the pattern.

Cost: about 22 ns a byte on one core for English text; memory about 16 bytes a byte of the buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from streambpe.encode.marks import DOCUMENT_END, RUN_END, SCRIPT_RUN_END
from streambpe.encode.patterns import Pattern
from streambpe.encode.ragged import Ids, Lengths, ranges
from streambpe.encode.reduced import reduced_alphabet
from streambpe.encode.scripts import decode_code_points, mark_script_runs
from streambpe.encode.split import split_texts
from streambpe.encode.words import SPACES

Offsets = npt.NDArray[np.int32]
_SHORT = 7  # bytes that fit a 64-bit key beside the length
_KEY_MASK = np.array([(1 << 8 * k) - 1 for k in range(8)], np.uint64)
_LENGTH_SHIFT = np.uint64(56)
_SPACE_FIRST = "^[" + "".join(f"\\x{{{ord(c):X}}}" for c in SPACES) + "]"
_SLICE_BYTES = 4 << 20  # of pieces that are split together: about 30 bytes of memory for each
GIANT_BYTES = 1 << 20  # a piece above this is handled alone: arrays for it would take 20 times its size


class TextSplitter(Protocol):
    """Runs the pattern on texts: `split_texts` in this process, or `SplitProcess` beside it."""

    def split(self, texts: Sequence[str], script_runs: bool) -> tuple[list[str], Sequence[int], Sequence[int]]:
        """(distinct chunks, ids in order, chunks per text)."""


class InlineSplitter:
    """A `TextSplitter` in this process; it holds the GIL while it works."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern

    def split(self, texts: Sequence[str], script_runs: bool) -> tuple[list[str], Sequence[int], Sequence[int]]:
        """As `split_texts`."""
        pattern = self.pattern
        if script_runs:
            return split_texts(pattern.script_compiled, texts, pattern.keep_gaps)
        return split_texts(pattern.compiled, texts, pattern.keep_gaps, pattern.for_ascii)


@dataclass(frozen=True)
class Pieces:
    """A buffer and the offsets of its pieces; piece i is data[offsets[i]:offsets[i + 1]]."""

    data: bytes
    offsets: Offsets

    def stretches(self, size: int) -> Iterator[Pieces | bytes]:
        """The same pieces in stretches of about `size` bytes; a giant alone, as its bytes."""
        offsets = self.offsets
        if offsets[-1] <= size:
            yield self
            return
        giants = np.flatnonzero(np.diff(offsets) > GIANT_BYTES)
        first = 0
        for stop in [*giants.tolist(), len(offsets) - 1]:
            while first < stop:
                last = int(np.searchsorted(offsets, offsets[first] + size, "right")) - 1
                last = min(max(last, first + 1), stop)
                yield Pieces(self.data[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first])
                first = last
            if stop < len(offsets) - 1:
                yield self.data[offsets[stop] : offsets[stop + 1]]
                first = stop + 1

    def _keys(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(keys of the short pieces, their indices, the indices of the long ones)."""
        lengths = np.diff(self.offsets)
        is_short = lengths <= _SHORT
        short, long = np.flatnonzero(is_short), np.flatnonzero(~is_short)
        padded = np.frombuffer(self.data + b"\0" * 8, np.uint8)
        words: npt.NDArray[np.uint64] = np.ndarray((len(self.data) + 1,), "<u8", padded.data, 0, (1,))
        length = lengths[short]
        keys = words[self.offsets[short]]
        keys &= _KEY_MASK[length]
        keys |= length.astype(np.uint64) << _LENGTH_SHIFT
        return keys, short, long

    def _long(self, indices: npt.NDArray[np.int64]) -> pa.BinaryArray:
        whole = pa.BinaryArray.from_buffers(
            pa.binary(), len(self.offsets) - 1, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        )
        return whole.take(pa.array(indices))

    def count(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Distinct pieces and how often each occurs: (key, n) of the short, (piece, n) of the long."""
        keys, _, long = self._keys()
        keys.sort()
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else keys.astype(np.int64)
        n = np.diff(np.append(first, len(keys)))
        short = pl.DataFrame({"key": keys[first], "n": n.astype(np.int64)})
        pieces = pl.Series("piece", pl.from_arrow(self._long(long)), dtype=pl.Binary)
        return short, pieces.to_frame().group_by("piece").agg(pl.len().cast(pl.Int64).alias("n"))

    def encode(self) -> tuple[pl.Series, npt.NDArray[np.int32]]:
        """(distinct pieces, the index among them of every piece in order)."""
        keys, short, long = self._keys()
        coded_keys = pa.array(keys).dictionary_encode()
        coded_long = self._long(long).dictionary_encode()
        distinct_short = pieces_from_keys(coded_keys.dictionary.to_numpy())
        codes = np.empty(len(self.offsets) - 1, np.int32)
        codes[short] = coded_keys.indices.to_numpy()
        codes[long] = coded_long.indices.to_numpy() + len(distinct_short)
        distinct_long = pl.Series("piece", pl.from_arrow(coded_long.dictionary), dtype=pl.Binary)
        return pl.concat([distinct_short, distinct_long]), codes


def cut_pieces(text: bytes, pattern: Pattern) -> Pieces:
    """Cut a counting buffer at the certain borders of the pattern."""
    ends = text.find(DOCUMENT_END, 0, len(text) - 1) >= 0
    if not pattern.script_expression:
        return Pieces(text, pattern.rules.cut(text, ends))
    text, spaceless = mark_script_runs(text)
    offsets = pattern.rules.cut(text, True)
    if len(spaceless):
        # nothing is cut inside a run for the script-specific pattern: odd slots lie inside one
        slot_left = np.searchsorted(spaceless, offsets, side="left")
        slot_right = np.searchsorted(spaceless, offsets, side="right")
        offsets = offsets[(slot_left % 2 == 0) | (slot_right != slot_left)]
    return Pieces(text, offsets)


def pieces_from_keys(keys: npt.NDArray[np.uint64]) -> pl.Series:
    """The bytes of short pieces, from their keys."""
    rows = np.ascontiguousarray(keys).astype("<u8").view(np.uint8).reshape(-1, 8)
    lengths = rows[:, 7].astype(np.int32)
    data = rows[:, :7][np.arange(_SHORT) < lengths[:, None]]
    offsets = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    made = pa.BinaryArray.from_buffers(pa.binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pl.Series("piece", pl.from_arrow(made), dtype=pl.Binary)


class PieceCounts:
    """Distinct pieces of many buffers and their counts; memory grows with the distinct ones only."""

    def __init__(self) -> None:
        self._short: list[pl.DataFrame] = []
        self._long: list[pl.DataFrame] = []
        self.giants: Counter[bytes] = Counter()
        self.bytes = 0  # held now, an estimate

    def add(self, pieces: Pieces | bytes) -> None:
        """Count one buffer's pieces, or a giant; folds now and then, so that what repeats is held once or twice."""
        if isinstance(pieces, bytes):
            self.giants[pieces] += 1
            self.bytes += len(pieces)
            return
        short, long = pieces.count()
        self._short.append(short)
        self._long.append(long)
        if len(self._short) > 1 and sum(f.height for f in self._short[1:]) > self._short[0].height:
            self._fold()
        self.bytes = sum(f.height * 16 for f in self._short)
        self.bytes += sum(f.height * 40 + int(f["piece"].bin.size().sum() or 0) for f in self._long)
        self.bytes += sum(map(len, self.giants))

    def _fold(self) -> None:
        self._short = [pl.concat(self._short).group_by("key").agg(pl.col("n").sum())]
        self._long = [pl.concat(self._long).group_by("piece").agg(pl.col("n").sum())]

    def take(self) -> tuple[pl.Series, pl.Series]:
        """(distinct pieces, their counts); nothing but the giants is left afterwards."""
        if not self._short:
            return pl.Series("piece", [], pl.Binary), pl.Series("n", [], pl.Int64)
        self._fold()
        short, long = self._short[0], self._long[0]
        self._short, self._long, self.bytes = [], [], sum(map(len, self.giants))
        pieces = pl.concat([pieces_from_keys(short["key"].to_numpy()), long["piece"]])
        return pieces, pl.concat([short["n"], long["n"]])


@dataclass(frozen=True)
class Chunked:
    """The chunks of distinct pieces: those of piece i are flat[starts[i] : starts[i] + lengths[i]]."""

    flat: pl.Series
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    ends_document: npt.NDArray[np.bool_]  # a document ends behind the piece
    distinct: bool = False  # no chunk stands in `flat` twice

    def distinct_chunks(self) -> tuple[pl.Series, Ids]:
        """(distinct chunks, the index among them of every chunk of `flat`)."""
        if self.distinct:
            return self.flat, np.arange(len(self.flat), dtype=np.int32)
        coded = self.flat.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode()
        distinct = pl.Series("chunk", pl.from_arrow(coded.dictionary), dtype=pl.String)
        return distinct, coded.indices.to_numpy(zero_copy_only=False)

    def with_ends(self, codes: Ids, end: int) -> tuple[Ids, Lengths]:
        """(the codes of all pieces' chunks piece by piece, `end` behind one that ends a document; codes per piece).

        `codes` stand for the chunks of `flat`.
        """
        counts = self.lengths + self.ends_document
        flat = np.full(int(counts.sum()), end, np.int32)
        flat[ranges(np.cumsum(counts) - counts, self.lengths)] = codes[ranges(self.starts, self.lengths)]
        return flat, counts


def split_pieces(pieces: pl.Series, pattern: Pattern, splitter: TextSplitter) -> Chunked:
    """Run the pattern on distinct pieces, each by a route that gives its chunks for certain.

    Route 0 is the linear form over the reduced alphabet: for pieces without a mark, if the pattern has
    such a form and it holds for them. Route 1 is the pattern itself in the `regex` module, 2 its form for
    script runs.
    """
    if pattern.definition is not None:
        return _pieces_as_chunks(pieces, pattern)
    offsets, data = as_buffers(pieces)
    last = data[offsets[1:] - 1] if len(pieces) else np.zeros(0, np.uint8)
    route = np.where(last == SCRIPT_RUN_END, 2, np.where(last >= RUN_END, 1, 0))
    if pattern.linear is None:
        route[route == 0] = 1
    elif not getattr(pattern.rules, "keeps_end", False):
        # a giant would take 20 times its size in arrays; find-all takes it as a stream. (Not where the
        # pattern asks for the end of the text: a piece's end is none.)
        route[(np.diff(offsets) > GIANT_BYTES) & (route == 0)] = 1
    lengths = np.zeros(len(pieces), np.int64)
    flats: list[pl.Series] = []
    places: list[npt.NDArray[np.int64]] = []
    for kind in (0, 1, 2):
        where = np.flatnonzero(route == kind)
        if not len(where):
            continue
        mine = pieces.gather(where) if len(where) < len(pieces) else pieces
        if kind == 0:
            flat, counts, hard = _split_linear(mine, pattern)
            if hard.any():
                route[where[hard]] = 1
                where, flat, counts = where[~hard], flat.filter(~pl.Series(np.repeat(hard, counts))), counts[~hard]
        else:
            marked = pl.col("piece").bin.tail(1).is_in([bytes([m]) for m in range(RUN_END, DOCUMENT_END + 1)])
            size = pl.col("piece").bin.size() - marked.cast(pl.UInt32)
            texts = mine.to_frame().select(pl.col("piece").bin.head(size).cast(pl.String)).to_series()
            distinct, ids, many = splitter.split(texts.to_list(), kind == 2)
            flat = pl.Series(distinct, dtype=pl.String).gather(np.asarray(ids, np.int32))
            counts = np.asarray(many, np.int64)
        lengths[where] = counts
        flats.append(flat)
        places.append(where)
    order = np.concatenate(places) if places else np.zeros(0, np.int64)
    starts = np.zeros(len(pieces), np.int64)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    together = pl.concat(flats).alias("chunk") if flats else pl.Series("chunk", [], pl.String)
    return Chunked(together, starts, lengths, last == DOCUMENT_END)


def count_giants(giants: Counter[bytes], pattern: Pattern, splitter: TextSplitter) -> Iterator[pl.DataFrame]:
    """The chunks of giant pieces and their counts, one giant at a time, which is let go of: few copies of it are
    ever held. Find-all takes each as a stream."""
    keeps_end = pattern.linear is not None and getattr(pattern.rules, "keeps_end", False)
    while giants:
        piece, n = giants.popitem()
        if pattern.definition is not None or keeps_end:
            series = pl.Series("piece", [piece], pl.Binary), pl.Series("n", [n], pl.Int64)
            yield count_chunks(*series, pattern, splitter)
            continue
        mark = piece[-1]
        text = str(memoryview(piece)[: len(piece) - (mark >= RUN_END)], "utf-8")
        del piece
        distinct, ids, _ = splitter.split([text], mark == SCRIPT_RUN_END)
        del text
        many = np.bincount(np.asarray(ids, np.int64), minlength=len(distinct)) * n
        frame = pl.DataFrame({"chunk": distinct, "n": many}, schema={"chunk": pl.String, "n": pl.Int64})
        del distinct
        yield frame


def as_buffers(pieces: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """A binary series as offsets (the first 0) and bytes."""
    array = pieces.to_arrow(compat_level=pl.CompatLevel.oldest())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def _split_linear(
    pieces: pl.Series, pattern: Pattern
) -> tuple[pl.Series, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(chunks of all pieces in order, chunks per piece, pieces the linear form does not hold for: they were left
    whole), a few megabytes of pieces at a time."""
    offsets, data = as_buffers(pieces)
    flats, counts, hard = [], [], []
    start = 0
    while start < len(pieces):
        stop = int(np.searchsorted(offsets, offsets[start] + _SLICE_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(pieces))
        mine = offsets[start : stop + 1]
        flat, many, left = _split_slice(data[mine[0] : mine[-1]], mine - mine[0], pattern)
        flats.append(flat)
        counts.append(many)
        hard.append(left)
        start = stop
    return pl.concat(flats), np.concatenate(counts), np.concatenate(hard)


def _split_slice(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], pattern: Pattern
) -> tuple[pl.Series, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    alphabet = reduced_alphabet(pattern.folds)
    text = data.tobytes()
    if text.isascii():
        symbols, characters = np.frombuffer(text.translate(alphabet.ascii_table), np.uint8), offsets
        at = None
    else:
        at, points = decode_code_points(data)
        symbols, characters = alphabet.reduce(points), np.searchsorted(at, offsets)
    reduced = pl.Series(
        pl.from_arrow(
            pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(characters), pa.py_buffer(symbols))
        )
    )
    assert pattern.linear is not None
    lists = reduced.str.extract_all(pattern.linear)
    hard = np.zeros(len(reduced), np.bool_)
    if pattern.hard:
        hard = reduced.str.contains(pattern.hard).to_numpy()
        if hard.any():
            lists = lists.zip_with(pl.Series(~hard), reduced.reshape((-1, 1)).arr.to_list())
    borders = np.cumsum(lists.explode(empty_as_null=False).str.len_bytes().to_numpy().astype(np.int64))
    if len(borders) and borders[-1] != len(symbols):
        raise AssertionError(f"the linear form of {pattern.name} left text unmatched")
    borders, counts = np.concatenate([[0], borders]), lists.list.len().to_numpy().astype(np.int64)
    if pattern.groups_digits:
        borders, counts = _group_digits(symbols, borders, counts)
    if at is not None:
        borders = np.append(at, len(data))[borders]
    chunks = pa.LargeStringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), pa.py_buffer(text))
    return pl.Series("chunk", pl.from_arrow(chunks)), counts, hard


def _group_digits(symbols: npt.NDArray[np.uint8], borders: Lengths, counts: Lengths) -> tuple[Lengths, Lengths]:
    """Numbers of more than three digits cut into threes from their end: (borders of chunks, chunks per piece)."""
    starts, stops = borders[:-1], borders[1:]
    long = np.flatnonzero(stops - starts > 3)
    long = long[(symbols[starts[long]] >= ord("0")) & (symbols[starts[long]] <= ord("9"))]
    cuts = (stops[long] - starts[long] - 1) // 3
    inside = np.repeat(stops[long], cuts) - 3 * (ranges(np.zeros(len(long), np.int64), cuts) + 1)
    np.add.at(counts, np.searchsorted(np.cumsum(counts), long, "right"), cuts)
    return np.sort(np.concatenate([borders, inside])), counts


def _pieces_as_chunks(pieces: pl.Series, pattern: Pattern) -> Chunked:
    """Where the rules cut at every border: a piece is a chunk, or a mark, or white space between words."""
    is_mark = pl.col("piece") == pl.lit(bytes([DOCUMENT_END]))
    frame = pieces.to_frame("piece").select(
        is_mark.alias("mark"), pl.when(is_mark).then(pl.lit(b"")).otherwise(pl.col("piece")).alias("piece")
    )
    ends_document = frame["mark"].to_numpy()
    chunks = frame["piece"].cast(pl.String)
    holds = chunks != ""
    if pattern.word_mark:
        holds &= ~chunks.str.contains(_SPACE_FIRST)
    flat = chunks.filter(holds).alias("chunk")
    if pattern.word_mark:
        flat = flat.to_frame().select((pl.lit(pattern.word_mark) + pl.col("chunk")).alias("chunk")).to_series()
    lengths = holds.to_numpy().astype(np.int64)
    return Chunked(flat, np.cumsum(lengths) - lengths, lengths, ends_document, distinct=True)


def count_split(chunked: Chunked, n: npt.NDArray[np.int64]) -> tuple[pl.DataFrame, Ids]:
    """From split pieces that occur n times each: distinct chunks and their counts, in byte order, and the row
    there of every chunk of `flat`."""
    # `flat` is in route order, so the counts follow it there by the pieces' starts
    order = np.argsort(chunked.starts, kind="stable")
    weights = np.repeat(n[order], chunked.lengths[order])
    distinct, codes = chunked.distinct_chunks()
    many = np.zeros(len(distinct), np.int64)
    np.add.at(many, codes, weights)
    ascending = distinct.arg_sort().to_numpy()
    row = np.empty(len(distinct), np.int32)
    row[ascending] = np.arange(len(distinct), dtype=np.int32)
    frame = pl.DataFrame({"chunk": distinct.gather(ascending), "n": many[ascending]})
    return frame, row[codes]


def count_chunks(pieces: pl.Series, n: pl.Series, pattern: Pattern, splitter: TextSplitter) -> pl.DataFrame:
    """Distinct pieces and their counts -> distinct chunks and theirs, in byte order of the chunks."""
    return count_split(split_pieces(pieces, pattern, splitter), n.to_numpy())[0]
