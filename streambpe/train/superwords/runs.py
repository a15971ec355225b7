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
neighbours is ever cut off; and open to the left every chunk it can begin with. A pair (S, U) in which S ends with
several chunks then lies at places that are never cut, and the argument above holds again; a longer superword ends
and begins with what its outer parts do. The trainer sees a double spelling at the moment it happens
(`superwords.Spellings`), when everything learned so far is still right, cuts again with these chunks open, and goes
on. Double spellings that neighbours let it foresee are open from the start (`open_chunks_ahead`).

What T is: see train/superwords/phase.py. Runs of one chunk hold nothing and are dropped; equal runs are one with their
number as its weight. Memory: a part for each thread and the distinct runs of one group (about 120 bytes each); a run
that no neighbour cuts is held whole, as a chunk is.
"""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from streambpe.arrays import Bool, Int32, Int64, write_array
from streambpe.core.pairs import PairTable
from streambpe.failpoints import failpoint
from streambpe.files import put_in_place
from streambpe.later import polars as pl
from streambpe.store.made_of import fingerprint, has_note, seal_folder
from streambpe.store.sequences import SequencePart
from streambpe.system import remove_folder
from streambpe.threads import in_order
from streambpe.train.engine.rules import release_maps
from streambpe.train.superwords.neighbours import BARRIER, Groups, Reader, write_whole
from streambpe.train.superwords.sums import Sums
from streambpe.train.words import WordFiles

_SCHEMA = {"run": bytes, "by": int, "n": int}
CUT_BYTES = 400  # of one place while runs are cut again


@dataclass
class OpenChunks:
    """Chunks whose neighbours on one side are never cut off (module docstring)."""

    right: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.right or self.left)

    def add(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """One symbol stands for both sequences of chunks; whether that opens any."""
        before = len(self.right) + len(self.left)
        if one[-1] != other[-1]:
            self.right.update((one[-1], other[-1]))
        if one[0] != other[0]:
            self.left.update((one[0], other[0]))
        return len(self.right) + len(self.left) > before

    @property
    def name(self) -> str:
        """For files that depend on it."""
        listed = f"{sorted(self.right)} {sorted(self.left)}"
        return hashlib.sha256(listed.encode()).hexdigest()[:12]


def open_chunks_ahead(keys: Int64, contents: Sequence[bytes], eligible: Sequence[int]) -> OpenChunks:
    """What will be open if every chunk is joined that neighbours (ascending keys) can spell; a guess, to cut only once.

    Few chunks begin with two neighbours, and only these are taken apart.
    """
    known = {contents[symbol]: symbol for symbol in eligible}
    found = OpenChunks()

    @functools.cache
    def follows(left: int, right: int) -> bool:
        key = (left << 32) | right
        at = int(np.searchsorted(keys, key))
        return at < len(keys) and int(keys[at]) == key

    for content in sorted(_begun_by_neighbours(keys, contents, sorted(known))):
        whole = known[content]
        # the last chunk of every chain that spells the content up to a place, and the steps that lead there
        last: list[set[int]] = [set() for _ in range(len(content) + 1)]
        steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for at in range(len(content)):
            if at and not last[at]:
                continue
            for stop in range(at + 1, len(content) + 1):
                chunk = known.get(content[at:stop])
                if chunk is None or chunk == whole:
                    continue
                before = [(at, left) for left in last[at] if follows(left, chunk)]
                if before or not at:
                    last[stop].add(chunk)
                    steps.setdefault((stop, chunk), []).extend(before)
        waiting = [(len(content), chunk) for chunk in last[-1]]
        seen = set(waiting)
        while waiting:
            stop, chunk = waiting.pop()
            if stop == len(content):
                found.right.update((chunk, whole))
            if stop == len(contents[chunk]):
                found.left.update((chunk, whole))
            more = set(steps[stop, chunk]) - seen
            seen |= more
            waiting += more
    return found


def _begun_by_neighbours(keys: Int64, contents: Sequence[bytes], ordered: Sequence[bytes]) -> set[bytes]:
    """Those of the ordered contents that begin with two neighbours or are two."""
    longer = {one for one, other in pairwise(ordered) if other.startswith(one)}
    goes_on = np.array([content in longer for content in contents], bool)
    left, right = keys >> 32, keys & 0xFFFFFFFF
    at = np.flatnonzero(goes_on[left])
    begun: set[bytes] = set()
    for one, other in zip(left[at].tolist(), right[at].tolist(), strict=True):
        both = contents[one] + contents[other]
        place = bisect_left(ordered, both)
        while place < len(ordered) and ordered[place].startswith(both):
            begun.add(ordered[place])
            place += 1
    return begun


class KeptPairs:
    """Neighbours that are not cut: a set of keys, and all neighbours of chunks that are open."""

    def __init__(self, keys: Int64, open_chunks: OpenChunks, symbols: int) -> None:
        self.table = PairTable()
        self.table.hold(keys)
        self.open_right, self.open_left = np.zeros(symbols, bool), np.zeros(symbols, bool)
        self.open_right[sorted(open_chunks.right)] = True
        self.open_left[sorted(open_chunks.left)] = True

    def join(self, symbols: Int32) -> Bool:
        """Whether each place and the next are such neighbours."""
        return self.table.join(symbols, self.open_right, self.open_left)


def cut_runs(symbols: Int32, kept: KeptPairs) -> tuple[Bool, Int64, Int64]:
    """(whether place i is joined to i + 1, first places of the runs, places behind their last ones).

    place   0 1 2 3 4 5
    joined  1 1 0 0 1 .     0-1-2  3  4-5     starts 0 4   stops 3 6; place 3 is alone, and no run
    """
    joined = np.append(kept.join(symbols), False)
    before = np.concatenate(([False], joined[:-1]))
    return joined[:-1], np.flatnonzero(joined & ~before), np.flatnonzero(~joined & before) + 1


def group_runs(flat: Int32, lengths: Int64) -> pl.DataFrame:
    """Rows (run, by, n): each distinct run as its symbols' bytes, a number that spreads runs evenly, how often."""
    return _run_rows(flat, lengths).group_by("run").agg(pl.first("by"), pl.len().cast(pl.Int64).alias("n"))


