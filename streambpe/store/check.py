"""Every derived table against a recount from scratch; `streambpe check` and the tests run the same.

A table's check is sql/checks/TABLE.sql: it returns the rows that do not add up.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from streambpe.config import CountConfig, Resources
from streambpe.encode.patterns import find_pattern
from streambpe.errors import SourceError
from streambpe.store.check_training import check_trainings
from streambpe.store.chunks import (
    CorpusDigest,
    Part,
    Span,
    group_row,
    list_parts,
    merge_ranges,
    parts_by_group,
    spans_frame,
)
from streambpe.store.database import open_store
from streambpe.store.run import Run
from streambpe.store.sequences import check_sequences
from streambpe.store.sources import Source, digest_stretches
from streambpe.store.sqlfiles import run_sql
from streambpe.store.trainings import insert

_MOST_PROBLEMS = 1000  # printed of one table; a damaged one would fill the screen


@dataclass(frozen=True)
class Problem:
    """One row that does not add up."""

    table: str
    what: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.table}: " + ", ".join(str(value) for value in self.what)


def check(run: Path | str, *, rehash_sources: bool = False, resources: Resources | None = None) -> list[Problem]:
    """Recount everything; the rows that differ, at most 1 000 a table. Reads, never writes."""
    folder = Run.open(run)
    resources = resources or Resources.from_options()
    parts = list_parts(folder)
    config = CountConfig(**json.loads(folder.facts()["config"]))
    problems = _check_tables(folder, parts, resources, config)
    spans = [span for part in parts for span in part.spans]
    if config.sequences:
        problems += [Problem("sequences", row) for row in check_sequences(folder, parts)]
    if rehash_sources:
        problems += _check_files(spans, config)
    return problems


def _check_tables(run: Run, parts: list[Part], resources: Resources, config: CountConfig) -> list[Problem]:
    """The tables in state.duckdb against the committed parts, added up again in temporary tables."""
    digest = CorpusDigest()
    con = open_store(
        run.state,
        read_only=True,
        memory_bytes=resources.memory_bytes // 2,
        threads=resources.threads,
        temp_dir=resources.temp_dir or run.path / "tmp",
    )
    with contextlib.closing(con):
        run_sql(con, "steps/make_recount")
        for frame in merge_ranges(parts, max(resources.memory_bytes // 12, 4 << 20)):
            digest.add(frame)
            insert(con, "recount", frame)
        spans = spans_frame(span for part in parts for span in part.spans)
        version = dict(run_sql(con, "steps/get_run")).get("format_version")
        if version == "1":  # not written since: it has no groups
            spans = spans.drop("group_name")
        con.register("recounted_sources", spans.to_arrow())
        sha256 = str(digest.facts(0)["sha256"])
        found: dict[str, list[tuple[Any, ...]]] = {
            "chunk_counts": run_sql(con, "checks/chunk_counts"),
            "sources": run_sql(con, "checks/sources"),
            "corpus": run_sql(con, "checks/corpus", sha256=sha256),
        }
        range_bytes = max(resources.memory_bytes // 64, 2 << 20)
        if version != "1":
            con.register("recounted_groups", _recount_groups(parts, resources).to_arrow())
            found["source_groups"] = run_sql(con, "checks/source_groups")
        for table, row in check_trainings(con, run, parts, sha256, range_bytes, config.unencodable):
            found.setdefault(table, []).append(row)
    return [Problem(table, row) for table, rows in found.items() for row in rows[:_MOST_PROBLEMS]]


def _recount_groups(parts: list[Part], resources: Resources) -> pl.DataFrame:
    """The rows of table source_groups, counted from the parts."""
    rows = []
    if any(part.group_name for part in parts):
        for name, mine in parts_by_group(parts).items():
            digest = CorpusDigest()
            for frame in merge_ranges(mine, max(resources.memory_bytes // 12, 4 << 20)):
                digest.add(frame)
            rows.append(group_row(name, mine, digest))
    kinds = dict.fromkeys(("documents", "bytes", "chunks", "distinct"), pl.Int64)
    return pl.DataFrame(rows, schema={"group_name": pl.String, **kinds, "sha256": pl.String})


def _check_files(spans: list[Span], config: CountConfig) -> list[Problem]:
    """Read every source file again; its stretches must have the digests they were counted with."""
    pattern = find_pattern(config.pattern, gaps=config.gaps, split_scripts=config.split_scripts)
    problems = []
    by_path: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind not in ("iterator",) and span.path != "-" and span.digest:
            by_path.setdefault(span.path, []).append(span)
    for path, mine in sorted(by_path.items()):
        want = {(span.start_at, span.stop_at): span.digest for span in mine}
        source = Source(path, mine[0].kind, mine[0].text_column)  # type: ignore[arg-type]
        try:
            found = {(a, b): digest for a, b, digest in digest_stretches(source, sorted(want), pattern)}
        except SourceError as why:
            problems.append(Problem("source files", (str(why),)))
            continue
        size = Path(path).stat().st_size
        if size != mine[0].file_bytes:
            problems.append(
                Problem("source files", (path, f"has {size} bytes; it was counted with {mine[0].file_bytes}"))
            )
        for (start, stop), digest in sorted(want.items()):
            if found.get((start, stop)) != digest:
                problems.append(Problem("source files", (path, start, stop, "is not what was counted")))
    return problems
