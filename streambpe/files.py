"""Files and folders that appear under their name as a whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import mmh3

from streambpe.errors import UsageError, typed
from streambpe.system import began_at, give_rights_of, is_alive, pid_namespace, rename, sync_file, sync_folder

UNFINISHED = ".*.streambpe.new"  # the pattern of names that `unfinished` gives


def sum_of(path: Path, size: int = 1 << 62, skip: int = 0) -> mmh3.mmh3_x64_128:
    """The checksum of so many bytes of a file behind the first `skip`, or of fewer if there are not so many."""
    checksum = mmh3.mmh3_x64_128()
    with open(path, "rb") as file:
        file.seek(skip)
        while size and (data := file.read(min(size, 1 << 20))):
            checksum.update(data)
            size -= len(data)
    return checksum


def unfinished(target: Path) -> Path:
    """Where a file or folder of a RUN is made before it gets its name: beside it, under a name that no user gives.

    A kill may leave it behind; whoever makes the same target next replaces it. Beside users' files: `own_name_for`.
    """
    return target.with_name(f".{target.name}.streambpe.new")


@functools.cache
def packaged_folder(name: str) -> Traversable:
    """A folder of files that come with the program: inside an installed package, or at the top of a checkout."""
    packaged = resources.files("streambpe").joinpath(name)
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / name


def folder_for_tables(path: Path | str, what: str) -> Path:
    """A folder by a name that DuckDB and Arrow read as one: absolute where they take a relative one for something else
    (md:x is a server, s3:x a bucket, ~x a home). What DuckDB cannot open is refused; `what`: the argument.
    """
    folder, absolute = Path(path), os.path.abspath(path)
    not_text = re.search("[\ud800-\udfff]", absolute)
    if not_text or (os.name != "nt" and re.search(r"[?\\]", absolute)):
        why = "its name is not UTF-8" if not_text else "DuckDB cannot open a path with a ? or a backslash"
        raise UsageError(
            f"{what} cannot be {typed(os.fsencode(absolute).decode('utf-8', 'backslashreplace'))}: {why}. Nothing was "
            f"changed. Give it another name."
        )
    return Path(absolute) if re.search("[:~]", str(folder)) else folder


def own_name(place: Path, name: str, end: str) -> Path:
    """A name in `place` that nothing has: of this process alone. What processes of this machine left there under such
    names when they were killed is removed."""
    prefix = f"{name}-{socket.gethostname()}-{pid_namespace()}-"
    ours = re.compile(rf"{re.escape(prefix)}(\d+)-([\d.]+)-[0-9a-f]{{16}}{re.escape(end)}")
    for leftover in place.glob(f"{glob.escape(prefix)}*{end}"):
        found = ours.fullmatch(leftover.name)
        if found and not is_alive(int(found[1]), float(found[2])):
            remove(leftover)
    return place / f"{prefix}{os.getpid()}-{began_at(os.getpid()) or 0.0}-{secrets.token_hex(8)}{end}"


def own_name_for(target: Path) -> Path:
    """Where a user's file or folder is made before it gets its name, which may be as long as names can be."""
    target = behind_links(target)
    return own_name(target.parent, "." + os.fsencode(target.name)[:96].decode(errors="ignore"), ".streambpe.new")


def remove(leftover: Path) -> None:
    """Remove a file, or a folder and all in it, if that can be done."""
    shutil.rmtree(leftover, ignore_errors=True)
    with contextlib.suppress(OSError):
        leftover.unlink()


@contextlib.contextmanager
def scratch_folder(place: Path, name: str) -> Iterator[Path]:
    """A folder of this process in `place`, into which nobody else may look. It is removed afterwards."""
    folder = own_name(place, name, ".tmp")
    with contextlib.suppress(OSError):
        folder.mkdir(0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def whole_file(target: Path, made: Path | None = None) -> Iterator[Path]:
    """A name to write to: `made`, or that of `unfinished`. What is there at the end of the block is synced to disk and
    takes the target's name.

    A reader, or a power cut, sees the old file or the new one, never a mixture; after an error the old one stays.
    """
    temporary = (made or unfinished(behind_links(target))).absolute()  # Arrow takes a relative s3:x for an address
    try:
        yield temporary
        put_in_place(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def behind_links(target: Path) -> Path:
    """The file that is to be written: if `target` is a link, what it names, so that the link stays a link."""
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def put_in_place(made: Path, target: Path) -> None:
    """Give a finished file or folder of files its name. After a power cut the whole of it is there, or nothing.

    Its content is synced to disk before the name, and the name before this returns. It takes over the mode and, where
    that is allowed, the owner of the file that it replaces.
    """
    target = behind_links(target)
    if made.is_dir():
        for file in made.iterdir():
            sync_file(file)
        sync_folder(made)
    else:
        sync_file(made)
        give_rights_of(target, made)
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
