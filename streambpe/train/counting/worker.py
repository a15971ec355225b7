"""Threads that count: each takes blocks and makes parts of them.

    read (counting/job.py)  ->  decode  ->  prepare  ->  split and count  ->  commit

Blocks are added up, and every few seconds their distinct chunks are committed as a part: one rename, which
records the counts and the stretches of input they cover. A kill loses what is not in a part; counting
again reads just that. Nothing depends on which sums took which block.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

import msgspec
import numpy as np
from msgspec import structs

from streambpe.core.strings import ChunkList, as_buffers
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.resources import release_memory
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.samples import sampled
from streambpe.sources.source import Block, BlockText, Source
from streambpe.store.run import Run
from streambpe.store.sequences import by_place, sequence_made_of
from streambpe.store.spans import WITH_FIELDS, Span
from streambpe.text.chunker import ChunkCounts, Chunker, Ids, Lengths, NumberedTexts
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, prepare
from streambpe.train.counting.sizes import Sizes

CHECKPOINT_SECONDS = 5.0  # of each worker's work that a kill can lose


class Failure(msgspec.Struct):
    """The first error of any thread, and which source it was about."""

    error: BaseException | None = None
    source: str | None = None
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def naming(self, source: Source) -> Iterator[None]:
        """Note an error inside as one about this source."""
        try:
            yield
        except StreambpeError as why:
            self.note(why, source.path)
            raise

    def note(self, error: BaseException, source: str | None = None) -> None:
        """Note an error; only the first is kept."""
        with self._lock:
            if self.error is None:
                self.error, self.source = error, source


class PartStore(Protocol):
    """Where parts are committed."""

    run: Run

    def next_name(self) -> str:
        """The name of a part that nobody else writes."""

    def commit(self, name: str, rows: ChunkList, spans: Sequence[Span]) -> None:
        """Write and rename one part."""

    def write_sequence(self, name: str, chunks: pl.Series, stretches: Sequence[Ids], n: Lengths, made_of: str) -> None:
        """Write the documents of a part that is committed next, as store/sequences.py does."""


class BlockSums:
    """Adds up the chunks of blocks and commits them as parts; used by one thread. `close` it."""

    def __init__(self, config: CountConfig, pattern: Pattern, sizes: Sizes, parts: PartStore, beside: bool) -> None:
        """`beside`: run a pattern of the user's own in a process beside this one."""
        self._config, self._sizes, self._parts = config, sizes, parts
        self._chunker = Chunker(pattern, beside=beside)
        # with --sequences all that is counted stays as ids until it is committed
        self._counts: ChunkCounts | NumberedTexts = (
            NumberedTexts(self._chunker) if config.sequences else ChunkCounts(self._chunker, sizes.table)
        )
        self._most = sizes.sequences if config.sequences else sizes.table
        self._spans: list[Span] = []
        self._since = time.monotonic()

    def count(self, block: Block, taking: AbstractContextManager[None]) -> None:
        """Add a block's chunks, inside `taking`, and commit if it is time."""
        giant = self.is_giant(block)
        if giant:
            self.commit()
        with taking:
            self.take(block)
        block.data = b""  # whoever still has the block: its text is not to be held while its chunks are committed
        if giant or time.monotonic() - self._since > CHECKPOINT_SECONDS or self._counts.held > self._most:
            self.commit()

    def is_giant(self, block: Block) -> bool:
        """Whether nothing else should be held while it is counted."""
        return not isinstance(block.data, list) and len(block.data) > 2 * self._sizes.block

    def take(self, block: Block) -> None:
        """Add a block's chunks."""
        policy = self._config.bad_utf8
        read = sampled(block, block_text(block, policy, self._config.bad_lines), self._config.one_in, policy)
        made = prepared(block, read, self._config)
        del read
        span = _span(block, made, "")
        if self._spans and self._spans[0].group_name != span.group_name:
            self.commit()
        with naming_documents(block, policy, made.chosen):
            self._counts.add(made.text)
        # the text itself is not kept: only its chunks, and what its span says of it
        self._spans.append(span)

    def commit(self) -> None:
        """Commit the chunks added up so far."""
        self._since = time.monotonic()
        if not self._spans:
            return
        name = self._parts.next_name()
        spans, self._spans = [replace(span, part=name) for span in self._spans], []
        counts = self._counts
        rows = counts.take() if isinstance(counts, ChunkCounts) else self._write_sequence(counts, spans)
        self._parts.commit(name, rows, spans)
        if self._chunker.split is None:  # its many small objects leave pages behind that nothing else would fill
            del rows
            release_memory()

    def _write_sequence(self, ordered: NumberedTexts, spans: list[Span]) -> ChunkList:
        """Write the chunks of these stretches in order, as ids of the part's own dictionary; returns their counts."""
        chunks, ids = ordered.take()
        n = sum((np.bincount(some[some >= 0], minlength=len(chunks)) for some in ids), np.zeros(len(chunks), np.int64))
        in_order = sorted(range(len(spans)), key=lambda at: by_place(spans[at]))
        made_of = sequence_made_of(self._parts.run, [spans[at] for at in in_order])
        self._parts.write_sequence(spans[0].part, chunks, [ids[at] for at in in_order], n, made_of)
        failpoint("sequence-written")
        return ChunkList(*as_buffers(chunks), n)

    def close(self) -> None:
        """End the process that splits, if there is one."""
        self._chunker.close()


