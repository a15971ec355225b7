"""Files and folders that appear under their name as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from streambpe.errors import UsageError, typed
from streambpe.system import rename, sync_file, sync_folder


def folder_for_tables(path: Path | str, what: str) -> Path:
    """A folder by a name that DuckDB and Arrow read as one: absolute where they take a relative one for something else
    (md:x is a server, s3:x a bucket, ~x a home). What DuckDB cannot open is refused; `what`: the argument.
    """
    folder, absolute = Path(path), os.path.abspath(path)
    not_text = re.search("[\ud800-\udfff]", absolute)
    if not_text or (os.name != "nt" and re.search(r"[?\\]", absolute)):
        why = "its name is not UTF-8" if not_text else "DuckDB reads a ? or a backslash in a path as something else"
        raise UsageError(
            f"{what} cannot be {typed(os.fsencode(absolute).decode('utf-8', 'backslashreplace'))}: {why}. Nothing was "
            f"changed. Give it another name."
        )
    return Path(absolute) if re.search("[:~]", str(folder)) else folder


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A name to write to. What is there at the end of the block is synced to disk and takes the target's name.

    A reader, or a power cut, sees the old file or the new one, never a mixture; after an error the old one stays.
    A kill may leave NAME.new behind, which the next writer overwrites.
    """
    temporary = target.absolute().with_name(target.name + ".new")  # Arrow takes a relative s3:x for an address
    try:
        yield temporary
        put_in_place(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def put_in_place(made: Path, target: Path) -> None:
    """Give a finished file or folder of files its name. After a power cut the whole of it is there, or nothing.

    Its content is synced to disk before the name, and the name before this returns.
    """
    if made.is_dir():
        for file in made.iterdir():
            sync_file(file)
        sync_folder(made)
    else:
        sync_file(made)
    rename(made, target)
    sync_folder(target.parent)


def content_of(path: Path) -> bytes | None:
    """What is in a file, or None if it is not there."""
    return path.read_bytes() if path.is_file() else None


def put_content(path: Path, content: bytes | None) -> None:
    """Make a file hold this, or (None) not be there."""
    if content is None:
        path.unlink(missing_ok=True)
    elif content_of(path) != content:
        replace_file(path, content)


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file, in place of the one that is there if any."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)
