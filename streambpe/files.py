"""Small files that are replaced as a whole."""

from __future__ import annotations

import contextlib
from pathlib import Path

from streambpe.system import rename, sync, sync_folder


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a power cut, sees the old bytes or the new, never a mixture."""
    temporary = path.with_name(path.name + ".new")
    try:
        with open(temporary, "wb") as out:
            out.write(data)
            out.flush()
            sync(out.fileno())
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)
