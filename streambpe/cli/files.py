"""Files that a command reads itself."""

from __future__ import annotations

from typing import BinaryIO

from streambpe.errors import SourceError


def opened(file: str) -> BinaryIO:
    """A file to read bytes from; an error of the library if it cannot be opened."""
    try:
        return open(file, "rb")
    except OSError as why:
        raise SourceError(f"{file} cannot be read: {why.strerror}.") from None
