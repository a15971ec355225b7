"""The .sql files: every one has its header, runs, and refuses to run without its inputs."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest

from streambpe.errors import LimitError, RunError, SqlInputError
from streambpe.files import packaged_folder
from streambpe.store import sqlfiles
from streambpe.store.database import SCHEMA, VIEWS, create_schema, open_store, use_private_training
from streambpe.store.sqlfiles import declared_inputs, named_statements, query_frame, read_sql, run_sql
from tests.runs import cli, counted_run

ROOT = Path(__file__).parents[2]
FILES = sorted(str(p.relative_to(ROOT / "sql"))[:-4] for p in (ROOT / "sql").rglob("*.sql"))
NAMES = [name for name in FILES if name != "queries"] + sorted(named_statements())
EXAMPLES = {
    "fact_table": "run",
    "keys": ["note"],
    "texts": ["mine"],
    "sha256": "00",
    "events": 0,
    "pair_floor": 1,
    "pair_counts_at": 0,
    "max_token_length": 9,
    "batches": 0,
    "freq_cutoff": 1,
    "symbols_spell_chunks": True,
    "longest_token": 100,
    "deletions": False,
    "max_rows": 5,
    "filled": "main.pair_counts",
    "learned": "main.pair_counts",
    "filled_floor": 1,
    "learned_floor": 1,
    "op": "merge",
    "table": "chunk_counts",
    "adjacency_floor": 1,
    "made_of": "00",
    "least": 1,
    "low": 0,
    "high": 9,
    "step": 2,
    "stop_list": 2,
    "range_bytes": 1000,
    "first_chunk": "a",
    "end_chunk": None,
    "denominator": 2,
    "at_least": 1,
    "most": 9,
    "floor": 1,
    "least_rest": 0,
    "places": 1,
    "number_bits": 40,
    "held": "state.main.chunk_counts",
}
IN_TABLES = tuple(f"learning/{name}" for name in ("best_pairs", "change_pairs", "look_up_pairs", "pairs_from"))
LEARNING = ("get_sum_note", "put_sum_note", "list_neighbours", "list_neighbour_counts")  # on the private database


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a store as it is made, a part, and a private database of a training."""
    folder = tmp_path_factory.mktemp("made")
    with open_store(folder / "state.duckdb") as con:
        create_schema(con)
    with open_store(folder / "learning.duckdb") as con:
        run_sql(con, "learning/tables")
    pl.DataFrame({"key": [5], "run": [b"\x01"], "by": [5], "n": [2]}).write_parquet(folder / "part.parquet")
    pl.DataFrame({"word": [0], "token": [97], "n": [2]}).write_parquet(folder / "words-00000.parquet")
    return folder


@pytest.fixture(scope="module")
def one_con(made, tmp_path_factory):
    """A store for what is refused before it is read."""
    with open_store(shutil.copy(made / "state.duckdb", tmp_path_factory.mktemp("one"))) as con:
        yield con


@pytest.fixture
def con(one_con):
    """A store as it is made; what a test changes in it is undone."""
    with one_con.cursor() as con:
        con.begin()
        yield con
        con.rollback()


@pytest.fixture(scope="module")
def examples(made):
    """Inputs of every name there is; files and databases that are really there."""
    counts = made / "counts.parquet"
    pl.DataFrame({"chunk": ["a"], "n": [1]}).write_parquet(counts)
    return {
        **EXAMPLES,
        "part_files": [str(counts)],
        "files": [str(made / "part.parquet")],
        "database": str(made / "learning.duckdb"),
        "folder": str(made),
    }


