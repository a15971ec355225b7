"""Documents as chunk ids, one pair of Parquet files a part; superwords are learned from them.

    sequences/part-00007.chunks.parquet   chunk: row i is chunk i, the most frequent of the part first
    sequences/part-00007.parquet          chunk_id: the chunks in order; -1 ends a document

A part without a last -1 ends inside a document, which goes on in the part whose stretch of the same
source begins where this one stops (table sources). A sequence without a part in counts/ was never
committed. About 2.1 to 2.4 bytes a chunk on disk.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.encode.ragged import Ids, gather_rows
from streambpe.encode.segments import Chunked
from streambpe.errors import RunError
from streambpe.store.chunks import Part, merge_ranges
from streambpe.store.database import fsync_file
from streambpe.store.run import Run

END_OF_DOCUMENT = -1
UNREADABLE = (OSError, pl.exceptions.PolarsError, pa.ArrowException)  # what reading a damaged file raises


def write_sequence(folder: Path, name: str, frame: pl.DataFrame, rows: Ids, chunked: Chunked, codes: Ids) -> None:
    """Write one part's documents.

    `frame`: its distinct chunks and counts, by chunk; `rows`: where there every chunk of `chunked` stands; `codes`:
    its pieces in order.
    """
    folder.mkdir(exist_ok=True)
    falling = np.argsort(-frame["n"].to_numpy(), kind="stable")  # ties stay in the order of their bytes
    rank = np.empty(len(falling), np.int32)
    rank[falling] = np.arange(len(falling), dtype=np.int32)
    sequence = expand(rank[rows], chunked, codes)
    _write_chunks(frame.select(pl.col("chunk").gather(falling)), folder / f"{name}.chunks.parquet")
    _write_ids(sequence, folder / f"{name}.parquet")


def expand(flat: Ids, chunked: Chunked, codes: Ids) -> Ids:
    """The chunk ids of pieces in order, with END_OF_DOCUMENT behind a piece that ends one.

    `flat` holds the ids of the distinct pieces' chunks.
    """
    table, counts = chunked.with_ends(flat, END_OF_DOCUMENT)
    return gather_rows(table, np.cumsum(counts) - counts, counts, codes)


def _write_chunks(ranked: pl.DataFrame, target: Path) -> None:
    with _whole(target) as temporary:
        ranked.write_parquet(temporary, compression="zstd", compression_level=1, statistics=False)


def _write_ids(ids: Ids, target: Path) -> None:
    """The bytes of an id apart: the upper ones are nearly all alike. Half the time of Polars' way, 0.93 of the size."""
    with _whole(target) as temporary:
        pq.write_table(
            pa.table({"chunk_id": ids}),
            temporary,
            compression="lz4",
            use_dictionary=False,
            column_encoding="BYTE_STREAM_SPLIT",
            write_statistics=False,
        )


@contextlib.contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A name to write to; what stands there at the end takes the target's."""
    temporary = target.with_name(target.name + ".new")
    yield temporary
    fsync_file(temporary)
    temporary.replace(target)


def read_chunks(folder: Path, name: str) -> pl.Series:
    """A part's chunks by id."""
    return pl.read_parquet(folder / f"{name}.chunks.parquet")["chunk"]


def read_ids(folder: Path, name: str) -> npt.NDArray[np.int32]:
    """A part's documents as ids."""
    ids: Ids = pq.read_table(folder / f"{name}.parquet", use_threads=False)["chunk_id"].to_numpy()
    return ids


def read_sequence(folder: Path, name: str) -> tuple[pl.Series, npt.NDArray[np.int32]]:
    """(the part's chunks by id, its documents as ids)."""
    return read_chunks(folder, name), read_ids(folder, name)


@dataclass(frozen=True)
class SequencePart:
    """One part in the order of the input."""

    name: str
    places: int  # chunks and ends of documents
    follows: bool  # the stretch right before it, of the same source, is the part in front


def order_parts(run: Run, parts: Sequence[Part]) -> list[SequencePart]:
    """Every part's sequence in the order of the input: by source, then by place in it."""
    spans = sorted((span for part in parts for span in part.spans), key=lambda s: (s.path, s.start_at, s.stop_at))
    found = []
    for before, span in zip([None, *spans], spans, strict=False):
        follows = before is not None and before.path == span.path and before.stop_at == span.start_at
        try:
            places = pq.read_metadata(run.sequences / f"{span.part}.parquet").num_rows
        except OSError:
            raise RunError(
                f"{run.path} has no sequence of {span.path} from {span.start_at} to {span.stop_at}: it was counted "
                f"without --sequences, added from another run, or {span.part}.parquet is lost. Superwords need the "
                f"documents: count all sources into another RUN with --sequences."
            ) from None
        found.append(SequencePart(span.part, places, follows))
    return found


def documents_of(chunks: pl.Series, ids: npt.NDArray[np.int32]) -> Iterator[list[str]]:
    """The documents of one part as lists of chunks; the last may be unfinished. For people and tests."""
    text = chunks.to_list()
    at = 0
    for end in np.flatnonzero(ids == END_OF_DOCUMENT):
        yield [text[i] for i in ids[at:end]]
        at = int(end) + 1
    if at < len(ids):
        yield [text[i] for i in ids[at:]]


def check_sequences(run: Run, parts: Sequence[Part]) -> list[tuple[str, str, int | None, int | None]]:
    """Rows (part, chunk, in sequence, in counts) where a part's documents do not hold its counts.

    Parts that were merged have only their sum left, so all sequences together are compared with all counts.
    """
    total: Counter[str] = Counter()
    problems: list[tuple[str, str, int | None, int | None]] = []
    for name in sorted({span.part for part in parts for span in part.spans}):
        try:
            chunks, ids = read_sequence(run.sequences, name)
        except UNREADABLE:
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
