"""Documents as chunk ids, one pair of Parquet files per part; superwords are learned from them.

    sequences/part-00007.chunks.parquet   chunk: row i is chunk i, the most frequent of the part first
    sequences/part-00007.parquet          chunk_id: the chunks in order; -1 ends a document. The stretches that the
                                          part covers one after another, ordered by source and place; the metadata of
                                          its schema says how many rows each has (older versions: one stretch a part)

A stretch that does not end with -1 ends inside a document. That goes on in the stretch of the same source that begins
where this one stops (table sources). A sequence without a part in counts/ was never committed. About 2.1 to 2.4 bytes
per chunk on disk.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.errors import RunError
from streambpe.files import whole_file
from streambpe.later import polars as pl
from streambpe.store.checksums import add_checksum, refuse_damaged
from streambpe.store.made_of import fingerprint, has_note, parquet_note
from streambpe.store.merge import merge_ranges
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.spans import Span, Spans
from streambpe.text.chunker import END_OF_DOCUMENT, Ids, Lengths

_Made = TypeVar("_Made")
_PLACES = "streambpe-places"  # in a file's metadata: how many rows each of its stretches has
_KEPT = 8  # parts of which OfChunks keeps what was made


def unreadable() -> tuple[type[Exception], ...]:
    """The exceptions that reading a damaged file raises."""
    return OSError, pl.exceptions.PolarsError, pa.ArrowException


def sequence_made_of(run: Run, spans: Sequence[Span]) -> str:
    """What the documents of a part were made of: stretches of inputs, in this run."""
    return fingerprint(run.number, *map(asdict, spans))


def by_place(span: Span) -> tuple[str, int, int]:
    """The order of the stretches in a part's file."""
    return span.path, span.start_at, span.stop_at


def write_sequence(
    folder: Path, name: str, chunks: pl.Series, stretches: Sequence[Ids], n: Lengths, made_of: str = ""
) -> None:
    """Write one part's documents. `stretches`: each as rows of `chunks`; `n`: how often each of these occurs.

    n 2 7 2   falling 1 0 2   rank 1 0 2 -1: chunk 0 becomes 1, chunk 1 becomes 0, and the end of a document, -1, is
    looked up as the last entry   ids 1 0 -1 2 1 -1 -> 0 1 -1 2 0 -1
    """
    folder.mkdir(exist_ok=True)
    falling = np.argsort(-n, kind="stable")  # ties stay in the order of their bytes
    rank = np.empty(len(falling) + 1, np.int32)
    rank[falling] = np.arange(len(falling), dtype=np.int32)
    rank[END_OF_DOCUMENT] = END_OF_DOCUMENT  # index -1: the last entry
    _write_chunks(chunks.gather(falling).to_frame("chunk"), folder / f"{name}.chunks.parquet", made_of)
    _write_ids((rank[ids] for ids in stretches), list(map(len, stretches)), folder / f"{name}.parquet", made_of)


def _write_chunks(ranked: pl.DataFrame, target: Path, made_of: str) -> None:
    note = parquet_note(made_of, target.name)
    with whole_file(target) as temporary:
        ranked.write_parquet(temporary, compression="zstd", compression_level=1, statistics=False, metadata=note)
        add_checksum(temporary)


def _write_ids(stretches: Iterator[Ids], places: list[int], target: Path, made_of: str) -> None:
    """Store the bytes of an id apart: the upper ones are nearly all alike. Half of Polars' time, 0.93 of its size."""
    facts = {**parquet_note(made_of, target.name), _PLACES: json.dumps(places)}
    schema = pa.schema([("chunk_id", pa.int32())], facts)
    with whole_file(target) as temporary:
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="lz4",
            use_dictionary=False,
            column_encoding="BYTE_STREAM_SPLIT",
            write_statistics=False,
        ) as out:
            for ids in stretches:
                out.write_table(pa.table([ids], schema=schema))
        add_checksum(temporary)


@dataclass(frozen=True)
class SequencePart:
    """One stretch of the input: what its documents are, and where in a part's file they stand."""

    name: str  # its own
    places: int  # chunks and ends of documents
    follows: bool  # it goes on, in the same source, where the stretch before it stops
    made_of: str = ""  # see sequence_made_of; "" in a run of an older version
    file: str = ""  # the part that holds it; "" if it is called as the stretch is
    begin: int = 0  # the row of that file where it begins

    @property
    def stored_in(self) -> str:
        """The name of the part that holds it."""
        return self.file or self.name


def read_chunks(folder: Path, name: str) -> pl.Series:
    """A part's chunks by id."""
    refuse_damaged(folder / f"{name}.chunks.parquet")
    return pl.read_parquet(folder / f"{name}.chunks.parquet")["chunk"]


def read_ids(folder: Path, part: SequencePart) -> Ids:
    """A stretch's documents as ids."""
    refuse_damaged(folder / f"{part.stored_in}.parquet")
    with pq.ParquetFile(folder / f"{part.stored_in}.parquet", pre_buffer=False) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = np.cumsum(sizes, dtype=np.int64)
        stop = part.begin + part.places
        wanted = np.flatnonzero((ends > part.begin) & (ends - sizes < stop)).tolist()
        if not wanted:
            return np.empty(0, np.int32)
        first = part.begin - int(ends[wanted[0]] - sizes[wanted[0]])
        ids: Ids = file.read_row_groups(wanted, use_threads=False)["chunk_id"].to_numpy()
    return ids[first : first + part.places]


def read_sequence(folder: Path, name: str) -> tuple[pl.Series, Ids]:
    """(a part's chunks by id, the documents of all its stretches as ids)."""
    refuse_damaged(folder / f"{name}.parquet")
    ids: Ids = pq.read_table(folder / f"{name}.parquet", use_threads=False)["chunk_id"].to_numpy()
    return read_chunks(folder, name), ids


