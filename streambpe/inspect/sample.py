"""A sample of a corpus, for `plan`: windows at even distances, the same ones every time.

    files laid end to end   |------------------------------------------------------------|
    windows                 [0]     [1]     [2]     [3]     ...                    [n - 1]
    subset of a window       0       1       2       3      ...  15      0       1   ...

Where a window can begin depends on the file. Text and JSON lines: anywhere; the window goes from the start of a line to
the end of one. Parquet: at any row. csv and compressed files: only at the front; each gives one stretch there, as long
as all its windows together. What was taken of a file is also written as a file of the same format and compression, to
be counted and learned from as the corpus would be.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.errors import UsageError
from streambpe.sources.read import Reader, open_parquet
from streambpe.sources.source import Block, Source
from streambpe.sources.streams import compression_of, open_bytes
from streambpe.text.patterns import Pattern

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WINDOW_BYTES = 256 << 10
SUBSETS = 16
_MOST_TEXT_LINE = 4096  # a longer line of text is cut anywhere
_MOST_LINE = 16 << 20  # of JSON; a longer line is cut, and reading the window reports that it is no JSON


@dataclass(frozen=True)
class Window:
    """A stretch of a source."""

    block: Block
    subset: int
    disk_bytes: float  # how much of the source's file it stands for


def draw_windows(sources: Sequence[Source], wanted_bytes: int, pattern: Pattern) -> Iterator[Window]:
    """Windows of about `wanted_bytes` of the files' bytes, in order; all of the files if they have no more."""
    number = 0
    for source, starts in _starts(sources, wanted_bytes):
        for block, disk_bytes in _blocks(source, starts, pattern):
            yield Window(block, number % SUBSETS, disk_bytes)
            number += 1


def _starts(sources: Sequence[Source], wanted_bytes: int) -> Iterator[tuple[Source, list[int]]]:
    """Every source that is sampled, and the places in its file where windows begin."""
    total = sum(source.bytes for source in sources)
    if not total:
        raise UsageError("The sources are empty: there is nothing to sample.")
    step = max(total // max(SUBSETS, wanted_bytes // WINDOW_BYTES), WINDOW_BYTES)
    first = 0
    for source in sources:
        beyond = first + source.bytes
        if total <= wanted_bytes:
            starts = list(range(0, source.bytes, WINDOW_BYTES))
        else:
            starts = [at - first for at in range(-(-first // step) * step, beyond, step)]
        if starts:
            yield source, starts
        first = beyond


def _blocks(source: Source, starts: list[int], pattern: Pattern) -> Iterator[tuple[Block, float]]:
    if source.kind == "parquet":
        return _rows(source, len(starts), pattern)
    if source.kind == "csv" or compression_of(source.path):
        return _front(source, len(starts) * WINDOW_BYTES, pattern)
    return _lines(source, starts)


def _lines(source: Source, starts: list[int]) -> Iterator[tuple[Block, float]]:
    """Windows of a plain file: each from the first line that begins in it to the end of the last such line."""
    most = _MOST_LINE if source.kind == "jsonl" else _MOST_TEXT_LINE
    stream = cast(io.BufferedReader, open_bytes(source)[0])
    with contextlib.closing(stream):
        done = 0
        for start in starts:
            at = max(start, done)
            stream.seek(max(at - 1, 0))
            if at:
                at += len(stream.readline(most)) - 1
            data = stream.read(WINDOW_BYTES)
            if data and not data.endswith(b"\n"):
                data += stream.readline(most)
            if data:
                yield Block(source, 0, len(data), data, True), len(data)
            done = at + len(data)


def _front(source: Source, wanted: int, pattern: Pattern) -> Iterator[tuple[Block, float]]:
    """Blocks of a file that can only be read from its beginning, until about `wanted` bytes of it on disk were read."""
    read = 0

    def advance(more: int) -> None:
        nonlocal read
        read += more

    given = 0
    blocks = cast(
        Generator[Block, None, None], Reader(pattern, WINDOW_BYTES, _MOST_LINE, on_read=advance).blocks(source)
    )
    with contextlib.closing(blocks):
        for block in blocks:  # none is held: they are many times as large as what is read of the disk
            reached = source.bytes if block.ends_source else read
            yield block, reached - given
            given = reached
            if read >= wanted:
                break


def _rows(source: Source, many: int, pattern: Pattern) -> Iterator[tuple[Block, float]]:
    """Rows of a Parquet file at even distances, each time as many as a window of the file holds."""
    with open_parquet(source) as file:
        rows = file.metadata.num_rows
    each = max(1, -(-rows * WINDOW_BYTES // source.bytes))
    reader, done = Reader(pattern, WINDOW_BYTES, _MOST_LINE), 0
    for number in range(many):
        start = max(done, rows * number // many)
        if start == rows:
            return
        values: list[str | None] = []
        blocks = cast(Generator[Block, None, None], reader.blocks(source, [(0, start)] if start else []))
        with contextlib.closing(blocks):
            for block in blocks:
                values += block.data[: each - len(values)]  # type: ignore[arg-type]
                if len(values) == each:
                    break
        done = start + len(values)
        yield Block(source, start, done, values, True), source.bytes * len(values) / rows


class SampleFiles:
    """Files like those of the corpus, one for each source that was sampled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arguments: list[str] = []  # the files as SOURCE arguments
        self._source: Source | None = None
        self._file: BinaryIO | None = None  # of that source
        self._rows: pq.ParquetWriter | None = None  # in that file

    def add(self, block: Block) -> None:
        """Write the next window; all windows of a source come one after another."""
        if block.source != self._source:
            self.close()
            self._open(block.source)
        if self._rows is not None:
            self._rows.write_table(pa.table([pa.array(block.data, pa.large_string())], schema=self._rows.schema))
        else:
            assert self._file is not None
            self._file.write(cast(bytes, block.data))

    def _open(self, source: Source) -> None:
        path = self.folder / f"{len(self.arguments):06d}{''.join(Path(source.path).suffixes[-2:])}"
        self._source, self._file = source, _packing(path, compression_of(source.path))
        if source.kind == "parquet":
            schema = pa.schema([(source.column, pa.large_string())])
            self._rows = pq.ParquetWriter(self._file, schema, compression="zstd")
        with_field = source.kind in ("jsonl", "csv", "parquet") and source.column != "text"
        self.arguments.append(f"{path}:{source.column}" if with_field else str(path))

    def close(self) -> None:
        """End the file of the source whose windows came last."""
        if self._rows is not None:
            self._rows.close()
        if self._file is not None:
            self._file.close()
        self._source = self._file = self._rows = None


def _packing(path: Path, compression: str) -> BinaryIO:
    if compression == ".gz":
        return cast(BinaryIO, gzip.open(path, "wb", 6))
    return cast(BinaryIO, zstd.open(path, "wb")) if compression == ".zst" else path.open("wb")


def as_whole(block: Block) -> Block:
    """A window as a source of its own."""
    return replace(block, ends_source=True)
