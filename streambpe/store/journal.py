"""The write-ahead log of one training: RUN/pending.events. JSON lines, appended and fsynced.

The first line says what the training is; each further line is an event of the log, a pass, or a veto:

    {"op":"training","journal":"6f1c...","begins":0,"config":{...},"corpus":"<sha256>"}
    {"op":"merge","left":101,"right":32,"id":256,"n":2359}
    {"op":"batch","batch":0,"first_seq":0,"events":1,...}
    {"op":"veto","left":97,"right":98,"n":7,"seq":12}

The line of a pass comes after those of its events, so what follows the last whole pass was cut short by a
kill: it is dropped when the file is read, and learned again. Otherwise a round of BatchBPE's rule would go
on from its middle and end differently.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.files import whole_file
from streambpe.model.eventlog import parse_event
from streambpe.model.events import Event, Events, event_line
from streambpe.store.passes import PassRow, VetoRow, read_pass
from streambpe.system import sync


@dataclass
class Journal:
    """What a training has learned so far, in memory and on disk."""

    path: Path
    # What must not change, as JSON: any version may have written it, and it is only compared.
    training: dict[str, Any]
    number: str  # unique to this journal: tables filled from another one are filled anew
    events: Events = field(default_factory=Events)
    batches: list[PassRow] = field(default_factory=list)
    vetoes: list[VetoRow] = field(default_factory=list)
    saved: bool = False
    _unwritten: list[bytes] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        path: Path,
        training: dict[str, Any],
        events: Iterable[Event] = (),
        batches: Iterable[PassRow] = (),
        vetoes: Iterable[VetoRow] = (),
    ) -> Journal:
        """A new journal, not on disk before `save`; `events`, `batches`, `vetoes`: those of a smaller vocabulary."""
        return cls(path, training, uuid.uuid4().hex, Events.of(events), list(batches), list(vetoes))

    def save(self) -> None:
        """Put a new journal on disk, whole or not at all."""
        begins = len(self.events) + len(self.vetoes) + len(self.batches)
        with whole_file(self.path) as temporary:
            with temporary.open("wb") as out:
                out.write(_line({"op": "training", "journal": self.number, "begins": begins, **self.training}))
                out.writelines(self.events.lines())
                out.writelines(_line({**veto, "op": "veto"}) for veto in self.vetoes)
                out.writelines(_line({**batch, "op": "batch"}) for batch in self.batches)
            failpoint("journal-written")
        failpoint("journal-created")
        self.saved = True

    @classmethod
    def read(cls, path: Path, *, mend: bool = True) -> Journal:
        """What is on disk, up to the last whole pass; `mend`: the rest is cut off the file too."""
        data = path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        if not lines:
            raise RunError(f"{path} is empty; remove it and train again: the counts are kept.")
        journal = cls(path, {}, "", saved=True)
        at = begins = 0
        whole = (0, 0, 0, 0)  # how many bytes, events, passes, vetoes there are up to the last whole pass
        for number, line in enumerate(lines, 1):
            at += len(line) + 1
            try:
                op = _WHICH.decode(line).op
                if number == 1:
                    journal.training = _record(line)
                    journal.number, begins = journal.training.pop("journal"), journal.training.pop("begins")
                elif op == "batch":
                    journal.batches.append(read_pass(_record(line), len(journal.events)))
                elif op == "veto":
                    journal.vetoes.append(_VETO.decode(line))
                else:
                    journal.events.append(parse_event(line))
            except (ValueError, KeyError, TypeError) as why:
                raise RunError(
                    f"{path} line {number} is damaged ({why}). Cut the file off before that line and resume: "
                    f"learning is deterministic and goes on from there."
                ) from None
            if number <= begins + 1 or op == "batch":
                whole = (at, len(journal.events), len(journal.batches), len(journal.vetoes))
        if len(lines) <= begins:
            raise RunError(
                f"{path} was cut off: it has {len(lines)} lines, and its first says that it began with {begins} more. "
                f"Remove it and train again: the counts are kept."
            )
        if mend and whole[0] < len(data):
            with path.open("r+b") as file:
                file.truncate(whole[0])
        journal.events.truncate(whole[1])
        del journal.batches[whole[2] :], journal.vetoes[whole[3] :]
        return journal

    def add_event(self, event: Event) -> None:
        """Remember an event; on disk at the next `commit`."""
        self.events.append(event)
        self._unwritten.append(event_line(event))

    def add_merges(
        self,
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
        new: npt.NDArray[np.int64],
        n: npt.NDArray[np.int64],
    ) -> None:
        """As `add_event`, for every merge in these columns."""
        first = len(self.events)
        self.events.append_merges(left, right, new, n)
        self._unwritten.extend(self.events.lines(first))

    def add_batch(self, record: PassRow) -> None:
        """Remember a pass; it covers the events added since the last one."""
        self.batches.append(record)
        self._unwritten.append(_line({"op": "batch", **record}))

    def add_veto(self, left: int, right: int, n: int) -> None:
        """Remember a pair that may not be learned."""
        veto: VetoRow = {"seq": len(self.events), "left": left, "right": right, "n": n}
        self.vetoes.append(veto)
        self._unwritten.append(_line({"op": "veto", **veto}))

    def commit(self) -> None:
        """Append what is not on disk yet, and fsync: from then on it survives a power cut."""
        if not self._unwritten:
            return
        with self.path.open("ab") as out:
            out.writelines(self._unwritten)
            out.flush()
            sync(out.fileno())
        self._unwritten.clear()
        failpoint("events-committed")


class _Which(msgspec.Struct):
    """The field that tells what kind of line it is; msgspec ignores the rest."""

    op: str


_WHICH = msgspec.json.Decoder(_Which)
_VETO = msgspec.json.Decoder(VetoRow)


def _record(line: bytes) -> dict[str, Any]:
    """The fields of the line of a training or a pass."""
    record: dict[str, Any] = msgspec.json.decode(line)
    del record["op"]
    return record


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