@contextlib.contextmanager
def counting_threads(
    make: Callable[[], BlockSums], threads: int, failure: Failure
) -> Iterator[Callable[[Block], None]]:
    """Gives what hands out a block to be counted by one of so many threads; it waits while all are at work and a block
    is waiting. What they added up is committed in the end, whatever ends it; errors are noted."""
    everyone = [make() for _ in range(threads)]
    places = threads + 1
    free, idle = threading.Semaphore(places), queue.SimpleQueue[BlockSums]()
    for sums in everyone:
        idle.put(sums)

    def hand_out(block: Block) -> None:
        alone = places if everyone[0].is_giant(block) else 1  # nothing else is held while a giant one is counted
        for _ in range(alone):
            free.acquire()
        pool.submit(count, block, alone)

    def count(block: Block, alone: int) -> None:
        sums = idle.get()
        try:
            if failure.error is None:
                sums.count(block, failure.naming(block.source))
        except BaseException as why:  # told to the thread that reads, which raises it
            failure.note(why)
        finally:
            idle.put(sums)
            free.release(alone)

    def end(sums: BlockSums) -> None:
        try:
            with contextlib.closing(sums):
                sums.commit()
        except BaseException as why:
            failure.note(why)

    try:
        with ThreadPoolExecutor(threads, "streambpe-count") as pool:
            yield hand_out
    except BaseException as why:
        failure.note(why)
    with ThreadPoolExecutor(threads, "streambpe-count") as pool:
        pool.map(end, everyone)


def _span(block: Block, made: BlockText, part: str) -> Span:
    source = block.source
    return Span(
        path=source.path,
        kind=source.kind,
        text_column=source.column if source.kind in WITH_FIELDS else "",
        start_at=block.start_at,
        stop_at=block.stop_at,
        documents=made.documents,
        text_bytes=len(made.text) - made.documents,  # each ended by a mark
        bad_utf8=made.bad_utf8,
        boms=made.boms,
        nulls=made.nulls,
        digest=made.digest,
        part=part,
        file_bytes=source.bytes,
        mtime_ns=source.mtime_ns,
        state="last" if block.ends_source else "part",
        dropped=made.dropped,
        group_name=source.group or "",
        bad_lines=made.bad_lines,
    )


def prepared(block: Block, made: BlockText, config: CountConfig) -> BlockText:
    """The block's text as it is to be split: --unencodable, then --normalize."""
    try:
        text, dropped = prepare(made.text, config.normalize, config.unencodable)
    except UnencodableText as why:
        raise SourceError(
            f"{block.source.path}: {why}; it is between {block.start_at} and {block.stop_at}. Everything committed is "
            "kept. Leave the character out, or count with --unencodable bytes or drop."
        ) from None
    return structs.replace(made, text=text, dropped=dropped)
