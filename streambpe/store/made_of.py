"""What a derived file was made of, written in the file or beside it: a name alone proves nothing.

    snapshot-000000000145/made_of.json    {"made_of": "9c1e...", "files": {"engine.json": [512, "<mmh3>"], ...}}
    neighbours-0-81920344.parquet         metadata of its schema: streambpe-made-of

A file or folder counts as absent if it lacks its note, has the note of another, or is not whole. It is made again,
with the same result. A note in Parquet comes after all rows, so a file that has one was not cut off, and its bytes have
a checksum of their own (checksums.py). The checksum of a
folder's files is MurmurHash3 (x64, 128 bits): it finds damage at a quarter of the cost of sha256, and proves nothing.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.files import sum_of, whole_file
from streambpe.later import polars as pl
from streambpe.store.checksums import add_checksum, refuse_damaged

_NOTE = "made_of.json"
_KEY = "streambpe-made-of"


def fingerprint(*facts: Any) -> str:
    """One short name for these facts, which may be anything that JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def seal_folder(folder: Path, made_of: str) -> None:
    """Note what a folder was made of and which files are in it; the caller syncs and renames it."""
    files = {path.name: _content(path) for path in sorted(folder.iterdir()) if path.name != _NOTE}
    (folder / _NOTE).write_text(json.dumps({"made_of": made_of, "files": files}), encoding="utf-8")


def is_sealed(folder: Path, made_of: str) -> bool:
    """Whether a folder was made of this, and every file in it is as it was."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        if note["made_of"] != made_of:
            return False
        return all(_content(folder / name) == content for name, content in note["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _content(path: Path) -> list[int | str]:
    """Size and checksum of a file."""
    return [path.stat().st_size, sum_of(path).digest().hex()]


def parquet_note(made_of: str, name: str) -> dict[str, str]:
    """The metadata of a Parquet file called `name`."""
    return {_KEY: fingerprint(made_of, name)}


def write_noted(frame: pl.DataFrame, target: Path, made_of: str = "") -> None:
    """Write a Parquet file that appears whole or not at all, with its note and a checksum."""
    note = parquet_note(made_of, target.name)
    with whole_file(target) as temporary:
        frame.write_parquet(
            temporary, compression="zstd", compression_level=1, statistics=False, row_group_size=1 << 16, metadata=note
        )
        add_checksum(temporary)


def has_note(path: Path, made_of: str, *, whole: bool = True) -> bool:
    """Whether a Parquet file is there, is as it was written (not `whole`: only its footer), and was made of this under
    its own name."""
    try:
        if whole:
            refuse_damaged(path)
        found = (pq.read_metadata(path).metadata or {}).get(_KEY.encode(), b"")
    except (OSError, pa.ArrowException):
        return False
    return bool(found.decode(errors="replace") == fingerprint(made_of, path.name))
