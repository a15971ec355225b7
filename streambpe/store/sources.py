"""Inputs: finding them, reading them in blocks, and turning a block into a counting buffer.

One reader goes through a source in order and hands out `Block`s of raw bytes; where a block ends is
chosen so that it can be counted on its own (a line end, or a place where the pattern has a chunk
border whatever stands around). `block_text` then makes the counting buffer: UTF-8 with a mark
behind every document (encode/marks.py). Positions are decompressed bytes (rows, for Parquet), so a
source that was counted in part goes on from where it stopped.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import glob
import gzip
import hashlib
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.core.binding import lines_as_documents
from streambpe.encode.marks import RUN_END
from streambpe.encode.patterns import Pattern
from streambpe.encode.prepare import inert_around
from streambpe.errors import LimitError, SourceError, UsageError
from streambpe.store.csv_records import csv_reader, last_record_end, listed_names, read_header, two_columns
from streambpe.store.not_text import SAMPLE_BYTES, refuse_if_not_text
from streambpe.system import NamesOnDisk, name_order

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Stream(Protocol):
    """What is asked of an open file, a decompressor or standard input."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""

    def seek(self, to: int, /) -> int:
        """Go to a place."""

    def close(self) -> None:
        """Let go of it."""


Kind = Literal["txt", "lines", "jsonl", "csv", "parquet", "counts", "iterator"]
BadUtf8 = Literal["replace", "skip", "error"]

_KIND_OF_SUFFIX: dict[str, Kind] = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_COUNT_SUFFIXES = (".csv", ".tsv", ".txt", ".vocab", ".dict", ".parquet")
_BOM = b"\xef\xbb\xbf"
_DAMAGE = (EOFError, OSError, zlib.error, zstd.ZstdError)


@dataclass(frozen=True)
class Source:
    """One input: what it is and where."""

    path: str  # absolute; the name of standard input ("-" unless given another) or of an iterator
    kind: Kind
    column: str = "text"
    bytes: int = 0  # on disk; 0 if unknown
    mtime_ns: int = 0
    texts: Iterable[str | None] | None = field(default=None, compare=False, repr=False)
    is_stdin: bool = False
    group: str | None = field(default=None, compare=False)  # of sources; None: not asked for
    any_bytes: bool = field(default=False, compare=False)  # it is taken though it is mostly no UTF-8

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once, from the front."""
        return self.is_stdin or self.texts is not None


@dataclass(frozen=True)
class Block:
    """A stretch of a source that is counted on its own."""

    source: Source
    start_at: int
    stop_at: int
    data: bytes | list[str | None]  # raw bytes, or the values of a text column
    ends_source: bool
    header: tuple[str, ...] = ()  # of a csv
    inside_document: bool = False  # begins in the middle of a document
    ends_inside: bool = False  # and ends in one


@dataclass
class BlockText:
    """A counting buffer and what was met while making it."""

    text: bytes
    documents: int
    digest: str
    bad_utf8: int = 0
    boms: int = 0
    nulls: int = 0
    dropped: int = 0  # characters, by --unencodable drop


# ---------------------------------------------------------------------------------------------------------
# finding sources


def find_sources(
    arguments: Sequence[str],
    *,
    lines: bool = False,
    text_column: str | None = None,
    counts: bool = False,
    kind: str = "auto",
    stdin_name: str = "-",
) -> tuple[list[Source], list[str]]:
    """The inputs behind the SOURCE arguments, sorted by path, each once; and warnings for the user.

    `text_column`: None is "text".
    """
    if counts and (lines or text_column or kind != "auto"):
        raise UsageError("--counts: a table of counts has no lines, field or format to choose. Leave that option out.")
    if lines and kind in ("jsonl", "csv", "parquet"):
        raise UsageError(f"--lines with --format {kind}: lines are documents in text files only. Leave one out.")
    found: dict[str, Source] = {}
    warnings: list[str] = []
    name_on_disk = NamesOnDisk()
    for argument in arguments:
        column = text_column or "text"
        for source in _expand(argument, lines, column, counts, kind, stdin_name, name_on_disk, warnings):
            if source.path in found:
                if source.kind in ("jsonl", "csv", "parquet") and source.column != found[source.path].column:
                    raise UsageError(
                        f"{source.path} is named with two fields, {found[source.path].column!r} and "
                        f"{source.column!r}; a run counts one of a file. Count the other into another RUN, and "
                        f"add it with merge-counts."
                    )
                warnings.append(f"{source.path} is named more than once; it is counted once.")
            found[source.path] = source
    return [found[path] for path in sorted(found, key=name_order)], warnings


def _expand(
    argument: str,
    lines: bool,
    column: str,
    counts: bool,
    kind: str,
    stdin_name: str,
    name_on_disk: NamesOnDisk,
    warnings: list[str],
) -> Iterator[Source]:
    if argument == "-":
        yield Source(stdin_name, _kind_of("-", lines, counts, kind), column, is_stdin=True)
        return
    path = Path(argument)
    match = re.fullmatch(r"(.+\.(?:jsonl|ndjson|csv|parquet)(?:\.gz|\.zst)?):(.+)", argument)
    if not _exists(path) and match:
        path, column = Path(match.group(1)), match.group(2)
    if _exists(path) and path.is_dir():
        if (path / "state.duckdb").is_file():
            raise SourceError(
                f"{argument} is a RUN, not a folder of sources. Nothing was changed. RUN comes first; the counts of "
                f"another one are added by `streambpe merge-counts RUN {argument}`."
            )
        names = sorted(_sources_in(path, counts, warnings))
        if not names:
            wanted = " ".join(_COUNT_SUFFIXES if counts else _KIND_OF_SUFFIX)
            raise SourceError(f"{argument} is a folder without sources. Looked for: {wanted} (each also .gz .zst).")
    elif _exists(path) or not glob.has_magic(str(path)):
        names = [path]
    else:
        names = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
        if not names:
            raise SourceError(f"No file matches {argument}.")
    for name in names:
        try:
            status = name.stat()
        except (OSError, ValueError) as why:  # of a name with a NUL in it
            raise SourceError(f"{shown(name)} cannot be read: {getattr(why, 'strerror', why)}.") from None
        refuse_what_is_no_file(name, status)
        real = str(name_on_disk(name))
        yield Source(real, _kind_of(real, lines, counts, kind), column, status.st_size, status.st_mtime_ns)


def _exists(path: Path) -> bool:
    """Whether there is such a file; none has a name that is too long or holds a NUL."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _sources_in(folder: Path, counts: bool, warnings: list[str]) -> Iterator[Path]:
    """The sources below a folder; an error if part of it cannot be looked into, rather than less text than there is."""

    def stop(why: OSError) -> None:
        raise SourceError(f"{shown(why.filename)} cannot be looked into: {why.strerror}. Nothing was read.")

    for place, _, names in os.walk(folder, onerror=stop):
        for path in (Path(place, name) for name in names if _is_source_name(name, counts)):
            if path.is_file():
                yield path
            elif not path.is_dir():
                warnings.append(
                    f"{shown(path)} is no file that can be read (a broken link, or a pipe): it is left out."
                )


