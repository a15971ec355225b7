"""Encoding as tasks: each reads its own stretches of the sources and leaves one file of ids, wherever it runs.

    encode_stretches    stretches  ->  read, decode, split and encode  ->  FOLDER/00000012

    ids                  as OUT has them
    ends of documents    8 bytes each, counted from the first of these ids
    sides                with --validation: a byte for each of these documents

Who joins the files in order (encode/spread.py) removes them one by one, so nothing here is synced: what a kill leaves
is encoded again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO

import numpy as np

from streambpe.core.encoding import BlockIds, Ids
from streambpe.encode.blocks import BlockEncoder, BlockSizes, EncodedBlock, IdsWriter, Write
from streambpe.encode.encoder import PackedEncoder, RunJoiner
from streambpe.encode.split import DocumentHash, for_validation, numbers_of
from streambpe.errors import RunError
from streambpe.failpoints import failpoint
from streambpe.runners.attempts import own_folder
from streambpe.runners.runner import Attempt
from streambpe.sources.read import Reader
from streambpe.sources.source import BadUtf8
from streambpe.sources.stretches import Stretch, title_of
from streambpe.system import put_first
from streambpe.text.split import alarm
from streambpe.threads import ending_waits


@dataclass(frozen=True)
class EncodeShared:
    """What all encoding tasks of a job have in common."""

    encoder: PackedEncoder
    is_script: bool
    folder: Path  # of the tasks' files
    dtype: str
    eot: int | None
    bad_utf8: BadUtf8
    share: Fraction | None  # of the documents, for validation
    take_anyway: str
    document_seconds: float


@dataclass(frozen=True)
class EncodeTask:
    """Stretches to be encoded by one task, one behind the other."""

    number: int
    stretches: tuple[Stretch, ...]
    sources: tuple[int, ...]  # the number of each stretch's source
    inside: bool = False  # the first begins in the middle of a document
    unfinished: tuple[bytes, bytes] = (b"", b"")  # DocumentHash of what was before

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.number:08}"

    def __str__(self) -> str:
        return f"encoding {title_of(self.stretches)}"


@dataclass(frozen=True)
class Encoded:
    """What an encoding task did: how much is in its file, and what may join with the neighbours' ids."""

    ids: int
    documents: int
    bytes: int
    dropped: int
    head: Ids
    tail: Ids
    closed: bool

    def borders(self) -> BlockIds:
        """Its ends as those of a block without a body."""
        return BlockIds(self.head, np.zeros(0, np.int32), self.tail, self.closed)


class _Joined:
    """Joins the blocks of a task, and writes what is certain whatever stands around them."""

    def __init__(self, encoder: PackedEncoder, writer: IdsWriter) -> None:
        self._encoder, self._writer, self._joiner = encoder, writer, RunJoiner(encoder)
        self._head: list[Ids] = []
        self.closed = False

    def add(self, block: BlockIds) -> None:
        if self.closed:
            self._writer.append(self._joiner.join(block))
            return
        self._head.append(block.head)
        if block.closed:
            self.closed, self._joiner = True, RunJoiner(self._encoder, block.tail)
            self._writer.append(block.body)

    @property
    def head(self) -> Ids:
        return np.concatenate([np.zeros(0, np.int32), *self._head])

    @property
    def tail(self) -> Ids:
        return self._joiner.carry


