"""Chunk counts on disk: committed parts, their merge in bounded memory, the table in state.duckdb.

A part is one Parquet file (chunk, n), sorted by the chunks' bytes. Its footer names the stretches of
input it covers, so *renaming it into place commits counts and progress together*:

    counts/part-00007.parquet     stretches of the input, counted once
    counts/merged-00003.parquet   several parts added up; names the files it replaces

Parts are merged by ranges of chunks: row groups are small and their first and last chunks are in the
footer, so a range reads a few row groups of each file. Memory: `range_bytes` and one row group
(0.5 MB of English) for each file; disk: each level of 64 files rewrites its rows once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.errors import RunError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.store.database import fsync_file, fsync_folder, open_store
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql

PART_FORMAT = 2  # 1: before source groups; read as a part without a group
_Use = Callable[[pl.DataFrame], None]
_SCHEMA = pa.schema([("chunk", pa.large_string()), ("n", pa.int64())])
_GROUP_ROWS = 16_384  # rows in a row group: 0.5 MB of English chunks in memory
_GROUP_BYTES = 8 << 20  # or this many bytes of chunks
_KEY_CHARS = 64  # of a row group's first and last chunk that the footer keeps
MERGE_FILES = 64  # open at once in a merge
MAX_COUNT = 2**63 - 1
BASE_BYTES = 190 << 20  # resident before any work: Python, the libraries, their allocators


@dataclass(frozen=True)
class Span:
    """A stretch of one input that a part covers; the columns of table sources."""

    path: str
    kind: str
    text_column: str
    start_at: int
    stop_at: int
    documents: int
    text_bytes: int
    bad_utf8: int
    boms: int
    nulls: int
    digest: str
    part: str
    file_bytes: int
    mtime_ns: int
    state: str
    dropped: int = 0
    group_name: str = ""


@dataclass(frozen=True)
class Part:
    """One file in counts/; all its stretches are of one source group."""

    path: Path
    spans: tuple[Span, ...]
    rows: int
    total: int  # sum of n
    level: int  # 0: counted; k + 1: a merge of files of level k
    replaces: tuple[str, ...]
    groups: tuple[tuple[str, str, int], ...]  # of each row group: lowest chunk, highest, bytes

    @property
    def group_name(self) -> str:
        """The source group whose counts these are; "" if none was named."""
        return self.spans[0].group_name if self.spans else ""


class PartWriter:
    """Writes one part; nothing is visible until `commit`."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._temporary = target.with_name(target.name + ".new")
        self._writer = pq.ParquetWriter(
            self._temporary,
            _SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
        )
        self._groups: list[tuple[str, str, int]] = []
        self.rows = 0
        self.total = 0

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows (chunk, n) in byte order, all above those written before."""
        if not frame.height:
            return
        sizes = np.cumsum(frame["chunk"].str.len_bytes().to_numpy().astype(np.int64) + 8)
        start = 0
        while start < frame.height:
            below = int(np.searchsorted(sizes, _GROUP_BYTES + (sizes[start - 1] if start else 0), side="right"))
            stop = min(frame.height, start + _GROUP_ROWS, max(below, start + 1))
            group = frame.slice(start, stop - start)
            self._writer.write_table(_as_arrow(group))
            low, high = (group["chunk"].slice(i, 1).str.head(_KEY_CHARS + 1)[0] for i in (0, group.height - 1))
            if len(high) > _KEY_CHARS:
                high = high[:_KEY_CHARS] + "\U0010ffff" * 8
            size = int(sizes[stop - 1] - (sizes[start - 1] if start else 0))
            self._groups.append((low[:_KEY_CHARS], high, size))
            start = stop
        self.rows += frame.height
        self.total += int(frame["n"].sum())

    def commit(self, spans: Sequence[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Close, fsync, rename: from here on the part counts."""
        part = Part(self.target, tuple(spans), self.rows, self.total, level, tuple(replaces), tuple(self._groups))
        facts = {
            "format": PART_FORMAT,
            "rows": part.rows,
            "total": part.total,
            "level": level,
            "replaces": part.replaces,
            "groups": part.groups,
            "spans": [asdict(span) for span in spans],
        }
        self._writer.add_key_value_metadata({"streambpe": json.dumps(facts)})
        self._writer.close()
        fsync_file(self._temporary)
        failpoint("part-written")
        os.replace(self._temporary, self.target)
        fsync_folder(self.target.parent)
        failpoint("part-committed")
        return part

    def abandon(self) -> None:
        """Give up: leave no file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)


def _as_arrow(group: pl.DataFrame) -> pa.Table:
    if group.height == 1:  # it may be a giant, of which Polars' way makes two copies more
        return pa.table([pa.array(group["chunk"].to_list(), pa.large_string()), group["n"].to_arrow()], schema=_SCHEMA)
    return group.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_SCHEMA)


def read_part(path: Path) -> Part:
    """The record in a part's footer."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        facts = json.loads(metadata[b"streambpe"])
        known = facts["format"] in range(1, PART_FORMAT + 1)
        spans = tuple(Span(**span) for span in facts["spans"]) if known else ()
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as why:
        raise RunError(
            f"{path} is damaged ({str(why).splitlines()[0]}). Move it away and count again: the sources "
            f"it covered are read again, everything else is kept."
        ) from None
    if not known:
        raise RunError(f"{path} has part format {facts['format']}; this streambpe reads up to {PART_FORMAT}.")
    groups = tuple((low, high, size) for low, high, size in facts["groups"])
    return Part(path, spans, facts["rows"], facts["total"], facts["level"], tuple(facts["replaces"]), groups)


