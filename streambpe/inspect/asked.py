"""Statements that a user gives (`streambpe sql`): which may run, and where they spill.

They are judged by DuckDB's own parser, never by their words. What reads is of one kind, SELECT; FROM, VALUES, TABLE,
SHOW, DESCRIBE, SUMMARIZE, and PIVOT with named values are of that kind too. A PIVOT that finds its values by itself
becomes several statements under one name, and so does a COPY of such a PIVOT: the two cannot be told apart, so both
are refused. Functions in a SELECT that reach for files meet the sealed connection (store/database.py).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import duckdb

from streambpe.errors import QueryRefused, StreambpeError, UsageError
from streambpe.files import scratch_folder
from streambpe.store.run import Run


def parse(query: str) -> list[duckdb.Statement]:
    """The statements of a query, as DuckDB's parser finds them; at least one."""
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as why:
        raise StreambpeError(f"The query does not run: {why}") from None
    if not statements:
        raise UsageError("The query is empty. Write SQL, or a name that `streambpe sql RUN --list` shows.")
    return [_bare(statement) for statement in statements]


def _bare(statement: duckdb.Statement) -> duckdb.Statement:
    """The statement without the comments around it, and the semicolon with which DuckDB cannot show rows as a table."""
    query, tokens = statement.query.encode(), duckdb.tokenize(statement.query)
    own = [at for at, kind in tokens if kind != duckdb.token_type.comment and query[at : at + 1] != b";"]
    end = next((at for at, _ in tokens if at > own[-1]), None)
    (bare,) = duckdb.extract_statements(query[own[0] : end].decode())
    return bare


def kind_of(statement: duckdb.Statement) -> str:
    """What DuckDB calls a statement: SELECT, COPY, ..."""
    with contextlib.suppress(ValueError):  # a kind that the Python package has no name for
        return statement.type.name
    return "of an unknown kind"


def returns_rows(statement: duckdb.Statement) -> bool:
    """Whether a statement is run for its rows."""
    return kind_of(statement) in ("SELECT", "EXPLAIN")


def judge(statements: Sequence[duckdb.Statement], *, files: bool = False) -> None:
    """An error, before anything runs, unless every statement only reads. `files`: all but LOAD and INSTALL may run."""
    for statement in statements:
        kind = kind_of(statement)
        if files and kind == "LOAD":
            raise QueryRefused(
                "LOAD and INSTALL fetch extensions for DuckDB; --files allows only files. Nothing was run. The "
                "duckdb shell can do it: duckdb -readonly RUN/state.duckdb."
            )
        if not files and kind != "SELECT":
            what = "several in one (a PIVOT must name its values: ON column IN (...))" if kind == "MULTI" else kind
            shown = textwrap.shorten(statement.query, 60, placeholder="...") + ";"
            raise QueryRefused(
                f"Only statements that read are allowed, and this one is {what} ({shown}). Nothing "
                "was run. -o FILE writes rows to a file; --files allows statements that use files, and RUN itself is "
                "never changed."
            )


def spill_folder(run: Run, temp_dir: Path | None = None) -> contextlib.AbstractContextManager[Path]:
    """A folder of its own for what a command that only looks spills, which is removed afterwards.

    It lies in `temp_dir`; else in the run, if that may be written; else among the system's temporary files.
    """
    if temp_dir is not None and not temp_dir.is_dir():
        raise UsageError(f"--temp-dir {temp_dir} is not a folder; create it first.")
    writable = run.path if os.access(run.path, os.W_OK) else Path(tempfile.gettempdir())
    return scratch_folder(temp_dir or writable, "sql")
