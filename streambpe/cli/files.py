"""Files that a command reads itself."""

from __future__ import annotations

import contextlib
import sys
from typing import BinaryIO

from streambpe.errors import SourceError


def opened(file: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """A file to read bytes from, - for standard input; an error of the library if it cannot be opened."""
    try:
        return contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb")
    except OSError as why:
        raise SourceError(f"{file} cannot be read: {why.strerror}.") from None
