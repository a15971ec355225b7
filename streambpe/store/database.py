"""The one place that connects to DuckDB, and the schema it finds or makes there.

One process writes a file, and while it holds the file nobody else can even read it; so a connection
is held for the length of a fold or a query, never for the length of a run.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import RunError, Stopped, StoreHeld, typed
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.store.sqlfiles import read_sql, run_sql
from streambpe.text.shown import harmless
from streambpe.threads import stopped_by

# Files must open in the DuckDB 1.x shells that people have; these refuse the default format of DuckDB 2.0.
_STORAGE_VERSION = "v1.4.0"
_BYTES_A_THREAD = 16 << 20  # of DuckDB's buffers, at least: with less it runs out of memory (300 threads in 150 MB)
# by folder, in the order of sql/shell.sql: what a file uses stands before it
SCHEMA, MACROS, VIEWS = (
    re.findall(rf"^\.read sql/{folder}/(.+)\.sql$", read_sql("shell"), re.M) for folder in ("schema", "macros", "views")
)


_WAIT_SECONDS = 30.0  # at most, for a file that is held, outside of `waiting_for_tables`
_TELL_SECONDS = 2.0  # of waiting inside `waiting_for_tables`, before the user is told


# of `waiting_for_tables`: what stops it, and the files of which the user was told that they are waited for
_waiting: ContextVar[tuple[threading.Event, list[str]] | None] = ContextVar("waiting", default=None)


@contextlib.contextmanager
def waiting_for_tables(stop: threading.Event) -> Iterator[None]:
    """Inside, a database file that another process holds is waited for until `stop` is set, unless a call names a
    time; the user is told once who holds it."""
    before = _waiting.set((stop, []))
    try:
        yield
    finally:
        _waiting.reset(before)


def open_store(
    path: Path | str,
    *,
    memory_bytes: int = 256 << 20,
    threads: int = 2,
    temp_dir: Path | str | None = None,
    read_only: bool = False,
    wait_seconds: float | None = None,
) -> duckdb.DuckDBPyConnection:
    """Connect to a database file (or ":memory:"); waits while another process holds it,
    for `wait_seconds`, or as `waiting_for_tables` says.

    `memory_bytes` bounds DuckDB's own buffers; beyond that, DuckDB spills to `temp_dir`.
    """
    memory_bytes = max(memory_bytes, 2 * _BYTES_A_THREAD)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_bytes >> 20}MB",
        "threads": min(threads, memory_bytes // _BYTES_A_THREAD),
        "arrow_large_buffer_size": True,  # text and bytes that leave by Arrow may be more than 2 GB at once
    }
    if temp_dir is not None:
        config["temp_directory"] = str(temp_dir)
    if not read_only and str(path) != ":memory:":
        config["storage_compatibility_version"] = _STORAGE_VERSION
    began = time.monotonic()
    while True:
        try:
            con = duckdb.connect(str(path), read_only=read_only, config=config)
            con.execute("SET enable_progress_bar = false")  # an interactive Python would draw it over our own
            return con
        except duckdb.IOException as why:
            if says_disk_full(why):
                raise disk_full(why, path) from None
            if not re.search("lock|already open|another process", str(why)):  # the last two: Windows
                raise RunError(f"{path} cannot be opened: {str(why).splitlines()[0]} {_refill(path)}") from None
            holder = re.search(r"PID (\d+)", str(why))
            who = f"process {holder.group(1)}" if holder else "another process"
        except duckdb.Error as why:
            if "different configuration" not in str(why):  # which another thread of this process would have
                raise RunError(
                    f"{path} is not a database that this version can read: {str(why).splitlines()[0]} {_refill(path)}"
                ) from None
            who = "this process for something else"
        _wait(path, who, time.monotonic() - began, wait_seconds)


def _wait(path: Path | str, who: str, waited: float, most_seconds: float | None) -> None:
    """Wait a moment, or raise an error if the wait was long enough."""
    waiting = _waiting.get()
    if waiting is None or most_seconds is not None:
        if waited > (_WAIT_SECONDS if most_seconds is None else most_seconds):
            raise StoreHeld(
                f"{path} is open in {who}; waited {waited:.0f} s. What was counted or learned is safe in the RUN. "
                "Close the file there and give the same command again."
            )
    elif waiting[0].is_set():
        raise Stopped(
            f"Stopped while {path} was open in {who}. What was counted or learned is kept.", stopped_by(waiting[0])
        )
    elif waited > _TELL_SECONDS and str(path) not in waiting[1]:
        telling = f"{path} is open in {who}; waiting until it is closed there (Ctrl-C stops waiting)"
        print(harmless(telling), file=sys.stderr)
        waiting[1].append(str(path))
    time.sleep(0.05)


def _refill(path: Path | str) -> str:
    return (
        f"Nothing was changed. Put the right one back, or remove it: `streambpe count "
        f"{typed(Path(path).parent)} SOURCE...` fills it again from counts/."
    )


def seal(con: duckdb.DuckDBPyConnection, *, files: bool = False, parts: Sequence[str] = ()) -> None:
    """Restrict a connection for the user's own statements: they reach no file but the database and `parts` (unless
    `files`), no extension, and no variable of the Python program; and no statement can change that.

    DuckDB still lets statements, even COPY, use its log's name beside the database, and its temporary folder. So the
    caller judges which statements may run at all (inspect/asked.py), and gives a temporary folder of its own.
    """
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    settings |= {"python_enable_replacements": False, "allow_persistent_secrets": False}
    if not files:
        if parts:
            con.execute("SET allowed_paths = ?", [list(parts)])
        settings["enable_external_access"] = False
    settings["lock_configuration"] = True  # must be set last
    for name, value in settings.items():
        con.execute(f"SET {name} = {str(value).lower()}")


@contextlib.contextmanager
def one_thread(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """For a query whose rows are to come in the order they lie in: in a join, several threads would mix them."""
    ((threads,),) = run_sql(con, "get_threads")
    con.execute("SET threads = 1")
    try:
        yield
    finally:
        with con.cursor() as other:  # in no transaction, which an error of the query would have ended
            other.execute(f"SET threads = {threads}")


class _Incoming:
    """Holds a table that DuckDB reads by a name; the table can be taken out to free its memory."""

    def __init__(self, table: pa.Table) -> None:
        self.table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None
        return self.table.__arrow_c_stream__(requested_schema)


@contextlib.contextmanager
def incoming(con: duckdb.DuckDBPyConnection, frame: pl.DataFrame | pa.Table) -> Iterator[None]:
    """The rows of `frame` as table `incoming`, for the statements of the block.

    DuckDB keeps what is registered under a name until the transaction ends: in a fold that would be the whole corpus,
    piece by piece. So DuckDB gets a holder that is empty afterwards.
    """
    holder = _Incoming(frame if isinstance(frame, pa.Table) else frame.to_arrow())
    con.register("incoming", holder)
    try:
        yield
    finally:
        holder.table = None
    con.unregister("incoming")


def feed(con: duckdb.DuckDBPyConnection, step: str, frame: pl.DataFrame | pa.Table, **values: Any) -> None:
    """Run a statement that reads the rows of `frame` as table `incoming`, with values as `run_sql` takes them."""
    with incoming(con, frame):
        run_sql(con, step, **values)


def append(con: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame | pa.Table) -> None:
    """Append rows to a table; columns are matched by name."""
    if len(frame):
        feed(con, "append", frame, table=table)


def put_facts(con: duckdb.DuckDBPyConnection, table: Literal["run", "facts"], facts: Mapping[str, str]) -> None:
    """Set facts of the run or of the training in use."""
    if facts:
        run_sql(con, "put_facts", fact_table=table, keys=list(facts), texts=list(facts.values()))


def create_schema(con: duckdb.DuckDBPyConnection) -> None:
    """Make the tables, macros and views of a new file. One transaction."""
    con.begin()
    use_training(con, "main")
    for folder, names in (("schema", SCHEMA), ("macros", MACROS), ("views", VIEWS)):
        for name in names:
            run_sql(con, f"{folder}/{name}")
    commit(con)


def commit(con: duckdb.DuckDBPyConnection) -> None:
    """End a transaction: what it wrote survives a kill from here on."""
    failpoint("boundary")
    con.commit()


def use_training(con: duckdb.DuckDBPyConnection, name: str, *, create: bool = False) -> None:
    """Make unqualified names mean the tables of one training, which the views then show."""
    if create and name != "main":
        con.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')  # a checked name: letters, digits, underscores
    file = _file_name(con)
    con.execute("SET search_path = ?", [",".join(f"{file}.{schema}" for schema in dict.fromkeys([name, "main"]))])
    if create:
        run_sql(con, "schema/training")
    con.execute("SET VARIABLE training = ?", [name])


def use_private_training(con: duckdb.DuckDBPyConnection) -> None:
    """Make empty tables that only this connection sees; unqualified names mean them, and the views show them. The file
    may be open read-only."""
    con.execute("ATTACH IF NOT EXISTS ':memory:' AS private (READ_WRITE)")
    con.execute("SET search_path = 'private'")
    run_sql(con, "drop_training")
    run_sql(con, "schema/training")
    con.execute("SET search_path = ?", [f"private,{_file_name(con)}.main"])
    con.execute("SET VARIABLE training = 'private'")


def use_committed(con: duckdb.DuckDBPyConnection, sources: pa.Table, parts: Sequence[str]) -> None:
    """Make chunk_counts and sources mean all that is committed, for this connection alone: `sources`, the counted
    stretches, and `parts`, the files of counts."""
    (path,) = con.execute("SELECT current_setting('search_path')").fetchone() or ("",)
    con.execute("ATTACH IF NOT EXISTS ':memory:' AS private (READ_WRITE)")
    con.execute("SET search_path = 'private'")
    run_sql(con, "schema/sources")
    run_sql(con, "steps/show_committed", part_files=list(parts))
    append(con, "sources", sources)
    for view in ("source_files", "chunk_frequencies", "rare_chunks"):
        run_sql(con, f"views/{view}")
    con.execute("SET search_path = ?", [f"private,{path}"])


def _file_name(con: duckdb.DuckDBPyConnection) -> str:
    """What DuckDB calls the file that the connection was opened with: the first database that is not DuckDB's own."""
    ((name,),) = run_sql(con, "get_database")
    return f'"{name}"'


def list_trainings(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of the trainings whose tables are in the file."""
    return [row[0] for row in run_sql(con, "list_trainings")]