def _run_rows(flat: Int32, lengths: Int64) -> pl.DataFrame:
    ends = np.cumsum(lengths)
    offsets = np.concatenate(([0], ends)) * 4
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(flat)]
    )
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    starts = ends - lengths
    mixed = flat[starts].astype(np.uint64) << np.uint64(40)
    mixed ^= flat[starts + 1].astype(np.uint64) << np.uint64(20)
    mixed ^= flat[ends - 1].astype(np.uint64) + (lengths.astype(np.uint64) << np.uint64(50))
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return pl.DataFrame({"run": series, "by": (mixed >> np.uint64(1)).astype(np.int64)})


@dataclass(frozen=True)
class _CutPart:
    """One part's runs; the stretches at its ends, of one chunk or more, may belong to longer ones."""

    head: Int32  # goes on from the part in front; empty: nothing does
    tail: Int32  # goes on in the next part
    through: bool  # head is the whole part, and goes on
    empty: bool
    runs: pl.DataFrame  # all others


def _cut_part(reader: Reader, part: SequencePart, kept: KeptPairs) -> _CutPart:
    symbols, goes_on = reader.read(part)
    joined, starts, stops = cut_runs(symbols, kept)
    size = len(symbols)
    begin, end = 0, size
    if part.follows and size and symbols[0] >= 0:
        begin = int(stops[0]) if joined[0] else 1
    if goes_on and size and symbols[-1] >= 0:
        end = int(starts[-1]) if len(stops) and stops[-1] == size else size - 1
    if begin > end:
        return _CutPart(symbols, symbols[:0], True, False, pl.DataFrame(schema=_SCHEMA))
    among = joined.copy()
    among[1:] |= joined[:-1]
    among[:begin] = among[end:] = False
    mine = (starts >= begin) & (stops <= end)
    runs = group_runs(symbols[among], (stops - starts)[mine]) if mine.any() else pl.DataFrame(schema=_SCHEMA)
    return _CutPart(symbols[:begin].copy(), symbols[end:].copy(), False, not size, runs)


class _OpenRun:
    """The run that parts are held together by; in pieces, so that a giant one costs no copies."""

    def __init__(self, kept: KeptPairs) -> None:
        self.kept = kept
        self.pieces: list[Int32] = []

    def take(self, cut: _CutPart, follows: bool) -> Iterator[pl.DataFrame]:
        """The next part: all runs that end in it."""
        yield cut.runs
        if not follows:
            yield self.close()
        if cut.empty:  # nor is a document's end in it
            return
        if not len(cut.head) or not self._joins(cut.head):
            yield self.close()
        if len(cut.head):
            self.pieces.append(cut.head)
        if not cut.through:
            yield self.close()
            if len(cut.tail):
                self.pieces.append(cut.tail)

    def _joins(self, head: Int32) -> bool:
        return bool(self.pieces) and bool(self.kept.join(np.append(self.pieces[-1][-1], head[0]))[0])

    def close(self) -> pl.DataFrame:
        """The run that ends here, unless it is one chunk."""
        run = np.concatenate(self.pieces) if self.pieces else np.empty(0, np.int32)
        self.pieces = []
        if len(run) < 2:
            return pl.DataFrame(schema=_SCHEMA)
        return group_runs(run, np.array([len(run)]))


