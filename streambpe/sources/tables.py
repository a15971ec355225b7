"""Tables of counts as sources: csv, tsv, text and Parquet, read in pieces."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.errors import SourceError, quoted
from streambpe.later import compute as pc
from streambpe.sources.csv_records import csv_reader
from streambpe.sources.read import is_text, not_parquet, open_parquet
from streambpe.sources.source import Source
from streambpe.sources.streams import DAMAGE, SourceBytes, strip_compression

_PIECE_ROWS = 1 << 14
_PIECE_BYTES = 1 << 20  # of chunks
_SCHEMA = pa.schema([("chunk", pa.large_string()), ("n", pa.int64())])


class CountTable(msgspec.Struct):
    """Some rows of a count table."""

    rows: pa.Table  # chunk, n; in the order of the file
    documents: int = 0
    pattern: str | None = None  # the expression it was counted with, if it says so


def read_count_table(source: Source, most_rows: int = _PIECE_ROWS) -> Iterator[CountTable]:
    """A count table in small pieces: at least one, and the pattern comes with one of them.

    csv with a header (BatchBPE, and ours; a last row with count 0 is the pattern), Parquet as
    export-counts writes it, tsv `word<TAB>n` (sentencepiece), or `word n` (subword-nmt).
    """
    if strip_compression(source.path).endswith(".parquet"):
        yield from _read_count_parquet(source, most_rows)
        return
    chunks: list[str] = []
    counts: list[int] = []
    size = 0
    for chunk, n in _count_rows(source):
        if len(chunks) == most_rows or size > _PIECE_BYTES:
            yield CountTable(_as_table(chunks, counts))
            chunks, counts, size = [], [], 0
        chunks.append(chunk)
        counts.append(n)
        size += len(chunk)
    is_csv = strip_compression(source.path).endswith(".csv")
    pattern = chunks[-1] if is_csv and chunks and counts[-1] == 0 else None
    yield CountTable(_as_table(chunks, counts), pattern=pattern)


def _as_table(chunks: Sequence[str], counts: Sequence[int]) -> pa.Table:
    return pa.table([pa.array(chunks, pa.large_string()), pa.array(counts, pa.int64())], schema=_SCHEMA)


def _read_count_parquet(source: Source, most_rows: int) -> Iterator[CountTable]:
    try:
        with open_parquet(source) as file:
            names = file.schema_arrow.names
            if names[:2] not in (["chunk", "count"], ["chunk", "n"]):
                raise SourceError(f"{source.path} holds columns {', '.join(names)}; a count table has chunk and count.")
            chunk_type, count_type = file.schema_arrow.types[:2]
            if not (is_text(chunk_type) and pa.types.is_integer(count_type)):
                raise SourceError(
                    f"{source.path} holds {chunk_type} and {count_type}; a count table has chunks that are strings, "
                    "and counts that are integers."
                )
            facts = json.loads((file.schema_arrow.metadata or {}).get(b"streambpe-counts", b"{}"))
            documents, expression = facts.get("documents", 0), facts.get("expression")
            first_row = 0
            for batch in file.iter_batches(most_rows, columns=names[:2], use_threads=False):
                yield CountTable(_checked_columns(batch, source, first_row), documents, expression)
                first_row += len(batch)
                documents = 0
            if not first_row:
                yield CountTable(_SCHEMA.empty_table(), documents, expression)
    except UnicodeDecodeError as why:
        raise SourceError(f"{source.path} holds a chunk that is not UTF-8 ({why.reason}).") from None
    except (OSError, pa.ArrowException) as why:
        raise not_parquet(source.path, why) from None


def _checked_columns(batch: pa.RecordBatch, source: Source, first_row: int) -> pa.Table:
    """Chunks and counts of a Parquet file, as columns; an error names the first bad row."""
    chunks, counts = batch.column(0).cast(pa.large_string()), batch.column(1)
    bad = pc.or_(pc.equal(pc.binary_length(chunks), 0), pc.or_(pc.less(counts, 0), pc.greater(counts, MAX_COUNT)))
    row = pc.index(bad.fill_null(True), True).as_py()
    if row >= 0:
        list(_checked_rows([[chunks[row].as_py(), counts[row].as_py()]], source, first_row + row))
    try:
        chunks.validate(full=True)
    except pa.ArrowInvalid:
        chunks.to_pylist()  # the error says what is wrong with its bytes
    return pa.table([chunks, counts.cast(pa.int64())], schema=_SCHEMA)


def _count_rows(source: Source) -> Iterator[tuple[str, int]]:
    name = strip_compression(source.path)
    is_csv = name.endswith(".csv")
    # only a line feed ends a row of the other formats: a carriage return may be part of a chunk
    newline = "" if is_csv else "\n"
    try:
        with SourceBytes(source) as opened, io.TextIOWrapper(opened.stream, "utf-8-sig", newline=newline) as text:
            if is_csv:
                rows: Iterator[list[str]] = csv_reader(text)
                header = next(rows, [])
                if len(header) != 2 or header[1].strip().isdigit():
                    raise SourceError(
                        f"{source.path} line 1 is {quoted(','.join(header))}; a count table in csv begins with a "
                        "header such as `chunk,count`."
                    )
                yield from _checked_rows(rows, source, 2)
            else:
                separator = "\t" if name.endswith(".tsv") else None
                lines = (line for line in text if line != "\n")
                yield from _checked_rows((_word_and_count(line, separator) for line in lines), source, 1)
    except UnicodeDecodeError as why:
        raise SourceError(f"{source.path} is not UTF-8 near byte {why.start}; none of it was counted.") from None
    except (*DAMAGE, csv.Error) as why:
        raise SourceError(f"{source.path} is cut off or damaged ({why}); none of it was counted.") from None


def _word_and_count(line: str, separator: str | None) -> list[str]:
    line = line.removesuffix("\n").removesuffix("\r")
    if separator is None:
        separator = "\t" if "\t" in line else " "
    return line.rsplit(separator, 1)


def _checked_rows(rows: Iterable[list[Any]], source: Source, first_line: int) -> Iterator[tuple[str, int]]:
    for number, row in enumerate(rows, first_line):
        if not row or row == [""]:
            continue
        try:
            chunk, count = row
            n = -1 if count is None else int(count)
            if not chunk:
                raise ValueError
        except ValueError:
            raise SourceError(
                f"{source.path} row {number} is {quoted(row)}; a row is a chunk that is not empty, and a whole "
                "number. None of it was counted."
            ) from None
        if n < 0 or n > MAX_COUNT:
            raise SourceError(f"{source.path} row {number}: {n} is not a 64-bit count. None of it was counted.")
        yield chunk, n
