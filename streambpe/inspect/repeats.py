"""How many documents of a run repeat one before them: its sources are read once more, by one thread.

    documents  ->  their hashes (sources/samples.py) and places, a table of DuckDB  ->  GROUP BY hash

Two documents are the same if all 128 bits of their hashes are. A hash and its place take 24 bytes, and DuckDB puts what
does not fit memory on disk. Order is that of the sources' names and of the places in them, so threads, processes,
memory and kills of the count play no part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streambpe.arrays import UInt64, hash_rows
from streambpe.count_config import CountConfig
from streambpe.disk import disk_full_explained
from streambpe.later import polars as pl
from streambpe.plurals import counted
from streambpe.progress import present_meter
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.remote.address import has_place
from streambpe.sources.samples import documents_of, is_chosen, sampled, text_hash
from streambpe.sources.source import Source
from streambpe.store.chunks import half_of_spare
from streambpe.store.database import append, open_store
from streambpe.store.run import Run
from streambpe.store.spans import Spans, SpansByPath
from streambpe.store.sqlfiles import run_sql
from streambpe.text.patterns import Pattern
from streambpe.train.counting.sizes import Sizes

_NUMBER_BITS = 40  # a place is the number of a source, and below it that of the document there
_ROWS_AT_ONCE = 1 << 14
_TOLD_SOURCES, _NOT_COMPARED = 5, 3  # named: those that repeat, and those that were left out
_NO_FILES = ("iterator", "counts")  # kinds of source whose documents are not there any more


@dataclass(frozen=True)
class Repeats(Result):
    """Which documents repeat one before."""

    documents: int = 0
    repeated: int = 0  # those that an equal one stands before
    by_source: dict[str, int] = field(default_factory=dict)  # how many of these each source has
    most: int = 0  # how often the one stands there that is there most often
    first: tuple[str, int] = ("", 0)  # the source of its first copy, and its number there, from 1

    def as_json(self) -> dict[str, Any]:
        """For `check --json`."""
        first = {"source": self.first[0], "document": self.first[1], "times": self.most} if self.repeated else None
        return {
            "documents": self.documents, "repeated": self.repeated, "by_source": self.by_source, "most_often": first
        }  # fmt: skip

    def told(self) -> Iterator[str]:
        """As sentences."""
        if not self.repeated:
            compared = counted(self.documents, "document was", "documents were")
            yield f"no document occurs twice ({compared} compared)."
            return
        share = 100 * self.repeated / self.documents
        least = f"{share:.1f} %" if share >= 0.05 else "less than 0.1 %"
        repeat = "repeats" if self.repeated == 1 else "repeat"
        yield f"{self.repeated:,} of {self.documents:,} documents ({least}) {repeat} an earlier one."
        path, number = self.first
        yield f"document {number:,} of {path} occurs most often: {self.most:,} times."
        if len(self.by_source) > 1 or path not in self.by_source:
            paths = sorted(self.by_source, key=lambda path: (-self.by_source[path], path))
            named = ", ".join(f"{path} ({self.by_source[path]:,})" for path in paths[:_TOLD_SOURCES])
            more = f" and {counted(len(paths) - _TOLD_SOURCES, 'more source')}" if len(paths) > _TOLD_SOURCES else ""
            yield f"the repeating ones are in {named}{more}."


def find_repeats(
    run: Run, by_path: SpansByPath, wrong: Collection[str], config: CountConfig, resources: Resources, told: list[str]
) -> Repeats:
    """The repeated documents of all sources that are counted to their end and can be read again; those in `wrong` are
    not what was counted. `told` is told of the others."""
    sources, left = {}, []
    for path, spans in by_path.items():
        if path in by_path.complete and path not in wrong and has_place(path) and spans[0].kind not in _NO_FILES:
            sources[path] = spans
        else:
            left.append(path)
    if left:
        more = f" and {counted(len(left) - _NOT_COMPARED, 'more source')}" if len(left) > _NOT_COMPARED else ""
        told.append(
            f"{', '.join(left[:_NOT_COMPARED])}{more}: not compared, because only files that are completely counted "
            "and have not changed can be read again."
        )
    folder = resources.temp_dir or run.path / "tmp"
    memory_bytes, threads = half_of_spare(resources), resources.threads
    present_meter().begin("comparing documents", sum(spans[0].file_bytes for spans in sources.values()))
    with (
        disk_full_explained(folder),
        contextlib.closing(open_store(":memory:", memory_bytes=memory_bytes, threads=threads, temp_dir=folder)) as con,
    ):
        run_sql(con, "make_hashed_documents")
        for rows in _together(_hashed(sources, config, Sizes.of(resources))):
            append(con, "hashed_documents", pl.DataFrame(rows, schema=["lower", "upper", "place"]))
        found = run_sql(con, "steps/find_repeats", number_bits=_NUMBER_BITS)
    documents, paths = sum(n for _, n, *_ in found), list(sources)
    by_source = {paths[number]: repeated for number, _, repeated, *_ in found if repeated}
    most, place = max(((copies, -place) for *_, copies, place in found if copies > 1), default=(0, 0))
    first = (paths[-place >> _NUMBER_BITS], (-place & ((1 << _NUMBER_BITS) - 1)) + 1) if most else ("", 0)
    return Repeats(documents, sum(by_source.values()), by_source, most, first)


def _hashed(sources: Mapping[str, Spans], config: CountConfig, sizes: Sizes) -> Iterator[UInt64]:
    """The hashes of the documents and their places, source after source."""
    pattern = config.split_pattern()
    for source_number, (path, spans) in enumerate(sources.items()):
        column, size = spans[0].text_column or "text", spans[0].file_bytes
        source = Source(path, spans[0].kind, column, size, any_bytes=True)  # type: ignore[arg-type]
        place = source_number << _NUMBER_BITS
        for hashes in _hashes_of(source, pattern, config, sizes):
            yield np.column_stack([hashes, place + np.arange(len(hashes), dtype=np.uint64)])
            place += len(hashes)


def _hashes_of(source: Source, pattern: Pattern, config: CountConfig, sizes: Sizes) -> Iterator[UInt64]:
    """Of the documents of a source that are in the sample."""
    meter = present_meter()
    if source.kind == "txt":  # it is one document
        hashes = np.array([text_hash(source, config.bad_utf8)], np.uint64)
        yield hashes[is_chosen(hashes[:, 0], config.one_in)]
        meter.advance(source.bytes)
        return
    for block in Reader(pattern, sizes.block, sizes.most, on_read=meter.advance, whole_lines=True).blocks(source):
        text = block_text(block, config.bad_utf8, config.bad_lines)
        yield hash_rows(documents_of(sampled(block, text, config.one_in, config.bad_utf8).text))


def _together(blocks: Iterable[UInt64]) -> Iterator[UInt64]:
    """The same rows in larger blocks: a source may have one document only."""
    held: list[UInt64] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += len(block)
        if rows >= _ROWS_AT_ONCE:
            yield np.concatenate(held)
            held, rows = [], 0
    if held:
        yield np.concatenate(held)
