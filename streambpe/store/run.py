"""The RUN folder: its paths, its lock, its status file. See docs/run-folder.md.

RUN/
  run.json         which run this is (store/identity.py)
  state.duckdb     tables for people and for the trainer; closed between folds
  counts/          committed parts of the count, one Parquet file each (store/chunks.py)
  sequences/       with --sequences: the documents as chunk ids, two files per part
  status.json      stage, done, rate, memory; replaced atomically
  lock             held (flock) by the process that writes
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
from msgspec import structs

from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import RunError, RunLocked, Stopped, UsageError, typed
from streambpe.failpoints import failpoint
from streambpe.files import UNFINISHED, folder_for_tables, put_in_place, unfinished
from streambpe.plurals import some_of
from streambpe.progress import Status, is_alive, this_process
from streambpe.sources.remote.address import is_remote
from streambpe.store.database import commit, create_schema, open_store, put_facts
from streambpe.store.identity import (
    Identity,
    alone_in,
    identity_path,
    read_identity,
    refuse_other_run,
    replacing,
    write_identity,
)
from streambpe.store.spans import Spans
from streambpe.store.sqlfiles import query_arrow, run_sql
from streambpe.system import lock_handle, patiently, rename, unlock_handle

# What a RUN may hold before there is a state.duckdb; files that begin with a dot are nobody's.
_OURS = re.compile(
    r"\.|(lock|tmp|counts|sequences|training|converge|balance)$|(run|status)\.json|state\.duckdb"
    r"|([a-z][a-z0-9_]*\.)?extended\.jsonl"
)


_TABLES = "tables"  # the name of TablesRead in the cache


class TablesRead(msgspec.Struct, frozen=True):
    """What is needed of the tables again and again, read by one connection."""

    facts: dict[str, str]  # table run
    stretches: Spans  # table sources

    @classmethod
    def by(cls, con: duckdb.DuckDBPyConnection) -> TablesRead:
        """Read by this connection."""
        return cls(dict(run_sql(con, "get_run")), Spans.of_table(query_arrow(con, "list_stretches")))


class Run:
    """Paths and small files of one RUN folder, and its lock.

    A `Run` that holds its lock may take it again: a command holds it from its beginning to its end, and so do its steps
    that are commands themselves. Meanwhile nobody else writes, so what is in the cache is read only once.
    """

    def __init__(self, path: Path | str) -> None:
        if is_remote(str(path)):
            raise UsageError(
                "RUN is an address. Nothing was changed: a RUN is a folder on this machine, and only sources may be "
                "elsewhere."
            )
        self.path = folder_for_tables(path, "RUN")
        self.state = self.path / "state.duckdb"
        self.counts = self.path / "counts"
        self.sequences = self.path / "sequences"
        self.status_file = self.path / "status.json"
        self._seen: dict[str, Any] | None = None  # the cache, while the lock is held
        self._holder = 0  # the thread that holds the lock

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """An existing run; a clear error if there is none."""
        run = cls(path)
        run.refuse_missing()
        return run

    def refuse_missing(self) -> None:
        """An error if there is no run."""
        path = self.path
        if path.is_file():
            raise RunError(
                f"{path} is a file, but RUN is a folder and comes first. Nothing was changed. `streambpe train RUN "
                f"{typed(path)}` counts it and learns."
            )
        if not self.state.is_file():
            raise RunError(
                f"{path} is not a RUN: it has no state.duckdb. `streambpe count {typed(path)} SOURCE...` makes one."
            )

    @property
    def cache(self) -> dict[str, Any]:
        """What was read of the run, by name. It is kept while the lock is held; without it nothing is kept."""
        return {} if self._seen is None else self._seen

    def tables(self) -> TablesRead:
        """What the tables say of the run. While the lock is held it is read once, and again after each write."""
        known: TablesRead | None = self.cache.get(_TABLES)
        if known is None:
            with contextlib.closing(open_store(self.state, read_only=True)) as con:
                known = self.cache[_TABLES] = TablesRead.by(con)
        return known

    @contextlib.contextmanager
    def writing(self, **options: Any) -> Iterator[duckdb.DuckDBPyConnection]:
        """The tables, open to be written. Locked by the caller. `options`: of `open_store`."""
        with contextlib.closing(open_store(self.state, **options)) as con:
            self.cache.pop(_TABLES, None)
            yield con
            self.cache[_TABLES] = TablesRead.by(con)

    def commit(self, con: duckdb.DuckDBPyConnection, facts: Mapping[str, str]) -> None:
        """Set facts in table run, and commit what was written to the tables. Locked by the caller."""
        mark = uuid.uuid4().hex
        with replacing(self.state, mark):
            put_facts(con, "run", {**facts, "written": mark})
            commit(con)

    def tidy(self) -> None:
        """Remove what a kill left and nobody needs: files on their way to their names, and DuckDB's log, which the
        tables take up when they are opened. Locked by the caller."""
        for leftover in self.path.glob(UNFINISHED):
            if leftover.is_file():  # a folder is an unfinished output of `encode`
                leftover.unlink()
        if self.state.exists() and self.state.with_name(f"{self.state.name}.wal").exists():
            with self.writing():
                pass

    def written_at(self) -> tuple[int, int, bool]:
        """Changes whenever somebody writes into the tables."""
        stat = self.state.stat()
        return stat.st_size, stat.st_mtime_ns, self.state.with_name(f"{self.state.name}.wal").exists()

    def refuse_other_content(self, command: str, sources: Sequence[str]) -> None:
        """An error if RUN is a file or a folder of something else, such as a source that was named in its place."""
        what = ""
        if self.path.is_file():
            what = "is a file"
        elif self.path.is_dir() and not (self.state.exists() or identity_path(self.path).exists()):
            others = sorted(p.name for p in self.path.iterdir() if not _OURS.match(p.name))
            if others:
                what = f"is not a RUN, and has other things in it ({some_of(others)})"
        if not what:
            return
        meant = "Give a folder that is empty or does not exist"
        if sources and not Path(sources[0]).is_file():
            meant = f"Did you mean `streambpe {command} {typed(sources[0])} {typed(self.path)}`"
        raise RunError(
            f"{self.path} {what}. RUN is a folder for what is counted and learned, and comes before the sources. "
            f"Nothing was changed. {meant}{'?' if meant.startswith('Did') else '.'}"
        )

    @property
    def number(self) -> str:
        """What tells this run's files from those of others; "" where run.json is lost."""
        identity = read_identity(self.path)
        return identity.run if identity else ""

    def has_counts(self) -> bool:
        """Whether anything is committed."""
        return any(self.counts.glob("*.parquet"))

    def change_identity(self, *, late: bool = False, **fields: Any) -> None:
        """Replace fields of run.json, if they differ; a run that is made now gets its number here. `late`: see
        write_identity. Locked by the caller."""
        identity = read_identity(self.path)
        made_now = identity is None and not (self.state.exists() or self.has_counts())
        before = Identity(run=uuid.uuid4().hex) if made_now else identity
        if before is None:
            raise RunError(
                f"{identity_path(self.path)} is lost. Nothing was changed. Put it back, or `streambpe count "
                f"{typed(self.path)}` makes it again from state.duckdb."
            )
        changed = structs.replace(before, **fields)
        if changed != identity:
            write_identity(self.path, changed, late=late and identity is not None)

    def number_again(self) -> bool:
        """Make run.json again from the tables if it is lost; whether it was. Locked by the caller."""
        facts = self.tables().facts
        lost = "run" in facts and not identity_path(self.path).exists()
        if lost:
            first = {key: value for key, value in facts.items() if key in ("config", "versions", "unicode")}
            write_identity(self.path, Identity(run=facts["run"], facts=first))
        return lost

    def known_facts(self) -> dict[str, str]:
        """Table run, or what it said of how text is counted before it was lost; empty for a new run."""
        if self.state.exists():
            return self.facts()
        identity = read_identity(self.path) if self.has_counts() else None
        return identity.facts if identity else {}

    def create(self, facts: dict[str, str]) -> None:
        """Make the folder and its database unless they are there; `facts` go into table run. Locked by the caller."""
        self.counts.mkdir(parents=True, exist_ok=True)
        if self.state.exists():
            return
        if not self.has_counts():
            self.change_identity(late=True, facts=facts)
        if self.number:
            facts = {**facts, "run": self.number}
        # a kill between these steps leaves no half-made state.duckdb behind
        temporary = unfinished(self.state)
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            leftover.unlink(missing_ok=True)
        with contextlib.closing(open_store(temporary)) as con:
            create_schema(con)
            put_facts(con, "run", facts)
            con.execute("CHECKPOINT")  # closing would do that too, but would hide a full disk
            self.cache[_TABLES] = TablesRead.by(con)
        failpoint("run-made")
        put_in_place(temporary, self.state)

    def put_facts(self, facts: dict[str, str]) -> None:
        """Set facts in table run, and first in run.json if it has them. Locked by the caller."""
        identity = read_identity(self.path)
        if identity is not None:
            self.change_identity(facts={**identity.facts, **{k: v for k, v in facts.items() if k in identity.facts}})
        failpoint("config-kept")
        with self.writing() as con:
            put_facts(con, "run", facts)

    def facts(self) -> dict[str, str]:
        """Table run as a dictionary; an error if the tables are another run's, or of another format."""
        read_identity(self.path)  # first, because tables of another format may have other columns
        found = self.tables().facts
        self.refuse_other_tables(found)
        return dict(found)

    def refuse_other_tables(self, facts: Mapping[str, str]) -> None:
        """An error if table run is another run's."""
        refill = (
            f"remove {self.state.name}, and `streambpe count {typed(self.path)} SOURCE...` fills it again from counts/."
        )
        refuse_other_run(self.path, facts.get("run", ""), self.state, refill)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer; the thread that holds the lock may take it again. The kernel frees the lock when its
        holder dies, however it dies."""
        if self._seen is not None and self._holder == threading.get_ident():  # another thread is another writer
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as why:
            if says_disk_full(why):
                raise disk_full(why, self.path) from None
            raise RunError(f"{self.path} cannot be created or written: {why.strerror}.") from None
        try:
            if not self._take_lock(handle):
                holder = os.read(handle, 4096).decode(errors="replace")
                raise RunLocked(
                    f"{self.path} is being written by {_describe(holder)}. Nothing was changed. Wait for it "
                    f"(`streambpe watch {typed(self.path)}` shows its progress), or stop it: it commits what it has "
                    "and can be resumed."
                )
            entry = {**this_process(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            _tell_holder(handle, json.dumps(entry).encode())
            self._seen, self._holder = {}, threading.get_ident()
            try:
                with alone_in(self.path):
                    yield
            except Exception as why:
                if self._is_elsewhere(handle) and not isinstance(why, Stopped):
                    raise RunError(
                        f"{self.path} is no longer there: it was moved or removed while this command wrote to it. "
                        "What was committed moved with it; give the same command with its new name."
                    ) from why
                raise
            finally:
                self._seen = None
                _tell_holder(handle, b"")
                unlock_handle(handle)
        finally:
            os.close(handle)

    def lock_if_there(self) -> contextlib.AbstractContextManager[None]:
        """Lock a run before it is read to decide something; one that is not there yet is locked when it is made."""
        return self.lock() if self.state.exists() else contextlib.nullcontext()

    def has_writer(self) -> bool:
        """Whether a command of this machine writes here, by what it put into the lock; status.json speaks of one of its
        jobs. The lock itself is not tried: whoever began just then would be refused."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return bool(is_alive(json.loads((self.path / "lock").read_bytes())))
        return False

    def _is_elsewhere(self, handle: int) -> bool:
        """Whether the folder whose lock this process has is no longer the one of this name."""
        try:
            return not os.path.samestat(os.fstat(handle), os.stat(self.path / "lock"))
        except OSError:
            return True

    def _take_lock(self, handle: int) -> bool:
        try:
            taken = lock_handle(handle)
        except OSError as why:
            raise RunError(
                f"{self.path} cannot be locked ({why.strerror}): its file system has no locks. Nothing was changed. "
                f"Give a RUN on another disk."
            ) from None
        os.lseek(handle, 0, os.SEEK_SET)
        return taken

    def write_status(self, status: Status) -> None:
        """Replace status.json; no fsync: after a power cut it is worth nothing. On a full disk the old one stays."""
        temporary = unfinished(self.status_file)
        try:
            temporary.write_text(json.dumps(status) + "\n", encoding="utf-8")
            rename(temporary, self.status_file)
        except OSError:  # the file is advice and must end no job; writes that matter raise errors themselves
            with contextlib.suppress(OSError):
                temporary.unlink()

    def read_status(self) -> Status:
        """What status.json says, or an error that names the run."""
        try:
            return msgspec.json.decode(patiently(self.status_file.read_bytes), type=Status)
        except (FileNotFoundError, NotADirectoryError):
            if self.path.is_file():
                self.refuse_missing()
            raise RunError(
                f"{self.path} has no status.json: nothing has run there yet. `streambpe train {typed(self.path)} "
                f"SOURCE...` counts and learns; `streambpe watch {typed(self.path)}` waits for it."
            ) from None
        except ValueError as why:
            raise RunError(f"{self.status_file} is damaged ({why}); the next run replaces it.") from None


def _tell_holder(handle: int, entry: bytes) -> None:
    """Write who has the lock, for the message that others get. It is advice: on a full disk it stays unwritten."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, entry)


def _describe(holder: str) -> str:
    try:
        entry = json.loads(holder)
        return f"process {entry['pid']} on {entry['host']} since {entry['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


@functools.cache
def program_versions() -> dict[str, str]:
    """Versions of this program and of what it counts with; for table run and benchmark results."""
    from importlib.metadata import version  # not above: it loads slowly, and only a new RUN needs it

    names = ("streambpe", "duckdb", "polars", "pyarrow", "numpy", "regex")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}
