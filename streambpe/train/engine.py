"""The learning engine: words in, committed batches of merges out.

    engine = Engine(Words(symbols, offsets, weights), [bytes([b]) for b in range(256)], options)
    for batch in engine.batches(merges=50_000):
        ...  batch.left, batch.right, batch.id, batch.n: events in their order; batch.record: what it took

One pass is: the frontier offers the best pairs, the column finds their occurrences, `resolve_batch` says
which prefix is the sequential order, the column is rewritten, the counts follow. The events depend on
the words and on the options that define the rule, never on memory, threads, batch mode `exact` or `1`,
index or scan, nor on where a run was cut by `snapshot` / `restore` or `replay`.

Symbols are any integers below len(base_tokens): bytes, characters, SCRIPT symbols, or whole chunks
(superwords).

Memory (`memory_bytes`): the index takes 32 bytes a place (symbols + words) at its peak, 22 when it is built in
pieces, and is used when that fits in the budget. Otherwise the words lie in blocks on disk and learning goes in
stages (see ScanColumn.digest): the stretches in which pairs above a floor stand, each distinct one once, make a
small index in memory; its merges are those of all words until the best pair falls to the floor; then the blocks
are rewritten and counted again. Merges shrink the column until the index fits.

What is counted is the engine's own data: the interpreter and its libraries come on top (about 120 MB). The
words given are read in slices and may be memory maps.
"""

from __future__ import annotations

import json
import mmap
import shutil
import time
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, Protocol

import numpy as np
import polars as pl

from streambpe.train import batch as batches
from streambpe.train.batch import MAX_COUNT, Bool, Candidates, Changes, Int32, Int64, Occurrences, Places
from streambpe.train.deletion import Deletion, Deletions, Lives
from streambpe.train.frontier import Best, FloorWish, Frontier, PairCounter
from streambpe.train.occurrences import (
    INDEX_BYTES_PER_PLACE,
    LEAN_INDEX_BYTES_PER_PLACE,
    OCCURRENCE_BYTES,
    SCAN_BYTES_PER_PLACE,
    SEPARATOR,
    Digest,
    IndexColumn,
    Links,
    Rewrite,
    ScanColumn,
    write_column,
)

SNAPSHOT_VERSION = 1
LEAST_BYTES = 24 << 20  # with less a stage of a scan proves a few merges, and a run never ends
MOST_LINKS = 1 << 15  # pairs that make chains in one stage of a scan
_SURE = 8  # pairs that make a batch worth its pass
_RISEN_SHARE = 8  # one part in so many of the memory, at most, for what counts that rose have brought
_WORDS = 1 << 18  # looked at together when tokens are counted


class CountOverflow(ValueError):
    """A pair count could pass 2^63 - 1."""


class ReplayMismatch(ValueError):
    """The events given are not the ones these words lead to."""


class PairRule(Protocol):
    """Which pairs may merge, by properties of their tokens; asked for many pairs at once.

    A pair that may not merge is never counted. `born` is called for every merge, in order, before the rule is asked
    about pairs that hold the token it made; one that spells a known token has that token's id.
    """

    def allows(self, left: Int64, right: Int64) -> Bool: ...

    def born(self, left: Int64, right: Int64, new: Int64) -> None: ...


@dataclass(frozen=True)
class EngineOptions:
    """The rule of learning (first block) and how to go about it (second block: never changes an event)."""

    ties: Literal["ids", "bytes"] = "ids"  # after the higher count: lowest (left, right) by id or by bytes
    overlaps: Literal["all", "disjoint"] = "all"  # "aaa" holds (a, a) twice, or once
    batch: Literal["exact", "1", "paper"] = "exact"
    cap_divisor: int = 2  # paper: at most a share of the merges still wanted
    max_batch: int | None = None  # paper: None is no limit
    min_frequency: int = 1  # stop when the best pair counts less
    max_token_length: int | None = None  # in base symbols, or as base_lengths says
    blocked: frozenset[bytes] = frozenset()  # never learn these; see Batch.vetoed
    deletions: Deletions | None = None  # take superfluous tokens back (train/deletion.py)

    memory_bytes: int = 4 << 30
    threads: int = 1
    work_dir: Path | None = None  # for blocks and spills; None: a temporary folder, removed by close()
    # The rest is for tests and experiments.
    force_scan: bool = False  # scan although the index fits, until `index_below`
    lean: bool = False  # build every index in pieces
    index_below: int = 0  # with force_scan: places at which to move to the index
    hot_pairs: int | None = None  # at most about so many in the frontier
    floor_ratio: int = 32  # a refill's floor is the best count over this
    block_places: int | None = None  # of a scan's block
    digest_tokens: int | None = None  # in memory while a scan proves a batch
    counter_rows: int | None = None  # partial pair counts in memory while a scan counts
    candidates: int = 2048  # at most, in one batch


@dataclass
class BatchRecord:
    """What one pass did, for the table of batches."""

    seconds: float = 0.0
    merges: int = 0
    candidates: int = 0
    occurrences: int = 0  # found; `executed` of them were rewritten
    executed: int = 0
    positions: int = 0  # index entries or places looked at
    mode: str = "index"
    refills: int = 0  # counted from scratch, before this pass
    spills: int = 0  # partial counts written to disk meanwhile
    switched: bool = False  # from scan to index, before this pass
    rounds: int = 0
    stopped_by: str = ""
    hot_pairs: int = 0
    floor: int = 0
    places: int = 0
    memory_bytes: int = 0  # the engine's own arrays


@dataclass
class Batch:
    """Events in their order, and what was vetoed on the way (left, right, count when it was the best).

    `deleted[i].after`: how many merges of this batch stand before that deletion.
    """

    left: Int64
    right: Int64
    id: Int64
    n: Int64
    record: BatchRecord
    vetoed: list[tuple[int, int, int]] = field(default_factory=list)
    deleted: list[Deletion] = field(default_factory=list)


