"""Digests of sources, to see that a file is still what was counted."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence

from streambpe.errors import SourceError
from streambpe.progress import present_meter
from streambpe.sources.decode import digest_values
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.sources.streams import SourceBytes, open_file
from streambpe.text.patterns import Pattern


def digest_file(source: Source) -> str:
    """sha256 of a file as it stands on disk."""
    try:
        with open_file(source) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as why:
        raise SourceError(f"{source.path} cannot be read: {why.strerror}.") from None


def digest_stretches(
    source: Source, stretches: Sequence[tuple[int, int]], pattern: Pattern
) -> Iterator[tuple[int, int, str]]:
    """(start, stop, digest) of stretches of a source, read again; those it no longer has are left out."""
    on_read = present_meter().advance
    if source.kind == "counts":
        whole = digest_file(source)  # its stretches are rows; it is read and committed whole
        yield from ((start, stop, whole) for start, stop in stretches)
        return
    if source.kind == "parquet":
        reader = Reader(pattern, sys.maxsize, sys.maxsize, on_read=on_read)
        for start, stop in stretches:
            blocks = reader.blocks(source, [(0, start)] if start else [], stop)
            yield start, stop, digest_values(value for block in blocks for value in block.data)  # type: ignore[misc]
        return
    with SourceBytes(source) as stream:
        told = 0
        for start, stop in stretches:
            stream.seek(start)
            digest = stream.digest(stop - start)
            if digest is None:
                return
            on_read(stream.on_disk - told)
            told = stream.on_disk
            yield start, stop, digest
