"""Words as rows of a table, for the learner of tables (in_tables.py): in blocks, each a Parquet file or in memory.

    word 0 0 0 1 1 1    token 104 105 33 300 33 -1    n 7 7 7 2 2 2        "hi!" 7 times; "hi!" 2 times, after (h, i)

A row is a token of a word. A merge leaves its word shorter: the rows that it needs no more stay behind it, as token -1.
Pairs are packed into one number, left << 32 | right; a table (key, n) has pairs and their counts, or how these change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streambpe.arrays import Int32, Int64
from streambpe.core.learner import Deletion
from streambpe.errors import RunError
from streambpe.later import polars as pl
from streambpe.store.checksums import add_checksum, refuse_damaged
from streambpe.train.engine.column import SEPARATOR, leftmost, split_sizes, split_token

ROW_BYTES = 16  # word, token, n
ID_BITS, _ID_MASK = 32, 0xFFFFFFFF
Pair = tuple[int, int, int]  # left, right, count


def unpack(key: Int64) -> tuple[Int64, Int64]:
    """(left, right) of pairs."""
    return key >> ID_BITS, key & _ID_MASK


class Rows(NamedTuple):
    """Some words: a row for each of their tokens, in order, all rows of a word together; -1 is no token."""

    word: Int32
    token: Int32
    n: Int64

    @classmethod
    def of(cls, column: Int32, weights: Int64) -> Rows:
        """The words of a column (column.py)."""
        inside = column != SEPARATOR
        word = (np.cumsum(~inside, dtype=np.int32) - 1)[inside]
        return cls(word, column[inside], weights[word])

    def at(self, rows: Int64) -> Rows:
        """Those of these numbers."""
        return Rows(self.word[rows], self.token[rows], self.n[rows])

    @property
    def tokens(self) -> Rows:
        """Those that are tokens."""
        return self.at(np.flatnonzero(self.token >= 0))

    def words_at(self, rows: Int64) -> Int64:
        """The numbers of all rows of the words that these rows, in order, belong to."""
        word = self.word[rows]
        word = word[np.flatnonzero(np.diff(word, prepend=-1))]
        first, stop = (np.searchsorted(self.word, word, side=side) for side in ("left", "right"))
        sizes = stop - first
        where: Int64 = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        return where

    def merge(self, at: Int64, ids: Int64, where: Int64) -> None:
        """Put one token in the place of the two that begin at each of these rows, which are of the words `where`.

        at 5   ids 300   where 5 6 7 8 of words 3 3 3 4      token 1 2 33 104   ->   300 33 -1 104
        """
        self.token[at], self.token[at + 1] = ids, -1
        token = self.token[where]
        self.token[where] = token[np.argsort(2 * self.word[where] + (token < 0), kind="stable")]

    def split(self, gone: Deletion) -> Rows:
        """With the parts of a deleted token in its place everywhere."""
        sizes = split_sizes(self.token, gone)
        return Rows(np.repeat(self.word, sizes), split_token(self.token, gone), np.repeat(self.n, sizes))


@dataclass
class WordBlock:
    """Words in a file, or in memory."""

    path: Path
    held: Rows | None = None  # its rows, where they are in memory
    size: int = 0  # tokens
    is_written: bool = False

    def rows(self) -> Rows:
        """All rows, in memory for now."""
        if self.held is not None:
            return self.held
        try:
            refuse_damaged(self.path)
            frame = pl.read_parquet(self.path, glob=False)
        except (OSError, pl.exceptions.PolarsError) as why:
            raise RunError(
                f"{self.path} is damaged ({str(why).splitlines()[0]}). What was learned is kept. Give the same "
                "command again: it makes the file again from the counts."
            ) from None
        word, token, n = (frame[name] for name in Rows._fields)
        return Rows(word.to_numpy(), token.to_numpy(writable=True), n.to_numpy())

    def write(self) -> None:
        """Bring the file up to date."""
        if self.held is not None and not self.is_written:
            new = self.path.with_suffix(".new")
            pl.DataFrame(self.held._asdict()).write_parquet(new, compression="lz4", statistics=False)
            add_checksum(new)
            new.replace(self.path)
            self.is_written = True


class Pairs:
    """Some pairs, to be found in blocks."""

    def __init__(self, pairs: Sequence[Pair], tokens: int) -> None:
        keys = np.array([left << ID_BITS | right for left, right, _ in pairs], np.int64)
        self._which = np.argsort(keys)
        self._keys = keys[self._which]
        self._begins = np.zeros(tokens + 1, bool)  # the last one for -1
        self._begins[keys >> ID_BITS] = True

    def find(self, rows: Rows) -> tuple[Int64, Int64]:
        """(row, number of the pair) of every place where one of them begins."""
        word, token, _ = rows
        at = np.flatnonzero(self._begins[token[:-1]])  # few, so that the rest of the look is short
        at = at[word[at] == word[at + 1]]
        key = token[at].astype(np.int64) << ID_BITS | token[at + 1]
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        good = self._keys[place] == key
        return at[good], self._which[place[good]]


def pairs_of(rows: Rows, disjoint: bool) -> pl.DataFrame:
    """The pairs of some words as rows (key, n). `disjoint`: "aaa" holds (a, a) once."""
    word, token, n = rows
    at = np.flatnonzero((word[:-1] == word[1:]) & (token[1:] >= 0))
    if disjoint:
        equal = token[at] == token[at + 1]
        good = ~equal
        good[equal] = leftmost(at[equal], token[at[equal]])
        at = at[good]
    return pl.DataFrame({"key": token[at].astype(np.int64) << ID_BITS | token[at + 1], "n": n[at]})


def neighbours(rows: Rows, at: Int64, which: Int64) -> pl.DataFrame:
    """What stands before and behind each merged pair, as rows (key, n): key = pair, side, neighbour."""
    word, token, n = rows
    keys, counts = [], []
    for side, step in ((0, -1), (1, 2)):
        beside = at + step
        good = (beside >= 0) & (beside < len(word))
        good[good] = (word[beside[good]] == word[at[good]]) & (token[beside[good]] >= 0)
        keys.append(((which[good] << 1 | side) << ID_BITS) | token[beside[good]])
        counts.append(n[at[good]])
    return pl.DataFrame({"key": np.concatenate(keys), "n": np.concatenate(counts)})
