"""Comparing every derived table with a recount of the parts, with the event log, or with what is learned again; for
`streambpe check` and for the tests.

A table's check is sql/checks/TABLE.sql: it returns the rows that do not add up.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import duckdb
import msgspec
import polars as pl

from streambpe.arguments import arguments
from streambpe.count_config import CountConfig
from streambpe.errors import RunError, SourceError, shortened, typed
from streambpe.inspect.asked import spill_folder
from streambpe.inspect.check_training import MOST_PROBLEMS, check_trainings
from streambpe.inspect.learned_again import copy_run, learn_again
from streambpe.inspect.repeats import Repeats, find_repeats
from streambpe.progress import Meter, reported
from streambpe.resources import Resources, release_memory
from streambpe.sources.decode import block_text
from streambpe.sources.digests import digest_stretches
from streambpe.sources.read import Reader
from streambpe.sources.remote.address import has_place
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.store.chunks import Folded, group_row, half_of_spare, range_bytes
from streambpe.store.counted import CorpusDigest, read_rows
from streambpe.store.database import append, open_store
from streambpe.store.merge import merge_ranges, merged_lists
from streambpe.store.parts import Part, Parts, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sequences import check_sequences
from streambpe.store.spans import Spans, SpansByPath
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import left_to_count
from streambpe.text.patterns import Pattern, find_pattern

if TYPE_CHECKING:
    from streambpe.keywords import LimitKeywords

FOLDED = ("chunk_counts", "sources", "corpus", "source_groups", "group_counts")  # tables that `count RUN` fills again


class Problem(msgspec.Struct, frozen=True):
    """One row that does not add up."""

    table: str
    what: tuple[Any, ...]

    def __str__(self) -> str:
        values = ("nothing" if value is None else shortened(str(value), 300) for value in self.what)
        return f"{self.table}: {', '.join(values)}"


@reported("checking")
def check(
    run: Path | str,
    *,
    sources: bool = False,
    replay: bool = False,
    repeats: Callable[[Repeats], None] | None = None,
    resources: Resources | None = None,
    progress: str | Meter = "none",
    told: list[str] | None = None,
    **limits: Unpack[LimitKeywords],
) -> list[Problem]:
    """Recount everything that is committed; returns the rows that differ, at most 1 000 per table. Writes nothing.

    A run may be counting meanwhile, or may have been stopped: parts that the tables do not hold yet are checked by
    themselves, and `what_is_open` names them. `sources`: also read the sources again. `replay`: also learn every
    training again, in a folder that is gone afterwards. `repeats`: read the sources again too, and tell it which of
    their documents repeat one before. `told` gets what was looked at in part only, or not.
    """
    assert isinstance(progress, Meter)
    resources = arguments("check", limits, None, resources).resources
    told, meter = [] if told is None else told, progress
    folder = Run.open(run)
    try:
        config = CountConfig(**json.loads(folder.facts()["config"]))
        with spill_folder(folder, resources.temp_dir) if replay else contextlib.nullcontext() as place:
            problems, parts = _check_tables(folder, resources, config, meter, told, place)
        if config.sequences:
            meter.begin("checking documents")
            problems += [Problem("sequences", row) for row in _check_documents(folder, parts, resources)]
    except FileNotFoundError as why:
        raise RunError(
            f"{why.filename} was merged by another process during the check. Nothing was changed. Check again, or "
            f"wait until that process is done: `streambpe status {typed(folder.path)}`."
        ) from None
    if sources or repeats:
        by_path = parts.by_path
        wrong = _check_files(by_path, config, range_bytes(resources), meter)
        problems += [problem for some in wrong.values() for problem in some]
        if repeats:
            release_memory()
            repeats(find_repeats(folder, by_path, wrong, config, resources, meter, told))
    return problems


def remedies(run: Path | str, problems: Sequence[Problem]) -> list[str]:
    """How to make the tables that differ right again, as sentences."""
    tables = {problem.table for problem in problems}
    told = []
    if "counts" in tables:
        told.append("Move a part in counts/ that differs away; its sources are then counted again.")
    if any("." in table for table in tables):
        told.append(
            "To make the tables of a training (NAME.TABLE) again, remove its event log and train again; the counts "
            "are kept."
        )
    if tables & set(FOLDED):
        told.append(f"`streambpe count {typed(run)}` folds the tables again.")
    return told


def what_is_open(run: Path | str) -> list[str]:
    """What a check could not look at because it is not there yet, and what completes it, as sentences."""
    folder = Run.open(run)
    left = left_to_count(folder)
    if left:
        return [f"counting is not finished: {left}. What is committed was checked. {left.command}."]
    folded = Folded.of(folder, list_parts(folder))
    if folded.new or folded.differs:
        return [
            "everything is counted, and the tables do not have all of it yet. What is committed was checked. "
            f"`streambpe count {typed(folder.path)}` fills them."
        ]
    return []


def _check_tables(
    run: Run, resources: Resources, config: CountConfig, meter: Meter, told: list[str], place: Path | None
) -> tuple[list[Problem], Parts]:
    """Compare the tables in state.duckdb with the committed parts that they hold, added up again in temporary tables;
    check the other parts by themselves. In `place` the trainings are learned again. Returns the problems and all
    parts."""
    parts = list_parts(run)
    folded = Folded.of(run, parts)
    digest = CorpusDigest()
    database = _bounds(run, resources)
    con = open_store(run.state, read_only=True, **database)
    with contextlib.closing(con):
        facts = dict(run_sql(con, "get_run"))
        stated = json.loads(facts.get("corpus", "{}")).get("chunks")
        # rows of table sources may be lost: then the total in table run tells what the tables hold
        mine = parts if stated == sum(part.total for part in parts) else folded.held
        at_once = range_bytes(resources)
        run_sql(con, "make_recount")
        distinct = json.loads(facts.get("corpus", "{}")).get("distinct") or 0
        meter.begin("checking counts", 2 * distinct, "chunks")
        for rows in merged_lists(mine, range_bytes(resources)):
            append(con, "recount", rows.frame())
            meter.advance(len(rows))
        for rows in read_rows(con, "chunk_counts", at_once):
            digest.add(rows)
            meter.advance(len(rows))
        sha256 = str(digest.facts(0)["sha256"])
        con.register("recounted_sources", Parts(mine).spans.table())
        held = {part.path for part in mine}
        found: dict[str, list[tuple[Any, ...]]] = {
            "counts": _check_parts([part for part in parts if part.path not in held], resources)
        }
        found["sources"] = run_sql(con, "checks/sources")
        found["chunk_counts"] = run_sql(con, "checks/chunk_counts")
        if "corpus" in facts or mine:
            found["corpus"] = run_sql(con, "checks/corpus", sha256=sha256)
        con.register("recounted_groups", _recount_groups(con, mine, resources).to_arrow())
        found["source_groups"] = run_sql(con, "checks/source_groups")
        found["group_counts"] = run_sql(con, "checks/group_counts")
        run_sql(con, "make_recount")  # what was added up is needed no more
        run_sql(con, "make_group_recount")
        for table, row in check_trainings(con, run, at_once, meter, told):
            found.setdefault(table, []).append(row)
        scratch = None if place is None else copy_run(run, place / "run", mine)
    if scratch is not None:
        release_memory()
        for table, row in learn_again(scratch, sha256, resources, database, meter, told):
            found.setdefault(table, []).append(row)
    return [Problem(table, row) for table, rows in found.items() for row in rows[:MOST_PROBLEMS]], parts


def _bounds(run: Run, resources: Resources) -> dict[str, Any]:
    """What DuckDB gets here: of memory a third of what is left when the program is loaded.

    A temporary table that outgrows it goes to disk, and while it does DuckDB takes up to 30 MB more than it was given
    (measured: 2 million chunks at 256 MB)."""
    memory = half_of_spare(resources) * 2 // 3
    return {"memory_bytes": memory, "threads": resources.threads, "temp_dir": resources.temp_dir or run.path / "tmp"}


def _check_documents(run: Run, parts: Sequence[Part], resources: Resources) -> list[tuple[Any, ...]]:
    """Compare the stored documents with the counts, in a database of its own."""
    release_memory()
    with contextlib.closing(open_store(":memory:", **_bounds(run, resources))) as con:
        return check_sequences(run, parts, con, range_bytes(resources), MOST_PROBLEMS)


def _check_parts(parts: Sequence[Part], resources: Resources) -> list[tuple[Any, ...]]:
    """Compare parts that no table holds yet with their own footers."""
    problems: list[tuple[Any, ...]] = []
    for part in parts:
        rows = total = 0
        last = None
        for frame in merge_ranges([part], range_bytes(resources)):
            rows, total = rows + frame.height, total + int(frame["n"].sum())
            if frame["chunk"].is_duplicated().any() or (last is not None and frame["chunk"][0] <= last):
                problems.append((part.path.name, "a chunk is in it twice"))
            last = frame["chunk"][-1]
        if (rows, total) != (part.rows, part.total):
            problems.append((part.path.name, f"{rows} distinct, {total} in all", f"{part.rows}, {part.total} recorded"))
    return problems


def _recount_groups(con: duckdb.DuckDBPyConnection, parts: Sequence[Part], resources: Resources) -> pl.DataFrame:
    """The rows of table source_groups, counted from the parts; what group_counts holds, in a temporary table."""
    rows = []
    run_sql(con, "make_group_recount")
    if any(part.group_name for part in parts):
        for name, mine in parts_by_group(parts).items():
            digest = CorpusDigest()
            for piece in merged_lists(mine, range_bytes(resources)):
                digest.add(piece)
                append(con, "recounted_group_counts", piece.frame().with_columns(group_name=pl.lit(name)))
            rows.append(group_row(name, mine, digest))
    kinds = dict.fromkeys(("documents", "bytes", "chunks", "distinct"), pl.Int64)
    return pl.DataFrame(rows, schema={"group_name": pl.String, **kinds, "sha256": pl.String})


def _check_files(spans: SpansByPath, config: CountConfig, at_once: int, meter: Meter) -> dict[str, list[Problem]]:
    """Read every source file again; its stretches must have the digests that they had when they were counted, and as
    many lines as then must be left out. The problems of each source that has any."""
    pattern = find_pattern(config.pattern, gaps=config.gaps, split_scripts=config.split_scripts)
    found = {}
    meter.begin("reading sources", sum(mine[0].file_bytes for mine in spans.values()))
    done = 0
    for path, mine in spans.items():
        meter.done, done = done, done + mine[0].file_bytes
        if mine[0].kind == "iterator" or not has_place(path):
            continue
        problems = list(_check_file(path, mine, path in spans.complete, config, pattern, at_once, meter))
        if problems:
            found[path] = problems
    meter.done = done
    return found


def _check_file(
    path: str, mine: Spans, complete: bool, config: CountConfig, pattern: Pattern, at_once: int, meter: Meter
) -> Iterator[Problem]:
    want = {(span.start_at, span.stop_at): span.digest for span in mine if span.digest}
    if not want:
        return
    source = Source(path, mine[0].kind, mine[0].text_column)  # type: ignore[arg-type]
    try:
        found = {(a, b): digest for a, b, digest in digest_stretches(source, sorted(want), pattern, meter.advance)}
        size, _ = look_at(path)
    except SourceError as why:
        yield Problem("source files", (str(why),))
        return
    if size != mine[0].file_bytes:
        yield Problem("source files", (path, f"it has {size} bytes, and had {mine[0].file_bytes} when it was counted"))
    for (start, stop), digest in sorted(want.items()):
        if found.get((start, stop)) != digest:
            yield Problem("source files", (path, start, stop, "is not what was counted"))
    if config.bad_lines == "skip" and complete and source.kind in ("lines", "jsonl", "csv"):
        bad, told = _bad_lines(replace(source, any_bytes=True), pattern, config, at_once), mine.total("bad_lines")
        if bad != told:
            yield Problem("source files", (path, f"lines left out: {bad}, but {told} when it was counted"))


def _bad_lines(source: Source, pattern: Pattern, config: CountConfig, at_once: int) -> int:
    """How many lines of a source are left out, read again."""
    reader = Reader(pattern, at_once, 1 << 30, whole_lines=config.reads_whole_lines)
    return sum(block_text(block, config.bad_utf8, config.bad_lines).bad_lines for block in reader.blocks(source))
