"""Documents as chunk ids, one pair of Parquet files per part; superwords are learned from them.

    sequences/part-00007.chunks.parquet   chunk: row i is chunk i, the most frequent of the part first
    sequences/part-00007.parquet          chunk_id: the chunks in order; -1 ends a document. The stretches that the
                                          part covers one after another, ordered by source and place; the metadata of
                                          its schema says how many rows each has

A stretch that does not end with -1 ends inside a document. That goes on in the stretch of the same source that begins
where this one stops (table sources). A sequence without a part in counts/ was never committed. About 2.1 to 2.4 bytes
per chunk on disk.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.core.strings import ChunkList, as_buffers, merge
from streambpe.errors import RunError
from streambpe.files import whole_file
from streambpe.later import polars as pl
from streambpe.store.checksums import Damaged, add_checksum, refuse_damaged
from streambpe.store.made_of import fingerprint, has_note, parquet_note, write_noted
from streambpe.store.merge import MERGE_FILES, lists_of_range, merged_lists, opened, ranges
from streambpe.store.parts import Part, Parts, scratch_part
from streambpe.store.run import Run
from streambpe.store.spans import Span, Spans
from streambpe.text.chunker import END_OF_DOCUMENT, Ids, Lengths
from streambpe.threads import in_order

_Made = TypeVar("_Made")
_PLACES = "streambpe-places"  # in a file's metadata: how many rows each of its stretches has
_SORTED = 1 << 18  # chunks of a part's documents that are sorted at once
_KEPT = 8  # parts of which reader_of_stretches keeps what was made


def unreadable() -> tuple[type[Exception], ...]:
    """The exceptions that reading a damaged file raises."""
    return OSError, pl.exceptions.PolarsError, pa.ArrowException


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a part's ids and of its chunks."""
    return folder / f"{name}.parquet", folder / f"{name}.chunks.parquet"


def sequence_made_of(run: Run, spans: Sequence[Span]) -> str:
    """What the documents of a part were made of: stretches of inputs, in this run."""
    facts = [{key: value for key, value in asdict(span).items() if value or key != "bad_lines"} for span in spans]
    return fingerprint(run.number, *facts)  # as before there were lines to be left out, where none is


by_place = attrgetter("path", "start_at", "stop_at")  # of spans: the order of the stretches in a part's file


def write_sequence(folder: Path, name: str, chunks: pl.Series, stretches: Sequence[Ids], made_of: str = "") -> Lengths:
    """Write one part's documents; returns how often each of `chunks` occurs. `stretches`: each as rows of `chunks`;
    chunks that do not occur are left out.

    n 2 7 2   falling 1 0 2   rank 1 0 2 -1: chunk 0 becomes 1, chunk 1 becomes 0, and the end of a document, -1, is
    looked up as the last entry   ids 1 0 -1 2 1 -1 -> 0 1 -1 2 0 -1
    """
    folder.mkdir(exist_ok=True)
    n = sum((np.bincount(ids[ids >= 0], minlength=len(chunks)) for ids in stretches), np.zeros(len(chunks), np.int64))
    falling = np.argsort(-n, kind="stable")[: np.count_nonzero(n)]  # ties stay in order
    rank = np.full(len(n) + 1, END_OF_DOCUMENT, np.int32)
    rank[falling] = np.arange(len(falling), dtype=np.int32)
    of_ids, of_chunks = _files_of(folder, name)
    write_noted(chunks.gather(falling).to_frame("chunk"), of_chunks, made_of)
    facts = {**parquet_note(made_of, of_ids.name), _PLACES: json.dumps(list(map(len, stretches)))}
    schema = pa.schema([("chunk_id", pa.int32())], facts)
    with whole_file(of_ids) as temporary:
        # the bytes of an id apart: the upper ones are nearly all alike. Half of Polars' time, 0.93 of its size
        how = {"compression": "lz4", "use_dictionary": False, "column_encoding": "BYTE_STREAM_SPLIT"}
        with pq.ParquetWriter(temporary, schema, write_statistics=False, **how) as out:
            for ids in stretches:
                out.write_table(pa.table([rank[ids]], schema=schema))
        add_checksum(temporary)
    return n


