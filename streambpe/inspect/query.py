"""Looking at a run with SQL, read-only."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arguments import arguments
from streambpe.errors import LimitError, QueryRefused, RunError, StreambpeError, UsageError, meant
from streambpe.inspect.asked import judge, parse, returns_rows, spill_folder
from streambpe.inspect.columns import refuse_equal_names, write_rows
from streambpe.inspect.committed import Committed, look_up_committed
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import Meter, reported
from streambpe.resources import BASE_BYTES, SMALLEST_MEMORY_BYTES, Resources, ended_above, format_size
from streambpe.store.database import SCHEMA, VIEWS, list_trainings, open_store, seal, use_committed, use_training
from streambpe.store.identity import refuse_earlier_tables
from streambpe.store.run import Run
from streambpe.store.sqlfiles import described, draw_query, file_damaged, run_query, run_sql, says_damaged
from streambpe.terminal import wrapped

if TYPE_CHECKING:
    import polars as pl

    from streambpe.keywords import LimitKeywords

FILE_FORMS = ("csv", "json", "jsonl", "parquet")
_ROWS_AT_ONCE = 10_000
_UNCOUNTED_BYTES = 32 << 20  # that DuckDB takes for a query beside its buffers
_EXTENSION = re.compile(r"\b(?:exists in|loading) the (\w+) extension")


def list_names() -> list[tuple[str, str, str]]:
    """(name, "view" or "table", what one row is) of everything that a query may read; views first."""
    views = [(what, "view", text) for view in VIEWS for what, text in described(f"views/{view}")]
    tables = [(what, "table", text) for table in SCHEMA for what, text in described(f"schema/{table}")]
    return sorted(views) + sorted(tables)


def print_names(form: str, out: TextIO, columns: int | None = None) -> None:
    """Write `list_names` to `out` as table, json, jsonl or csv. `columns`: of a terminal; long lines are broken."""
    names = list_names()
    if form == "table":
        width = max(len(name) for name, _, _ in names)
        for kind in ("view", "table"):
            out.write(f"{kind}s\n")
            for name, what, text in names:
                if what == kind:
                    out.write(wrapped(f"  {name:{width}}  {text}", columns, width + 2) + "\n")
        return
    write_rows(form, ["name", "kind", "one row is"], iter([names]), out)


def print_query(
    run: Path | str,
    query: str,
    form: str,
    out: TextIO,
    name: str = "main",
    *,
    files: bool = False,
    resources: Resources | None = None,
    tell: Callable[[str], None] | None = None,
    meter: Meter | None = None,
    columns: int | None = None,
) -> None:
    """Write a query's rows to `out` as table (also of several statements), json, jsonl or csv, a block at a time.

    `query`: SQL, or nothing but the name of a view or table. `name`: the training whose tables are meant. `files`: the
    query's statements may use files; without it they may only read tables. `tell`: told how far a count is, if RUN is
    not counted to its end: then chunk_counts and sources are what is committed. `meter` is told how many rows came.
    `columns`: of the terminal that a table is drawn for.
    """
    statements = _asked(query, files)
    if form != "table":
        _refuse_several(statements, f"--{form}")
    with _sealed(run, name, files, resources, tell) as con:
        for statement in statements:
            if form == "table":
                out.write(draw_query(con, statement.query, columns))
                continue
            blocks = run_query(con, statement.query)
            names = next(blocks, None)
            if names is not None and statement is statements[-1]:
                write_rows(form, names, _counted(blocks, meter or Meter("asking")), out)


def write_query(
    run: Path | str,
    query: str,
    output: Path | str,
    name: str = "main",
    *,
    force: bool = False,
    files: bool = False,
    resources: Resources | None = None,
    tell: Callable[[str], None] | None = None,
    meter: Meter | None = None,
) -> int:
    """As print_query, to a .csv, .json, .jsonl or .parquet file, whole or not at all; returns how many rows."""
    path = Path(output)
    form = path.suffix.removeprefix(".")
    if form not in FILE_FORMS:
        raise UsageError(
            f"{path}: rows can be written as {', '.join('.' + known for known in FILE_FORMS)}; give such a name."
        )
    refuse_existing(path, force)
    statements = _asked(query, files)
    _refuse_several(statements, f"-o {path}")
    if not returns_rows(statements[-1]):
        raise QueryRefused(f"-o {path}: the query returns no rows to write. Nothing was run.")
    with whole_output(path) as temporary, _sealed(run, name, files, resources, tell, temporary) as con:
        for statement in statements[:-1]:
            con.execute(statement.query)
        meter = meter or Meter("asking", unit="rows")
        if form == "parquet":
            return _write_parquet(con, statements[-1].query, temporary, meter)
        blocks = run_query(con, statements[-1].query)
        with open(temporary, "w", encoding="utf-8", newline="") as out:
            write_rows(form, next(blocks), _counted(blocks, meter), out)
        return meter.done


@reported("asking", "rows")
def sql(
    run: Path | str,
    query: str,
    *,
    name: str = "main",
    files: bool = False,
    resources: Resources | None = None,
    progress: str = "none",
    **limits: Unpack[LimitKeywords],
) -> pl.DataFrame:
    """The rows of a query as a frame of Polars; `query`, `name` and `files` as for print_query.

    `memory` is the limit of DuckDB. The frame comes on top of it, so limit a query that gives many rows.
    """
    bounds, statements = arguments("sql", limits, None, resources).resources, _asked(query, files)
    _refuse_several(statements, "A frame")
    if not returns_rows(statements[-1]):
        raise QueryRefused("The query returns no rows. Nothing was run.")
    with _sealed(run, name, files, bounds, ends=False) as con:
        for statement in statements[:-1]:
            con.execute(statement.query)
        rows = con.sql(statements[-1].query)
        refuse_equal_names(rows.columns)
        frame: pl.DataFrame = rows.pl()
        return frame


def _asked(query: str, files: bool) -> list[duckdb.Statement]:
    """The statements of a query; an error if one may not run."""
    names = [entry[0] for entry in list_names()]
    if query in names:
        query = f"FROM {query}"
    try:
        statements = parse(query)
    except StreambpeError:
        if not query.isidentifier():
            raise
        raise UsageError(
            f"There is no view or table {query}.{meant(query, names)} `streambpe sql RUN --list` shows them; anything "
            "else must be SQL, in quotes."
        ) from None
    judge(statements, files=files)
    return statements


def _refuse_several(statements: Sequence[duckdb.Statement], asked: str) -> None:
    if any(map(returns_rows, statements[:-1])):
        raise QueryRefused(
            f"{asked} has room for the rows of one statement, but several return rows. Nothing was run. Run them one "
            "at a time, or print tables."
        )


@contextlib.contextmanager
def _opened(run: Run, bounds: Resources, spill: Path) -> Iterator[tuple[duckdb.DuckDBPyConnection, Committed | None]]:
    """The tables, read-only, and what is committed beside them. While they are open nobody writes to them."""
    while True:
        committed = look_up_committed(run)
        limits = {"memory_bytes": bounds.memory_bytes - BASE_BYTES - _UNCOUNTED_BYTES, "threads": bounds.threads}
        with contextlib.closing(open_store(run.state, read_only=True, temp_dir=spill, **limits)) as con:
            if committed is None or committed.facts == dict(run_sql(con, "get_run")):
                yield con, committed
                return  # else a fold came between: look again


@contextlib.contextmanager
def _sealed(
    run: Path | str,
    name: str,
    files: bool,
    resources: Resources | None,
    tell: Callable[[str], None] | None = None,
    output: Path | None = None,
    ends: bool = True,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection for the user's own statements, whose errors become clear messages.

    DuckDB does not count what a single value takes, so the process ends where --memory is passed, if it `ends`;
    `output`, which was begun, and what was spilled are removed then.
    """
    folder = Run.open(run)
    bounds = resources or Resources(SMALLEST_MEMORY_BYTES, 2)
    try:
        with spill_folder(folder, bounds.temp_dir) as spill, _opened(folder, bounds, spill) as (con, committed):

            def last_words() -> str:
                shutil.rmtree(spill, ignore_errors=True)
                if output is not None and output.suffix == ".new":
                    output.unlink(missing_ok=True)
                return f"{_too_large(bounds)}, for values that cannot spill. Nothing was changed. Give it a larger one."

            facts = dict(run_sql(con, "get_run"))
            folder.refuse_other_tables(facts)
            refuse_earlier_tables(folder.state, facts.get("written", ""))
            trainings = list_trainings(con)
            if name != "main" and name not in trainings:
                raise RunError(f"{run} has no training {name} in its tables; it has {', '.join(trainings)}.")
            use_training(con, name)
            if committed is not None and committed.files:
                use_committed(con, committed.parts.spans.table(), committed.files, held=committed.held)
            if committed is not None and tell is not None:
                tell(committed.told)
            seal(con, files=files, parts=committed.files if committed else ())
            with ended_above(bounds.memory_bytes, last_words) if ends else contextlib.nullcontext():
                yield con
    except duckdb.PermissionException as why:
        if files:
            raise QueryRefused(f"The query does not run: {why}") from None
        raise QueryRefused(
            f"The query opens a file, but `streambpe sql` only reads RUN's tables: {_first_line(why)}. --files allows "
            "it."
        ) from None
    except duckdb.OutOfMemoryException as why:
        raise LimitError(
            f"{_too_large(bounds)}, or more room to spill ({_first_line(why)}). Nothing was changed. Give it a larger "
            f"--memory, or a --temp-dir with more room."
        ) from None
    except duckdb.Error as why:
        if isinstance(why, duckdb.IOException) and re.search(r"[/\\]counts[/\\][\w-]+\.parquet", str(why)):
            raise RunError(
                f"{run}: counts were folded while the query read them ({_first_line(why)}). Nothing was changed. Give "
                "the same command again."
            ) from None
        if says_damaged(why):
            raise file_damaged(why) from None
        if "'pytz'" in str(why):
            raise StreambpeError(
                "A column has times with a time zone, for which Python needs pytz: `pip install pytz`. Or cast it: "
                "column::VARCHAR."
            ) from None
        if extension := _EXTENSION.search(str(why)):
            raise QueryRefused(
                f"The query needs DuckDB's extension {extension[1]}, but `streambpe sql` does not load extensions. "
                "Nothing was changed. The duckdb shell can do it: duckdb -readonly RUN/state.duckdb."
            ) from None
        raise StreambpeError(f"The query does not run: {why}") from None


def _too_large(bounds: Resources) -> str:
    return f"The query needs more than --memory {format_size(bounds.memory_bytes)}"


def _counted(blocks: Iterator[list[Any]], meter: Meter) -> Iterator[list[Any]]:
    """The blocks of rows; the meter is told how many rows there were so far."""
    for rows in blocks:
        meter.advance(len(rows))
        yield rows


def _write_parquet(con: duckdb.DuckDBPyConnection, query: str, path: Path, meter: Meter) -> int:
    """Write rows through Arrow, a batch at a time; sums above 64 bits become decimals of 38 digits."""
    reader = con.sql(query).to_arrow_reader(_ROWS_AT_ONCE)
    refuse_equal_names(reader.schema.names)
    try:
        with pq.ParquetWriter(path, reader.schema, compression="zstd") as table:
            for batch in reader:
                table.write_batch(batch)
                meter.advance(batch.num_rows)
    except pa.ArrowNotImplementedError as why:
        raise QueryRefused(
            f"Parquet cannot store a column of this type ({_first_line(why)}). Nothing was written. Cast it, as with "
            "column::VARCHAR, or write .csv."
        ) from None
    return meter.done


def _first_line(why: Exception) -> str:
    return str(why).splitlines()[0]
