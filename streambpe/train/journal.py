"""The write-ahead log of one training: RUN/pending.events. JSON lines, appended and fsynced.

The first line is what the training is; each further line an event of the log, a pass, or a veto:

    {"op":"training","config":{...},"corpus":"<sha256>"}
    {"op":"merge","left":101,"right":32,"id":256,"n":2359}
    {"op":"batch","batch":0,"first_seq":0,"events":1,...}
    {"op":"veto","left":97,"right":98,"n":7,"seq":12}

A line that a kill cut short is dropped when the file is read: it was never reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streambpe.encode.eventlog import Event, event_line, parse_event
from streambpe.errors import RunError
from streambpe.store.database import fsync_folder


@dataclass
class Journal:
    """What a training has learned so far, in memory and on disk."""

    path: Path
    training: dict[str, Any]
    events: list[Event] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    vetoes: list[dict[str, Any]] = field(default_factory=list)
    _unwritten: list[bytes] = field(default_factory=list)

    @classmethod
    def create(cls, path: Path, training: dict[str, Any], events: Iterable[Event] = ()) -> Journal:
        """A new journal, on disk when this returns; `events`: those of a smaller vocabulary to go on from."""
        journal = cls(path, {"op": "training", **training}, list(events))
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as out:
            out.write(_line(journal.training))
            out.writelines(event_line(event) for event in journal.events)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """What is on disk; a last line without its line feed is cut off, there and here."""
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].split(b"\n")[:-1]
        if not lines:
            raise RunError(f"{path} is empty; remove it and train again: the counts are kept.")
        journal = cls(path, {})
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                op = record["op"]
                if op == "training":
                    journal.training = record
                elif op == "batch":
                    journal.batches.append(record)
                elif op == "veto":
                    journal.vetoes.append(record)
                else:
                    journal.events.append(parse_event(line))
            except (ValueError, KeyError, TypeError) as why:
                raise RunError(
                    f"{path} line {number} is damaged ({why}). Cut the file off before that line and resume: "
                    f"learning is deterministic and goes on from there."
                ) from None
        if whole < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)
        return journal

    def add_event(self, event: Event) -> None:
        """Remember an event; on disk at the next `commit`."""
        self.events.append(event)
        self._unwritten.append(event_line(event))

    def add_batch(self, record: dict[str, Any]) -> None:
        """Remember a pass; it covers the events added since the last one."""
        self.batches.append(record)
        self._unwritten.append(_line({"op": "batch", **record}))

    def add_veto(self, left: int, right: int, n: int) -> None:
        """Remember a pair that may not be learned."""
        veto = {"op": "veto", "left": left, "right": right, "n": n, "seq": len(self.events)}
        self.vetoes.append(veto)
        self._unwritten.append(_line(veto))

    def commit(self) -> None:
        """Append what is not on disk yet and fsync: from here on it survives anything."""
        if not self._unwritten:
            return
        with self.path.open("ab") as out:
            out.writelines(self._unwritten)
            out.flush()
            os.fsync(out.fileno())
        self._unwritten.clear()


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
