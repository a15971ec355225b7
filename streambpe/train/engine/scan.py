"""The words on disk: blocks of a column (column.py) in files, swept a few times for some thousand merges.

A stage of learning counts all pairs, boils the column down to a *digest* that fits in memory (`ScanColumn.digest`),
and, when the learner has learned as far as that reaches, makes the same merges in the whole column
(`ScanColumn.rewrite`): three sweeps, whatever the number of merges, with inner loops in the core. Words that have
become one token are dropped. Memory: some 40 bytes per place of the blocks at work (one per thread), whatever the
number of blocks, and the digest within its room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from streambpe.arrays import Int32, Int64, write_array
from streambpe.core.binding import ChunkTable
from streambpe.core.scan import ChainFinder, numbered
from streambpe.core.strings import ChunkList, merge
from streambpe.system import remove_folder
from streambpe.threads import in_order
from streambpe.train.engine.column import SEPARATOR, read_column, split_token, write_column
from streambpe.train.engine.learning import HotPairs
from streambpe.train.engine.pair_counter import PairCounter
from streambpe.train.engine.rules import Batch
from streambpe.train.engine.state import State

T = TypeVar("T")

SCAN_BYTES_PER_PLACE = 40  # of a block at work


class Digest(msgspec.Struct):
    """The distinct chains as a small column; word i is the chain of number i."""

    column: Int32
    weights: Int64
    numbers: ChunkTable
    finder: ChainFinder


class ScanColumn:
    """The column as compact blocks in files; memory does not grow with its length. See the module."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder, self.state, self.threads = folder, state, max(1, state.options.threads)
        self.lengths: list[int] = []
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, column: Int32, weights: Int64) -> None:
        """One more block."""
        self.lengths.append(len(column))
        self._write(len(self.lengths) - 1, column, weights)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"block_{number:05d}.tokens", self.folder / f"block_{number:05d}.weights"

    def _write(self, number: int, column: Int32, weights: Int64, shorter: bool = False) -> None:
        """`shorter`: some words may have become one token."""
        if shorter and self.state.lives is None:  # else deletions may split them
            column, weights = write_column(*read_column(column, weights))
        tokens, weight = self._paths(number)
        for array, path in ((column, tokens), (weights, weight)):
            with open(path, "wb") as out:
                write_array(array, out)
        self.lengths[number] = len(column)

    def _read(self, number: int) -> tuple[Int32, Int64]:
        tokens, weight = self._paths(number)
        return np.fromfile(tokens, np.int32), np.fromfile(weight, np.int64)

    @property
    def places(self) -> int:
        """Length of the column, separators included."""
        return sum(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes in memory while a pass runs."""
        return SCAN_BYTES_PER_PLACE * self.threads * max(self.lengths, default=0)

    def count_pairs(self, limit: int, folder: Path) -> PairCounter:
        """Every pair with its count, from scratch, in about so many bytes and files under the folder."""
        counter = PairCounter(limit, folder, self.threads)

        list(self._each(lambda _, column, weights: counter.count(column, weights, self.state.disjoint)))
        return counter

    def digest(self, pairs: HotPairs, held: HotPairs, room: int) -> Digest | None:
        """The stretches in which merges above a count can happen; made in one sweep, small whatever the column's
        length.

        Take all pairs that count more than some floor. A *chain* is a longest stretch of tokens in which every
        two neighbours are one of those pairs; each distinct chain is kept once with the sum of its words' weights:

            pairs above 10   (a,b) (b,c) (c,d)     words   xabcd x5 · abcy x2 · zabcd x4 · abxcd x8
            digest                                 abcd 9 · abc 2 · ab 8 · cd 8

        Learning from the digest gives the very merges of the whole column, with their counts, for as long as the
        best pair counts more than the floor. To see why, take any pair (x, y) that counts more than it after some
        merges of this stage. The last token that x had at the start and the first that y had stood next to each other
        wherever (x, y) stands now, so their pair counted no less: it is above the floor, hence inside a chain, and so
        is each token that x and y were made of. All occurrences of (x, y) are in the digest, and what is best there is
        best everywhere. A pair that may not merge may stand between those two, if something may be born across it: such
        pairs above the floor are links too, `held` (none where the best pair is alone: one merge needs none). Two ways
        to make one token would break "the last token that x had", so a merge onto a living token ends the stage.

        None where chains outgrow `room` tokens. O(places) time; memory: a few blocks, and some 60 bytes per token of
        the digest.
        """
        left, right = np.append(pairs.left, held.left), np.append(pairs.right, held.right)
        finder = ChainFinder(left, right, len(pairs.left), self.state.next_id)

        def one(_: int, column: Int32, weights: Int64) -> ChunkList:
            return finder.count(column, weights)

        lists: list[ChunkList] = []
        tokens, folded = 0, 0
        for found in self._each(one):
            lists.append(found)
            tokens += found.text_bytes // finder.itemsize
            if tokens <= max(room, 2 * folded):
                continue
            lists = [merge(lists)]
            folded = tokens = lists[0].text_bytes // finder.itemsize
            if folded > room:
                return None
        chains = merge(lists)
        if chains.text_bytes // finder.itemsize > room:
            return None
        flat, offsets = finder.tokens(chains)
        return Digest(*write_column(flat, offsets, chains.n), numbered(chains), finder)

    def rewrite(self, digest: Digest, chains: Iterable[tuple[Int32, Int64, Int64]], last: Batch | None = None) -> None:
        """Every chain becomes what learning made of it in the digest, then the tokens that the last batch deleted
        become their parts: one sweep that reads each block and writes those it changes.

        O(places) time; memory: a few blocks.
        """
        parts = [write_column(*part, 1)[0] for part in chains]
        column = np.concatenate([part[:-1] for part in parts] + [parts[-1][-1:]])
        first = np.flatnonzero(column == SEPARATOR) + 1
        deleted = [event for event in (last.events if last else ()) if event.into and event.n]

        def one(number: int, block: Int32, weights: Int64) -> None:
            size = len(block)
            block = digest.finder.rewrite(digest.numbers, block, column, first)
            changed = len(block) < size or np.isin(block, [gone.id for gone in deleted]).any()
            for gone in deleted:
                block = split_token(block, gone)
            if changed:
                self._write(number, block, weights, shorter=True)

        list(self._each(one))

    def _each(self, one: Callable[[int, Int32, Int64], T]) -> Iterator[T]:
        """`one` of every block's number and content, in order, by all threads."""
        return in_order(lambda number: one(number, *self._read(number)), range(len(self.lengths)), self.threads)

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, block by block."""
        for number in range(len(self.lengths)):
            yield read_column(*self._read(number))

    def remove(self) -> None:
        """Delete the block files."""
        remove_folder(self.folder)
        self.lengths = []
