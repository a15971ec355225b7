"""Stretches of the inputs as columns: a terabyte has a hundred thousand of them, and every command asks for them.

    Span                       one stretch, as an object
    Spans                      many: an array for each field, a number in place of each text, 32 bytes a digest: about
                               60 bytes a stretch. A Span is made when one is asked for
    SpansByPath                the stretches of each source, and which sources are counted to their end

Questions about all stretches (sums, order, overlaps, what another set of them holds) are answered on the arrays.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol, overload

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streambpe.arrays import Bool, Int64

Column = npt.NDArray[np.signedinteger[Any]]
Bytes = npt.NDArray[np.uint8]
_DIGEST = 32  # bytes of a sha256
_CODEC = "zstd"
_KINDS = (np.int8, np.int16, np.int32)  # of a column, if they hold its numbers
WITH_FIELDS = ("jsonl", "csv", "parquet")  # kinds of source that have fields, of which one holds the text


class HasSpans(Protocol):
    """A part."""

    @property
    def spans(self) -> Spans:
        """Its stretches."""


@dataclass(frozen=True)
class Span:
    """A stretch of one input that a part covers; the fields are the columns of table sources."""

    path: str
    kind: str
    text_column: str
    start_at: int
    stop_at: int
    documents: int
    text_bytes: int
    bad_utf8: int
    boms: int
    nulls: int
    digest: str
    part: str
    file_bytes: int
    mtime_ns: int
    state: str
    dropped: int = 0
    group_name: str = ""
    bad_lines: int = 0


_FIELDS = tuple(Span.__dataclass_fields__)
_ALL = attrgetter(*_FIELDS)
_TEXTS = ("path", "kind", "text_column", "part", "state", "group_name")
_NUMBERS = tuple(name for name in _FIELDS if name not in (*_TEXTS, "digest"))
_COLUMNS = (*_TEXTS, *_NUMBERS)
_SLOW = (*_TEXTS, "file_bytes", "mtime_ns")  # seldom change from one stretch to the next
Texts = Mapping[str, tuple[str, ...]]  # of each column of texts its values, distinct and sorted


class Columns(msgspec.Struct):
    """Stretches as the footer of a part holds them; in JSON, bytes are base64."""

    length: int
    texts: bytes  # compressed JSON: the values of each column of texts
    texts_bytes: int  # of that JSON
    numbers: dict[str, bytes]  # compressed, see _shuffled
    digests: bytes  # sha256 does not shrink


class Spans(Sequence[Span]):
    """Stretches of inputs, in the order in which they were given."""

    def __init__(self, texts: Texts, columns: Mapping[str, Column], digests: Bytes) -> None:
        """`columns`: of each field but the digest; a text is its place in `texts`. No digest: 32 zeros."""
        self._texts = texts
        self._columns = columns
        self._digests = digests

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        """The same stretches as columns."""
        if isinstance(spans, Spans):
            return spans
        rows = [_ALL(span) for span in spans]
        fields = dict(zip(_FIELDS, zip(*rows, strict=True) if rows else ((),) * len(_FIELDS), strict=True))
        texts, columns = {}, {}
        for name in _TEXTS:
            texts[name] = values = tuple(sorted(set(fields[name])))
            number = {value: i for i, value in enumerate(values)}
            columns[name] = _small(np.array([number[value] for value in fields[name]], np.int64))
        for name in _NUMBERS:
            columns[name] = _small(np.array(fields[name], np.int64))
        return cls(texts, columns, _digests(fields["digest"]))

    @classmethod
    def of_batches(cls, batches: Iterable[pa.RecordBatch]) -> Spans:
        """Made from rows (path, part, start_at, stop_at, digest); the other fields are empty, or 0."""
        number: dict[str, defaultdict[str, int]] = {"path": defaultdict(), "part": defaultdict()}
        for known in number.values():
            known.default_factory = known.__len__  # the next number for a text that is new
        found: dict[str, list[Column]] = {name: [np.empty(0, np.int8)] for name in (*number, "start_at", "stop_at")}
        digests = [np.empty((0, _DIGEST), np.uint8)]
        for batch in batches:
            for name, known in number.items():
                codes = list(map(known.__getitem__, batch.column(name).to_pylist()))
                found[name].append(_small(np.array(codes, np.int64)))
            for name in ("start_at", "stop_at"):
                found[name].append(batch.column(name).to_numpy().copy())
            digests.append(_digests(batch.column("digest").to_pylist()))
        columns = {name: np.concatenate(some) for name, some in found.items()}
        texts: dict[str, tuple[str, ...]] = dict.fromkeys(_TEXTS, ("",))
        for name, known in number.items():
            texts[name] = tuple(sorted(known))
            place = np.empty(len(known), np.int64)
            place[[known[value] for value in texts[name]]] = np.arange(len(known))
            columns[name] = _small(place[columns[name]])
        nothing = np.zeros(len(columns["path"]), np.int8)
        return cls(texts, {name: columns.get(name, nothing) for name in _COLUMNS}, np.concatenate(digests))

    @classmethod
    def joined(cls, many: Iterable[Spans]) -> Spans:
        """All of these, one after another."""
        some = [spans for spans in many if len(spans)]
        if len(some) < 2:
            return some[0] if some else cls.of(())
        texts = {name: _all_values([spans._texts[name] for spans in some]) for name in _TEXTS}
        columns = {}
        for name in _COLUMNS:
            pieces = [spans._columns[name] for spans in some]
            if name in texts and any(spans._texts[name] != texts[name] for spans in some):
                number = {value: i for i, value in enumerate(texts[name])}
                for at, spans in enumerate(some):
                    if spans._texts[name] != texts[name]:
                        place = np.array([number[value] for value in spans._texts[name]], np.int64)
                        pieces[at] = _small(place[pieces[at]])
            columns[name] = np.concatenate(pieces)
        return cls(texts, columns, np.concatenate([spans._digests for spans in some]))

    @classmethod
    def of_parts(cls, parts: Iterable[HasSpans]) -> Spans:
        """All stretches of these parts."""
        return cls.joined(part.spans for part in parts)

    # ------------------------------------------------------------------ one by one

    def __len__(self) -> int:
        return len(self._digests)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        if isinstance(at, slice):
            return self._at(at)
        fields: dict[str, Any] = {name: self._texts[name][self._columns[name][at]] for name in _TEXTS}
        fields.update((name, int(self._columns[name][at])) for name in _NUMBERS)
        digest = self._digests[at].tobytes()
        return Span(**fields, digest=digest.hex() if any(digest) else "")

    def _at(self, at: slice | Bool | Int64) -> Spans:
        columns = {name: column[at] for name, column in self._columns.items()}
        return Spans(self._texts, columns, self._digests[at])

    def __iter__(self) -> Iterator[Span]:
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    # ------------------------------------------------------------------ whole columns

    def column(self, name: str) -> Int64:
        """A column of whole numbers; of texts, their places in the sorted values."""
        return self._columns[name].astype(np.int64)

    def total(self, name: str) -> int:
        """The sum of a column, whatever its size."""
        column = self.column(name)
        return (int((column >> 32).sum()) << 32) + int((column & 0xFFFFFFFF).sum())

    def alike(self, name: str, value: str) -> Bool:
        """Which of them have this text in a column."""
        values = self._texts[name]
        found: Bool = self.column(name) == (values.index(value) if value in values else -1)
        return found

    def values(self, name: str) -> list[str]:
        """The distinct texts of a column, sorted."""
        values = self._texts[name]
        return [values[i] for i in np.flatnonzero(np.bincount(self.column(name), minlength=len(values)))]

    def where(self, chosen: Bool | Int64) -> Spans:
        """Those that a mask has, or those at these places, in their order."""
        return self._at(chosen)

    def firsts(self, *columns: str) -> Spans:
        """The first of those that are alike in these columns, in the order of the columns."""
        order = np.lexsort([self._columns[name] for name in columns[::-1]])
        new = np.zeros(len(self), bool)
        new[:1] = True
        for name in columns:
            column = self._columns[name][order]
            new[1:] |= column[1:] != column[:-1]
        return self._at(order[new])

    def stretches(self, *, joined: bool = False) -> list[tuple[int, int]]:
        """The start and stop of each; `joined`: of stretches of one source in order, as one where they adjoin."""
        start, stop = self.column("start_at"), self.column("stop_at")
        if joined and len(self):
            apart = start[1:] != stop[:-1]
            start, stop = start[np.append(True, apart)], stop[np.append(apart, True)]
        return list(zip(start.tolist(), stop.tolist(), strict=True))

    def digest_of(self, start: int, stop: int) -> str:
        """The digest of a stretch of one source, whose stretches are in order; "" if there is no such stretch."""
        at = int(np.searchsorted(self.column("start_at"), start))
        found = self[at] if at < len(self) else None
        return found.digest if found and (found.start_at, found.stop_at) == (start, stop) else ""

    def order(self) -> Int64:
        """Their places, by path, start and stop."""
        found: Int64 = np.lexsort([self._columns[name] for name in ("stop_at", "start_at", "path")])
        return found

    def in_order(self) -> Spans:
        """The same, by path, start and stop."""
        order = self.order()
        return self if (order[1:] > order[:-1]).all() else self._at(order)

    def first_overlap(self) -> tuple[int, int] | None:
        """The places of two stretches that share some of a source, or begin at the same place of it."""
        order = self.order()
        path, start, stop = (self._columns[name][order] for name in ("path", "start_at", "stop_at"))
        twice = (path[1:] == path[:-1]) & ((start[1:] < stop[:-1]) | (start[1:] == start[:-1]))
        found = np.flatnonzero(twice)[:1]
        return (int(order[found[0]]), int(order[found[0] + 1])) if len(found) else None

    def found_in(self, others: Spans) -> tuple[Bool, bool]:
        """(which of these are among the others, in path, start, stop, part and digest; whether those are all of the
        others). No two of these begin at the same place of a source."""
        both = Spans.joined([self, others])
        mine = np.zeros(len(self), bool)
        order = np.lexsort([both._columns[name] for name in ("start_at", "path")])
        a, b = order[:-1], order[1:]
        same = (a < len(self)) & (b >= len(self))
        for name in ("path", "start_at", "stop_at", "part"):
            same &= both._columns[name][a] == both._columns[name][b]
        same[same] = (both._digests[a[same]] == both._digests[b[same]]).all(axis=1)
        mine[a[same]] = True
        return mine, int(same.sum()) == len(others)

    def with_texts(self, name: str, change: Callable[[str], str]) -> Spans:
        """The same with other texts in a column: `change` is asked once for each text."""
        changed = [change(value) for value in self._texts[name]]
        values = tuple(sorted(set(changed)))
        number = {value: i for i, value in enumerate(values)}
        place = np.array([number[value] for value in changed], np.int64)
        columns = {**self._columns, name: _small(place[self._columns[name]])}
        return Spans({**self._texts, name: values}, columns, self._digests)

    # ------------------------------------------------------------------ on disk, and in SQL

    def columns(self) -> Columns:
        """As a part's footer holds them."""
        texts = msgspec.json.encode({name: self._texts[name] for name in _TEXTS})
        return Columns(
            len(self),
            pa.compress(texts, _CODEC, asbytes=True),
            len(texts),
            {name: pa.compress(_shuffled(self._changes(name)), _CODEC, asbytes=True) for name in _COLUMNS},
            self._digests.tobytes(),
        )

    def _changes(self, name: str) -> Int64:
        """A column as the footer has it: differences, which shrink, in place of what grows or seldom changes.

        start 0 80 160, stop 80 160 250  ->  start: 0 0 0 (from the stop before), stop: 80 80 90 (from the start)
        """
        found = self.column(name)
        if name in ("stop_at", "text_bytes"):
            found -= self.column("start_at") if name == "stop_at" else self.column("stop_at") - self.column("start_at")
        elif name == "start_at":
            found[1:] -= self._columns["stop_at"][:-1]
        elif name in _SLOW:
            found[1:] -= self._columns[name][:-1]
        return found

    @classmethod
    def of_columns(cls, held: Columns) -> Spans:
        """What a footer holds; ValueError, KeyError, or an error of Arrow or msgspec, if it is damaged."""
        if not held.length:
            return cls.of(())
        texts = msgspec.json.decode(
            pa.decompress(held.texts, held.texts_bytes, _CODEC, asbytes=True), type=dict[str, tuple[str, ...]]
        )
        columns: dict[str, Column] = {}
        for name in _COLUMNS:
            found = _unshuffled(pa.decompress(held.numbers[name], 8 * held.length, _CODEC, asbytes=True))
            if name in _SLOW:
                found = np.cumsum(found)
            elif name == "stop_at":  # the start before it is still the distance from the stop before that
                start, size = columns["start_at"], found
                found = np.cumsum(start + size)
                columns["start_at"] = found - size
            elif name == "text_bytes":
                found = found + columns["stop_at"] - columns["start_at"]
            columns[name] = _small(found)
            if name in _TEXTS and not 0 <= int(found.min()) <= int(found.max()) < len(texts[name]):
                raise ValueError(f"a {name} of its stretches is missing")
        return cls(texts, columns, np.frombuffer(held.digests, np.uint8).reshape(held.length, _DIGEST))

    def table(self) -> pa.Table:
        """The rows of table sources, in its order."""
        spans = self.in_order()
        return pa.table({name: spans._arrow(name) for name in _FIELDS})

    def _arrow(self, name: str) -> pa.Array:
        if name in _NUMBERS:
            return pa.array(self.column(name))
        if name != "digest":
            return pa.DictionaryArray.from_arrays(pa.array(self.column(name), pa.int32()), pa.array(self._texts[name]))
        there = self._digests.any(axis=1)
        ends = np.zeros(len(self) + 1, np.int32)
        np.cumsum(there * (2 * _DIGEST), out=ends[1:])
        text = self._digests[there].tobytes().hex().encode()
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(ends), pa.py_buffer(text))


