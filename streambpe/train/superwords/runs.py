"""Stretches of neighbouring chunks that superwords can be learned from, each distinct one once.

    documents   " the end of the day , at the end of the line"     (every chunk eligible but ",")
    neighbours  " end"+" of" 2 · " of"+" the" 2 · " the"+" end" 2 · everything else 1
    runs        cut where the neighbours count less than 2:   [" the" " end" " of" " the"] x 2

**Cutting is lossless down to the threshold T.** Let the supermerges that count at least T be learned one at a
time, once from whole documents and once from runs that were cut between chunks a, b wherever (a, b) has fewer
than T places, all adjacent places counted. Claim: they are the same, with the same counts, as long as each
symbol stands for one sequence of chunks.

Take the moment after k equal steps. A symbol S stands for one sequence of chunks, so every place where S and U
are neighbours is a place where the last chunk of S and the first of U are neighbours: the pair (S, U) counts at
most as much as these two chunks, whatever was merged before, and under `disjoint` still less. If (S, U) counts at
least T, so do they, and no place of it was cut: it has the same count in both. If it counts less it is not learned
at T in either. So the best pair that counts at least T is the same, ties are decided by the same symbols, and the
merge rewrites the same places: a cut never lies inside a symbol, because a symbol is joined only where its parts
count T. One round is enough: a cut between a and b takes no place from any other pair of neighbours, so a second
count would find the same pairs below T.

The assumption fails when a supermerge spells a chunk, or a superword made of other chunks (" a" "b c" and " a b"
"c"): the places of two different neighbours count under one symbol, and a pair may reach T out of neighbours that
are each below it. What the claim needs is less: only the chunks a symbol *ends* and *begins* with matter, and only
where there are several. So let every chunk that such a symbol can end with be *open to the right*: none of its right
neighbours is ever cut off; and let every chunk that it can begin with be open to the left. A pair (S, U) in which S
ends with several chunks then lies at places that are never cut, and the argument above holds again; a longer superword
ends and begins with what its outer parts do. The trainer sees a double spelling at the moment it happens
(`Spellings` in rules.py), when everything learned so far is still right, cuts again with these chunks open, and goes
on. That is rare: in 100 MB of English no two of 165 279 neighbours spelled a third chunk.

What T is: see train/superwords/phase.py. Runs of one chunk hold nothing and are dropped; equal runs are one with their
number as its weight.

Distinct runs are counted in tables of the core by tasks (tasks.py), and SQL adds up what these leave (sums.py). Memory:
a part for each thread, and the table; a run that no neighbour cuts is held whole, as a chunk is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Int32, Int64, slices
from streambpe.core.pairs import PairTable
from streambpe.core.runs import KeptPairs, RunCounter
from streambpe.failpoints import failpoint
from streambpe.files import put_in_place, unfinished
from streambpe.later import polars as pl
from streambpe.store.made_of import fingerprint, seal_folder
from streambpe.system import remove_folder
from streambpe.train.engine.rules import Words, release_maps
from streambpe.train.superwords.sums import Sums
from streambpe.train.words import write_columns


class OpenChunks(msgspec.Struct):
    """Chunks whose neighbours on one side are never cut off (module docstring)."""

    right: set[int] = msgspec.field(default_factory=set)
    left: set[int] = msgspec.field(default_factory=set)

    def add(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Note that one symbol stands for both sequences of chunks; returns whether that opens any chunk."""
        before = len(self.right) + len(self.left)
        if one[-1] != other[-1]:
            self.right.update((one[-1], other[-1]))
        if one[0] != other[0]:
            self.left.update((one[0], other[0]))
        return len(self.right) + len(self.left) > before

    @property
    def name(self) -> str:
        """A name for files that depend on these chunks."""
        listed = f"{sorted(self.right)} {sorted(self.left)}"
        return hashlib.sha256(listed.encode()).hexdigest()[:12]


