"""The RUN folder and its database: versions, migrations, other shells, a full disk."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from msgspec import structs

from streambpe.errors import RunError, RunLocked
from streambpe.resources import format_size, parse_size
from streambpe.store.identity import read_identity, write_identity
from streambpe.store.run import Run
from tests.runs import ROOT, text_run


@pytest.fixture
def counted(tmp_path) -> Path:
    """A run over a small file."""
    return text_run(tmp_path / "run", "the cat and the dog")


def test_files_are_written_in_the_older_storage_format(counted):
    """Shells of DuckDB 1.x open what we write: the storage version is pinned."""
    with duckdb.connect(str(counted / "state.duckdb"), read_only=True) as con:
        ((tags,),) = con.sql("SELECT tags FROM duckdb_databases() WHERE database_name = 'state'").fetchall()
    assert "v1.4.0" in str(tags["storage_version"])


def older_shell() -> list[str] | None:
    """The command of a 1.x duckdb shell, if there is one."""
    found = shutil.which("duckdb")
    if found is None and importlib.util.find_spec("duckdb_cli"):
        return [sys.executable, "-m", "duckdb_cli"]
    return [found] if found else None


@pytest.mark.skipif(older_shell() is None, reason="no duckdb shell on PATH (PyPI: duckdb-cli); nothing to open it with")
def test_the_duckdb_shell_opens_a_run(counted):
    """The shell reads the tables, and runs sql/shell.sql."""
    shell = older_shell()
    assert shell
    query = "SELECT n FROM chunk_counts WHERE chunk = ' the'"
    command = [*shell, "-readonly", "-csv", str(counted / "state.duckdb"), query]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["n", "1"]
    script = [*shell, str(counted / "state.duckdb"), "-f", "sql/shell.sql"]
    assert subprocess.run(script, capture_output=True, text=True, cwd=ROOT, check=False).returncode == 0


def test_a_later_format_is_refused(counted):
    """A run of another format is refused in one sentence, by whatever looks at it, and not touched."""
    identity = read_identity(counted)
    assert identity is not None
    write_identity(counted, structs.replace(identity, version=99))
    with pytest.raises(RunError, match="has format 99, but this streambpe only reads format 11"):
        Run(counted).facts()


def test_not_a_run(tmp_path):
    """A folder without a run, a file in its place, a status that is not there: each says what it is."""
    with pytest.raises(RunError, match="is not a RUN"):
        Run.open(tmp_path)
    with pytest.raises(RunError, match=r"no status\.json"):
        Run(tmp_path).read_status()
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="cannot be created"), Run(tmp_path / "file").lock():
        pass
    (tmp_path / "status.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        Run(tmp_path).read_status()


def test_another_thread_is_another_writer(tmp_path):
    """While one thread holds the run, another is refused, and the first goes on holding."""
    run = Run(tmp_path / "run")

    def take() -> None:
        with run.lock():
            pass

    with ThreadPoolExecutor(1) as pool, run.lock():
        for _ in range(2):
            with pytest.raises(RunLocked):
                pool.submit(take).result()
        take()
        with pytest.raises(RunLocked), Run(run.path).lock():
            pass
    take()


def test_sizes():
    """Read as people write them: powers of ten, or of two with an i. And shown so."""
    read = {"500MB": 500_000_000, "2g": 2_000_000_000, "1000000": 1_000_000, " 4 kb ": 4000}
    assert {text: parse_size(text) for text in read} == read
    shown = {0: "0 B", 999: "999 B", 12_345: "12 KB", 1_500_000: "1.5 MB", 2e9: "2.0 GB", 3e12: "3.00 TB"}
    assert {size: format_size(size) for size in shown} == shown