def list_parts(run: Run, *, clean: bool = False) -> list[Part]:
    """All committed parts, by name. A file that a merge replaces does not count (`clean` removes it)."""
    found = [read_part(path) for path in sorted(run.counts.glob("*.parquet"))]
    gone = {name for part in found for name in part.replaces}
    if clean:
        for name in gone:
            (run.counts / name).unlink(missing_ok=True)
        for leftover in run.counts.glob("*.new"):
            leftover.unlink()
        committed = {span.part for part in found for span in part.spans}
        for leftover in run.sequences.glob("part-*"):  # a kill came before the part they belong to
            if leftover.name.split(".")[0] not in committed:
                leftover.unlink()
    return [part for part in found if part.path.name not in gone]


def next_number(run: Run) -> int:
    """A number that no part or sequence file of the run has had."""
    numbers = [int(p.stem.rsplit("-", 1)[1].split(".")[0]) for p in run.counts.glob("*-*.parquet")]
    numbers += [int(p.name.split(".")[0].rsplit("-", 1)[1]) for p in run.sequences.glob("part-*.parquet")]
    return max(numbers, default=0) + 1


def check_total(parts: Sequence[Part], chunks: int, size: int, what: str) -> None:
    """Refuse before it is committed what would make the run's chunks or bytes outgrow 64 bits."""
    chunks += sum(part.total for part in parts)
    size += sum(span.text_bytes for part in parts for span in part.spans)
    for total, unit in ((chunks, "chunks"), (size, "bytes")):
        if total > MAX_COUNT:
            raise StreambpeError(
                f"With {what} the run would hold {total} {unit}, more than a 64-bit count holds ({MAX_COUNT}). "
                f"Nothing of it was added."
            )


def merge_ranges(parts: Sequence[Part], range_bytes: int, *, by_group: bool = False) -> Iterator[pl.DataFrame]:
    """The sum of several parts as frames (chunk, n): disjoint, ascending, in byte order.

    `by_group`: frames (chunk, group_name, n), a row for each group that has the chunk.
    Cost: every row is read once, rows at the border of two ranges twice.
    """
    total = sum(part.total for part in parts)
    if total > MAX_COUNT:
        raise StreambpeError(
            f"The counts add up to {total}, more than a 64-bit count holds ({MAX_COUNT}). Nothing was changed."
        )
    files = [pq.ParquetFile(part.path, pre_buffer=False) for part in parts]
    try:
        starts = sorted((low, size) for part in parts for low, _, size in part.groups)
        bounds, held = [""], 0
        for low, size in starts:
            if held + size > range_bytes and held and low > bounds[-1]:
                bounds.append(low)
                held = 0
            held += size
        for i, low in enumerate(bounds):
            high = bounds[i + 1] if i + 1 < len(bounds) else None
            frame = _read_range(parts, files, low, high, by_group)
            if frame.height:
                yield frame
    finally:
        for file in files:
            file.close()


