"""One worker of a count: it takes blocks and makes parts of them.

    read (counting/job.py)  ->  decode  ->  prepare  ->  split and count  ->  commit

A worker adds blocks up and every few seconds commits its distinct chunks as a part: one rename, which
records the counts and the stretches of input they cover. A kill loses what is not in a part; counting
again reads just that. Nothing depends on which worker took which block.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from streambpe.core.strings import ChunkList, as_buffers
from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, StreambpeError
from streambpe.failpoints import failpoint
from streambpe.sources.decode import block_text
from streambpe.sources.source import BadUtf8, Block, BlockText, Source
from streambpe.store import sequences
from streambpe.store.spans import WITH_FIELDS, Span
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import UnencodableText, prepare
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes

CHECKPOINT_SECONDS = 5.0  # of each worker's work that a kill can lose


class Room:
    """Memory that workers share: all have their part of it, or one has it alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0
        self._waiting = 0  # to have it alone

    @contextlib.contextmanager
    def held(self, alone: bool) -> Iterator[None]:
        """Hold a part of it, or all of it as soon as nobody else holds any."""
        with self._changed:
            if alone:
                self._waiting += 1
                self._changed.wait_for(lambda: self._holders == 0)
                self._waiting -= 1
                self._holders = -1
            else:
                self._changed.wait_for(lambda: self._holders >= 0 and not self._waiting)
                self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders = 0 if alone else self._holders - 1
                self._changed.notify_all()


@dataclass
class Failure:
    """The first error of any thread, and which source it was about."""

    error: BaseException | None = None
    source: str | None = None

    @contextlib.contextmanager
    def naming(self, source: Source) -> Iterator[None]:
        """Remember which source an error was about."""
        try:
            yield
        except StreambpeError:
            self.source = self.source or source.path
            raise

    def note(self, error: BaseException) -> None:
        """Note an error; only the first is kept."""
        self.error = self.error or error


@dataclass(frozen=True)
class Shared:
    """What all workers of a count have in common."""

    config: CountConfig
    pattern: Pattern
    sizes: Sizes
    committer: Committer
    blocks: queue.Queue[Block | None]
    failure: Failure
    room: Room = field(default_factory=Room)


class Worker(threading.Thread):
    """Takes blocks, adds up their chunks, commits parts."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(name="streambpe-count", daemon=True)
        self._shared = shared
        self._chunker = Chunker(shared.pattern, beside=True)
        self._counts = ChunkCounts(self._chunker, shared.sizes.table)
        self._spans: list[Span] = []
        self._since = time.monotonic()

    def run(self) -> None:
        """Take blocks until a None comes instead of one, or something fails here or elsewhere."""
        shared = self._shared
        told_to_end = False
        try:
            while (block := shared.blocks.get()) is not None:
                if shared.failure.error is not None:
                    continue
                size = 0 if isinstance(block.data, list) else len(block.data)
                giant = size > 2 * shared.sizes.block
                with shared.room.held(alone=giant):
                    if giant:
                        self._commit()
                    with shared.failure.naming(block.source):
                        self._take(block)
                    del block  # a giant one is not to be held while it is committed
                    late = time.monotonic() - self._since > CHECKPOINT_SECONDS
                    if giant or late or self._counts.held > shared.sizes.table:
                        self._commit()
            told_to_end = True
            self._commit()
        except BaseException as why:  # told to the thread that reads, which raises it
            shared.failure.note(why)
            with contextlib.suppress(BaseException):
                self._commit()
        finally:
            self._chunker.close()
        # each worker gets one None: waiting for a second, another worker's, could last for ever
        while not told_to_end and shared.blocks.get() is not None:
            pass

    def _take(self, block: Block) -> None:
        policy: BadUtf8 = self._shared.config.bad_utf8  # type: ignore[assignment]
        made = prepared(block, block_text(block, policy), self._shared.config)
        if self._shared.config.sequences:
            self._commit_sequence(block, made)
            return
        span = _span(block, made, "")
        if self._spans and self._spans[0].group_name != span.group_name:
            self._commit()
        self._counts.add(made.text)
        # the text itself is not kept: only what its span says of it
        self._spans.append(span)

    def _commit(self) -> None:
        """Commit the chunks added up so far."""
        self._since = time.monotonic()
        if not self._spans:
            return
        spans, self._spans = self._spans, []
        rows = self._counts.take()
        name = self._shared.committer.next_name()
        self._shared.committer.commit(name, rows, [replace(span, part=name) for span in spans])

    def _commit_sequence(self, block: Block, made: BlockText) -> None:
        """Commit a block as one part: its counts, and its chunks in order as ids of the part's own dictionary."""
        numbered = self._chunker.number(made.text)
        n = numbered.n
        committer = self._shared.committer
        name = committer.next_name()
        span = _span(block, made, name)
        made_of = sequences.sequence_made_of(committer.run, span)
        sequences.write_sequence(committer.run.sequences, name, numbered, n, made_of)
        failpoint("sequence-written")
        committer.commit(name, ChunkList(*as_buffers(numbered.chunks), n), [span])


def _span(block: Block, made: BlockText, part: str) -> Span:
    source = block.source
    return Span(
        path=source.path,
        kind=source.kind,
        text_column=source.column if source.kind in WITH_FIELDS else "",
        start_at=block.start_at,
        stop_at=block.stop_at,
        documents=made.documents,
        text_bytes=len(made.text) - made.text.count(b"\xff"),
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
    )


def prepared(block: Block, made: BlockText, config: CountConfig) -> BlockText:
    """The block's text as it is to be split: --unencodable, then --normalize."""
    try:
        text, dropped = prepare(made.text, config.normalize, config.unencodable)
    except UnencodableText as why:
        raise SourceError(
            f"{block.source.path}: {why}; it stands between {block.start_at} and {block.stop_at}. Everything "
            f"committed is kept. Leave the character out, or count with --unencodable bytes or drop."
        ) from None
    return replace(made, text=text, dropped=dropped)
