"""Events: what one is, the line it is in a log, and many of them as columns.

merge 101 32 -> 256, chosen by count 2359     {"op":"merge","left":101,"right":32,"id":256,"n":2359}
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, overload

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.options import Count

_AT_ONCE = 4096  # lines made together


class Op(StrEnum):
    """What an event did."""

    MERGE = "merge"  # two neighbouring tokens of one chunk -> one token
    SUPERMERGE = "supermerge"  # two neighbouring whole-chunk tokens -> one superword
    DELETE = "delete"  # a token -> the tokens it is split into


class MergeEvent(msgspec.Struct, tag_field="op", tag="merge", frozen=True, forbid_unknown_fields=True, gc=False):
    """left + right -> id inside chunks, chosen by count n. Ids are log ids."""

    left: Count
    right: Count
    id: Count
    n: Count
    op: ClassVar[Op] = Op.MERGE
    into: ClassVar[tuple[int, ...]] = ()

    @property
    def pair(self) -> tuple[int, int]:
        """The two ids that are joined."""
        return self.left, self.right


class SupermergeEvent(MergeEvent, tag="supermerge", frozen=True):
    """left + right -> id across a chunk border."""

    op: ClassVar[Op] = Op.SUPERMERGE


class DeleteEvent(msgspec.Struct, tag_field="op", tag="delete", frozen=True, forbid_unknown_fields=True, gc=False):
    """A token is taken back; n occurrences were split into `into`."""

    id: Count
    into: Annotated[tuple[Count, ...], msgspec.Meta(min_length=2)]
    n: Count
    op: ClassVar[Op] = Op.DELETE
    left: ClassVar[int] = -1
    right: ClassVar[int] = -1

    @property
    def pair(self) -> tuple[int, int]:
        """Of a merge alone."""
        raise ValueError("a delete joins nothing")


Event = MergeEvent | SupermergeEvent | DeleteEvent
# One line: msgspec reads it and holds it against its shape in one go, ten times as fast as `json.loads` and checks by
# hand.
read_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_write_events = msgspec.json.Encoder().encode_lines


merge_event: Callable[[int, int, int, int], Event] = MergeEvent
supermerge_event: Callable[[int, int, int, int], Event] = SupermergeEvent


def delete_event(number: int, into: Iterable[int], n: int) -> Event:
    """number is taken back; n occurrences were split into `into`."""
    return DeleteEvent(number, tuple(into), n)


OPS = tuple(Op)  # a column of events holds their places in it
DELETE = OPS.index(Op.DELETE)
_COLUMNS = ("op", "left", "right", "id", "n")


def event_line(event: Event) -> bytes:
    """One event as its line, line feed included."""
    return msgspec.json.encode(event) + b"\n"


class Events(Sequence[Event]):
    """Events in order, 40 bytes each; an `Event` is made when one is looked at."""

    def __init__(self) -> None:
        self._blocks: list[npt.NDArray[np.int64]] = [np.empty((len(_COLUMNS), 0), np.int64)]  # side by side, as added
        self._size = 0
        self.into: dict[int, tuple[int, ...]] = {}  # the parts of each deletion, by its place

    @classmethod
    def of(cls, events: Iterable[Event]) -> Events:
        """The events as columns; the same object if they are columns already."""
        if isinstance(events, Events):
            return events
        made, listed = cls(), list(events)
        ops = [OPS.index(event.op) for event in listed]
        numbers = ([getattr(event, name) for event in listed] for name in _COLUMNS[1:])
        made._add(
            np.array([ops, *numbers], np.int64), {at: event.into for at, event in enumerate(listed) if event.into}
        )
        return made

    def append(self, event: Event) -> None:
        """Add one event."""
        self.extend(Events.of([event]))

    def append_merges(
        self, left: npt.ArrayLike, right: npt.ArrayLike, new: npt.ArrayLike, n: npt.NDArray[np.int64]
    ) -> None:
        """Add many merges."""
        rows = np.empty((len(_COLUMNS), len(n)), np.int64)
        for row, column in enumerate((OPS.index(Op.MERGE), left, right, new, n)):
            rows[row] = column
        self._add(rows, {})

    def extend(self, other: Events) -> None:
        """Add the events of others."""
        self._add(other._rows, other.into)

    def _add(self, rows: npt.NDArray[np.int64], into: Mapping[int, tuple[int, ...]]) -> None:
        self._blocks.append(rows)
        self.into |= {self._size + at: parts for at, parts in into.items()}
        self._size += rows.shape[1]

    @property
    def _rows(self) -> npt.NDArray[np.int64]:
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks, axis=1)]
        return self._blocks[0]

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """op (a place in OPS), left, right (-1 in a deletion), id or n of all events."""
        found: npt.NDArray[np.int64] = self._rows[_COLUMNS.index(name)]
        return found

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
        found, rows = Events(), self._rows[:, places]
        found._add(rows, {at: self.into[places[at]] for at in np.flatnonzero(rows[0] == DELETE).tolist()})
        return found

    def _event(self, at: int, row: Sequence[int]) -> Event:
        op, left, right, number, n = row
        if op == DELETE:
            return DeleteEvent(number, self.into[at], n)
        return (MergeEvent if OPS[op] is Op.MERGE else SupermergeEvent)(left, right, number, n)

    def __iter__(self) -> Iterator[Event]:
        for start in range(0, self._size, _AT_ONCE):
            rows = self._rows[:, start : min(start + _AT_ONCE, self._size)].T.tolist()
            for at, row in enumerate(rows, start):
                yield self._event(at, row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # they grow

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """The lines from event number `start` on, some thousands in a piece."""
        for low in range(start, self._size, _AT_ONCE):
            yield _write_events(self[low : low + _AT_ONCE])
