"""Moving counts between runs: writing them as tables, and adding runs up. (Reading tables: `count --counts`.)"""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arguments import arguments
from streambpe.count_config import CountConfig
from streambpe.disk import disk_full_explained
from streambpe.errors import RunMismatch, StreambpeError, UsageError
from streambpe.failpoints import failpoint
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import Meter, Reporter, present_meter, reported
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.store.chunks import fold, refuse_edited
from streambpe.store.counted_as import may_skip_from_now_on
from streambpe.store.groups import MOST_GROUPS
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, Parts, check_total, list_parts, next_number, parts_by_group, write_part
from streambpe.store.run import Run, program_versions
from streambpe.store.sequences import copy_documents
from streambpe.store.spans import Span, Spans
from streambpe.store.unfinished import (
    change_record,
    left_to_count,
    read_record,
    refuse_half_counted,
    refuse_leaving,
)

if TYPE_CHECKING:
    from streambpe.keywords import LimitKeywords

_RANGE_BYTES = 32 << 20


@dataclass(frozen=True)
class MergeResult(Result):
    """What `merge_counts` added up."""

    corpus: CorpusFacts
    merged: tuple[str, ...]
    without_documents: tuple[str, ...]  # those of them for which the sum keeps no documents, though others have some


@reported("exporting")
def export_counts(
    run: Path | str,
    output: Path | str,
    *,
    allow_partial: bool = False,
    force: bool = False,
    progress: str = "none",
) -> int:
    """Write a run's committed counts to a .parquet or .csv file, streaming in byte order; how many rows.

    `allow_partial`: also export a run that is not counted to its end; a .parquet file says what was left out. `force`:
    overwrite a file that is there.
    """
    folder, target, meter = Run.open(run), Path(output), present_meter()
    left = left_to_count(folder)
    if not allow_partial:
        left.refuse(", or write what has been counted with --allow-partial")
    if target.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{target}: give the name of a .parquet or .csv file.")
    refuse_existing(target, force)
    config = _config_of(folder)
    expression = config.split_pattern().expression
    parts = list_parts(folder)
    distinct = json.loads(folder.facts().get("corpus", "{}")).get("distinct", 0)
    meter.begin("exporting", 0 if left.sources else distinct, "chunks")
    pieces = merged_lists(parts, _RANGE_BYTES)
    with whole_output(target) as temporary:
        if target.suffix == ".csv":
            with open(temporary, "w", encoding="utf-8", newline="") as out:
                writer = csv.writer(out)
                writer.writerow(("chunk", "count"))
                for rows in pieces:
                    writer.writerows(rows.frame().iter_rows())
                    meter.done += len(rows)
                writer.writerow((expression, 0))
        else:
            facts = {
                "expression": expression,
                "config": vars(config),
                "documents": sum(part.spans.total("documents") for part in parts),
            }
            if left.sources:
                facts["left_out"] = [source.as_fact(whole_path=False) for source in left.sources]
            schema = pa.schema(
                [("chunk", pa.large_string()), ("count", pa.int64())], {"streambpe-counts": json.dumps(facts)}
            )
            with pq.ParquetWriter(temporary, schema, compression="zstd") as table:
                for rows in pieces:
                    table.write_table(pa.table(rows.table().columns, schema=schema))
                    meter.done += len(rows)
    return int(meter.done)


