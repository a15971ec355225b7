"""Counts between runs: tables out, runs added up. (Tables in: `count --counts`.)"""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.config import CountConfig, Resources
from streambpe.encode.patterns import find_pattern
from streambpe.errors import RunMismatch, UsageError
from streambpe.progress import Meter, Reporter
from streambpe.store.chunks import (
    Part,
    PartWriter,
    Span,
    check_total,
    fold,
    list_parts,
    merge_ranges,
    next_number,
    parts_by_group,
)
from streambpe.store.database import fsync_file
from streambpe.store.groups import MOST_GROUPS, group_parts
from streambpe.store.run import Run, disk_full_explained, program_versions

_RANGE_BYTES = 32 << 20


def export_counts(run: Path | str, output: Path | str, group: str | None = None) -> int:
    """Write a run's committed counts to a .parquet or .csv file; how many rows. Streams in byte order.

    `group`: only those of one source group.
    """
    folder, target = Run.open(run), Path(output)
    if target.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{target}: name a .parquet or a .csv file.")
    config = CountConfig(**json.loads(folder.facts()["config"]))
    expression = find_pattern(config.pattern, gaps=config.gaps).expression
    parts = list_parts(folder) if group is None else group_parts(folder, group)
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is no folder; nothing was written.")
    temporary = target.with_name(target.name + ".new")
    rows = 0
    try:
        if target.suffix == ".csv":
            with open(temporary, "w", encoding="utf-8", newline="") as out:
                writer = csv.writer(out)
                writer.writerow(("chunk", "count"))
                for frame in merge_ranges(parts, _RANGE_BYTES):
                    writer.writerows(frame.iter_rows())
                    rows += frame.height
                writer.writerow((expression, 0))
        else:
            facts = {
                "expression": expression,
                "config": config.as_facts(),
                "documents": sum(span.documents for part in parts for span in part.spans),
            }
            schema = pa.schema(
                [("chunk", pa.large_string()), ("count", pa.int64())], {"streambpe-counts": json.dumps(facts)}
            )
            with pq.ParquetWriter(temporary, schema, compression="zstd") as table:
                for frame in merge_ranges(parts, _RANGE_BYTES):
                    table.write_table(pa.table([frame["chunk"].to_arrow(), frame["n"].to_arrow()], schema=schema))
                    rows += frame.height
        fsync_file(temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return rows


def merge_runs(
    run: Path | str, others: Sequence[Path | str], resources: Resources, progress: str = "none"
) -> dict[str, int | str]:
    """Add the counts of other runs to a run. All or nothing for each source group of a run; a run that was added
    before is refused, one that a kill left half added is completed."""
    target = Run(run)
    opened = [Run.open(other) for other in others]
    configs = [CountConfig(**json.loads(other.facts()["config"])) for other in opened]
    if target.state.exists():
        mine = CountConfig(**json.loads(target.facts()["config"]))
    else:
        mine = replace(configs[0], sequences=False)
    for other, config in zip(opened, configs, strict=True):
        if replace(config, sequences=mine.sequences) != mine:
            raise RunMismatch(
                f"{other.path} was counted with {_told(config)}, {target.path} with {_told(mine)}; such counts do "
                f"not add up. Nothing was changed."
            )
    if mine.sequences:
        raise UsageError(f"{target.path} keeps sequences; merge-counts adds counts only. Merge into another RUN.")
    with target.lock(), disk_full_explained(target.path):
        target.create({"config": json.dumps(mine.as_facts()), "versions": json.dumps(program_versions())})
        meter = Meter("merging", total=len(opened), unit="runs")
        with Reporter(meter, target, progress):
            for other in opened:
                _add_run(target, other, resources)
                meter.done += 1
            return fold(
                target,
                memory_bytes=resources.memory_bytes,
                threads=resources.threads,
                temp_dir=resources.temp_dir,
            )


def _add_run(target: Run, other: Run, resources: Resources) -> None:
    parts, mine = list_parts(other), list_parts(target)
    size = sum(span.text_bytes for part in parts for span in part.spans)
    check_total(mine, sum(part.total for part in parts), size, str(other.path))
    held = [span for part in mine for span in part.spans]
    paths = {span.path for span in held}
    contents = {_content(span) for span in held}
    groups = parts_by_group(parts)
    if len(groups.keys() | parts_by_group(mine).keys()) > MOST_GROUPS:
        raise UsageError(f"With {other.path} {target.path} would have more than {MOST_GROUPS} source groups, the most.")
    # a kill between two groups of a run: those that are whole are added already
    left = {g: p for g, p in groups.items() if not contents.issuperset(_content(s) for part in p for s in part.spans)}
    for group in (left or groups).values():
        _add_group(target, other, group, resources, paths, contents)


def _add_group(
    target: Run,
    other: Run,
    parts: Sequence[Part],
    resources: Resources,
    paths: set[str],
    contents: set[tuple[str, ...]],
) -> None:
    name = f"part-{next_number(target):05d}"
    spans = []
    for span in (span for part in parts for span in part.spans):
        if _content(span) in contents:
            raise UsageError(
                f"{span.path} is counted in {target.path} already, and in {other.path}; merging would count it "
                f"twice. Runs merged before this one are kept, nothing of this one was added."
            )
        # the same name on another machine is another file
        path = span.path if span.path not in paths else f"{other.path.resolve()}:{span.path}"
        spans.append(replace(span, path=path, part=name))
    writer = PartWriter(target.counts / f"{name}.parquet")
    try:
        for frame in merge_ranges(parts, max(resources.memory_bytes // 12, 4 << 20)):
            writer.write(frame)
        writer.commit(spans)
    finally:
        with contextlib.suppress(OSError):
            writer.abandon()


def _content(span: Span) -> tuple[str, ...]:
    """What makes a source the one it is: the same file, in whatever stretches; of a stream, the same bytes."""
    name = span.path.rsplit(":", 1)[-1]  # a merge puts the run's name before it
    if span.file_bytes:
        return name, str(span.file_bytes), str(span.mtime_ns)
    return name, str(span.start_at), str(span.stop_at), span.digest


def _told(config: CountConfig) -> str:
    facts: dict[str, Any] = config.as_facts()
    return ", ".join(f"{key} {value}" for key, value in facts.items() if key != "sequences")
