"""The core's encoder and decoder, typed (encode.h): a model's tables, and one thread's encoder over them.

tables = ModelTables(...)                     a model as arrays, for any number of encoders
EncoderCore(tables).block(b"the cat\\xff", 0)       model ids, END_OF_TEXT behind every document
"""

from __future__ import annotations

import functools
import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.core.binding import PRESETS, Bytes, ChunkTable, CoreObject, Longs, Split, Sticks, library, structure
from streambpe.core.strings import expanded
from streambpe.errors import CoreError, LimitError, ModelError

Ids = npt.NDArray[np.int32]
Pair = tuple[int, int]

NEVER = 2**31 - 1  # an event behind all others
END_OF_TEXT = -2  # in a stream of ids, as is UNKNOWN = -1
WHOLE = 1 << 30  # set on an id in a stream: it is a chunk by itself and may become part of a superword
HOLD_FIRST, HOLD_LAST = 1, 2
BYTES, CHARACTERS, SCRIPT = range(3)  # alphabets
REFUSE, DROP, KEEP, ESCAPE = range(4)  # what becomes of a symbol outside the alphabet
WINDOW = 4096  # symbols of a long chunk that are replayed together
CACHE_BYTES = 8 << 20
NO_LIMIT = 1 << 62
_MARK = "\u2581".encode()  # what the words of --pattern whitespace have before them
_SPARE = 16  # ids for which there is always room, however short a chunk is
_USUAL = 1 << 14  # ids for which room is kept between calls
_FULL, _NO_MEMORY, _CLASS, _UNKNOWN, _DEAD = -1, -2, -5, -6, -7

# the places of pair_rules and of encode_model in encode.h, each a number or the address of an array
_RULES = (
    "slots", "mask", "used", "present", "made", "later", "deletion", "into_at", "into", "sizes", "events", "backwards",
)  # fmt: skip
_MODEL = (
    *(f"{part}.{name}" for part in ("chunk", "super", "borders") for name in _RULES),
    "symbols", "indices", "names", "side", "stops", "marked_stops", "classes", "spanned", "spanned_mask", "sticks",
    "window", "ids", "alphabet", "unknown", "escape", "unknown_name", "preset", "special", "digits",
)  # fmt: skip


class SymbolRefused(Exception):
    """The text holds a symbol outside the alphabet of a model that has no place for it."""


class TokenDead(Exception):
    """A text ended in a token without a model id. The argument is its log id."""


class AlphabetSymbols(NamedTuple):
    """An alphabet's way from text to symbols: `symbols` by byte or code point; for SCRIPT its block, and `indices`."""

    alphabet: int
    unknown: int
    symbols: Ids
    indices: Ids | None = None
    escape: int = 0


class NumberedEvents(msgspec.Struct, frozen=True):
    """A model's events, numbered as in its log, by what they act on; each list of numbers is ascending."""

    made: Sequence[int]  # the token of each event
    merges: Mapping[Pair, Sequence[int]]
    deletions: Mapping[int, Sequence[int]]  # of a token
    into: Mapping[int, Sequence[int]]  # of an event that splits
    supermerges: Mapping[Pair, int]
    sizes: Ids  # of every log id, in base symbols


