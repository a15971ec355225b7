"""Sources cut into stretches that different workers read: where no worker needs another's text.

big.jsonl        0 to 67 109 121, 67 109 121 to 134 218 004, ...      bytes, behind a line break
big.parquet      0 to 81 920, 81 920 to 163 840, ...                  rows, between row groups
big.csv          likewise behind a record: to know whether a line break is in quotes, all before it is looked at here
big.txt          0 to 67 108 870, ...                                 bytes, where the pattern has a border in any case
text.jsonl.gz    all of it: a compression cannot be entered
a.txt, b.txt     together, if they are small
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from streambpe.core.binding import csv_records_end
from streambpe.errors import UsageError
from streambpe.plurals import some_of
from streambpe.resources import Resources
from streambpe.runners.ray import refuse_missing_engine
from streambpe.sources.borders import find_border
from streambpe.sources.csv_records import read_header
from streambpe.sources.not_text import SAMPLE_BYTES, TAKE_ANYWAY, refuse_if_not_text
from streambpe.sources.read import gaps_between, group_bytes, open_parquet, row_group_starts
from streambpe.sources.remote.address import is_remote
from streambpe.sources.source import Source, name_of
from streambpe.sources.streams import SourceBytes, compression_of
from streambpe.text.patterns import Pattern

Done = Sequence[tuple[int, int]]
_LOOKED = 1 << 20  # bytes in which a line break or a border is looked for
_SCANNED = 8 << 20  # bytes of a csv, of which the last whole record is found at once
_MOST_STRETCHES = 1000  # small sources in one task
_MOST_RECORD = 64 << 20  # a csv with larger ones is not cut any more


class Stretch(msgspec.Struct, frozen=True):
    """What is left of a source up to `stop`: all positions that are not done."""

    source: Source
    done: tuple[tuple[int, int], ...] = ()
    stop: int | None = None  # None: the end of the source, wherever that is

    def without(self, done: Done) -> Stretch:
        """What is left of it when these are done too."""
        return Stretch(self.source, (*self.done, *done), self.stop)

    @property
    def at(self) -> int:
        """Where it begins."""
        return gaps_between(self.done)[0][0]

    @property
    def is_open(self) -> bool:
        """Whether anything may be left of it."""
        return self.stop is None or any(start < self.stop for start, _ in gaps_between(self.done))


def bytes_between(kind: str, path: str, start: int, stop: int) -> int:
    """Bytes of the file between two places of a source, if places are bytes there; else 0."""
    return 0 if kind == "parquet" or compression_of(path) else stop - start


def title_of(stretches: Sequence[Stretch]) -> str:
    """Stretches in a few words, as `a.txt from 0 and 3 more`."""
    return some_of([f"{Path(one.source.path).name} from {one.at:,}" for one in stretches], 1)


def refuse_engine(sources: Sequence[Source], resources: Resources) -> None:
    """Refuse --engine ray where a source can be read by this process only."""
    refuse_missing_engine(resources.engine)
    if resources.engine != "ray":
        return
    alone = next((source for source in sources if source.is_stream or source.kind == "counts"), None)
    if alone is not None:
        what = "a count table" if alone.kind == "counts" else "a stream"
        raise UsageError(
            f"--engine ray: {name_of(alone)} is {what}, which only one process can read. Nothing was "
            "changed. Leave --engine out, or count it separately."
        )


def can_be_cut(source: Source, pattern: Pattern) -> bool:
    """Whether a large source is more than one stretch."""
    if compression_of(source.path) or source.is_stream:
        return False
    if source.kind == "csv" and is_remote(source.path):  # finding where its records end is to read all of it once more
        return False
    return source.kind in ("jsonl", "lines", "csv", "parquet") or (source.kind == "txt" and pattern.has_cuts)


def cut(source: Source, done: Done, size: int, pattern: Pattern) -> Iterator[Stretch]:
    """The rest of a source in stretches of about `size` bytes on disk. An error if it is not what its name says."""
    if not can_be_cut(source, pattern):
        yield Stretch(source, tuple(done))
        return
    cuts = _row_cuts(source, size) if source.kind == "parquet" else _byte_cuts(source, done, size, pattern)
    begin = 0
    for stop in itertools.chain(cuts, [None]):
        low = [(0, begin)] if begin else []
        inside = [(start, end) for start, end in done if end > begin and (stop is None or start < stop)]
        stretch = Stretch(source, (*low, *inside), stop)
        if stretch.is_open:
            yield stretch
        begin = stop or 0


def in_tasks(stretches: Iterable[Stretch], size: int) -> Iterator[tuple[Stretch, ...]]:
    """Those of one task after another, in order: about `size` bytes, of one source group, of not too many sources."""
    held: list[Stretch] = []
    held_bytes = 0
    for stretch in stretches:
        more = min(size, stretch.source.bytes)
        is_full = held_bytes + more > size or len(held) >= _MOST_STRETCHES
        if held and (is_full or held[0].source.group != stretch.source.group):
            yield tuple(held)
            held, held_bytes = [], 0
        held.append(stretch)
        held_bytes += more
    if held:
        yield tuple(held)


def _byte_cuts(source: Source, done: Done, size: int, pattern: Pattern) -> Iterator[int]:
    """Places where a stretch may end, about `size` bytes apart."""
    with SourceBytes(source) as stream:
        if not done and not source.any_bytes:
            refuse_if_not_text(stream.unread(stream.read(SAMPLE_BYTES)), name_of(source), TAKE_ANYWAY)
        if source.kind == "csv":
            yield from _record_cuts(stream, source, done, size)
        else:
            yield from _text_cuts(stream, source, size, pattern)


def _text_cuts(stream: SourceBytes, source: Source, size: int, pattern: Pattern) -> Iterator[int]:
    """Places right behind a line break; in plain text, borders of the pattern that are certain whatever is around."""
    before = 0
    for wanted in range(size, source.bytes, size):
        stream.seek(wanted - 1)
        held = stream.read(_LOOKED if source.kind != "txt" else min(_LOOKED, size))
        place = wanted + held.find(b"\n") if source.kind != "txt" else wanted - 1 + find_border(held, pattern)
        if place >= wanted and before < place < source.bytes:
            yield place
            before = place


def _record_cuts(stream: SourceBytes, source: Source, done: Done, size: int) -> Iterator[int]:
    """Places right behind a record of a csv. What is counted already is not read."""
    _, header_bytes = read_header(stream, source)
    at = before = gaps_between(done)[0][0] or header_bytes
    stream.seek(at)
    held = b""
    while more := stream.read(min(_SCANNED, size)):
        held += more
        end = csv_records_end(held)
        if not end and len(held) > _MOST_RECORD:
            return
        at, held = at + end, held[end:]
        if at - before >= size and at < source.bytes:
            yield at
            before = at


def _row_cuts(source: Source, size: int) -> list[int]:
    """Rows that begin a row group, about `size` bytes of the file apart."""
    with open_parquet(source) as file:
        cuts, held = [], 0
        for group, stop in enumerate(row_group_starts(file)[1:-1]):
            held += group_bytes(file, group)
            if held >= size and stop:
                cuts.append(stop)
                held = 0
        return cuts