class SpansByPath(Mapping[str, Spans]):
    """The stretches of each source, in the order of their places."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans.in_order()
        self._paths = self._spans.values("path")
        path = self._spans.column("path")
        begins = np.flatnonzero(np.diff(path, prepend=-1))
        self._bounds = np.append(begins, len(path))

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __getitem__(self, path: str) -> Spans:
        at = bisect_left(self._paths, path)
        if at == len(self._paths) or self._paths[at] != path:
            raise KeyError(path)
        return self._spans[self._bounds[at] : self._bounds[at + 1]]

    @cached_property
    def complete(self) -> frozenset[str]:
        """The sources of which the stretches are all: from 0 on, without a gap, to the last one."""
        spans, first = self._spans, self._bounds[:-1]
        if not len(spans):
            return frozenset()
        start, stop = spans.column("start_at"), spans.column("stop_at")
        before = np.roll(stop, 1)
        before[first] = 0
        whole = np.logical_and.reduceat(start <= before, first)
        ended = np.logical_or.reduceat(spans.alike("state", "last"), first)
        return frozenset(self._paths[i] for i in np.flatnonzero(whole & ended))


def _all_values(some: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The distinct texts of some columns, sorted; each of them is."""
    most = max(some, key=len)
    others = set().union(*(values for values in some if values is not most and values != most))
    new = others.difference(most) if others else others
    return tuple(sorted([*most, *new])) if new else most