def merge_counts(
    run: Path | str,
    others: Sequence[Path | str],
    *,
    resources: Resources | None = None,
    progress: str = "none",
    **limits: Unpack[LimitKeywords],
) -> MergeResult:
    """Add the counts of other runs to a run, and their documents: a new run keeps them if all others have them. Each
    source group of a run is added whole or not at all. A run that was added before is refused; one that a kill left
    half added is completed. After a kill the same call goes on."""
    target, resources = Run(run), arguments("merge_counts", limits, None, resources).resources
    target.refuse_other_content("merge-counts", [str(other) for other in others])
    opened = [Run.open(other) for other in others]
    for other in opened:
        if os.path.realpath(other.path) == os.path.realpath(target.path):
            raise UsageError(
                f"{other.path} is the RUN to which the others are added, and cannot be added to itself. Nothing was "
                "changed. Name only the others."
            )
        refuse_half_counted(other)
    configs = [_config_of(other) for other in opened]
    if target.state.exists():
        refuse_leaving(target)
        mine = _config_of(target)
    else:
        mine = replace(configs[0], sequences=all(config.sequences for config in configs))
    before, skips = mine.bad_lines, any(config.bad_lines == "skip" for config in configs)
    if skips and (not target.state.exists() or may_skip_from_now_on(target, vars(mine))):
        mine = replace(mine, bad_lines="skip")  # where none is bad, none is left out
    for other, config in zip(opened, configs, strict=True):
        bad_lines = mine.bad_lines if config.bad_lines == "error" else config.bad_lines
        if replace(config, sequences=mine.sequences, bad_lines=bad_lines) != mine:
            raise RunMismatch(
                f"{other.path} was counted with {_told(config)}, {target.path} with {_told(mine)}; such counts cannot "
                "be added up. Nothing was changed."
            )
    tables = _common_tables(opened, target)
    without = [str(other.path) for other, config in zip(opened, configs, strict=True) if not config.sequences]
    if mine.sequences and without:
        raise UsageError(
            f"{target.path} keeps documents, {', '.join(without)} {'has' if len(without) == 1 else 'have'} none: "
            "counted without --sequences. Nothing was changed. Count again with --sequences, or merge into another "
            "RUN, which then has only counts."
        )
    with target.lock(), disk_full_explained(target.path):
        target.tidy()
        if target.state.exists():
            refuse_edited(target, resources, "and adding counts would undo that")
        versions = json.dumps(program_versions())
        target.create({"config": json.dumps(vars(mine)), "versions": versions, **tables})
        if before != mine.bad_lines:
            target.put_facts({"config": json.dumps(vars(mine))})
        meter = Meter("merging", total=len(opened), unit="runs")
        added = read_record(target).runs
        asked = [str(other.path.resolve()) for other in opened]
        change_record(target, runs=(*added, *(path for path in asked if path not in added)))
        failpoint("merge-recorded")
        with Reporter(meter, target.write_status, progress):
            for number, (other, path) in enumerate(zip(opened, asked, strict=True), 1):
                try:
                    _add_run(target, other, resources, again=path in added, documents=mine.sequences)
                except StreambpeError:  # this run is not to be added any more; those after it still are
                    left = tuple(name for name in read_record(target).runs if name not in asked[:number])
                    change_record(target, runs=left)
                    raise
                meter.done += 1
            corpus = fold(target, resources)
        # last of all: what fails before it leaves a record by which the same command goes on
        change_record(target, runs=tuple(name for name in read_record(target).runs if name not in asked))
        lacking = () if mine.sequences or len(without) == len(opened) else tuple(without)
        return MergeResult(corpus, tuple(map(str, others)), lacking)


def _common_tables(others: Sequence[Run], target: Run) -> dict[str, str]:
    """The character tables that all runs are counted with, as the fact of a new run; empty if some runs do not say.

    Runs counted with different ones are refused.
    """
    runs = [*others, target] if target.state.exists() else others
    facts = [run.facts().get("unicode") for run in runs]
    known = {json.loads(fact)["digest"]: (run, json.loads(fact)) for run, fact in zip(runs, facts, strict=True) if fact}
    if len(known) > 1:
        (one, a), (other, b), *_ = known.values()
        raise RunMismatch(
            f"{one.path} was counted with the character tables of Unicode {a['version']} (regex {a['regex']}), "
            f"{other.path} with those of {b['version']} (regex {b['regex']}), which differ; such counts cannot be "
            "added up. Nothing was changed."
        )
    return {"unicode": facts[0]} if facts[0] and all(facts) else {}


