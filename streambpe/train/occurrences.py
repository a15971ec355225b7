"""Where the candidate pairs are: an index in memory, or a scan of blocks on disk.

Both hold the words as one *column* of token ids with a separator (-1) on either side of every word:

    words  hello x3 · he x9      column  -1 h e l l o -1 h e -1      weights 3 9

The index answers the engine's questions itself: count all pairs (`fill`), find the occurrences of the
candidates (`find`), rewrite those that were executed (`apply`), say which pairs lost by it (`lost_slots`). The
scan boils the column down to a *digest* that fits in memory as an index (`digest`), and when the engine has
learned from that as far as it reaches, does the same to the whole column (`rewrite`). Words that have become one
token leave the column whenever it is compacted.

**Index** (`IndexColumn`). No pointers: a merged token covers the places of its parts and its id stands on
the first and the last of them; `width[id]` says how many they are. The token in front of place p ends at p
- 1, the one behind p begins at p + width. After merging (h, e) -> 256, with width[256] = 2:

    column  -1 256 256 l l o -1 256 256 -1

`slot[p]` names the frontier pair that begins at p (COLD: none that is hot; DEAD: no token begins here), so
"is this entry of the index still true" and "which pair loses an occurrence" are one look-up each. The
positions of a hot pair are one stretch of `arena`: pairs get all of their positions when counted or when
born. Entries are never removed, only found out of date. Memory: 12 bytes a place (column, slot, word), 4
per position of a hot pair, 8 per word. Building it sorts one 8-byte key per place, 32 bytes a place at the
peak; where that does not fit it is built in pieces, slower, with 17 (`lean`). Cost of a pass: the candidates'
positions.

**Scan** (`ScanColumn`). The column lies in files, one per block of some million places, always compact. A
stage of learning sweeps the blocks three times, whatever the number of its merges: count all pairs, make the
digest, rewrite; about 120 ns a place together. Memory: some 40 bytes a place of the blocks at work (one per thread),
whatever the number of blocks, and the digest within its room.

The index is the faster one as soon as it fits; `ScanColumn.to_index` moves over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from streambpe.threads import in_order
from streambpe.train.batch import (
    Candidates,
    Changes,
    Int32,
    Int64,
    Occurrences,
    Places,
    count_changes,
    group_pairs,
    resolve_given,
)
from streambpe.train.frontier import FloorWish, Frontier, PairCounter, PairFilter, sum_pairs

T = TypeVar("T")

SEPARATOR = -1
COLD = -1
DEAD = -2

INDEX_BYTES_PER_PLACE = 32  # at its peak, while being built by one sort
LEAN_INDEX_BYTES_PER_PLACE = 22  # built in pieces; 14 between passes, so there is room to grow
SCAN_BYTES_PER_PLACE = 40  # of a block at work
DENSE_PAIRS = 1 << 21  # counted in a table
OCCURRENCE_BYTES = 160  # a row of Occurrences with the resolver's and the changes' arrays


def write_column(symbols: Int32, offsets: Int64, weights: Int64, shortest: int = 2) -> tuple[Int32, Int64]:
    """Words as a column with separators; words of fewer than two tokens are left out, having no pair.

    `shortest` 1 keeps words of one token: a deletion may split them.
    """
    length = np.diff(offsets)
    keep = length >= shortest
    flat = np.asarray(symbols[int(offsets[0]) : int(offsets[-1])])
    if not keep.all():
        flat = flat[np.repeat(keep, length)]
        length = length[keep]
        weights = weights[keep]
    column = np.full(len(flat) + len(length) + 1, SEPARATOR, np.int32)
    index = np.arange(1, len(flat) + 1)
    index += np.repeat(np.arange(len(length)), length)
    column[index] = flat
    return column, np.ascontiguousarray(weights, dtype=np.int64)


def read_column(column: Int32, weights: Int64) -> tuple[Int32, Int64, Int64]:
    """The words of a compact column again: symbols, offsets, weights."""
    ends = np.flatnonzero(column == SEPARATOR)
    offsets = ends - np.arange(len(ends))
    return column[column != SEPARATOR], offsets, weights


def word_numbers(column: Int32) -> Int32:
    """For each place, the number of its word (separators belong to the word behind them)."""
    numbers = np.cumsum(column == SEPARATOR, dtype=np.int32)
    numbers -= 1
    return numbers


def pair_weights(column: Int32, starts: Int64, weight: Int64, disjoint: bool) -> Int64:
    """What each pair place counts: its word's weight; in a run of equal tokens every other place, if
    disjoint."""
    if not disjoint:
        return weight
    equal = np.flatnonzero(column[starts] == column[starts + 1])
    if len(equal) == 0:
        return weight
    place = starts[equal]
    begins = np.concatenate(([True], place[1:] != place[:-1] + 1))
    index = np.arange(len(equal))
    first = np.maximum.accumulate(np.where(begins, index, 0))
    weight = weight.copy()
    weight[equal[((index - first) & 1) == 1]] = 0
    return weight


def _group_sums(key: Int64, n: Int64) -> tuple[Int64, Int64]:
    """Distinct keys in ascending order, and the sum of each."""
    by = np.argsort(key, kind="stable")
    key = key[by]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])) if len(key) else np.empty(0, bool))
    sums = np.add.reduceat(n[by], first) if len(first) else np.empty(0, np.int64)
    return key[first], sums


def _stretches(first: Int64, size: Int64) -> Int64:
    """All places of the stretches [first[i], first[i] + size[i]), one after another."""
    ends = np.cumsum(size)
    rows = np.arange(int(ends[-1]) if len(ends) else 0)
    rows += np.repeat(first - (ends - size), size)
    return rows


class Rewrite(NamedTuple):
    """How the tokens of some words change: an id becomes its parts everywhere (one part: another name)."""

    number: int
    into: tuple[int, ...]

    def apply(self, column: Int32) -> Int32:
        """A compact column before and after."""
        hits = np.flatnonzero(column == self.number)
        size = np.ones(len(column), np.int64)
        size[hits] = len(self.into)
        changed = np.repeat(column, size)
        first = np.cumsum(size)[hits] - len(self.into)
        changed[(first[:, None] + np.arange(len(self.into))).ravel()] = np.tile(self.into, len(hits))
        return changed


@dataclass
class Pass:
    """What finding and applying touched; goes into the batch's record."""

    positions: int = 0  # index entries or places looked at
    blocks: int = 0
    rewritten: int = 0  # blocks


