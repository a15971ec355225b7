"""Committed parts of the chunk counts: files that are read by ranges of chunks, in bounded memory.

A part is one Parquet file (chunk, n), sorted by the chunks' bytes. Its footer names the stretches of
input it covers, so *renaming it into place commits counts and progress together*:

    counts/part-00007.parquet     stretches of the input, counted once
    counts/merged-00003.parquet   several parts added up; names the files it replaces
"""

from __future__ import annotations

import contextlib
import operator
from base64 import b64decode
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList
from streambpe.errors import RunError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.files import UNFINISHED, put_in_place, unfinished
from streambpe.store.checksums import add_checksum, refuse_damaged
from streambpe.store.identity import refuse_other_run
from streambpe.store.run import Run
from streambpe.store.spans import Span, Spans, SpansByPath

_SCHEMA = pa.schema([("chunk", pa.large_string()), ("n", pa.int64())])
GROUP_ROWS = 16_384  # rows in a row group, at most: 0.5 MB of English chunks in memory
LEAST_GROUP_ROWS = 1024
_GROUPS = 64  # row groups in a part that is written at once, unless the bounds on their rows say otherwise
_GROUP_BYTES = 8 << 20  # of chunks in a row group, at most
_KEY_CHARS = 64  # that the footer keeps of a row group's first and last chunk
_FOOTERS, _LISTED = "footers", "parts"  # their names in a run's cache
_LISTINGS = 20  # tries to list a folder in which files come and go


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file in counts/, as its footer says in JSON; all its stretches are of one source group."""

    rows: int
    total: int  # sum of n
    level: int  # 0: counted; k + 1: a merge of files of level k
    replaces: tuple[str, ...]
    groups: tuple[tuple[str, str, int], ...]  # for each row group: lowest chunk, highest chunk, bytes
    run: str  # the number of the run that it was written for
    name: str  # the file name it was written under
    spans: Spans  # in the footer Spans.packed, as base64
    path: Path = Path()  # not in the footer

    @property
    def group_name(self) -> str:
        """The source group whose counts these are; "" if none was named."""
        return self.spans[0].group_name if self.spans else ""


class Parts(tuple[Part, ...]):
    """Parts, and their stretches as one. `list_parts` gives the same object as long as the files are the same."""

    @cached_property
    def spans(self) -> Spans:
        """The stretches of all parts, part after part."""
        return Spans.joined(part.spans for part in self)

    @cached_property
    def by_path(self) -> SpansByPath:
        """The stretches of each source."""
        return SpansByPath(self.spans)


class PartWriter:
    """Writes one part; nothing is visible until `commit`. As a context manager it leaves no file behind an error."""

    def __init__(self, target: Path, group_rows: int | None = None, *, run: str = "") -> None:
        """`run`: the number of the run (Run.number).

        `group_rows`: rows in a row group, in place of the default, which suits a part that is written at once. A merge
        reads at least one row group of each file.
        """
        self.target = target
        self._run = run
        self._group_rows = group_rows
        self.temporary = unfinished(target)
        how = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
        self._writer = pq.ParquetWriter(self.temporary, _SCHEMA, write_statistics=False, **how)
        self._groups: list[tuple[str, str, int]] = []
        self.rows = 0
        self.total = 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, why: object, *_: object) -> None:
        if why is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            with contextlib.suppress(OSError):
                self.temporary.unlink(missing_ok=True)

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

    def commit(self, spans: Iterable[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Close the file and rename it into place: from then on the part counts."""
        part = self.close(spans, level, replaces)
        self.put()
        return part

    def close(self, spans: Iterable[Span], level: int = 0, replaces: Sequence[str] = ()) -> Part:
        """Write the footer and close the file, which is still invisible; returns the part as it will be."""
        facts = self.rows, self.total, level, tuple(replaces), tuple(self._groups), self._run, self.target.name
        part = Part(*facts, Spans.of(spans))
        self._writer.add_key_value_metadata({"streambpe": msgspec.json.encode(part, enc_hook=Spans.packed)})
        self._writer.close()
        add_checksum(self.temporary)
        failpoint("part-written")
        return structs.replace(part, path=self.target)

    def put(self) -> None:
        """Fsync a closed part and rename it into place: from then on it counts."""
        put_in_place(self.temporary, self.target)
        failpoint("part-committed")


def write_part(
    target: Path,
    pieces: Iterable[ChunkList],
    spans: Iterable[Span] = (),
    level: int = 0,
    replaces: Sequence[str] = (),
    **how: Any,
) -> Part:
    """Write and commit one part; `how`: see PartWriter."""
    with PartWriter(target, **how) as writer:
        for rows in pieces:
            writer.write(rows)
        return writer.commit(spans, level, replaces)


def scratch_part(target: Path, pieces: Iterable[ChunkList]) -> Part:
    """Write a part that belongs to no run, and that no other command reads: it is neither synced nor renamed."""
    with PartWriter(target, GROUP_ROWS) as writer:
        for rows in pieces:
            writer.write(rows)
        part = writer.close([])
    return structs.replace(part, path=writer.temporary)


