"""A model made ready to encode: one chunk in a loop, a long one or many in arrays.

`replay.Model` says what a model means; this says the same faster, three ways:

- a chunk of ordinary length: a heap of (event, place), each worked off once;
- a chunk of many thousand symbols, or all distinct chunks of a corpus: `bulk.BulkReplay`;
- runs of whole chunks that may become superwords: cut first where no superword of the model ever
  reaches across, then the same two ways.

Everything here speaks log ids; `model_ids` holds the model id of each.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise, repeat

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.encode.alphabet import UNKNOWN, UnknownSymbol
from streambpe.encode.bulk import BulkReplay, Ids, PairTable
from streambpe.encode.eventlog import EventLog, Op
from streambpe.encode.model import encoding_pattern
from streambpe.encode.prepare import Normalize, UnencodableText, prepare
from streambpe.encode.ragged import ranges
from streambpe.encode.replay import Model, merge
from streambpe.encode.script import Unencodable
from streambpe.encode.symbols import codec_for
from streambpe.errors import ModelError

Pair = tuple[int, int]
Lengths = npt.NDArray[np.int64]

_LONG_CHUNK = 20_000  # symbols from which array work beats the heap
_LONG_RUN = 64  # whole chunks from which it beats the plain loop
_SLICE = 1 << 16  # places looked up at a time, so that temporaries stay in the processor's cache
_NEVER = 1 << 62  # an event index behind all others
DOCUMENT_END = -2  # in a stream of ids, beside UNKNOWN = -1
WHOLE = 1 << 30  # set on an id in a stream: it is a chunk by itself and may become part of a superword


class Encoder:
    """One model, immutable but for what is built on first use; safe to share between threads."""

    def __init__(self, log: EventLog, vocab_size: int | None = None) -> None:
        self.model = Model(log, vocab_size)
        self.header = log.header
        self.codec = codec_for(log.header)
        self.pattern = encoding_pattern(log.header.config)
        self.normalize: Normalize = log.header.config.get("normalize", "none")
        self.unencodable: Unencodable = log.header.config.get("unencodable", "bytes")
        # whether text may be changed, or refused, before it is split
        self.prepares = self.normalize != "none" or self.unencodable != "bytes"
        self._lock = threading.Lock()
        vocabulary = self.model.vocabulary
        self.n_log = vocabulary.first_id + len(vocabulary.tokens)
        self.stop_ids = {chunk.decode(): number for chunk, number in vocabulary.stop_ids.items()}
        self._first = {pair: indices[0] for pair, indices in self.model.merges.items()}
        self._more = {pair: indices for pair, indices in self.model.merges.items() if len(indices) > 1}
        self._made = [event.id for event in self.model.events]
        self._simple = not self._more and not self.model.deletions
        self.model_ids: Ids = np.full(self.n_log + 2, -1, np.int32)
        self.model_ids[list(self.model.model_id)] = list(self.model.model_id.values())
        self.model_ids[DOCUMENT_END] = DOCUMENT_END
        if log.header.unk is not None:
            self.model_ids[UNKNOWN] = self.model.special_ids[log.header.unk]
        self._id_list = self.model_ids.tolist()
        self.has_superwords = bool(self.model.supermerges)

    # One chunk.

    def split(self, text: str) -> list[str]:
        """The chunks of one text, made ready as the training's text was (--unencodable, --normalize)."""
        if self.prepares and not text.isascii():
            text = self.prepare(text.encode())[0].decode()
        return self.pattern.split(text)

    def prepare(self, text: bytes) -> tuple[bytes, int]:
        """Text in UTF-8, with or without marks, ready to be split, and how many characters were dropped."""
        try:
            return prepare(text, self.normalize, self.unencodable)
        except UnencodableText as why:
            raise UnknownSymbol(f"{why}, and the model was trained with --unencodable error.") from None

    def encode_chunk(self, chunk: str) -> list[int]:
        """One chunk of text -> log ids."""
        if self.stop_ids:
            number = self.stop_ids.get(chunk)
            if number is not None:
                return [number]
        if len(chunk) >= _LONG_CHUNK:
            symbols, lengths = self.codec.split_many(pl.Series([chunk], dtype=pl.String))
            long: list[int] = self.encode_many(symbols, lengths)[0].tolist()
            return long
        return self.encode_symbols(self.codec.split(chunk))

    def encode_symbols(self, symbols: list[int]) -> list[int]:
        """One chunk as base symbols -> log ids. Near-linear: O(n log n) steps for n symbols."""
        if len(symbols) < 2:
            return symbols
        if len(symbols) >= _LONG_CHUNK:
            long: list[int] = self.encode_many(np.array(symbols, np.int32), np.array([len(symbols)]))[0].tolist()
            return long
        if self._simple and len(symbols) < 16:
            return self._encode_short(symbols)
        return self._encode_heap(symbols)

    def _encode_short(self, sequence: list[int]) -> list[int]:
        """A few symbols and no deletions: the smallest event among the pairs, again and again. It is made at its
        first place, those behind come up next."""
        find, made = self._first.get, self._made
        waiting = list(map(find, pairwise(sequence), repeat(_NEVER)))  # of each pair
        while (best := min(waiting, default=_NEVER)) != _NEVER:
            at = waiting.index(best)
            new = sequence[at] = made[best]
            del sequence[at + 1], waiting[at]
            # an event at or below the last one has had its turn
            if at:
                event = find((sequence[at - 1], new), _NEVER)
                waiting[at - 1] = event if event > best else _NEVER
            if at < len(waiting):
                event = find((new, sequence[at + 1]), _NEVER)
                waiting[at] = event if event > best else _NEVER
        return sequence

    def _next_merge(self, pair: Pair, last: int) -> int:
        index = self._first.get(pair, -1)
        if index > last or index < 0 or pair not in self._more:
            return index if index > last else -1
        indices = self._more[pair]
        place = bisect_right(indices, last)
        return indices[place] if place < len(indices) else -1

    def _next_deletion(self, number: int, last: int) -> int:
        indices = self.model.deletions.get(number, ())
        place = bisect_right(indices, last)
        return indices[place] if place < len(indices) else -1

    def _encode_heap(self, symbols: list[int]) -> list[int]:
        """Places keep their number; the token at one grows over those behind it. Entries that are out of
        date are found out when they come up: the pair is not there any more."""
        n = len(symbols)
        token = list(symbols)
        after, before = list(range(1, n + 1)), list(range(-1, n - 1))
        events, tokens, first_id = self.model.events, self.model.vocabulary.tokens, self.model.vocabulary.first_id
        deletions = self.model.deletions
        first = self._first.get
        heap = [e * n + i for i, pair in enumerate(pairwise(symbols)) if (e := first(pair, -1)) >= 0]
        heapify(heap)

        def wait(place: int, last: int) -> None:
            """Note the next event for the pair that begins at `place`."""
            right = after[place]
            if right < n:
                index = self._next_merge((token[place], token[right]), last)
                if index >= 0:
                    heappush(heap, index * n + place)

        while heap:
            index, place = divmod(heappop(heap), n)
            event = events[index]
            if event.op is Op.DELETE:
                if token[place] != event.id:
                    continue
                end, here, left = after[place], place, before[place]
                for part in event.into:
                    token[here], before[here], left = part, left, here
                    after[here] = here + len(tokens[part - first_id].base)
                    here = after[here]
                after[left] = end
                if end < n:
                    before[end] = left
                here = place
                while here != end:
                    wait(here, index)
                    if (again := self._next_deletion(token[here], index)) >= 0:
                        heappush(heap, again * n + here)
                    here = after[here]
            else:
                right = after[place]
                if token[place] != event.left or right >= n or token[right] != event.right:
                    continue
                token[place], token[right] = event.id, -2
                after[place] = after[right]
                if after[right] < n:
                    before[after[right]] = place
                wait(place, index)
                if event.id in deletions and (again := self._next_deletion(event.id, index)) >= 0:
                    heappush(heap, again * n + place)
            if before[place] >= 0:
                wait(before[place], index)
        return [number for number in token if number != -2]

    # Many chunks.

    @cached_property
    def bulk(self) -> BulkReplay:
        """The merges and deletions as arrays; supermerges stay in place as events that never apply."""
        events = [event for event in self.model.events if event.op is not Op.SUPERMERGE]
        vocabulary = self.model.vocabulary
        lengths = [0] * vocabulary.first_id + [len(token.base) for token in vocabulary.tokens]
        return BulkReplay(events, self.n_log, lengths)

    def encode_many(self, symbols: Ids, lengths: Lengths) -> tuple[Ids, Lengths]:
        """Chunks as base symbols, one after another -> (their log ids, ids of each chunk)."""
        with self._lock:
            bulk = self.bulk
        if self.header.unk is not None:
            symbols = np.where(symbols == UNKNOWN, np.int32(bulk.unknown), symbols)
        ids, counts = bulk.replay(symbols, lengths)
        if self.header.unk is not None:
            ids[ids == bulk.unknown] = UNKNOWN
        return ids, counts

    def encode_distinct(self, chunks: pl.Series) -> tuple[Ids, Lengths]:
        """Chunks of text -> (their log ids, ids of each chunk; with WHOLE set if there are superwords)."""
        symbols, lengths = self.codec.split_many(chunks)
        if len(self.stop_ids):
            stops = pl.Series(list(self.stop_ids), dtype=pl.String)
            numbers = pl.Series(list(self.stop_ids.values()), dtype=pl.Int32)
            found = chunks.cast(pl.String).replace_strict(stops, numbers, default=-1, return_dtype=pl.Int32).to_numpy()
            is_stop = found >= 0
            symbols, lengths = _replace_rows(symbols, lengths, is_stop, found[is_stop])
        ids, counts = self.encode_many(symbols, lengths)
        if self.has_superwords:
            whole = counts == 1
            if len(self.stop_ids):
                whole &= ~is_stop
            starts = np.cumsum(counts) - counts
            places = starts[whole]
            places = places[ids[places] >= 0]
            ids[places] |= WHOLE
        return ids, counts

    # Superwords.

    @cached_property
    def _super_events(self) -> list[tuple[Pair, int]]:
        """(pair, superword) by first index."""
        found = sorted((index, pair) for pair, index in self.model.supermerges.items())
        return [(pair, self.model.events[index].id) for index, pair in found]

    @cached_property
    def _super_rank(self) -> dict[Pair, tuple[int, int]]:
        return {pair: (rank, new) for rank, (pair, new) in enumerate(self._super_events)}

    @cached_property
    def _grows(self) -> bool:
        """Whether smallest-first never goes back: every superword is made only before it is used."""
        last_made = {new: rank for rank, (_, new) in enumerate(self._super_events)}
        return all(last_made.get(part, -1) < rank for rank, (pair, _) in enumerate(self._super_events) for part in pair)

    @cached_property
    def borders(self) -> set[Pair]:
        """Neighbouring whole chunks that some superword holds side by side; nothing joins any others."""
        makers: dict[int, list[Pair]] = {}
        for pair, new in self._super_events:
            makers.setdefault(new, []).append(pair)
        chunks = {event.id for event in self.model.events if event.op is Op.MERGE}
        chunks.update(range(self.model.vocabulary.first_id, self.model.vocabulary.first_id + len(self.model.alphabet)))
        ends: dict[int, tuple[set[int], set[int]]] = {}

        def ends_of(number: int) -> tuple[set[int], set[int]]:
            """(chunks the token may begin with, chunks it may end with)."""
            if number not in ends:
                own = {number} if number in chunks else set()
                ends[number] = (set(own), set(own))
            return ends[number]

        found: set[Pair] = set()
        # a token that two supermerges make may gain ends after it was used, so go on until nothing changes
        while True:
            before = sum(len(a) + len(b) for a, b in ends.values()) + len(found)
            for (left, right), new in self._super_events:
                found.update((a, b) for a in ends_of(left)[1] for b in ends_of(right)[0])
                ends_of(new)[0].update(ends_of(left)[0])
                ends_of(new)[1].update(ends_of(right)[1])
            if sum(len(a) + len(b) for a, b in ends.values()) + len(found) == before:
                return found

    @cached_property
    def followers(self) -> dict[int, frozenset[int]]:
        """The borders by their left sides."""
        rights: dict[int, set[int]] = {}
        for left, right in self.borders:
            rights.setdefault(left, set()).add(right)
        return {left: frozenset(found) for left, found in rights.items()}

    def join_run(self, run: Sequence[int]) -> list[int]:
        """Neighbouring whole chunks -> ids, supermerges made by smallest index first, again and again."""
        if len(run) >= _LONG_RUN and self._grows:
            flat, _ = self.super_bulk.replay(np.array(run, np.int32), np.array([len(run)]))
            joined: list[int] = flat.tolist()
            return joined
        sequence = list(run)
        rank = self._super_rank
        while len(sequence) > 1:
            best = min((rank[pair] + pair for pair in pairwise(sequence) if pair in rank), default=None)
            if best is None:
                break
            sequence = merge(sequence, best[2:], best[1])
        return sequence

    @cached_property
    def super_bulk(self) -> BulkReplay:
        """The supermerges as arrays."""
        first = set(self.model.supermerges.values())
        events = [event for index, event in enumerate(self.model.events) if index in first]
        return BulkReplay(events, self.n_log)

    @cached_property
    def _border_table(self) -> PairTable:
        return PairTable(sorted(self.borders), self.n_log + 2)

    @cached_property
    def _border_ends(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """For each log id: whether it is the left, and the right, of any border."""
        sides = np.zeros((2, self.n_log), np.bool_)
        for side in (0, 1):
            sides[side, [pair[side] for pair in self.borders]] = True
        return sides[0], sides[1]

    def joinable(self, stream: Ids) -> npt.NDArray[np.bool_]:
        """For each place of a stream but the last: whether a superword may reach from it to the next."""
        found = np.zeros(max(len(stream) - 1, 0), np.bool_)
        with self._lock:
            table, (lefts, rights) = self._border_table, self._border_ends
        for low in range(0, len(found), _SLICE):
            whole = stream[low : low + _SLICE + 1] - np.int32(WHOLE)
            at = np.flatnonzero((whole[:-1] >= 0) & (whole[1:] >= 0))
            left, right = whole[at], whole[at + 1]
            both = np.flatnonzero(lefts[left] & rights[right])
            hits = table.find(left[both], right[both]) >= 0
            found[at[both[hits]] + low] = True
        return found

    def join_stream(self, stream: Ids, joins: npt.NDArray[np.bool_] | None = None) -> Ids:
        """A stream of log ids with WHOLE set on whole chunks -> the same with superwords joined, nothing set.

        joins: what `joinable` says of it, if that is known.
        """
        if joins is None:
            joins = self.joinable(stream)
        plain = np.where(stream >= WHOLE, stream - np.int32(WHOLE), stream)
        at = np.flatnonzero(joins)
        if not len(at):
            return plain
        # a run is a stretch of joins and the place behind it; what it loses is left out of the stream
        last = np.flatnonzero(np.append(np.diff(at) != 1, True))
        lengths = np.diff(last, prepend=-1) + 1
        runs = ranges(at[last] + 2 - lengths, lengths)
        joined, counts = self._join_runs(plain[runs], lengths)
        inside = ranges(np.zeros(len(lengths), np.int64), lengths)
        stays = inside < np.repeat(counts, lengths)
        plain[runs[stays]] = joined
        keep = np.ones(len(plain), np.bool_)
        keep[runs[~stays]] = False
        return plain[keep]

    def _join_runs(self, flat: Ids, lengths: Lengths) -> tuple[Ids, Lengths]:
        """Runs of whole chunks one after another -> (their ids with superwords joined, ids of each)."""
        with self._lock:
            bulk = self.super_bulk if self._grows else None
        if bulk is not None:
            return bulk.replay(flat, lengths)
        ends = np.cumsum(lengths)
        lists = [self.join_run(flat[a:b].tolist()) for a, b in zip(ends - lengths, ends, strict=True)]
        joined = np.array([number for run in lists for number in run], np.int32)
        return joined, np.array([len(run) for run in lists], np.int64)

    # Model ids.

    def to_model_ids(self, log_ids: Ids) -> Ids:
        """Log ids -> model ids; DOCUMENT_END stays."""
        found = self.model_ids[log_ids]
        if len(found) and int(found.min()) < 0:
            bad = log_ids[found < 0]
            bad = bad[bad >= 0]
            if len(bad):
                self._refuse_dead(int(bad[0]))
        return found

    def named(self, log_ids: list[int]) -> list[int]:
        """The model ids of a few log ids."""
        ids = [self._id_list[number] for number in log_ids]
        if ids and min(ids) < 0:
            self._refuse_dead(log_ids[ids.index(min(ids))])
        return ids

    def _refuse_dead(self, log_id: int) -> None:
        raise ModelError(
            f"The text encodes to token {self.model.content(log_id)!r} (log id {log_id}), which was deleted and has no "
            f"model id. Only models whose deletions split into pairs (--delete-to pair) leave such tokens; train with "
            f"--delete-to bytes."
        )


def _replace_rows(flat: Ids, lengths: Lengths, rows: npt.NDArray[np.bool_], values: Ids) -> tuple[Ids, Lengths]:
    """Rows of a ragged array replaced by one value each."""
    if not rows.any():
        return flat, lengths
    starts = np.cumsum(lengths) - lengths
    new_lengths = np.where(rows, 1, lengths)
    new_starts = np.cumsum(new_lengths) - new_lengths
    result = np.empty(int(new_lengths.sum()), np.int32)
    keep = ~rows
    result[ranges(new_starts[keep], lengths[keep])] = flat[ranges(starts[keep], lengths[keep])]
    result[new_starts[rows]] = values
    return result, new_lengths
