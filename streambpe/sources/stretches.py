"""Sources cut into stretches that different workers read: at ends of documents, so that no worker needs another's text.

big.jsonl        0 to 67 109 121, 67 109 121 to 134 218 004, ...      bytes, behind a line break
big.parquet      0 to 81 920, 81 920 to 163 840, ...                  rows, between row groups
text.jsonl.gz    all of it: a compression cannot be entered; the same for csv and plain text
a.txt, b.txt     together, if they are small
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streambpe.sources.not_text import SAMPLE_BYTES, refuse_if_not_text
from streambpe.sources.read import gaps_between, open_parquet, row_group_starts
from streambpe.sources.source import Source, name_of
from streambpe.sources.streams import compression_of, open_bytes, read_exactly

Done = Sequence[tuple[int, int]]
_LOOKED = 1 << 20  # bytes in which a line break is looked for


@dataclass(frozen=True)
class Stretch:
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


def cut(source: Source, done: Done, size: int, take_anyway: str = "") -> Iterator[Stretch]:
    """The rest of a source in stretches of about `size` bytes on disk. An error if it is not what its name says."""
    if compression_of(source.path) or source.kind not in ("jsonl", "lines", "parquet"):
        yield Stretch(source, tuple(done))
        return
    cuts = _row_cuts(source, size) if source.kind == "parquet" else _line_cuts(source, done, size, take_anyway)
    begin = 0
    for stop in [*cuts, None]:
        low = [(0, begin)] if begin else []
        inside = [(start, end) for start, end in done if end > begin and (stop is None or start < stop)]
        stretch = Stretch(source, (*low, *inside), stop)
        if stretch.is_open:
            yield stretch
        begin = stop or 0


def _line_cuts(source: Source, done: Done, size: int, take_anyway: str) -> Iterator[int]:
    """Places right behind a line break, about `size` bytes apart."""
    stream, _ = open_bytes(source)
    with contextlib.closing(stream):
        if not done and not source.any_bytes:
            refuse_if_not_text(read_exactly(stream, SAMPLE_BYTES, source, 0), name_of(source), take_anyway)
        before = 0
        for wanted in range(size, source.bytes, size):
            stream.seek(wanted - 1)
            found = read_exactly(stream, _LOOKED, source, wanted - 1).find(b"\n")
            place = wanted + found
            if found >= 0 and before < place < source.bytes:
                yield place
                before = place


def _row_cuts(source: Source, size: int) -> list[int]:
    """Rows that begin a row group, about `size` bytes of the file apart."""
    with open_parquet(source) as file:
        starts = row_group_starts(file)
        cuts, held = [], 0
        for group in range(file.num_row_groups - 1):
            columns = file.metadata.row_group(group)
            held += sum(columns.column(c).total_compressed_size for c in range(columns.num_columns))
            if held >= size and int(starts[group + 1]):
                cuts.append(int(starts[group + 1]))
                held = 0
        return cuts
