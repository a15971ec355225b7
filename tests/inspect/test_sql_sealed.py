"""`streambpe sql` only reads, and only RUN's tables: every way out that DuckDB has is tried; -o writes results."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from streambpe.errors import LimitError
from streambpe.files import own_name
from streambpe.inspect.asked import judge, parse
from streambpe.inspect.query import Query
from streambpe.resources import Resources
from streambpe.train.commands import train
from tests.runs import SMALL, cli, cli_process, text_run


def statements(name: str) -> list[str]:
    """The lines of statements/NAME.sql; {out} and {run} stand for folders."""
    lines = (Path(__file__).parent / "statements" / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("-- ")]


REFUSED = [(name, line) for name in ("write", "read_files", "reach_further") for line in statements(name)]


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Path:
    """A run with a vocabulary; only read."""
    run = text_run(tmp_path_factory.mktemp("sealed") / "run", "the cat and the dog and the cat\n" * 50)
    train(run, resources=SMALL, vocab_size=270)
    return run


@pytest.fixture
def around(tmp_path) -> Path:
    """A folder with something to read, to write beside."""
    (tmp_path / "secret.csv").write_text("a,b\n1,hidden\n")
    return tmp_path


def sql(run: Path, *arguments: str, code: int | None = 0, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return cli("sql", run, *arguments, expect=code, input=stdin)


def files_of(*folders: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.mark.every(7)
@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(("name", "line"), REFUSED)
def test_what_does_more_than_read_the_tables_is_refused(learned, around, monkeypatch, name, line, form):
    """Nothing is written anywhere, and nothing is told of files, the environment, secrets, standard input, the network,
    memory by address. A statement that writes is judged before anything runs, and the parser alone refuses it too,
    without a connection that would: the two walls stand by themselves."""
    monkeypatch.setenv("HIDDEN_TOKEN", "hidden")
    before = files_of(learned, around)
    statement, _, why = line.format(run=learned, out=around).partition("  --> ")
    if name == "write":
        with pytest.raises(Exception, match=r"Only statements that read|does not run"):
            judge(parse(statement))
    result = sql(learned, statement, *form, stdin="a,b\n1,hidden\n", code=1)
    assert result.stdout in ("", "[")
    assert "hidden" not in result.stderr
    assert why in result.stderr
    assert name != "write" or "Only statements that read are allowed" in result.stderr or "not run" in result.stderr
    assert files_of(learned, around) == before


def test_no_function_that_duckdb_has_opens_a_file(learned, around):
    """Every table function, and every function of a value, is given the name of a file where it takes a text."""
    secret = around / "secret.csv"
    with Query(learned, "")._sealed() as con:
        functions = con.execute(
            "SELECT DISTINCT function_name, function_type, parameter_types FROM duckdb_functions() "
            "WHERE function_type IN ('table', 'scalar') AND list_contains(parameter_types[:1], 'VARCHAR') "
            "AND regexp_full_match(function_name, '[a-z_0-9]+') ORDER BY ALL"
        ).fetchall()
        assert {"read_csv", "read_text", "glob", "read_blob"} <= {name for name, _, _ in functions}
        for name, kind, parameters in functions:
            values = ", ".join([f"'{secret}'", *["NULL"] * (len(parameters) - 1)])
            call = f"{name}({values})"
            query = f"SELECT {call}" if kind == "scalar" else f"FROM {call}"
            try:
                rows = con.execute(query).fetchall()
            except duckdb.Error:
                continue
            assert "hidden" not in str(rows), query
            assert kind == "scalar" or "secret.csv" not in str(rows), query
    assert os.listdir(around) == ["secret.csv"]


@pytest.mark.every(3)
@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("query", statements("read"))
def test_queries_that_read_run(learned, query, form):
    """Whatever the statement is called."""
    result = sql(learned, query, *form)
    assert result.stdout.strip() not in ("", "[\n]")


def test_a_variable_of_the_program_is_no_table(learned):
    """As it is to DuckDB's own package."""
    mine = pl.DataFrame({"a": [1]})
    with pytest.raises(Exception, match="does not exist"):
        Query(learned, "FROM mine").print("json", io.StringIO())
    assert mine.height == 1


