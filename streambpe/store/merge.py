"""Merging parts by ranges of chunks: row groups are small and their first and last chunks are in the
footer, so for a range a few row groups of each file are read. Memory: `range_bytes` and one row group
(0.5 MB of English at most) for each file; disk: each level of 64 files rewrites its rows once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq

from streambpe.core.strings import ChunkList, merge
from streambpe.failpoints import failpoint
from streambpe.store.parts import GROUP_ROWS, LEAST_GROUP_ROWS, Part, Parts, next_number, refuse_overflow, write_part
from streambpe.store.run import Run
from streambpe.threads import in_order

MERGE_FILES = 64  # open at once in a merge
_LEAST_FILES = 8


def merged_lists(parts: Sequence[Part], range_bytes: int, minus: Sequence[Part] = ()) -> Iterator[ChunkList]:
    """The sum of several parts in pieces: disjoint, ascending, in byte order. The counts of `minus` are subtracted.

    Cost: every row is read once, and a row at the border of two ranges twice.
    """
    with opened(parts) as files, opened(minus) as others:
        for low, high in ranges([*parts, *minus], range_bytes):
            rows = [each for each in lists_of_range(parts, files, low, high) if each is not None]
            gone = [each for each in lists_of_range(minus, others, low, high) if each is not None]
            rows += [ChunkList(each.offsets, each.data, -each.n) for each in gone]
            del gone
            if rows:
                yield rows[0] if len(rows) == 1 else merge(rows)
            del rows  # otherwise they would be held while the next range is read


def lists_of_range(
    parts: Sequence[Part], files: Sequence[pq.ParquetFile], low: str, high: str | None, threads: int = 1
) -> list[ChunkList | None]:
    """What each part holds of a range, if anything; so many parts are read at a time."""

    both = zip(parts, files, strict=True)
    return list(in_order(lambda one: _read_range(*one, low, high), both, max(1, min(threads, len(parts)))))


@contextlib.contextmanager
def opened(parts: Sequence[Part]) -> Iterator[list[pq.ParquetFile]]:
    """The files of parts, to be read by ranges."""
    total = sum(part.total for part in parts)
    refuse_overflow(total, f"The counts add up to {total}")
    files = [pq.ParquetFile(part.path, pre_buffer=False) for part in parts]
    try:
        yield files
    finally:
        for file in files:
            file.close()


def ranges(parts: Sequence[Part], range_bytes: int) -> Iterator[tuple[str, str | None]]:
    """Ranges of about `range_bytes`, as (first chunk, the chunk that ends it; None: the end)."""
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
    rows = ChunkList.of_table(file.read_row_groups(wanted, use_threads=False))
    rows = rows.part(rows.first_not_below(low), len(rows) if high is None else rows.first_not_below(high))
    return rows if len(rows) else None


def compact(run: Run, parts: list[Part], range_bytes: int) -> list[Part]:
    """While a level of a source group has MERGE_FILES files, merge that many into one of the next level; fewer where
    one row group of each would be more than two ranges."""
    while True:
        largest = max((size for part in parts for _, _, size in part.groups), default=1)
        files = min(max(2 * range_bytes // max(largest, 1), _LEAST_FILES), MERGE_FILES)
        many = Counter((p.group_name, p.level) for p in parts)
        kind = next((kind for kind in sorted(many) if many[kind] >= files), None)
        if kind is None:
            return parts
        batch = [p for p in parts if (p.group_name, p.level) == kind][:files]
        target = run.counts / f"merged-{next_number(run):05d}.parquet"
        spans, names = Parts(batch).spans.in_order(), [part.path.name for part in batch]
        rows = min(max(range_bytes >> 11, LEAST_GROUP_ROWS), GROUP_ROWS)
        sums = merged_lists(batch, range_bytes)
        merged = write_part(target, sums, spans, kind[1] + 1, names, group_rows=rows, run=run.number)
        failpoint("merge-committed")
        for part in batch:
            part.path.unlink()
        parts = [p for p in parts if p not in batch] + [merged]