def collect_runs(
    reader: Reader,
    groups: Groups,
    kept: KeptPairs,
    folder: Path,
    prefix: str,
    threads: int,
    advance: Callable[[int], None],
    made_of: str = "",
) -> list[Path]:
    """The distinct runs of every group, one file each, sorted by `by`; those that are there, made of the same, are
    kept.

    A run belongs to the group it ends in, so a group is only complete together with what was open before it.
    """
    files = [folder / f"{prefix}-{name}.parquet" for name in groups.names]
    done = 0
    while done < len(files) and has_note(files[done], made_of):
        done += 1
    # runs that were open at the end of a group are found again by reading back to where they began
    begin = done
    while 0 < begin < len(files) and groups.parts[begin][0].follows:
        symbols, goes_on = reader.read(groups.parts[begin - 1][-1])
        begin -= 1
        if len(symbols) and (not goes_on or not _all_joined(symbols, kept)):
            break
    advance(sum(part.places for group in groups.parts[:begin] for part in group))
    todo = [part for group in groups.parts[begin:] for part in group]
    cuts = in_order(lambda part: _cut_part(reader, part, kept), todo, threads)
    open_run = _OpenRun(kept)
    for i in range(begin, len(files)):
        frames: list[pl.DataFrame] = []
        for part in groups.parts[i]:
            frames += open_run.take(next(cuts), part.follows)
            advance(part.places)
        if i == len(files) - 1:
            frames.append(open_run.close())
        if i < done:
            continue
        together = pl.concat(frames).group_by("run").agg(pl.first("by"), pl.col("n").sum()).sort("by")
        write_whole(together, files[i], made_of)
        failpoint("runs-written")
    return files


def _all_joined(symbols: Int32, kept: KeptPairs) -> bool:
    return bool(cut_runs(symbols, kept)[0][:-1].all())


def write_run_words(files: Sequence[Path], folder: Path, sums: Sums, made_of: str = "") -> WordFiles:
    """The runs of all groups added up, as words for the engine; the files of the groups are removed."""
    remove_folder(folder)
    temporary = folder.with_name(folder.name + ".new")
    remove_folder(temporary)
    temporary.mkdir(parents=True)
    paths = WordFiles(temporary).paths
    at = 0
    with paths[0].open("wb") as symbols, paths[1].open("wb") as offsets, paths[2].open("wb") as weights:
        write_array(np.zeros(1, np.int64), offsets)
        for data, ends, n in sums.runs(files):
            write_array(data, symbols)
            write_array(ends // 4 + at, offsets)
            write_array(n, weights)
            at += len(data) // 4
    seal_folder(temporary, fingerprint(made_of, folder.name))
    put_in_place(temporary, folder)
    failpoint("words-written")
    for path in files:
        path.unlink()
    return WordFiles(folder)


def cut_again(
    words: WordFiles, kept: KeptPairs, folder: Path, prefix: str, places_at_once: int, advance: Callable[[int], None]
) -> list[Path]:
    """The runs that stand in others which were cut less; files for `write_run_words`, which adds up what is equal."""
    files: list[Path] = []
    for symbols, lengths, n in _in_slices(words, places_at_once):
        word = np.repeat(np.arange(len(lengths)), lengths)
        between = np.full(len(symbols) + len(lengths), BARRIER, np.int32)
        places = np.arange(len(symbols)) + word
        between[places] = symbols
        joined, starts, stops = cut_runs(between, kept)
        joined[1:] |= joined[:-1]  # from here on: whether the place is in a run
        runs = pl.DataFrame(schema=_SCHEMA)
        if len(starts):
            weights = n[word[np.searchsorted(places, starts)]]
            runs = _run_rows(between[joined], stops - starts).with_columns(n=pl.Series(weights, dtype=pl.Int64))
        files.append(folder / f"{prefix}-{len(files):05d}.parquet")
        write_whole(runs.sort("by"), files[-1])
        advance(len(symbols))
    return files


@dataclass(frozen=True)
class RunTable:
    """Runs as the tables hold them: their chunks by numbers from 1, in the order of the text."""

    chunks: pl.DataFrame  # rows (number, chunk)
    numbers: Int32  # of every symbol; 0: in no run
    words: WordFiles

    @classmethod
    def of(cls, words: WordFiles, symbols: Int64, texts: pl.Series) -> RunTable:
        """symbols: distinct, all that stand in the runs. texts: of every symbol."""
        known = pl.DataFrame({"symbol": symbols, "chunk": texts.gather(symbols)}).sort("chunk")
        numbers = np.zeros(len(texts), np.int32)
        numbers[known["symbol"].to_numpy()] = np.arange(1, len(symbols) + 1)
        return cls(known.select(number=pl.int_range(1, pl.len() + 1, dtype=pl.Int32), chunk="chunk"), numbers, words)

    def rows(self, places_at_once: int = 1 << 18) -> Iterator[pl.DataFrame]:
        """Rows (numbers, n), a slice at a time."""
        for symbols, lengths, n in _in_slices(self.words, places_at_once):
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            numbers = pa.LargeListArray.from_arrays(offsets, pa.array(self.numbers[symbols]))
            yield pl.DataFrame({"numbers": pl.from_arrow(numbers), "n": n})


def _in_slices(words: WordFiles, places: int) -> Iterator[tuple[Int32, Int64, Int64]]:
    """(symbols, lengths, weights) of runs that hold about so many places together, or of one that holds more."""
    columns = words.open()
    symbols, offsets, weights = columns.symbols, columns.offsets, columns.weights
    start = 0
    while start < len(weights):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + places, side="right")) - 1)
        yield symbols[offsets[start] : offsets[stop]], np.diff(offsets[start : stop + 1]), weights[start:stop]
        start = stop
        for column in (symbols, offsets, weights):
            release_maps(column)
