"""Comparing every derived table with a recount of the parts, with the event log, or with what is learned again; for
`streambpe check` and for the tests.

A table's check is sql/checks/TABLE.sql: it returns the rows that do not add up.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import duckdb
import msgspec
import polars as pl

from streambpe.arguments import arguments
from streambpe.count_config import CountConfig
from streambpe.errors import RunError, SourceError, shortened, typed
from streambpe.inspect.asked import spill_folder
from streambpe.inspect.check_training import MOST_PROBLEMS, Row, check_trainings
from streambpe.inspect.learned_again import copy_run, learn_again
from streambpe.progress import present_meter, reported
from streambpe.resources import Resources, release_memory
from streambpe.sources.digests import digest_stretches
from streambpe.sources.remote.address import has_place
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.store.chunks import Folded, group_row, half_of_spare, range_bytes
from streambpe.store.counted import CorpusDigest, read_rows
from streambpe.store.database import append, open_store
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, Parts, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sequences import check_sequences
from streambpe.store.spans import SpansByPath
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import left_to_count

if TYPE_CHECKING:
    from streambpe.keywords import LimitKeywords

FOLDED = ("sources", "chunk_counts", "corpus", "source_groups", "group_counts")  # tables that `count RUN` fills again


class Problem(msgspec.Struct, frozen=True):
    """One row that does not add up."""

    table: str
    what: tuple[Any, ...]

    def __str__(self) -> str:
        values = ("nothing" if value is None else shortened(str(value), 300) for value in self.what)
        return f"{self.table}: {', '.join(values)}"


class Checked(list[Problem]):
    """The rows that do not add up; an empty list if everything does."""

    def __init__(self) -> None:
        super().__init__()
        self.in_part: list[str] = []  # what was looked at in part only, or not at all, as sentences


@reported("checking")
def check(
    run: Path | str,
    *,
    sources: bool = False,
    replay: bool = False,
    resources: Resources | None = None,
    progress: str = "none",
    **limits: Unpack[LimitKeywords],
) -> Checked:
    """Recount everything that is committed; returns the rows that differ, at most 1 000 per table. Writes nothing.

    A run may be counting meanwhile, or may have been stopped: parts that the tables do not hold yet are checked by
    themselves, and `what_is_open` names them. `sources`: also read the sources again. `replay`: also learn every
    training again, in a folder that is gone afterwards.
    """
    resources = arguments("check", limits, None, resources).resources
    checked, folder = Checked(), Run.open(run)
    rows: Counter[str] = Counter()
    try:
        config = CountConfig(**json.loads(folder.facts()["config"]))
        parts = list_parts(folder)
        for table, row in _check_tables(folder, parts, config, resources, checked.in_part, replay):
            rows[table] += 1
            if rows[table] <= MOST_PROBLEMS:
                checked.append(Problem(table, row))
    except FileNotFoundError as why:
        raise RunError(
            f"{why.filename} was merged by another process during the check. Nothing was changed. Check again, or "
            f"wait until that process is done: `streambpe status {typed(folder.path)}`."
        ) from None
    if sources:
        checked += [Problem("source files", row) for row in _check_files(parts.by_path, config)]
    return checked


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
    run: Run, parts: Parts, config: CountConfig, resources: Resources, told: list[str], replay: bool
) -> Iterator[tuple[str, Row]]:
    """(table, row) of what differs: the tables in state.duckdb are compared with the committed parts that they hold,
    added up again in temporary tables; the other parts are checked by themselves, then trainings and documents."""
    held, at_once = Folded.of(run, parts).held, range_bytes(resources)
    memory = half_of_spare(resources) * 2 // 3  # a temporary table that goes to disk takes up to 30 MB more
    database: dict[str, Any] = {
        "memory_bytes": memory, "threads": resources.threads, "temp_dir": resources.temp_dir or run.path / "tmp"
    }  # fmt: skip
    with contextlib.ExitStack() as scratch:
        place = scratch.enter_context(spill_folder(run, resources.temp_dir)) if replay else None
        with contextlib.closing(open_store(run.state, read_only=True, **database)) as con:
            facts = dict(run_sql(con, "get_run"))
            # rows of table sources may be lost: then the total in table run tells what the tables hold
            stated = json.loads(facts.get("corpus", "{}")).get("chunks")
            mine = parts if stated == sum(part.total for part in parts) else held
            mine_paths = {part.path for part in mine}
            for part in parts:
                if part.path not in mine_paths:
                    yield from (("counts", row) for row in _check_part(part, at_once))
            sha256 = yield from _check_counts(con, mine, facts, at_once)
            logs = yield from check_trainings(con, run, at_once, told, keep=replay)
            copy = None if place is None else copy_run(run, place / "run", mine)
        release_memory()
        if copy is not None:
            yield from learn_again(copy, logs, sha256, resources, database, told)
    if config.sequences:
        present_meter().begin("checking documents")
        threads = max(1, min(resources.threads, half_of_spare(resources) >> 27))
        with spill_folder(run, resources.temp_dir) as folder:
            for row in check_sequences(run, parts, folder, range_bytes(resources, 64 << 20), threads, MOST_PROBLEMS):
                yield "sequences", row


def _check_counts(
    con: duckdb.DuckDBPyConnection, parts: Sequence[Part], facts: Mapping[str, str], at_once: int
) -> Generator[tuple[str, Row], None, str]:
    """(table, row) of what differs from the sum of these parts; returns the sha256 of the counts in the tables."""
    digest, meter = CorpusDigest(), present_meter()
    run_sql(con, "make_recount")
    meter.begin("checking counts", 2 * (json.loads(facts.get("corpus", "{}")).get("distinct") or 0), "chunks")
    for rows in merged_lists(parts, at_once):
        append(con, "recount", rows.frame())
        meter.advance(len(rows))
    for rows in read_rows(con, "chunk_counts", at_once):
        digest.add(rows)
        meter.advance(len(rows))
    sha256 = str(digest.facts(0)["sha256"])
    con.register("recounted_sources", Parts(parts).spans.table())
    con.register("recounted_groups", _recount_groups(con, parts, at_once).to_arrow())
    for table in FOLDED:
        if table != "corpus" or "corpus" in facts or parts:
            inputs = {"sha256": sha256} if table == "corpus" else {}
            yield from ((table, row) for row in run_sql(con, f"checks/{table}", **inputs))
    run_sql(con, "make_recount")  # what was added up is needed no more
    run_sql(con, "make_group_recount")
    return sha256


def _check_part(part: Part, at_once: int) -> Iterator[Row]:
    """Compare a part that no table holds yet with its own footer."""
    rows = total = 0
    last = None
    for frame in (piece.frame() for piece in merged_lists([part], at_once)):
        rows, total = rows + frame.height, total + int(frame["n"].sum())
        if frame["chunk"].is_duplicated().any() or (last is not None and frame["chunk"][0] <= last):
            yield part.path.name, "a chunk is in it twice"
        last = frame["chunk"][-1]
    if (rows, total) != (part.rows, part.total):
        yield part.path.name, f"{rows} distinct, {total} in all", f"{part.rows}, {part.total} recorded"


def _recount_groups(con: duckdb.DuckDBPyConnection, parts: Sequence[Part], at_once: int) -> pl.DataFrame:
    """The rows of table source_groups, counted from the parts; what group_counts holds, in a temporary table."""
    rows = []
    run_sql(con, "make_group_recount")
    if any(part.group_name for part in parts):
        for name, mine in parts_by_group(parts).items():
            digest = CorpusDigest()
            for piece in merged_lists(mine, at_once):
                digest.add(piece)
                append(con, "recounted_group_counts", piece.frame().with_columns(group_name=pl.lit(name)))
            rows.append(group_row(name, mine, digest))
    kinds = dict.fromkeys(("documents", "bytes", "chunks", "distinct"), pl.Int64)
    return pl.DataFrame(rows, schema={"group_name": pl.String, **kinds, "sha256": pl.String})


def _check_files(spans: SpansByPath, config: CountConfig) -> Iterator[Row]:
    """Read every source file again; its stretches must have the digests that they had when they were counted."""
    pattern, meter = config.split_pattern(), present_meter()
    meter.begin("reading sources", sum(mine[0].file_bytes for mine in spans.values()))
    done = 0
    for path, mine in spans.items():
        meter.done, done = done, done + mine[0].file_bytes
        want = {(span.start_at, span.stop_at): span.digest for span in mine if span.digest}
        if mine[0].kind == "iterator" or not has_place(path) or not want:
            continue
        source = Source(path, mine[0].kind, mine[0].text_column)  # type: ignore[arg-type]
        try:
            found = {(a, b): digest for a, b, digest in digest_stretches(source, sorted(want), pattern)}
            size, _ = look_at(path)
        except SourceError as why:
            yield (str(why),)
            continue
        if size != mine[0].file_bytes:
            yield path, f"it has {size} bytes, and had {mine[0].file_bytes} when it was counted"
        for stretch, digest in sorted(want.items()):
            if found.get(stretch) != digest:
                yield path, *stretch, "is not what was counted"
    meter.done = done
