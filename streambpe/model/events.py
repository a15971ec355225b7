"""Events: what one is, the line it is in a log, and many of them as columns.

merge 101 32 -> 256, chosen by count 2359     {"op":"merge","left":101,"right":32,"id":256,"n":2359}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import overload

import numpy as np
import numpy.typing as npt

_AT_ONCE = 4096  # lines made together


class Op(StrEnum):
    """What an event did."""

    MERGE = "merge"  # two neighbouring tokens of one chunk -> one token
    SUPERMERGE = "supermerge"  # two neighbouring whole-chunk tokens -> one superword
    DELETE = "delete"  # a token -> the tokens it is split into


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log. Ids are log ids.

    n is a count: for a merge or supermerge the pair count it was chosen by, for a deletion the
    occurrences split. left and right are None for a deletion; into is empty for the others.
    """

    op: Op
    id: int
    n: int
    left: int | None = None
    right: int | None = None
    into: tuple[int, ...] = ()

    @property
    def pair(self) -> tuple[int, int]:
        """The two ids a merge or supermerge joins."""
        if self.left is None or self.right is None:
            raise ValueError(f"a {self.op} joins nothing")
        return self.left, self.right


def merge_event(left: int, right: int, new: int, n: int) -> Event:
    """left + right -> new inside chunks, chosen by count n."""
    return Event(Op.MERGE, new, n, left, right)


def supermerge_event(left: int, right: int, new: int, n: int) -> Event:
    """left + right -> new across a chunk border, chosen by count n."""
    return Event(Op.SUPERMERGE, new, n, left, right)


def delete_event(number: int, into: Iterable[int], n: int) -> Event:
    """number is taken back; n occurrences were split into `into`."""
    return Event(Op.DELETE, number, n, into=tuple(into))


OPS = tuple(Op)  # a column of events holds their places in it
DELETE = OPS.index(Op.DELETE)
_JOINING = {op: f'{{"op":"{op}","left":%d,"right":%d,"id":%d,"n":%d}}\n' for op in (Op.MERGE, Op.SUPERMERGE)}


def event_line(event: Event) -> bytes:
    """One event as its line, line feed included. All values are whole numbers, so no escaping is needed."""
    if event.op is Op.DELETE:
        into = ",".join(map(str, event.into))
        return f'{{"op":"delete","id":{event.id},"into":[{into}],"n":{event.n}}}\n'.encode()
    return (_JOINING[event.op] % (*event.pair, event.id, event.n)).encode()


class Events(Sequence[Event]):
    """Events in order, 40 bytes each; an `Event` is made when one is looked at."""

    def __init__(self) -> None:
        self._rows: npt.NDArray[np.int64] = np.empty((5, 1024), np.int64)  # op, left, right, id, n
        self._size = 0
        self.into: dict[int, tuple[int, ...]] = {}  # the parts of each deletion, by its place

    @classmethod
    def of(cls, events: Iterable[Event]) -> Events:
        """The events as columns; the same object if they are columns already."""
        if isinstance(events, Events):
            return events
        made = cls()
        for event in events:
            made.append(event)
        return made

    @classmethod
    def of_columns(
        cls,
        op: npt.ArrayLike,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        made: npt.ArrayLike,
        n: npt.ArrayLike,
        into: Mapping[int, tuple[int, ...]],
    ) -> Events:
        """Events given as what `column` gives, and the parts of the deletions by their places."""
        events = cls()
        events._rows = np.array([op, left, right, made, n], np.int64)
        events._size = events._rows.shape[1]
        events.into = dict(into)
        return events

    def append(self, event: Event) -> None:
        """Add one event."""
        self._grow(1)
        if event.op is Op.DELETE:
            self.into[self._size] = event.into
        left, right = (-1, -1) if event.op is Op.DELETE else event.pair
        self._rows[:, self._size] = OPS.index(event.op), left, right, event.id, event.n
        self._size += 1

    def append_merges(
        self, left: npt.ArrayLike, right: npt.ArrayLike, new: npt.ArrayLike, n: npt.NDArray[np.int64]
    ) -> None:
        """Add many merges."""
        self._grow(len(n))
        for row, column in enumerate((OPS.index(Op.MERGE), left, right, new, n)):
            self._rows[row, self._size : self._size + len(n)] = column
        self._size += len(n)

    def _grow(self, more: int) -> None:
        """Make room for more events: at least twice as much as before, if there is too little."""
        if self._size + more > self._rows.shape[1]:
            rows = np.empty((5, max(2 * self._rows.shape[1], self._size + more)), np.int64)
            rows[:, : self._size] = self._rows[:, : self._size]
            self._rows = rows

    def truncate(self, size: int) -> None:
        """Keep only the first `size` events."""
        self._size = min(size, self._size)
        self.into = {at: into for at, into in self.into.items() if at < self._size}

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """op (a place in OPS), left, right (-1 in a deletion), id or n of all events."""
        return self._rows[("op", "left", "right", "id", "n").index(name), : self._size]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Events: ...

    def __getitem__(self, index: int | slice) -> Event | Events:
        if isinstance(index, slice):
            return self._cut(range(*index.indices(self._size)))
        at = range(self._size)[index]
        return self._event(at, self._rows[:, at].tolist())

    def _cut(self, places: range) -> Events:
        found = Events()
        found._rows = self._rows[:, places] if places.step != 1 else self._rows[:, places.start : places.stop].copy()
        found._size = len(places)
        found.into = {at: self.into[places[at]] for at in np.flatnonzero(found._rows[0] == DELETE).tolist()}
        return found

    def _event(self, at: int, row: Sequence[int]) -> Event:
        op, left, right, number, n = row
        if op == DELETE:
            return Event(Op.DELETE, number, n, into=self.into[at])
        return Event(OPS[op], number, n, left, right)

    def __iter__(self) -> Iterator[Event]:
        for start in range(0, self._size, _AT_ONCE):
            rows = self._rows[:, start : min(start + _AT_ONCE, self._size)].T.tolist()
            for at, row in enumerate(rows, start):
                yield self._event(at, row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(Event.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # they grow

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """The lines from event number `start` on, some thousands in a piece."""
        for low in range(start, self._size, _AT_ONCE):
            yield self._lines(low, min(low + _AT_ONCE, self._size))

    def _lines(self, low: int, high: int) -> bytes:
        ops = self._rows[0, low:high].tolist()
        if DELETE in ops:
            return b"".join(map(event_line, self[low:high]))
        numbers = self._rows[1:, low:high].T.ravel().tolist()
        return ("".join(_JOINING[OPS[op]] for op in ops) % tuple(numbers)).encode()


def lines_of(events: Iterable[Event]) -> Iterator[bytes]:
    """The lines of these events, one or many in a piece."""
    return events.lines() if isinstance(events, Events) else map(event_line, events)
