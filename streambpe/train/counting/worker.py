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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from msgspec import structs

from streambpe.core.strings import ChunkList, as_buffers
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.resources import release_memory
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.read import Reader
from streambpe.sources.samples import capped, sampled
from streambpe.sources.source import WITH_FIELDS, Block, BlockText, Source
from streambpe.sources.stretches import Stretch
from streambpe.store.sequences import by_place, sequence_made_of
from streambpe.store.spans import Span
from streambpe.text.chunker import ChunkCounts, Chunker, NumberedTexts
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, prepare
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes

CHECKPOINT_SECONDS = 5.0  # of each worker's work that a kill can lose
# What a span takes over from the text of its block.
_OF_TEXT = ("documents", "digest", "bad_utf8", "boms", "nulls", "dropped", "bad_lines", "cut_documents", "cut_bytes")


@contextlib.contextmanager
def naming(source: Source) -> Iterator[None]:
    """Errors inside are marked as being about this source."""
    try:
        yield
    except StreambpeError as why:
        why.source = why.source or source.path
        raise


def blocks_of(reader: Reader, left: Iterable[Stretch], is_stopping: Callable[[], bool]) -> Iterator[Block]:
    """The blocks of stretches, one stretch after another, until a stop comes."""
    for stretch in left:
        with naming(stretch.source):
            for block in reader.blocks(stretch.source, stretch.done, stretch.stop):
                if is_stopping():
                    return
                yield block


class BlockSums:
    """Adds up the chunks of blocks and commits them as parts; used by one thread. At the end of a `with` it commits the
    rest, whatever ends that."""

    def __init__(self, config: CountConfig, pattern: Pattern, sizes: Sizes, parts: Committer) -> None:
        self._config, self._sizes, self._parts = config, sizes, parts
        self._chunker = Chunker(pattern)
        # with --sequences all that is counted stays as ids until it is committed
        self._counts: ChunkCounts | NumberedTexts = (
            NumberedTexts(self._chunker) if config.sequences else ChunkCounts(self._chunker, sizes.table)
        )
        self._most = sizes.sequences if config.sequences else sizes.table
        self._spans: list[Span] = []
        self._since = time.monotonic()

    def __enter__(self) -> BlockSums:
        return self

    def __exit__(self, *_: object) -> None:
        self._commit()

    def count(self, block: Block) -> None:
        """Add a block's chunks, and commit if it is time."""
        giant = self.is_giant(block)
        if giant:
            self._commit()
        with naming(block.source):
            self.take(block)
        block.data = b""  # whoever still has the block: its text is not to be held while its chunks are committed
        if giant or time.monotonic() - self._since > CHECKPOINT_SECONDS or self._counts.held > self._most:
            self._commit()

    def is_giant(self, block: Block) -> bool:
        """Whether nothing else should be held while it is counted."""
        return not isinstance(block.data, list) and len(block.data) > 2 * self._sizes.block

    def take(self, block: Block) -> None:
        """Add a block's chunks."""
        policy = self._config.bad_utf8
        read = sampled(block, block_text(block, policy, self._config.bad_lines), self._config.one_in, policy)
        made = prepared(block, read, self._config)
        del read
        if self._spans and self._spans[0].group_name != (block.source.group or ""):
            self._commit()
        with naming_documents(block, policy, made.chosen):
            self._counts.add(made.text)
        # the text itself is not kept: only its chunks, and what its span says of it
        self._spans.append(span_of(block, made, len(made.text) - made.documents))  # each document is ended by a mark

    def _commit(self) -> None:
        self._since = time.monotonic()
        if not self._spans:
            return
        name = self._parts.next_name()
        spans, self._spans = [replace(span, part=name) for span in self._spans], []
        counts = self._counts
        rows = counts.take() if isinstance(counts, ChunkCounts) else self._write_sequence(counts, spans)
        self._parts.commit(name, rows, spans)
        if self._chunker.by_regex:  # its many small objects leave pages behind that nothing else would fill
            del rows
            release_memory()

    def _write_sequence(self, ordered: NumberedTexts, spans: list[Span]) -> ChunkList:
        """Write the chunks of these stretches in order, as ids of the part's own dictionary; returns their counts."""
        chunks, ids = ordered.take()
        in_order = sorted(range(len(spans)), key=lambda at: by_place(spans[at]))
        made_of = sequence_made_of(self._parts.run, [spans[at] for at in in_order])
        n = self._parts.write_sequence(spans[0].part, chunks, [ids[at] for at in in_order], made_of)
        failpoint("sequence-written")
        return ChunkList(*as_buffers(chunks), n)


def count_in_threads(blocks: Iterable[Block], everyone: Sequence[BlockSums]) -> None:
    """Count blocks, a thread for each of these sums; one block may wait while all are at work. What they added up is
    committed in the end, whatever ends it; then the first error is raised."""
    places = len(everyone) + 1
    free, waiting = threading.Semaphore(places), queue.SimpleQueue[tuple[Block, int] | None]()
    errors: list[BaseException] = []

    @contextlib.contextmanager
    def kept() -> Iterator[None]:
        try:
            yield
        except BaseException as why:  # for the thread that reads, which raises it
            errors.append(why)

    def serve(sums: BlockSums) -> None:
        with kept(), sums:
            while (taken := waiting.get()) is not None:
                with kept():
                    if not errors:
                        sums.count(taken[0])
                free.release(taken[1])

    with ThreadPoolExecutor(len(everyone), "streambpe-count") as pool:
        serving: list[Future[None]] = []
        with kept():
            for sums in everyone:
                serving.append(pool.submit(serve, sums))
            for block in blocks:
                alone = places if everyone[0].is_giant(block) else 1  # nothing else is held while it is counted
                for _ in range(alone):
                    free.acquire()
                waiting.put((block, alone))
                if errors:
                    break
        while True:  # Ctrl-C, in a program that has no handler of its own, must leave no thread at work
            with kept():
                for _ in everyone:
                    waiting.put(None)
                wait(serving)
                break
    if errors:
        raise errors[0]


def span_of(block: Block, made: BlockText, text_bytes: int, part: str = "") -> Span:
    """What a part records of a block."""
    source = block.source
    return Span(
        path=source.path,
        kind=source.kind,
        text_column=source.column if source.kind in WITH_FIELDS else "",
        start_at=block.start_at,
        stop_at=block.stop_at,
        text_bytes=text_bytes,
        part=part,
        file_bytes=source.bytes,
        mtime_ns=source.mtime_ns,
        state="last" if block.ends_source else "part",
        group_name=source.group or "",
        **{name: getattr(made, name) for name in _OF_TEXT},
    )


def prepared(block: Block, made: BlockText, config: CountConfig) -> BlockText:
    """The block's text as it is to be split: --document-cap, --unencodable, then --normalize."""
    if config.document_cap:
        made = capped(block, made, config.document_cap, config.bad_utf8, config.split_pattern())
    try:
        text, dropped = prepare(made.text, config.normalize, config.unencodable)
    except UnencodableText as why:
        raise SourceError(
            f"{block.source.path}: {why}; it is between {block.start_at} and {block.stop_at}. Everything committed is "
            "kept. Leave the character out, or count with --unencodable bytes or drop."
        ) from None
    return structs.replace(made, text=text, dropped=dropped)