def prepare(con: duckdb.DuckDBPyConnection, name: str) -> None:
    if name.startswith("learning/") or name in LEARNING:
        run_sql(con, "learning/tables")
    if name in IN_TABLES:
        run_sql(con, "learning/pairs")
        con.execute("CREATE TEMP TABLE incoming AS SELECT *, 1 AS id, 2 AS label FROM pair_counts")
    if name == "append":
        con.execute("CREATE TEMP TABLE incoming AS FROM chunk_counts LIMIT 0")
    if name in ("checks/events", "checks/batches"):
        con.execute("CREATE TEMP TABLE logged_events AS FROM events LIMIT 0")
    if name == "checks/tokens":
        con.execute("CREATE TEMP TABLE logged_events AS FROM events LIMIT 0")
        con.execute("CREATE TEMP TABLE logged_tokens AS FROM tokens LIMIT 0")
    if name == "checks/chunk_counts":
        run_sql(con, "make_recount")
    if name == "steps/add_counts":
        con.execute("CREATE TEMP TABLE incoming AS FROM chunk_counts LIMIT 0")
    if name == "steps/add_group_counts":
        con.execute("CREATE TEMP TABLE incoming AS FROM group_counts LIMIT 0")
    if name == "make_group_weights":
        con.execute("CREATE TEMP TABLE incoming AS SELECT 'de' AS group_name, 1 AS numerator")
    if name == "steps/weigh_range":
        con.execute("CREATE TEMP TABLE group_weights AS SELECT 'de' AS group_name, 1 AS numerator")
    if name in ("steps/put_weighed", "add_rests", "count_rest"):
        con.execute("CREATE TEMP TABLE weighed AS SELECT 'a' AS chunk, 1::BIGINT AS whole, 0::BIGINT AS rest")
    if name in ("steps/find_raised", "add_rests"):
        run_sql(con, "make_rests")
    if name == "take_new_counts":
        run_sql(con, "make_new_counts")
    if name == "steps/show_committed":
        use_private_training(con)
    if name == "steps/fill_token_counts":
        con.execute("CREATE TEMP TABLE incoming AS SELECT id, n, alone FROM token_counts LIMIT 0")
    if name == "checks/group_counts":
        run_sql(con, "make_group_recount")
    if name == "checks/sequences":
        run_sql(con, "make_document_recount")
    if name == "steps/find_repeats":
        run_sql(con, "make_hashed_documents")
    if name == "checks/source_groups":
        con.execute("CREATE TEMP TABLE recounted_groups AS FROM source_groups LIMIT 0")
    if name == "checks/sources":
        con.execute("CREATE TEMP TABLE recounted_sources AS FROM sources LIMIT 0")


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
    assert variables == set(declared_inputs(name)), "the header names the variables that the text uses"


@pytest.mark.parametrize("name", [n for n in NAMES if n != "shell"])
def test_it_runs(con, examples, name):
    """Every file runs on a fresh store, twice if it says CREATE."""
    prepare(con, name)
    inputs = {key: examples[key] for key in declared_inputs(name)}
    rows = run_sql(con, name, **inputs)
    assert isinstance(rows, list)
    if "CREATE" in read_sql(name):
        run_sql(con, name, **inputs)


@pytest.mark.parametrize("name", [n for n in NAMES if declared_inputs(n)])
def test_missing_and_unknown_inputs_are_refused(one_con, examples, name):
    """A variable left out would read as NULL and quietly give nothing."""
    inputs = {key: examples[key] for key in declared_inputs(name)}
    for wrong in ({}, {**inputs, "nobody": 1}):
        with pytest.raises(SqlInputError, match="asks for"):
            run_sql(one_con, name, **wrong)


def test_named_statements_are_found_with_what_they_do():
    """Every statement of queries.sql is one: its comment says what it does, and each line of SQL belongs to one."""
    text = read_sql("queries")
    assert len(named_statements()) > 20
    assert sum(text.count(f"\n-- {name}: ") for name in named_statements()) == len(named_statements())
    left = text
    for statement in named_statements().values():
        left = left.replace(statement, "")
    assert not re.search(r"^[A-Z]", left, re.M)


def test_a_table_name_that_is_none_is_refused(con):
    """What stands in braces is put into the text, so it has to be a name."""
    con.execute("CREATE TEMP TABLE incoming AS FROM events LIMIT 0")
    for table in ("events; DROP TABLE events", "", "Events"):
        with pytest.raises(SqlInputError, match="no name of a table"):
            run_sql(con, "append", table=table)


def test_a_file_that_is_not_there_is_an_error(con):
    """Named as it would be written."""
    with pytest.raises(SqlInputError, match=r"no sql/steps/nothing\.sql"):
        run_sql(con, "steps/nothing")


def test_the_shell_script_reads_everything(con):
    """shell.sql lists every table and view, tables first, and nothing that is not there."""
    read = re.findall(r"^\.read sql/(.+)\.sql$", read_sql("shell"), re.M)
    assert sorted(read) == sorted(n for n in NAMES if n.startswith(("schema/", "macros/", "views/")))
    assert [n for n in read if n.startswith("schema/")] == [f"schema/{t}" for t in SCHEMA]
    assert {n for n in read if n.startswith("views/")} == {f"views/{v}" for v in VIEWS}
    for name in read:
        con.execute(read_sql(name))


def test_trace_shows_each_file(con, monkeypatch, capsys):
    """STREAMBPE_TRACE_SQL=1 prints file and inputs to stderr."""
    monkeypatch.setenv("STREAMBPE_TRACE_SQL", "1")
    run_sql(con, "put_facts", fact_table="run", keys=["a"], texts=["b"])
    assert (
        capsys.readouterr().err == "sql/queries.sql, put_facts {'fact_table': 'run', 'keys': ['a'], 'texts': ['b']}\n"
    )


def test_sql_root_holds_what_the_checkout_has():
    """The files are found, installed or not."""
    assert packaged_folder("sql").joinpath("shell.sql").is_file()


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
