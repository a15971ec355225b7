"""Encoding as tasks: each reads its own stretches of the sources and leaves one file, wherever it runs.

    encode_stretches    stretches  ->  read, decode, split and encode  ->  FOLDER/00000012, blocks as threads make them

Who joins the blocks in order (encode/spread.py) removes the files one by one, so nothing here is synced: what a kill
leaves is encoded again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import msgspec

from streambpe.encode.blocks import BlockEncoder, EncodedBlock
from streambpe.encode.encoder import Encoder
from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.runners.attempts import own_folder
from streambpe.runners.runner import Attempt
from streambpe.sources.source import BadUtf8
from streambpe.sources.stretches import Stretch, title_of
from streambpe.system import put_first
from streambpe.text.split import alarm
from streambpe.threads import ending_waits


class EncodeShared(msgspec.Struct, frozen=True):
    """What all encoding tasks of a job have in common."""

    encoder: Encoder
    folder: Path  # of the tasks' files
    bad_utf8: BadUtf8
    hashed: bool  # as BlockEncoder takes it
    document_seconds: float


class EncodeTask(msgspec.Struct, frozen=True):
    """Stretches to be encoded by one task, one behind the other."""

    number: int
    stretches: tuple[tuple[int, Stretch], ...]  # each with the number of its source
    inside: bool = False  # the first begins in the middle of a document

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.number:08}"

    def __str__(self) -> str:
        return f"encoding {title_of([stretch for _, stretch in self.stretches])}"


def encode_stretches(task: EncodeTask, attempt: Attempt) -> int | None:
    """Encode stretches of sources into one file: of how many blocks; None if the task was told to stop before its
    end."""
    shared: EncodeShared = attempt.shared
    if attempt.own_process:
        alarm.turn_on()
    encode = BlockEncoder(
        shared.encoder, shared.bad_utf8, attempt.memory_bytes, hashed=shared.hashed,
        document_seconds=shared.document_seconds,
    )  # fmt: skip
    target = shared.folder / task.name
    many = 0
    attempts = own_folder(shared.folder, task.name + ".attempt", attempt.number)
    with attempts as folder, ending_waits(attempt.is_stopping):
        failpoint(f"encode-{attempt.number}-begun")
        if attempt.number:  # what an earlier one committed, its worker did not live to tell
            target.unlink(missing_ok=True)
        made = folder / "blocks"
        with open(made, "wb") as file:
            for block in encode.blocks(task.stretches, attempt.advance, task.inside):
                if attempt.is_stopping():
                    return None
                pickle.dump(block, file)
                many += 1
        failpoint(f"encode-{attempt.number}-written")
        if not put_first(made, target):
            raise RunError(f"{target} was committed by another attempt; this one is abandoned.")
        failpoint(f"encode-{attempt.number}-committed")
    return many


def taken_blocks(path: Path, many: int) -> Iterator[EncodedBlock]:
    """The blocks that a task left, whose file is then removed."""
    with open(path, "rb") as file:
        try:
            for _ in range(many):
                yield pickle.load(file)
        except (EOFError, pickle.UnpicklingError):
            raise RunError(f"{path} is shorter than what was written. Give the same command again.") from None
    path.unlink()
