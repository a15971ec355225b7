"""Parts committed by several threads: their numbers, and what they tell of the count so far."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from streambpe.arrays import UInt64
from streambpe.core.strings import ChunkList
from streambpe.later import polars as pl
from streambpe.progress import Meter
from streambpe.store import sequences
from streambpe.store.parts import PartWriter, next_number, write_part
from streambpe.store.run import Run
from streambpe.store.spans import Span
from streambpe.text.chunker import Ids, Lengths
from streambpe.train.counting.sketch import DistinctSketch

NAMES = 1000  # parts that one task may commit


def part_name(number: int) -> str:
    """The name of a part and of its documents."""
    return f"part-{number:05d}"


class Committer:
    """Writes parts into RUN/counts; any thread may call it."""

    def __init__(self, run: Run, meter: Meter) -> None:
        self.run, self.meter = run, meter
        self.dropped: dict[str, int] = {}  # characters by source, --unencodable drop
        self.bad_utf8: dict[str, int] = {}  # sequences by source
        self._next = next_number(run)
        self._lock = threading.Lock()
        self._sketch = DistinctSketch()

    def first_name(self, many: int = NAMES) -> int:
        """The first of so many numbers for parts, which nobody else takes."""
        with self._lock:
            self._next += many
            return self._next - many

    def next_name(self) -> str:
        """The name of a part that nobody else writes."""
        return part_name(self.first_name(1))

    def writer(self, name: str) -> PartWriter:
        """A writer for a part of that name; nothing is visible until it commits."""
        return PartWriter(self.run.counts / f"{name}.parquet", run=self.run.number)

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> None:
        """Write and rename one part."""
        write_part(self.run.counts / f"{name}.parquet", [rows], spans, run=self.run.number)
        self.note(rows.hashes(), spans)

    def write_sequence(self, name: str, chunks: pl.Series, stretches: Sequence[Ids], n: Lengths, made_of: str) -> None:
        """Write the documents of a part that is committed next."""
        sequences.write_sequence(self.run.sequences, name, chunks, stretches, n, made_of)

    def note(self, hashes: UInt64, spans: Sequence[Span]) -> None:
        """Note what hashes of chunks, and stretches of input, say of the whole count."""
        self._sketch.add(hashes)
        with self._lock:
            for span in spans:
                for totals, n in ((self.dropped, span.dropped), (self.bad_utf8, span.bad_utf8)):
                    if n:
                        totals[span.path] = totals.get(span.path, 0) + n
            if bad := sum(span.bad_lines for span in spans):
                self.meter.facts["bad_lines"] = self.meter.facts.get("bad_lines", 0) + bad
        self.meter.facts["distinct_chunks"] = self._sketch.estimate()
