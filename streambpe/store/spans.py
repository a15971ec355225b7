"""Stretches of the inputs as columns: a terabyte has a hundred thousand of them, and every command asks for them.

    Span                       one stretch, as an object
    Spans                      many: an array for each field, a number in place of each text, 64 bytes a digest: about
                               90 bytes a stretch. A Span is made when one is asked for
    SpansByPath                the stretches of each source, and which sources are counted to their end

Questions about all stretches (sums, order, overlaps, what another set of them holds) are answered on the arrays.
"""

from __future__ import annotations

import io
import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import Bool, Int64

Column = npt.NDArray[Any]  # numbers in as few bytes as they need
_DIGEST = "S64"  # a sha256 in hex; what a table says after an edit may be cut off


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
    cut_documents: int = 0
    cut_bytes: int = 0


_FIELDS = tuple(Span.__dataclass_fields__)
_TEXTS = ("path", "kind", "text_column", "part", "state", "group_name")
_NUMBERS = tuple(name for name in _FIELDS if name not in (*_TEXTS, "digest"))
_ENCODINGS = {
    **dict.fromkeys(_TEXTS, "DELTA_BYTE_ARRAY"),
    **dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
    "digest": "DELTA_LENGTH_BYTE_ARRAY",  # of which zstd makes 32 bytes each
}
Texts = Mapping[str, tuple[str, ...]]  # of each column of texts its values, distinct and sorted