class OfChunks(Generic[_Made]):
    """What is made of the chunks of each part, made once for its stretches: the last few are kept, since the stretches
    of as many parts alternate in the input as there were threads when it was counted."""

    def __init__(self, folder: Path, make: Callable[[pl.Series], _Made]) -> None:
        self._folder, self._make = folder, make
        self._kept: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def of(self, part: SequencePart) -> _Made:
        """That of the part which holds this stretch."""
        name = part.stored_in
        with self._lock:
            if name in self._kept:
                self._kept[name] = found = self._kept.pop(name)  # now the last one
                return found
        made = self._make(read_chunks(self._folder, name))
        with self._lock:
            self._kept[name] = made
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return made


def read_stretch(folder: Path, part: SequencePart, of_chunks: OfChunks[_Made]) -> tuple[_Made, Ids]:
    """What was made of the chunks of a stretch's part, and the stretch as their numbers."""
    try:
        return of_chunks.of(part), read_ids(folder, part)
    except unreadable() as why:
        raise RunError(
            f"{folder / part.stored_in}.parquet or its .chunks.parquet is missing or damaged "
            f"({str(why).splitlines()[0]}). Count the sources again into another RUN with --sequences."
        ) from None


def order_parts(run: Run, parts: Sequence[Part]) -> list[SequencePart]:
    """Every stretch's sequence in the order of the input: by source, then by place in it."""
    spans = list(Spans.of_parts(parts).in_order())
    where = {name: iter(_places_of(run, mine)) for name, mine in _by_part(spans).items()}
    found = []
    for before, span in zip([None, *spans], spans, strict=False):
        follows = before is not None and before.path == span.path and before.stop_at == span.start_at
        made_of = sequence_made_of(run, [span]) if run.number else ""
        number, begin, places = next(where[span.part])
        name = f"{span.part}.{number}" if number else span.part
        found.append(SequencePart(name, places, follows, made_of, span.part, begin))
    return found


def _by_part(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The stretches that each part was written for, in the order of its file, which is that of these."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.part, []).append(span)
    return found


def _places_of(run: Run, spans: Sequence[Span]) -> list[tuple[int, int, int]]:
    """(number, first row, rows) of each stretch in the file of the part that covers these; an error if it is lost."""
    first, many = spans[0], f" (and {len(spans) - 1} more)" if len(spans) > 1 else ""
    what = f"{first.path} from {first.start_at} to {first.stop_at}{many}"
    try:
        places = _stored_places(run.sequences / f"{first.part}.parquet")
    except unreadable():
        raise RunError(
            f"{run.path} has no sequence of {what}: it was counted without --sequences, added from another run, or "
            f"{first.part}.parquet is lost. Superwords need the documents: count all sources into another RUN with "
            f"--sequences."
        ) from None
    stranger = _stranger(run, spans, places)
    if stranger:
        raise RunError(
            f"{stranger} is not what was counted of {what}: it is lost or damaged, or another file was put in its "
            f"place. Nothing was changed. Put the right one back, or count all sources into another RUN with "
            f"--sequences."
        )
    begins = [0, *itertools.accumulate(places)]
    return list(zip(range(len(places)), begins, places, strict=False))


def _stored_places(path: Path) -> list[int]:
    """How many rows each stretch has in a part's file."""
    stored = pq.read_metadata(path)
    noted = (stored.metadata or {}).get(_PLACES.encode())
    places: list[int] = json.loads(noted) if noted else [stored.num_rows]
    return places


def _stranger(run: Run, spans: Sequence[Span], places: Sequence[int]) -> Path | None:
    """A file of a part's documents that was not written for these stretches; None if all were. Only their footers are
    read: what is in a file is compared with its checksum when it is read."""
    name = spans[0].part
    files = (run.sequences / f"{name}.parquet", run.sequences / f"{name}.chunks.parquet")
    if len(places) != len(spans):
        return files[0]
    made_of = sequence_made_of(run, spans)
    return next((file for file in files if run.number and not has_note(file, made_of, whole=False)), None)


def check_sequences(run: Run, parts: Sequence[Part]) -> list[tuple[str, str, int | None, int | None]]:
    """Rows (part, chunk, in sequence, in counts) where a part's documents do not hold its counts.

    Parts that were merged have only their sum left, so all sequences together are compared with all counts.
    """
    total: Counter[str] = Counter()
    problems: list[tuple[str, str, int | None, int | None]] = []
    for name, spans in sorted(_by_part(Spans.of_parts(parts).in_order()).items()):
        try:
            if _stranger(run, spans, _stored_places(run.sequences / f"{name}.parquet")):
                problems.append((name, "a sequence file is missing, damaged, or of another part", None, None))
                continue
            chunks, ids = read_sequence(run.sequences, name)
        except unreadable():
            problems.append((name, "the sequence file is missing or damaged", None, None))
            continue
        inside = ids[ids >= 0]
        if len(inside) and int(inside.max()) >= len(chunks):
            problems.append((name, "an id is beyond the part's chunks", int(inside.max()), len(chunks)))
            continue
        n = np.bincount(inside, minlength=len(chunks))
        total.update(dict(zip(chunks.to_list(), n.tolist(), strict=True)))
    if problems:
        return problems
    for frame in merge_ranges(parts, 32 << 20):
        for chunk, n in frame.iter_rows():
            if total.pop(chunk, 0) != n:
                problems.append(("all", chunk, None, n))
    return problems + [("all", chunk, n, None) for chunk, n in total.items() if n]
