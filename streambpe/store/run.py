"""The RUN folder: its paths, its lock, its status file. See docs/run-folder.md.

RUN/
  state.duckdb     tables for people and for the trainer; closed between folds
  counts/          committed parts of the count, one Parquet file each (store/chunks.py)
  sequences/       with --sequences: the documents as chunk ids, one file a part
  status.json      stage, done, rate, memory; replaced atomically
  lock             held (flock) by the process that writes
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streambpe.errors import RunError, RunLocked, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.store.database import FORMAT_VERSION, create_schema, fsync_folder, migrations_from, open_store
from streambpe.store.sqlfiles import run_sql


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a power cut, sees the old bytes or the new, never a mixture."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    fsync_folder(path.parent)


_DISK_FULL = re.compile(
    r"No space left on device|File too large|[Qq]uota exceeded|os error (27|28|122)\b|^\d+ requested and \d+ written"
)


@contextlib.contextmanager
def disk_full_explained(folder: Path) -> Iterator[None]:
    """One message for what Python, numpy, Arrow, Polars and DuckDB each say in their own way."""
    try:
        yield
    except StreambpeError:
        raise
    except Exception as why:
        full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not (getattr(why, "errno", None) in full or _DISK_FULL.search(str(why))):
            raise
        place = getattr(why, "filename", None) or folder
        raise StreambpeError(
            f"The disk is full ({place}: {str(why).splitlines()[0]}). Every committed part is kept. Make room, then "
            f"give the same command again: it goes on from there."
        ) from None


class Run:
    """Paths and small files of one RUN folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.state = self.path / "state.duckdb"
        self.counts = self.path / "counts"
        self.sequences = self.path / "sequences"
        self.status_file = self.path / "status.json"

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """An existing run; a clear error if there is none."""
        run = cls(path)
        if not run.state.is_file():
            raise RunError(f"{path} is no run: it holds no state.duckdb. `streambpe count {path} SOURCE...` makes one.")
        return run

    def create(self, facts: dict[str, str]) -> None:
        """Make the folder and its database unless they are there; `facts` go into table run. Locked by the caller."""
        self.counts.mkdir(parents=True, exist_ok=True)
        if self.state.exists():
            return
        # a kill between these steps leaves no half-made state.duckdb behind
        temporary = self.path / "state.new.duckdb"
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            leftover.unlink(missing_ok=True)
        with contextlib.closing(open_store(temporary)) as con:
            create_schema(con)
            for key, value in facts.items():
                run_sql(con, "steps/put_run", key=key, value=value)
            con.execute("CHECKPOINT")  # closing would do it too, but keep silent if the disk is full
        failpoint("run-made")
        os.replace(temporary, self.state)
        fsync_folder(self.path)

    def upgrade(self) -> None:
        """Carry the database of an older version forward; a later one is refused. Locked by the caller."""
        if self.facts().get("format_version") != str(FORMAT_VERSION):
            with contextlib.closing(open_store(self.state)) as con:
                create_schema(con)

    def refuse_old(self) -> None:
        """An error if the tables are those of an older version; for what only reads and needs the newer ones."""
        if migrations_from(int(self.facts()["format_version"])):
            raise RunError(
                f"{self.path} was written by an older version and lacks what this one reads. `streambpe count "
                f"{self.path}` carries it forward; nothing is counted again, and nothing was changed."
            )

    def facts(self) -> dict[str, str]:
        """Table run as a dictionary."""
        with contextlib.closing(open_store(self.state, read_only=True)) as con:
            return dict(run_sql(con, "steps/get_run"))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer. The kernel lets go of the lock when its holder dies, however it dies."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; RUN is a folder. Give another name.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as why:
            raise RunError(f"{self.path} cannot be made or written: {why.strerror}.") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(handle, 4096).decode(errors="replace")
                raise RunLocked(
                    f"{self.path} is being written by {_describe(holder)}. Nothing was changed. "
                    f"Wait for it, or stop it: it commits what it has and can be resumed."
                ) from None
            entry = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(entry).encode(), 0)
            yield
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace status.json; no fsync, it is worth nothing after a power cut."""
        temporary = self.status_file.with_name("status.json.new")
        temporary.write_text(json.dumps(status) + "\n")
        os.replace(temporary, self.status_file)

    def read_status(self) -> dict[str, Any]:
        """What status.json says, or an error that names the run."""
        try:
            status: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            raise RunError(f"{self.path} has no status.json: nothing ran there yet.") from None
        except ValueError as why:
            raise RunError(f"{self.status_file} is damaged ({why}); the next run replaces it.") from None
        return status

    def free_bytes(self) -> int:
        """Free space where the run lives."""
        return shutil.disk_usage(self.path).free


def _describe(holder: str) -> str:
    try:
        entry = json.loads(holder)
        return f"process {entry['pid']} on {entry['host']} since {entry['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def program_versions() -> dict[str, str]:
    """Versions of this program and of what it counts with; for table run and benchmark results."""
    from importlib.metadata import version

    names = ("streambpe", "duckdb", "polars", "pyarrow", "numpy", "regex")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}
