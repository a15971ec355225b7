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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.core.strings import ChunkList, arrow_buffers, merge
from streambpe.errors import RunError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.store.database import feed, open_store
from streambpe.store.identity import refuse_other_run, tables_written
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import note_lost, read_record, unfinished
from streambpe.system import rename, sync_file, sync_folder

PART_FORMAT = 2  # 1: before source groups; read as a part without a group
_Use = Callable[[ChunkList], None]
_SCHEMA = pa.schema([("chunk", pa.large_string()), ("n", pa.int64())])
_GROUP_ROWS = 16_384  # rows in a row group, at most: 0.5 MB of English chunks in memory
_LEAST_GROUP_ROWS = 1024
_GROUPS = 64  # in a part that is written at once, if they are not larger or smaller than that
_GROUP_BYTES = 8 << 20  # or this many bytes of chunks
_KEY_CHARS = 64  # of a row group's first and last chunk that the footer keeps
_LISTINGS = 20  # of a folder in which files come and go
_DIGEST_ROWS = 1 << 16  # laid out at once
MERGE_FILES = 64  # open at once in a merge
_LEAST_FILES = 8
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
    run: str = ""  # the number of the run that it was written for
    name: str = ""  # that it was written under; "" of an older version

    @property
    def group_name(self) -> str:
        """The source group whose counts these are; "" if none was named."""
        return self.spans[0].group_name if self.spans else ""


