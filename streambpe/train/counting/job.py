"""One call of `count`: a reader, its workers, their parts, the tables.

reader (this thread)  ->  blocks  ->  workers (counting/worker.py)  ->  parts in RUN/counts
                                                                    ->  fold into state.duckdb
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streambpe.count_config import CountConfig
from streambpe.errors import NoText, SourceChanged, SourceUnreachable, Stopped, StreambpeError, UsageError
from streambpe.failpoints import failpoint
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.plurals import counted, some_of
from streambpe.progress import Meter, Reporter
from streambpe.resources import Resources, format_size, release_memory
from streambpe.results import Result
from streambpe.sources.not_text import TAKE_ANYWAY
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch, bytes_between
from streambpe.store.chunks import fold, refuse_edited
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.spans import SpansByPath
from streambpe.store.unfinished import Watch, left_to_count, note_lost
from streambpe.text.patterns import Pattern
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import ending_waits, stopped_by
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.spread import count_by_tasks
from streambpe.train.counting.tables import count_table
from streambpe.train.counting.tasks import remove_attempts
from streambpe.train.counting.todo import find_todo, left_of
from streambpe.train.counting.worker import BlockSums, blocks_of, count_in_threads, naming
from streambpe.train.disk_bound import within_disk

_TOLD_SOURCES = 5  # by name, in a warning


@dataclass(frozen=True)
class CountResult(Result):
    """What `count` did."""

    corpus: CorpusFacts
    counted: int  # sources read now
    skipped: int  # sources that were counted before
    warnings: tuple[str, ...]
    taken_back: tuple[str, ...] = ()  # sources whose counts were taken out
    cut_documents: int = 0  # by --document-cap, of all that is counted
    cut_bytes: int = 0
    sampled: dict[str, int] = field(default_factory=dict)  # by --sample-files: how much of how much


class CountJob:
    """Counts sources into a locked run: what is left of them is read, split, committed and folded."""

    def __init__(
        self, run: Run, config: CountConfig, pattern: Pattern, resources: Resources, stop: threading.Event
    ) -> None:
        self._run, self._config, self._pattern = run, config, pattern
        self._resources, self._stop = resources, stop
        self._meter = Meter("counting", memory_limit=resources.memory_bytes)

    def run(self, found: list[Source], warnings: list[str], progress: str, facts: dict[str, str]) -> CountResult:
        """Count what is left and fill the tables. `facts`: table run as it was before; empty for a new run."""
        run = self._run
        remove_attempts(run)  # first, so that what a dead command left cannot commit any more
        run.tidy()
        parts = list_parts(run, clean=True)
        todo = find_todo(run, self._pattern, found, parts)
        if facts and any(left.source.kind != "counts" for left in todo):
            refuse_other_tables(run.path, facts, self._pattern, "counting on")
        if todo:
            refuse_edited(run, self._resources, "and counting more would undo that")
        note_lost(run, parts)
        watch = Watch(run, found, self._resources.as_facts())
        watch.begin([left.source for left in todo])
        failpoint("count-recorded")
        with self.shown_in(run, found, todo, progress):
            self._count_watched(todo, watch)
            counted_parts = list_parts(run)
            if bad_lines := counted_parts.spans.total("bad_lines"):
                self._meter.facts["bad_lines"] = bad_lines
            warnings += watch.end(counted_parts)
            self._meter.stage = "folding"
            release_memory()
            corpus = fold(run, self._resources)
            self._meter.facts["corpus"] = corpus
            self._meter.stage = "counted"
        if not corpus["chunks"]:
            flag = self._config.of_documents
            none = f"have no text in {flag}" if flag else "hold no text"
            raise NoText(
                f"The sources {none}: {some_of([source.path for source in found])}. {run.path} was created "
                "without any counts. Count other sources into it, or remove it."
            )
        warnings += self._told(found, [left.source.path for left in todo], parts.by_path, counted_parts.by_path)
        spans = counted_parts.spans
        return CountResult(
            corpus, len(todo), len(found) - len(todo), tuple(warnings),
            cut_documents=spans.total("cut_documents"), cut_bytes=spans.total("cut_bytes"),
        )  # fmt: skip

    @contextlib.contextmanager
    def shown_in(self, run: Run, found: Sequence[Source], todo: Sequence[Stretch], progress: str) -> Iterator[None]:
        """Inside, it is shown in a run how far the count of all these sources is, and --max-disk bounds that run.

        The total is that of all sources, so that it is the same after a stop; what was counted to its end is done."""
        total, left = (sum(source.bytes for source in some) for some in (found, [each.source for each in todo]))
        if not any(each.source.is_stream for each in todo):
            self._meter.total = total
            counted = sum(
                bytes_between(some.source.kind, some.source.path, *done) for some in todo for done in some.done
            )
            self._meter.done = self._meter.resumed_from = total - left + counted
        self._meter.facts.update({"run": str(run.path), "sources": len(found)})
        with (
            Reporter(self._meter, run.write_status, progress),
            within_disk(run.path, None, self._resources, self._stop),
        ):
            yield

    def _count_watched(self, todo: Sequence[Stretch], watch: Watch) -> None:
        try:
            self.count(todo)
        except StreambpeError as why:
            if why.source is not None and not isinstance(why, SourceUnreachable):
                watch.refuse(why.source, list_parts(self._run), for_good=isinstance(why, UsageError))
            raise
        if self._stop.is_set():
            left = left_to_count(self._run)
            go_on = left.command if left.sources else "All is counted; the same command fills the tables"
            raise Stopped(
                f"Stopped; everything counted so far is kept in {self._run.path}. {go_on}.", stopped_by(self._stop)
            )

    # ------------------------------------------------------------------ reading and handing out

    def count(self, todo: Sequence[Stretch]) -> None:
        """Count what is left of sources into parts, without tables. It ends before that when it is to stop. Then, and
        after an error, everything finished is committed."""
        facts = self._meter.facts

        def tell(bad_lines: int) -> None:
            if bad_lines:
                facts["bad_lines"] = facts.get("bad_lines", 0) + bad_lines

        tell(list_parts(self._run).spans.total("bad_lines"))
        committer, sizes = Committer(self._run, tell), Sizes.of(self._resources)
        try:
            with ending_waits(self._stop.is_set):
                for left in todo:
                    if left.source.kind == "counts" and not self._stop.is_set():
                        with naming(left.source):
                            count_table(left, self._config, self._pattern, committer, sizes)
                        self._meter.done += left.source.bytes
                texts = [left for left in todo if left.source.kind != "counts"]
                if texts and not self._stop.is_set():
                    self._count_texts(texts, committer, sizes)
        except KeyboardInterrupt:
            self._stop.set()
        except SourceUnreachable:
            if not self._stop.is_set():
                raise

    def _count_texts(self, texts: Sequence[Stretch], committer: Committer, sizes: Sizes) -> None:
        """Count on Ray if that is asked for, and what is left then in threads of this process."""
        files = [left for left in texts if left.stop is None] if self._resources.engine == "ray" else []
        if files:
            count_by_tasks(files, self._config, self._pattern, self._resources, committer, self._meter, self._stop)
            others = [left for left in texts if left.stop is not None]
            texts = [*left_of(files, list_parts(self._run).by_path), *others]
            if not texts or self._stop.is_set():
                return
        known = list_parts(self._run).by_path

        def verify(source: Source, start: int, stop: int, digest: str) -> None:
            if known[source.path].digest_of(start, stop) != digest:
                raise SourceChanged(
                    f"{source.path} has changed: its content from {start} to {stop} is not what was counted. Nothing "
                    "was changed. Give it another name, or count into another RUN."
                )

        reader = Reader(
            self._pattern, sizes.block, sizes.most, self._meter.advance, TAKE_ANYWAY,
            self._config.reads_whole_lines, verify,
        )  # fmt: skip
        threads = range(self._resources.threads)
        everyone = [BlockSums(self._config, self._pattern, sizes, committer) for _ in threads]
        count_in_threads(blocks_of(reader, texts, self._stop.is_set), everyone)

    # ------------------------------------------------------------------ what there is to tell

    def _told(
        self, found: Sequence[Source], paths: Sequence[str], before: SpansByPath, now: SpansByPath
    ) -> Iterator[str]:
        """Of the sources that were counted now: those without text, and what was left out or replaced."""
        texts, lines = now.totals("text_bytes"), now.totals("bad_lines")
        empty = [path for path in paths if not texts.get(path)]
        if empty and not self._config.of_documents:  # of text files, a sample leaves out most
            yield f"no text is in {some_of(empty)}."

        def added(column: str) -> list[tuple[str, int]]:
            old, new = before.totals(column), now.totals(column)
            return [(path, n - old.get(path, 0)) for path, n in new.items() if n > old.get(path, 0)]

        if cut := sum(n for _, n in added("cut_documents")):
            size = format_size(sum(n for _, n in added("cut_bytes")))
            yield f"{counted(cut, 'document')} cut at --document-cap {self._config.document_cap}: {size} left out."
        for path, n in added("dropped"):
            yield f"{path}: dropped: {counted(n, 'character')} outside the SCRIPT table"
        asked = {source.path for source in found if source.any_bytes}  # the user said what is to become of them
        bad = [(path, n) for path, n in added("bad_utf8") if path not in asked]
        for path, n in bad[:_TOLD_SOURCES]:
            left_out = "was left out" if n == 1 else "were left out"
            became = {"replace": "became U+FFFD", "skip": left_out}.get(self._config.bad_utf8, "")
            sequences = counted(n, "sequence of bytes", "sequences of bytes")
            yield f"{path}: {sequences} that are not UTF-8 {became} (--bad-utf8)."
        if len(bad) > _TOLD_SOURCES:
            more = sum(n for _, n in bad[_TOLD_SOURCES:])
            yield f"{counted(len(bad) - _TOLD_SOURCES, 'more source')} with {more:,} of them; table sources lists all."
        most = sorted((source.path for source in found if lines.get(source.path)), key=lambda p: (-lines[p], p))
        if most:  # also by the counts before this one
            many = sum(lines[path] for path in most)
            them = counted(many, "line that cannot be read is", "lines that cannot be read are")
            yield f"{them} left out (--bad-lines skip): {some_of([f'{path} ({lines[path]:,})' for path in most])}."