class Kept(msgspec.Struct, frozen=True):
    """The neighbours that runs are not cut between: these, and any of a chunk that is open on that side."""

    keys: Int64  # left << 32 | right, ascending
    open_chunks: OpenChunks
    symbols: int  # all symbols are below

    def pairs(self) -> KeptPairs:
        """The same, as the core takes it."""
        kept = KeptPairs(PairTable(), np.zeros(self.symbols, bool), np.zeros(self.symbols, bool))
        kept.pairs.hold(self.keys)
        kept.open_right[sorted(self.open_chunks.right)] = True
        kept.open_left[sorted(self.open_chunks.left)] = True
        return kept


class RunCounting:
    """Counts the runs of a text that comes in pieces; a full table becomes a section of the file."""

    def __init__(self, kept: KeptPairs, table_bytes: int, out: pq.ParquetWriter) -> None:
        self.kept, self.table_bytes, self.out = kept, table_bytes, out
        self.counter = RunCounter(table_bytes)
        self._pieces: list[Int32] = []  # of the run that is not ended yet, so that a giant one costs no copies

    def _count(self, symbols: Int32, *, open_end: bool) -> int:
        """Count some; returns how far that came: to the end, or to a run that may go on behind it."""
        at = 0
        while True:
            room, at = self.counter.count(self.kept, symbols, at, open_end=open_end)
            if room:
                return at
            if not self.counter.empty:
                self.write_section()
            else:  # one run does not fit
                self.table_bytes *= 2
                self.counter = RunCounter(self.table_bytes)

    def write_section(self) -> None:
        """Take out what was counted since the last time."""
        for table in self.counter.take():
            self.out.write_table(table)

    def go_on(self, symbols: Int32, follows: bool) -> None:
        """Count the next symbols of the documents; whether they go on from the last ones."""
        pieces = self._pieces
        head = self.kept.goes_on(int(pieces[-1][-1]), symbols) if pieces and follows else 0
        pieces += [symbols[:head].copy()] if head else []
        if head < len(symbols):
            self.end()
            head += self._count(symbols[head:], open_end=True)
            self._pieces = [symbols[head:].copy()] if head < len(symbols) else []

    def end(self) -> None:
        """End the run that is open."""
        if self._pieces:
            self._count(np.concatenate(self._pieces), open_end=False)
        self._pieces = []


def write_run_words(files: Sequence[Path], folder: Path, sums: Sums, made_of: str) -> None:
    """Write runs as words for the engine; the files of the runs are added up and removed."""
    remove_folder(folder)
    temporary = unfinished(folder)
    remove_folder(temporary)
    write_columns(temporary, sums.runs(files))
    seal_folder(temporary, fingerprint(made_of, folder.name))
    failpoint("words-filled")
    put_in_place(temporary, folder)
    failpoint("words-written")
    for path in files:
        path.unlink()


class RunTable(msgspec.Struct, frozen=True):
    """What the tables get of a phase two: the runs, and where the neighbours are."""

    words: Words
    neighbours: Path  # of all (sums.py)
    floor: int  # neighbours that stand in at least so many places belong in table superword_neighbours
    chunks: pl.DataFrame  # rows (symbol, chunk)

    def rows(self, numbered: pl.DataFrame, places_at_once: int = 1 << 18) -> Iterator[pl.DataFrame]:
        """Rows (numbers, n), a slice at a time. numbered: rows (symbol, number) of all that stand in the runs."""
        known = numbered["symbol"].to_numpy()
        number_of = np.zeros(known.max(initial=0) + 1, np.int32)
        number_of[known] = numbered["number"].to_numpy()
        symbols, offsets, weights = self.words.symbols, self.words.offsets, self.words.weights
        for start, stop in slices(offsets, places_at_once):
            some = pa.array(number_of[symbols[offsets[start] : offsets[stop]]])
            numbers = pa.LargeListArray.from_arrays(offsets[start : stop + 1] - offsets[start], some)
            yield pl.DataFrame({"numbers": pl.from_arrow(numbers), "n": weights[start:stop]})
            for column in (symbols, offsets, weights):
                release_maps(column)
