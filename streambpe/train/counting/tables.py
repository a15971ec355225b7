"""Count tables as sources: read whole and checked, then committed in parts of a million rows."""

from __future__ import annotations

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError, UsageError
from streambpe.later import polars as pl
from streambpe.sources.digests import digest_file
from streambpe.sources.source import Source
from streambpe.sources.tables import CountTable, read_count_table
from streambpe.store.parts import PartWriter, Span, check_total, list_parts
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, drop_unencodable
from streambpe.train.counting.committer import Committer

_TABLE_ROWS = 1_000_000  # rows of a count table in one part


def count_table(source: Source, config: CountConfig, pattern: Pattern, committer: Committer) -> None:
    """Add a table of chunks and counts: all of it, or nothing."""
    run = committer.run
    pieces: list[tuple[PartWriter, int, int, int]] = []  # with the rows it covers and its text bytes
    digest = digest_file(source)
    documents, at, dropped = 0, 0, 0
    try:
        for table in read_count_table(source, _TABLE_ROWS):
            if table.pattern is not None and table.pattern != pattern.expression:
                raise UsageError(
                    f"{source.path} was counted with the pattern {table.pattern!r}; {run.path} counts "
                    f"with --pattern {config.pattern}. Nothing was changed. Name the pattern it was made with."
                )
            documents += table.documents
            frame, gone = _checked_rows(table, source, config)
            dropped += gone
            writer = committer.writer(committer.next_name())
            pieces.append((writer, at, at + table.rows, text_bytes(frame)))
            rows = ChunkList.of(frame)
            writer.write(rows)
            committer.note(rows, ())
            at += table.rows
        chunks, size = sum(writer.total for writer, *_ in pieces), sum(size for *_, size in pieces)
        check_total(list_parts(run), chunks, size, source.path)
        for writer, start, stop, size in pieces:
            last = writer is pieces[-1][0]
            span = Span(
                path=source.path,
                kind="counts",
                text_column="",
                start_at=start,
                stop_at=stop,
                documents=documents if last else 0,
                text_bytes=size,
                bad_utf8=0,
                boms=0,
                nulls=0,
                digest=digest,
                part=writer.target.stem,
                file_bytes=source.bytes,
                mtime_ns=source.mtime_ns,
                state="last" if last else "part",
                dropped=dropped if last else 0,
                group_name=source.group or "",
            )
            writer.commit([span])
        if dropped:
            committer.dropped[source.path] = dropped
    finally:
        for writer, *_ in pieces:
            writer.abandon()


def _checked_rows(table: CountTable, source: Source, config: CountConfig) -> tuple[pl.DataFrame, int]:
    """Each chunk once, sorted, and how many characters --unencodable dropped."""
    if sum(table.counts) > MAX_COUNT:
        raise StreambpeError(f"{source.path} holds more than {MAX_COUNT} chunks. Nothing was changed.")
    frame = pl.DataFrame({"chunk": table.chunks, "n": table.counts}, schema={"chunk": pl.String, "n": pl.Int64})
    frame, dropped = frame.filter(pl.col("n") > 0), 0
    if config.unencodable != "bytes":
        frame, dropped = _without_unencodable(frame, source.path, config.unencodable == "error")
    return frame.group_by("chunk").agg(pl.col("n").sum()).sort("chunk"), dropped


def _without_unencodable(frame: pl.DataFrame, path: str, refuse: bool) -> tuple[pl.DataFrame, int]:
    """A table's chunks as --unencodable drop or error has them, and how many characters of the text are gone."""
    buffer = b"\xff".join(chunk.encode() for chunk in frame["chunk"])
    try:
        kept, gone = drop_unencodable(buffer, raise_first=refuse)
    except UnencodableText as why:
        raise SourceError(
            f"{path}: {why}. Nothing was changed. Leave the chunk out, or count with --unencodable bytes or drop."
        ) from None
    if not gone:
        return frame, 0
    left = frame.with_columns(pl.Series("chunk", [chunk.decode() for chunk in kept.split(b"\xff")], dtype=pl.String))
    lost = frame["chunk"].str.len_chars().cast(pl.Int64) - left["chunk"].str.len_chars().cast(pl.Int64)
    total = sum(chars * n for chars, n in zip(lost.to_list(), frame["n"].to_list(), strict=True) if chars)
    return left.filter(pl.col("chunk") != ""), total


def text_bytes(frame: pl.DataFrame) -> int:
    """UTF-8 bytes of all occurrences; exact, whatever the counts."""
    lengths = frame["chunk"].str.len_bytes().cast(pl.Int64)
    return sum(int(length) * int(n) for length, n in zip(lengths, frame["n"], strict=True))
