"""Documents as chunk ids, one pair of Parquet files per part; superwords are learned from them.

    sequences/part-00007.chunks.parquet   chunk: row i is chunk i, the most frequent of the part first
    sequences/part-00007.parquet          chunk_id: the chunks in order; -1 ends a document

A part that does not end with -1 ends inside a document. That goes on in the part whose stretch of the
same source begins where this part's stops (table sources). A sequence without a part in counts/ was never
committed. About 2.1 to 2.4 bytes per chunk on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
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
from streambpe.text.chunker import END_OF_DOCUMENT, Ids, Lengths, Numbered


def unreadable() -> tuple[type[Exception], ...]:
    """The exceptions that reading a damaged file raises."""
    return OSError, pl.exceptions.PolarsError, pa.ArrowException


def sequence_made_of(run: Run, span: Span) -> str:
    """What the documents of a part were made of: a stretch of an input, in this run."""
    return fingerprint(run.number, asdict(span))


def write_sequence(folder: Path, name: str, numbered: Numbered, n: Lengths, made_of: str = "") -> None:
    """Write one part's documents; `n`: how often each of its distinct chunks occurs.

    n 2 7 2   falling 1 0 2   rank 1 0 2 -1: chunk 0 becomes 1, chunk 1 becomes 0, and the end of a document, -1, is
    looked up as the last entry   ids 1 0 -1 2 1 -1 -> 0 1 -1 2 0 -1
    """
    folder.mkdir(exist_ok=True)
    falling = np.argsort(-n, kind="stable")  # ties stay in the order of their bytes
    rank = np.empty(len(falling) + 1, np.int32)
    rank[falling] = np.arange(len(falling), dtype=np.int32)
    rank[END_OF_DOCUMENT] = END_OF_DOCUMENT  # index -1: the last entry
    _write_chunks(numbered.chunks.gather(falling).to_frame("chunk"), folder / f"{name}.chunks.parquet", made_of)
    _write_ids(rank[numbered.ids], folder / f"{name}.parquet", made_of)


def _write_chunks(ranked: pl.DataFrame, target: Path, made_of: str) -> None:
    note = parquet_note(made_of, target.name)
    with whole_file(target) as temporary:
        ranked.write_parquet(temporary, compression="zstd", compression_level=1, statistics=False, metadata=note)
        add_checksum(temporary)


def _write_ids(ids: Ids, target: Path, made_of: str) -> None:
    """Store the bytes of an id apart: the upper ones are nearly all alike. Half of Polars' time, 0.93 of its size."""
    with whole_file(target) as temporary:
        pq.write_table(
            pa.table({"chunk_id": ids}).replace_schema_metadata(parquet_note(made_of, target.name)),
            temporary,
            compression="lz4",
            use_dictionary=False,
            column_encoding="BYTE_STREAM_SPLIT",
            write_statistics=False,
        )
        add_checksum(temporary)


def read_chunks(folder: Path, name: str) -> pl.Series:
    """A part's chunks by id."""
    refuse_damaged(folder / f"{name}.chunks.parquet")
    return pl.read_parquet(folder / f"{name}.chunks.parquet")["chunk"]


def read_ids(folder: Path, name: str) -> npt.NDArray[np.int32]:
    """A part's documents as ids."""
    refuse_damaged(folder / f"{name}.parquet")
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
    follows: bool  # its stretch goes on, in the same source, where that of the part before it stops
    made_of: str = ""  # see sequence_made_of; "" in a run of an older version


def order_parts(run: Run, parts: Sequence[Part]) -> list[SequencePart]:
    """Every part's sequence in the order of the input: by source, then by place in it."""
    spans = list(Spans.of_parts(parts).in_order())
    found = []
    numbered = bool(run.number)
    for before, span in zip([None, *spans], spans, strict=False):
        follows = before is not None and before.path == span.path and before.stop_at == span.start_at
        made_of = sequence_made_of(run, span) if numbered else ""
        try:
            places = pq.read_metadata(run.sequences / f"{span.part}.parquet").num_rows
        except unreadable():
            raise RunError(
                f"{run.path} has no sequence of {span.path} from {span.start_at} to {span.stop_at}: it was counted "
                f"without --sequences, added from another run, or {span.part}.parquet is lost. Superwords need the "
                f"documents: count all sources into another RUN with --sequences."
            ) from None
        stranger = _stranger(run, span.part, made_of) if numbered else None
        if stranger:
            raise RunError(
                f"{stranger} is not what was counted of {span.path} from {span.start_at} to {span.stop_at}: it is "
                f"lost or damaged, or another file was put in its place. Nothing was changed. Put the right one back, "
                f"or count all sources into another RUN with --sequences."
            )
        found.append(SequencePart(span.part, places, follows, made_of))
    return found


def _stranger(run: Run, name: str, made_of: str) -> Path | None:
    """A file of a part's documents that was not written for this stretch; None if all were."""
    files = (run.sequences / f"{name}.parquet", run.sequences / f"{name}.chunks.parquet")
    return next((file for file in files if not has_note(file, made_of)), None)


def check_sequences(run: Run, parts: Sequence[Part]) -> list[tuple[str, str, int | None, int | None]]:
    """Rows (part, chunk, in sequence, in counts) where a part's documents do not hold its counts.

    Parts that were merged have only their sum left, so all sequences together are compared with all counts.
    """
    total: Counter[str] = Counter()
    problems: list[tuple[str, str, int | None, int | None]] = []
    numbered = bool(run.number)
    spans = {span.part: span for part in parts for span in part.spans}
    for name in sorted(spans):
        if numbered and _stranger(run, name, sequence_made_of(run, spans[name])):
            problems.append((name, "a sequence file is missing, damaged, or of another part", None, None))
            continue
        try:
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