class ModelTables:
    """A model's arrays as the core reads them: 34 to 68 bytes per pair, 12 per event, 4.5 MB for characters."""

    def __init__(
        self,
        events: NumberedEvents,
        symbols: AlphabetSymbols,
        split: Split | None = None,
        *,
        stop_words: Mapping[bytes, int] = MappingProxyType({}),
        borders: Iterable[Pair] = (),
        backwards: bool = False,
        names: Ids | None = None,
        unknown_name: int = -1,
        window: int = WINDOW,
        contents: Sequence[bytes] = (),
        sticks: Sticks | None = None,
    ) -> None:
        """names: the model id of every log id, or None where log ids are wanted; split: None if the caller splits.
        contents: the bytes of all tokens; chunks are looked up in parts where no token spans their border. sticks: the
        same for any two bytes, and END_OF_TEXT stands behind every chunk."""
        self.symbols, self.n_ids = symbols, len(events.sizes)
        tables = [symbols.symbols, *([] if symbols.indices is None else [symbols.indices]), [*stop_words.values(), 0]]
        last = max(int(np.asarray(table).max()) for table in tables)
        if max(last, symbols.escape + 255 if symbols.unknown == ESCAPE else 0) >= self.n_ids:
            raise ModelError(f"Text becomes symbols up to number {last}, but the model has {self.n_ids} ids.")
        self.has_superwords = bool(events.supermerges)
        self.ids_a_byte = 2 if symbols.alphabet == SCRIPT else 1  # the most ids that a byte of text may become
        self.sizes = np.ascontiguousarray(events.sizes, np.int32)  # of every log id, in base symbols
        self._fields: dict[str, Any] = {  # numbers and arrays, by their places in the structure
            "ids": self.n_ids, "alphabet": symbols.alphabet, "unknown": symbols.unknown, "escape": symbols.escape,
            "unknown_name": unknown_name, "window": window,
            "super.events": len(events.made), "super.backwards": backwards,
        }  # fmt: skip
        self._fill_chunk_rules(events)
        numbers = list(events.supermerges.values())
        self._fill_pairs("super", list(events.supermerges), numbers)
        made = np.array([events.made[number] for number in numbers], np.int32)
        self._supermerges = np.column_stack([np.array(list(events.supermerges), np.int32).reshape(-1, 2), made])
        self._fields["super.made"] = self._fields["chunk.made"]
        beside = list(borders)
        self._fill_pairs("borders", beside, [0] * len(beside))
        if self.has_superwords:
            side = np.zeros(self.n_ids, np.uint8)
            ends = np.array(beside, np.int64).reshape(-1, 2)
            side[ends[:, 0]] |= 1
            side[ends[:, 1]] |= 2
            self._keep("side", side, np.uint8)
        self._keep("symbols", symbols.symbols)
        if symbols.indices is not None:
            self._keep("indices", symbols.indices)
        if names is not None:
            self._keep("names", names)
        if contents and symbols.alphabet == BYTES and symbols.unknown != DROP and not stop_words:
            self._fill_spanned(np.cumsum([0, *map(len, contents)]), np.frombuffer(b"".join(contents), np.uint8))
        if sticks is not None:
            self._keep("sticks", sticks, np.uint8)
            self.ids_a_byte = 2
        self.stop_words = {word: number for word, number in stop_words.items() if word}
        self.split_by(split)

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the arrays, not their addresses. How to split is not part of it (`split_by`)."""
        return vars(self) | {"split": None}

    def split_by(self, split: Split | None) -> None:
        """Say how texts are split; again in a process that got these tables."""
        self.split = split
        if split is not None and split.preset == PRESETS.index("whitespace"):
            self.ids_a_byte = 3  # a word gets a mark before it

    def packed(self, **others: int) -> Longs:
        """The model as the core reads it, with other numbers in some places."""
        fields = self._fields | {"preset": -1, "special": -1}
        if split := self.split:
            how = {"preset": split.preset, "special": split.special, "digits": split.digits}
            fields |= how | {"classes": split.classes.table}
        return structure(*((fields | others).get(place, 0) for place in _MODEL))

    @functools.cached_property
    def longest(self) -> int:
        """The most chunks that a superword holds."""
        chunks = [1] * self.n_ids
        by_size = np.argsort(self.sizes[self._supermerges[:, 2]], kind="stable")
        for left, right, made in self._supermerges[by_size].tolist():
            chunks[made] = max(chunks[made], chunks[left] + chunks[right])
        return max(chunks)

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        return sum(value.nbytes for value in self._fields.values() if isinstance(value, np.ndarray))

    def _keep(self, place: str, values: Any, kind: Any = np.int32) -> None:
        """Keep an array in the form in which the core reads it."""
        self._fields[place] = np.ascontiguousarray(values, kind)

    def _fill_pairs(self, part: str, pairs: Sequence[Pair], events: Sequence[int]) -> None:
        size = 1 << max(4, (2 * len(pairs)).bit_length())
        slots, present = np.empty(size * 16, np.uint8), np.zeros(size, np.uint8)
        both = np.array(pairs, np.int32).reshape(-1, 2)
        columns = [np.ascontiguousarray(column, np.int32) for column in (both[:, 0], both[:, 1], events)]
        library().rules_fill(slots, present, size, *columns, len(pairs))
        self._fields |= {f"{part}.slots": slots, f"{part}.present": present, f"{part}.mask": size - 1}

    def _fill_spanned(self, offsets: Longs, data: Bytes) -> None:
        bits = np.zeros(1 << max(10, len(offsets).bit_length() - 1), np.uint8)
        self._fields |= {"spanned": bits, "spanned_mask": 8 * len(bits) - 1}
        library().spanned_fill(self._fields["spanned_mask"], offsets, data, len(offsets) - 1, bits)

    def _fill_chunk_rules(self, events: NumberedEvents) -> None:
        many = len(events.made)
        first = [numbers[0] for numbers in events.merges.values()]
        self._fill_pairs("chunk", list(events.merges), first)
        self._fields["chunk.events"] = many
        self._keep("chunk.made", [*events.made, 0])
        if not events.deletions and len(first) == sum(map(len, events.merges.values())):
            return
        later = np.full(many + 1, NEVER, np.int32)
        for numbers in itertools.chain(events.merges.values(), events.deletions.values()):
            later[list(numbers[:-1])] = numbers[1:]
        self._keep("chunk.later", later)
        if not events.deletions:
            return
        deletion = np.full(self.n_ids, NEVER, np.int32)
        deletion[list(events.deletions)] = [numbers[0] for numbers in events.deletions.values()]
        self._keep("chunk.deletion", deletion)
        parts = [events.into.get(number, ()) for number in range(many)]
        for token, numbers in events.deletions.items():
            for number in numbers:  # else more would stand in a chunk than there is room for
                if sum(int(events.sizes[part]) for part in parts[number]) != events.sizes[token]:
                    raise ModelError(
                        f"Event {number} splits token {token} into {parts[number]}, which is not what it was made of."
                    )
        self._keep("chunk.into_at", np.cumsum([0, *map(len, parts)]), np.int64)
        self._keep("chunk.into", [*itertools.chain.from_iterable(parts), 0])
        self._keep("chunk.sizes", events.sizes)


class BlockIds(NamedTuple):
    """One block's ids: what is final, and what may still join with the blocks around it."""

    head: Ids  # log ids with WHOLE set: may join with what the block before left open
    body: Ids  # model ids
    tail: Ids  # log ids with WHOLE set: may join with the block behind
    closed: bool  # whether anything in the block ends a run; if not, head goes on into the next block