def _first_chars(rows: ChunkList, row: int) -> str:
    """A chunk's first characters: one more than the footer keeps, or the whole chunk if it is shorter."""
    start, stop = rows.offsets[row : row + 2].tolist()
    return bytes(rows.data[start : min(stop, start + 4 * _KEY_CHARS + 4)]).decode(errors="ignore")[: _KEY_CHARS + 1]


def read_part(path: Path) -> Part:
    """A part, as its footer describes it."""
    try:
        refuse_damaged(path)
        facts = (pq.read_metadata(path).metadata or {})[b"streambpe"]
        part = msgspec.json.decode(facts, type=Part, dec_hook=lambda _, held: Spans.of_packed(b64decode(held)))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError, msgspec.MsgspecError) as why:
        raise RunError(
            f"{path} is damaged ({str(why).splitlines()[0]}). Move it away and count again: the sources "
            f"it covered are read again, everything else is kept."
        ) from None
    return structs.replace(part, path=path)


def list_parts(run: Run, *, clean: bool = False) -> Parts:
    """All committed parts, by name. A file that a merge replaces does not count (`clean` removes it)."""
    found = _read_parts(run)
    _refuse_strangers(run, found)
    gone = {name for part in found for name in part.replaces}
    if clean:
        for name in gone:
            (run.counts / name).unlink(missing_ok=True)
        for leftover in (*run.counts.glob(UNFINISHED), *run.sequences.glob(UNFINISHED)):
            leftover.unlink()
        leftovers = list(run.sequences.glob("part-*"))
        committed = {name for part in found for name in part.spans.values("part")} if leftovers else set()
        for leftover in leftovers:  # a kill may leave them before their part is committed
            if leftover.name.split(".")[0] not in committed:
                leftover.unlink()
    parts = Parts(part for part in found if part.path.name not in gone)
    before: Parts | None = run.cache.get(_LISTED)
    if before is None or len(before) != len(parts) or not all(map(operator.is_, before, parts)):
        _refuse_counted_twice(parts)
        before = run.cache[_LISTED] = parts
    return before


def _refuse_strangers(run: Run, parts: Sequence[Part]) -> None:
    """An error if a file in counts/ was put there from elsewhere."""
    aside = "move the part away and count again: the sources it covered are read again, everything else is kept."
    for number, path in {part.run: part.path for part in parts[::-1]}.items():  # one part for each number
        refuse_other_run(run.path, number, path, aside)
    for part in parts:
        if part.name != part.path.name:
            raise RunError(
                f"{part.path} was written as {part.name}: it replaces another part. Nothing was changed. Put the "
                f"right one back, or {aside}"
            )


def _refuse_counted_twice(parts: Parts) -> None:
    """An error if two parts cover the same stretch of an input: one of them is from another time."""
    spans = parts.spans
    twice = spans.first_overlap()
    if twice is not None:
        bounds = np.cumsum([len(part.spans) for part in parts])
        one, other = (parts[int(np.searchsorted(bounds, place, side="right"))].path for place in twice)
        raise RunError(
            f"{one} and {other} both hold {spans[twice[1]].path} from {spans[twice[1]].start_at}: one of them is "
            "older, and would be counted twice. Nothing was changed. Move the older one away, and give the command "
            "again."
        )


def _read_parts(run: Run) -> list[Part]:
    """The parts of all files. While the run's lock is held, a file that did not change is read only once. The folder is
    listed anew if another process merged some of them meanwhile."""
    before: dict[Path, tuple[tuple[int, ...], Part]] = run.cache.get(_FOOTERS, {})
    for _ in range(_LISTINGS):
        footers = run.cache[_FOOTERS] = dict[Path, tuple[tuple[int, ...], Part]]()
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(run.counts.glob("*.parquet")):
                stat = path.stat()
                content = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                is_known = path in before and before[path][0] == content
                footers[path] = before[path] if is_known else (content, read_part(path))
            return [part for _, part in footers.values()]
    raise RunError(f"{run.counts}: another process is merging counts. Nothing was changed. Wait until it has finished.")


def next_number(run: Run) -> int:
    """A number above that of every part and sequence file in the run."""
    files = [*run.counts.glob("*-*.parquet"), *run.sequences.glob("part-*.parquet")]
    numbers = [path.name.split(".")[0].rsplit("-", 1)[1] for path in files]
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1


def check_total(parts: Sequence[Part], chunks: int, size: int, what: str) -> None:
    """Refuse counts, before they are committed, that would make the run's chunks or bytes outgrow 64 bits."""
    chunks += sum(part.total for part in parts)
    size += sum(part.spans.total("text_bytes") for part in parts)
    for total, unit in ((chunks, "chunks"), (size, "bytes")):
        refuse_overflow(total, f"With {what} the run would hold {total} {unit}", "Nothing of it was added.")


def refuse_overflow(total: int, told: str, then: str = "Nothing was changed.") -> None:
    """An error if no 64-bit count holds a sum. `told`: the beginning of what is said of it."""
    if total > MAX_COUNT:
        raise StreambpeError(f"{told}, more than a 64-bit count holds ({MAX_COUNT}). {then}")


def parts_by_group(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each source group, in the order of the groups' names."""
    return {name: [p for p in parts if p.group_name == name] for name in sorted({p.group_name for p in parts})}
