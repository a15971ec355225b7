"""The one place that connects to DuckDB, and the schema it finds or makes there.

One process writes a file, and while it holds the file nobody else can even read it; so a connection
is held for the length of a fold or a query, never for the length of a run.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import duckdb

from streambpe.errors import RunError
from streambpe.store.sqlfiles import run_sql, sql_root

FORMAT_VERSION = 3
# Files must open in the 1.x shells that people have; DuckDB 2.0's own default is refused there.
_STORAGE_VERSION = "v1.4.0"
SCHEMA = ("run", "sources", "chunk_counts", "source_groups", "training")
VIEWS = (
    "source_files",
    "chunk_frequencies",
    "rare_chunks",
    "vocabulary",
    "top_pairs",
    "merge_curve",
    "training_chunks",
    "deletions",
    "token_usage",
    "single_token_chunks",
    "superwords",
    "superword_candidates",
    "superword_runs",
    "progress",
    "left_out",
)


def open_store(
    path: Path | str,
    *,
    memory_bytes: int = 256 << 20,
    threads: int = 2,
    temp_dir: Path | str | None = None,
    read_only: bool = False,
    wait_seconds: float = 30.0,
) -> duckdb.DuckDBPyConnection:
    """Connect to a database file (or ":memory:"); waits while another process holds it.

    `memory_bytes` bounds DuckDB's own buffers; above it, it spills to `temp_dir`.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{max(memory_bytes, 32 << 20) >> 20}MB",
        "threads": threads,
    }
    if temp_dir is not None:
        config["temp_directory"] = str(temp_dir)
    if not read_only and str(path) != ":memory:":
        config["storage_compatibility_version"] = _STORAGE_VERSION
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=config)
        except duckdb.IOException as why:
            if "lock" not in str(why):
                raise RunError(f"{path} does not open: {_first_line(why)}") from None
            if time.monotonic() > give_up:
                holder = re.search(r"PID (\d+)", str(why))
                who = f"process {holder.group(1)}" if holder else "another process"
                raise RunError(
                    f"{path} is held open by {who}; waited {wait_seconds:.0f} s. What was counted or learned "
                    f"is safe in the run's folder. Close it there and give the same command again."
                ) from None
            time.sleep(0.05)
        except duckdb.Error as why:
            raise RunError(f"{path} is no database that this version reads: {_first_line(why)}") from None


def _first_line(why: Exception) -> str:
    return str(why).splitlines()[0]


def create_schema(con: duckdb.DuckDBPyConnection) -> None:
    """Make what is missing, carry older files forward, refresh the views. One transaction."""
    con.begin()
    for table in SCHEMA:
        run_sql(con, f"schema/{table}")
    version = int(dict(run_sql(con, "steps/get_run")).get("format_version", FORMAT_VERSION))
    for step in migrations_from(version):
        run_sql(con, f"migrations/{step}")
    for name in list_trainings(con):
        use_training(con, name, create=True)
    use_training(con, "main")
    run_sql(con, "steps/put_run", key="format_version", value=str(FORMAT_VERSION))
    for view in VIEWS:
        run_sql(con, f"views/{view}")
    con.commit()


def use_training(con: duckdb.DuckDBPyConnection, name: str, *, create: bool = False) -> None:
    """Make the tables of one training the ones that unqualified names mean, and the views show."""
    if create and name != "main":
        con.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')  # a checked name: letters, digits, underscores
    con.execute("SET search_path = ?", ["main" if name == "main" else f"{name},main"])
    if create:
        run_sql(con, "schema/training")
    con.execute("SET VARIABLE training = ?", [name])


def list_trainings(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of the trainings whose tables are in the file."""
    return [row[0] for row in run_sql(con, "steps/list_trainings")]


def migrations_from(version: int) -> list[str]:
    """Names of the files in sql/migrations that carry `version` forward, in order: 0001_to_0002..."""
    if version > FORMAT_VERSION:
        raise RunError(
            f"The run has format version {version}; this streambpe reads up to {FORMAT_VERSION}. "
            f"Nothing was changed. Use the version that wrote it, or a later one."
        )
    folder = sql_root().joinpath("migrations")
    names = sorted(f.name.removesuffix(".sql") for f in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if version <= int(name[:4]) < FORMAT_VERSION]


def fsync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_file(path: Path) -> None:
    """Make a file's bytes survive a power cut."""
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
