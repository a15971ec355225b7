"""Parquet files that show when a byte of them is no longer what was written.

A Parquet file ends with its footer, the footer's length and a mark; readers take from a footer what they know and pass
by what stands behind that. There the checksum of all bytes before it is put:

    pages | footer  SBPE  <16 bytes>  length  PAR1

so the file stays one that every program reads. It is MurmurHash3 (x64, 128 bits): it finds rot, it proves nothing
against somebody who means harm. A file without one is damaged.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import BinaryIO

import mmh3

_MARK = b"SBPE"
_SUM_BYTES = 16
_END = b"PAR1"
_LENGTH_BYTES = 4
_READ_BYTES = 1 << 20  # read at once
_MOST_KNOWN = 4096  # files whose checksums are remembered


class Damaged(OSError):
    """A file does not hold what was written."""


def add_checksum(path: Path) -> None:
    """Put the checksum into a Parquet file that is written and closed, and has none."""
    with path.open("r+b") as file:
        tail = _LENGTH_BYTES + len(_END)
        content = path.stat().st_size - tail
        checksum = _digest(file, content)
        length, end = struct.unpack("<i4s", file.read(tail))
        assert end == _END, path
        file.seek(content)
        added = len(_MARK) + _SUM_BYTES
        file.write(_MARK + checksum + struct.pack("<i4s", length + added, _END))


def refuse_damaged(path: Path) -> None:
    """Raise Damaged if the file's checksum is not that of its bytes. A file that did not change since is not read
    again."""
    stat = path.stat()
    content = (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    with _lock:
        if content in _known:
            return
    behind = len(_MARK) + _SUM_BYTES + _LENGTH_BYTES + len(_END)
    if stat.st_size < behind:
        raise Damaged(f"{path.name} has only {stat.st_size} bytes")
    with path.open("rb") as file:
        file.seek(-behind, os.SEEK_END)
        if file.read(len(_MARK)) != _MARK:
            raise Damaged(f"{path.name} has lost its checksum")
        wanted = file.read(_SUM_BYTES)
        file.seek(0)
        if _digest(file, stat.st_size - behind) != wanted:
            raise Damaged(f"the checksum of {path.name} is not that of its content")
    with _lock:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known.add(content)


_known: set[tuple[str, int, int, int]] = set()
_lock = threading.Lock()


def _digest(file: BinaryIO, left: int) -> bytes:
    """Of the file's next so many bytes."""
    checksum = mmh3.mmh3_x64_128()
    while left:
        data = file.read(min(_READ_BYTES, left))
        if not data:
            raise Damaged("it ends before its footer")
        checksum.update(data)
        left -= len(data)
    return checksum.digest()
