"""Where an attempt at a task writes, and how it commits: the first wins; a dead worker that still writes harms nothing.

    tmp/part-00012.0/part-00012.parquet    attempt 0 writes
    tmp/part-00012.0                       attempt 1 begins: the folder is gone, and an empty file has its name
    tmp/part-00012.1/part-00012.parquet    attempt 1 writes; its rename into place commits

Attempt 0, if it is still at work on some machine, cannot commit any more: what it would rename is gone, and it cannot
make its folder again. If it committed before, attempt 1 finds what it committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from streambpe.system import put_first, remove_folder, rename, sync_file, sync_folder


@contextlib.contextmanager
def own_folder(place: Path, name: str, number: int) -> Iterator[Path]:
    """A folder that only attempt `number` writes to; it goes when that ends. Earlier attempts have lost theirs."""
    place.mkdir(parents=True, exist_ok=True)
    for earlier in range(number):
        _close(place / f"{name}.{earlier}")
    folder = place / f"{name}.{number}"
    folder.mkdir()
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove_folder(folder)


def _close(folder: Path) -> None:
    """Take an attempt's folder away at once, whatever is being written there, and its name for good."""
    if folder.is_file():
        return
    gone = folder.with_name(folder.name + ".gone")
    with contextlib.suppress(FileNotFoundError):
        rename(folder, gone)
    folder.touch()
    with contextlib.suppress(OSError):  # a file was added meanwhile; the whole place is removed in the end
        remove_folder(gone)


def remove_place(place: Path) -> None:
    """Remove a folder of attempts, and at once their way to commit anything, though one may still write somewhere."""
    gone = place.with_name(place.name + ".gone")
    with contextlib.suppress(OSError):  # a file came while it was removed: it goes the next time
        remove_folder(gone)
        if place.exists():
            rename(place, gone)
            remove_folder(gone)
    remove_folder(place)


def commit_first(made: Path, target: Path) -> bool:
    """Give a finished file its name, unless another attempt's has it: then False. On disk when this returns."""
    sync_file(made)
    if not put_first(made, target):
        return False
    sync_folder(target.parent)
    return True
