"""Count tables as sources: read a little at a time, added up, written as parts that come into place at the end."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList, arrow_buffers
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError, UsageError, quoted
from streambpe.later import compute as pc
from streambpe.sources.digests import digest_file
from streambpe.sources.read import gaps_between
from streambpe.sources.source import Block, BlockText, Source
from streambpe.sources.stretches import Stretch
from streambpe.sources.tables import read_count_table
from streambpe.store.parts import PartWriter, check_total, list_parts
from streambpe.text.chunker import ChunkCounts
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, drop_unencodable
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.worker import span_of


def count_table(left: Stretch, config: CountConfig, pattern: Pattern, committer: Committer, sizes: Sizes) -> None:
    """Add what is left of a table of chunks and counts: all of it, or nothing. A kill between two of its parts leaves
    the rows of the others."""
    rows, documents, source = 0, 0, left.source
    with contextlib.ExitStack() as writers:
        parts = _TableParts(source, config, committer, sizes, writers)
        for table in read_count_table(source):
            if table.pattern is not None and table.pattern != pattern.expression:
                raise UsageError(
                    f"{source.path} was counted with the pattern {quoted(table.pattern)}; but {committer.run.path} "
                    f"counts with --pattern {config.pattern}. Nothing was changed. Give the pattern it was made with."
                )
            documents += table.documents
            before, rows = rows, rows + table.rows.num_rows
            for low, high in gaps_between(left.done, rows if left.stop is None else min(rows, left.stop)):
                if high is not None and high > before:
                    parts.add(max(low, before), table.rows.slice(max(low - before, 0), high - max(low, before)))
        parts.commit(rows, documents)


class _TableParts:
    """The parts that a table becomes. None counts before all are written."""

    def __init__(
        self, source: Source, config: CountConfig, committer: Committer, sizes: Sizes, writers: contextlib.ExitStack
    ) -> None:
        self._source, self._config, self._committer, self._most = source, config, committer, sizes.rows
        self._digest = digest_file(source)
        self._sums = ChunkCounts(None, sizes.table)
        self._start = self._stop = 0  # which rows the sums are of
        self._dropped = 0  # characters, of these rows
        self._chunks = self._text_bytes = 0  # of all parts
        self._writers = writers  # leave no file that is not in place
        self._written: list[PartWriter] = []

    def add(self, start: int, rows: pa.Table) -> None:
        """Add the next rows; `start`: the number of the first."""
        if start != self._stop or self._sums.held > self._most:
            if self._stop > self._start:
                self._write()
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
        """Put all parts in place. `rows`, `documents`: of the whole table."""
        if self._stop > self._start or not self._written:
            self._write(rows, documents)
        for writer in self._written:
            writer.put()

    def _write(self, rows: int = -1, documents: int = 0) -> None:
        """Write what is added up as a part. `rows`, `documents`: of the whole table, where that is known."""
        source, committer, summed = self._source, self._committer, self._sums.take()
        size = text_bytes(summed)
        self._text_bytes += size
        check_total(list_parts(committer.run), self._chunks, self._text_bytes, source.path)
        name, ended = committer.next_name(), self._stop == rows
        writer = self._writers.enter_context(PartWriter(committer.target(name), run=committer.run.number))
        writer.write(summed)
        made = BlockText(b"", documents if ended else 0, self._digest, dropped=self._dropped)
        writer.close([span_of(Block(source, self._start, self._stop, b"", ended), made, size, name)])
        self._written.append(writer)
        self._start, self._dropped = self._stop, 0


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
