"""Comparing every derived table with a recount from scratch, for `streambpe check` and for the tests.

A table's check is sql/checks/TABLE.sql: it returns the rows that do not add up.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from streambpe.count_config import CountConfig
from streambpe.errors import RunError, SourceError
from streambpe.inspect.check_training import check_trainings
from streambpe.resources import Resources
from streambpe.sources.digests import digest_stretches
from streambpe.sources.source import Source
from streambpe.store.chunks import Folded, group_row
from streambpe.store.counted import CorpusDigest, read_rows
from streambpe.store.database import GROUP_COUNTS_FORMAT, append, open_store
from streambpe.store.job import left_to_count
from streambpe.store.merge import merge_ranges, merged_lists
from streambpe.store.parts import Part, Parts, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sequences import check_sequences
from streambpe.store.spans import Spans, SpansByPath
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import ending_command, listed
from streambpe.text.patterns import find_pattern

FOLDED = ("chunk_counts", "sources", "corpus", "source_groups", "group_counts")  # tables that `count RUN` fills again
_MOST_PROBLEMS = 1000  # shown for one table; a damaged table would fill the screen


@dataclass(frozen=True)
class Problem:
    """One row that does not add up."""

    table: str
    what: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.table}: " + ", ".join(str(value) for value in self.what)


def check(run: Path | str, *, rehash_sources: bool = False, resources: Resources | None = None) -> list[Problem]:
    """Recount everything that is committed; returns the rows that differ, at most 1 000 per table. Writes nothing.

    A run may be counting meanwhile, or may have been stopped: parts that the tables do not hold yet are checked by
    themselves, and `what_is_open` names them.
    """
    folder = Run.open(run)
    resources = resources or Resources.from_options()
    try:
        config = CountConfig(**json.loads(folder.facts()["config"]))
        problems, parts = _check_tables(folder, resources, config)
        if config.sequences:
            problems += [Problem("sequences", row) for row in check_sequences(folder, parts)]
    except FileNotFoundError as why:
        raise RunError(
            f"{why.filename} was merged by another process while it was checked. Nothing was changed. Check again, or "
            f"wait until that process is done: `streambpe status {folder.path}`."
        ) from None
    if rehash_sources:
        problems += _check_files(parts.by_path, config)
    return problems


def remedies(run: Path | str, problems: Sequence[Problem]) -> list[str]:
    """How to make the tables that differ right again, as sentences."""
    tables = {problem.table for problem in problems}
    told = []
    if "counts" in tables:
        told.append("A part in counts/ that differs is moved away; its sources are then counted again.")
    if any("." in table for table in tables):
        told.append(
            "Tables of a training (NAME.TABLE) are made anew when its event log is removed and it is trained again; "
            "the counts are kept."
        )
    if tables & set(FOLDED):
        told.append(f"`streambpe count {run}` folds the tables again.")
    return told


def what_is_open(run: Path | str) -> list[str]:
    """What a check could not look at because it is not there yet, and what completes it, as sentences."""
    folder = Run.open(run)
    left, runs = left_to_count(folder)
    if left or runs:
        return [
            f"counting is not finished: {listed(left, runs)}. What is committed was checked. "
            f"{ending_command(folder, left, runs)}."
        ]
    folded = Folded.of(folder, list_parts(folder))
    if folded.new or folded.differs:
        return [
            f"all is counted, and the tables do not hold all of it yet. What is committed was checked. "
            f"`streambpe count {folder.path}` fills them."
        ]
    return []


def _check_tables(run: Run, resources: Resources, config: CountConfig) -> tuple[list[Problem], Parts]:
    """Compare the tables in state.duckdb with the committed parts that they hold, added up again in temporary tables;
    check the other parts by themselves. Returns the problems and all parts."""
    parts = list_parts(run)
    folded = Folded.of(run, parts)
    digest = CorpusDigest()
    con = open_store(
        run.state,
        read_only=True,
        memory_bytes=resources.memory_bytes // 2,
        threads=resources.threads,
        temp_dir=resources.temp_dir or run.path / "tmp",
    )
    with contextlib.closing(con):
        facts = dict(run_sql(con, "get_run"))
        stated = json.loads(facts.get("corpus", "{}")).get("chunks")
        # rows of table sources may be lost: then the total in table run tells what the tables hold
        mine = parts if stated == sum(part.total for part in parts) else folded.held
        range_bytes = max(resources.memory_bytes // 64, 2 << 20)
        run_sql(con, "make_recount")
        for rows in merged_lists(mine, max(resources.memory_bytes // 12, 4 << 20)):
            append(con, "recount", rows.frame())
        for rows in read_rows(con, "chunk_counts", range_bytes):
            digest.add(rows)
        sha256 = str(digest.facts(0)["sha256"])
        version = facts.get("format_version")
        spans = Spans.of_parts(mine).table()
        if version == "1":  # nobody has written to it since: it has no groups
            spans = spans.drop_columns("group_name")
        con.register("recounted_sources", spans)
        found: dict[str, list[tuple[Any, ...]]] = {
            "counts": _check_parts([part for part in parts if part not in mine], resources)
        }
        found["sources"] = run_sql(con, "checks/sources")
        found["chunk_counts"] = run_sql(con, "checks/chunk_counts")
        if "corpus" in facts or mine:
            found["corpus"] = run_sql(con, "checks/corpus", sha256=sha256)
        if version != "1":
            con.register("recounted_groups", _recount_groups(mine, resources).to_arrow())
            found["source_groups"] = run_sql(con, "checks/source_groups")
        if int(version or 0) >= GROUP_COUNTS_FORMAT:
            found["group_counts"] = _check_groups(con, mine, resources)
        for table, row in check_trainings(con, run, mine, sha256, range_bytes, config.unencodable):
            found.setdefault(table, []).append(row)
    return [Problem(table, row) for table, rows in found.items() for row in rows[:_MOST_PROBLEMS]], parts


def _check_parts(parts: Sequence[Part], resources: Resources) -> list[tuple[Any, ...]]:
    """Compare parts that no table holds yet with their own footers."""
    problems: list[tuple[Any, ...]] = []
    for part in parts:
        rows = total = 0
        last = None
        for frame in merge_ranges([part], max(resources.memory_bytes // 12, 4 << 20)):
            rows, total = rows + frame.height, total + int(frame["n"].sum())
            if frame["chunk"].is_duplicated().any() or (last is not None and frame["chunk"][0] <= last):
                problems.append((part.path.name, "a chunk is in it twice"))
            last = frame["chunk"][-1]
        if (rows, total) != (part.rows, part.total):
            problems.append((part.path.name, f"{rows} chunks, {total} in all", f"{part.rows}, {part.total} recorded"))
    return problems


def _check_groups(con: duckdb.DuckDBPyConnection, parts: Sequence[Part], resources: Resources) -> list[tuple[Any, ...]]:
    """Compare table group_counts with the parts of each group."""
    run_sql(con, "make_group_recount")
    if any(part.group_name for part in parts):
        for name, mine in parts_by_group(parts).items():
            for rows in merged_lists(mine, max(resources.memory_bytes // 12, 4 << 20)):
                append(con, "recounted_group_counts", rows.frame().with_columns(group_name=pl.lit(name)))
    return run_sql(con, "checks/group_counts")


def _recount_groups(parts: Sequence[Part], resources: Resources) -> pl.DataFrame:
    """The rows of table source_groups, counted from the parts."""
    rows = []
    if any(part.group_name for part in parts):
        for name, mine in parts_by_group(parts).items():
            digest = CorpusDigest()
            for piece in merged_lists(mine, max(resources.memory_bytes // 12, 4 << 20)):
                digest.add(piece)
            rows.append(group_row(name, mine, digest))
    kinds = dict.fromkeys(("documents", "bytes", "chunks", "distinct"), pl.Int64)
    return pl.DataFrame(rows, schema={"group_name": pl.String, **kinds, "sha256": pl.String})


def _check_files(spans: SpansByPath, config: CountConfig) -> list[Problem]:
    """Read every source file again; its stretches must have the digests that they had when they were counted."""
    pattern = find_pattern(config.pattern, gaps=config.gaps, split_scripts=config.split_scripts)
    problems = []
    for path, mine in spans.items():
        want = {(span.start_at, span.stop_at): span.digest for span in mine if span.digest}
        if mine[0].kind == "iterator" or path == "-" or not want:
            continue
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