class Tally(msgspec.Struct):
    """Counts of the events as they are replayed. `weights`: one per sequence; `n`: one per event, added to.

    `disjoint`: "aaa" holds (a, a) once, else twice. `stood`: whether an event's pair stood anywhere before its turn or
    at it; n is 0 where it stood and others took up its places.
    """

    weights: Longs
    n: Longs
    disjoint: bool
    stood: npt.NDArray[np.bool_]


def _word_table(words: Mapping[bytes, int]) -> ChunkTable:
    table, ids = ChunkTable(NO_LIMIT), np.fromiter(words.values(), np.int64, len(words))
    data = np.frombuffer(b"".join(words) + b"\0", np.uint8)
    table.add(np.cumsum([0, *map(len, words)], dtype=np.int64), data, ids)
    return table


class EncoderCore(CoreObject):
    """One thread's encoder. Memory: the cache; for a long chunk at most `limit`: 45 bytes per symbol of two windows."""

    def __init__(
        self, tables: ModelTables, cache_bytes: int = CACHE_BYTES, limit: int = NO_LIMIT, named: bool = True
    ) -> None:
        """named: give model ids, if the tables have them."""
        self._library = library()
        self._tables = tables
        others = {} if named else {"names": 0}
        if words := tables.stop_words:
            marked = {
                word.removeprefix(_MARK): number
                for word, number in words.items()
                if word.startswith(_MARK) and word != _MARK
            }
            self._stops = _word_table(words), _word_table(marked)
            others |= {"stops": self._stops[0].handle, "marked_stops": self._stops[1].handle}
        super().__init__("encoder", "the cache of chunks", tables.packed(**others), cache_bytes, limit)
        self._handle, self._limit = self.handle, limit
        self._encode_text = self._library.encode_text
        self._ids_a_byte = tables.ids_a_byte
        self._room = np.empty(_USUAL, np.int32)
        self._place = self._room.ctypes.data

    def set_limit(self, limit: int) -> None:
        """Allow another limit from here on."""
        if limit != self._limit:
            self._library.encoder_limit(self._handle, limit)
            self._limit = limit

    def id_list(self, text: bytes) -> list[int]:
        """The ids of a buffer as a list; the fast way for texts of everyday length."""
        size = len(text)
        if size * self._ids_a_byte + _SPARE > _USUAL:
            return self.block(text, 0).body.tolist()  # type: ignore[no-any-return]
        made = self._encode_text(self._handle, text, size, 0, self._place, None)
        if made < 0:
            self._mend(made, text)
            made = self._call(self._encode_text, text, size, 0, self._place, None)
        return self._room[:made].tolist()  # type: ignore[no-any-return]

    def _call(self, function: Any, *arguments: Any) -> int:
        """What a function of the core gives, once the classes are learned that a text needs."""
        while (made := function(self._handle, *arguments)) < 0:
            self._mend(made, arguments[0])
        return int(made)

    def block(self, text: bytes, hold: int) -> BlockIds:
        """The ids of a buffer: documents, each ended by FF, or one alone. `hold`: which of its first and last run."""
        out = np.empty(len(text) * self._ids_a_byte + _SPARE, np.int32)
        parts = np.zeros(3, np.int64)
        made = self._call(self._encode_text, text, len(text), hold, out.ctypes.data, parts.ctypes.data)
        return _parted(out[:made], parts)

    def block_of_rows(self, offsets: Longs, data: Bytes, rows: Ids, hold: int) -> BlockIds:
        """The same for text that is split: chunk i is data[offsets[i]:offsets[i + 1]]; -1 in `rows` ends a document."""
        ids, counts = self.chunks(offsets, data)
        ids, counts = np.append(ids, np.int32(END_OF_TEXT)), np.append(counts, 1)  # the last entry is the one of -1
        stream = expanded(ids, counts, rows)
        if not self._tables.has_superwords:
            return BlockIds(stream[:0], stream, stream[:0], True)
        return self._joined(stream, hold)

    def chunks(self, offsets: Longs, data: Bytes) -> tuple[Ids, Longs]:
        """Each chunk by itself: (ids one after another, how many of each).

        With superwords these are log ids, and a chunk that a superword may take up has WHOLE set.
        """
        out = np.empty(len(data) * self._ids_a_byte + _SPARE, np.int32)
        counts = np.empty(len(offsets) - 1, np.int64)
        offsets = np.ascontiguousarray(offsets)
        made = self._call(self._library.encode_chunks, offsets, data, len(counts), out, counts)
        return out[:made].copy(), counts

    def replayed(self, symbols: Ids, counts: Longs, tally: Tally | None = None) -> tuple[Ids, Longs]:
        """Sequences of base symbols, counts[i] of each -> (log ids one after another, how many of each)."""
        ids, counts = np.array(symbols, np.int32), np.array(counts, np.int64)
        known = ids[ids >= 0]
        if not (known < self._tables.n_ids).all() or not (self._tables.sizes[known] == 1).all():
            raise ValueError("only base symbols can be replayed, and these are not")
        asked: list[Any] = [None, None]
        if tally is not None:
            if "chunk.deletion" in self._tables._fields:
                raise ValueError("events with deletions are not counted")
            events = structure(tally.n, tally.stood, 0, tally.disjoint, 0)
            asked = [events, np.ascontiguousarray(tally.weights, np.int64)]
        made = self._call(self._library.encode_symbols, ids, counts, len(counts), *asked)
        return ids[:made], counts

    def joined(self, stream: Ids) -> Ids:
        """A stream with WHOLE set on whole chunks -> ids with superwords joined."""
        stream = np.ascontiguousarray(stream, np.int32)
        if ((stream < END_OF_TEXT) | ((stream & ~WHOLE) >= self._tables.n_ids) & (stream >= 0)).any():
            raise ValueError("only ids of the model can be joined, and these are not")
        return self._joined(stream, 0).body

    def _joined(self, stream: Ids, hold: int) -> BlockIds:
        out, parts = np.empty(len(stream) + _SPARE, np.int32), np.zeros(3, np.int64)
        made = self._call(self._library.encode_joined, stream, len(stream), hold, out, parts)
        return _parted(out[:made], parts)

    def certain(self, run: Ids) -> int:
        """How many ids at the front of an open run join as they join now, and with none behind them, whatever follows.

        What is joined up to a border between two tokens is joined so too where the run ends at that border. No token is
        longer than `longest`, so whatever follows, one ends at one of the last `longest` places of the run. So a border
        is certain that is there whichever of these the run ends at. By the rule of cuts in encode_replay.c it is enough
        to look at what stands behind an earlier border.
        """
        tables, n = self._tables, len(run)
        if n < tables.longest:
            return 0
        core = EncoderCore(tables, 0, named=False)
        place = np.cumsum(tables.sizes[run - WHOLE], dtype=np.int64)  # of the end of each id, in base symbols

        def ends(start: int, stop: int) -> Longs:
            tokens = core.joined(run[start:stop])
            return np.cumsum(tables.sizes[tokens], dtype=np.int64) + (place[start - 1] if start else 0)

        whole, behind = ends(0, n), 4 * tables.longest
        while True:
            earlier = whole[whole <= place[n - behind]] if behind < n else whole[:0]
            start = int(np.searchsorted(place, earlier[-1])) + 1 if len(earlier) else 0
            common = ends(start, n)
            for stop in range(n - tables.longest + 1, n):
                common = np.intersect1d(common, ends(start, stop), assume_unique=True)
            if len(common):
                return int(np.searchsorted(place, common[-1])) + 1
            if not start:
                return 0
            behind *= 4

    def _mend(self, code: int, text: Any) -> None:
        """Learn the classes that a text needs, so that it can be tried again; raise what any other code stands for."""
        split = self._tables.split
        if code == _CLASS and split is not None:
            split.learn(text)
            return
        if code == _UNKNOWN:
            raise SymbolRefused
        if code == _DEAD:
            raise TokenDead(self._library.encoder_bad(self._handle))
        if code == _FULL:
            raise LimitError(
                "A chunk is too long for this memory, because its tokens are connected from end to end. Give more "
                "--memory."
            )
        if code == _NO_MEMORY:
            raise MemoryError("a long chunk")
        raise CoreError(f"The compiled core of streambpe failed while encoding: error {code}.")