def _add_run(target: Run, other: Run, resources: Resources, *, again: bool, documents: bool) -> None:
    """Add one run, with its documents or without; `again`: an earlier merge was killed, so it may have been added."""
    parts, mine = list_parts(other), list_parts(target, clean=True)
    size = sum(part.spans.total("text_bytes") for part in parts)
    check_total(mine, sum(part.total for part in parts), size, str(other.path))
    groups = parts_by_group(parts)
    if len(groups.keys() | parts_by_group(mine).keys()) > MOST_GROUPS:
        raise UsageError(f"With {other.path} {target.path} would have more than {MOST_GROUPS} source groups.")
    paths, held = set(mine.spans.values("path")), _contents(mine).keys()
    # after a kill between two groups, some were added already
    left = [group for group in groups.values() if not _contents(group).keys() <= held]
    if again and not left:
        return
    for group in left or groups.values():
        for content, path in _contents(group).items():
            if content in held:
                raise UsageError(
                    f"{path} was counted in both {other.path} and {target.path}: merged, it would count twice. Nothing "
                    f"of {other.path} was added; the RUNs before it in the command were added."
                )
        _add_group(target, other, group, resources, paths, documents)


def _add_group(
    target: Run, other: Run, parts: Sequence[Part], resources: Resources, paths: set[str], documents: bool
) -> None:
    """Add the parts of a source group as one part. `paths`: of the target's own sources."""
    number = next_number(target)
    name = f"part-{number:05d}"
    # a path that both runs have is another file, on another machine
    of_other = str(other.path.resolve())
    theirs = Parts(parts).spans
    spans = theirs.with_texts("path", lambda path: f"{of_other}:{path}" if path in paths else path)
    if documents:  # their part is the one whose file of documents holds them
        names = {part: f"part-{number + 1 + i:05d}" for i, part in enumerate(theirs.values("part"))}
        spans = spans.with_texts("part", lambda part: names.get(part, part))
        _copy_documents(other, target, theirs, spans)
    else:
        spans = spans.with_texts("part", lambda _: name)
    pieces = merged_lists(parts, max(resources.memory_bytes // 12, 4 << 20))
    write_part(target.counts / f"{name}.parquet", pieces, spans, run=target.number)


def _copy_documents(other: Run, target: Run, theirs: Spans, ours: Spans) -> None:
    """Copy the documents of these stretches, part after part. They count once a part of counts names them."""
    by_place = theirs.order()
    by_part = by_place[np.argsort(theirs.column("part")[by_place], kind="stable")]
    pairs = zip(theirs.where(by_part), ours.where(by_part), strict=True)
    for _, both in itertools.groupby(pairs, key=lambda pair: pair[0].part):
        old, new = zip(*both, strict=True)
        copy_documents(other, target, old, new)
    failpoint("merge-documents")


def _contents(parts: Sequence[Part]) -> dict[tuple[str, ...], str]:
    """What identifies the sources of these parts, each with its path."""
    spans = Parts(parts).spans
    files = spans.where(spans.column("file_bytes") != 0).firsts("path", "file_bytes", "mtime_ns")
    streams = spans.where(spans.column("file_bytes") == 0)
    return {_content(span): span.path for some in (files, streams) for span in some}


def _content(span: Span) -> tuple[str, ...]:
    """What identifies a source: a file's name, size and time, in whatever stretches; a stream's name and bytes."""
    name = span.path.rsplit(":", 1)[-1]  # a merge puts the run's name before it
    if span.file_bytes:
        return name, str(span.file_bytes), str(span.mtime_ns)
    return name, str(span.start_at), str(span.stop_at), span.digest


def _config_of(run: Run) -> CountConfig:
    return CountConfig(**json.loads(run.facts()["config"]))


def _told(config: CountConfig) -> str:
    return ", ".join(f"{key} {value}" for key, value in vars(config).items() if key != "sequences")
