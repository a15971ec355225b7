"""Snapshots of a training: the words as they are after some events, so that a kill costs no start from nothing.

    training/main/snapshot-000000000145/     the words after 145 events, and what they were made of

With --balance, the words are made again from the events, and choices.json decides which group chooses next.

A snapshot only saves time. One of another run, of another training or of other events, or one that is not whole, is
passed over; what it would have saved is learned again. Places where tests let the process die: snapshot-written,
snapshot-made.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from streambpe.disk import says_disk_full
from streambpe.failpoints import failpoint
from streambpe.files import UNFINISHED, put_in_place, unfinished
from streambpe.model.eventlog import events_digest
from streambpe.store.journal import Journal
from streambpe.store.made_of import fingerprint, is_sealed, seal_folder
from streambpe.system import remove_folder
from streambpe.train.engine.engine import Engine
from streambpe.train.words import write_columns

CHOICES = "choices.json"


def find_snapshot(folder: Path, journal: Journal) -> tuple[Path, int] | None:
    """The newest snapshot of this journal in a training's private folder, and how many events it comes after."""
    for path in sorted(folder.glob("snapshot-*"), key=lambda p: p.name, reverse=True):
        number = path.name.removeprefix("snapshot-")
        if number.isdecimal() and int(number) <= len(journal.events):
            if is_sealed(path, _made_of(journal, int(number))):
                return path, int(number)
            remove_folder(path)  # else it would keep the name from a new one
    return None


def write_snapshot(folder: Path, engine: Engine, journal: Journal) -> None:
    """Write the words as they are now, under a name that says how many events came before; remove older snapshots."""
    target = folder / f"snapshot-{len(journal.events):012d}"
    if target.exists():  # since then, passes only vetoed
        return
    temporary = unfinished(target)
    remove_folder(temporary)
    try:
        choices = engine.choices()
        if choices is None:
            write_columns(temporary, engine.words())
        else:
            temporary.mkdir(parents=True)
            (temporary / CHOICES).write_bytes(msgspec.json.encode(choices))
        seal_folder(temporary, _made_of(journal, len(journal.events)))
        failpoint("snapshot-written")
        put_in_place(temporary, target)
    except Exception as why:
        remove_folder(temporary)
        if says_disk_full(why):
            return  # a snapshot only saves time after a kill; files that must be written report a full disk
        raise
    failpoint("snapshot-made")
    for old in (*folder.glob("snapshot-*"), *folder.glob(UNFINISHED)):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)


def _made_of(journal: Journal, events: int) -> str:
    """What the words after so many events follow from: the counts, the options without the size, and these events."""
    config = {key: value for key, value in journal.training["config"].items() if key != "vocab_size"}
    return fingerprint(journal.training["corpus"], config, events_digest(journal.events[:events]))
