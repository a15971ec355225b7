"""Chunk counts on disk: committed parts, their merge in bounded memory, the table in state.duckdb.

A part is one Parquet file (chunk, n), sorted by the chunks' bytes. Its footer names the stretches of
input it covers, so *renaming it into place commits counts and progress together*:

    counts/part-00007.parquet     stretches of the input, counted once
    counts/merged-00003.parquet   several parts added up; names the files it replaces

Parts are merged by ranges of chunks: row groups are small and their first and last chunks are in the
footer, so a range reads a few row groups of each file. Memory: `range_bytes` and one row group
(0.5 MB of English at most) for each file; disk: each level of 64 files rewrites its rows once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from streambpe.core.strings import ChunkList
from streambpe.failpoints import failpoint
from streambpe.resources import BASE_BYTES
from streambpe.store.database import append, open_store
from streambpe.store.identity import tables_written
from streambpe.store.merge import compact, give_out, merge_into, merged_lists
from streambpe.store.parts import MAX_COUNT, Part, Span, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import note_lost, read_record, unfinished

_DIGEST_ROWS = 1 << 16  # laid out at once


class CorpusDigest:
    """sha256 of (length, chunk, n) over all chunks in byte order; lengths and counts as 8 bytes, little-endian."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.distinct = self.chunks = self.bytes = 0

    def add(self, rows: ChunkList) -> None:
        """The next chunks. Takes the memory of `_DIGEST_ROWS` of them, or of the longest."""
        for start in range(0, len(rows), _DIGEST_ROWS):
            self._hash.update(rows.part(start, min(start + _DIGEST_ROWS, len(rows))).laid_out().data)
        lengths, n = rows.lengths, rows.n
        self.distinct += len(rows)
        self.chunks += int(n.sum())
        if len(n) and int(n.max()) * int(lengths.max()) < MAX_COUNT // len(n):
            self.bytes += int((lengths * n).sum())
        else:
            self.bytes += sum(int(length) * int(count) for length, count in zip(lengths, n, strict=True))

    def facts(self, documents: int) -> dict[str, int | str]:
        """What table run and the event log's header say of the corpus."""
        return {
            "documents": documents,
            "bytes": self.bytes,
            "chunks": self.chunks,
            "distinct": self.distinct,
            "sha256": self._hash.hexdigest(),
        }


def fold(
    run: Run, *, memory_bytes: int, threads: int, temp_dir: Path | None, again: bool = False
) -> dict[str, int | str]:
    """Bring state.duckdb up to the committed parts; returns the corpus facts. One transaction.

    `again`: also if it says that it is up to them.
    """
    run.upgrade()
    parts = list_parts(run, clean=True)
    folded = json.dumps(sorted(part.path.name for part in parts))
    facts = run.facts()
    note_lost(run, parts)
    left = json.dumps([s.as_fact(whole_path=True) for s in unfinished(read_record(run).sources, parts)])
    up_to_date = facts.get("folded") == folded and "corpus" in facts and facts.get("unfinished", "[]") == left
    if up_to_date and not again:
        corpus: dict[str, int | str] = json.loads(facts["corpus"])
        if corpus["chunks"] == sum(part.total for part in parts):
            return corpus
    spare = max(memory_bytes - BASE_BYTES, 48 << 20)  # half of it for DuckDB, the rest for merging
    range_bytes = min(max(spare // 32, 1 << 20), 64 << 20)
    parts = compact(run, parts, range_bytes, threads)
    digest = CorpusDigest()
    spans = [span for part in parts for span in part.spans]
    groups: list[dict[str, int | str]] = []
    if any(part.group_name for part in parts):
        parts, groups = _merge_groups(run, parts, range_bytes, threads)
    with contextlib.closing(open_store(run.state, memory_bytes=spare // 2, threads=threads, temp_dir=temp_dir)) as con:
        con.begin()
        run_sql(con, "clear_counts")

        def insert(rows: ChunkList) -> None:
            append(con, "chunk_counts", rows.table())

        if len(parts) == 1 or groups:
            give_out(merged_lists(parts, range_bytes), [digest.add, insert], threads)
            names = sorted(part.path.name for part in parts)
        elif parts:
            merged = merge_into(run, parts, range_bytes, max(p.level for p in parts) + 1, threads, [digest.add, insert])
            names = [merged.path.name]
        else:
            names = []
        append(con, "sources", span_rows(spans))
        if groups:
            append(con, "source_groups", pa.Table.from_pylist(groups))
        corpus = digest.facts(sum(span.documents for span in spans))
        run_sql(con, "put_run", key="corpus", value=json.dumps(corpus))
        run_sql(con, "put_run", key="folded", value=json.dumps(names))
        if left != facts.get("unfinished", "[]"):
            run_sql(con, "put_run", key="unfinished", value=left)
        failpoint("fold-filled")
        with tables_written(run.state) as written:
            run_sql(con, "put_run", key="written", value=written)
            con.commit()
    run.forget_tables()
    failpoint("fold-committed")
    return corpus


def _merge_groups(
    run: Run, parts: Sequence[Part], range_bytes: int, threads: int
) -> tuple[list[Part], list[dict[str, int | str]]]:
    """One part for each source group, and the rows of table source_groups."""
    merged, rows = [], []
    for name, mine in parts_by_group(parts).items():
        digest = CorpusDigest()
        if len(mine) > 1:
            mine = [merge_into(run, mine, range_bytes, max(p.level for p in mine) + 1, threads, [digest.add])]
        else:
            for piece in merged_lists(mine, range_bytes):
                digest.add(piece)
        merged += mine
        rows.append(group_row(name, mine, digest))
    return merged, rows


def group_row(name: str, parts: Sequence[Part], digest: CorpusDigest) -> dict[str, int | str]:
    """A row of table source_groups; `digest` has seen the sum of the parts."""
    return {"group_name": name, **digest.facts(sum(span.documents for part in parts for span in part.spans))}


def span_rows(spans: Iterable[Span]) -> pa.Table:
    """The rows of table sources, in its order."""
    rows = [asdict(span) for span in sorted(spans, key=lambda span: (span.path, span.start_at))]
    kinds = {name: pa.int64() if kind == "int" else pa.string() for name, kind in Span.__annotations__.items()}
    return pa.Table.from_pylist(rows, pa.schema(kinds))