def test_a_script_is_judged_whole_before_its_first_statement(learned, around):
    """Its tables are all shown, and other forms hold one."""
    script = "SELECT 'first' AS a;\n-- between\nSELECT 'second' AS b;\n"
    shown = sql(learned, script)
    assert shown.stdout.index("first") < shown.stdout.index("second")
    for form in (["--csv"], ["-o", str(around / "x.csv")]):
        result = sql(learned, script, *form, code=1)
        assert result.stdout == ""
        assert "one at a time" in result.stderr
    result = sql(learned, f"SELECT 'first' AS a; COPY run TO '{around}/x.csv'", code=1)
    assert result.stdout == ""
    assert not (around / "x.csv").exists()
    for empty in ("", ";", "/* nothing */"):
        assert "empty" in sql(learned, empty, code=2).stderr


@pytest.mark.long
def test_files_are_allowed_when_asked_for(learned, around):
    """--files: COPY, read_csv, ATTACH, temporary tables; but no extension, and RUN stays as it is."""
    before = files_of(learned)
    sql(learned, f"COPY (SELECT 1 AS n) TO '{around}/x.csv'", "--files")
    assert (around / "x.csv").read_text() == "n\n1\n"
    assert "hidden" in sql(learned, f"FROM '{around}/secret.csv'", "--files", "--csv").stdout
    assert "physical_plan" in sql(learned, "/* a comment */ EXPLAIN SELECT 1 -- and another", "--files").stdout
    script = f"CREATE TEMP TABLE mine AS FROM '{around}/secret.csv'; SELECT a + 1 AS n FROM mine"
    assert sql(learned, script, "--files", "--csv").stdout == "n\n2\n"
    sql(learned, script, "--files", "-o", str(around / "y.csv"))
    assert (around / "y.csv").read_text() == "n\n2\n"
    for statement in ("INSTALL httpfs", "LOAD httpfs", "SET autoinstall_known_extensions = true"):
        sql(learned, statement, "--files", code=1)
    sql(learned, "DELETE FROM chunk_counts", "--files", code=1)
    assert files_of(learned) == before


QUERY = "SELECT chunk, n, sum(n) OVER () AS total FROM chunk_counts ORDER BY chunk"


@pytest.mark.every(3)
@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_rows_go_to_a_file_by_its_name(learned, around, form):
    """Equal to what is printed; what is there is kept when the query fails."""
    output = around / f"rows.{form}"
    expected = json.loads(sql(learned, QUERY, "--json").stdout)
    result = sql(learned, QUERY, "-o", str(output))
    assert result.stdout == ""
    assert f"{len(expected)} rows" in result.stderr
    if form == "parquet":
        found = pq.read_table(output).to_pylist()
        assert [{**row, "total": int(row["total"])} for row in found] == expected
    elif form == "csv":
        with output.open(newline="", encoding="utf-8") as lines:
            found = list(csv.DictReader(lines))
        assert found == [{key: str(value) for key, value in row.items()} for row in expected]
        assert output.read_text() == sql(learned, QUERY, "--csv").stdout
    else:
        assert output.read_text() == sql(learned, QUERY, f"--{form}").stdout
    whole = output.read_bytes()
    failing = "SELECT CASE WHEN n < 0 THEN '' ELSE error('no') END FROM chunk_counts"
    sql(learned, failing, "-o", str(output), "--force", code=1)
    assert output.read_bytes() == whole
    assert sorted(os.listdir(around)) == [output.name, "secret.csv"]


