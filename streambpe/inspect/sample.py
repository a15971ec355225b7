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
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from streambpe.sources.read import Reader, open_parquet
from streambpe.sources.source import Block, Source
from streambpe.sources.streams import SourceBytes, compression_of
from streambpe.text.patterns import Pattern

WINDOW_BYTES = 256 << 10
SUBSETS = 16
_MOST_TEXT_LINE = 4096  # a longer line of text is cut anywhere
_MOST_LINE = 16 << 20  # of JSON; a longer line is cut, and reading the window reports that it is no JSON


Window = tuple[Block, float]  # a stretch of a source, and how many bytes of the source's file it stands for


def draw_windows(sources: Sequence[Source], wanted_bytes: int, pattern: Pattern) -> Iterator[Window]:
    """Windows of about `wanted_bytes` of the files' bytes, in order; all of the files if they have no more."""
    total = sum(source.bytes for source in sources)
    whole = total <= wanted_bytes
    step = WINDOW_BYTES if whole else max(total // max(SUBSETS, wanted_bytes // WINDOW_BYTES), WINDOW_BYTES)
    first = 0
    for source in sources:
        starts = range(0 if whole else -first % step, source.bytes, step)
        first += source.bytes
        if source.kind == "parquet":
            yield from _rows(source, len(starts), pattern)
        elif source.kind != "csv" and not compression_of(source.path):
            yield from _lines(source, starts)
        elif starts:
            yield from _front(source, len(starts) * WINDOW_BYTES, pattern)


def _lines(source: Source, starts: Sequence[int]) -> Iterator[Window]:
    """Windows of a plain file: each from the first line that begins in it to the end of the last such line."""
    most = _MOST_LINE if source.kind == "jsonl" else _MOST_TEXT_LINE
    with SourceBytes(source) as stream:
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


def _front(source: Source, wanted: int, pattern: Pattern) -> Iterator[Window]:
    """Blocks of a file that can only be read from its beginning, until about `wanted` bytes of it on disk were read."""
    read: list[int] = []
    given = 0
    reader = Reader(pattern, WINDOW_BYTES, _MOST_LINE, on_read=read.append)
    with contextlib.closing(cast(Generator[Block, None, None], reader.blocks(source))) as blocks:
        for block in blocks:  # none is held: they are many times as large as what is read of the disk
            reached = source.bytes if block.ends_source else sum(read)
            yield structs.replace(block, ends_source=True), reached - given
            given = reached
            if sum(read) >= wanted:
                break


def _rows(source: Source, many: int, pattern: Pattern) -> Iterator[Window]:
    """Rows of a Parquet file at even distances, each time as many as a window of the file holds."""
    with open_parquet(source) as file:
        rows = file.metadata.num_rows
    each = max(1, -(-rows * WINDOW_BYTES // source.bytes))
    reader, stop = Reader(pattern, WINDOW_BYTES, _MOST_LINE), 0
    for number in range(many):
        start = max(stop, rows * number // many)
        stop = min(start + each, rows)
        if start == stop:
            return
        blocks = reader.blocks(source, [(0, start)] if start else [], stop)
        values = cast(list[str | None], [value for block in blocks for value in block.data])
        yield Block(source, start, stop, values, True), source.bytes * len(values) / rows


def sample_path(source: Source, stem: Path) -> tuple[Path, str]:
    """Where the sample of a source is written: (its path, the same as a SOURCE argument)."""
    path = Path(f"{stem}{''.join(Path(source.path).suffixes[-2:])}")
    with_field = source.kind in ("jsonl", "csv", "parquet") and source.column != "text"
    return path, f"{path}:{source.column}" if with_field else str(path)


@contextlib.contextmanager
def writing_sample(source: Source, path: Path) -> Iterator[Callable[[Block], object]]:
    """Write windows of a source, one after another, as a file like it: gives the function that writes the next."""
    with _packing(path, compression_of(source.path)) as file:
        if source.kind != "parquet":
            yield lambda block: file.write(cast(bytes, block.data))
            return
        schema = pa.schema([(source.column, pa.large_string())])
        with pq.ParquetWriter(file, schema, compression="zstd") as rows:
            yield lambda block: rows.write_table(pa.table([pa.array(block.data, pa.large_string())], schema=schema))


def _packing(path: Path, compression: str) -> Any:
    if compression == ".gz":
        return gzip.open(path, "wb", 6)
    return pa.output_stream(path, compression="zstd" if compression else None)
