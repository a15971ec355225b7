"""The .sql files: find a statement, check its inputs, run it. All SQL goes through `run_sql`.

A statement that computes is a file of its own: run_sql(con, "checks/tokens"). The file opens with comment lines; the
one that starts with `inputs:` tells people which session variables it asks for, and of what type:

    -- inputs:  min_count BIGINT, max_rows BIGINT

A statement that only looks up, puts, empties or appends is a named one in sql/queries.sql: run_sql(con, "get_facts").
Its inputs are the variables it uses, and table names in braces.

Variables are set with SET VARIABLE, so the same bytes run from Python and in the duckdb shell. An unset variable reads
as NULL and a query would quietly return nothing; so the inputs are checked.
Set STREAMBPE_TRACE_SQL=1 to see each file that runs, and its inputs, on stderr.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from streambpe.disk import says_disk_full
from streambpe.errors import LimitError, RunError, SqlInputError
from streambpe.files import packaged_folder
from streambpe.later import polars as pl
from streambpe.progress import present_meter
from streambpe.text.shown import OBEYED

_BATCH_ROWS = 1 << 15
ROWS_AT_ONCE = 10_000  # of the result of a user's query
MOST_SHOWN_ROWS = 1_000_000  # in a table for people


@functools.cache
def read_sql(name: str) -> str:
    """The text of sql/NAME.sql, or of the statement of that name in sql/queries.sql."""
    if name in named_statements():
        return named_statements()[name]
    file = packaged_folder("sql").joinpath(*f"{name}.sql".split("/"))
    if not file.is_file():
        raise SqlInputError(f"There is no sql/{name}.sql, and no statement {name} in sql/queries.sql.")
    return file.read_text(encoding="utf-8")


@functools.cache
def named_statements() -> dict[str, str]:
    """The statements of sql/queries.sql, by name: `-- name: what it does`, more lines of comment, the statement."""
    text = packaged_folder("sql").joinpath("queries.sql").read_text(encoding="utf-8")
    _, *blocks = re.split(r"^(?=-- \w+: )", text, flags=re.M)
    return {block[3 : block.index(":")]: block for block in blocks if re.search(r"^[A-Z]", block, re.M)}


_VARIABLE = re.compile(r"getvariable\('(\w+)'\)")
_TABLE = re.compile(r"\{([a-z_]+)\}")
_SET_ELSEWHERE = "training"  # a variable of views: `use_training` sets it


@functools.cache
def declared_inputs(name: str) -> list[str]:
    """What a statement asks for: the variables in its text, and the table names in braces."""
    text = read_sql(name)
    found = dict.fromkeys(_VARIABLE.findall(text) + _TABLE.findall(text))
    return [each for each in found if each != _SET_ELSEWHERE]


def described(name: str) -> list[tuple[str, str]]:
    """(table or view, the sentence that says what one row is), from the header of sql/NAME.sql.

    A file of several tables lists them one after another; its own line then only opens the list.
    """
    (header,) = re.findall(r"\A(?:--.*\n)+", read_sql(name))
    one_line_each = re.sub(r"\n-- (?!\w+:\s)\s*", " ", header)
    entries = re.findall(r"^-- (\w+):\s+(.*)", one_line_each, re.M)
    if len(entries) > 1:
        entries = [entry for entry in entries if entry[0] != name.split("/")[-1]]
    return [(what, re.split(r"\.(?= |$)", text)[0] + ".") for what, text in entries]


def run_sql(con: duckdb.DuckDBPyConnection, name: str, **inputs: Any) -> list[tuple[Any, ...]]:
    """Run sql/NAME.sql with its inputs; the rows of its last statement."""
    with _failure_told(con):
        return con.execute(_ready(con, name, inputs)).fetchall()


@contextlib.contextmanager
def _failure_told(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """One message where DuckDB has too little memory, or the file turns out to be damaged while it is read."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        size, path = _bounds(con)
        raise LimitError(
            f"{path or 'A table in memory'} needs more than the {size} that --memory leaves for tables. Nothing that "
            "was counted or learned is lost: the same command with a larger --memory continues from there."
        ) from None
    except duckdb.Error as why:
        is_of_file = isinstance(why, duckdb.IOException | duckdb.SerializationException) and not says_disk_full(why)
        is_another = isinstance(why, duckdb.CatalogException) and "Table with name" in str(why)  # and not one of ours
        if not (is_of_file or is_another or says_damaged(why)):
            raise
        raise file_damaged(why, _bounds(con)[1]) from None