@dataclass
class _Named:
    """What merges are called: ids in the log and in the column, and what follows from committing them.

    A merge whose bytes are a living token is logged with that token's id; in the column it has a `spare` one
    of its own until the rewrites are done, because the two are not equally wide there.
    """

    ids: Int64
    in_column: Int64
    first: int  # the first id that is new
    spare: int  # the first that is only lent
    rewrites: list[Rewrite]
    deleted: list[Deletion]


@dataclass(frozen=True)
class Words:
    """Distinct words: word i is symbols[offsets[i]:offsets[i + 1]] and stands weights[i] times."""

    symbols: Int32
    offsets: Int64
    weights: Int64

    @classmethod
    def of(cls, words: Iterable[tuple[Sequence[int] | bytes, int]]) -> Words:
        """From (symbols, count) pairs; bytes count as their values."""
        pairs = [(list(word), n) for word, n in words]
        flat = [symbol for word, _ in pairs for symbol in word]
        offsets = np.concatenate(([0], np.cumsum([len(word) for word, _ in pairs]))).astype(np.int64)
        return cls(np.array(flat, np.int32), offsets, np.array([n for _, n in pairs], np.int64))


class TieOrder:
    """One integer per token that sorts as the tie rule does.

    ids: the id. bytes: a label between those of the neighbours in byte order; when a gap is used up
    all labels are spread again (tens of milliseconds, a few times in a run).
    """

    GAP = 1 << 40

    def __init__(self, rule: str) -> None:
        self.by_bytes = rule == "bytes"
        self.label = np.empty(0, np.int64)
        self._sorted: list[bytes] = []
        self._labels: list[int] = []
        self._where: dict[bytes, int] = {}

    def start(self, tokens: Sequence[bytes | None]) -> None:
        self.label = np.arange(max(1024, 2 * len(tokens)), dtype=np.int64)
        if self.by_bytes:
            self._where = {token: i for i, token in enumerate(tokens) if token is not None}
            self._sorted = sorted(self._where)
            self._spread()

    def _spread(self) -> None:
        self._labels = [(i + 1) * self.GAP for i in range(len(self._sorted))]
        ids = np.fromiter((self._where[token] for token in self._sorted), np.int64, len(self._sorted))
        self.label[ids] = self._labels

    def preview(self, token: bytes) -> int:
        """The label `token` would get; two new ones may get the same."""
        i = bisect_left(self._sorted, token)
        if i < len(self._sorted) and self._sorted[i] == token:
            return self._labels[i]
        low = self._labels[i - 1] if i else 0
        high = self._labels[i] if i < len(self._labels) else low + 2 * self.GAP
        return (low + high) // 2 if high - low > 1 else -1

    def make_room(self, tokens: Sequence[bytes]) -> list[int]:
        """Labels for tokens that may be born in this batch; spreads first if one has no room."""
        labels = [self.preview(token) for token in tokens]
        if -1 in labels:
            self._spread()
            labels = [self.preview(token) for token in tokens]
        return labels

    def labels_ahead(self, count: Int64, above: int) -> Int64:
        """Labels that tokens made by these counts would get at least; by bytes `make_room` says it."""
        return np.full(len(count), above, np.int64)

    def placed(self, ids: Int64, count: Int64) -> None:
        """These merges were committed, by these counts; for orders that depend on counts."""

    def add(self, token: bytes, new: int) -> None:
        if new >= len(self.label):
            more = np.arange(len(self.label), 2 * max(new + 1, len(self.label)), dtype=np.int64)
            self.label = np.concatenate((self.label, more))
        if not self.by_bytes:
            return
        label = self.make_room([token])[0]
        i = bisect_left(self._sorted, token)
        self._sorted.insert(i, token)
        self._labels.insert(i, label)
        self._where[token] = new
        self.label[new] = label


@dataclass
class _Stage:
    """Learning from a digest while the column waits on disk."""

    column: ScanColumn
    digest: Digest
    least: int  # pairs that count less may be more than the digest holds


