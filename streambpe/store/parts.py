"""Committed parts of the chunk counts: files that are read by ranges of chunks, in bounded memory.

A part is one Parquet file (chunk, n), sorted by the chunks' bytes. Its footer names the stretches of
input it covers, so *renaming it into place commits counts and progress together*:

    counts/part-00007.parquet     stretches of the input, counted once
    counts/merged-00003.parquet   several parts added up; names the files it replaces
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList
from streambpe.errors import RunError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.files import put_in_place
from streambpe.store.checksums import add_checksum, refuse_damaged
from streambpe.store.identity import refuse_other_run
from streambpe.store.run import Run

PART_FORMAT = 2  # 1: before source groups; read as a part without a group
_SCHEMA = pa.schema([("chunk", pa.large_string()), ("n", pa.int64())])
GROUP_ROWS = 16_384  # rows in a row group, at most: 0.5 MB of English chunks in memory
LEAST_GROUP_ROWS = 1024
_GROUPS = 64  # row groups in a part that is written at once, unless the bounds on their rows say otherwise
_GROUP_BYTES = 8 << 20  # of chunks in a row group, at most
_KEY_CHARS = 64  # that the footer keeps of a row group's first and last chunk
_LISTINGS = 20  # tries to list a folder in which files come and go


@dataclass(frozen=True)
class Span:
    """A stretch of one input that a part covers; the fields are the columns of table sources."""

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
    groups: tuple[tuple[str, str, int], ...]  # for each row group: lowest chunk, highest chunk, bytes
    run: str = ""  # the number of the run that it was written for
    name: str = ""  # the file name it was written under; "" if written by an older version

    @property
    def group_name(self) -> str:
        """The source group whose counts these are; "" if none was named."""
        return self.spans[0].group_name if self.spans else ""


class _Format(msgspec.Struct):
    """The field that tells whether the rest of a footer can be read; msgspec ignores the rest here."""

    format: int


class _Footer(_Format):
    """What a part's footer holds, as JSON. Fields with a default were not there in older versions."""

    rows: int
    total: int
    level: int
    replaces: tuple[str, ...]
    groups: tuple[tuple[str, str, int], ...]
    spans: tuple[Span, ...]
    run: str = ""
    name: str = ""


