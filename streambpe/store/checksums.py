"""Parquet files that show when a byte of them is no longer what was written.

A Parquet file ends with its footer, the footer's length and a mark; readers take from a footer what they know and pass
by what stands behind that. There the checksum of all bytes before it is put:

    pages | footer  SBPE  <16 bytes>  length  PAR1

so the file stays one that every program reads. It is MurmurHash3 (x64, 128 bits): it finds rot, it proves nothing
against somebody who means harm. A file without one is damaged.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

import mmh3

from streambpe.files import sum_of

_MARK = b"SBPE"
_END = struct.Struct("<i4s")  # of every Parquet file: the footer's length, PAR1
_OUR_END = struct.Struct("<4s16si4s")  # the mark and the checksum before these, which count for the footer


class Damaged(OSError):
    """A file does not hold what was written."""


def add_checksum(path: Path) -> None:
    """Put the checksum into a Parquet file that is written and closed, and has none."""
    content = path.stat().st_size - _END.size
    checksum = sum_of(path, content).digest()
    with path.open("r+b") as file:
        file.seek(content)
        length, end = _END.unpack(file.read())
        assert end == b"PAR1", path
        file.seek(content)
        file.write(_OUR_END.pack(_MARK, checksum, length + _OUR_END.size - _END.size, end))


def with_sum(lines: bytes) -> bytes:
    """JSON lines, the last of which ends with the checksum of all of them: {...} becomes {..., "sum": "..."}."""
    return b'%s,"sum":"%s"}\n' % (lines.removesuffix(b"}\n"), mmh3.mmh3_x64_128_digest(lines).hex().encode())


def without_sum(lines: bytes) -> bytes:
    """The lines that `with_sum` was given; a ValueError if these are others."""
    found = lines.rpartition(b',"sum":"')[0] + b"}\n"
    if with_sum(found) != lines:
        raise ValueError("its checksum is not that of its content")
    return found


def refuse_damaged(path: Path) -> None:
    """Raise Damaged if the file's checksum is not that of its bytes. A file that did not change since is not read
    again."""
    stat = path.stat()
    _refuse_damaged(path, stat.st_size, stat.st_ino, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _refuse_damaged(path: Path, size: int, *_: int) -> None:
    content = size - _OUR_END.size
    if content < 0:
        raise Damaged(f"{path.name} is too small ({size})")
    with path.open("rb") as file:
        file.seek(content)
        mark, wanted = _OUR_END.unpack(file.read(_OUR_END.size))[:2]
    if mark != _MARK:
        raise Damaged(f"{path.name} has lost its checksum")
    if sum_of(path, content).digest() != wanted:
        raise Damaged(f"the checksum of {path.name} is not that of its content")
