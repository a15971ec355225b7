"""Which chunks stand side by side in the documents, and how often: the stored sequences, streamed.

    eligible    tokens that are a whole chunk and match --superword-pattern; a chunk's symbol is its token's log id
    symbols     a part's documents with every eligible chunk as its symbol, everything else as a BARRIER
    neighbours  (left, right) -> n over all parts: every adjacent place counts, also under --overlaps disjoint

Parts are read in the order of their input, so neighbours meet across the border of two parts when a document
goes on there; documents never join. They are counted into one table of the core. When that is full, or has
MOST_PLACES of the documents, it becomes a file, which appears whole or not at all and is named after the stretch
of places it holds:

    neighbours-0-81920344.parquet, neighbours-81920344-104857600.parquet

so counting goes on where a kill left it, whatever the memory. The files are added up by SQL (sums.py).

Memory: a part for each thread (about PART_BYTES per chunk of it) and the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from streambpe.arrays import Int32
from streambpe.core.pairs import PairTable
from streambpe.encode.bulk import BulkReplay
from streambpe.failpoints import failpoint
from streambpe.files import whole_file
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Op
from streambpe.store.checksums import add_checksum
from streambpe.store.made_of import has_note, parquet_note
from streambpe.store.sequences import OfChunks, SequencePart, read_stretch
from streambpe.store.shards import stretches_from
from streambpe.threads import in_order
from streambpe.train.superwords.ranges import keys_note, some_keys

BARRIER = -1  # a chunk that takes no part, or the end of a document
PART_BYTES = 64  # of a part's chunk while it is read
MOST_PLACES = 128 << 20  # of the documents in one file: what a kill may cost


def find_eligible(
    alphabet: Alphabet,
    contents: Sequence[bytes],
    events: Sequence[Event],
    stop_words: Sequence[str],
    matches: Callable[[bytes], bool],
) -> pl.DataFrame:
    """Rows (chunk, symbol): the chunks that encode to one token and match.

    contents: of every log id from alphabet.first_id on. A chunk that is one token spells that token, so only the
    tokens' own bytes need to be looked at. Without deletions every token encodes to itself: where it was made of l and
    r, no earlier merge had crossed the ends of l r, so these bytes alone would have become l r as well (a run of equal
    symbols that goes on beyond an end was paired up to that end). With deletions the events are replayed.
    """
    first, base = alphabet.first_id, len(alphabet)
    stops = set(stop_words)
    found = []
    for i, content in enumerate(contents):
        if (i < base or i >= base + len(stop_words)) and matches(content):
            chunk = content.decode()
            if chunk not in stops:
                found.append((chunk, first + i))
    chunks = pl.DataFrame(found, schema={"chunk": pl.String, "symbol": pl.Int32}, orient="row")
    if not any(event.op is Op.DELETE for event in events):
        return chunks
    table = np.full(256, -1, np.int32)
    for number, symbol in enumerate(alphabet.symbols, first):
        table[symbol[0]] = number
    lengths = chunks["chunk"].str.len_bytes().cast(pl.Int64).to_numpy()
    text = np.frombuffer("".join(chunks["chunk"]).encode(), np.uint8)
    sizes = [0] * first + [len(content) for content in contents]
    ids, counts = BulkReplay(events, first + len(contents), sizes).replay(table[text], lengths)
    whole = counts == 1
    own = np.full(len(counts), -1)
    own[whole] = ids[(np.cumsum(counts) - counts)[whole]]
    return chunks.filter(pl.Series(own == chunks["symbol"].to_numpy()))


class PartsReader(ABC):
    """The parts of a run as symbols, in the order of the input."""

    parts: Sequence[SequencePart]

    @property
    def places(self) -> int:
        """The places of all parts."""
        return sum(part.places for part in self.parts)

    @abstractmethod
    def read(self, part: SequencePart) -> Int32:
        """Symbols and barriers of one part. Only behind a symbol may its last document go on in the next part."""

    def read_from(self, start: int, threads: int) -> Iterator[tuple[int, Int32, bool]]:
        """All places from this one on, part after part: (where they begin, symbols, whether they go on from what is in
        front of them)."""
        todo = list(stretches_from(self.parts, start))
        texts = in_order(self.read, [part for _, part, _ in todo], threads)
        for (begin, _, follows), symbols in zip(todo, texts, strict=True):
            if begin < start:
                yield start, symbols[start - begin :], False
            else:
                yield begin, symbols, follows


class SymbolReader(PartsReader):
    """Stored documents with every eligible chunk as its symbol, everything else as a barrier."""

    def __init__(self, folder: Path, parts: Sequence[SequencePart], eligible: pl.DataFrame) -> None:
        self.folder, self.parts, self.eligible = folder, parts, eligible
        self._symbols = OfChunks(folder, self._look_up)

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: what was looked up is looked up again there."""
        return SymbolReader, (self.folder, self.parts, self.eligible)

    def _look_up(self, chunks: pl.Series) -> Int32:
        joined = chunks.to_frame("chunk").join(self.eligible, on="chunk", how="left", maintain_order="left")["symbol"]
        # behind the chunks' own symbols stands the barrier that END_OF_DOCUMENT = -1 looks up
        return np.append(joined.fill_null(BARRIER).to_numpy(), np.int32(BARRIER))

    def read(self, part: SequencePart) -> Int32:
        """See Reader."""
        symbols, ids = read_stretch(self.folder, part, self._symbols)
        return symbols[ids]