def _read_range(
    parts: Sequence[Part], files: Sequence[pq.ParquetFile], low: str, high: str | None, by_group: bool
) -> pl.DataFrame:
    keys = ["chunk", "group_name"] if by_group else ["chunk"]
    frames = []
    for part, file in zip(parts, files, strict=True):
        wanted = [g for g, (a, b, _) in enumerate(part.groups) if b >= low and (high is None or a < high)]
        if not wanted:
            continue
        frame = pl.from_arrow(file.read_row_groups(wanted, use_threads=False))
        assert isinstance(frame, pl.DataFrame)
        keep = pl.col("chunk") >= low
        if high is not None:
            keep &= pl.col("chunk") < high
        if by_group:
            frame = frame.select("chunk", pl.lit(part.group_name).alias("group_name"), "n")
        frames.append(frame.filter(keep))
    if not frames:
        return pl.DataFrame(schema={**dict.fromkeys(keys, pl.String), "n": pl.Int64})
    together = pl.concat(frames)
    if len(frames) > 1:
        together = together.group_by(keys).agg(pl.col("n").sum())
    return together.sort(keys)


def compact(run: Run, parts: list[Part], range_bytes: int, threads: int) -> list[Part]:
    """Merge MERGE_FILES files of a group's level into one of the next, as long as a level holds that many."""
    while True:
        many = Counter((p.group_name, p.level) for p in parts)
        kind = next((kind for kind in sorted(many) if many[kind] >= MERGE_FILES), None)
        if kind is None:
            return parts
        batch = [p for p in parts if (p.group_name, p.level) == kind][:MERGE_FILES]
        merged = merge_into(run, batch, range_bytes, kind[1] + 1, threads)
        parts = [p for p in parts if p not in batch] + [merged]


