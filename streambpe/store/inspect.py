"""Looking at a run with SQL, read-only."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import duckdb

from streambpe.errors import RunError, StreambpeError
from streambpe.store.database import SCHEMA, VIEWS, list_trainings, open_store, use_training
from streambpe.store.run import Run
from streambpe.store.sqlfiles import described, run_query, show_query

FORMS = ("table", "json", "jsonl", "csv")


def list_names() -> list[tuple[str, str, str]]:
    """(name, "view" or "table", what one row is) of everything a query may ask for; views first."""
    views = [(what, "view", text) for view in VIEWS for what, text in described(f"views/{view}")]
    tables = [(what, "table", text) for table in SCHEMA for what, text in described(f"schema/{table}")]
    return sorted(views) + sorted(tables)


def print_names(form: str, out: TextIO) -> None:
    """Write `list_names` to `out` in one of FORMS."""
    names = list_names()
    if form == "table":
        width = max(len(name) for name, _, _ in names)
        for kind in ("view", "table"):
            out.write(f"{kind}s\n")
            for name, what, text in names:
                if what == kind:
                    out.write(f"  {name:{width}}  {text}\n")
        return
    _write(form, ["name", "kind", "one row is"], iter([names]), out)


def print_query(run: Path | str, query: str, form: str, out: TextIO, name: str = "main") -> None:
    """Write a query's rows to `out` in one of FORMS, a block of rows at a time.

    `query`: SQL, or nothing but the name of a view or table. `name`: the training whose tables are meant.
    """
    if query in [entry[0] for entry in list_names()]:
        query = f"FROM {query}"
    with contextlib.closing(open_store(Run.open(run).state, read_only=True)) as con:
        trainings = list_trainings(con)
        if name != "main" and name not in trainings:
            raise RunError(f"{run} has no training {name} in its tables; it has {', '.join(trainings)}.")
        use_training(con, name)
        try:
            if form == "table":
                show_query(con, query)
                return
            blocks = run_query(con, query)
            names = next(blocks, None)
            if names is not None:
                _write(form, names, blocks, out)
        except duckdb.Error as why:
            Run.open(run).refuse_old()
            raise StreambpeError(f"The query does not run: {why}") from None


def _write(form: str, names: Any, blocks: Iterator[Any], out: TextIO) -> None:
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for rows in blocks:
            writer.writerows(rows)
    elif form == "jsonl":
        for rows in blocks:
            for row in rows:
                out.write(_json_row(names, row) + "\n")
    else:
        out.write("[")
        first = True
        for rows in blocks:
            for row in rows:
                out.write(("" if first else ",") + "\n" + _json_row(names, row))
                first = False
        out.write("\n]\n")


def _json_row(names: list[str], row: Sequence[Any]) -> str:
    plain = [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in row]  # JSON has no NaN
    return json.dumps(dict(zip(names, plain, strict=True)), default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