class Stretches:
    """Files of one kind, each of a stretch of places; those that follow each other from place 0 on are kept."""

    def __init__(self, folder: Path, prefix: str, made_of: str) -> None:
        self._folder, self._prefix, self._made_of = folder, prefix, made_of
        self.files: list[Path] = []
        self.stop = 0  # places that are in them
        while found := self._next():
            self.files.append(found)
            self.stop = int(found.stem.rpartition("-")[2])

    def _next(self) -> Path | None:
        found = self._folder.glob(f"{self._prefix}-{self.stop}-*.parquet")
        return next((path for path in sorted(found) if has_note(path, self._made_of)), None)

    def long(self, stop: int) -> bool:
        """Whether the places behind the last file are too many to lose to a kill."""
        return stop - self.stop > MOST_PLACES

    def next(self, stop: int) -> Path:
        """The file for the places between the last file's stop and this one."""
        return self._folder / f"{self._prefix}-{self.stop}-{stop}.parquet"

    def add(self, stop: int) -> None:
        """Note that this file is written."""
        self.files.append(self.next(stop))
        self.stop = stop


class _Neighbours:
    """Counts the neighbours of texts that follow each other, into as many files as it takes."""

    def __init__(self, files: Stretches, table_bytes: int, made_of: str) -> None:
        self.files, self.table_bytes, self.made_of = files, table_bytes, made_of
        self.table = PairTable(table_bytes)

    def count(self, symbols: Int32, begin: int) -> None:
        """All neighbours among these symbols, which begin at a place of the documents."""
        at = 0
        while (at := self.table.count(symbols, at)) < len(symbols) - 1:
            self.write(begin + at)

    def write(self, stop: int) -> None:
        """Write a file with the pairs whose left symbols are in front of this place."""
        keys, n = self.table.take()
        write_whole(
            pl.DataFrame({"key": keys, "n": n}), self.files.next(stop), self.made_of, keys_note(some_keys(keys))
        )
        self.files.add(stop)
        failpoint("neighbours-written")
        self.table = PairTable(self.table_bytes)


def count_neighbours(
    reader: PartsReader, folder: Path, threads: int, table_bytes: int, advance: Callable[[int], None], made_of: str = ""
) -> list[Path]:
    """Files of counts (key, n; ascending keys) that add up to those of all neighbours; files that are there and were
    made of the same are kept.

    `advance` is told how many places were counted, and may raise to stop between two parts.
    """
    files = Stretches(folder, "neighbours", made_of)
    advance(files.stop)
    counted, last = _Neighbours(files, table_bytes, made_of), BARRIER
    for begin, symbols, follows in reader.read_from(files.stop, threads):
        if follows and last >= 0:  # else a barrier, or another document, is between them
            counted.count(np.array([last, symbols[0]], np.int32), begin - 1)
        counted.count(symbols, begin)
        last = int(symbols[-1])
        border = begin + len(symbols) - 1  # the last symbol's right neighbour was not seen
        if files.long(border):
            counted.write(border)
        advance(len(symbols))
    if files.stop < reader.places:
        counted.write(reader.places)
    return files.files


def write_whole(
    frame: pl.DataFrame, target: Path, made_of: str = "", facts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """A Parquet file that appears whole or not at all, with a note of what it was made of (store/made_of.py), and these
    facts in its footer."""
    note = {**parquet_note(made_of, target.name), **facts}
    with whole_file(target) as temporary:
        frame.write_parquet(temporary, compression="zstd", compression_level=1, row_group_size=1 << 16, metadata=note)
        add_checksum(temporary)