def parts_by_group(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each source group, in the order of the groups' names."""
    return {name: [p for p in parts if p.group_name == name] for name in sorted({p.group_name for p in parts})}


def merge_into(
    run: Run, batch: Sequence[Part], range_bytes: int, level: int, threads: int, also: Sequence[_Use] = ()
) -> Part:
    """Write the sum of `batch` as one part and remove the files it replaces; give the sum to `also` too."""
    target = run.counts / f"merged-{next_number(run):05d}.parquet"
    writer = PartWriter(target)
    try:
        _give_out(merge_ranges(batch, range_bytes), [writer.write, *also], threads)
        merged = writer.commit(
            [span for part in batch for span in part.spans], level, [part.path.name for part in batch]
        )
    except BaseException:
        writer.abandon()
        raise
    failpoint("merge-committed")
    for part in batch:
        part.path.unlink()
    return merged


def _give_out(frames: Iterator[pl.DataFrame], uses: Sequence[_Use], threads: int) -> None:
    """Give every frame to every one of `uses`, in order; they work at the same time, but on one frame only."""
    with ThreadPoolExecutor(min(threads, len(uses))) as pool:
        for frame in frames:
            for done in [pool.submit(use, frame) for use in uses]:
                done.result()
            del frame  # here it would be held until the next one is read


class CorpusDigest:
    """sha256 of (length, chunk, n) over all chunks in byte order; lengths and counts as 8 bytes, little-endian."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.distinct = self.chunks = self.bytes = 0

    def add(self, frame: pl.DataFrame) -> None:
        """The next rows, in byte order. About 60 bytes of memory a row beside the frame."""
        lengths = frame["chunk"].str.len_bytes().to_numpy().astype(np.int64)
        n = frame["n"].to_numpy()
        if len(n) and int(lengths.max()) > _GROUP_BYTES:  # giants among them: one row at a time
            for chunk, length, count in zip(frame["chunk"].cast(pl.Binary), lengths, n, strict=True):
                self._hash.update(int(length).to_bytes(8, "little"))
                self._hash.update(chunk)
                self._hash.update(int(count).to_bytes(8, "little"))
        else:
            self._hash.update(_packed(frame["chunk"], lengths, n).data)
        self.distinct += frame.height
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


def _packed(chunks: pl.Series, lengths: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """(length, chunk, n) of each row, one after another."""
    starts = np.cumsum(lengths + 16) - lengths - 16
    out = np.empty(int(lengths.sum()) + 16 * len(n), np.uint8)
    text = np.ones(len(out), np.bool_)
    for at, values in ((starts, lengths), (starts + 8 + lengths, n)):
        _eight_bytes_at(out)[at] = values
        _eight_bytes_at(text.view(np.uint8))[at] = 0
    data = chunks.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest())
    offsets = np.frombuffer(data.buffers()[1], np.int64)[data.offset : data.offset + len(data) + 1]
    if len(data):
        out[text] = np.frombuffer(data.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return out


def _eight_bytes_at(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """A view of `data` whose item i is the 64-bit number, little-endian, that begins at byte i."""
    return np.ndarray((max(len(data) - 7, 0),), "<i8", data.data, strides=(1,))


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
    if facts.get("folded") == folded and "corpus" in facts and not again:
        corpus: dict[str, int | str] = json.loads(facts["corpus"])
        return corpus
    spare = max(memory_bytes - BASE_BYTES, 48 << 20)  # half of it for DuckDB, the rest for merging
    range_bytes = min(max(spare // 16, 2 << 20), 64 << 20)
    parts = compact(run, parts, range_bytes, threads)
    digest = CorpusDigest()
    spans = [span for part in parts for span in part.spans]
    groups: list[dict[str, int | str]] = []
    if any(part.group_name for part in parts):
        parts, groups = _merge_groups(run, parts, range_bytes, threads)
    with contextlib.closing(open_store(run.state, memory_bytes=spare // 2, threads=threads, temp_dir=temp_dir)) as con:
        con.begin()
        run_sql(con, "steps/clear_counts")

        def insert(frame: pl.DataFrame) -> None:
            con.register("incoming", frame.to_arrow())
            run_sql(con, "steps/insert_chunk_counts")
            con.unregister("incoming")

        if len(parts) == 1 or groups:
            _give_out(merge_ranges(parts, range_bytes), [digest.add, insert], threads)
            names = sorted(part.path.name for part in parts)
        elif parts:
            merged = merge_into(run, parts, range_bytes, max(p.level for p in parts) + 1, threads, [digest.add, insert])
            names = [merged.path.name]
        else:
            names = []
        con.register("incoming", spans_frame(spans).to_arrow())
        run_sql(con, "steps/insert_sources")
        con.unregister("incoming")
        if groups:
            con.register("incoming", pl.DataFrame(groups).to_arrow())
            run_sql(con, "steps/insert_source_groups")
            con.unregister("incoming")
        corpus = digest.facts(sum(span.documents for span in spans))
        run_sql(con, "steps/put_run", key="corpus", value=json.dumps(corpus))
        run_sql(con, "steps/put_run", key="folded", value=json.dumps(names))
        failpoint("fold-filled")
        con.commit()
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
            for frame in merge_ranges(mine, range_bytes):
                digest.add(frame)
        merged += mine
        rows.append(group_row(name, mine, digest))
    return merged, rows


def group_row(name: str, parts: Sequence[Part], digest: CorpusDigest) -> dict[str, int | str]:
    """A row of table source_groups; `digest` has seen the sum of the parts."""
    return {"group_name": name, **digest.facts(sum(span.documents for part in parts for span in part.spans))}


def spans_frame(spans: Iterable[Span]) -> pl.DataFrame:
    """The rows of table sources, in its order."""
    kinds = {name: pl.Int64 if kind == "int" else pl.String for name, kind in Span.__annotations__.items()}
    frame = pl.DataFrame([asdict(span) for span in spans], schema=kinds)
    return frame.sort("path", "start_at")