def test_outputs_that_cannot_be_are_refused(learned, around):
    """An ending that is no form, a form that is not the ending, no folder, equal names, odd kinds, a file to read."""
    for code, arguments, why in [
        (2, ["SELECT 1", "-o", f"{around}/x.txt"], ".parquet"),
        (2, ["SELECT 1", "-o", f"{around}/x.csv", "--json"], "-o writes"),
        (2, ["--list", "-o", f"{around}/x.csv"], "-o writes"),
        (2, ["SELECT 1", "--force"], "-o"),
        (2, ["SELECT 1", "-o", f"{around}/none/x.csv"], "is not a folder"),
        (2, ["SELECT 1", "-o", f"{around}/{'x' * 300}.csv"], "name"),
        (2, ["SELECT 1", "--temp-dir", f"{around}/none"], "is not a folder"),
        (1, ["SELECT 1 AS a, 2 AS a", "-o", f"{around}/x.parquet"], "'a'"),
        (1, [f"FROM '{around}/secret.csv'", "-o", f"{around}/x.csv"], "--files"),
        (1, ["SELECT 1 AS a, 2 AS a", "--jsonl"], "'a'"),
        (1, ["SELECT INTERVAL 1 DAY AS a", "-o", f"{around}/x.parquet"], "VARCHAR"),
        (1, [f"COPY run TO '{around}/y.csv'", "-o", f"{around}/x.csv", "--files"], "no rows"),
    ]:
        result = sql(learned, *arguments, code=code)
        assert why in result.stderr, arguments
        assert result.stdout in ("", "[")
    assert os.listdir(around) == ["secret.csv"]


@pytest.mark.long
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_sort_that_does_not_fit_spills_into_a_folder_of_its_own(learned, around, elsewhere):
    """Inside RUN or in --temp-dir; removed when the query ends, and that of a killed query with the next one."""
    place = around if elsewhere else learned
    own = own_name(place, "sql", ".tmp")
    stale = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{2**22 + 1}-"))
    stale.mkdir()
    query = "SELECT repeat(md5(i::VARCHAR), 8) AS h FROM range(1_000_000) AS r(i) ORDER BY h"
    command = [sys.executable, "-m", "streambpe", "sql", learned, query, "--csv", "--memory", "256MB"]
    command += ["--temp-dir", around] * elsewhere
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"h\n"  # the rest waits for its reader
        (spilled,) = place.glob("sql-*.tmp")
        assert any(spilled.iterdir())
        assert sum(1 for _ in process.stdout) == 1_000_000
    assert process.returncode == 0
    assert not list(place.glob("sql-*.tmp"))


def test_a_query_that_outgrows_its_memory_says_what_to_do(learned):
    """The advice is an option of this command, not a setting that is locked."""
    query = "SELECT len(list(i ORDER BY hash(i))) AS n FROM range(20_000_000) AS r(i)"
    with pytest.raises(LimitError, match="larger --memory"):
        Query(learned, query, resources=Resources(32 << 20, 2)).print("csv", io.StringIO())


def test_a_value_larger_than_the_memory_ends_the_query(learned, around):
    """DuckDB counts no single value: this one took 1 GB. In a process of its own, which ends."""
    out = around / "x.csv"
    query = "SELECT length(repeat('x', 500_000_000)) AS n"
    ended = cli_process("sql", learned, query, "--memory", "256MB", "-o", out, expect=3)
    assert "The query needs more than --memory 256.0 MB, for values that cannot spill." in ended.stderr
    assert not list(around.glob("x.csv*"))
    assert not list(learned.glob("sql-*.tmp"))


def test_two_threads_of_one_program_ask_at_once(learned):
    """Each has a connection of its own; one waits for the other instead of failing."""

    def ask(_: int) -> str:
        out = io.StringIO()
        Query(learned, "SELECT count(*) AS n, max(hash(i)) AS h FROM range(3_000_000) AS r(i)").print("csv", out)
        return out.getvalue()

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(ask, range(6)))) == 1