def shown(path: Path | str) -> str:
    """A path for a message, also where its name is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def refuse_what_is_no_file(path: Path, status: os.stat_result) -> None:
    """A pipe, a socket or a device gives its bytes once, and a count that goes on has to read them again."""
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    kind = kinds.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        raise SourceError(
            f"{shown(path)} is a {kind}, not a file. Nothing was read. To read it, give - in place of its "
            f"name, and < {shown(path)} behind the command."
        )


def refuse_names_that_are_no_text(sources: Iterable[Source]) -> None:
    """A run keeps the paths of its sources in tables of text."""
    for source in sources:
        if not source.path.isascii() and any("\ud800" <= letter <= "\udfff" for letter in source.path):
            raise SourceError(
                f"The name of {shown(source.path)} is not UTF-8, and a run keeps the names of its sources as text. "
                f"Nothing was read. Rename it."
            )


def _strip_compression(name: str) -> tuple[str, str]:
    for suffix in (".gz", ".zst"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def compression_of(path: str) -> str:
    """.gz, .zst, or nothing."""
    return _strip_compression(path)[1]


def _is_source_name(name: str, counts: bool) -> bool:
    suffix = Path(_strip_compression(name)[0]).suffix
    return suffix in _COUNT_SUFFIXES if counts else suffix in _KIND_OF_SUFFIX


def _kind_of(path: str, lines: bool, counts: bool, kind: str) -> Kind:
    if counts:
        return "counts"
    known = _KIND_OF_SUFFIX.get(Path(_strip_compression(path)[0]).suffix, "txt")
    if kind != "auto":
        if kind not in ("txt", "lines", "jsonl", "csv", "parquet"):
            raise UsageError(f"There is no source format {kind!r}.")
        known = kind  # type: ignore[assignment]
    return "lines" if lines and known == "txt" else known


# ---------------------------------------------------------------------------------------------------------
# reading


def open_bytes(source: Source) -> tuple[Stream, Callable[[], int]]:
    """The decompressed bytes of a source, and a function that says how far the file on disk was read."""
    if source.is_stdin:
        return sys.stdin.buffer, lambda: 0
    try:
        raw = open(source.path, "rb")  # noqa: SIM115  closed by the reader of the stream
    except OSError as why:
        raise SourceError(f"{source.path} cannot be read: {why.strerror}.") from None
    suffix = compression_of(source.path)
    if suffix == ".gz":
        return _Decompressed(gzip.GzipFile(fileobj=raw), raw), raw.tell
    if suffix == ".zst":
        return _Decompressed(zstd.ZstdFile(raw), raw), raw.tell
    return raw, raw.tell


class _Decompressed(io.BufferedReader):
    """A decompressor that closes the file below it too: those of the libraries leave it open."""

    def __init__(self, decompressor: Any, raw: io.BufferedReader) -> None:
        super().__init__(decompressor)
        self._file = raw

    def close(self) -> None:
        """Close both."""
        try:
            super().close()
        finally:
            self._file.close()


def read_exactly(stream: Stream, size: int, source: Source, at: int) -> bytes:
    """Up to `size` bytes; less only at the end of the source. Damage is named with its place."""
    parts, missing = [], size
    try:
        while missing:
            part = stream.read(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as why:
        raise SourceError(
            f"{source.path} is truncated or damaged: decompressing stopped near byte {at + size - missing} of its "
            f"content ({why}). Everything before it is kept; repair the file and give the same command again."
        ) from None
    except OSError as why:
        raise SourceError(
            f"{source.path} cannot be read past byte {at + size - missing}: {why.strerror or why}."
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


Gap = tuple[int, int | None]


def gaps_between(done: Iterable[tuple[int, int]]) -> list[Gap]:
    """The stretches not covered by [start, stop) pairs; the last one is open."""
    gaps: list[Gap] = []
    at = 0
    for start, stop in sorted(done):
        if start > at:
            gaps.append((at, start))
        at = max(at, stop)
    return [*gaps, (at, None)]


@dataclass
class Reader:
    """Reads sources as blocks of about `block_bytes`, never more than `most_bytes`."""

    pattern: Pattern
    block_bytes: int
    most_bytes: int
    verify: Callable[[Source, int, int, str], None] | None = None  # told the digest of skipped stretches
    on_read: Callable[[int], None] | None = None  # told how many bytes of the files on disk were read
    take_anyway: str = ""  # how the user says that a source is to be read though it is mostly no UTF-8

    def blocks(self, source: Source, done: Sequence[tuple[int, int]] = ()) -> Iterator[Block]:
        """The stretches of a source that are not `done`, in order, one after another."""
        if source.texts is not None:
            yield from self._from_texts(source, done)
        elif source.kind == "parquet":
            yield from self._from_parquet(source, done)
        else:
            yield from self._from_bytes(source, done)

    def _from_bytes(self, source: Source, done: Sequence[tuple[int, int]]) -> Iterator[Block]:
        stream, told = open_bytes(source)
        told_before = 0
        try:
            at = 0
            header: tuple[str, ...] = ()
            if not done and not source.any_bytes:
                stream = self._refuse_what_is_no_text(stream, source)
            if source.kind == "csv":
                header, first_record = read_header(stream, _name(source), source.column, _DAMAGE)
                stream = _Prefixed(first_record, stream)
            covered = sorted(done)
            for start, stop in gaps_between(covered):
                self._skip(stream, source, at, start, covered)
                at = start
                for block in self._gap(stream, source, start, stop, header):
                    at = block.stop_at
                    if self.on_read:
                        self.on_read(told() - told_before)
                        told_before = told()
                    yield block
        finally:
            if not source.is_stdin:
                with contextlib.suppress(OSError):
                    stream.close()

    def _refuse_what_is_no_text(self, stream: Stream, source: Source) -> Stream:
        """An error by the first bytes of a source, the same whatever the blocks; else the stream from its front."""
        head = read_exactly(stream, SAMPLE_BYTES, source, 0)
        refuse_if_not_text(head, _name(source), self.take_anyway)
        return _Prefixed(head, stream)

    def _skip(self, stream: Stream, source: Source, at: int, to: int, covered: Sequence[tuple[int, int]]) -> None:
        """Go forward; a stream has to be read, and what is passed is shown to `verify`."""
        if to == at:
            return
        if not source.is_stream and not compression_of(source.path):
            stream.seek(to)
            return
        for start, stop in covered:
            if start < at or stop > to:
                continue
            digest = hashlib.sha256()
            while at < stop:
                data = read_exactly(stream, min(1 << 20, stop - at), source, at)
                if not data:
                    raise SourceError(
                        f"{_name(source)} ends at byte {at}, but bytes up to {stop} of it were counted before. "
                        f"It is not the input it was. Nothing was changed."
                    )
                digest.update(data)
                at += len(data)
            if self.verify and source.is_stream:
                self.verify(source, start, stop, digest.hexdigest())

    def _gap(
        self, stream: Stream, source: Source, start: int, stop: int | None, header: tuple[str, ...]
    ) -> Iterator[Block]:
        at, held, inside = start, b"", False
        while True:
            want = self.block_bytes if len(held) < self.block_bytes else len(held)
            if stop is not None:
                want = min(want, stop - at - len(held))
            data = read_exactly(stream, want, source, at + len(held)) if want else b""
            held = held + data if held else data
            finished = len(data) < want or (stop is not None and at + len(held) == stop)
            end = 0 if finished else self._border(held, source)
            if end and end == len(held):
                # look whether anything follows: the last block of a source is never empty, so that
                # a source whose bytes are all committed is known to be complete
                data = read_exactly(stream, 1, source, at + end)
                held, finished = held + data, not data
            if finished:
                end = len(held)
                if stop is not None and at + end < stop:
                    raise SourceError(f"{source.path} is shorter than when it was counted. Nothing was changed.")
            elif end == 0:
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
            if finished:
                return

    def _border(self, held: bytes, source: Source) -> int:
        """The last place in `held` at which a block may end, or 0."""
        if source.kind in ("lines", "jsonl"):
            end = held.rfind(b"\n") + 1
            if end or source.kind == "jsonl":
                return end
        if source.kind == "csv":
            return last_record_end(held)
        return find_border(held, self.pattern)

    def _refuse(self, source: Source, at: int, size: int) -> None:
        why = (
            "the pattern has no place where it can be cut"
            if source.kind in ("txt", "lines")
            else f"one {'line' if source.kind == 'jsonl' else 'record'} has to be read whole"
        )
        raise LimitError(
            f"{_name(source)} holds a document of more than {size >> 20} MB at byte {at}, and {why}; "
            f"with this --memory at most {self.most_bytes >> 20} MB of it can be held. "
            f"Everything else is kept. Give more --memory, or leave that document out."
        )

    def _from_parquet(self, source: Source, done: Sequence[tuple[int, int]]) -> Iterator[Block]:
        try:
            file = pq.ParquetFile(source.path, pre_buffer=False, buffer_size=1 << 20)
        except (OSError, pa.ArrowException) as why:
            raise not_parquet(source.path, why) from None
        with file:
            names = file.schema_arrow.names
            if source.column not in names:
                raise SourceError(
                    f"{source.path} has no column {source.column!r}; it has {listed_names(names)}. "
                    f"Pick one with --text-column."
                )
            if names.count(source.column) > 1:
                raise SourceError(two_columns(source.path, source.column))
            kind = file.schema_arrow.field(source.column).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if not _is_text(kind):
                raise SourceError(
                    f"{source.path}: column {source.column!r} holds {kind}, not strings. "
                    f"Pick another with --text-column."
                )
            yield from self._row_groups(file, source, done)

    def _row_groups(self, file: pq.ParquetFile, source: Source, done: Sequence[tuple[int, int]]) -> Iterator[Block]:
        starts = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
        last = int(starts[-1])
        if last == 0 and not done:
            yield Block(source, 0, 0, [], True)
        for start, stop_open in gaps_between(done):
            stop = last if stop_open is None else stop_open
            for group in range(file.num_row_groups):
                low, high = max(start, int(starts[group])), min(stop, int(starts[group + 1]))
                if low >= high:
                    continue
                yield from self._rows(file, source, group, int(starts[group]), low, high, last)
                if self.on_read and high == int(starts[group + 1]):
                    columns = file.metadata.row_group(group)
                    self.on_read(sum(columns.column(c).total_compressed_size for c in range(columns.num_columns)))

    def _rows(
        self, file: pq.ParquetFile, source: Source, group: int, at: int, low: int, high: int, last: int
    ) -> Iterator[Block]:
        values: list[str | None] = []
        size, begin = 0, low
        try:
            for batch in file.iter_batches(256, row_groups=[group], columns=[source.column], use_threads=False):
                batch_start, at = at, at + len(batch)
                if at <= low or batch_start >= high:
                    continue
                rows = batch.column(0).slice(max(low - batch_start, 0), min(high, at) - max(low, batch_start))
                for text in _strings(rows):
                    values.append(text)
                    size += len(text) if text else 0
                    if size >= self.block_bytes:
                        yield Block(source, begin, begin + len(values), values, begin + len(values) == last)
                        begin, values, size = begin + len(values), [], 0
        except (OSError, pa.ArrowException, UnicodeDecodeError) as why:
            raise SourceError(
                f"{source.path} is damaged in row group {group}, near row {at}: {str(why).splitlines()[0]}. "
                f"Everything before it is kept."
            ) from None
        if values:
            yield Block(source, begin, begin + len(values), values, begin + len(values) == last)

    def _from_texts(self, source: Source, done: Sequence[tuple[int, int]]) -> Iterator[Block]:
        """Positions are documents; those counted before are passed by, and verified."""
        assert source.texts is not None
        texts = iter(source.texts)
        covered = sorted(done)
        at = 0
        for start, stop in gaps_between(covered):
            for low, high in covered:
                if at <= low and high <= start:
                    passed = [_checked_text(source, at + i, t) for i, t in enumerate(_take(texts, high - at))]
                    if len(passed) < high - at:
                        raise SourceError(
                            f"{source.path} gave {at + len(passed)} documents; {high} of it were counted before. "
                            f"It is not the input it was. Nothing was changed."
                        )
                    if self.verify:
                        self.verify(source, low, high, digest_values(passed))
                    at = high
            values: list[str | None] = []
            size = 0
            for text in texts:
                if size >= self.block_bytes:
                    # told only now that more follows: the last block of a source is never empty
                    yield Block(source, at, at + len(values), values, False)
                    at, values, size = at + len(values), [], 0
                values.append(_checked_text(source, at + len(values), text))
                size += len(text or "")
                if stop is not None and at + len(values) == stop:
                    break
            else:
                if values or not covered:
                    yield Block(source, at, at + len(values), values, True)
                return
            yield Block(source, at, at + len(values), values, False)
            at += len(values)


def not_parquet(path: str, why: Exception) -> SourceError:
    """Arrow says of a file that is gone, or may not be read, no more than that it failed."""
    if isinstance(why, OSError) and why.errno is not None:
        return SourceError(f"{path} cannot be read: {os.strerror(why.errno)}.")
    return SourceError(f"{path} is not a Parquet file: {str(why).splitlines()[0]}")


def _is_text(kind: pa.DataType) -> bool:
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


def _take(texts: Iterator[str | None], n: int) -> Iterator[str | None]:
    for _ in range(n):
        try:
            yield next(texts)
        except StopIteration:
            return


def _checked_text(source: Source, index: int, text: object) -> str | None:
    if text is not None and not isinstance(text, str):
        raise SourceError(
            f"{source.path}: document {index} is {type(text).__name__}, not str. Everything before it is kept."
        )
    return text


def _name(source: Source) -> str:
    return "standard input" if source.is_stdin else source.path


# ---------------------------------------------------------------------------------------------------------
# borders

# Every invalid byte becomes a NUL, so that positions stay what they are.
_BLANK_INVALID = "streambpe-blank"
codecs.register_error(_BLANK_INVALID, lambda why: ("\0" * (why.end - why.start), why.end))  # type: ignore[attr-defined]


_BLANK = np.zeros(256, np.bool_)
_BLANK[[0x09, 0x0B, 0x0C, 0x20]] = True


_WINDOW_OVERLAP = 64  # bytes; a border has to stand clear of the ends of a window


def find_border(held: bytes, pattern: Pattern) -> int:
    """The last certain chunk border in `held` whatever follows it, or 0. Looks at the end first.

    Preferred: a border between ASCII characters, which stays one when invalid bytes around are
    replaced or left out; else one between characters that --normalize and --unencodable leave alone;
    else, unless the text is prepared in such a way, any border. The last two in a stretch of valid UTF-8.
    """
    if not pattern.has_cuts:
        return 0
    for near in ("ascii", "inert") if pattern.prepared else ("ascii", "inert", "any"):
        stop, size = len(held), 1 << 16
        while stop:
            low = max(0, stop - size)
            border = _border_in(held[low:stop], pattern, near)
            if border:
                return low + border
            stop, size = low + _WINDOW_OVERLAP if low else 0, 1 << 20
    return 0


def _border_in(window: bytes, pattern: Pattern, near: str) -> int:
    start = next((i for i in range(min(4, len(window))) if window[i] & 0xC0 != 0x80), 0)
    data = np.frombuffer(window, np.uint8)
    if near != "ascii":
        try:
            window[start:].decode()
        except UnicodeDecodeError as why:
            if why.start + start < len(window) - 3:
                return 0
    if (data >= RUN_END).any() and near != "ascii":
        return 0
    if pattern.definition is None:
        cuts = pattern.rules.cut(window, False)
    else:
        # the first border hangs on what is left of the window; see script_rules for the others
        cuts = pattern.rules.cut(window[start:].decode("utf-8", _BLANK_INVALID).encode(), False)[2:] + start
    # the rules look at one character to the left and one to the right: leave a margin at both ends
    cuts = cuts[(cuts > start + 12) & (cuts < len(window) - 12)]
    if near == "ascii" and len(cuts):
        around = data[cuts[:, None] + np.arange(-2, 2)]
        cuts = cuts[(around < 0x80).all(axis=1)]
    if near == "inert" and len(cuts):
        cuts = cuts[inert_around(data, cuts)]
    if len(cuts) and pattern.definition is None:
        # the last blank of several goes with what follows, which the block before would not see
        cuts = cuts[~_BLANK[data[cuts - 1]]]
    if pattern.script_expression and len(cuts):
        # the script run on both sides has to be one and the same: a letter before, and one right behind
        # the space, else a mark could belong to the run before or another script begin
        left, right, behind = data[cuts - 1] | 0x20, data[cuts], data[cuts + 1] | 0x20
        cuts = cuts[(left >= 97) & (left <= 122) & (right == 32) & (behind >= 97) & (behind <= 122)]
    return int(cuts[-1]) if len(cuts) else 0


class _Prefixed:
    """A stream whose first bytes were read already and are read again."""

    def __init__(self, prefix: bytes, stream: Stream) -> None:
        self._prefix, self._stream = prefix, stream

    def read(self, size: int) -> bytes:
        """As of the stream."""
        if not self._prefix:
            return self._stream.read(size)
        data, self._prefix = self._prefix[:size], self._prefix[size:]
        return data

    def readline(self, size: int) -> bytes:
        """To the end of a line, or less."""
        if not self._prefix:
            return cast(bytes, self._stream.readline(size))  # type: ignore[attr-defined]
        return self.read(self._prefix.find(b"\n") + 1 or len(self._prefix))

    def seek(self, to: int) -> int:
        """Go to a place in the stream."""
        self._prefix = b""
        return self._stream.seek(to)

    def close(self) -> None:
        """As of the stream."""
        self._stream.close()


# ---------------------------------------------------------------------------------------------------------
# blocks to text


def digest_values(values: Iterable[str | None]) -> str:
    """sha256 over texts: a byte 1, the length in 8 bytes and the text for each; a byte 0 for a null."""
    digest = hashlib.sha256()
    for value in values:
        if value is None:
            digest.update(b"\0")
        else:
            data = value.encode("utf-8", "surrogatepass")
            digest.update(b"\1" + len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()


def block_text(block: Block, bad_utf8: BadUtf8) -> BlockText:
    """The counting buffer of a block, with what was repaired and skipped on the way."""
    if isinstance(block.data, list):
        return _text_of_values(block.data, block, bad_utf8, digest_values(block.data))
    data = block.data
    digest = hashlib.sha256(data).hexdigest()
    boms = 0
    if block.start_at == 0 and data.startswith(_BOM):
        data, boms = data[3:], 1
    data, bad = _repair(data, block, bad_utf8)
    if block.source.kind == "jsonl":
        made = _text_of_jsonl(data, block, bad_utf8, digest)
    elif block.source.kind == "csv":
        made = _text_of_csv(data, block, bad_utf8, digest)
    elif block.source.kind == "lines":
        text = lines_as_documents(data, block.inside_document)
        if block.ends_source and data and not data.endswith(b"\n"):
            text += b"\xff"
        made = BlockText(text, text.count(b"\xff"), digest)
    else:
        text = data + b"\xff" if block.ends_source else data
        made = BlockText(text, int(block.ends_source), digest)
    made.bad_utf8 += bad
    made.boms += boms
    return made


def is_valid_utf8(data: bytes) -> bool:
    """About 2 GB/s for ASCII, without a copy."""
    if data.isascii():
        return True
    offsets = np.array([0, len(data)], np.int32)
    try:
        pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repair(data: bytes, block: Block, policy: BadUtf8) -> tuple[bytes, int]:
    """Valid UTF-8, and how many invalid sequences were replaced by U+FFFD or left out."""
    if is_valid_utf8(data):
        return data, 0
    if policy == "error":
        try:
            data.decode()
        except UnicodeDecodeError as why:
            raise SourceError(
                f"{_name(block.source)} is not UTF-8: byte {block.start_at + why.start} is 0x{data[why.start]:02X} "
                f"({why.reason}). Everything before it is kept. Give --bad-utf8 replace or skip, or repair it."
            ) from None
    replaced = data.decode("utf-8", "replace")
    # a lead byte 0xEF never ends inside another sequence, so each of these was valid
    bad = replaced.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    text = replaced if policy == "replace" else data.decode("utf-8", "ignore")
    return text.encode(), bad


_SURROGATE = re.compile("[\ud800-\udfff]")


def _text_of_values(values: Iterable[str | None], block: Block, policy: BadUtf8, digest: str) -> BlockText:
    """One document a value; null is skipped and counted, lone surrogates fall under the policy."""
    texts: list[bytes] = []
    nulls = bad = 0
    for i, value in enumerate(values):
        if value is None:
            nulls += 1
            continue
        try:
            texts.append(value.encode())
        except UnicodeEncodeError as why:
            if policy == "error":
                raise SourceError(
                    f"{_name(block.source)}: document {i} after position {block.start_at} holds the lone surrogate "
                    f"U+{ord(value[why.start]):04X}, which is no character. Everything before it is kept. "
                    f"Give --bad-utf8 replace or skip, or repair it."
                ) from None
            fixed, n = _SURROGATE.subn("\ufffd" if policy == "replace" else "", value)
            bad += n
            texts.append(fixed.encode())
    text = b"\xff".join(texts) + b"\xff" if texts else b""
    return BlockText(text, len(texts), digest, bad_utf8=bad, nulls=nulls)


def _text_of_jsonl(data: bytes, block: Block, policy: BadUtf8, digest: str) -> BlockText:
    row = _row_type(block.source.column)
    try:
        values = [r.text for r in msgspec.json.Decoder(row).decode_lines(data)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = list(_values_line_by_line(data, block))
    return _text_of_values(values, block, policy, digest)


def _row_type(column: str) -> Any:
    """What msgspec reads of a line: the one field, everything else skipped unread."""
    return msgspec.defstruct("Row", [("text", str | None)], rename={"text": column})


def _values_line_by_line(data: bytes, block: Block) -> Iterator[str | None]:
    """The slow way, for blocks with a lone surrogate or an error: each error names its line."""
    column = block.source.column
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_int=_parse_int)
        except RecursionError:
            raise SourceError(
                f"{_at_line(block, number)} has brackets in brackets deeper than is read (some hundreds). Everything "
                f"before it is kept. Leave the line out, or write the field apart."
            ) from None
        except ValueError as why:
            raise SourceError(f"{_at_line(block, number)} is not JSON ({why}). Everything before it is kept.") from None
        if not isinstance(row, dict):
            raise SourceError(f"{_at_line(block, number)} is not a JSON object. Everything before it is kept.")
        if column not in row:
            raise SourceError(
                f"{_at_line(block, number)} has no field {column!r}; it has {listed_names(list(row))}. "
                f"Everything before it is kept. Pick the field with --text-column, or FILE:FIELD."
            )
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise SourceError(
                f"{_at_line(block, number)}: field {column!r} is {type(value).__name__}, not a string. "
                f"Everything before it is kept."
            )
        yield value


def _parse_int(digits: str) -> int | float:
    """Python refuses integers of more than 4 300 digits; the fast reader skips them unread, so they are legal."""
    return int(digits) if len(digits) < 4000 else float(digits)


def _at_line(block: Block, number: int) -> str:
    """ "FILE line N": counts the line breaks before the block, which costs a read up to there."""
    before = 0
    if not block.source.is_stream:
        stream, _ = open_bytes(block.source)
        with contextlib.closing(stream):
            left = block.start_at
            while left and (data := stream.read(min(left, 1 << 20))):
                before += data.count(b"\n")
                left -= len(data)
    elif block.start_at:
        return f"{_name(block.source)}, line {number + 1} after byte {block.start_at},"
    return f"{_name(block.source)} line {before + number + 1}"


def _text_of_csv(data: bytes, block: Block, policy: BadUtf8, digest: str) -> BlockText:
    index = block.header.index(block.source.column)
    values: list[str | None] = []
    reader = csv_reader(io.StringIO(data.decode(), newline=""))
    if block.start_at == 0:
        next(reader, None)  # the header
    try:
        for row in reader:
            if not row:
                continue
            if len(row) <= index:
                raise SourceError(
                    f"{_at_line(block, reader.line_num - 1)} has {len(row)} fields; column "
                    f"{block.source.column!r} is number {index + 1}. Everything before it is kept."
                )
            values.append(row[index])
    except csv.Error as why:
        raise SourceError(f"{_at_line(block, reader.line_num)}: {why}. Everything before it is kept.") from None
    return _text_of_values(values, block, policy, digest)


def digest_file(source: Source) -> str:
    """sha256 of a file as it stands on disk."""
    try:
        with open(source.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as why:
        raise SourceError(f"{source.path} cannot be read: {why.strerror}.") from None


def digest_stretches(
    source: Source, stretches: Sequence[tuple[int, int]], pattern: Pattern
) -> Iterator[tuple[int, int, str]]:
    """(start, stop, digest) of stretches of a source, read again; those it no longer has are left out."""
    if source.kind == "counts":
        whole = digest_file(source)  # its stretches are rows; it is read and committed whole
        yield from ((start, stop, whole) for start, stop in stretches)
        return
    if source.kind == "parquet":
        # any block size gives the same digest for the same rows: read each stretch as one block
        for start, stop in stretches:
            others = [(0, start)] if start else []
            reader = Reader(pattern, sys.maxsize, sys.maxsize)
            values: list[str | None] = []
            for block in reader.blocks(source, others):
                values += block.data[: stop - start - len(values)]  # type: ignore[arg-type]
                if len(values) == stop - start:
                    break
            yield start, stop, digest_values(values)
        return
    stream, _ = open_bytes(source)
    with contextlib.closing(stream):
        at = 0
        for start, stop in stretches:
            digest = hashlib.sha256()
            while at < stop:
                data = read_exactly(stream, min(1 << 20, (start if at < start else stop) - at), source, at)
                if not data:
                    return
                if at >= start:
                    digest.update(data)
                at += len(data)
            yield start, stop, digest.hexdigest()


# ---------------------------------------------------------------------------------------------------------
# count tables


@dataclass
class CountTable:
    """Some rows of a count table."""

    chunks: list[str]
    counts: list[int]
    rows: int  # as they stand in the file
    documents: int = 0
    pattern: str | None = None  # the expression it was counted with, if it says so


def read_count_table(source: Source, most_rows: int) -> Iterator[CountTable]:
    """A count table in pieces: at least one, and the pattern comes with one of them.

    csv with a header (BatchBPE, and ours; a last row with count 0 is the pattern), Parquet as
    export-counts writes it, tsv `word<TAB>n` (sentencepiece), or `word n` (subword-nmt).
    """
    if _strip_compression(source.path)[0].endswith(".parquet"):
        yield from _read_count_parquet(source, most_rows)
        return
    chunks: list[str] = []
    counts: list[int] = []
    last: tuple[str, int] | None = None
    is_csv = _strip_compression(source.path)[0].endswith(".csv")
    for row in _count_rows(source):
        if len(chunks) == most_rows:
            yield CountTable(chunks, counts, most_rows)
            chunks, counts = [], []
        chunks.append(row[0])
        counts.append(row[1])
        last = row
    pattern = last[0] if is_csv and last and last[1] == 0 else None
    yield CountTable(chunks, counts, len(chunks), pattern=pattern)


def _read_count_parquet(source: Source, most_rows: int) -> Iterator[CountTable]:
    try:
        with pq.ParquetFile(source.path, pre_buffer=False) as file:
            names = file.schema_arrow.names
            if names[:2] not in (["chunk", "count"], ["chunk", "n"]):
                raise SourceError(f"{source.path} holds columns {', '.join(names)}; a count table has chunk and count.")
            chunk_type, count_type = file.schema_arrow.types[:2]
            if not (_is_text(chunk_type) and pa.types.is_integer(count_type)):
                raise SourceError(
                    f"{source.path} holds {chunk_type} and {count_type}; the chunks of a count table are strings, "
                    f"the counts integers."
                )
            facts = json.loads((file.schema_arrow.metadata or {}).get(b"streambpe-counts", b"{}"))
            documents, expression = facts.get("documents", 0), facts.get("expression")
            first_row = 0
            for batch in file.iter_batches(most_rows, use_threads=False):
                rows = [list(row) for row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)]
                pairs = list(_checked_rows(rows, source, first_row))
                first_row += len(batch)
                yield CountTable(
                    [chunk for chunk, _ in pairs], [n for _, n in pairs], len(batch), documents, expression
                )
                documents = 0
            if not first_row:
                yield CountTable([], [], 0, documents, expression)
    except UnicodeDecodeError as why:
        raise SourceError(f"{source.path} holds a chunk that is not UTF-8 ({why.reason}).") from None
    except (OSError, pa.ArrowException) as why:
        raise not_parquet(source.path, why) from None


def _count_rows(source: Source) -> Iterator[tuple[str, int]]:
    stream, _ = open_bytes(source)
    try:
        name = _strip_compression(source.path)[0]
        is_csv = name.endswith(".csv")
        # only a line feed ends a row of the others: a carriage return may be part of a chunk
        with io.TextIOWrapper(cast(Any, stream), encoding="utf-8-sig", newline="" if is_csv else "\n") as text:
            if is_csv:
                rows: Iterator[list[str]] = csv_reader(text)
                header = next(rows, [])
                if len(header) != 2 or header[1].strip().isdigit():
                    raise SourceError(
                        f"{source.path} line 1 is {','.join(header)!r}; "
                        f"a count table in csv opens with a header such as `chunk,count`."
                    )
                yield from _checked_rows(rows, source, 2)
            else:
                separator = "\t" if name.endswith(".tsv") else None
                lines = (line for line in text if line != "\n")
                yield from _checked_rows((_word_and_count(line, separator) for line in lines), source, 1)
    except UnicodeDecodeError as why:
        raise SourceError(f"{source.path} is not UTF-8 near byte {why.start}; nothing of it was counted.") from None
    except (EOFError, OSError, zlib.error, zstd.ZstdError, csv.Error) as why:
        raise SourceError(f"{source.path} is truncated or damaged ({why}); nothing of it was counted.") from None


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
                f"{source.path} row {number} is {row!r}; a row is a chunk, not empty, and a whole number. "
                f"Nothing of it was counted."
            ) from None
        if n < 0 or n > 2**63 - 1:
            raise SourceError(f"{source.path} row {number}: {n} is no 64-bit count. Nothing of it was counted.")
        yield chunk, n
