"""The counts of a run by buckets of its documents (sources/samples.py): its sources are read once more, by one thread.

    blocks  ->  the documents of each bucket  ->  a table for each bucket  ->  files bucket-NN-*.parquet

The tables together take what a worker's table takes while counting; when they are full, all are written and emptied.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from streambpe.count_config import CountConfig
from streambpe.errors import RunError, SourceChanged, Stopped, UsageError, typed
from streambpe.progress import present_meter
from streambpe.resources import Resources
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.read import Reader
from streambpe.sources.samples import bucketed, sampled
from streambpe.sources.source import Source
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, list_parts, write_part
from streambpe.store.run import Run
from streambpe.store.unfinished import source_of, sources_in_tables
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import stopped_by
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.todo import find_todo
from streambpe.train.counting.worker import prepared

_RANGE_BYTES = 8 << 20
_MOST_FILES = 16  # of a bucket, before they become one


def count_buckets(
    run: Run, place: Path, of: int, resources: Resources, stop: threading.Event | None
) -> list[list[Part]]:
    """The counts of each bucket, as files in `place`. The run is locked, and counted to its end."""
    config = CountConfig(**json.loads(run.facts()["config"]))
    pattern = config.split_pattern(resources.document_seconds)
    refuse_other_tables(run.path, run.facts(), pattern, "reading its documents again")
    sources, policy = _sources_again(run, pattern), config.bad_utf8
    sizes, chunker = Sizes.of(replace(resources, threads=1)), Chunker(pattern)
    tables = [ChunkCounts(chunker, sizes.table) for _ in range(of)]
    parts: list[list[Part]] = [[] for _ in range(of)]
    meter = present_meter()
    reader = Reader(pattern, sizes.block, sizes.most, on_read=meter.advance, whole_lines=True)  # documents, for a hash
    meter.begin("reading sources", sum(source.bytes for source in sources))
    for block in itertools.chain.from_iterable(map(reader.blocks, sources)):
        text = sampled(block, block_text(block, policy, config.bad_lines), config.one_in, policy)
        for number, some in bucketed(block, text, of, policy):
            ready = prepared(block, some, config)
            with naming_documents(block, policy, ready.chosen):
                tables[number].add(ready.text)
        if sum(table.held for table in tables) > sizes.table:
            _write(tables, parts, place)
        if stop is not None and stop.is_set():
            raise Stopped("Stopped.", stopped_by(stop))
    _write(tables, parts, place)
    found = sum(part.total for mine in parts for part in mine)
    counted = sum(part.total for part in list_parts(run))
    if found != counted:
        raise SourceChanged(
            f"The sources of {run.path} now have {found:,} chunks, but {counted:,} were counted. Nothing was changed. "
            f"`streambpe check {typed(run.path)} --sources` says which one changed."
        )
    return parts


def _sources_again(run: Run, pattern: Pattern) -> list[Source]:
    """The sources of a run, all as they were when they were counted."""
    wanted = sources_in_tables(run)
    for one in wanted:
        if one.stream or one.kind in ("counts", "iterator"):
            what = "a table of counts" if one.kind == "counts" else "a stream"
            raise UsageError(
                f"converge reads the sources of {run.path} again, and {one.path} is {what}: its documents are no "
                "longer there. Nothing was changed. Count files into another RUN."
            )
    try:
        sources = [replace(source_of(one), any_bytes=True) for one in wanted]
        gone = next((source.path for source in sources if not source.bytes and not Path(source.path).is_file()), None)
    except OSError as why:
        gone = str(why.filename)
    if gone is not None:
        raise RunError(
            f"converge reads the sources of {run.path} again, and {gone} is gone. Nothing was changed. Put it back."
        )
    find_todo(run, pattern, sources, list_parts(run))  # refuses what changed
    return sources


def _write(tables: Sequence[ChunkCounts], parts: Sequence[list[Part]], place: Path) -> None:
    """Write all tables, and empty them; many files of a bucket become one."""
    for number, (table, mine) in enumerate(zip(tables, parts, strict=True)):
        if table.held:
            mine.append(write_part(place / f"bucket-{number:02d}-{len(mine):02d}.parquet", [table.take()]))
        if len(mine) == _MOST_FILES:
            whole, first = place / f"bucket-{number:02d}-all.parquet", mine[0].path
            merged = write_part(whole, merged_lists(mine, _RANGE_BYTES))
            for part in mine:
                part.path.unlink()
            mine[:] = [msgspec.structs.replace(merged, path=whole.rename(first))]