def copy_documents(source: Run, target: Run, old: Sequence[Span], new: Sequence[Span | None]) -> None:
    """Write the documents of one part again. `old`: its stretches, in the order of its file; `new`: what each of them
    is called in `target`, all of one part; None: it is left out.

    They are stored in the order of their new names. Memory: the part's chunks and ids, as when it was counted.
    """
    places, part = _places_of(source, old), old[0].part
    kept = sorted(
        ((span, place) for span, place in zip(new, places, strict=True) if span), key=lambda one: by_place(one[0])
    )
    spans = [span for span, _ in kept]
    chunks = read_chunks(source.sequences, part)
    ids = [read_ids(source.sequences, part, *place, len(chunks)) for _, place in kept]
    write_sequence(target.sequences, spans[0].part, chunks, ids, sequence_made_of(target, spans))


def documents_without(run: Run, spans: Spans, paths: Collection[str], number: int) -> Spans:
    """The stretches of all sources but these. Documents that lie in one file with theirs are written again without
    them, as parts of the numbers from `number` on, and their stretches name those. `spans`: in order."""
    kept: list[Span] = []
    for all_of_them in _by_part(spans).values():
        mine = [span if span.path not in paths else None for span in all_of_them]
        if None in mine and any(mine):
            mine = [span and replace(span, part=f"part-{number:05d}") for span in mine]
            copy_documents(run, run, all_of_them, mine)
            number += 1
        kept += filter(None, mine)
    return Spans.of(kept).in_order()


class SequencePart(msgspec.Struct, frozen=True):
    """One stretch of the input: what its documents are, and where in a part's file they stand."""

    name: str  # its own
    places: int  # chunks and ends of documents
    follows: bool  # it goes on, in the same source, where the stretch before it stops
    made_of: str = ""  # see sequence_made_of
    file: str = ""  # the part that holds it
    begin: int = 0  # the row of that file where it begins


@contextlib.contextmanager
def _damage_told(folder: Path, name: str) -> Iterator[None]:
    """What is wrong with a part's files, in one message."""
    try:
        yield
    except unreadable() as why:
        raise RunError(
            f"{folder / name}.parquet or its .chunks.parquet is missing or damaged ({str(why).splitlines()[0]}). "
            f"Count the sources again into another RUN with --sequences."
        ) from None


def read_chunks(folder: Path, name: str) -> pl.Series:
    """A part's chunks by id."""
    _, path = _files_of(folder, name)
    with _damage_told(folder, name):
        refuse_damaged(path)
        return pl.read_parquet(path, glob=False)["chunk"]


def read_ids(folder: Path, name: str, begin: int, places: int, chunks: int) -> Ids:
    """Some rows of a part's documents, as ids of its chunks."""
    path, _ = _files_of(folder, name)
    with _damage_told(folder, name):
        refuse_damaged(path)
        ids: Ids = pl.scan_parquet(path, glob=False).slice(begin, places).collect()["chunk_id"].to_numpy()
        if len(ids) and (ids.dtype != np.int32 or ids.min() < END_OF_DOCUMENT or ids.max() >= chunks):
            raise Damaged(f"it names chunks beyond the {chunks} that there are")
    return ids


def reader_of_stretches(
    folder: Path, make: Callable[[pl.Series], _Made]
) -> Callable[[SequencePart], tuple[_Made, Ids]]:
    """A function that gives what `make` makes of the chunks of a stretch's part, and the stretch as their numbers.

    It is made once for a part's stretches: the last few are kept, since the stretches of as many parts alternate in the
    input as there were threads when it was counted."""

    @lru_cache(_KEPT)
    def of_chunks(name: str) -> tuple[_Made, int]:
        chunks = read_chunks(folder, name)
        return make(chunks), len(chunks)

    def read(part: SequencePart) -> tuple[_Made, Ids]:
        made, many = of_chunks(part.file)
        return made, read_ids(folder, part.file, part.begin, part.places, many)

    return read


def order_parts(run: Run, parts: Sequence[Part]) -> list[SequencePart]:
    """Every stretch's sequence in the order of the input: by source, then by place in it."""
    spans = list(Parts(parts).spans.in_order())
    where = {name: enumerate(_places_of(run, mine)) for name, mine in _by_part(spans).items()}
    found = []
    for before, span in zip([None, *spans], spans, strict=False):
        follows = before is not None and before.path == span.path and before.stop_at == span.start_at
        made_of = sequence_made_of(run, [span])
        number, (begin, places) = next(where[span.part])
        name = f"{span.part}.{number}" if number else span.part
        found.append(SequencePart(name, places, follows, made_of, span.part, begin))
    return found