class Spans(Sequence[Span]):
    """Stretches of inputs, in the order in which they were given."""

    def __init__(self, texts: Texts, columns: Mapping[str, Column]) -> None:
        """`columns`: of each field. A text is its place in `texts`."""
        self._texts = texts
        self._columns = columns

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        """The same stretches as columns."""
        if isinstance(spans, Spans):
            return spans
        many = list(spans)
        return cls._of_fields({name: list(map(attrgetter(name), many)) for name in _FIELDS})

    @classmethod
    def of_table(cls, table: pa.Table) -> Spans:
        """Made from rows of table sources."""
        return cls._of_fields({
            name: table[name].to_numpy() if name in _NUMBERS else table[name].to_pylist() for name in _FIELDS
        })  # fmt: skip

    @classmethod
    def _of_fields(cls, fields: Mapping[str, Sequence[Any]]) -> Spans:
        texts, columns = {}, {name: _small(np.asarray(fields[name], np.int64)) for name in _NUMBERS}
        for name in _TEXTS:
            texts[name], columns[name] = _coded(fields[name], slice(None))
        columns["digest"] = np.array([digest.encode() for digest in fields["digest"]], _DIGEST)
        return cls(texts, columns)

    @classmethod
    def joined(cls, many: Iterable[Spans]) -> Spans:
        """All of these, one after another."""
        some = [spans for spans in many if len(spans)]
        if len(some) < 2:
            return some[0] if some else cls.of(())
        texts = {}
        columns = {name: np.concatenate([spans._columns[name] for spans in some]) for name in (*_NUMBERS, "digest")}
        for name in _TEXTS:
            values = [spans._texts[name] for spans in some]
            begins = itertools.accumulate(map(len, values[:-1]), initial=0)
            places = [spans.column(name) + begin for spans, begin in zip(some, begins, strict=True)]
            texts[name], columns[name] = _coded([*itertools.chain(*values)], np.concatenate(places))
        return cls(texts, columns)

    # ------------------------------------------------------------------ one by one

    def __len__(self) -> int:
        return len(self._columns["digest"])

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        if isinstance(at, slice):
            return self.where(at)
        fields: dict[str, Any] = {name: self._texts[name][self._columns[name][at]] for name in _TEXTS}
        fields.update((name, int(self._columns[name][at])) for name in _NUMBERS)
        return Span(**fields, digest=self._columns["digest"][at].decode(errors="replace"))

    def __iter__(self) -> Iterator[Span]:
        return (self[at] for at in range(len(self)))

    # ------------------------------------------------------------------ whole columns

    def column(self, name: str) -> Int64:
        """A column of whole numbers; of texts, their places in the sorted values."""
        return self._columns[name].astype(np.int64)

    def total(self, name: str) -> int:
        """The sum of a column, whatever its size."""
        column = self.column(name)
        return (int((column >> 32).sum()) << 32) + int((column & 0xFFFFFFFF).sum())

    def among(self, name: str, values: Collection[str]) -> Bool:
        """Which of them have one of these texts in a column."""
        known = np.array([value in values for value in self._texts[name]], bool)
        found: Bool = known[self.column(name)]
        return found

    def values(self, name: str) -> list[str]:
        """The distinct texts of a column, sorted."""
        values = self._texts[name]
        return [values[i] for i in np.flatnonzero(np.bincount(self.column(name), minlength=len(values)))]

    def where(self, chosen: slice | Bool | Int64) -> Spans:
        """Those that a mask has, or those at these places, in their order."""
        return Spans(self._texts, {name: column[chosen] for name, column in self._columns.items()})

    def firsts(self, *columns: str) -> Spans:
        """The first of those that are alike in these columns, in the order of the columns."""
        places: Int64 = np.unique([self.column(name) for name in columns], axis=1, return_index=True)[1]
        return self.where(places)

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
        return self if (order[1:] > order[:-1]).all() else self.where(order)

    def first_overlap(self) -> tuple[int, int] | None:
        """The places of two stretches that share some of a source, or begin at the same place of it."""
        order = self.order()
        path, start, stop = (self._columns[name][order] for name in ("path", "start_at", "stop_at"))
        twice = (path[1:] == path[:-1]) & ((start[1:] < stop[:-1]) | (start[1:] == start[:-1]))
        found = np.flatnonzero(twice)[:1]
        return (int(order[found[0]]), int(order[found[0] + 1])) if len(found) else None

    def found_in(self, others: Spans) -> tuple[Bool, bool]:
        """(which of these are among the others, in path, start, stop, part and digest; whether those are all of the
        others)."""
        both = Spans.joined([self, others])
        numbers = [both.column(name)[:, None] for name in ("path", "start_at", "stop_at", "part")]
        digests = both._columns["digest"].view(np.int64).reshape(len(both), 8)
        key = np.unique(np.hstack([*numbers, digests]), axis=0, return_inverse=True)[1]
        mine, theirs = key[: len(self)], key[len(self) :]
        return np.isin(mine, theirs), bool(np.isin(theirs, mine).all())

    def with_texts(self, name: str, change: Callable[[str], str]) -> Spans:
        """The same with other texts in a column: `change` is asked once for each text."""
        values, column = _coded([change(value) for value in self._texts[name]], self._columns[name])
        return Spans({**self._texts, name: values}, {**self._columns, name: column})

    # ------------------------------------------------------------------ on disk, and in SQL

    def packed(self) -> bytes:
        """As a part's footer holds them: a small Parquet file, in which each column is stored as what changes."""
        out = io.BytesIO()
        pq.write_table(
            self._rows(), out, compression="zstd", use_dictionary=False, column_encoding=_ENCODINGS,
            write_statistics=False, store_schema=False,
        )  # fmt: skip
        return out.getvalue()

    @classmethod
    def of_packed(cls, held: bytes) -> Spans:
        """What a footer holds; an OSError, or an error of Arrow, if it is damaged."""
        with pq.ParquetFile(pa.BufferReader(held)) as file:
            return cls.of_table(file.read(use_threads=False))

    def table(self) -> pa.Table:
        """The rows of table sources, in its order."""
        return self.in_order()._rows()

    def _rows(self) -> pa.Table:
        return pa.table({name: self._arrow(name) for name in _FIELDS})

    def _arrow(self, name: str) -> pa.Array:
        if name in _NUMBERS:
            return pa.array(self.column(name))
        if name == "digest":
            return pa.array([digest.decode(errors="replace") for digest in self._columns[name].tolist()], pa.string())
        values = pa.array(self._texts[name], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(self.column(name), pa.int32()), values)


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

    def totals(self, column: str) -> dict[str, int]:
        """The sum of a column for each source."""
        sums = np.add.reduceat(self._spans.column(column), self._bounds[:-1]) if len(self) else np.empty(0, np.int64)
        return dict(zip(self._paths, sums.tolist(), strict=True))

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
        ended = np.logical_or.reduceat(spans.among("state", ("last",)), first)
        return frozenset(self._paths[i] for i in np.flatnonzero(whole & ended))


def _coded(values: Sequence[str], places: Column | slice) -> tuple[tuple[str, ...], Column]:
    """(distinct values, sorted; a column of places among them, in place of one among these)."""
    distinct = tuple(sorted(set(values)))
    number = {value: i for i, value in enumerate(distinct)}
    return distinct, _small(np.array([number[value] for value in values], np.int64)[places])


def _small(numbers: Int64) -> Column:
    """The same numbers in as few bytes as hold each of them."""
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    return numbers.astype(np.min_scalar_type(min(low, -high - 1)))


NO_SPANS = Spans.of(())
