"""Bytes of a source: opened and decompressed; bytes that were looked at first are read again."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any, cast

from streambpe.errors import SourceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd
from streambpe.sources.remote.address import is_remote
from streambpe.sources.remote.place import open_remote, place_of
from streambpe.sources.source import Source, Stream

BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error, zstd.ZstdError)


def strip_compression(name: str) -> tuple[str, str]:
    for suffix in (".gz", ".zst"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def compression_of(path: str) -> str:
    """.gz, .zst, or nothing."""
    return strip_compression(path)[1]


def open_file(source: Source) -> io.BufferedReader:
    """The bytes of a source as they are stored, here or elsewhere; they can be read from any place."""
    if is_remote(source.path):
        return open_remote(source.path, source.bytes, source.mtime_ns)
    try:
        return open(source.path, "rb")
    except OSError as why:
        raise SourceError(f"{source.path} cannot be read: {why.strerror}.") from None


def look_at(path: str) -> tuple[int, int]:
    """(size, time stamp) of a source that is a file, here or elsewhere, as it is now."""
    if is_remote(path):
        found = place_of(path).look(path)
        return found.bytes, found.stamp
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def open_bytes(source: Source) -> tuple[Stream, Callable[[], int]]:
    """The decompressed bytes of a source, and a function that says how far the file on disk was read."""
    if source.is_stdin:
        return sys.stdin.buffer, lambda: 0
    raw = open_file(source)
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
        # no byte is named: a decompressor reads ahead and gives nothing of what it read before the damage
        what = "ends in the middle" if isinstance(why, EOFError) else f"is cut off or damaged: {why}"
        raise SourceError(
            f"{source.path} {what}. Everything before it is kept; repair the file and give the same command again."
        ) from None
    except OSError as why:
        raise SourceError(
            f"{source.path} cannot be read past byte {at + size - missing}: {why.strerror or why}."
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Prefixed:
    """A stream whose first bytes were read already and are read again."""

    def __init__(self, prefix: bytes, stream: Stream) -> None:
        self._prefix, self._stream = prefix, stream

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, the prefix first."""
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
        """Close the stream."""
        self._stream.close()