def _by_part(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The stretches that each part was written for, in the order of its file, which is that of these."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.part, []).append(span)
    return found


def _places_of(run: Run, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """(first row, rows) of each stretch in the file of the part that covers these; an error if it is lost."""
    first, many = spans[0], f" (and {len(spans) - 1} more)" if len(spans) > 1 else ""
    what = f"{first.path} from {first.start_at} to {first.stop_at}{many}"
    try:
        facts = pq.read_metadata(run.sequences / f"{first.part}.parquet").metadata or {}
        places: list[int] = json.loads(facts.get(_PLACES.encode(), b"[]"))
    except unreadable():
        raise RunError(
            f"{run.path} has no documents of {what}: it was counted without --sequences, added from another RUN, or "
            f"{first.part}.parquet is lost. Superwords need the documents: count all sources into another RUN with "
            "--sequences."
        ) from None
    stranger = _stranger(run, spans, places)
    if stranger:
        raise RunError(
            f"{stranger} does not have what was counted of {what}: it is lost, damaged or replaced by another file. "
            "Nothing was changed. Put the right one back, or count all sources into another RUN with --sequences."
        )
    begins = [0, *itertools.accumulate(places)]
    return list(zip(begins, places, strict=False))


def _stranger(run: Run, spans: Sequence[Span], places: Sequence[int]) -> Path | None:
    """A file of a part's documents that was not written for these stretches; None if all were. Only their footers are
    read: what is in a file is compared with its checksum when it is read."""
    files = _files_of(run.sequences, spans[0].part)
    if len(places) != len(spans):
        return files[0]
    made_of = sequence_made_of(run, spans)
    return next((file for file in files if run.number and not has_note(file, made_of, whole=False)), None)


def check_sequences(
    run: Run, parts: Sequence[Part], folder: Path, range_bytes: int, threads: int, most: int
) -> list[tuple[str, str, int | None, int | None]]:
    """Rows (part, chunk, in documents, in counts), at most so many, where a part's documents do not hold its counts.

    Parts that were merged have only their sum left, so all documents together are compared with all counts: each part's
    are counted into a file in `folder`, and both are added up range by range. Memory: for each thread a stretch's ids
    and a part's chunks; `range_bytes` as in a merge.
    """
    problems: list[tuple[str, str, int | None, int | None]] = []
    counted: list[Part] = []
    by_part = sorted(_by_part(Parts(parts).spans.in_order()).items())
    made = in_order(lambda one: _recount(run, *one, folder), by_part, threads)
    for (name, _), found in zip(by_part, made, strict=True):
        if found is None:
            ids, chunks = (file.name for file in _files_of(run.sequences, name))
            problems.append((name, f"{ids} or {chunks} is missing or damaged, or of another part", None, None))
        else:
            counted += found
    if problems:
        return problems[:most]
    while len(counted) >= MERGE_FILES:
        some, counted = counted[:MERGE_FILES], counted[MERGE_FILES:]
        counted.append(scratch_part(some[0].path.with_suffix(".sum"), merged_lists(some, range_bytes)))
        for part in some:
            part.path.unlink()
    with opened(parts) as files, opened(counted) as others:
        for low, high in ranges([*parts, *counted], range_bytes):
            both = ((counted, others), (parts, files))
            lists = (lists_of_range(*one, low, high) for one in both)
            documents, counts = (merge([rows for rows in each if rows is not None]) for each in lists)
            if not np.array_equal(documents.laid_out(), counts.laid_out()):
                beside = documents.frame().join(counts.frame(), on="chunk", how="full", coalesce=True)
                wrong = beside.filter(pl.col("n").ne_missing(pl.col("n_right"))).sort("chunk")
                problems += [("all", *row) for row in wrong.head(most - len(problems)).iter_rows()]
    return problems


def _recount(run: Run, name: str, spans: Sequence[Span], folder: Path) -> list[Part] | None:
    """How often each chunk of a part stands in its documents, in files of so many chunks as are sorted at once; None if
    the documents are missing or damaged."""
    try:
        places = _places_of(run, spans)
        chunks = read_chunks(run.sequences, name)
        n = np.zeros(len(chunks), np.int64)
        for begin, many in places:
            ids = read_ids(run.sequences, name, begin, many, len(chunks))
            n += np.bincount(ids[ids >= 0], minlength=len(chunks))
    except RunError:
        return None
    made = []
    for start in range(0, len(chunks), _SORTED):
        frame = pl.DataFrame({"chunk": chunks[start : start + _SORTED], "n": n[start : start + _SORTED]})
        frame = frame.filter(pl.col("n") > 0).sort("chunk")
        rows = ChunkList(*as_buffers(frame["chunk"]), frame["n"].to_numpy())
        made.append(scratch_part(folder / f"{name}-{start}.parquet", [rows]))
    return made
