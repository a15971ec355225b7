"""Looking at a run with SQL, read-only."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import duckdb

from streambpe.errors import RunError, StreambpeError
from streambpe.store.database import list_trainings, open_store, use_training
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_query, show_query


def print_query(run: Path | str, query: str, form: str, out: TextIO, name: str = "main") -> None:
    """Write a query's rows to `out` as a table, JSON or CSV, a block of rows at a time.

    `name`: the training whose tables and views are meant.
    """
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
            if names is None:
                return
            if form == "csv":
                writer = csv.writer(out, lineterminator="\n")
                writer.writerow(names)
                for rows in blocks:
                    writer.writerows(rows)
            else:
                _write_json(names, blocks, out)
        except duckdb.Error as why:
            raise StreambpeError(f"The query does not run: {why}") from None


def _write_json(names: list[str], blocks: Iterator[list[Any]], out: TextIO) -> None:
    out.write("[")
    first = True
    for rows in blocks:
        for row in rows:
            plain = [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in row]  # JSON has no NaN
            out.write(("" if first else ",") + "\n" + json.dumps(dict(zip(names, plain, strict=True)), default=_plain))
            first = False
    out.write("\n]\n")


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