def _parted(ids: Ids, parts: Longs) -> BlockIds:
    head, last, closed = parts.tolist()
    return BlockIds(ids[:head].copy(), ids[head:last].copy(), ids[last:].copy(), bool(closed))


class Decoder:
    """Ids to the bytes that they stand for."""

    def __init__(self, contents: Mapping[int, bytes]) -> None:
        """contents: the bytes of each id; all other ids are invalid."""
        self._many = max(contents, default=-1) + 1
        self._sizes = np.full(self._many, -1, np.int32)
        self._starts = np.zeros(self._many, np.int64)
        ids = list(contents)
        sizes = np.fromiter(map(len, contents.values()), np.int64, len(ids))
        self._sizes[ids] = sizes
        self._starts[ids] = np.cumsum(sizes) - sizes
        self._bytes = np.frombuffer(b"".join(contents.values()) + b"\0", np.uint8)
        self._library = library()
        self._places = self._sizes.ctypes.data, self._starts.ctypes.data, self._bytes.ctypes.data

    def decode(self, tokens: list[int] | npt.NDArray[Any]) -> bytes | None:
        """The bytes of a list or an array of ids; None if one stands for none, or is not a whole number."""
        ids: npt.NDArray[Any]
        if isinstance(tokens, np.ndarray):
            if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or tokens.dtype == np.uint64:
                return None
            ids = np.ascontiguousarray(tokens, np.int64)
        else:
            try:
                ids = np.frombuffer(array("q", tokens), np.int64)
            except (TypeError, OverflowError):
                return None
        given = *self._places, self._many, ids, len(ids)
        size = self._library.decode_ids(*given, None)
        if size < 0:
            return None
        out = np.empty(size, np.uint8)
        self._library.decode_ids(*given, out)
        return out.tobytes()
