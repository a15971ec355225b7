"""Which chunks stand side by side in the documents, and how often: the stored sequences, streamed.

    eligible    tokens that are a whole chunk and match --superword-pattern; a chunk's symbol is its token's log id
    symbols     a part's documents with every eligible chunk as its symbol, everything else as a BARRIER
    neighbours  (left, right) -> n over all parts: every adjacent place counts, also under --overlaps disjoint

Parts are read in the order of their input, so neighbours meet across the border of two parts when a document
goes on there; documents never join. Partial counts are written group after group of parts, each file whole or not at
all, so counting goes on where a kill left it. They are added up by SQL (sums.py).

Memory: a part for each thread (about PART_BYTES a chunk of it) and the distinct pairs of one group (about 60 bytes
each).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streambpe.arrays import Int32
from streambpe.core.pairs import PairTable
from streambpe.encode.bulk import BulkReplay
from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.files import whole_file
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Op
from streambpe.store.made_of import has_note, parquet_note
from streambpe.store.sequences import SequencePart, read_sequence, unreadable
from streambpe.threads import in_order

BARRIER = -1  # a chunk that takes no part, or the end of a document
_SCHEMA = {"key": int, "n": int}
ROW_BYTES = 64  # of one pair while pairs are grouped
PART_BYTES = 64  # of a part's chunk while it is counted or cut


def find_eligible(
    alphabet: Alphabet,
    contents: Sequence[bytes],
    events: Sequence[Event],
    stop_words: Sequence[str],
    matches: Callable[[bytes], bool],
) -> pl.DataFrame:
    """Rows (chunk, symbol): the chunks that encode to one token and match.

    contents: of every log id from alphabet.first_id on. A chunk that is one token spells that token, so only the
    tokens' own bytes need to be looked at. Without deletions every token encodes to itself: where it was made of l
    and r, no merge before had crossed the ends of l r, so these bytes alone had come to l r as well (a run of
    equal symbols that goes on beyond an end was paired up to it). With deletions the events are replayed.
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


def load_documents(folder: Path, part: SequencePart) -> tuple[pl.Series, Int32]:
    """A part's chunks, and its documents as their numbers."""
    try:
        return read_sequence(folder, part.name)
    except unreadable() as why:
        raise RunError(
            f"{folder / part.name}.parquet or its .chunks.parquet is missing or damaged "
            f"({str(why).splitlines()[0]}). Count the sources again into another RUN with --sequences."
        ) from None


class Reader(ABC):
    """The parts of a run as symbols, in the order of the input."""

    parts: Sequence[SequencePart]

    @property
    def places(self) -> int:
        """In all parts."""
        return sum(part.places for part in self.parts)

    @abstractmethod
    def read(self, part: SequencePart) -> tuple[Int32, bool]:
        """(symbols and barriers of one part, whether its last document goes on in the next)."""

    def end_of(self, parts: Sequence[SequencePart]) -> tuple[int, bool]:
        """(the last symbol of these parts, whether the document goes on behind them)."""
        for part, behind in zip(parts[::-1], [None, *parts[:0:-1]], strict=False):
            if behind is not None and not behind.follows:
                break
            symbols, goes_on = self.read(part)
            if len(symbols):
                return int(symbols[-1]), goes_on
        return BARRIER, False


class SymbolReader(Reader):
    """Stored documents with every eligible chunk as its symbol, everything else as a barrier."""

    def __init__(self, folder: Path, parts: Sequence[SequencePart], eligible: pl.DataFrame) -> None:
        self.folder, self.parts, self.eligible = folder, parts, eligible

    def read(self, part: SequencePart) -> tuple[Int32, bool]:
        """See Reader."""
        chunks, ids = load_documents(self.folder, part)
        joined = chunks.to_frame("chunk").join(self.eligible, on="chunk", how="left", maintain_order="left")["symbol"]
        # behind the chunks' own symbols stands the barrier that END_OF_DOCUMENT = -1 looks up
        symbols = np.append(joined.fill_null(BARRIER).to_numpy(), np.int32(BARRIER))
        return symbols[ids], bool(len(ids)) and int(ids[-1]) >= 0


@dataclass(frozen=True)
class Groups:
    """Consecutive parts that are counted together: about `places` chunks each."""

    parts: list[list[SequencePart]]
    names: list[str]  # a group's file, which says what is in it

    @classmethod
    def of(cls, parts: Sequence[SequencePart], places: int) -> Groups:
        groups: list[list[SequencePart]] = []
        held = places
        for part in parts:
            if held >= places:
                groups.append([])
                held = 0
            groups[-1].append(part)
            held += part.places
        return cls(groups, [f"{i:05d}-{places}" for i in range(len(groups))])


@dataclass(frozen=True)
class _Counted:
    """One part's neighbours, and where it meets the parts beside it."""

    pairs: pl.DataFrame
    first: int  # symbol, BARRIER where nothing is joined
    last: int
    goes_on: bool
    empty: bool


def _count_part(reader: Reader, part: SequencePart) -> _Counted:
    symbols, goes_on = reader.read(part)
    table = PairTable()
    if table.count(symbols) < len(symbols) - 1:
        raise MemoryError("the neighbours of a part")
    pairs = pl.DataFrame(dict(zip(("key", "n"), table.take(), strict=True)))
    first, last = (int(symbols[0]), int(symbols[-1])) if len(symbols) else (BARRIER, BARRIER)
    return _Counted(pairs, first, last, goes_on, not len(symbols))


def count_neighbours(
    reader: Reader, groups: Groups, folder: Path, threads: int, advance: Callable[[int], None], made_of: str = ""
) -> list[Path]:
    """The partial counts (key, n; ascending keys) of every group; those that are there, made of the same, are kept.

    `advance` is told how many places were counted, and may raise to stop between two parts.
    """
    files = [folder / f"neighbours-{name}.parquet" for name in groups.names]
    there = [has_note(file, made_of) for file in files]
    todo = [part for group, done in zip(groups.parts, there, strict=True) if not done for part in group]
    counted = in_order(lambda part: _count_part(reader, part), todo, threads)
    read: list[SequencePart] = []
    end: tuple[int, bool] | None = (BARRIER, False)  # of what was read; None: of a group that was there
    for group, target, done in zip(groups.parts, files, there, strict=True):
        if done:
            advance(sum(part.places for part in group))
            read += group
            end = None
            continue
        if end is None:
            end = reader.end_of(read)
        frames = []
        for part in group:
            last, goes_on = end if part.follows else (BARRIER, False)
            found = next(counted)
            frames.append(found.pairs)
            if found.empty:
                end = last, goes_on
            else:
                end = found.last, found.goes_on
                if goes_on and last >= 0 and found.first >= 0:
                    key = (last << 32) | found.first
                    frames.append(pl.DataFrame({"key": [key], "n": [1]}, schema=_SCHEMA))
            advance(part.places)
        read += group
        write_whole(pl.concat(frames).group_by("key").agg(pl.col("n").sum()).sort("key"), target, made_of)
        failpoint("neighbours-written")
    return files


def write_whole(frame: pl.DataFrame, target: Path, made_of: str = "") -> None:
    """A Parquet file that appears whole or not at all, with a note of what it was made of (store/made_of.py)."""
    note = parquet_note(made_of, target.name)
    with whole_file(target) as temporary:
        frame.write_parquet(temporary, compression="zstd", compression_level=1, row_group_size=1 << 16, metadata=note)
