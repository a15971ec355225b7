"""The write-ahead log of one training: RUN/pending.events. JSON lines, appended and fsynced.

The first line says what the training is; each further line is an event of the log, a pass, or a veto:

    {"op":"training","config":{...},"corpus":"<sha256>",...,"sum":"<mmh3>"}
    {"op":"merge","left":101,"right":32,"id":256,"n":2359}
    {"op":"batch","batch":0,"first_seq":0,"events":1,...,"sum":"<mmh3>"}
    {"op":"veto","left":97,"right":98,"n":7,"seq":12}

Superwords follow the words, as supermerges in the order in which they are learned.

The line of a pass comes after those of its events, so what follows the last whole pass was cut short by a
kill: it is dropped when the file is read, and learned again. Otherwise a round of BatchBPE's rule would go
on from its middle and end differently.

A pass's line ends with the checksum of all bytes since the one before it, the first line with its own: a digit that
rotted is found when the file is read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.files import whole_file
from streambpe.model.events import OPS, Event, Events, Op
from streambpe.store.checksums import with_sum, without_sum
from streambpe.store.passes import MUST_HAVES, PassRow, VetoRow
from streambpe.system import sync


class Journal(msgspec.Struct):
    """What a training has learned so far, in memory and on disk."""

    path: Path
    # What must not change, as JSON: any version may have written it, and it is only compared.
    training: dict[str, Any]
    events: Events = msgspec.field(default_factory=Events)
    batches: list[PassRow] = msgspec.field(default_factory=list)
    vetoes: list[VetoRow] = msgspec.field(default_factory=list)
    saved: bool = False
    _unwritten: list[bytes] = []
    _since_pass: list[bytes] = []  # the lines that follow the last pass's

    @classmethod
    def start(
        cls,
        path: Path,
        training: Mapping[str, Any],
        events: Sequence[Event] = (),
        batches: Iterable[PassRow] = (),
        vetoes: Iterable[VetoRow] = (),
    ) -> Journal:
        """A new journal, not on disk before `save`; `events`, `batches`, `vetoes`: those of a smaller vocabulary."""
        journal = cls(path, dict(training))
        for veto in vetoes:
            journal._note_veto(veto)
        for batch in batches:
            journal.add_pass(Events.of(events[batch.first_seq : batch.first_seq + batch.events]), batch)
        return journal

    @property
    def words(self) -> Events:
        """The events before the first superword."""
        supermerges = np.flatnonzero(self.events.column("op") == OPS.index(Op.SUPERMERGE))[:1]
        return self.events[: supermerges[0]] if len(supermerges) else self.events[:]

    def without_superwords(self) -> Journal:
        """The same up to the first superword; not on disk yet if there is one."""
        return self._up_to(len(self.words))

    def without_must_haves(self) -> Journal:
        """The same up to the merges of must-haves, which come earlier or later if another size is wanted."""
        return self._up_to(next((one.first_seq for one in self.batches if one.mode == MUST_HAVES), len(self.events)))

    def _up_to(self, events: int) -> Journal:
        if events == len(self.events):
            return self
        passes = [one for one in self.batches if one.first_seq + one.events <= events]
        vetoes = [veto for veto in self.vetoes if veto.seq <= events]
        return Journal.start(self.path, self.training, self.events[:events], passes, vetoes)

    def save(self) -> None:
        """Put a new journal on disk, whole or not at all, unless it is there."""
        if self.saved:
            return
        first = with_sum(_line({"op": "training", **self.training}))
        with whole_file(self.path) as temporary:
            with temporary.open("wb") as out:
                out.writelines([first, *self._unwritten])
            failpoint("journal-written")
        failpoint("journal-created")
        self._unwritten, self.saved = [], True

    @classmethod
    def read(cls, path: Path) -> Journal:
        """What is on disk, up to the last whole pass; the rest is cut off the file."""
        data = path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        if not lines:
            raise RunError(f"{path} is empty; remove it and train again: the counts are kept.")
        journal = cls(path, {}, saved=True)
        events: list[Event] = []
        lists: dict[Any, Any] = {PassRow: journal.batches, VetoRow: journal.vetoes}
        at, whole = 0, (0, 0, 0)  # how many bytes, events, vetoes there are up to the last whole pass
        for number, line in enumerate(lines, 1):
            at += len(line) + 1
            try:
                record = _TRAINING.decode(line) if number == 1 else _LINE.decode(line)
                if isinstance(record, dict | PassRow):
                    without_sum(data[whole[0] : at])
                    whole = at, len(events), len(journal.vetoes)
                if isinstance(record, dict):
                    del record["op"], record["sum"]
                    journal.training = record
                else:
                    lists.get(type(record), events).append(record)
            except (ValueError, KeyError) as why:
                raise RunError(
                    f"{path} line {number} is damaged ({why}). Remove that line and all after it, and resume: "
                    "learning is deterministic and continues from there."
                ) from None
        if whole[0] < len(data):
            with path.open("r+b") as file:
                file.truncate(whole[0])
        journal.events = Events.of(events[: whole[1]])
        del journal.vetoes[whole[2] :]
        return journal

    def add_pass(self, events: Events, record: PassRow, vetoed: Sequence[tuple[int, int, int]] = ()) -> None:
        """Remember a pass: the pairs (left, right, n) that may not be learned, then its events; on disk at the next
        `commit`."""
        for left, right, n in vetoed:
            self._note_veto(VetoRow(len(self.events), left, right, n))
        record = structs.replace(record, batch=len(self.batches), first_seq=len(self.events), events=len(events))
        self.events.extend(events)
        self.batches.append(record)
        self._unwritten.append(with_sum(b"".join([*self._since_pass, *events.lines(), _line(record)])))
        self._since_pass.clear()

    def _note_veto(self, veto: VetoRow) -> None:
        self.vetoes.append(veto)
        self._since_pass.append(_line(veto))

    def commit(self) -> None:
        """Append what is not on disk yet, and fsync: from then on it survives a power cut."""
        if not self._unwritten:
            return
        before = self.path.stat().st_size
        try:
            with self.path.open("ab") as out:
                out.writelines(self._unwritten)
                out.flush()
                sync(out.fileno())
        except BaseException:  # else the next commit would go on behind half a line
            with contextlib.suppress(OSError):
                os.truncate(self.path, before)
            raise
        self._unwritten.clear()
        failpoint("events-committed")


_TRAINING = msgspec.json.Decoder(dict[str, Any])
_LINE = msgspec.json.Decoder(Event | PassRow | VetoRow)


def _line(record: Any) -> bytes:
    return msgspec.json.encode(record) + b"\n"
