"""A full disk, where every library reports it in its own way: one message. What a folder takes up on disk.

Python, numpy, Arrow, Polars and DuckDB raise errors of their own, some without a number. DuckDB also reports a full
disk as a file that it "cannot open".
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from streambpe.errors import DiskFull, StreambpeError
from streambpe.system import bytes_on_disk

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WORDS = re.compile(
    r"No space left on device|not enough space on the disk|File too large|[Qq]uota exceeded"
    r"|os error (27|28|112|122)\b|^\d+ requested and \d+ written"
)


def says_disk_full(why: BaseException) -> bool:
    """Whether an error, of whatever library, means that no more can be written."""
    return getattr(why, "errno", None) in _NUMBERS or bool(_WORDS.search(str(why)))


_KEPT = "Every committed part is kept. Make room, then give the same command again; it continues from there."


def disk_full(why: BaseException, folder: Path | str, then: str = _KEPT) -> DiskFull:
    """The error that a user sees; `folder` is named where the library names no file."""
    place = getattr(why, "filename", None) or folder
    return DiskFull(f"The disk is full ({place}: {str(why).splitlines()[0]}). {then}")


@contextlib.contextmanager
def disk_full_explained(folder: Path | str) -> Iterator[None]:
    """Inside the block, an error of any library that means a full disk becomes one DiskFull."""
    try:
        yield
    except StreambpeError:
        raise
    except Exception as why:
        if not says_disk_full(why):
            raise
        raise disk_full(why, folder) from None


def folder_bytes(folder: Path) -> int:
    """What a RUN takes up on disk; files that vanish meanwhile count as nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += bytes_on_disk(os.stat(os.path.join(place, name)))
    return total