class PartWriter:
    """Writes one part; nothing is visible until `commit`."""

    def __init__(
        self,
        target: Path,
        group_rows: int | None = None,
        *,
        run: str = "",
        compression: Literal["zstd", "none"] = "zstd",
    ) -> None:
        """`run`: the number of the run (Run.number).

        `group_rows`: rows in a row group, in place of the default, which suits a part that is written at once. A merge
        reads at least one row group of each file. `compression`: "none" suits a part that is read once and removed.
        """
        self.target = target
        self._run = run
        self._group_rows = group_rows
        self._temporary = target.with_name(target.name + ".new")
        self._writer = pq.ParquetWriter(
            self._temporary,
            _SCHEMA,
            compression=compression,
            compression_level=1 if compression == "zstd" else None,
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
        most = self._group_rows or min(max(len(rows) // _GROUPS, LEAST_GROUP_ROWS), GROUP_ROWS)
        start = 0
        while start < len(rows):
            below = int(np.searchsorted(sizes, _GROUP_BYTES + (sizes[start - 1] if start else 0), side="right"))
            stop = min(len(rows), start + most, max(below, start + 1))
            group = rows.part(start, stop)
            self._writer.write_table(group.table())
            low, high = (_first_chars(group, i) for i in (0, len(group) - 1))
            if len(high) > _KEY_CHARS:
                high = high[:_KEY_CHARS] + "\U0010ffff" * 8
            size = int(sizes[stop - 1] - (sizes[start - 1] if start else 0))
            self._groups.append((low[:_KEY_CHARS], high, size))
            start = stop
        self.rows += len(rows)
        self.total += int(rows.n.sum())

    def commit(self, spans: Sequence[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Close the file and rename it into place: from then on the part counts."""
        part = self.close(spans, level, replaces)
        self.put()
        return part

    def close(self, spans: Sequence[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Write the footer and close the file, which is still invisible; returns the part as it will be."""
        part = Part(
            self.target, tuple(spans), self.rows, self.total, level, tuple(replaces), tuple(self._groups),
            self._run, self.target.name,
        )  # fmt: skip
        footer = _Footer(
            PART_FORMAT, part.rows, part.total, level, part.replaces, part.groups, part.spans, part.run, part.name
        )
        self._writer.add_key_value_metadata({"streambpe": msgspec.json.encode(footer)})
        self._writer.close()
        add_checksum(self._temporary)
        failpoint("part-written")
        return part

    def put(self) -> None:
        """Fsync a closed part and rename it into place: from then on it counts."""
        put_in_place(self._temporary, self.target)
        failpoint("part-committed")

    def abandon(self) -> None:
        """Give up: leave no file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)


def _first_chars(rows: ChunkList, row: int) -> str:
    """A chunk's first characters: one more than the footer keeps, or the whole chunk if it is shorter."""
    start, stop = rows.offsets[row : row + 2].tolist()
    return bytes(rows.data[start : min(stop, start + 4 * _KEY_CHARS + 4)]).decode(errors="ignore")[: _KEY_CHARS + 1]


def read_part(path: Path) -> Part:
    """A part, as its footer describes it."""
    try:
        refuse_damaged(path)
        facts = (pq.read_metadata(path).metadata or {})[b"streambpe"]
        number = msgspec.json.decode(facts, type=_Format).format
        found = msgspec.json.decode(facts, type=_Footer) if number in range(1, PART_FORMAT + 1) else None
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError, msgspec.MsgspecError) as why:
        raise RunError(
            f"{path} is damaged ({str(why).splitlines()[0]}). Move it away and count again: the sources "
            f"it covered are read again, everything else is kept."
        ) from None
    if found is None:
        raise RunError(f"{path} has part format {number}; this streambpe reads up to {PART_FORMAT}.")
    return Part(
        path, found.spans, found.rows, found.total, found.level, found.replaces, found.groups, found.run, found.name
    )


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
        for leftover in run.sequences.glob("part-*"):  # left by a kill before their part was committed
            if leftover.name.split(".")[0] not in committed:
                leftover.unlink()
    parts = [part for part in found if part.path.name not in gone]
    _refuse_counted_twice(parts)
    return parts


def _refuse_strangers(run: Run, parts: Sequence[Part]) -> None:
    """An error if a file in counts/ was put there from elsewhere."""
    aside = "move the part away and count again: the sources it covered are read again, everything else is kept."
    for number, path in {part.run: part.path for part in parts[::-1]}.items():  # one part for each number
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
    """The parts of all files; the folder is listed anew if another process merged some of them meanwhile."""
    for _ in range(_LISTINGS):
        with contextlib.suppress(FileNotFoundError):
            return [_remembered(run, path) for path in sorted(run.counts.glob("*.parquet"))]
    raise RunError(f"{run.counts}: another process merges the counts. Nothing was changed. Wait until it is done.")


def _remembered(run: Run, path: Path) -> Part:
    """The part in a file. While the run's lock is held, a file that did not change is read only once."""
    footers: dict[Path, tuple[tuple[int, ...], Part]] = run.once("footers", dict)
    stat = path.stat()
    content = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if path not in footers or footers[path][0] != content:
        footers[path] = content, read_part(path)
    return footers[path][1]


def next_number(run: Run) -> int:
    """A number above that of every part and sequence file in the run."""
    numbers = [int(p.stem.rsplit("-", 1)[1].split(".")[0]) for p in run.counts.glob("*-*.parquet")]
    numbers += [int(p.name.split(".")[0].rsplit("-", 1)[1]) for p in run.sequences.glob("part-*.parquet")]
    return max(numbers, default=0) + 1


def check_total(parts: Sequence[Part], chunks: int, size: int, what: str) -> None:
    """Refuse counts, before they are committed, that would make the run's chunks or bytes outgrow 64 bits."""
    chunks += sum(part.total for part in parts)
    size += sum(span.text_bytes for part in parts for span in part.spans)
    for total, unit in ((chunks, "chunks"), (size, "bytes")):
        if total > MAX_COUNT:
            raise StreambpeError(
                f"With {what} the run would hold {total} {unit}, more than a 64-bit count holds ({MAX_COUNT}). "
                f"Nothing of it was added."
            )


def parts_by_group(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each source group, in the order of the groups' names."""
    return {name: [p for p in parts if p.group_name == name] for name in sorted({p.group_name for p in parts})}
