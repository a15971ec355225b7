"""Which pairs are worth looking at: the hot ones in memory, everything below a floor left in the columns.

A pair is *hot* while it is in the frontier. Every pair that counted at least `floor` when the frontier was
last filled, or when it was born, is there with its exact count; all others are *cold*, nothing is stored for
them, and all that is known is that they count less than the floor. That is enough: inside plain BPE counts
only fall, so a cold pair can not win before the frontier's own best falls under the floor. Then the
frontier is *refilled*: the columns are counted again and a lower floor is chosen.

    floor 100     hot  (t,h) 900 · (i,n) 400 · (o,n) 120          cold: everything that counts 99 or less
    merge (t,h):  born (th,e) 350 -> hot;  born (th,u) 12 -> cold, never stored, no positions kept
    the best hot pair counts 99 or less -> refill, floor 12

Why count again instead of storing cold pairs and appending deltas: a merge changes about four pairs per
occurrence, nearly all of them cold, so deltas would write more than the columns hold; there are few
refills (about five on the way to 131 072 tokens) and each is one sort of the columns, which then have also
shrunk.

Counts can also rise: a deletion, or a merge whose bytes are a living token, brings occurrences of old pairs.
A hot pair then gets more positions beside its first stretch (`stand_at`) and its count (`shift`). A cold one
may count up to floor - 1 + what was added (`raised`); when that bound matters, the engine counts just the
pairs it is about (`too_high`, IndexColumn.promote), and only a best pair under the floor means a refill.

Memory: 40 bytes a hot pair, plus 8 for the short list of the best; what has risen and what stands elsewhere is in
`nbytes` too. `best` costs O(short list), `add` and
`subtract` O(their input); the short list is rebuilt from all hot pairs when it runs low.

Columns too large for memory are counted by `PairCounter`: partial counts, spilled to disk by a hash of the
pair when they outgrow their share of the budget, and added up one part at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from streambpe.train.batch import Bool, Int32, Int64

SHORT_LIST = 2048  # pairs; larger means fewer rebuilds, smaller means faster `best`
RECENT_KEYS = 16384
RAISED_BYTES = 160  # a cold pair that has risen, in a dict
STRETCH_BYTES = 240  # a stretch of further positions beside its own bytes: array, list, entry of a dict

PairFilter = Callable[[Int64, Int64], Bool]


@dataclass(frozen=True)
class FloorWish:
    """How deep a refill goes. The floor is a count, so pairs that tie come or stay together.

    at_least: counts below this are of no use (min_frequency). most: hot pairs that fit. ratio: the floor
    is the best count over this; a lower floor means fewer refills and more positions to keep. fewest: but
    at least so many pairs (BatchBPE's rule looks at k pairs at once). at_most: never above this (replay
    needs every logged pair).
    """

    at_least: int = 1
    most: int = 1 << 20
    ratio: int = 1 << 62
    fewest: int = 1
    at_most: int = 2**63 - 1

    def floor(self, count: Int64) -> int:
        """The floor for these counts; when more than `most` pairs tie for the best they all come."""
        if len(count) == 0:
            return self.at_least
        best = int(count.max())
        floor = min(best // self.ratio, self.at_most)
        if self.most < len(count):
            cut = len(count) - self.most - 1
            floor = max(floor, int(np.partition(count, cut)[cut]) + 1)
        if self.fewest > len(count):
            return self.at_least
        few = len(count) - self.fewest
        enough = int(np.partition(count, few)[few]) if self.fewest > 1 else best
        floor = min(floor, enough, self.at_most)
        return max(self.at_least, floor)


@dataclass
class Best:
    """The k best pairs, best first, and the key of the best one left out (see batch.Candidates)."""

    slots: Int64
    floor_count: int
    floor_left: int
    floor_right: int


class Frontier:
    """Hot pairs by slot number: parallel arrays that grow at the end; a slot is never reused between
    refills."""

    def __init__(self) -> None:
        self.floor = 0  # cold pairs count less than this; 0 before the first fill
        self.size = 0
        self.left = np.empty(0, np.int64)
        self.right = np.empty(0, np.int64)
        self.count = np.empty(0, np.int64)
        self.begin = np.empty(0, np.int64)  # first position in the index (unused by a scan)
        self.places = np.empty(0, np.int64)  # positions, or an upper bound of them
        self.raised: dict[int, int] = {}  # cold pair (left << 32 | right) -> what was added to it
        self._most_raised = 0
        self.more: dict[int, list[Int64]] = {}  # slot -> further positions
        self._more_bytes = 0
        self._short = np.empty(0, np.int64)
        self._short_floor = 0
        self._keys = np.empty(0, np.int64)  # sorted, for `find`
        self._key_slots = np.empty(0, np.int64)
        self._recent = (self._keys, self._key_slots)
        self._keyed = 0  # slots below this are in one of the two

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.left, self.right, self.count, self.begin, self.places, self._keys, self._key_slots)
        return sum(a.nbytes for a in arrays) + self.risen_bytes

    @property
    def risen_bytes(self) -> int:
        """Of them, what counts that rose have brought; gone after a refill."""
        return self._more_bytes + RAISED_BYTES * len(self.raised)

    def fill(self, left: Int64, right: Int64, count: Int64, begin: Int64, places: Int64, floor: int) -> None:
        """Replace everything: all pairs that count at least `floor`."""
        self.left, self.right, self.count = left, right, count
        self.begin, self.places = begin, places
        self.size = len(left)
        self.floor = floor
        self.raised.clear()
        self._most_raised = 0
        self.more.clear()
        self._more_bytes = 0
        self._short = np.empty(0, np.int64)
        self._short_floor = np.iinfo(np.int64).max
        self._keys = np.empty(0, np.int64)
        self._key_slots = np.empty(0, np.int64)
        self._recent = (self._keys, self._key_slots)
        self._keyed = 0

    def add(self, left: Int64, right: Int64, count: Int64, begin: Int64, places: Int64) -> Int64:
        """Add born pairs; returns their slots. The caller leaves out those below the floor."""
        slots = np.arange(self.size, self.size + len(left))
        self._reserve(self.size + len(left))
        for array, values in (
            (self.left, left),
            (self.right, right),
            (self.count, count),
            (self.begin, begin),
            (self.places, places),
        ):
            array[slots] = values
        self.size += len(left)
        self._short = np.concatenate((self._short, slots[count >= self._short_floor]))
        return slots

    def _reserve(self, size: int) -> None:
        if size <= len(self.left):
            return
        room = max(size, len(self.left) + len(self.left) // 2, 1024)
        for name in ("left", "right", "count", "begin", "places"):
            old = getattr(self, name)
            array = np.empty(room, np.int64)
            array[: self.size] = old[: self.size]
            setattr(self, name, array)

    def subtract(self, slots: Int64, weight: Int64) -> None:
        """Take away occurrences; slot -1 is a cold pair and is passed over."""
        hot = slots >= 0
        np.subtract.at(self.count, slots[hot], weight[hot])

    def retire(self, slots: Int64) -> None:
        """These pairs have no occurrence left, or may not be merged."""
        self.count[slots] = 0

    def shift(self, left: Int64, right: Int64, n: Int64) -> None:
        """Counts that rose or fell by n: hot pairs are exact, cold ones are bounded."""
        slots = self.find(left, right)
        hot = slots >= 0
        slots, by = slots[hot], n[hot]
        self.count[slots] += by
        # Those that were too low for the short list may belong in it now.
        back = slots[(by > 0) & (self.count[slots] >= self._short_floor)]
        if len(back):
            self._short = np.union1d(self._short, back)
        cold = ~hot & (n > 0)
        for key, added in zip(((left[cold] << 32) | right[cold]).tolist(), n[cold].tolist(), strict=True):
            raised = self.raised[key] = self.raised.get(key, 0) + added
            if raised > self._most_raised:
                self._most_raised = raised

    def stand_at(self, slots: Int64, places: Int64) -> None:
        """Further positions of hot pairs."""
        by = np.argsort(slots, kind="stable")
        slots, places = slots[by], places[by]
        first = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])) if len(slots) else slots)
        for slot, stretch in zip(slots[first].tolist(), np.split(places, first[1:]), strict=False):
            self.more.setdefault(slot, []).append(stretch)
            self._more_bytes += STRETCH_BYTES + stretch.nbytes

    def with_more(self, slots: Int64, place: Int32, pair: Int64) -> tuple[Int64, Int64]:
        """Positions of these slots (pair[i] says of which one) with their further ones behind."""
        places, pairs = [place.astype(np.int64)], [pair]
        for number, slot in enumerate(slots.tolist()):
            for stretch in self.more.get(slot, ()):
                places.append(stretch)
                pairs.append(np.full(len(stretch), number))
        return np.concatenate(places), np.concatenate(pairs)

    @property
    def cold_bound(self) -> int:
        """The most a cold pair can count."""
        return self.floor - 1 + self._most_raised

    def needs_refill(self, best_count: int) -> bool:
        """Whether a cold pair could count as much as the best hot one."""
        return best_count <= self.cold_bound

    def too_high(self, least: int) -> tuple[Int64, Int64]:
        """Take out the cold pairs that could count `least`: (left, right). The caller counts them."""
        out = [key for key, added in self.raised.items() if self.floor - 1 + added >= least]
        for key in out:
            del self.raised[key]
        self._most_raised = max(self.raised.values(), default=0)
        keys = np.array(out, np.int64)
        left, right = keys >> 32, keys & 0xFFFFFFFF
        cold = self.find(left, right) < 0
        return left[cold], right[cold]

    def best(self, k: int, label: Int64, at_least: int) -> Best:
        """The k best pairs that count `at_least` (never less than the floor), best first.

        `label[token]` sorts tokens as the tie rule does. Fewer than k when there are no more.
        """
        at_least = max(at_least, self.floor)
        short = self._short
        count = self.count[short]
        keep = count >= self._short_floor
        alive = int(np.count_nonzero(keep))
        if alive <= k and self._short_floor > at_least:
            self._rebuild(max(SHORT_LIST, 8 * k), at_least)
            short = self._short
            count = self.count[short]
        elif alive < len(short) // 2:
            self._short = short = short[keep]
            count = count[keep]
        if len(short) > k + 1:
            cut = len(short) - (k + 1)
            threshold = max(int(np.partition(count, cut)[cut]), self._short_floor)
        else:
            threshold = self._short_floor
        chosen = np.flatnonzero(count >= threshold)
        slots = short[chosen]
        by = np.lexsort((label[self.right[slots]], label[self.left[slots]], -count[chosen]))[: k + 1]
        slots = slots[by]
        if len(slots) > k and self.count[slots[k]] > self.cold_bound:
            out = int(slots[k])
            return Best(
                slots[:k],
                int(self.count[out]),
                int(label[self.left[out]]),
                int(label[self.right[out]]),
            )
        return Best(slots[:k], max(self._short_floor - 1, self.cold_bound), -1, -1)

    def _rebuild(self, wanted: int, at_least: int) -> None:
        count = self.count[: self.size]
        slots = np.flatnonzero(count >= at_least)
        floor = at_least
        if len(slots) > wanted:
            values = count[slots]
            cut = len(values) - wanted
            floor = int(np.partition(values, cut)[cut])
            slots = slots[values >= floor]
        self._short = slots
        self._short_floor = floor

    def find(self, left: Int64, right: Int64) -> Int64:
        """The slots of these pairs, -1 where cold. Cost: two binary searches each.

        Sorted keys are kept in a large part and a small recent one, which is folded in when it has grown.
        """
        if self._keyed < self.size:
            new = np.arange(self._keyed, self.size)
            keys = np.concatenate((self._recent[0], (self.left[new] << 32) | self.right[new]))
            slots = np.concatenate((self._recent[1], new))
            if len(keys) > RECENT_KEYS:
                keys = np.concatenate((self._keys, keys))
                slots = np.concatenate((self._key_slots, slots))
            by = np.argsort(keys, kind="stable")
            if len(keys) > RECENT_KEYS:
                self._keys, self._key_slots = keys[by], slots[by]
                by = by[:0]
            self._recent = (keys[by], slots[by])
            self._keyed = self.size
        key = (left << 32) | right
        found = np.full(len(key), -1, np.int64)
        for keys, slots in ((self._keys, self._key_slots), self._recent):
            if len(keys) and len(key):
                # The last of equal keys: pairs of an id that came back have a second slot, the first is void.
                place = np.maximum(np.searchsorted(keys, key, side="right") - 1, 0)
                found = np.where(keys[place] == key, slots[place], found)
        return found


class PairCounter:
    """Adds up partial pair counts within a budget of rows; what is more goes to disk, by a hash of the pair.

    One row is (key, n, places), key = left << 32 | right. A spilled part is read back alone, so the peak is
    the largest part, about 1/64 of all distinct pairs, or the rows kept, whichever is more. 24 bytes a
    row, about three times that while Polars groups.
    """

    def __init__(self, max_rows: int, folder: Path | None, parts: int = 64) -> None:
        self.max_rows = max_rows
        self.split = parts if max_rows > 1024 else 3
        self.folder = folder
        self.spills = 0
        self._frames: list[pl.DataFrame] = []
        self._rows = 0
        self._files: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add partial counts."""
        self._frames.append(frame)
        self._rows += len(frame)
        if self._rows > self.max_rows:
            self._fold()
            if self._rows > self.max_rows // 2:
                self._spill()

    def _fold(self) -> None:
        if len(self._frames) > 1:
            frame = sum_pairs(pl.concat(self._frames))
            self._frames = [frame]
            self._rows = len(frame)

    def _spill(self) -> None:
        if self.folder is None or self._frames[0].is_empty():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        parts = self._frames[0].with_columns(part=pl.col("key").hash(0) % self.split).sort("part")
        bounds = np.searchsorted(parts["part"].to_numpy(), np.arange(self.split + 1))
        (rows,) = parts.select("key", "n", "places").to_arrow().combine_chunks().to_batches()
        path = self.folder / f"pairs_{self.spills:05d}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            for start, stop in pairwise(bounds.tolist()):  # one record batch a part
                writer.write_batch(rows.slice(start, stop - start))
        self._files.append(path)
        self._frames, self._rows = [], 0
        self.spills += 1

    def parts(self) -> Iterator[pl.DataFrame]:
        """All pairs with their full counts, in disjoint parts; the spilled files are deleted at the end."""
        self._fold()
        if not self._files:
            yield from self._frames
            return
        if self._frames:
            self._spill()
        for part in range(self.split):
            yield sum_pairs(pl.concat([_read_batch(path, part) for path in self._files]))
        for path in self._files:
            path.unlink()
        self._files = []

    def best(self, wish: FloorWish, allowed: PairFilter | None = None) -> tuple[pl.DataFrame, int]:
        """The pairs that count at least the returned floor (see FloorWish), and the floor."""
        kept = pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64, "places": pl.Int64})
        floor = wish.at_least
        for part in self.parts():
            frame = part.filter(pl.col("n") >= floor)
            if allowed is not None:
                key = frame["key"].to_numpy()
                frame = frame.filter(pl.Series(allowed(key >> 32, key & 0xFFFFFFFF), dtype=pl.Boolean))
            kept = pl.concat((kept, frame))
            if len(kept) > wish.most:
                # More parts only raise the floor, so what falls out now would fall out later.
                floor = max(floor, replace(wish, ratio=1 << 62).floor(kept["n"].to_numpy()))
                kept = kept.filter(pl.col("n") >= floor)
        floor = max(floor, wish.floor(kept["n"].to_numpy()))
        return kept.filter(pl.col("n") >= floor), floor


def _read_batch(path: Path, number: int) -> pl.DataFrame:
    """One record batch of a file, and nothing else of it: a memory map's pages would count as ours."""
    with pa.OSFile(str(path), "rb") as file:
        frame = pl.from_arrow(pa.ipc.open_file(file).get_batch(number))
    assert isinstance(frame, pl.DataFrame)
    return frame


def sum_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """Add up the rows of equal pairs: key, n, places."""
    return frame.group_by("key").agg(pl.col("n").sum(), pl.col("places").sum())
