"""Parts committed by several threads: their numbers, and what they tell of the count so far."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from streambpe.core.strings import ChunkList
from streambpe.progress import Meter
from streambpe.store.parts import Part, PartWriter, next_number
from streambpe.store.run import Run
from streambpe.store.spans import Span
from streambpe.train.counting.sketch import DistinctSketch


class Committer:
    """Writes parts into RUN/counts; any thread may call it."""

    def __init__(self, run: Run, meter: Meter) -> None:
        self.run, self.meter = run, meter
        self.dropped: dict[str, int] = {}  # characters by source, --unencodable drop
        self.bad_utf8: dict[str, int] = {}  # sequences by source
        self._numbers = itertools.count(next_number(run))
        self._lock = threading.Lock()
        self._sketch = DistinctSketch()

    def next_name(self) -> str:
        """The name of a part that nobody else writes."""
        with self._lock:
            return f"part-{next(self._numbers):05d}"

    def writer(self, name: str) -> PartWriter:
        """A writer for a part of that name; nothing is visible until it commits."""
        return PartWriter(self.run.counts / f"{name}.parquet", run=self.run.number)

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> Part:
        """Write and rename one part."""
        writer = self.writer(name)
        try:
            writer.write(rows)
            part = writer.commit(spans)
        except BaseException:
            writer.abandon()
            raise
        self.note(rows, spans)
        return part

    def note(self, chunks: ChunkList, spans: Sequence[Span]) -> None:
        """Note what chunks and stretches of input say of the whole count."""
        self._sketch.add(chunks)
        with self._lock:
            for span in spans:
                for totals, n in ((self.dropped, span.dropped), (self.bad_utf8, span.bad_utf8)):
                    if n:
                        totals[span.path] = totals.get(span.path, 0) + n
        self.meter.facts["distinct_chunks"] = self._sketch.estimate()