def _digests(digests: Sequence[str]) -> Bytes:
    """The bytes of digests; what is none, after an edit of a table, as one that no stretch has."""
    if set(map(len, digests)) == {2 * _DIGEST}:
        with contextlib.suppress(ValueError):
            return np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(-1, _DIGEST)
    found = np.full((len(digests), _DIGEST), 255, np.uint8)
    for row, digest in zip(found, digests, strict=True):
        with contextlib.suppress(ValueError):
            data = bytes.fromhex(digest or "00" * _DIGEST)
            if len(data) == _DIGEST:
                row[:] = np.frombuffer(data, np.uint8)
    return found


def _small(numbers: Int64) -> Column:
    """The same numbers in as few bytes as hold each of them."""
    if not len(numbers):
        return numbers.astype(np.int8)
    low, high = int(numbers.min()), int(numbers.max())
    kind = next((kind for kind in _KINDS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max), np.int64)
    return numbers.astype(kind)


def _shuffled(numbers: Int64) -> bytes:
    """The lowest bytes of all numbers, then the next bytes, and so on: the upper ones are nearly all alike."""
    return numbers.astype("<i8").view(np.uint8).reshape(-1, 8).T.tobytes()


def _unshuffled(data: bytes) -> Int64:
    apart = np.frombuffer(data, np.uint8).reshape(8, -1)
    return apart.T.copy().view("<i8").reshape(-1).astype(np.int64)
