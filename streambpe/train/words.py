"""Chunk counts -> the words a training learns from, as flat columns on disk.

    "low" 5, "lower" 2   ->   symbols 78 81 89 78 81 89 71 84, offsets 0 3 8, weights 5 2     (gpt2 ids)

The chunks are those of view training_chunks: without stop words (each is one id and never merges) and without those
rarer than the cut-off. Chunks of one symbol are left out here (nothing in them can merge). A character outside the
alphabet (--coverage) cuts a chunk in two, since it never merges. The counts are streamed in ranges and slices, so
memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streambpe.arrays import Int32, Int64, slices, write_array
from streambpe.config import TrainConfig
from streambpe.core.encoding import WHOLE
from streambpe.core.strings import ChunkList, as_strings
from streambpe.encode.encoder import Encoder
from streambpe.errors import LimitError
from streambpe.model.alphabet import (
    Alphabet,
    Unknown,
    bytes_alphabet,
    chars_alphabet,
    gpt2_alphabet,
    script_alphabet,
    seen_alphabet,
    utf8_alphabet,
)
from streambpe.model.codecs import Codec, codec_of
from streambpe.resources import BASE_BYTES, format_size
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part
from streambpe.text.script_blocks import Unencodable
from streambpe.text.script_runs import decode_code_points
from streambpe.train.engine import column
from streambpe.train.engine.rules import Words

_RANGE_BYTES = 4 << 20
CHARACTER_BYTES = 1200  # of each character of an alphabet, while it is learned with and put into tables
_SLICE_BYTES = 1 << 18  # of chunks that are cut into symbols at once, which takes 40 bytes per byte


def bytes_seen(parts: Sequence[Part]) -> bytes:
    """The distinct bytes of the chunks, in byte order. One pass over the counts."""
    seen = np.zeros(256, np.int64)
    for rows in _slices(parts):
        seen += np.bincount(rows.data[rows.offsets[0] : rows.offsets[-1]], minlength=256)
    return bytes(np.flatnonzero(seen).astype(np.uint8))


class Uncovered(NamedTuple):
    """The characters outside an alphabet: how many there are, and how often they stand in the chunks."""

    kinds: int = 0
    n: int = 0


def count_characters(parts: Sequence[Part]) -> Int64:
    """How often each character stands in the chunks, by code point. One pass over the counts."""
    counts = np.zeros(0x110000, np.int64)
    for rows in _slices(parts):
        at, points = decode_code_points(rows.data[rows.offsets[0] : rows.offsets[-1]])
        # chunks "éa" and "zz" are bytes 0-2 and 3-4: characters at 0 2 3 4, chunks from character 0 2 4 on
        length = np.diff(np.searchsorted(at, rows.offsets - rows.offsets[0]))
        np.add.at(counts, points, np.repeat(rows.n, length))
    return counts


def cover(counts: Int64, coverage: Fraction, memory_bytes: int) -> tuple[Alphabet, Uncovered]:
    """The characters by code point without the rarest, which together may be as much of the text as `coverage` leaves
    out.

    Kinds leave from the rarest up (of equal ones the higher code point first), one for each running total that is
    below total - round(coverage * total): PickyBPE's rule. If the rarest alone reaches that, none leaves.
    `memory_bytes`: an error if learning with those that stay takes more.
    """
    points = np.flatnonzero(counts)
    rarest = points[np.lexsort((-points, counts[points]))]
    total = int(counts.sum())
    running = np.cumsum(counts[rarest])
    kinds = int(np.searchsorted(running, total - round(coverage * total)))
    needed = BASE_BYTES + CHARACTER_BYTES * (len(rarest) - kinds)
    if needed > memory_bytes:
        least = -(-needed // 10**6)
        raise LimitError(
            f"The text has {len(rarest) - kinds:,} different characters, which take {least} MB to learn with; "
            f"--memory is {format_size(memory_bytes)}. What was counted is kept. Give --memory {least}MB, or a "
            "smaller --coverage, which leaves out the rarest."
        )
    kept = np.sort(rarest[kinds:]).tolist()
    return chars_alphabet(map(chr, kept)), Uncovered(kinds, int(running[kinds - 1]) if kinds else 0)


def uncovered_by(parts: Sequence[Part], alphabet: Alphabet) -> Uncovered:
    """The characters outside an alphabet of characters that is given."""
    if alphabet.kind != "chars":
        return Uncovered()
    counts = count_characters(parts)
    counts[[ord(symbol.decode()) for symbol in alphabet.symbols]] = 0
    return Uncovered(int(np.count_nonzero(counts)), int(counts.sum()))


def choose_alphabet(
    parts: Sequence[Part],
    config: TrainConfig,
    unencodable: Unencodable,
    counted: Sequence[Part],
    memory_bytes: int,
) -> tuple[Alphabet, Uncovered]:
    """The alphabet for these counts, and the characters it leaves out; `unencodable`: how the text was counted.

    `counted`: the counts without any cut-off. The second stage of uw learns from all text: all its bytes are symbols.
    `memory_bytes`: see `cover`.
    """
    if config.encoding == "chars":
        return cover(count_characters(parts), Fraction(config.coverage or 1), memory_bytes)
    if config.encoding == "script":
        return script_alphabet(unencodable), Uncovered()
    if config.alphabet == "seen":
        return seen_alphabet([bytes_seen([*parts, *counted] if config.superwords == "uw" else parts)]), Uncovered()
    if config.alphabet == "bytes1":
        return bytes_alphabet(first_id=1), Uncovered()
    made = {"gpt2": gpt2_alphabet, "bytes": bytes_alphabet, "utf8": utf8_alphabet}
    return made[config.alphabet](), Uncovered()


def count_tokens(parts: Sequence[Part], encoder: Encoder) -> tuple[Int64, Int64, Int64]:
    """(id, n, alone): how often each token stands in the chunks, and how often as a whole chunk. One pass."""

    def words() -> Iterator[tuple[Int32, Int64, Int64]]:
        for rows in _slices(parts):
            ids, sizes = encoder.encode_distinct(as_strings(rows.offsets, rows.data))
            yield np.where(ids >= WHOLE, ids & ~WHOLE, ids), np.append(0, np.cumsum(sizes)), rows.n

    total, alone = column.count_tokens(words(), encoder.n_log)
    found = np.flatnonzero(total)
    return found, total[found], alone[found]


def training_codec(alphabet: Alphabet, unencodable: Unencodable) -> Codec:
    """How a training cuts chunks into symbols."""
    unknown: Unknown = "error"
    if alphabet.kind == "chars":
        unknown = "unk"
    elif alphabet.kind == "script" and unencodable == "drop":
        unknown = "drop"
    return codec_of(alphabet, unknown)


def columns_in(folder: Path) -> tuple[Path, Path, Path]:
    """The files of words in a folder: symbols (int32), offsets (int64, one more than words), weights (int64)."""
    return folder / "symbols.i32", folder / "offsets.i64", folder / "weights.i64"


def write_columns(folder: Path, words: Iterable[tuple[Int32, Int64, Int64]]) -> None:
    """Write words that come in parts: (symbols, offsets, weights) each."""
    folder.mkdir(parents=True, exist_ok=True)
    (symbol_path, offset_path, weight_path), at = columns_in(folder), 0
    with symbol_path.open("wb") as symbols, offset_path.open("wb") as offsets, weight_path.open("wb") as weights:
        write_array(np.zeros(1, np.int64), offsets)
        for some, ends, n in words:
            first, last = int(ends[0]), int(ends[-1])
            write_array(some[first:last], symbols)
            write_array(ends[1:] + (at - first), offsets)
            write_array(n, weights)
            at += last - first


def open_columns(folder: Path) -> Words:
    """Memory maps of the columns; nothing is read yet."""
    symbols, offsets, weights = columns_in(folder)
    if not symbols.stat().st_size:
        return Words(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64))
    return Words(
        np.memmap(symbols, np.int32, "r"), np.memmap(offsets, np.int64, "r"), np.memmap(weights, np.int64, "r")
    )


# What cuts chunks into symbols: a codec's split_many, or the same of a model that is extended, whose tokens are the
# symbols then.
ChunkCutter = Callable[[Int64, npt.NDArray[np.uint8]], tuple[Int32, Int64]]


def _slices(parts: Sequence[Part]) -> Iterator[ChunkList]:
    """The rows of parts in slices of at most _SLICE_BYTES; a larger row is a slice of its own."""
    for rows in merged_lists(parts, _RANGE_BYTES):
        for start, stop in slices(rows.offsets, _SLICE_BYTES):
            yield rows.part(start, stop)


def known_stretches(symbols: Int32, sizes: Int64, n: Int64) -> tuple[Int32, Int64, Int64]:
    """Words cut at symbols outside the alphabet, which are left out: (symbols, sizes, n) of what stands between.

    symbols  5 -1 6 7 | 8 9   sizes 4 2   n 3 9
    word     0  0 0 0   1 1
    begins   1  0 1 0   1 0   a known symbol behind one that is not, or the first of its word
    stretch  0    1 1   2 2   of the known ones       ->   5 | 6 7 | 8 9   sizes 1 2 2   n 3 3 9
    """
    known = symbols >= 0
    if known.all():
        return symbols, sizes, n
    word = np.repeat(np.arange(len(sizes)), sizes)
    begins = known.copy()
    begins[1:] &= ~known[:-1] | (word[1:] != word[:-1])
    stretch = np.cumsum(begins)[known] - 1
    return symbols[known], np.bincount(stretch, minlength=int(begins.sum())), n[word[begins]]


def write_words(parts: Sequence[Part], cut: ChunkCutter, folder: Path, shortest: int = 2) -> Words:
    """Write the words of a training; those of fewer symbols than `shortest` are left out."""
    write_columns(folder, _words(parts, cut, shortest))
    return open_columns(folder)


def _words(parts: Sequence[Part], cut: ChunkCutter, shortest: int) -> Iterator[tuple[Int32, Int64, Int64]]:
    for rows in _slices(parts):
        symbols, sizes, n = known_stretches(*cut(rows.offsets, rows.data), rows.n)
        long_enough = sizes >= shortest
        if not long_enough.all():
            symbols, sizes, n = symbols[np.repeat(long_enough, sizes)], sizes[long_enough], n[long_enough]
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        yield symbols, ends, n