class Engine:
    """Learns merges over a set of words. See the module's docstring; `close` removes temporary files."""

    def __init__(
        self,
        words: Words,
        base_tokens: Sequence[bytes],
        options: EngineOptions | None = None,
        *,
        first_id: int | None = None,
        base_lengths: Sequence[int] | None = None,
        rule: PairRule | None = None,
        ties: TieOrder | None = None,
    ) -> None:
        """`first_id`: the id of the first merge (ids in between belong to stop words), else len(base_tokens).

        `base_lengths`: what max_token_length adds up (1 per base symbol unless given). `ties`: an order of its
        own instead of options.ties.
        """
        self._prepare(base_tokens, options, first_id, base_lengths, rule, ties)
        self._check_sums(words)
        self._load(words)

    def _prepare(
        self,
        base_tokens: Sequence[bytes],
        options: EngineOptions | None,
        first_id: int | None,
        base_lengths: Sequence[int] | None,
        rule: PairRule | None,
        ties: TieOrder | None = None,
    ) -> None:
        self.options = options or EngineOptions()
        self.disjoint = self.options.overlaps == "disjoint"
        self.rule = rule
        self.next_id = len(base_tokens) if first_id is None else first_id
        if self.next_id < len(base_tokens):
            raise ValueError(f"first_id {first_id} is inside the {len(base_tokens)} base tokens; give a larger one")
        self._base = len(base_tokens)
        self._first_id = self.next_id
        self.tokens: list[bytes | None] = [*base_tokens, *[None] * (self.next_id - len(base_tokens))]
        self._known = {token: i for i, token in enumerate(base_tokens)}  # dead ones too
        self._lengths = np.ones(max(1024, 2 * self.next_id), np.int64)
        if base_lengths is not None:
            self._lengths[: len(base_lengths)] = base_lengths
        self._ties = ties or TieOrder(self.options.ties)
        self._ties.start(self.tokens)
        self._banned: set[tuple[int, int]] = set()
        self.vetoed: list[tuple[int, int, int]] = []
        self.merges = 0  # so far, those onto a living token included
        self.dead = 0  # learned tokens that are deleted now
        self._lives = Lives(self.options.deletions, self.next_id) if self.options.deletions else None
        if self._lives and self.options.batch == "paper":
            raise ValueError("batch paper with deletions: a round of BatchBPE has no single merge to ask after")
        self._k = 16
        self._links = 64
        self._stage: _Stage | None = None
        self._own_folder = self.options.work_dir is None
        self._folder: Path | None = self.options.work_dir
        self.frontier = Frontier()
        self._filled = False

    def _check_sums(self, words: Words) -> None:
        """Refuse words whose pair counts could pass 2^63 - 1: numpy and Polars would wrap without a word."""
        if len(words.weights) == 0:
            return
        if int(words.weights.min()) < 0:
            raise ValueError(f"a word has a negative count ({int(words.weights.min())}); counts are 0 or more")
        length = np.diff(words.offsets)
        if float(np.dot(words.weights.astype(np.float64), length)) < 2.0**62:
            return
        total = sum(int(w) * max(0, int(k) - 1) for w, k in zip(words.weights, length, strict=True))
        if total > MAX_COUNT:
            raise CountOverflow(
                f"the words hold {total} pairs, more than 2^63 - 1 = {MAX_COUNT}: a count could overflow "
                f"and learn nonsense without a word. Nothing was learned. Divide the counts, or train "
                f"on fewer words."
            )

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return self.next_id - self._first_id - self.dead

    @property
    def folder(self) -> Path:
        """Where blocks and spills go."""
        if self._folder is None:
            self._folder = Path(mkdtemp(prefix="streambpe-engine-"))
            # Also when close() is forgotten, or an error ends the run.
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _load(self, words: Words) -> None:
        self.column: IndexColumn | ScanColumn
        options = self.options
        # A deletion may split a word that has become one token.
        drop_finished = self._lives is None
        shortest = 2 if drop_finished else 1
        places = int(words.offsets[-1] - words.offsets[0]) + len(words.weights) + 1
        if not options.force_scan and places * INDEX_BYTES_PER_PLACE <= options.memory_bytes:
            column, weights = write_column(words.symbols, words.offsets, words.weights, shortest)
            lean = self._lean(len(column))
            self.column = IndexColumn(
                column, weights, self.next_id, disjoint=self.disjoint, lean=lean, drop_finished=drop_finished
            )
            return
        scan = ScanColumn(
            self.folder / "column", disjoint=self.disjoint, threads=options.threads, drop_finished=drop_finished
        )
        room = options.memory_bytes // (2 * SCAN_BYTES_PER_PLACE * max(1, options.threads))
        size = options.block_places or max(1 << 12, min(1 << 22, room))
        at = 0
        while at < len(words.weights):
            stop = int(np.searchsorted(words.offsets, words.offsets[at] + size, side="right")) - 1
            stop = max(at + 1, min(stop, len(words.weights)))
            scan.append(*write_column(words.symbols, words.offsets[at : stop + 1], words.weights[at:stop], shortest))
            at = stop
            for array in (words.symbols, words.offsets, words.weights):
                give_back(array)
        if not scan.lengths:
            scan.append(np.full(1, SEPARATOR, np.int32), np.empty(0, np.int64))
        self.column = scan

    # ------------------------------------------------------------------ learning

    def batches(self, merges: int) -> Iterator[Batch]:
        """Committed batches until `merges` more tokens are alive or no pair counts min_frequency."""
        target = self.learned + merges
        while self.learned < target:
            batch = self.step(target - self.learned)
            if batch is None:
                return
            yield batch

    def step(self, remaining: int) -> Batch | None:
        """One pass: at least one merge and at most `remaining` new tokens; None when no pair is left."""
        began = time.perf_counter()
        record = BatchRecord()
        vetoed: list[tuple[int, int, int]] = []
        while True:
            self._make_ready(record)
            chosen = self._choose(remaining, record)
            if chosen is None and self._stage is not None:
                self._end_stage()
                continue
            if chosen is None:
                return self._finish_vetoes(vetoed, record, began)
            slots, candidates = chosen
            left, right = int(candidates.left[0]), int(candidates.right[0])
            if not self._is_blocked(left, right):
                break
            veto = (left, right, int(candidates.count[0]))
            vetoed.append(veto)
            self.vetoed.append(veto)
            self._banned.add((left, right))
            self.frontier.retire(slots[:1])
        return self._pass(slots, candidates, remaining, record, vetoed, began)

    def _finish_vetoes(self, vetoed: list[tuple[int, int, int]], record: BatchRecord, began: float) -> Batch | None:
        if not vetoed:
            return None
        none = np.empty(0, np.int64)
        record.seconds = time.perf_counter() - began
        return Batch(none, none, none, none, record, vetoed)

    def _make_ready(self, record: BatchRecord, given: bool = False) -> None:
        """Move from scan to index when it fits now; fill the frontier for the first time; begin a stage."""
        column = self.column
        if isinstance(column, ScanColumn):
            limit = self.options.memory_bytes // LEAN_INDEX_BYTES_PER_PLACE
            if self.options.force_scan:
                limit = self.options.index_below
            if column.places <= limit:
                self.column = column.to_index(self.next_id, self._lean(column.places))
                record.switched = True
                self._filled = False
        elif self._filled and (
            2 * column.moved > column.places
            or _RISEN_SHARE * self.frontier.risen_bytes > self.options.memory_bytes
            or (self._is_full(column) if column.lean else self._is_stale(column))
        ):
            self._filled = False
        if not self._filled:
            self._refill(record)
        if isinstance(self.column, ScanColumn) and not given and self.options.batch != "paper":
            self._begin_stage(record)

    def _lean(self, places: int) -> bool:
        """Whether so many places must be indexed in pieces."""
        return self.options.lean or places * INDEX_BYTES_PER_PLACE > self.options.memory_bytes

    def _is_stale(self, column: IndexColumn) -> bool:
        """Whether most positions of an index are out of date, and it is larger than it should be."""
        return column.used > 2 * column.places and self.memory_bytes > self.options.memory_bytes

    def _is_full(self, column: IndexColumn) -> bool:
        """Whether positions have outgrown a lean index: pairs that are gone, or ended, still hold theirs."""
        grown = column.used > column.used_at_fill + column.used_at_fill // 4
        return grown and 10 * self.memory_bytes > 9 * self.options.memory_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes in the engine's own arrays (between passes)."""
        return self.column.nbytes + self.frontier.nbytes

    def _refill(self, record: BatchRecord, *, fewest: int = 1, at_most: int = MAX_COUNT) -> None:
        options = self.options
        most = options.hot_pairs or max(1 << 12, min(1 << 20, options.memory_bytes // 4 // 64))
        wish = FloorWish(
            at_least=self._at_least,
            most=max(most, fewest),
            ratio=options.floor_ratio if isinstance(self.column, IndexColumn) else 1 << 62,
            fewest=fewest,
            at_most=at_most,
        )
        rows = options.counter_rows or max(1 << 14, options.memory_bytes // 4 // 96)
        column = self.column
        column.compact()
        if isinstance(column, IndexColumn):
            column.lean = column.lean and self._lean(column.places)
        on_disk = not isinstance(column, IndexColumn) or column.lean
        record.spills += self.column.fill(
            self.frontier,
            self.next_id,
            wish,
            self._allowed if self._filters else None,
            rows,
            self.folder / "pairs" if on_disk else None,
        )
        record.refills += 1
        self._filled = True

    @property
    def _at_least(self) -> int:
        """Pairs that count less are of no use now."""
        return max(1, self.options.min_frequency, self._stage.least if self._stage else 1)

    @property
    def _filters(self) -> bool:
        return self.rule is not None or self.options.max_token_length is not None or bool(self._banned)

    def _allowed(self, left: Int64, right: Int64) -> Bool:
        """Pairs that may become hot."""
        good = np.ones(len(left), bool)
        if self.options.max_token_length is not None:
            good &= self._lengths[left] + self._lengths[right] <= self.options.max_token_length
        if self.rule is not None:
            good &= self.rule.allows(left, right)
        for a, b in self._banned:
            good &= (left != a) | (right != b)
        return good

    def _bytes(self, left: int, right: int) -> bytes:
        a, b = self.tokens[left], self.tokens[right]
        assert a is not None
        assert b is not None
        return a + b

    def _is_blocked(self, left: int, right: int) -> bool:
        return bool(self.options.blocked) and self._bytes(left, right) in self.options.blocked

    def _choose(self, remaining: int, record: BatchRecord) -> tuple[Int64, Candidates] | None:
        """The best pairs as candidates, refilling the frontier where it has run low."""
        options = self.options
        at_least = self._at_least
        k = {"exact": min(self._k, options.candidates), "1": 1, "paper": 0}[options.batch]
        if options.batch == "paper":
            vocabulary = self.next_id
            k = batches.paper_batch_size(remaining, vocabulary, options.cap_divisor, options.max_batch or MAX_COUNT)
        best = self._best(k)
        wanted = k if options.batch == "paper" else 1
        while (len(best.slots) < wanted and self.frontier.floor > at_least) or (
            len(best.slots) and self.frontier.needs_refill(int(self.frontier.count[best.slots[0]]))
        ):
            self._refill(record, fewest=wanted)
            best = self._best(k)
        slots = best.slots
        if len(slots) == 0:
            return None
        frontier = self.frontier
        if options.batch == "paper":
            left, right = frontier.left[slots].tolist(), frontier.right[slots].tolist()
            if options.blocked:
                blocked = [self._is_blocked(a, b) for a, b in zip(left, right, strict=True)]
                if any(blocked):  # the first blocked one is vetoed alone, then the round is chosen again
                    i = blocked.index(True)
                    return slots[i : i + 1], self._candidates(slots[i : i + 1], (-1, -1, -1))
            slots = slots[batches.paper_safe(left, right)][:remaining]
            return slots, self._candidates(slots, (-1, -1, -1))
        floor = (best.floor_count, best.floor_left, best.floor_right)
        stop = min(len(slots), batches.most_candidates(int(frontier.count[slots[0]]), len(slots)))
        if isinstance(self.column, ScanColumn):
            stop = 1
        else:
            room = options.memory_bytes // 4
            if self.column.lean:
                room = min(room, max(room // 4, (options.memory_bytes - self.memory_bytes) // 2))
            room = max(1, room // OCCURRENCE_BYTES)
            stop = min(stop, max(1, int(np.searchsorted(np.cumsum(frontier.places[slots]), room, side="right"))))
        alone = np.zeros(len(slots), bool)
        if options.blocked:
            alone |= [
                self._is_blocked(a, b)
                for a, b in zip(frontier.left[slots].tolist(), frontier.right[slots].tolist(), strict=True)
            ]
        if alone[:stop].any():
            stop = min(stop, max(1, int(np.argmax(alone))))
        if stop < len(slots):
            floor = self._key(int(slots[stop]))
        return slots[:stop], self._candidates(slots[:stop], floor)

    def _best(self, k: int) -> Best:
        """The best pairs. Cold ones may have risen among them: then only those that are surely better, or, if these are
        few, all after such cold ones are counted."""
        frontier, at_least = self.frontier, self._at_least
        while True:
            best = frontier.best(k, self._ties.label, at_least)
            last = int(frontier.count[best.slots[-1]]) if len(best.slots) else at_least
            if not frontier.raised or last > frontier.cold_bound or last < frontier.floor:
                return best
            sure = int(np.count_nonzero(frontier.count[best.slots] > frontier.cold_bound))
            if sure >= _SURE:
                return Best(best.slots[:sure], frontier.cold_bound, -1, -1)
            self._count_risen(last - last // 4)  # those that will matter soon, too: one look at all places for both

    def _count_risen(self, least: int) -> None:
        """Count the cold pairs that could have risen to `least`; those at the floor become hot."""
        left, right = self.frontier.too_high(least)
        if len(left):
            assert isinstance(self.column, IndexColumn)  # a scan counts everything again instead
            self.column.promote(self.frontier, left, right, max(1, self.frontier.floor))

    def _key(self, slot: int) -> tuple[int, int, int]:
        """Count and tie labels of a hot pair, as Candidates takes its floor."""
        frontier, label = self.frontier, self._ties.label
        left, right = frontier.left[slot], frontier.right[slot]
        return int(frontier.count[slot]), int(label[left]), int(label[right])

    def _candidates(self, slots: Int64, floor: tuple[int, int, int]) -> Candidates:
        frontier = self.frontier
        left, right = frontier.left[slots], frontier.right[slots]
        if self._ties.by_bytes:
            made = [self._bytes(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
            new_label = np.array(self._ties.make_room(made), np.int64)
        else:
            new_label = self._ties.labels_ahead(frontier.count[slots], self.next_id + len(slots))
        return Candidates(left, right, frontier.count[slots], self._ties.label, new_label, *floor)

    def _pass(
        self,
        slots: Int64,
        candidates: Candidates,
        remaining: int,
        record: BatchRecord,
        vetoed: list[tuple[int, int, int]],
        began: float,
        given: bool = False,
    ) -> Batch:
        column, frontier = self.column, self.frontier
        record.mode = column.kind if self._stage is None else "scan"
        if isinstance(column, ScanColumn):
            return self._pass_scan(column, slots, candidates, remaining, record, vetoed, began, given)
        touched = column.touched.positions
        found = column.find(frontier, slots)
        if self.disjoint and not given and self.options.batch == "exact" and len(slots) > 1:
            fit = batches.without_runs(found, candidates)
            if fit < len(slots):
                candidates = self._candidates(slots[:fit], self._key(int(slots[fit])))
                slots = slots[:fit]
                found = found.take(found.pair < fit)

        def describe(places: Places) -> Occurrences:
            return column.describe(places, candidates.left, candidates.right)

        if given or self.options.batch == "paper":
            result = batches.resolve_given(found, describe, candidates)
            if self.options.batch == "paper":
                result.count = candidates.count.copy()
        else:
            result = batches.resolve_batch(found, describe, candidates, limit=remaining, next_id=self.next_id)
        order, count = result.order, result.count
        left, right = candidates.left[order], candidates.right[order]
        made = np.zeros(len(order), np.int64)
        np.add.at(made, result.rank, result.done.weight)
        named = self._name(left, right, made)
        committed = len(named.ids)
        if committed < len(order):
            order, count, left, right = (
                order[:committed],
                count[:committed],
                left[:committed],
                right[:committed],
            )
            keep = result.rank < committed
            result.done, result.rank = result.done.take(keep), result.rank[keep]
            result.stopped_by = "deletion" if named.deleted else "living"
        if not given:
            self._k = max(8, min(committed * 3 // 2 + 8, self.options.candidates))
        done = result.done
        new = named.in_column[result.rank]
        left_id, right_id = left[result.rank], right[result.rank]
        top = max(self.next_id, int(named.in_column.max()) + 1)
        changes = batches.count_changes(done, new, left_id, right_id, top, self.disjoint)
        lost = column.lost_slots(frontier, done, changes, left_id, right_id)
        column.apply(done, new, left_id, right_id, top)
        frontier.subtract(lost, changes.lost_weight)
        frontier.retire(slots[order])
        self._add_born(column, changes, named)
        if named.rewrites:
            self._rewrite(column, named)
        self._ties.placed(named.ids, count)
        self.merges += committed
        record.merges = committed
        record.candidates = len(slots)
        record.occurrences = len(found)
        record.executed = len(done)
        record.positions += column.touched.positions - touched
        record.rounds = result.rounds
        record.stopped_by = result.stopped_by
        self._finish_record(record, began)
        return Batch(left, right, named.ids, count, record, vetoed, named.deleted)

    def _pass_scan(
        self,
        column: ScanColumn,
        slots: Int64,
        candidates: Candidates,
        remaining: int,
        record: BatchRecord,
        vetoed: list[tuple[int, int, int]],
        began: float,
        given: bool,
    ) -> Batch:
        """Merges that need no proof, over blocks on disk in one sweep: known ones, BatchBPE's, or the best one."""
        frontier = self.frontier
        assert given or self.options.batch == "paper" or len(slots) == 1
        order, counts = np.arange(len(slots)), candidates.count
        record.candidates, record.rounds, record.stopped_by = len(slots), 1, "all"
        touched = column.touched.positions
        named = self._name(candidates.left[order], candidates.right[order])
        committed = len(named.ids)
        order, counts = order[:committed], counts[:committed]
        left, right = candidates.left[order], candidates.right[order]
        top = max(self.next_id, int(named.in_column.max()) + 1)
        merged = column.merge(frontier, left, right, named.in_column, top)
        for i, (a, b, new, made) in enumerate(
            zip(left.tolist(), right.tolist(), named.ids.tolist(), merged.made.tolist(), strict=True), 1
        ):
            self._ask(named, a, b, new, made, i)
        if given:
            counts = counts - merged.dropped
        frontier.count[: len(merged.lost)] -= merged.lost
        frontier.retire(slots[order])
        if named.rewrites:
            column.split(named.rewrites)
            self._filled = False
        else:
            born = merged.born.filter(pl.col("n") >= frontier.floor)
            key = born["key"].to_numpy()
            born_left, born_right = key >> 32, key & 0xFFFFFFFF
            keep = self._allowed(born_left, born_right) if self._filters else np.ones(len(key), bool)
            n, places = born["n"].to_numpy()[keep], born["places"].to_numpy()[keep]
            frontier.add(born_left[keep], born_right[keep], n, np.zeros(len(n), np.int64), places)
        self._ties.placed(named.ids, counts)
        self.merges += committed
        record.merges = committed
        record.occurrences, record.executed = merged.found, merged.executed
        record.positions = column.touched.positions - touched
        self._finish_record(record, began)
        return Batch(left, right, named.ids, counts.copy(), record, vetoed, named.deleted)

    # ------------------------------------------------------------------ stages of a scan

    def _begin_stage(self, record: BatchRecord) -> None:
        """Boil the column on disk down to a digest and learn from that for a while (see ScanColumn.digest)."""
        column, frontier = self.column, self.frontier
        assert isinstance(column, ScanColumn)
        options = self.options
        at_least = max(1, options.min_frequency)
        best = frontier.best(self._links, self._ties.label, at_least)
        slots = best.slots
        count = frontier.count[slots]
        if len(slots) == 0 or frontier.needs_refill(int(count[0])):
            return
        refused = None if self.rule is None else self.rule.allows
        links = Links(
            frontier.left[slots], frontier.right[slots], count, max(best.floor_count, 0), sorted(self._banned), refused
        )
        size = links.cut(len(slots))
        if size == 0:
            return  # more pairs tie for the best than are looked at
        links = Links(
            links.left[:size], links.right[:size], count[:size], links.floor_of(size), links.banned, links.allowed
        )
        room = options.digest_tokens or max(1 << 10, options.memory_bytes // 4 // INDEX_BYTES_PER_PLACE)
        touched = column.touched.positions
        digest = column.digest(links, self.next_id, room)
        record.positions += column.touched.positions - touched
        if digest is None:
            self._links = max(64, self._links // 2)
            return
        tokens = len(digest.column)
        if digest.size < size:
            self._links = max(64, digest.size)
        elif tokens < room // 4:
            # Tokens grow faster than links, and making chains of too many links costs more than a stage.
            self._links = min(self._links * (6 if tokens < room // 32 else 3) // 2, MOST_LINKS)
        self._stage = _Stage(column, digest, links.floor_of(digest.size) + 1)
        self.column = IndexColumn(
            digest.column, digest.weights, self.next_id, disjoint=self.disjoint, drop_finished=False
        )
        self.frontier = Frontier()
        self._filled = False
        self._refill(record)

    def _end_stage(self) -> None:
        """Bring the column on disk to where learning is; its pairs are counted again when they are needed."""
        stage, self._stage = self._stage, None
        if stage is None:
            return
        assert isinstance(self.column, IndexColumn)
        self.column.compact()
        made = self.column.token
        self.column, self.frontier = stage.column, Frontier()
        self._filled = False
        stage.column.rewrite(stage.digest, made)

    def _finish_record(self, record: BatchRecord, began: float) -> None:
        record.seconds = time.perf_counter() - began
        record.hot_pairs = self.frontier.size
        record.floor = self.frontier.floor
        record.places = (self._stage or self).column.places
        record.memory_bytes = self.memory_bytes

    def _name(self, left: Int64, right: Int64, made: Int64 | None = None) -> _Named:
        """Ids for the merges in order; fewer than given where an exact batch must end.

        It ends behind a merge whose bytes are a known token, living or dead, and behind one that leads to a
        deletion with something to split: both bring occurrences of old pairs. `made`: how often each merge is
        made, where that is known beforehand.
        """
        spare = self.next_id + len(left)  # above every id this batch can give
        ids, in_column = [], []
        named = _Named(left, left, self.next_id, spare, [], [])
        for i, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            token = self._bytes(a, b)
            number = self._known.get(token)
            lives = self._lives
            fresh = number is None
            if number is None:
                number = written = self._bear(token, a, b)
            elif lives is not None and lives.is_dead(number):
                lives.returns(number)
                self.dead -= 1
                written = number
            else:
                written = spare
                named.rewrites.append(Rewrite(spare, (number,)))
                spare += 1
            ids.append(number)
            in_column.append(written)
            if made is not None:
                self._ask(named, a, b, number, int(made[i]), i + 1)
            if self.options.batch != "paper" and (named.rewrites or not fresh):
                break
        named.ids, named.in_column = np.array(ids, np.int64), np.array(in_column, np.int64)
        if self.rule is not None:
            self.rule.born(left[: len(ids)], right[: len(ids)], named.ids)
        return named

    def _bear(self, token: bytes, left: int, right: int) -> int:
        """The id of a token that never was."""
        new = self.next_id
        self.next_id += 1
        self.tokens.append(token)
        self._known[token] = new
        self._ties.add(token, new)
        if new >= len(self._lengths):
            self._lengths = np.concatenate((self._lengths, np.ones(len(self._lengths), np.int64)))
        self._lengths[new] = self._lengths[left] + self._lengths[right]
        if self._lives is not None:
            self._lives.born(left, right)
        return new

    def _ask(self, named: _Named, left: int, right: int, new: int, made: int, after: int) -> None:
        """The deletions that a merge leads to."""
        if self._lives is None:
            return
        for deletion in self._lives.merge(left, right, new, made, after):
            self.dead += 1
            named.deleted.append(deletion)
            if deletion.n:
                named.rewrites.append(Rewrite(deletion.id, deletion.into))

    def _add_born(self, column: IndexColumn, changes: Changes, named: _Named) -> None:
        """Those of an id that is only lent wait for the rewrites."""
        spare = named.spare
        worth = changes.count >= self.frontier.floor
        worth &= (changes.left < spare) & (changes.right < spare)
        if len(named.ids) and named.ids[-1] < named.first:
            # A token came back: what was hot in its earlier life stays so, or its empty slot would speak for it.
            returned = np.flatnonzero((changes.left == named.ids[-1]) | (changes.right == named.ids[-1]))
            worth[returned] |= self.frontier.find(changes.left[returned], changes.right[returned]) >= 0
        chosen = np.flatnonzero(worth)
        if self._filters and len(chosen):
            chosen = chosen[self._allowed(changes.left[chosen], changes.right[chosen])]
        size = changes.groups.sizes()[chosen]
        begin = column.index_born(changes, chosen, self.frontier.size)
        self.frontier.add(changes.left[chosen], changes.right[chosen], changes.count[chosen], begin, size)

    def _rewrite(self, column: IndexColumn, named: _Named) -> None:
        """Split deleted tokens and give living ones their own id, in memory or, from a stage, on disk."""
        if self._stage is not None:
            on_disk = self._stage.column
            self._end_stage()
            on_disk.split(named.rewrites)
            return
        left, right, n = column.move_words(self.frontier, named.rewrites)
        keep = (left < named.spare) & (right < named.spare)
        if self._filters and len(left):
            keep[keep] = self._allowed(left[keep], right[keep])
        self.frontier.shift(left[keep], right[keep], n[keep])

    # ------------------------------------------------------------------ state

    def pair_counts(self) -> PairCounter:
        """Every pair with its count, counted from scratch (a check of the frontier, and table
        pair_counts)."""
        self._end_stage()
        rows = self.options.counter_rows or max(1 << 14, self.options.memory_bytes // 4 // 96)
        folder = self.folder / "pairs" if isinstance(self.column, ScanColumn) else None
        return self.column.count_all(rows, folder)

    def hot_pairs(self) -> tuple[Int64, Int64, Int64, int]:
        """(left, right, count, floor): every pair that counts at least the floor, which is at least 1."""
        self._end_stage()
        if not self._filled:
            self._refill(BatchRecord())
        frontier = self.frontier
        floor = max(1, frontier.floor)
        self._count_risen(floor)
        keep = np.flatnonzero(frontier.count[: frontier.size] >= floor)
        return frontier.left[keep], frontier.right[keep], frontier.count[keep], floor

    def token_counts(self) -> tuple[Int64, Int64, Int64]:
        """(id, n, alone): how often each token stands in the words held, and of these as a whole word. One pass.

        Without deletions words that have become one token are no longer held, and `alone` is 0.
        """
        self._end_stage()
        total, alone = np.zeros((2, self.next_id), np.int64)
        for symbols, offsets, weights in self.column.current_words():
            for start in range(0, len(weights), _WORDS):
                ends = offsets[start : start + _WORDS + 1]
                lengths = np.diff(ends)
                n = weights[start : start + _WORDS]
                whole = lengths == 1
                if self._lives is None:
                    n = np.where(whole, 0, n)
                else:
                    np.add.at(alone, symbols[ends[:-1][whole]], n[whole])
                np.add.at(total, symbols[ends[0] : ends[-1]], np.repeat(n, lengths))
        ids = np.flatnonzero(total)
        return ids, total[ids], alone[ids]

    def check(self) -> list[str]:
        """Recount every pair and compare: hot counts are exact, cold pairs are under the floor."""
        if not self._filled:
            return []
        wrong = []
        frontier = self.frontier
        least = self._at_least if self._stage else 1
        hot = {
            (int(frontier.left[i]), int(frontier.right[i])): int(frontier.count[i])
            for i in range(frontier.size)
            if frontier.count[i] >= least
        }
        for part in self.pair_counts().parts():
            for key, n, _ in part.iter_rows():
                pair = (key >> 32, key & 0xFFFFFFFF)
                if pair in hot:
                    if hot[pair] != n and pair not in self._banned:
                        wrong.append(f"hot pair {pair} is kept as {hot[pair]} but counts {n}")
                    hot[pair] = 0
                elif (
                    n >= max(frontier.floor + frontier.raised.get(key, 0), least)
                    and self._allowed(np.array([pair[0]]), np.array([pair[1]]))[0]
                ):
                    wrong.append(f"cold pair {pair} counts {n}, the floor is {frontier.floor}")
        wrong += [f"hot pair {pair} is kept as {n} but has no occurrence" for pair, n in hot.items() if n]
        return wrong

    def replay(
        self,
        merges: Sequence[tuple[int, int, int, int]],
        vetoed: Sequence[tuple[int, int, int]] = (),
        deleted: Sequence[Deletion] = (),
    ) -> None:
        """Apply known merges (left, right, id, n) and deletions to the words as they are now; all are verified.

        `deleted[i].after`: how many of `merges` stand before that deletion. Larger batches than learning has: a
        batch ends only where a merge needs an id born in it, is not there yet, or brings occurrences of old pairs.
        """
        for veto in vetoed:
            self.vetoed.append(veto)
            self._banned.add(veto[:2])
        record = BatchRecord()
        ends = [deletion.after for deletion in deleted if deletion.n]
        at = 0
        while at < len(merges):
            self._end_stage()
            self._make_ready(record, given=True)
            slots = self._given(merges, at, ends, record)
            stop = at + len(slots)
            batch = self._pass(
                slots, self._candidates(slots, (-1, -1, -1)), stop - at, record, [], time.perf_counter(), True
            )
            part = np.array(merges[at : at + len(batch.n)], np.int64)
            same = (batch.n == part[:, 3]) & (batch.id == part[:, 2])
            if not same.all():
                i = int(np.argmin(same))
                raise ReplayMismatch(
                    f"event {merges[at + i]} (left, right, id, n) should have id {batch.id[i]} and n "
                    f"{batch.n[i]}: these events were learned from other words or by another rule."
                )
            known = deleted[bisect_right(deleted, at, key=_after) : bisect_right(deleted, at + len(part), key=_after)]
            found = [deletion._replace(after=deletion.after + at) for deletion in batch.deleted]
            if list(known) != found:
                raise ReplayMismatch(
                    f"the merges {merges[at]} to {merges[at + len(part) - 1]} lead to the deletions {found}, not "
                    f"{list(known)}: these events were learned from other words or by another rule."
                )
            at += len(part)

    def _given(
        self, merges: Sequence[tuple[int, int, int, int]], at: int, ends: Sequence[int], record: BatchRecord
    ) -> Int64:
        """The slots of as many known merges as can go into one batch, from number `at` on."""
        limit = self.next_id
        most = min(len(merges), at + self.options.candidates)
        i = bisect_right(ends, at)
        if i < len(ends):
            most = min(most, ends[i])  # rewrites come behind this merge
        stop = at + 1
        if not (self.disjoint and merges[at][0] == merges[at][1]) and merges[at][2] >= limit:
            while (
                stop < most
                and max(merges[stop][:2]) < limit
                and not (self.disjoint and merges[stop][0] == merges[stop][1])
                and merges[stop][2] >= limit
            ):
                stop += 1
        part = np.array(merges[at:stop], np.int64)
        if part[:, :2].max() >= limit:
            raise ReplayMismatch(f"event {self.merges} merges an id that does not exist yet: {merges[at]}")
        slots = self.frontier.find(part[:, 0], part[:, 1])
        there = (slots >= 0) & (self.frontier.count[slots] > 0)
        if not there[0]:
            ahead = np.array([event[3] for event in merges[at : at + 4096]], np.int64)
            self._refill(record, at_most=max(1, int(ahead.min())))
            slots = self.frontier.find(part[:, 0], part[:, 1])
            there = slots >= 0
            if not there[0]:
                raise ReplayMismatch(f"{merges[at][:2]} of event {merges[at]} is not a pair of these words")
        return slots if there.all() else slots[: int(np.argmin(there))]

    def snapshot(self, folder: Path) -> None:
        """Write the words as they are and the tokens made so far; learning can go on, here or by `restore`.

        The caller renames the folder into place when this returns: a folder half written is not a snapshot.
        """
        self._end_stage()
        folder.mkdir(parents=True, exist_ok=True)
        part = 0
        for symbols, offsets, weights in self.column.current_words():
            np.save(folder / f"symbols_{part:05d}.npy", symbols)
            np.save(folder / f"offsets_{part:05d}.npy", offsets)
            np.save(folder / f"weights_{part:05d}.npy", weights)
            part += 1
        pl.DataFrame({"token": self.tokens[self._first_id :]}, schema={"token": pl.Binary}).write_parquet(
            folder / "tokens.parquet"
        )
        state = {
            "version": SNAPSHOT_VERSION,
            "parts": part,
            "merges": self.merges,
            "next_id": self.next_id,
            "first_id": self._first_id,
            "lengths": self._lengths[self._first_id : self.next_id].tolist(),
            "vetoed": self.vetoed,
            "lives": self._lives.state() if self._lives else None,
        }
        (folder / "engine.json").write_text(json.dumps(state))

    @classmethod
    def restore(
        cls,
        folder: Path,
        base_tokens: Sequence[bytes],
        options: EngineOptions | None = None,
        *,
        first_id: int | None = None,
        base_lengths: Sequence[int] | None = None,
        rule: PairRule | None = None,
        events: Sequence[tuple[int, int, int, int]] = (),
    ) -> Engine:
        """Go on from a snapshot, with the same arguments as at the start; memory, threads may differ.

        `events`: the merges up to the snapshot; needed only by a `rule`, which is told of each again.
        """
        state = json.loads((folder / "engine.json").read_text())
        if state["version"] != SNAPSHOT_VERSION:
            raise ValueError(f"{folder} has snapshot version {state['version']}, not {SNAPSHOT_VERSION}")
        engine = cls.__new__(cls)
        engine._prepare(base_tokens, options, first_id, base_lengths, rule)
        if engine._first_id != state["first_id"]:
            raise ValueError(f"{folder} starts at id {state['first_id']}, not {engine._first_id}")
        tokens = pl.read_parquet(folder / "tokens.parquet")["token"].to_list()
        for new, token in enumerate(tokens, engine._first_id):
            engine.tokens.append(token)
            engine._known[token] = new
            engine._ties.add(token, new)
        while len(engine._lengths) < state["next_id"]:
            engine._lengths = np.concatenate((engine._lengths, np.ones(len(engine._lengths), np.int64)))
        engine._lengths[engine._first_id : state["next_id"]] = state["lengths"]
        engine.next_id = state["next_id"]
        engine.merges = state["merges"]
        engine.vetoed = [tuple(veto) for veto in state["vetoed"]]
        engine._banned = {veto[:2] for veto in engine.vetoed}
        if engine._lives is not None:
            engine._lives.load(state["lives"])
            engine.dead = engine._lives.alive.count(False)
        if rule is not None:
            for a, b, new, _ in events:
                rule.born(np.array([a]), np.array([b]), np.array([new]))
        engine._load(_read_parts(folder, state["parts"]))
        return engine

    def close(self) -> None:
        """Remove block files, and the work folder if it was a temporary one."""
        if self._stage is not None:
            self._stage.column.remove()
        if isinstance(self.column, ScanColumn):
            self.column.remove()
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _after(deletion: Deletion) -> int:
    return deletion.after


def give_back(array: Int32 | Int64) -> None:
    """Pages of a memory map that were read count as this process's memory until they are given back."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        array.base.madvise(mmap.MADV_DONTNEED)


def _read_parts(folder: Path, parts: int) -> Words:
    """The words of a snapshot; one part is memory-mapped, several are joined."""
    if parts == 1:
        return Words(
            np.load(folder / "symbols_00000.npy", mmap_mode="r"),
            np.load(folder / "offsets_00000.npy"),
            np.load(folder / "weights_00000.npy"),
        )
    symbols, offsets, weights = [], [np.zeros(1, np.int64)], []
    total = 0
    for part in range(parts):
        symbols.append(np.load(folder / f"symbols_{part:05d}.npy"))
        own = np.load(folder / f"offsets_{part:05d}.npy")
        offsets.append(own[1:] + total)
        total += int(own[-1])
        weights.append(np.load(folder / f"weights_{part:05d}.npy"))
    if parts == 0:
        return Words(np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int64))
    return Words(np.concatenate(symbols), np.concatenate(offsets), np.concatenate(weights))


__all__ = [
    "Batch",
    "BatchRecord",
    "CountOverflow",
    "Engine",
    "EngineOptions",
    "PairRule",
    "ReplayMismatch",
    "TieOrder",
    "Words",
]