class PartWriter:
    """Writes one part; nothing is visible until `commit`."""

    def __init__(self, target: Path, group_rows: int | None = None, *, run: str = "") -> None:
        """`run`: the number of the run (Run.number).

        `group_rows`: rows in a row group, instead of what suits a part that is written at once. A merge reads a row
        group of each file at least.
        """
        self.target = target
        self._run = run
        self._group_rows = group_rows
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

    def write(self, rows: ChunkList) -> None:
        """Append chunks, all above those written before."""
        if not len(rows):
            return
        sizes = rows.offsets[1:] - rows.offsets[0] + 8 * np.arange(1, len(rows) + 1)
        most = self._group_rows or min(max(len(rows) // _GROUPS, _LEAST_GROUP_ROWS), _GROUP_ROWS)
        start = 0
        while start < len(rows):
            below = int(np.searchsorted(sizes, _GROUP_BYTES + (sizes[start - 1] if start else 0), side="right"))
            stop = min(len(rows), start + most, max(below, start + 1))
            group = rows.part(start, stop)
            self._writer.write_table(group.table().cast(_SCHEMA))
            low, high = (_first_chars(group, i) for i in (0, len(group) - 1))
            if len(high) > _KEY_CHARS:
                high = high[:_KEY_CHARS] + "\U0010ffff" * 8
            size = int(sizes[stop - 1] - (sizes[start - 1] if start else 0))
            self._groups.append((low[:_KEY_CHARS], high, size))
            start = stop
        self.rows += len(rows)
        self.total += int(rows.n.sum())

    def commit(self, spans: Sequence[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Close, fsync, rename: from here on the part counts."""
        part = Part(
            self.target, tuple(spans), self.rows, self.total, level, tuple(replaces), tuple(self._groups),
            self._run, self.target.name,
        )  # fmt: skip
        facts = {
            "format": PART_FORMAT,
            "run": part.run,
            "name": part.name,
            "rows": part.rows,
            "total": part.total,
            "level": level,
            "replaces": part.replaces,
            "groups": part.groups,
            "spans": [asdict(span) for span in spans],
        }
        self._writer.add_key_value_metadata({"streambpe": json.dumps(facts)})
        self._writer.close()
        sync_file(self._temporary)
        failpoint("part-written")
        rename(self._temporary, self.target)
        sync_folder(self.target.parent)
        failpoint("part-committed")
        return part

    def abandon(self) -> None:
        """Give up: leave no file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)


def _first_chars(rows: ChunkList, row: int) -> str:
    """One more character of a chunk than a key keeps, or all of them."""
    start, stop = rows.offsets[row : row + 2].tolist()
    return bytes(rows.data[start : min(stop, start + 4 * _KEY_CHARS + 4)]).decode(errors="ignore")[: _KEY_CHARS + 1]


def read_part(path: Path) -> Part:
    """The record in a part's footer."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        facts = json.loads(metadata[b"streambpe"])
        known = facts["format"] in range(1, PART_FORMAT + 1)
        spans = tuple(Span(**span) for span in facts["spans"]) if known else ()
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as why:
        raise RunError(
            f"{path} is damaged ({str(why).splitlines()[0]}). Move it away and count again: the sources "
            f"it covered are read again, everything else is kept."
        ) from None
    if not known:
        raise RunError(f"{path} has part format {facts['format']}; this streambpe reads up to {PART_FORMAT}.")
    groups = tuple((low, high, size) for low, high, size in facts["groups"])
    return Part(
        path, spans, facts["rows"], facts["total"], facts["level"], tuple(facts["replaces"]), groups,
        facts.get("run", ""), facts.get("name", ""),
    )  # fmt: skip


def list_parts(run: Run, *, clean: bool = False) -> list[Part]:
    """All committed parts, by name. A file that a merge replaces does not count (`clean` removes it)."""
    found = _read_parts(run)
    _refuse_strangers(run, found)
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
    parts = [part for part in found if part.path.name not in gone]
    _refuse_counted_twice(parts)
    return parts


def _refuse_strangers(run: Run, parts: Sequence[Part]) -> None:
    """An error if a file in counts/ was put there from elsewhere."""
    aside = "move the part away and count again: the sources it covered are read again, everything else is kept."
    for number, path in {part.run: part.path for part in parts[::-1]}.items():  # the first part of each
        refuse_other_run(run.path, number, path, aside)
    for part in parts:
        if part.name and part.name != part.path.name:
            raise RunError(
                f"{part.path} was written as {part.name}: it was put in the place of another part. Nothing was "
                f"changed. Put the right one back, or {aside}"
            )


def _refuse_counted_twice(parts: Sequence[Part]) -> None:
    """An error if two parts cover the same stretch of an input: one of them is from another time."""
    spans = sorted(
        ((span.path, span.start_at, span.stop_at, part.path) for part in parts for span in part.spans),
        key=lambda span: span[:3],
    )
    for (path, start, stop, one), (next_path, begin, _, other) in pairwise(spans):
        if path == next_path and (begin < stop or begin == start):
            raise RunError(
                f"{one} and {other} both hold {path} from {begin}: one of them is from an earlier time, and it would "
                f"be counted twice. Nothing was changed. Move the older one away, and give the command again."
            )


def _read_parts(run: Run) -> list[Part]:
    """The records of all files; listed anew where another process merged some of them meanwhile."""
    for _ in range(_LISTINGS):
        with contextlib.suppress(FileNotFoundError):
            return [read_part(path) for path in sorted(run.counts.glob("*.parquet"))]
    raise RunError(f"{run.counts}: another process merges the counts. Nothing was changed. Wait until it is done.")


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


def merged_lists(parts: Sequence[Part], range_bytes: int) -> Iterator[ChunkList]:
    """The sum of several parts in pieces: disjoint, ascending, in byte order.

    Cost: every row is read once, rows at the border of two ranges twice.
    """
    with _opened(parts) as files:
        for low, high in _ranges(parts, range_bytes):
            found = [_read_range(part, file, low, high) for part, file in zip(parts, files, strict=True)]
            rows = [each for each in found if each is not None]
            if rows:
                yield rows[0] if len(rows) == 1 else merge(rows)
            del found, rows  # here they would be held while the next range is read


def merge_ranges(parts: Sequence[Part], range_bytes: int) -> Iterator[pl.DataFrame]:
    """As `merged_lists`, each piece as a frame (chunk, n)."""
    return (rows.frame() for rows in merged_lists(parts, range_bytes))


def merge_ranges_by_group(parts: Sequence[Part], range_bytes: int) -> Iterator[pl.DataFrame]:
    """Frames (chunk, group_name, n), a row for each group that has the chunk, by both."""
    with _opened(parts) as files:
        for low, high in _ranges(parts, range_bytes):
            of_group: dict[str, list[ChunkList]] = {}
            for part, file in zip(parts, files, strict=True):
                rows = _read_range(part, file, low, high)
                if rows is not None:
                    of_group.setdefault(part.group_name, []).append(rows)
            frames = [
                merge(lists).frame().select("chunk", pl.lit(name).alias("group_name"), "n")
                for name, lists in of_group.items()
            ]
            if frames:
                yield pl.concat(frames).sort("chunk", "group_name")


@contextlib.contextmanager
def _opened(parts: Sequence[Part]) -> Iterator[list[pq.ParquetFile]]:
    total = sum(part.total for part in parts)
    if total > MAX_COUNT:
        raise StreambpeError(
            f"The counts add up to {total}, more than a 64-bit count holds ({MAX_COUNT}). Nothing was changed."
        )
    files = [pq.ParquetFile(part.path, pre_buffer=False) for part in parts]
    try:
        yield files
    finally:
        for file in files:
            file.close()


def _ranges(parts: Sequence[Part], range_bytes: int) -> Iterator[tuple[str, str | None]]:
    """From which chunk on and up to which (None: the end) pieces of about so many bytes go."""
    starts = sorted((low, size) for part in parts for low, _, size in part.groups)
    bounds, held = [""], 0
    for low, size in starts:
        if held + size > range_bytes and held and low > bounds[-1]:
            bounds.append(low)
            held = 0
        held += size
    yield from zip(bounds, [*bounds[1:], None], strict=True)


def _read_range(part: Part, file: pq.ParquetFile, low: str, high: str | None) -> ChunkList | None:
    """A part's chunks from `low` to before `high`, if it has any."""
    wanted = [g for g, (a, b, _) in enumerate(part.groups) if b >= low and (high is None or a < high)]
    if not wanted:
        return None
    table = file.read_row_groups(wanted, use_threads=False).combine_chunks()
    if not table.num_rows:
        return None
    chunks, n = (table[name].chunk(0) for name in ("chunk", "n"))
    rows = ChunkList(*arrow_buffers(chunks), n.to_numpy())
    rows = rows.part(rows.first_not_below(low), len(rows) if high is None else rows.first_not_below(high))
    return rows if len(rows) else None


def compact(run: Run, parts: list[Part], range_bytes: int, threads: int) -> list[Part]:
    """Merge MERGE_FILES files of a group's level into one of the next, as long as a level holds that many; fewer where
    one row group of each is more than a range."""
    while True:
        largest = max((size for part in parts for _, _, size in part.groups), default=1)
        files = min(max(2 * range_bytes // max(largest, 1), _LEAST_FILES), MERGE_FILES)
        many = Counter((p.group_name, p.level) for p in parts)
        kind = next((kind for kind in sorted(many) if many[kind] >= files), None)
        if kind is None:
            return parts
        batch = [p for p in parts if (p.group_name, p.level) == kind][:files]
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
    writer = PartWriter(target, min(max(range_bytes >> 11, _LEAST_GROUP_ROWS), _GROUP_ROWS), run=run.number)
    try:
        _give_out(merged_lists(batch, range_bytes), [writer.write, *also], threads)
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


def _give_out(pieces: Iterator[ChunkList], uses: Sequence[_Use], threads: int) -> None:
    """Give every piece to every one of `uses`, in order; they work at the same time, but on one piece only."""
    with ThreadPoolExecutor(min(threads, len(uses))) as pool:
        for piece in pieces:
            for done in [pool.submit(use, piece) for use in uses]:
                done.result()
            del piece  # here it would be held until the next one is read


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
        run_sql(con, "steps/clear_counts")

        def insert(rows: ChunkList) -> None:
            feed(con, "steps/insert_chunk_counts", rows.table())

        if len(parts) == 1 or groups:
            _give_out(merged_lists(parts, range_bytes), [digest.add, insert], threads)
            names = sorted(part.path.name for part in parts)
        elif parts:
            merged = merge_into(run, parts, range_bytes, max(p.level for p in parts) + 1, threads, [digest.add, insert])
            names = [merged.path.name]
        else:
            names = []
        feed(con, "steps/insert_sources", spans_frame(spans))
        if groups:
            feed(con, "steps/insert_source_groups", pl.DataFrame(groups))
        corpus = digest.facts(sum(span.documents for span in spans))
        run_sql(con, "steps/put_run", key="corpus", value=json.dumps(corpus))
        run_sql(con, "steps/put_run", key="folded", value=json.dumps(names))
        if left != facts.get("unfinished", "[]"):
            run_sql(con, "steps/put_run", key="unfinished", value=left)
        failpoint("fold-filled")
        with tables_written(run.state) as written:
            run_sql(con, "steps/put_run", key="written", value=written)
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
            for piece in merged_lists(mine, range_bytes):
                digest.add(piece)
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