class IndexColumn:
    """The whole column in memory with the positions of every hot pair."""

    kind = "index"

    def __init__(
        self,
        column: Int32,
        weights: Int64,
        ids: int,
        *,
        disjoint: bool,
        drop_finished: bool = True,
        lean: bool = False,
    ) -> None:
        """`lean`: build in pieces, slower but with less memory than one sort takes. Words of one token leave
        unless `drop_finished` says that the caller wants all of them back."""
        self.lean = lean
        self.token = column
        self.drop_finished = drop_finished
        self.weights = weights
        self.disjoint = disjoint
        self.word = word_numbers(column)
        self.width = np.ones(max(ids, 1), np.int64)
        self.slot = np.full(len(column), COLD, np.int32)
        self.arena = np.empty(0, np.int32)
        self.used = 0
        self.used_at_fill = 0
        self.touched = Pass()
        self.moved = 0  # places of words that stand elsewhere now, see `move_words`
        self._bounds = np.empty(0, np.int64)  # the separators of word i are bounds[i] and bounds[i + 1]
        self._gone: list[Int64] = []  # words that moved
        self._rooms: dict[str, Int64] = {}  # larger arrays that weights and bounds are the front of, see `_append`

    @property
    def places(self) -> int:
        """Length of the column, separators and covered places included."""
        return len(self.token)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.token, self.weights, self.word, self.width, self.slot, self._bounds)
        # Of the arena only what was written takes memory.
        return sum(a.nbytes for a in arrays) + 4 * self.used

    def compact(self) -> None:
        """Close the gaps left by merges, drop words of one token, forget the positions. O(places)."""
        self.arena = np.empty(0, np.int32)
        self.used = 0
        live = self.slot != DEAD
        del self.slot, self.word
        self.token = self.token[live]
        self.weights = self._living_weights()
        self.moved, self._bounds, self._gone, self._rooms = 0, np.empty(0, np.int64), [], {}
        del live
        if self.drop_finished:
            self.token, self.weights = drop_finished(self.token, self.weights)
        self.word = word_numbers(self.token)
        self.slot = np.full(len(self.token), COLD, np.int32)
        self.width[:] = 1

    def _living_weights(self) -> Int64:
        return np.delete(self.weights, np.concatenate(self._gone)) if self._gone else self.weights

    # Words that change their length: a deletion, or a merge onto a token that stands elsewhere in another width.

    def words_with(self, ids: Sequence[int]) -> Int64:
        """The numbers of the words that hold one of these tokens. O(places), about a nanosecond each."""
        hits = self.token == ids[0]
        for number in ids[1:]:
            hits |= self.token == number
        places = np.flatnonzero(hits)
        return np.unique(self.word[places[self.slot[places] != DEAD]]).astype(np.int64)

    def move_words(self, frontier: Frontier, rewrites: Sequence[Rewrite]) -> tuple[Int64, Int64, Int64]:
        """Rewrite the words that hold such tokens; the pairs whose counts change: (left, right, difference).

        A token's occurrences are all equally wide, and a word's parts may need more places than it has, so the
        word is written anew at the end of the column and its old places die. Its hot pairs get the new positions
        (`Frontier.more`). One look at all places for these tokens, then O(places of these words).
        """
        nothing = np.empty(0, np.int64)
        words = self.words_with([rewrite.number for rewrite in rewrites])
        if not len(words):
            return nothing, nothing, nothing
        if not len(self._bounds):
            self._bounds = np.flatnonzero(self.token == SEPARATOR)
        bounds = self._bounds
        places = _stretches(bounds[words], bounds[words + 1] - bounds[words])  # each with the separator in front
        live = places[self.slot[places] != DEAD]
        old = np.append(self.token[live], SEPARATOR).astype(np.int32)
        new = old
        for rewrite in rewrites:
            new = rewrite.apply(new)
        weights = self.weights[words]
        key, n = _group_sums(
            *map(np.concatenate, zip(self._signed(old, weights, -1), self._signed(new, weights, 1), strict=True))
        )
        # Dead: the words with the separators in front of them. Word numbers go on where they ended.
        self.slot[places] = DEAD
        self.moved += len(places)
        self._gone.append(words)
        new = new[1:]  # the column's last separator is the first one's
        width = np.where(new >= 0, self.width[new], 1)
        stop = np.cumsum(width)
        first = stop - width + len(self.token)
        ends = np.flatnonzero(new == SEPARATOR)
        number = np.cumsum(new == SEPARATOR) + len(self.weights)
        self._grow(int(stop[-1]))
        self.token[first] = new
        self.token[first + width - 1] = new
        self.slot[first] = COLD
        self.word[_stretches(first, width)] = np.repeat(number, width)
        self._append("weights", weights)
        self._append("_bounds", first[ends])
        # Positions of hot pairs.
        starts = np.flatnonzero((new[:-1] >= 0) & (new[1:] >= 0))
        slots = frontier.find(new[starts].astype(np.int64), new[starts + 1].astype(np.int64))
        starts, slots = first[starts[slots >= 0]], slots[slots >= 0]
        self.slot[starts] = slots
        frontier.stand_at(slots, starts)
        keep = n != 0
        return key[keep] >> 32, key[keep] & 0xFFFFFFFF, n[keep]

    def _signed(self, column: Int32, weights: Int64, sign: int) -> tuple[Int64, Int64]:
        """(pair, weight) of every counted place of a compact column."""
        starts = np.flatnonzero((column[:-1] >= 0) & (column[1:] >= 0))
        weight = weights[word_numbers(column)[starts]]
        weight = pair_weights(column, starts, weight, self.disjoint)
        return (column[starts].astype(np.int64) << 32) | column[starts + 1], sign * weight

    def _append(self, name: str, more: Int64) -> None:
        """Put more behind an array, in room of its own, so that few words do not cost a copy of all."""
        array, size = getattr(self, name), len(getattr(self, name)) + len(more)
        room = self._rooms.get(name)
        if room is None or len(room) < size:
            room = self._rooms[name] = np.empty(size + (size >> 3) + 1024, np.int64)
            room[: len(array)] = array
        room[len(array) : size] = more
        setattr(self, name, room[:size])

    def _grow(self, more: int) -> None:
        """Room for more places at the end, all of them dead."""
        size = len(self.token)
        base = self.token.base
        if base is None or len(base) < size + more or self.slot.base is None:
            room = size + more + (size >> 4) + 4096
            for name in ("token", "slot", "word"):
                array = np.empty(room, np.int32)
                array[:size] = getattr(self, name)
                setattr(self, name, array[:size])
        for name in ("token", "slot", "word"):
            setattr(self, name, getattr(self, name).base[: size + more])
        self.token[size:] = SEPARATOR
        self.slot[size:] = DEAD

    def promote(self, frontier: Frontier, left: Int64, right: Int64, at_least: int) -> None:
        """Count these cold pairs and make those hot that count enough. O(places), about three nanoseconds each."""
        key = np.sort((left << 32) | right)
        flags = np.zeros(int(left.max()) + 2, bool)
        flags[left] = True
        table = np.minimum(self.token, len(flags) - 1)  # separators (-1) read the last entry too, which is False
        starts = np.flatnonzero(flags[table])
        starts = starts[self.slot[starts] != DEAD]
        token = self.token[starts].astype(np.int64)
        behind = self.token[starts + self.width[token]]
        own = (token << 32) | np.maximum(behind, 0)
        place = np.minimum(np.searchsorted(key, own), len(key) - 1)
        rows = np.flatnonzero((key[place] == own) & (behind >= 0))
        starts, which, token = starts[rows], place[rows], token[rows]
        weight = self.weights[self.word[starts]]
        if self.disjoint and len(starts):
            equal = (key >> 32 == key & 0xFFFFFFFF)[which]
            index = np.arange(len(starts))
            goes_on = np.zeros(len(starts), bool)
            goes_on[1:] = equal[1:] & (which[1:] == which[:-1]) & (starts[:-1] + self.width[token[:-1]] == starts[1:])
            begin = np.maximum.accumulate(np.where(goes_on, 0, index))
            weight = np.where(((index - begin) & 1) == 1, 0, weight)
        count = np.zeros(len(key), np.int64)
        np.add.at(count, which, weight)
        hot = np.flatnonzero(count >= at_least)
        if not len(hot):
            return
        by = np.argsort(which, kind="stable")
        by = by[np.isin(which[by], hot)]
        size = np.bincount(which, minlength=len(key))[hot]
        begin = self._keep(starts[by]) + np.cumsum(size) - size
        slots = frontier.add(key[hot] >> 32, key[hot] & 0xFFFFFFFF, count[hot], begin, size)
        self.slot[starts[by]] = np.repeat(slots, size)

    def fill(
        self,
        frontier: Frontier,
        ids: int,
        wish: FloorWish,
        allowed: PairFilter | None,
        counter_rows: int,
        folder: Path | None,
    ) -> int:
        """Count all pairs of the compact column and index those that count enough; returns the number of spills.

        One sort does both: the key is pair and place in one integer. 32 bytes a place at the peak; `lean`, 13
        and the counter's rows, then 17.
        """
        if self.lean:
            return self._fill_lean(frontier, ids, wish, allowed, counter_rows, folder)
        token = self.token
        bits = len(token).bit_length()
        fits = 2 * int(ids).bit_length() + bits < 63
        parts = []
        for at in range(0, len(token) - 1, 1 << 20):  # in pieces: temporaries stay small and in cache
            piece = token[at : at + (1 << 20) + 1]
            starts = np.flatnonzero((piece[:-1] >= 0) & (piece[1:] >= 0))
            key = piece[starts].astype(np.int64)
            key *= ids
            key += piece[starts + 1]
            starts += at
            if fits:
                key <<= bits
                key |= starts
            parts.append((key, starts if not fits else starts[:0]))
        key = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.int64)
        if fits:
            del parts
            key.sort()
            starts = (key & ((1 << bits) - 1)).astype(np.int32)
            key >>= bits
        else:
            starts = np.concatenate([part[1] for part in parts])
            by = np.argsort(key, kind="stable")
            key, starts = key[by], starts[by].astype(np.int32)
            del by
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])) if len(key) else np.empty(0, bool))
        pair = key[first]
        del key
        weight = self.weights[self.word[starts]]
        if self.disjoint:
            order = np.argsort(starts)
            weight[order] = pair_weights(token, starts[order], weight[order], True)
        count = np.add.reduceat(weight, first) if len(first) else np.empty(0, np.int64)
        size = np.diff(np.append(first, len(starts)))
        del weight
        lefts, rights = pair // ids, pair % ids
        usable = count >= wish.at_least
        if allowed is not None:
            usable &= allowed(lefts, rights)
        floor = wish.floor(count[usable])
        hot = np.flatnonzero(usable & (count >= floor))
        size = size[hot]
        begin = np.cumsum(size) - size
        at_row = np.repeat(first[hot] - begin, size)
        at_row += np.arange(len(at_row))
        places = starts[at_row]
        self.slot[places] = np.repeat(np.arange(len(hot), dtype=np.int32), size)
        self.arena = places
        self.used = len(places)
        frontier.fill(lefts[hot], rights[hot], count[hot], begin, size, floor)
        return 0

    def _fill_lean(
        self,
        frontier: Frontier,
        ids: int,
        wish: FloorWish,
        allowed: PairFilter | None,
        counter_rows: int,
        folder: Path | None,
    ) -> int:
        """The same in pieces: pairs are counted first, then every place is told its slot, then the places are
        dealt out to their pairs. O(places) time, about 100 ns a place; temporaries of a piece."""
        counter = PairCounter(counter_rows, folder)
        weights = np.append(self.weights, 0)
        for at, stop in _pieces(self.token):
            counter.add(count_block(self.token[at:stop], weights[self.word[at:stop]], self.disjoint, ids))
        kept, floor = counter.best(wish, allowed)
        kept = kept.sort("key")
        key = kept["key"].to_numpy()
        hot = pl.DataFrame({"key": key, "slot": np.arange(len(key), dtype=np.int32)})
        size = np.zeros(len(key), np.int64)
        for at, stop in _pieces(self.token):
            piece = self.token[at:stop]
            starts = np.flatnonzero((piece[:-1] >= 0) & (piece[1:] >= 0))
            keys = pl.DataFrame({"key": (piece[starts].astype(np.int64) << 32) | piece[starts + 1]})
            found = keys.join(hot, on="key", how="left", maintain_order="left")
            slot = found["slot"].fill_null(COLD).to_numpy()
            self.slot[at + starts] = slot
            size += np.bincount(slot[slot >= 0], minlength=len(key))
        begin = np.cumsum(size) - size
        self.used = self.used_at_fill = int(size.sum())
        # Untouched pages of the room to grow take no memory, and it need not be copied when it fills.
        self.arena = np.empty(max(2 * len(self.token), self.used), np.int32)
        free = begin.copy()
        for at in range(0, len(self.slot), 1 << 20):
            piece_slot = self.slot[at : at + (1 << 20)]
            rows = np.flatnonzero(piece_slot >= 0)
            packed = (piece_slot[rows].astype(np.int64) << 32) | rows
            packed.sort()
            slot = packed >> 32
            first = np.flatnonzero(np.concatenate(([True], slot[1:] != slot[:-1])) if len(slot) else rows)
            many = np.diff(np.append(first, len(slot)))
            which = slot[first]
            self.arena[np.arange(len(slot)) + np.repeat(free[which] - first, many)] = (packed & 0xFFFFFFFF) + at
            free[which] += many
        frontier.fill(key >> 32, key & 0xFFFFFFFF, kept["n"].to_numpy().copy(), begin, size, floor)
        return counter.spills

    def find(self, frontier: Frontier, slots: Int64) -> Places:
        """All occurrences of these pairs, in column order."""
        size = frontier.places[slots]
        begin = np.cumsum(size) - size
        rows = np.arange(int(size.sum()))
        rows += np.repeat(frontier.begin[slots] - begin, size)
        place = self.arena[rows]
        pair = np.repeat(np.arange(len(slots)), size)
        if frontier.more:
            further, pair = frontier.with_more(slots, place, pair)
            place = further.astype(np.int32)
        self.touched.positions += len(place)
        live = self.slot[place] == slots[pair]
        bits = len(slots).bit_length()
        packed = place[live].astype(np.int64)
        packed <<= bits
        packed |= pair[live]
        packed.sort()
        start = packed >> bits
        pair = packed & ((1 << bits) - 1)
        second = start + self.width[frontier.left[slots]][pair]
        return Places(start, second, pair, self.weights[self.word[start]])

    def describe(self, places: Places, left: Int64, right: Int64) -> Occurrences:
        """What stands around these places of candidates (left, right)."""
        token, start, second, pair = self.token, places.start, places.second, places.pair
        end = second + self.width[right][pair]
        before = token[start - 1].astype(np.int64)
        after = token[end].astype(np.int64)
        found = Occurrences(start, second, end, pair, places.weight, before, after, start - self.width[before])
        if self.disjoint:
            found.run_after = self._run(end, right[pair], after, 1)
            found.run_before = self._run(start - 1, left[pair], before, -1)
        return found

    def _run(self, edge: Int64, token: Int64, neighbour: Int64, step: int) -> Int64:
        """How many equal tokens stand in a row, the executed one included; `edge` is the neighbour's near
        place."""
        length = np.ones(len(edge), np.int64)
        rows = np.flatnonzero(neighbour == token)
        place = edge[rows]
        while len(rows):
            length[rows] += 1
            place = place + step * self.width[token[rows]]
            goes_on = self.token[place] == token[rows]
            rows, place = rows[goes_on], place[goes_on]
        return length

    def lost_slots(self, frontier: Frontier, done: Occurrences, changes: Changes, left: Int64, right: Int64) -> Int64:
        """The hot pairs that lose an occurrence, -1 for cold ones; to be asked before `apply`."""
        row = changes.lost_row
        place = np.where(changes.lost_side == 1, done.second[row], done.previous[row])
        return np.maximum(self.slot[place], COLD).astype(np.int64)

    def apply(self, done: Occurrences, new: Int64, left: Int64, right: Int64, ids: int) -> None:
        """Write the new ids; the pairs around them are cold until `index_born`."""
        if ids > len(self.width):
            width = np.ones(max(ids, len(self.width) + len(self.width) // 2), np.int64)
            width[: len(self.width)] = self.width
            self.width = width
        self.width[new] = done.end - done.start
        self.token[done.start] = new
        self.token[done.end - 1] = new
        self.slot[done.previous[done.before >= 0]] = COLD
        self.slot[done.start] = COLD
        self.slot[done.second] = DEAD

    def index_born(self, changes: Changes, chosen: Int64, first_slot: int) -> Int64:
        """Keep the positions of the chosen born pairs, slots first_slot, ...; returns where each one's
        begin."""
        groups = changes.groups
        size = groups.sizes()[chosen]
        begin = np.cumsum(size) - size
        total = int(size.sum())
        rows = np.arange(total)
        rows += np.repeat(groups.first[chosen] - begin, size)
        places = changes.places[groups.rows[rows]]
        self.slot[places] = np.repeat(np.arange(first_slot, first_slot + len(chosen), dtype=np.int32), size)
        begin += self._keep(places)
        return begin

    def _keep(self, places: Int64) -> int:
        """Write positions into the arena; returns where they begin."""
        begin = self.used
        if begin + len(places) > len(self.arena):
            arena = np.empty(max(begin + len(places), len(self.arena) + len(self.arena) // 4), np.int32)
            arena[:begin] = self.arena[:begin]
            self.arena = arena
        self.arena[begin : begin + len(places)] = places
        self.used += len(places)
        return begin

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, about a million places at a time; the index is left as it is."""
        weights, at, known, last = self._living_weights(), 0, 0, len(self.token) - 1
        while at < last:
            stop = min(at + (1 << 20), last)
            while stop < last and (self.token[stop] != SEPARATOR or self.slot[stop] == DEAD):
                stop += 1
            column = self.token[at : stop + 1][self.slot[at : stop + 1] != DEAD]
            words = int(np.count_nonzero(column == SEPARATOR)) - 1
            yield read_column(column, weights[known : known + words])
            at, known = stop, known + words

    def count_all(self, rows: int, folder: Path | None) -> PairCounter:
        """Every pair with its count, from scratch; the index is left as it is."""
        live = self.slot != DEAD
        counter = PairCounter(rows, folder)
        column = self.token[live]
        counter.add(count_block(column, np.append(self.weights, 0)[self.word[live]], self.disjoint))
        return counter


def drop_finished(column: Int32, weights: Int64) -> tuple[Int32, Int64]:
    """Words of one token leave: they have no pair and never will. O(places)."""
    ends = np.flatnonzero(column == SEPARATOR)
    finished = np.flatnonzero(np.diff(ends) <= 2)
    if len(finished) == 0:
        return column, weights
    keep = np.ones(len(column), bool)
    keep[ends[finished]] = False
    keep[ends[finished] + 1] = False
    return column[keep], np.delete(weights, finished)


def _pieces(column: Int32) -> Iterator[tuple[int, int]]:
    """Cut a column into stretches (at, stop) of about a million places, a separator on both ends of each."""
    at = 0
    while at < len(column) - 1:
        stop = min(at + (1 << 20), len(column) - 1)
        while column[stop] != SEPARATOR:
            stop += 1
        yield at, stop + 1
        at = stop


def count_block(column: Int32, weight: Int64, disjoint: bool, ids: int = 1 << 31) -> pl.DataFrame:
    """Pair counts of a compact column whose places weigh `weight`: key (left << 32 | right), n, places.

    40 ns a place; 10 while there are so few ids that a table of all pairs fits the processor's cache.
    """
    starts = np.flatnonzero((column[:-1] >= 0) & (column[1:] >= 0))
    n = pair_weights(column, starts, weight[starts], disjoint)
    left, right = column[starts].astype(np.int64), column[starts + 1]
    if ids * ids <= min(DENSE_PAIRS, len(column)) and len(n) and int(n.max()) < (1 << 53) // len(n):
        left *= ids
        left += right
        places = np.bincount(left, minlength=ids * ids)
        sums = np.bincount(left, n, minlength=ids * ids)  # doubles, exact below 2^53
        pairs = np.flatnonzero(places)
        key = ((pairs // ids) << 32) | (pairs % ids)
        return pl.DataFrame({"key": key, "n": sums[pairs].astype(np.int64), "places": places[pairs]})
    left <<= 32
    left |= right
    return (
        pl.DataFrame({"key": left, "n": n})
        .group_by("key")
        .agg(pl.col("n").sum(), pl.len().cast(pl.Int64).alias("places"))
    )


@dataclass
class Merged:
    """What a sweep of merges did: losses by slot, born pairs (key, n, places), what each merge's count lost
    before its turn, how often each was made, and how many places were found and rewritten."""

    lost: Int64
    born: pl.DataFrame
    dropped: Int64
    made: Int64
    found: int = 0
    executed: int = 0


class _Matcher:
    """Finds candidates in a column: a class per token on either side, then one look-up per pair of classes.

    About 5 ns a place, whatever the number of candidates; memory is that of the table, at most 16 MB, and
    some temporaries of a slice that stay in cache. More candidates than the table takes (BatchBPE's
    rounds) are looked up by binary search instead.
    """

    SLICE = 1 << 16
    TABLE = 1 << 22

    def __init__(
        self, left: Int64, right: Int64, ids: int, idle: int | None = None, allowed: PairFilter | None = None
    ) -> None:
        """`idle`: pairs from this number on may not merge, nor may those that `allowed` refuses; all such pairs
        are found too, the refused ones under the number len(left)."""
        self._size = len(left)
        self._allowed = allowed
        self.idle = len(left) if idle is None else idle
        lefts, row = np.unique(left, return_inverse=True)
        rights, entry = np.unique(right, return_inverse=True)
        stride = len(rights) + 1
        self._dense = stride * (len(lefts) + 1) <= self.TABLE
        # The last entry is that of separators (-1); class 0 is in no candidate.
        # One look-up a token gives both classes: as a left token above, as a right one in the low 32 bits.
        self._classes = np.zeros(ids + 1, np.int64)
        self._classes[lefts] = (np.arange(1, len(lefts) + 1) * stride) << 32
        self._classes[rights] |= np.arange(1, stride)
        key = (row + 1) * stride + entry + 1
        if self._dense:
            self._pair = np.full(stride * (len(lefts) + 1), -1, np.int32)
            self._pair[key] = np.arange(len(left), dtype=np.int32)
        else:
            self._by = np.argsort(key)
            self._keys = key[self._by]

    def __len__(self) -> int:
        return self._size + (self._allowed is not None)

    def find(self, column: Int32) -> tuple[Int64, Int64]:
        """Where candidates begin, and which they are, in column order."""
        start, pair = self._find(column)
        if self._allowed is None:
            return start, pair
        numbers = np.full(len(column), -1, np.int64)
        inside = np.flatnonzero((column[:-1] >= 0) & (column[1:] >= 0))
        refused = ~self._allowed(column[inside].astype(np.int64), column[inside + 1].astype(np.int64))
        numbers[inside[refused]] = self._size
        numbers[start] = pair
        start = np.flatnonzero(numbers >= 0)
        return start, numbers[start]

    def _find(self, column: Int32) -> tuple[Int64, Int64]:
        starts, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for at in range(0, len(column) - 1, self.SLICE):
            piece = column[at : at + self.SLICE + 1]
            classes = self._classes[piece]
            key = classes[:-1] >> 32
            classes &= 0xFFFFFFFF
            key += classes[1:]
            if self._dense:
                pair = self._pair[key]
                start = np.flatnonzero(pair >= 0)
                pairs.append(pair[start].astype(np.int64))
            else:
                place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
                start = np.flatnonzero(self._keys[place] == key)
                pairs.append(self._by[place[start]])
            starts.append(start + at)
        return np.concatenate(starts), np.concatenate(pairs)


@dataclass
class Links:
    """The pairs that chains are made of: best first those that may merge, then those that may not (`banned`,
    and what `allowed` refuses)."""

    left: Int64
    right: Int64
    count: Int64
    floor: int  # the count of the best pair left out
    banned: list[tuple[int, int]]
    allowed: PairFilter | None

    def cut(self, size: int) -> int:
        """The most pairs, `size` at most, that all count more than the next one does; 0 if there are none."""
        if size >= len(self.count):
            return int(np.count_nonzero(self.count > self.floor))
        return int(np.count_nonzero(self.count[:size] > self.count[size]))

    def floor_of(self, size: int) -> int:
        """The count of the best pair that is not among the first `size`."""
        return int(self.count[size]) if size < len(self.count) else self.floor

    def matcher(self, size: int, ids: int) -> _Matcher:
        """Finds the first `size` pairs, and those that may not merge."""
        banned = np.array(self.banned, np.int64).reshape(-1, 2)
        left, right = np.append(self.left[:size], banned[:, 0]), np.append(self.right[:size], banned[:, 1])
        return _Matcher(left, right, ids, size, self.allowed)


@dataclass
class Digest:
    """The distinct chains as a small column; word i has the hash hashes[i], which is in ascending order."""

    column: Int32
    weights: Int64
    hashes: NDArray[np.uint64]
    seed: int
    match: _Matcher
    wide: np.dtype[Any]
    size: int  # of the links, those that it was made for


class ScanColumn:
    """The column as compact blocks in files; memory does not grow with its length. See the module."""

    kind = "scan"

    def __init__(self, folder: Path, *, disjoint: bool, threads: int, drop_finished: bool = True) -> None:
        self.folder = folder
        self.disjoint = disjoint
        self.drop_finished = drop_finished
        self.threads = max(1, threads)
        self.lengths: list[int] = []
        self.touched = Pass()
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, column: Int32, weights: Int64) -> None:
        """One more block."""
        number = len(self.lengths)
        self.lengths.append(len(column))
        self._write(number, column, weights)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"block_{number:05d}.tokens", self.folder / f"block_{number:05d}.weights"

    def _write(self, number: int, column: Int32, weights: Int64, shorter: bool = False) -> None:
        """`shorter`: some words may have become one token."""
        if shorter and self.drop_finished:
            column, weights = drop_finished(column, weights)
        tokens, weight = self._paths(number)
        column.tofile(tokens)
        weights.tofile(weight)
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

    def compact(self) -> None:
        """A scan's blocks are always compact."""

    def split(self, rewrites: Sequence[Rewrite]) -> None:
        """Tokens become their parts, in this order: one sweep that reads each block and writes those it changes."""

        def one(number: int) -> None:
            column, weights = self._read(number)
            if np.isin(column, [rewrite.number for rewrite in rewrites]).any():
                for rewrite in rewrites:
                    column = rewrite.apply(column)
                self._write(number, column, weights)

        for _ in self._each(one):
            pass
        self.touched.positions += self.places

    def fill(
        self,
        frontier: Frontier,
        ids: int,
        wish: FloorWish,
        allowed: PairFilter | None,
        counter_rows: int,
        folder: Path | None,
    ) -> int:
        """Count all pairs block by block and keep those that count enough; returns the number of spills."""
        counter = self.count_all(counter_rows, folder, ids)
        kept, floor = counter.best(wish, allowed)
        kept = kept.sort("key")
        key = kept["key"].to_numpy()
        frontier.fill(
            key >> 32,
            key & 0xFFFFFFFF,
            kept["n"].to_numpy().copy(),
            np.zeros(len(key), np.int64),
            kept["places"].to_numpy().copy(),
            floor,
        )
        return counter.spills

    def count_all(self, rows: int, folder: Path | None, ids: int = 1 << 31) -> PairCounter:
        """Every pair with its count, from scratch."""
        counter = PairCounter(rows, folder)

        def one(number: int) -> pl.DataFrame:
            column, weights = self._read(number)
            return count_block(column, np.append(weights, 0)[word_numbers(column)], self.disjoint, ids)

        for frame in self._each(one):
            counter.add(frame)
        return counter

    def digest(self, links: Links, ids: int, room: int) -> Digest | None:
        """The stretches in which merges above a count can happen: one sweep, small whatever the column's length.

        Take all pairs that count more than some floor. A *chain* is a longest stretch of tokens in which every
        two neighbours are one of those pairs; each distinct chain is kept once with the sum of its words' weights:

            pairs above 10   (a,b) (b,c) (c,d)     words   xabcd x5 · abcy x2 · zabcd x4 · abxcd x8
            digest                                 abcd 9 · abc 2 · ab 8 · cd 8

        Learning from the digest gives the very merges of the whole column, with their counts, for as long as the
        best pair counts more than the floor. For take any pair (x, y) that counts so much after some merges of
        this stage. The last token that x had at the start and the first of y stood next to each other wherever
        (x, y) stands now, so this pair of theirs counted no less: it is above the floor, hence inside a chain,
        and so is each token that x and y were made of. All occurrences of (x, y) are in the digest, and what is
        best there is best everywhere. Pairs that may not merge do not count for the floor, yet something may
        be born across them: they are links of chains too (`Links`). Two ways to one token would break "the last
        token that x had": a merge onto a living token ends the stage.

        Chains that outgrow `room` tokens are cut to those of fewer pairs, with a higher floor; None when not even
        the best pairs' fit. O(places) time; memory: a few blocks, and some 60 bytes a token of the digest.
        """
        size = len(links.left)
        match = links.matcher(size, ids)
        wide = np.dtype(np.uint16 if ids < 1 << 16 else np.int32)

        def one(number: int) -> pl.DataFrame:
            return _distinct_chains(*self._read(number), match, wide)

        frames: list[pl.DataFrame] = []
        tokens, folded = 0, 0
        for frame in self._each(one):
            frames.append(frame)
            tokens += int(frame["tokens"].sum())
            if tokens <= max(room, 2 * folded):
                continue
            frames = [_sum_chains(frames)]
            tokens = int(frames[0]["tokens"].sum())
            while tokens > room:
                size = links.cut(size * 3 // 4)
                if size == 0:
                    return None
                match = links.matcher(size, ids)
                frames = [_distinct_chains(*_chain_column(frames[0], wide), match, wide)]
                tokens = int(frames[0]["tokens"].sum())
            folded = tokens
        self.touched.positions += self.places
        chains = _sum_chains(frames)
        if size < len(links.left):  # blocks that were under way when it was cut
            chains = _distinct_chains(*_chain_column(chains, wide), match, wide)
        if int(chains["tokens"].sum()) > room:
            return None
        seed = 0
        while (hashes := chains["key"].hash(seed)).n_unique() < len(chains):
            seed += 1
        chains = chains.with_columns(hash=hashes).sort("hash")
        column, weights = _chain_column(chains, wide)
        return Digest(column, weights, chains["hash"].to_numpy(), seed, match, wide, size)

    def rewrite(self, digest: Digest, column: Int32) -> None:
        """Every chain becomes what learning made of it in the digest: one sweep that reads and writes each block.

        O(places) time; memory: a few blocks.
        """
        ends = np.flatnonzero(column == SEPARATOR)
        made_first, made_size = ends[:-1] + 1, np.diff(ends) - 1

        def one(number: int) -> None:
            block, weights = self._read(number)
            chains = _chains(block, digest.match)
            if len(chains.first) == 0:
                return
            found = chains.keys(block, digest.wide).hash(digest.seed).to_numpy()
            which = np.searchsorted(digest.hashes, found)
            size = made_size[which]
            length = chains.last + 1 - chains.first
            shorter = np.flatnonzero(size < length)
            if len(shorter) == 0:
                return
            first, which, size, length = chains.first[shorter], which[shorter], size[shorter], length[shorter]
            at = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
            block[np.repeat(first, size) + at] = column[np.repeat(made_first[which], size) + at]
            gone = length - size
            at = np.arange(int(gone.sum())) - np.repeat(np.cumsum(gone) - gone, gone)
            keep = np.ones(len(block), bool)
            keep[np.repeat(first + size, gone) + at] = False
            self._write(number, block[keep], weights, shorter=True)

        for _ in self._each(one):
            pass
        self.touched.positions += self.places

    def merge(self, frontier: Frontier, left: Int64, right: Int64, new: Int64, ids: int) -> Merged:
        """Make these pairs the ids `new`, in this order: one sweep that reads and writes each block once.

        Words do not cross blocks, so each block is resolved by itself, and memory is a few blocks even when
        the pairs stand at a tenth of all places, as the first ones do. O(places) time.
        """
        nothing = np.empty(0, np.int64)
        frontier.find(nothing, nothing)  # sorts new pairs in, so that the threads only read
        match = _Matcher(left, right, ids)
        none = np.zeros(len(left), np.int64)
        given = Candidates(left, right, none, nothing, nothing)
        lost = np.zeros(frontier.size + 1, np.int64)  # the last entry takes what cold pairs lose
        adding = Lock()

        def one(number: int) -> Merged:
            column, weights = self._read(number)
            found = _find_in(column, weights, match)
            if len(found) == 0:
                return Merged(nothing, _no_pairs(), none, none)
            result = resolve_given(found, lambda rows: _describe_in(column, rows, self.disjoint), given)
            done, rank = result.done, result.rank
            lefts, rights = left[rank], right[rank]
            changes = count_changes(done, new[rank], lefts, rights, ids, self.disjoint)
            row, behind = changes.lost_row, changes.lost_side == 1
            loser_left = np.where(behind, rights[row], done.before[row])
            loser_right = np.where(behind, done.after[row], lefts[row])
            groups = group_pairs(loser_left, loser_right, ids)
            head = groups.rows[groups.first]
            slots = frontier.find(loser_left[head], loser_right[head])
            sums = groups.sums(changes.lost_weight)
            with adding:
                lost[slots] += np.where(slots >= 0, sums, 0)
            key = (changes.left << 32) | changes.right
            born = pl.DataFrame({"key": key, "n": changes.count, "places": changes.groups.sizes()})
            column[done.start] = new[rank]
            keep = np.ones(len(column), bool)
            keep[done.second] = False
            self._write(number, column[keep], weights, shorter=True)
            made = none.copy()
            np.add.at(made, rank, done.weight)
            return Merged(nothing, born, result.count, made, len(found), len(done))

        self.touched.positions += self.places
        total = Merged(lost[:-1], _no_pairs(), none.copy(), none.copy())
        born, rows = [_no_pairs()], 0
        for part in self._each(one):
            total.dropped -= part.dropped
            total.made += part.made
            total.found += part.found
            total.executed += part.executed
            born.append(part.born)
            rows += len(part.born)
            if rows > 2 * len(born[0]) + (1 << 20):
                born = [sum_pairs(pl.concat(born))]
                rows = len(born[0])
        total.born = sum_pairs(pl.concat(born)).sort("key")
        return total

    def _each(self, one: Callable[[int], T]) -> Iterator[T]:
        """`one` of every block, in order, by all threads."""
        return in_order(one, range(len(self.lengths)), self.threads)

    def current_words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, block by block."""
        for number in range(len(self.lengths)):
            yield read_column(*self._read(number))

    def to_index(self, ids: int, lean: bool) -> IndexColumn:
        """The same column in memory, read block by block; each file is deleted when it has been read."""
        column = np.empty(max(1, self.places - max(len(self.lengths) - 1, 0)), np.int32)
        count = sum(self._paths(number)[1].stat().st_size // 8 for number in range(len(self.lengths)))
        weights = np.empty(count, np.int64)
        column[0] = SEPARATOR
        at, words = 1, 0
        for number in range(len(self.lengths)):
            block, weight = self._read(number)
            column[at : at + len(block) - 1] = block[1:]
            weights[words : words + len(weight)] = weight
            at += len(block) - 1
            words += len(weight)
            for path in self._paths(number):
                path.unlink()
        self.lengths = []
        return IndexColumn(column, weights, ids, disjoint=self.disjoint, lean=lean, drop_finished=self.drop_finished)

    def remove(self) -> None:
        """Delete the block files."""
        for number in range(len(self.lengths)):
            for path in self._paths(number):
                path.unlink(missing_ok=True)
        self.lengths = []


def _words_at(column: Int32, start: Int64) -> Int64:
    """The number of the word each of these places (ascending) is in: by search when they are few, else by
    counting separators."""
    if 64 * len(start) < len(column):
        return np.searchsorted(np.flatnonzero(column == SEPARATOR), start) - 1
    numbers = np.cumsum(column == SEPARATOR, dtype=np.int32)
    return numbers[start].astype(np.int64) - 1


def _find_in(column: Int32, weights: Int64, match: _Matcher) -> Places:
    """All occurrences of the candidates in one compact column."""
    start, pair = match.find(column)
    return Places(start, start + 1, pair, weights[_words_at(column, start)])


def _describe_in(column: Int32, places: Places, disjoint: bool) -> Occurrences:
    """What stands around these places of a compact column."""
    start = places.start
    before, after = column[start - 1].astype(np.int64), column[start + 2].astype(np.int64)
    found = Occurrences(start, places.second, start + 2, places.pair, places.weight, before, after, start - 1)
    if disjoint:
        found.run_after = _run_in(column, places.second, 1)
        found.run_before = _run_in(column, start, -1)
    return found


@dataclass
class _Chains:
    """Where chains are in a column: their first and last places."""

    first: Int64
    last: Int64

    def keys(self, column: Int32, wide: np.dtype[Any]) -> pl.Series:
        """Each chain's tokens as bytes."""
        tokens = self.last + 1 - self.first
        offsets = np.concatenate(([0], np.cumsum(tokens)))
        rows = np.arange(int(offsets[-1])) + np.repeat(self.first - offsets[:-1], tokens)
        flat = column[rows].astype(wide)
        keys = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(tokens), [None, pa.py_buffer(offsets * wide.itemsize), pa.py_buffer(flat)]
        )
        return pl.Series(pl.from_arrow(keys))


def _chains(column: Int32, match: _Matcher) -> _Chains:
    """The chains of a column (see ScanColumn.digest) that hold a pair which may merge."""
    start, pair = match.find(column)
    ends = np.ones(len(start) + 1, bool)  # no chain goes on from row i - 1 to row i
    ends[1:-1] = np.diff(start) > 1
    edge = np.flatnonzero(ends)
    chains = _Chains(start[edge[:-1]], start[edge[1:] - 1] + 1)
    if match.idle < len(match) and len(start):
        busy = np.logical_or.reduceat(pair < match.idle, edge[:-1])
        chains = _Chains(chains.first[busy], chains.last[busy])
    return chains


def _distinct_chains(column: Int32, weights: Int64, match: _Matcher, wide: np.dtype[Any]) -> pl.DataFrame:
    """key (the tokens' bytes), n, tokens of each distinct chain of a column."""
    chains = _chains(column, match)
    n = weights[_words_at(column, chains.first)]
    tokens = chains.last + 1 - chains.first
    return _sum_chains([pl.DataFrame({"key": chains.keys(column, wide), "n": n, "tokens": tokens})])


def _sum_chains(frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema={"key": pl.Binary, "n": pl.Int64, "tokens": pl.Int64})
    return pl.concat(frames).group_by("key").agg(pl.col("n").sum(), pl.col("tokens").first())


def _chain_column(chains: pl.DataFrame, wide: np.dtype[Any]) -> tuple[Int32, Int64]:
    """Distinct chains as words of a small column."""
    offsets = np.concatenate(([0], np.cumsum(chains["tokens"].to_numpy())))
    flat = np.frombuffer(b"".join(chains["key"].to_list()), wide)
    return write_column(flat.astype(np.int32), offsets, chains["n"].to_numpy())


def _no_pairs() -> pl.DataFrame:
    return pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64, "places": pl.Int64})


def _run_in(column: Int32, place: Int64, step: int) -> Int64:
    """How many tokens equal to the one at `place` stand in a row from there, going by `step`."""
    length = np.ones(len(place), np.int64)
    rows = np.arange(len(place))
    at = place + step
    while True:
        goes_on = column[at] == column[place[rows]]
        rows, at = rows[goes_on], at[goes_on] + step
        if len(rows) == 0:
            return length
        length[rows] += 1
