"""Words as one column of token ids with a separator (-1) on either side of every word:

words  hello x3 · he x9      column  -1 h e l l o -1 h e -1      weights 3 9
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from streambpe.arrays import Bool, Int32, Int64, slices
from streambpe.core.learner import Deletion
from streambpe.model.events import Event

SEPARATOR = -1
_PLACES = 1 << 18  # looked at together


def write_column(
    symbols: Int32 | npt.NDArray[np.uint16], offsets: Int64, weights: Int64, shortest: int = 2
) -> tuple[Int32, Int64]:
    """Words as a column with separators; words of fewer than two tokens are left out, since they have no pair.

    `shortest` 1 keeps words of one token: a deletion may split them.

        symbols  7 8 9 5 6 4   offsets 0 3 4 6   weights 3 2 9      (5 has no pair, and is left out)
        flat     7 8 9 6 4     ends 0 4 7: where the separators stand
        column   -1 7 8 9 -1 6 4 -1              weights 3 9
    """
    length = np.diff(offsets)
    keep = length >= shortest
    flat = np.asarray(symbols[int(offsets[0]) : int(offsets[-1])])
    if not keep.all():
        flat = flat[np.repeat(keep, length)]
        length = length[keep]
        weights = weights[keep]
    column = np.full(len(flat) + len(length) + 1, SEPARATOR, np.int32)
    inside = np.ones(len(column), np.bool_)  # a byte a place: a word may be of millions
    inside[np.append(0, np.cumsum(length + 1))] = False
    column[inside] = flat
    return column, np.ascontiguousarray(weights, dtype=np.int64)


def columns(parts: Iterable[tuple[Int32, Int64, Int64]], most: int, shortest: int) -> Iterator[tuple[Int32, Int64]]:
    """Words as columns of at most so many tokens; a larger word is a column of its own."""
    for symbols, offsets, weights in parts:
        for at, stop in slices(offsets, most):
            yield write_column(symbols, offsets[at : stop + 1], weights[at:stop], shortest)


def read_column(column: Int32, weights: Int64) -> tuple[Int32, Int64, Int64]:
    """The words that a compact column holds: symbols, offsets, weights.

    column -1 7 8 9 -1 6 4 -1   ends 0 4 7   offsets 0 3 5    each end less the separators before it
    """
    ends = np.flatnonzero(column == SEPARATOR)
    offsets = ends - np.arange(len(ends))
    return column[column != SEPARATOR], offsets, weights


def leftmost(at: Int64, which: Int64 | Int32) -> Bool:
    """Of places where pairs begin, those that are merged: of pairs of one token that overlap, every second.

    at 3 4 5 9   which 0 0 0 0   ->   yes no yes yes       "xaaaa": (a, a) begins at three places, and is merged at two
    """
    begins = (np.diff(at, prepend=-2) != 1) | (np.diff(which, prepend=-1) != 0)
    first = np.flatnonzero(begins)
    in_run = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    merged: Bool = in_run % 2 == 0
    return merged


def count_tokens(words: Iterable[tuple[Int32, Int64, Int64]], many: int, *, whole: bool = True) -> tuple[Int64, Int64]:
    """Of each of so many tokens, (how often it stands in these words, how often as a whole word); -1 is no token.
    `whole`: words of one token count, too."""
    total, alone = np.zeros((2, many + 1), np.int64)  # the last one for -1
    for symbols, offsets, weights in words:
        single = np.diff(offsets) == 1
        if whole:
            np.add.at(alone, symbols[offsets[:-1][single]], weights[single])
        else:
            weights = np.where(single, 0, weights)
        for first in range(int(offsets[0]), int(offsets[-1]), _PLACES):  # a word may be of millions
            places = np.arange(first, min(first + _PLACES, int(offsets[-1])))
            word = np.searchsorted(offsets, places, side="right") - 1
            np.add.at(total, symbols[first : first + len(places)], weights[word])
    return total[:-1], alone[:-1]


def split_sizes(tokens: Int32, gone: Deletion | Event) -> Int64:
    """How many tokens each of these becomes when a deleted token is split."""
    return np.where(tokens == gone.id, len(gone.into), 1)


def split_token(tokens: Int32, gone: Deletion | Event) -> Int32:
    """The tokens, or a column, with a deleted token split into its parts everywhere. 8 into (1, 2, 3):

    tokens   -1 7 8 -1 8 9 -1               sizes 1 1 3 1 3 1 1
    changed  -1 7 1 2 3 -1 1 2 3 9 -1       at first -1 7 8 8 8 -1 8 8 8 9 -1
    """
    changed = np.repeat(tokens, split_sizes(tokens, gone))
    places = np.flatnonzero(changed == gone.id)
    changed[places] = np.resize(gone.into, len(places))
    return changed
