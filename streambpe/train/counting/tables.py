"""Count tables as sources: read a little at a time, added up, written as parts that come into place at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList, arrow_buffers
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError, UsageError, quoted
from streambpe.later import compute as pc
from streambpe.sources.digests import digest_file
from streambpe.sources.read import gaps_between
from streambpe.sources.source import Source
from streambpe.sources.tables import read_count_table
from streambpe.store.parts import PartWriter, check_total, list_parts
from streambpe.store.spans import Span
from streambpe.text.chunker import ChunkSums
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, drop_unencodable
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes


def count_table(
    source: Source,
    done: Sequence[tuple[int, int]],
    config: CountConfig,
    pattern: Pattern,
    committer: Committer,
    sizes: Sizes,
) -> None:
    """Add a table of chunks and counts: all of it, or nothing. `done`: the rows of it that are counted already, if a
    kill came between two of its parts."""
    parts = _TableParts(source, config, committer, sizes)
    rows, documents = 0, 0
    try:
        for table in read_count_table(source):
            if table.pattern is not None and table.pattern != pattern.expression:
                raise UsageError(
                    f"{source.path} was counted with the pattern {quoted(table.pattern)}; but {committer.run.path} "
                    f"counts with --pattern {config.pattern}. Nothing was changed. Give the pattern it was made with."
                )
            documents += table.documents
            for start, left in _rows_left(table.rows, rows, done):
                parts.add(start, left)
            rows += table.rows.num_rows
        parts.commit(rows, documents)
    finally:
        parts.abandon()


def _rows_left(table: pa.Table, first: int, done: Sequence[tuple[int, int]]) -> Iterator[tuple[int, pa.Table]]:
    """What is not counted of these rows, in stretches, each with the number of its first row in the source. `first`:
    the number of the first of these rows."""
    for low, high in gaps_between(list(done)):
        start, stop = max(low - first, 0), table.num_rows if high is None else min(high - first, table.num_rows)
        if start < stop:
            yield first + start, table.slice(start, stop - start)


class _TableParts:
    """The parts that a table becomes. None counts before all are written."""

    def __init__(self, source: Source, config: CountConfig, committer: Committer, sizes: Sizes) -> None:
        self._source = source
        self._config = config
        self._committer = committer
        self._most = sizes.rows
        self._digest = digest_file(source)
        self._sums = ChunkSums(sizes.table)
        self._start = self._stop = 0  # which rows the sums are of
        self._chunks = 0  # of all parts
        self._dropped = 0  # characters, of these rows
        self._text_bytes = 0  # of all parts
        self._parts: list[PartWriter] = []  # closed, but for the last one while it is written

    def add(self, start: int, rows: pa.Table) -> None:
        """Add the next rows; `start`: the number of the first."""
        if start != self._stop or self._sums.held > self._most:
            if self._stop > self._start:
                self._close()
            self._start = start
        self._stop = start + rows.num_rows
        rows = rows.filter(pc.greater(rows["n"], 0))
        if self._config.unencodable != "bytes":
            rows, dropped = _without_unencodable(rows, self._source.path, self._config.unencodable == "error")
            self._dropped += dropped
        if not rows.num_rows:
            return
        rows = rows.combine_chunks()
        n = rows["n"].chunk(0).to_numpy()
        self._chunks += sum(n.tolist())
        if self._chunks > MAX_COUNT:
            raise StreambpeError(f"{self._source.path} holds more than {MAX_COUNT} chunks. Nothing was changed.")
        self._sums.add_counted(*arrow_buffers(rows["chunk"].chunk(0)), n)

    def commit(self, rows: int, documents: int) -> None:
        """Put all parts in place; `rows`: of the whole table."""
        if self._stop > self._start or not self._parts:
            self._close(rows, documents)
        for part in self._parts:
            part.put()

    def _close(self, rows: int = -1, documents: int = 0) -> None:
        """Write what is added up as a part. `rows`, `documents`: of the whole table, where that is known."""
        source, committer = self._source, self._committer
        summed = self._sums.take()
        size = text_bytes(summed)
        self._text_bytes += size
        check_total(list_parts(committer.run), self._chunks, self._text_bytes, source.path)
        writer = committer.writer(committer.next_name())
        self._parts.append(writer)
        writer.write(summed)
        last = self._stop == rows
        span = Span(
            path=source.path,
            kind="counts",
            text_column="",
            start_at=self._start,
            stop_at=self._stop,
            documents=documents if last else 0,
            text_bytes=size,
            bad_utf8=0,
            boms=0,
            nulls=0,
            digest=self._digest,
            part=writer.target.stem,
            file_bytes=source.bytes,
            mtime_ns=source.mtime_ns,
            state="last" if last else "part",
            dropped=self._dropped,
            group_name=source.group or "",
        )
        writer.close([span])
        committer.note(summed.hashes(), [span])
        self._start, self._dropped = self._stop, 0

    def abandon(self) -> None:
        """Leave no file that is not in place."""
        for part in self._parts:
            part.abandon()


def _without_unencodable(rows: pa.Table, path: str, refuse: bool) -> tuple[pa.Table, int]:
    """Rows whose chunks are as --unencodable drop or error has them, and how many characters of the text are gone."""
    chunks = rows["chunk"].to_pylist()
    try:
        kept, gone = drop_unencodable(b"\xff".join(map(str.encode, chunks)), raise_first=refuse)
    except UnencodableText as why:
        raise SourceError(
            f"{path}: {why}. Nothing was changed. Leave the chunk out, or count with --unencodable bytes or drop."
        ) from None
    if not gone:
        return rows, 0
    left = [chunk.decode() for chunk in kept.split(b"\xff")]
    lost = sum((len(chunk) - len(rest)) * n for chunk, rest, n in zip(chunks, left, rows["n"].to_pylist(), strict=True))
    rows = rows.set_column(0, "chunk", pa.array(left, pa.large_string()))
    return rows.filter(pc.greater(pc.binary_length(rows["chunk"]), 0)), lost


def text_bytes(rows: ChunkList) -> int:
    """UTF-8 bytes of all occurrences; exact, whatever the counts."""
    return sum(map(int.__mul__, rows.lengths.tolist(), rows.n.tolist()))
