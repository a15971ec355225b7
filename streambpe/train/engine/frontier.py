"""Which pairs of the words on disk are worth looking at: hot ones in memory, the rest is left in the blocks.

A pair is *hot* while it is in the frontier. Every pair that counted at least `floor` when the frontier was
last filled, or when it was born, is there with its exact count; all others are *cold*, nothing is stored for
them, and all that is known is that they count less than the floor. That is enough: counts only fall until the blocks
are counted again, so a cold pair can not win before the frontier's own best falls under the floor.

    floor 100     hot  (t,h) 900 · (i,n) 400 · (o,n) 120          cold: everything that counts 99 or less
    merge (t,h):  born (th,e) 350 -> hot;  born (th,u) 12 -> cold, never stored
    the best hot pair counts 99 or less -> counted again, floor 12

Blocks are counted by `PairCounter`: partial counts, spilled to disk by a hash of the pair when they outgrow their share
of the budget, and added up one part at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from streambpe.train.engine.batch import Bool, Int64

SHORT_LIST = 2048  # pairs; larger means fewer rebuilds, smaller means faster `best`
RECENT_KEYS = 16384

PairFilter = Callable[[Int64, Int64], Bool]


@dataclass(frozen=True)
class FloorWish:
    """How deep a refill goes. The floor is a count, so pairs that tie come or stay together.

    at_least: counts below this are of no use (min_frequency). most: hot pairs that fit. fewest: but at least so many
    (BatchBPE's rule looks at k pairs at once). at_most: never above this (replay needs every logged pair).
    """

    at_least: int = 1
    most: int = 1 << 20
    fewest: int = 1
    at_most: int = 2**63 - 1

    def floor(self, count: Int64) -> int:
        """The floor for these counts; when more than `most` pairs tie for the best they all come."""
        if len(count) == 0:
            return self.at_least
        best = int(count.max())
        floor = 0
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
    """The k best pairs, best first, and a count that no other passes."""

    slots: Int64
    floor_count: int


class Frontier:
    """Hot pairs by slot number: parallel arrays that grow at the end; a slot is never reused between
    refills."""

    def __init__(self) -> None:
        self.floor = 0  # cold pairs count less than this; 0 before the first fill
        self.size = 0
        self.left = np.empty(0, np.int64)
        self.right = np.empty(0, np.int64)
        self.count = np.empty(0, np.int64)
        self._short = np.empty(0, np.int64)
        self._short_floor = 0
        self._keys = np.empty(0, np.int64)  # sorted, for `find`
        self._key_slots = np.empty(0, np.int64)
        self._recent = (self._keys, self._key_slots)
        self._keyed = 0  # slots below this are in one of the two

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.left, self.right, self.count, self._keys, self._key_slots)
        return sum(array.nbytes for array in arrays)

    def fill(self, left: Int64, right: Int64, count: Int64, floor: int) -> None:
        """Replace everything: all pairs that count at least `floor`."""
        self.left, self.right, self.count = left, right, count
        self.size = len(left)
        self.floor = floor
        self._short = np.empty(0, np.int64)
        self._short_floor = np.iinfo(np.int64).max
        self._keys = np.empty(0, np.int64)
        self._key_slots = np.empty(0, np.int64)
        self._recent = (self._keys, self._key_slots)
        self._keyed = 0

    def add(self, left: Int64, right: Int64, count: Int64) -> Int64:
        """Add born pairs; returns their slots. The caller leaves out those below the floor."""
        slots = np.arange(self.size, self.size + len(left))
        self._reserve(self.size + len(left))
        for array, values in ((self.left, left), (self.right, right), (self.count, count)):
            array[slots] = values
        self.size += len(left)
        self._short = np.concatenate((self._short, slots[count >= self._short_floor]))
        return slots

    def _reserve(self, size: int) -> None:
        if size <= len(self.left):
            return
        room = max(size, len(self.left) + len(self.left) // 2, 1024)
        for name in ("left", "right", "count"):
            old = getattr(self, name)
            array = np.empty(room, np.int64)
            array[: self.size] = old[: self.size]
            setattr(self, name, array)

    def retire(self, slots: Int64) -> None:
        """These pairs have no occurrence left, or may not be merged."""
        self.count[slots] = 0

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
        if len(slots) > k and self.count[slots[k]] > self.floor - 1:
            return Best(slots[:k], int(self.count[slots[k]]))
        return Best(slots[:k], max(self._short_floor - 1, self.floor - 1))

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

    One row is (key, n), key = left << 32 | right. A spilled part is read back alone, so the peak is
    the largest part, about 1/64 of all distinct pairs, or the rows kept, whichever is more. 16 bytes a
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
        (rows,) = parts.select("key", "n").to_arrow().combine_chunks().to_batches()
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
        kept = pl.DataFrame(schema={"key": pl.Int64, "n": pl.Int64})
        floor = wish.at_least
        for part in self.parts():
            frame = part.filter(pl.col("n") >= floor)
            if allowed is not None:
                key = frame["key"].to_numpy()
                frame = frame.filter(pl.Series(allowed(key >> 32, key & 0xFFFFFFFF), dtype=pl.Boolean))
            kept = pl.concat((kept, frame))
            if len(kept) > wish.most:
                # More parts only raise the floor, so what falls out now would fall out later.
                floor = max(floor, wish.floor(kept["n"].to_numpy()))
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
    """Add up the rows of equal pairs: key, n."""
    return frame.group_by("key").agg(pl.col("n").sum())