def _bounds(con: duckdb.DuckDBPyConnection) -> tuple[str, str | None]:
    """(memory, file) of the database."""
    with con.cursor() as other:  # the transaction may be aborted, and then says nothing more
        bounds: tuple[str, str | None] = other.execute(read_sql("get_bounds")).fetchall()[0]
    return bounds


def says_damaged(why: duckdb.Error) -> bool:
    """Whether DuckDB found that the bytes of its file are not those that it wrote."""
    return bool(re.search("orrupt database|computed checksum|ailed to load metadata|ailed to deserialize", str(why)))


def file_damaged(why: duckdb.Error, path: str | None = None) -> RunError:
    """What is said of that; without `path` it is state.duckdb."""
    remedy = "Remove it, and give the same command again: it is made from what was counted and learned."
    if path is None or Path(path).name == "state.duckdb":
        remedy = (
            "What was counted and learned is in files beside it. Put the right one back, or remove it: `streambpe "
            "count RUN SOURCE...` fills it again."
        )
    said = str(why).splitlines()[0]
    return RunError(f"{path or 'state.duckdb'} cannot be read: {said}. The file is damaged. {remedy}")


def query_frame(con: duckdb.DuckDBPyConnection, name: str, **inputs: Any) -> pl.DataFrame:
    """As run_sql, for one statement with too many rows for Python objects."""
    with _failure_told(con):
        frame: pl.DataFrame = con.sql(_ready(con, name, inputs)).pl()
        return frame


def query_arrow(con: duckdb.DuckDBPyConnection, name: str, **inputs: Any) -> pa.Table:
    """As query_frame, as an Arrow table."""
    with _failure_told(con):
        return con.sql(_ready(con, name, inputs)).to_arrow_table()


def query_batches(con: duckdb.DuckDBPyConnection, name: str, **inputs: Any) -> Iterator[pa.RecordBatch]:
    """As query_arrow, some rows at a time: for results too large to be held whole."""
    with _failure_told(con):
        yield from con.sql(_ready(con, name, inputs)).to_arrow_reader(_BATCH_ROWS)


def _ready(con: duckdb.DuckDBPyConnection, name: str, inputs: dict[str, Any]) -> str:
    """Set the variables of sql/NAME.sql; returns its text."""
    wanted = declared_inputs(name)
    wrong = sorted(set(wanted) ^ set(inputs))
    if wrong:
        raise SqlInputError(
            f"sql/{name}.sql asks for {wanted}; {', '.join(wrong)} was not given or is not "
            f"asked for. An unset variable reads as NULL and the query would quietly return no rows. "
            f"Pass exactly these: run_sql(con, {name!r}, ...)."
        )
    if os.environ.get("STREAMBPE_TRACE_SQL"):
        where = f"sql/queries.sql, {name}" if name in named_statements() else f"sql/{name}.sql"
        print(f"{where} {inputs}", file=sys.stderr)
    text = read_sql(name)
    for key in wanted:
        if f"{{{key}}}" in text:
            text = text.replace(f"{{{key}}}", inputs[key])
        else:
            con.execute(f"SET VARIABLE {key} = ?", [inputs[key]])
    return text


def run_query(con: duckdb.DuckDBPyConnection, query: str) -> Iterator[list[Any]]:
    """Run a user's own query: first the column names, then its rows in blocks; nothing if it has no columns."""
    con.execute(query)
    if con.description is None:
        return
    yield [column[0] for column in con.description]
    while rows := con.fetchmany(ROWS_AT_ONCE):
        present_meter().advance(len(rows))
        yield rows


def draw_query(con: duckdb.DuckDBPyConnection, query: str, width: int | None = None) -> str:
    """Run a query of the user's own; its rows as a table for people, or nothing if it gives none.

    `width`: of the terminal. There long cells are broken over lines and cut, and columns without room left out; …
    stands for both. Without it, all is there.
    """
    relation = con.sql(query)
    if relation is None:
        return ""
    drawn = io.StringIO()
    try:
        with contextlib.redirect_stdout(drawn):
            relation.show(max_width=width or 10_000, max_rows=MOST_SHOWN_ROWS, max_col_width=20 if width else 100)
    finally:
        relation.close()  # otherwise an error's traceback would keep the database open
    # DuckDB spells most of these out; the others have no width for it, so columns stay where they are
    return OBEYED.sub("", drawn.getvalue())
