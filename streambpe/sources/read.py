"""A source read in order, in blocks that can be counted on their own. Positions: decompressed bytes, or rows."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.core.binding import csv_records_end
from streambpe.errors import LimitError, SourceError
from streambpe.sources.borders import find_border
from streambpe.sources.csv_records import read_header, refuse_column
from streambpe.sources.decode import digest_values
from streambpe.sources.not_text import SAMPLE_BYTES, refuse_if_not_text
from streambpe.sources.remote.address import is_remote
from streambpe.sources.source import Block, Source, name_of
from streambpe.sources.streams import SourceBytes, compression_of, open_file
from streambpe.text.patterns import Pattern

Gap = tuple[int, int | None]
_ROWS, _ROWS_OF_DICTIONARY = 256, 32  # of a Parquet file, decoded at once
_WHOLE = {"lines": "line", "jsonl": "line", "parquet": "value"}


def gaps_between(done: Iterable[tuple[int, int]], end: int | None = None) -> list[Gap]:
    """The stretches not covered by [start, stop) pairs, up to a place; without one the last is open."""
    gaps: list[Gap] = []
    at = 0
    for start, stop in sorted(done):
        if start > at:
            gaps.append((at, start))
        at = max(at, stop)
    gaps.append((at, None))
    if end is None:
        return gaps
    return [(start, end if stop is None else min(stop, end)) for start, stop in gaps if start < end]


def _in_order(done: Iterable[tuple[int, int]], end: int | None = None) -> list[tuple[int, int | None, bool]]:
    """What is done (True) and the gaps between, from the front."""
    gaps = [(start, stop, False) for start, stop in gaps_between(done, end)]
    return sorted([*gaps, *((start, stop, True) for start, stop in done)], key=lambda stretch: stretch[0])


@contextlib.contextmanager
def open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """A Parquet file; an error that names it if it is none."""
    stored = open_file(source) if is_remote(source.path) else source.path
    try:
        file = pq.ParquetFile(stored, pre_buffer=False, buffer_size=1 << 20)
    except (OSError, pa.ArrowException) as why:
        raise not_parquet(source.path, why) from None
    with file:
        yield file


def row_group_starts(file: pq.ParquetFile) -> list[int]:
    """The first row of each row group, and behind them the number of rows."""
    rows = (file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
    return list(itertools.accumulate(rows, initial=0))


def group_bytes(file: pq.ParquetFile, group: int) -> int:
    """The bytes of a row group in the file."""
    columns = file.metadata.row_group(group)
    return sum(columns.column(number).total_compressed_size for number in range(columns.num_columns))


class Reader(msgspec.Struct):
    """Reads sources as blocks of about `block_bytes`, never more than `most_bytes`."""

    pattern: Pattern
    block_bytes: int
    most_bytes: int
    # told how many bytes of the files on disk were read, without what was done before, unless they are packed
    on_read: Callable[[int], None] = lambda _: None
    take_anyway: str = ""  # TAKE_ANYWAY in a command with --bad-utf8
    whole_lines: bool = False  # no block of lines ends inside one
    verify: Callable[[Source, int, int, str], None] = lambda *_: None  # told the digest of skipped stretches

    def blocks(self, source: Source, done: Sequence[tuple[int, int]] = (), stop: int | None = None) -> Iterator[Block]:
        """The stretches of a source that are not `done`, in order, one after another; up to `stop` if it has one."""
        if source.texts is not None:
            yield from self._from_texts(source, done)
        elif source.kind == "parquet":
            yield from self._from_parquet(source, done, stop)
        else:
            yield from self._from_bytes(source, done, stop)

    def _from_bytes(self, source: Source, done: Sequence[tuple[int, int]], end: int | None) -> Iterator[Block]:
        told, by_place = 0, not (source.is_stdin or compression_of(source.path))
        with SourceBytes(source) as stream:
            header: tuple[str, ...] = ()
            if not done and not source.any_bytes:
                head = stream.unread(stream.read(SAMPLE_BYTES))  # as much for every block size
                refuse_if_not_text(head, name_of(source), self.take_anyway)
            if source.kind == "csv":
                header, _ = read_header(stream, source)
            for start, stop, known in _in_order(done, end):
                if known and stop is not None:
                    self._verify_bytes(stream, source, start, stop)
                    continue
                if start != stream.at:
                    stream.seek(start)
                told = start if by_place else told
                for block in self._gap(stream, source, start, stop, header):
                    now = block.stop_at if by_place else stream.on_disk
                    self.on_read(now - told)
                    told = now
                    yield block

    def _verify_bytes(self, stream: SourceBytes, source: Source, start: int, stop: int) -> None:
        """Standard input has to be read where it was counted before, and `verify` is told what it is now."""
        digest = stream.digest(stop - start) if source.is_stdin else ""
        if digest is None:
            raise SourceError(
                f"{name_of(source)} ends at byte {stream.at}, but bytes up to {stop} of it were counted before, so "
                "it has changed. Nothing was changed."
            )
        if digest:
            self.verify(source, start, stop, digest)

    def _gap(
        self, stream: SourceBytes, source: Source, start: int, stop: int | None, header: tuple[str, ...]
    ) -> Iterator[Block]:
        at, held, inside = start, b"", False
        finished = False
        while not finished:
            want = max(self.block_bytes, len(held))
            if stop is not None:
                want = min(want, stop - at - len(held))
            data = stream.read(want)
            held = held + data if held else data
            finished = len(data) < want or at + len(held) == stop
            end = len(held) if finished else self._border(held, source)
            if end == len(held) and not finished:
                # look whether anything follows: the last block of a source is never empty, so that
                # a source whose bytes are all committed is known to be complete
                data = stream.read(1)
                held, finished = held + data, not data
            if finished and stop is not None and at + end < stop:
                raise SourceError(f"{source.path} is shorter than when it was counted. Nothing was changed.")
            if not end and not finished:
                if len(held) >= self.most_bytes:
                    self._refuse(source, at, len(held))
                continue
            ends_inside = not finished and not (
                source.kind in ("lines", "jsonl", "csv") and held[end - 1 : end] == b"\n"
            )
            if end or start == 0:
                yield Block(source, at, at + end, held[:end], finished and stop is None, header, inside, ends_inside)
            inside = ends_inside
            at, held = at + end, held[end:]

    def _border(self, held: bytes, source: Source) -> int:
        """The last place in `held` at which a block may end, or 0."""
        if source.kind in ("lines", "jsonl"):
            end = held.rfind(b"\n") + 1
            if end or source.kind == "jsonl" or self.whole_lines:
                return end
        if source.kind == "csv":
            return csv_records_end(held)
        return find_border(held, self.pattern)

    def _rows_at_once(self, file: pq.ParquetFile, source: Source, group: int) -> int:
        """How many values of a row group are decoded together: about a block of them."""
        rows = file.metadata.row_group(group)
        columns = (rows.column(number) for number in range(rows.num_columns))
        column = next((column for column in columns if column.path_in_schema == source.column), None)
        if column is None:  # named otherwise in the file than in its schema
            return 1
        mean = column.total_uncompressed_size // max(rows.num_rows, 1)
        if rows.num_rows == 1 and mean > 4 * self.most_bytes:  # its page may name it as least and largest, too
            self._refuse(source, row_group_starts(file)[group], mean, "row")
        # in a dictionary, a long value stands once for many rows, and writers let one grow to 1 MB
        most = _ROWS_OF_DICTIONARY if column.has_dictionary_page else _ROWS
        return int(min(most, max(self.block_bytes // max(mean, 1), 1)))

    def _refuse(self, source: Source, at: int, size: int, place: str = "byte") -> None:
        why = (
            "the pattern has no place to cut it"
            if source.kind == "txt" or (source.kind == "lines" and not self.whole_lines)
            else f"one {_WHOLE.get(source.kind, 'record')} has to be read as a whole"
        )
        raise LimitError(
            f"{name_of(source)} holds a document of more than {size >> 20} MB at {place} {at}, and {why}; with this "
            f"--memory, the limit is {self.most_bytes >> 20} MB. Everything else is kept. Give more --memory, or "
            "leave that document out."
        )

    def _from_parquet(self, source: Source, done: Sequence[tuple[int, int]], end: int | None) -> Iterator[Block]:
        with open_parquet(source) as file:
            refuse_column(source.path, file.schema_arrow.names, source.column)
            kind = file.schema_arrow.field(source.column).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if not is_text(kind):
                raise SourceError(
                    f"{source.path}: column {source.column!r} holds {kind}, not strings. Choose another with "
                    "--text-column."
                )
            starts = row_group_starts(file)
            last = starts[-1]
            if last == 0 and not done:
                yield Block(source, 0, 0, [], True)
            gaps = gaps_between(done, last if end is None else end)
            for (start, stop), group in itertools.product(gaps, range(file.num_row_groups)):
                low, high = max(start, starts[group]), min(stop or last, starts[group + 1])
                if low < high:
                    values = self._rows(file, source, group, starts[group], low, high)
                    yield from self._of_values(source, values, low, high == last)
                    if high == starts[group + 1]:
                        self.on_read(group_bytes(file, group))

    def _rows(
        self, file: pq.ParquetFile, source: Source, group: int, at: int, low: int, high: int
    ) -> Iterator[str | None]:
        """The values of some rows of a row group, which begins at row `at`."""
        try:
            at_once = self._rows_at_once(file, source, group)
            for batch in file.iter_batches(at_once, row_groups=[group], columns=[source.column], use_threads=False):
                first, at = max(low, at), at + len(batch)
                rows = batch.column(0)[first - at + len(batch) :][: max(min(high, at) - first, 0)]
                for row, text in enumerate(_strings(rows), first):
                    if text and len(text) > self.most_bytes:
                        self._refuse(source, row, len(text), "row")
                    yield text
        except (OSError, pa.ArrowException, UnicodeDecodeError) as why:
            raise SourceError(
                f"{source.path} is damaged in row group {group}, near row {at}: {str(why).splitlines()[0]}. "
                f"Everything before it is kept."
            ) from None

    def _from_texts(self, source: Source, done: Sequence[tuple[int, int]]) -> Iterator[Block]:
        """Positions are documents; those counted before are skipped, and verified."""
        assert source.texts is not None
        texts = (_checked_text(source, number, text) for number, text in enumerate(source.texts))
        for start, stop, known in _in_order(done):
            if known and stop is not None:
                passed = list(islice(texts, stop - start))
                if start + len(passed) < stop:
                    raise SourceError(
                        f"{source.path} gave {start + len(passed)} documents, but {stop} were counted before. Nothing "
                        "was changed."
                    )
                self.verify(source, start, stop, digest_values(passed))
            else:
                values = texts if stop is None else islice(texts, stop - start)
                yield from self._of_values(source, values, start, stop is None, even_empty=not done)

    def _of_values(
        self, source: Source, texts: Iterable[str | None], at: int, ends_source: bool, even_empty: bool = False
    ) -> Iterator[Block]:
        """Values in blocks. The last block of a source is never empty, except that `even_empty` gives one for a source
        without values."""
        values: list[str | None] = []
        size = 0
        for text in texts:
            if size >= self.block_bytes:  # given only now that more follows
                yield Block(source, at, at + len(values), values, False)
                at, values, size = at + len(values), [], 0
            values.append(text)
            size += len(text or "")
        if values or even_empty:
            yield Block(source, at, at + len(values), values, ends_source)


def not_parquet(path: str, why: Exception) -> SourceError:
    """The error for a file Arrow failed on; Arrow itself does not say if it is gone or may not be read."""
    if isinstance(why, OSError) and why.errno is not None:
        return SourceError(f"{path} cannot be read: {os.strerror(why.errno)}.")
    return SourceError(f"{path} is not a Parquet file: {str(why).splitlines()[0]}")


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _strings(column: pa.Array) -> list[str | None]:
    """The values of a string column; an invalid sequence becomes a lone surrogate, so that the policy sees it."""
    try:
        values: list[str | None] = column.to_pylist()
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        data = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "streambpe-surrogate") for value in data]
    return values


def _as_surrogate(why: UnicodeError) -> tuple[str, int]:
    assert isinstance(why, UnicodeDecodeError)
    return chr(0xDC00 + why.object[why.start]), why.end


codecs.register_error("streambpe-surrogate", _as_surrogate)


def _checked_text(source: Source, index: int, text: object) -> str | None:
    if text is not None and not isinstance(text, str):
        raise SourceError(
            f"{source.path}: document {index} is {type(text).__name__}, not str. Everything before it is kept."
        )
    return text