def encode_stretches(task: EncodeTask, attempt: Attempt) -> Encoded | None:
    """Encode stretches of sources into one file; None if the task was told to stop before its end."""
    shared: EncodeShared = attempt.shared
    sizes = BlockSizes.of(attempt.memory_bytes, 2, shared.is_script)
    if attempt.own_process:
        alarm.turn_on()
    hashed = shared.share is not None
    encode = BlockEncoder(
        shared.encoder, shared.bad_utf8, attempt.memory_bytes // 4, hashed, shared.document_seconds, beside=False
    )
    target = shared.folder / task.name
    unfinished = DocumentHash(*task.unfinished)
    size = dropped = 0
    attempts = own_folder(shared.folder, task.name + ".attempt", attempt.number)
    with attempts as folder, contextlib.closing(encode), ending_waits(lambda: attempt.stopping):
        failpoint(f"encode-{attempt.number}-begun")
        if attempt.number:  # what an earlier one committed, its worker did not live to tell
            target.unlink(missing_ok=True)
        names = [folder / name for name in ("ids", "ends", "sides")]
        with contextlib.ExitStack() as stack:
            ids, ends, sides = (stack.enter_context(open(name, "w+b")) for name in names)
            writer = IdsWriter(ids.write, ends.write, np.dtype(shared.dtype), shared.eot)
            joined = _Joined(shared.encoder, writer)
            for block in _encoded(encode, sizes, task, shared, attempt):
                if attempt.stopping:
                    return None
                if block.hashed is not None and shared.share is not None:
                    sides.write(for_validation(numbers_of(block.hashed, unfinished), shared.share).tobytes())
                joined.add(block.ids)
                size, dropped = size + block.bytes, dropped + block.dropped
            for beside in (ends, sides):
                beside.seek(0)
                shutil.copyfileobj(beside, ids, 1 << 20)
        failpoint(f"encode-{attempt.number}-written")
        if not put_first(names[0], target):
            raise RunError(f"{target} was committed by another attempt; this one is given up.")
        failpoint(f"encode-{attempt.number}-committed")
    return Encoded(writer.ids, writer.documents, size, dropped, joined.head, joined.tail, joined.closed)


def _encoded(
    encode: BlockEncoder, sizes: BlockSizes, task: EncodeTask, shared: EncodeShared, attempt: Attempt
) -> Iterator[EncodedBlock]:
    """The blocks of a task's stretches, encoded."""
    reader = Reader(
        encode.pattern, sizes.block, sizes.most, None, attempt.advance, shared.take_anyway, tells_skipped=False
    )
    inside = task.inside
    for stretch in task.stretches:
        for block in reader.blocks(stretch.source, stretch.done, stretch.stop):
            # a reader that begins in the middle does not know what came before, nor what comes behind its end
            goes_on = block.ends_inside or (ends_inside(stretch) and block.stop_at == stretch.stop)
            yield encode(replace(block, inside_document=inside, ends_inside=goes_on))
            inside = goes_on
        inside = ends_inside(stretch)


def ends_inside(stretch: Stretch) -> bool:
    """Whether it ends in the middle of a document: a text file is one, and other kinds are cut between two."""
    return stretch.stop is not None and stretch.source.kind == "txt"


def joined_file(path: Path, encoded: Encoded, itemsize: int, ids: Write, ends: Write, at: int) -> bytes:
    """Append a task's ids and the ends of its documents, behind `at` ids, and remove its file; gives back the sides."""
    with open(path, "rb") as made:
        _copy(made, ids, encoded.ids * itemsize)
        for begin in range(0, encoded.documents, 1 << 16):
            many = min(1 << 16, encoded.documents - begin)
            ends((np.frombuffer(made.read(8 * many), "<i8") + at).tobytes())
        sides = made.read()
    path.unlink()
    return sides


def _copy(source: IO[bytes], write: Write, size: int) -> None:
    while size:
        data = source.read(min(size, 1 << 20))
        if not data:
            raise RunError(f"{source.name} is shorter than it was written. Give the same command again.")
        write(data)
        size -= len(data)


def stop_of(stretches: Sequence[Stretch], sources: Sequence[int]) -> tuple[int, int, bool]:
    """Where the next task begins: (number of the source, place in it, whether in the middle of a document)."""
    last = stretches[-1]
    if last.stop is None:
        return sources[-1] + 1, 0, False
    return sources[-1], last.stop, ends_inside(last)
