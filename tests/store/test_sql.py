"""The .sql files: every one has its header, and refuses to run without its inputs. Other tests run them all."""

from __future__ import annotations

import contextlib
import random
import re

import duckdb
import pytest

from streambpe.errors import LimitError, RunError
from streambpe.store import sqlfiles
from streambpe.store.database import create_schema, open_store
from streambpe.store.sqlfiles import named_statements, query_frame, read_sql, run_sql
from tests.runs import ROOT, cli, counted_run

FILES = sorted(str(p.relative_to(ROOT / "sql"))[:-4] for p in (ROOT / "sql").rglob("*.sql"))
NAMES = [name for name in FILES if name != "queries"] + sorted(named_statements())


@pytest.fixture
def con():
    """A store as it is made."""
    with open_store(":memory:") as con:
        create_schema(con)
        yield con


@pytest.mark.parametrize("name", FILES)
def test_header_says_what_the_file_is(name):
    """It opens with its own name; steps and checks also name their inputs, reads, returns, by hand."""
    text = read_sql(name)
    assert re.match(rf"-- {name.split('/')[-1]}: \S", text)
    if name.split("/")[0] in ("steps", "checks") or name.startswith("learning/sum_"):
        for word in ("inputs:", "reads:", "returns:", "by hand:"):
            assert re.search(rf"^-- {word}", text, re.M), f"{name} has no `{word}` line"
    if name == "queries":
        return
    variables = set(re.findall(r"getvariable\('(\w+)'\)", text))
    if name.startswith("views/"):
        variables.discard("training")  # unset, it means main
    told = re.findall(r"^-- inputs:(.*)", text, re.M)
    assert variables == {entry.split()[0] for entry in "".join(told).split(",") if entry.strip()}


def test_the_shell_script_reads_everything(con):
    """shell.sql lists every table and view, tables first, and nothing that is not there."""
    read = re.findall(r"^\.read sql/(.+)\.sql$", read_sql("shell"), re.M)
    assert sorted(read) == sorted(n for n in NAMES if n.startswith(("schema/", "macros/", "views/")))
    for name in read:
        con.execute(read_sql(name))


def test_trace_shows_each_file(con, monkeypatch, capsys):
    """STREAMBPE_TRACE_SQL=1 prints file and inputs to stderr."""
    monkeypatch.setenv("STREAMBPE_TRACE_SQL", "1")
    run_sql(con, "put_facts", fact_table="run", keys=["a"], texts=["b"])
    assert (
        capsys.readouterr().err == "sql/queries.sql, put_facts {'fact_table': 'run', 'keys': ['a'], 'texts': ['b']}\n"
    )


def test_too_little_memory_is_one_message(tmp_path, monkeypatch):
    """A traceback of DuckDB's once, and then its words, "failed to pin block": not the file, nor what it may have."""
    monkeypatch.setattr(sqlfiles, "_ready", lambda *_: "SELECT list(i ORDER BY hash(i)) FROM range(3000000) AS t(i)")
    told = pytest.raises(LimitError, match=r"few.duckdb needs more than the 7.6 MiB that --memory leaves for tables")
    config = {"memory_limit": "8MB", "max_temp_directory_size": "0B", "threads": 1}
    with duckdb.connect(str(tmp_path / "few.duckdb"), config=config) as con, told:
        con.begin()
        run_sql(con, "get_facts")


def test_a_damaged_database_is_named(tmp_path):
    """The tables of a learner, say: the message names the file, and what to do."""
    path = tmp_path / "pairs.duckdb"
    with contextlib.closing(open_store(path)) as con:
        run_sql(con, "learning/pairs")
        con.sql("INSERT INTO pair_counts SELECT range, 7 * range % 1000, range % 977 FROM range(300_000)")
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(random.Random(1).randbytes(1 << 16))
    told = pytest.raises(RunError, match=rf"{path} cannot be read: .*The file is damaged\. Remove it, and give")
    with contextlib.closing(open_store(path)) as con, told:
        query_frame(con, "learning/pairs_from", floor=0)


@pytest.mark.long
def test_another_database_in_its_place_is_told(tmp_path):
    """A whole database without the tables of a RUN: one message that names the file, not a traceback."""
    run = counted_run(tmp_path / "run", {"ab": 3})
    (run / "state.duckdb").unlink()
    duckdb.connect(str(run / "state.duckdb")).close()
    assert "state.duckdb cannot be read" in cli("train", run, "--vocab-size", 257, expect=1).stderr
