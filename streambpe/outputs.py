"""Files that a user names with -o: what is there is kept unless --force is given; a new one is whole or absent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import OutputExists, StreambpeError, UsageError
from streambpe.files import behind_links, own_name_for, whole_file
from streambpe.system import sync_folder

_AS_IT_WAS = "The old file is unchanged."


def refuse_existing(path: Path, force: bool, parents: bool = False) -> None:
    """An error if something stands at `path` that nobody said to overwrite, or if no file can be made there.

    To be called before any work, so that a refusal costs nothing. parents: folders around it will be made.
    """
    try:
        path.lstat()
        if path.is_symlink():
            path.stat()  # a link to itself
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as why:  # name too long, a file in place of a folder, a folder we may not look into
        raise UsageError(f"{path} cannot be written: {getattr(why, 'strerror', why)}. Nothing was changed.") from None
    folder = behind_links(path).parent
    if not parents and not folder.absolute().is_dir():
        raise UsageError(f"{folder} is not a folder; create it first. Nothing was written.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file. Nothing was changed; give another name.")
    if os.path.lexists(path) and not force and not _takes_all(path):
        raise OutputExists(f"{path} exists already and was not changed. Give another name, or --force to overwrite it.")


@contextlib.contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """The folders around `path` are there; those that were made for it go again if it fails, and are synced if not."""
    missing = [folder for folder in path.absolute().parents if not folder.exists()]
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:  # the innermost first
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    for folder in missing:
        sync_folder(folder.parent)


def _takes_all(path: Path) -> bool:
    """Whether writing there loses nothing: /dev/stdout, /dev/null, a pipe."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def whole_output(path: Path) -> Iterator[Path]:
    """As files.whole_file, for a path that the user named: it may be a pipe, and a failure becomes a clear error."""
    if _takes_all(path):
        yield path
        return
    try:
        made = own_name_for(path)
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        with whole_file(path, made) as temporary:
            yield temporary
    except OSError as why:
        raise not_written(path, why) from None


def not_written(path: Path, why: OSError) -> StreambpeError:
    """The error for a file that could not be written; the old one stays."""
    if says_disk_full(why):
        return disk_full(why, path, f"{_AS_IT_WAS} Make room, then give the same command again.")
    return StreambpeError(f"{path} cannot be written ({why.strerror or why}). {_AS_IT_WAS}")
