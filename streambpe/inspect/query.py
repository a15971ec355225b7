"""Looking at a run with SQL, read-only."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, Unpack

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arguments import arguments
from streambpe.errors import LimitError, QueryRefused, RunError, StreambpeError, UsageError, first_line, meant
from streambpe.inspect.asked import judge, parse, returns_rows, spill_folder
from streambpe.inspect.columns import file_form, refuse_equal_names, write_rows
from streambpe.outputs import whole_output
from streambpe.progress import present_meter, reported
from streambpe.resources import BASE_BYTES, SMALLEST_MEMORY_BYTES, Resources, ended_above, format_size
from streambpe.store.database import SCHEMA, VIEWS, list_trainings, open_store, seal, use_committed, use_training
from streambpe.store.identity import refuse_earlier_tables
from streambpe.store.parts import Parts, list_parts
from streambpe.store.run import Run
from streambpe.store.sqlfiles import ROWS_AT_ONCE, described, draw_query, file_damaged, run_query, run_sql, says_damaged
from streambpe.store.unfinished import left_to_count, read_record
from streambpe.terminal import wrapped

if TYPE_CHECKING:
    import polars as pl

    from streambpe.keywords import LimitKeywords

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


class Query(msgspec.Struct):
    """A query of the user's, and how it runs."""

    run: Path | str
    query: str  # SQL, or nothing but the name of a view or table
    name: str = "main"  # the training whose tables are meant
    files: bool = False  # its statements may use files; else they may only read tables
    resources: Resources = Resources(SMALLEST_MEMORY_BYTES, 2)
    tell: Callable[[str], None] | None = None  # told what is left, if RUN is not counted to its end

    def print(self, form: str, out: TextIO, columns: int | None = None) -> None:
        """Write the rows as table (also of several statements), json, jsonl or csv, a block at a time. `columns`: of
        the terminal that a table is drawn for."""
        statements = self._statements(None if form == "table" else f"--{form}")
        with self._sealed() as con:
            if form == "table":
                for statement in statements:
                    out.write(draw_query(con, statement.query, columns))
                return
            blocks = run_query(con, _last_query(con, statements))
            names = next(blocks, None)
            if names is not None:
                write_rows(form, names, blocks, out)

    def write(self, output: Path | str, *, force: bool = False) -> int:
        """Write the rows to a .csv, .json, .jsonl or .parquet file, whole or not at all; returns how many there are."""
        path, form = Path(output), file_form(output, force)
        statements = self._statements(f"-o {path}", for_rows=True)
        with whole_output(path) as temporary, self._sealed(temporary) as con:
            last = _last_query(con, statements)
            if form == "parquet":
                return _write_parquet(con, last, temporary)
            blocks = run_query(con, last)
            with open(temporary, "w", encoding="utf-8", newline="") as out:
                return write_rows(form, next(blocks), blocks, out)

    def frame(self) -> pl.DataFrame:
        """The rows as a frame of Polars."""
        statements = self._statements("A frame", for_rows=True)
        with self._sealed(ends=False) as con, contextlib.closing(con.sql(_last_query(con, statements))) as rows:
            refuse_equal_names(rows.columns)
            frame: pl.DataFrame = rows.pl()
            return frame

    def _statements(self, room: str | None, *, for_rows: bool = False) -> list[duckdb.Statement]:
        """Its statements; an error if one may not run. `room`: what has room for the rows of one statement; None: there
        is room for all. `for_rows`: the last one must have some."""
        names = [entry[0] for entry in list_names()]
        query = f"FROM {self.query}" if self.query in names else self.query
        try:
            statements = parse(query)
        except StreambpeError:
            if not query.isidentifier():
                raise
            raise UsageError(
                f"There is no view or table {query}.{meant(query, names)} `streambpe sql RUN --list` shows them; "
                "anything else must be SQL, in quotes."
            ) from None
        judge(statements, files=self.files)
        if room and any(map(returns_rows, statements[:-1])):
            raise QueryRefused(
                f"{room} has room for the rows of one statement, but several return rows. Nothing was run. Run them "
                "one at a time, or print tables."
            )
        if for_rows and not returns_rows(statements[-1]):
            raise QueryRefused(f"{room}: the query returns no rows. Nothing was run.")
        return statements

    @contextlib.contextmanager
    def _sealed(self, output: Path | None = None, *, ends: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection for the user's own statements, whose errors become clear messages.

        DuckDB does not count what a single value takes, so the process ends where --memory is passed, if it `ends`;
        `output`, which was begun, and what was spilled are removed then.
        """
        folder, bounds = Run.open(self.run), self.resources
        too_large = f"The query needs more than --memory {format_size(bounds.memory_bytes)}"
        with contextlib.ExitStack() as stack:
            spill = stack.enter_context(spill_folder(folder, bounds.temp_dir))

            def last_words() -> str:
                shutil.rmtree(spill, ignore_errors=True)
                if output is not None and output.suffix == ".new":
                    output.unlink(missing_ok=True)
                return f"{too_large}, for values that cannot spill. Nothing was changed. Give it a larger one."

            try:
                # before the tables are open here in another way
                parts = list_parts(folder) if read_record(folder) else Parts([])
                left = left_to_count(folder, parts) if self.tell and read_record(folder) else None
                memory_bytes = bounds.memory_bytes - BASE_BYTES - _UNCOUNTED_BYTES
                con = open_store(
                    folder.state, read_only=True, memory_bytes=memory_bytes, threads=bounds.threads, temp_dir=spill
                )
                stack.enter_context(contextlib.closing(con))
                facts = dict(run_sql(con, "get_run"))
                folder.refuse_other_tables(facts)
                refuse_earlier_tables(folder.state, facts.get("written", ""))
                trainings = list_trainings(con)
                if self.name != "main" and self.name not in trainings:
                    raise RunError(
                        f"{self.run} has no training {self.name} in its tables; it has {', '.join(trainings)}."
                    )
                use_training(con, self.name)
                files = [str(part.path.resolve()) for part in parts]
                if files:
                    use_committed(con, parts.spans.table(), files)
                if self.tell and left:
                    size = format_size(parts.spans.total("text_bytes"))
                    self.tell(left.told(f"chunk_counts and sources show what is committed so far, {size} of text. "))
                seal(con, files=self.files, parts=files)
                with ended_above(bounds.memory_bytes, last_words) if ends else contextlib.nullcontext():
                    yield con
            except duckdb.Error as why:
                raise _explained(why, self.run, self.files, too_large) from None


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
    """The rows of a query as a frame of Polars. `query`: SQL, or nothing but the name of a view or table. `name`: the
    training whose tables are meant. `files`: statements may use files; else they may only read tables.

    `memory` is the limit of DuckDB. The frame comes on top of it, so limit a query that gives many rows.
    """
    return Query(run, query, name, files, arguments("sql", limits, None, resources).resources).frame()


def _last_query(con: duckdb.DuckDBPyConnection, statements: Sequence[duckdb.Statement]) -> str:
    """The query whose rows are asked for, when those before it have run."""
    for statement in statements[:-1]:
        con.execute(statement.query)
    return str(statements[-1].query)


def _explained(why: duckdb.Error, run: Path | str, files: bool, too_large: str) -> StreambpeError:
    """What a user is told of an error of DuckDB, and what to do."""
    first = first_line(why)
    if isinstance(why, duckdb.PermissionException) and not files:
        return QueryRefused(
            f"The query opens a file, but `streambpe sql` only reads RUN's tables: {first}. --files allows it."
        )
    if isinstance(why, duckdb.OutOfMemoryException):
        return LimitError(
            f"{too_large}, or more room to spill ({first}). Nothing was changed. Give it a larger --memory, or a "
            "--temp-dir with more room."
        )
    if isinstance(why, duckdb.IOException) and re.search(r"[/\\]counts[/\\][\w-]+\.parquet", str(why)):
        return RunError(
            f"{run}: counts were merged while the query read them ({first}). Nothing was changed. Give the same "
            "command again."
        )
    if says_damaged(why):
        return file_damaged(why)
    if "'pytz'" in str(why):
        return StreambpeError(
            "A column has times with a time zone, for which Python needs pytz: `pip install pytz`. Or cast it: "
            "column::VARCHAR."
        )
    if extension := _EXTENSION.search(str(why)):
        return QueryRefused(
            f"The query needs DuckDB's extension {extension[1]}, but `streambpe sql` does not load extensions. "
            "Nothing was changed. The duckdb shell can do it: duckdb -readonly RUN/state.duckdb."
        )
    return StreambpeError(f"The query does not run: {why}")


def _write_parquet(con: duckdb.DuckDBPyConnection, query: str, path: Path) -> int:
    """Write rows through Arrow, a batch at a time; sums above 64 bits become decimals of 38 digits. Returns how
    many."""
    written = 0
    # closed, so that the traceback of an error does not keep the database open
    with contextlib.closing(con.sql(query)) as rows:
        refuse_equal_names(rows.columns)
        reader = rows.to_arrow_reader(ROWS_AT_ONCE)
    try:
        with reader, pq.ParquetWriter(path, reader.schema, compression="zstd") as table:
            for batch in reader:
                table.write_batch(batch)
                present_meter().advance(batch.num_rows)
                written += batch.num_rows
        return written
    except pa.ArrowNotImplementedError as why:
        raise QueryRefused(
            f"Parquet cannot store a column of this type ({first_line(why)}). Nothing was written. Cast it, as with "
            "column::VARCHAR, or write .csv."
        ) from None
