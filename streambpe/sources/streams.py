"""The bytes of a source: opened, here or elsewhere, and decompressed."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from streambpe.errors import SourceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd
from streambpe.sources.remote.address import is_remote
from streambpe.sources.remote.place import look, open_remote
from streambpe.sources.source import Source

BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error, zstd.ZstdError)


def strip_compression(name: str) -> str:
    """A name without its .gz or .zst."""
    return re.sub(r"\.(gz|zst)\Z", "", name)


def compression_of(path: str) -> str:
    """.gz, .zst, or nothing."""
    return path.removeprefix(strip_compression(path))


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
        found = look(path)
        return found.bytes, found.stamp
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


class SourceBytes(contextlib.AbstractContextManager["SourceBytes"]):
    """The decompressed bytes of a source that is open. Errors name the source and what becomes of the rest."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file = None if source.is_stdin else open_file(source)
        self._ahead = b""  # given back by `unread`
        self.at = 0  # where the next byte comes from
        self.stream: Any = self._file or sys.stdin.buffer
        if self._file and source.path.endswith(".gz"):
            self.stream = gzip.GzipFile(fileobj=self._file)
        elif self._file and source.path.endswith(".zst"):
            self.stream = zstd.ZstdFile(self._file)

    @property
    def on_disk(self) -> int:
        """How far the file was read as it is stored."""
        return self._file.tell() if self._file else 0

    def read(self, size: int) -> bytes:
        """So many bytes; fewer only at the end of the source."""
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(data) < size:
            with self._naming_damage():
                more = self.stream.read(size - len(data))
            data = data + more if data else more
        self.at += len(data)
        return data

    def readline(self, size: int) -> bytes:
        """To the end of a line, or less."""
        if self._ahead:
            return self.read(min(self._ahead.find(b"\n") + 1 or len(self._ahead), size))
        with self._naming_damage():
            data: bytes = self.stream.readline(size)
        self.at += len(data)
        return data

    def unread(self, data: bytes) -> bytes:
        """The bytes that were just read; they are read again."""
        self._ahead = data + self._ahead
        self.at -= len(data)
        return data

    def digest(self, size: int) -> str | None:
        """sha256 of the next bytes; None if the source ends before."""
        digest, stop = hashlib.sha256(), self.at + size
        while self.at < stop:
            data = self.read(min(1 << 20, stop - self.at))
            if not data:
                return None
            digest.update(data)
        return digest.hexdigest()

    def seek(self, to: int) -> None:
        """Go to a place; what is compressed is unpacked up to there."""
        self._ahead = b""
        with self._naming_damage():
            self.at = self.stream.seek(to)

    @contextlib.contextmanager
    def _naming_damage(self) -> Iterator[None]:
        path = self._source.path
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as why:
            # no byte is named: a decompressor reads ahead and gives nothing of what it read before the damage
            what = "ends in the middle" if isinstance(why, EOFError) else f"is cut off or damaged: {why}"
            raise SourceError(
                f"{path} {what}. Everything before it is kept; repair the file and give the same command again."
            ) from None
        except OSError as why:
            raise SourceError(f"{path} cannot be read past byte {self.at}: {why.strerror or why}.") from None

    def __exit__(self, *_: object) -> None:
        """Close the file, too; a decompressor leaves it open."""
        if self._file is not None:
            with contextlib.suppress(OSError), contextlib.closing(self._file):
                self.stream.close()
