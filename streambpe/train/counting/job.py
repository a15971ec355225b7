"""One call of `count`: a reader, its workers, their parts, the tables.

reader (this thread)  ->  blocks  ->  workers (counting/worker.py)  ->  parts in RUN/counts
                                                                    ->  fold into state.duckdb
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streambpe.count_config import CountConfig
from streambpe.errors import NoText, SourceChanged, SourceUnreachable, Stopped, StreambpeError, UsageError, typed
from streambpe.failpoints import failpoint
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.plurals import counted
from streambpe.progress import Meter, Reporter
from streambpe.resources import Resources, release_memory
from streambpe.results import Result
from streambpe.sources.not_text import TAKE_ANYWAY
from streambpe.sources.read import Reader
from streambpe.sources.source import Block, Source
from streambpe.store.chunks import fold
from streambpe.store.parts import Parts, list_parts
from streambpe.store.run import Run
from streambpe.store.spans import Spans
from streambpe.store.unfinished import Watch, left_to_count, note_lost
from streambpe.text.patterns import Pattern
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import ending_waits, stopped_by
from streambpe.train.counting.committer import Committer
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.spread import Texts, count_by_tasks, count_runner
from streambpe.train.counting.tables import count_table
from streambpe.train.counting.tasks import attempts_folder, remove_attempts
from streambpe.train.counting.todo import Todo, find_todo
from streambpe.train.counting.worker import BlockSums, Failure, counting_threads
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


class CountJob:
    """Counts sources into a locked run: what is left of them is read, split, committed and folded."""

    def __init__(
        self,
        run: Run,
        config: CountConfig,
        pattern: Pattern,
        resources: Resources,
        stop: threading.Event,
        told_in: Run | None = None,
    ) -> None:
        """`told_in`: the run that this is a part of, in which it is shown how far it is."""
        self._run = run
        self._shown = told_in or run
        self._until: int | None = None  # where the sources are to end
        self._config = config
        self._pattern = pattern
        self._resources = resources
        self._stop = stop
        self._failure = Failure()
        self._sizes = Sizes.of(resources)
        self._meter = Meter("counting", memory_limit=resources.memory_bytes)
        self._committer = Committer(run, self._meter)
        self._told_before = False  # what was counted before, and by tasks, is in the meter

    def run(self, found: list[Source], warnings: list[str], progress: str, facts: dict[str, str]) -> CountResult:
        """Count what is left and fill the tables. `facts`: table run as it was before; empty for a new run."""
        remove_attempts(self._run)  # first, so that what a dead command left cannot commit any more
        self._run.tidy()
        parts = list_parts(self._run, clean=True)
        todo = find_todo(self._run, self._pattern, found, parts)
        if facts and any(source.kind != "counts" for source, _ in todo):
            refuse_other_tables(self._run.path, facts, self._pattern, "counting on")
        self._open_meter(todo, found, parts)
        note_lost(self._run, parts)
        watch = Watch(self._run, found, self._resources.as_facts())
        watch.begin([source for source, _ in todo])
        failpoint("count-recorded")
        with (
            Reporter(self._meter, self._run.write_status, progress),
            within_disk(self._run.path, None, self._resources, self._stop),
        ):
            self._count(todo, watch)
            warnings += told_left_out(watch.end(list_parts(self._run)))
            corpus = self._fold()
        if not corpus["chunks"]:
            none = "hold no text" if self._config.one_in == 1 else f"have no text in --sample {self._config.sample}"
            raise NoText(
                f"The sources {none}: {_named([source.path for source in found])}. {self._run.path} was created "
                "without any counts. Count other sources into it, or remove it."
            )
        if self._run.facts().get("edited"):
            warnings.append("chunk_counts was edited; the edits are kept, and what was counted now is added to them.")
        told = [
            *self._told_empty(todo), *self._told_dropped(), *self._told_bad_utf8(found), *self._told_bad_lines(found)
        ]  # fmt: skip
        return CountResult(corpus, len(todo), len(found) - len(todo), (*warnings, *told))

    def count_one(self, source: Source, done: Spans, until: int | None, progress: str) -> None:
        """Count what is not done of one source, up to a place (None: to its end), into parts, without tables."""
        self._until = until
        self._meter.total = source.bytes
        self._meter.facts.update({"run": str(self._shown.path), "sources": 1})
        with (
            Reporter(self._meter, self._shown.write_status, progress),
            within_disk(self._shown.path, None, self._resources, self._stop),
        ):
            if source.kind == "counts":
                self._count_tables([(source, done)])
            elif until is None:
                self._count_texts(self._count_beside([(source, done)]))
            else:
                self._count_texts([(source, done)])
            if self._failure.error is not None:
                raise self._failure.error
            if self._stop.is_set():
                raise Stopped("Stopped.", stopped_by(self._stop))

    def _open_meter(self, todo: Todo, found: Sequence[Source], parts: Parts) -> None:
        """Of all sources, so that the total is the same after a stop; what was counted to its end is done."""
        total, left = (sum(source.bytes for source in some) for some in (found, [source for source, _ in todo]))
        if not any(source.is_stream for source, _ in todo):
            self._meter.total = total
            self._meter.done = self._meter.resumed_from = total - left
        self._meter.facts.update({"run": str(self._run.path), "sources": len(found)})
        if bad := parts.spans.total("bad_lines"):
            self._meter.facts["bad_lines"] = bad

    def _count(self, todo: Todo, watch: Watch) -> None:
        """All that is left of the sources; a stop or an error is raised when everything finished is committed."""
        try:
            with ending_waits(self._stop.is_set):
                self._count_tables([entry for entry in todo if entry[0].kind == "counts"])
                self._count_texts(self._count_beside([entry for entry in todo if entry[0].kind != "counts"]))
            if self._failure.error is not None:
                raise self._failure.error
        except SourceUnreachable:
            if not self._stop.is_set():
                raise
        except StreambpeError as why:
            if self._failure.source is not None:
                watch.refuse(self._failure.source, list_parts(self._run), for_good=isinstance(why, UsageError))
            raise
        if self._stop.is_set():
            raise Stopped(
                f"Stopped; everything counted so far is kept in {self._run.path}. {self._going_on()}",
                stopped_by(self._stop),
            )

    def _fold(self) -> CorpusFacts:
        self._meter.stage = "folding"
        release_memory()
        corpus = fold(self._run, self._resources)
        self._meter.facts.update({"corpus": corpus, "distinct_chunks": corpus["distinct"]})
        self._meter.stage = "counted"
        return corpus

    # ------------------------------------------------------------------ reading and handing out

    def _count_tables(self, tables: Sequence[tuple[Source, Spans]]) -> None:
        for source, done in tables:
            if self._stop.is_set():
                return
            with self._failure.naming(source):
                count_table(source, done.stretches(), self._config, self._pattern, self._committer, self._sizes)
            self._meter.done += source.bytes

    def _count_beside(self, texts: Texts) -> Texts:
        """Count on Ray, or in processes where that pays; gives back what is left for the threads of this one."""
        sources = [source for source, _ in texts]
        if self._resources.engine == "ray":
            self._meter.stage = "starting Ray"
        found = count_runner(sources, self._pattern, self._resources, attempts_folder(self._run).absolute())
        self._meter.stage = "counting"
        if found is None:
            return texts
        count_by_tasks(*found, texts, self._config, self._pattern, self._committer, self._failure, self._stop)
        self._told_before = True
        spans = list_parts(self._run).by_path
        nothing = Spans.of(())
        return [(s, spans.get(s.path, nothing)) for s, _ in texts if s.path not in spans.complete]

    def _count_texts(self, texts: Texts) -> None:
        if not texts:
            return

        def sums() -> BlockSums:
            return BlockSums(self._config, self._pattern, self._sizes, self._committer, beside=True)

        with counting_threads(sums, self._resources.threads, self._failure) as hand_out:
            for block in self._read(texts):
                if self._stop.is_set() or self._failure.error is not None:
                    break
                hand_out(block)
        if isinstance(self._failure.error, KeyboardInterrupt):
            self._failure.error = None
            self._stop.set()

    def _read(self, texts: Texts) -> Iterator[Block]:
        streams = {source.path: done for source, done in texts if source.is_stream}

        def verify(source: Source, start: int, stop: int, digest: str) -> None:
            if streams[source.path].digest_of(start, stop) != digest:
                raise SourceChanged(
                    f"{source.path} has changed: its content from {start} to {stop} is not what was counted. Nothing "
                    "was changed. Give it another name, or count into another RUN."
                )

        def advance(read: int) -> None:
            self._meter.done += read

        whole_lines = self._config.reads_whole_lines
        reader = Reader(
            self._pattern, self._sizes.block, self._sizes.most, verify, advance, TAKE_ANYWAY, whole_lines,
            not self._told_before,
        )  # fmt: skip
        for source, done in texts:
            with self._failure.naming(source):
                # what a stream gives again is compared, stretch by stretch; a file was compared before
                yield from reader.blocks(source, done.stretches(joined=not source.is_stream), self._until)

    # ------------------------------------------------------------------ what there is to tell

    def _told_bad_utf8(self, found: Sequence[Source]) -> Iterator[str]:
        """What became of bytes that are not UTF-8, unless the user said what is to become of them."""
        asked = {source.path for source in found if source.any_bytes}
        bad = [(path, n) for path, n in sorted(self._committer.bad_utf8.items()) if path not in asked]
        for path, n in bad[:_TOLD_SOURCES]:
            left_out = "was left out" if n == 1 else "were left out"
            became = {"replace": "became U+FFFD", "skip": left_out}.get(self._config.bad_utf8, "")
            sequences = counted(n, "sequence of bytes", "sequences of bytes")
            yield f"{path}: {sequences} that are not UTF-8 {became} (--bad-utf8)."
        if len(bad) > _TOLD_SOURCES:
            more = sum(n for _, n in bad[_TOLD_SOURCES:])
            yield f"{counted(len(bad) - _TOLD_SOURCES, 'more source')} with {more:,} of them; table sources lists all."

    def _told_bad_lines(self, found: Sequence[Source]) -> Iterator[str]:
        """How many lines of these sources are left out, also by the counts before this one."""
        spans = list_parts(self._run).by_path
        bad = {source.path: spans[source.path].total("bad_lines") for source in found if source.path in spans}
        most = sorted((path for path, n in bad.items() if n), key=lambda path: (-bad[path], path))
        if most:
            named = ", ".join(f"{path} ({bad[path]:,})" for path in most[:3])
            more = f" and {counted(len(most) - 3, 'more source')}" if len(most) > 3 else ""
            lines = "line that cannot be read is" if sum(bad.values()) == 1 else "lines that cannot be read are"
            yield f"{sum(bad.values()):,} {lines} left out (--bad-lines skip): {named}{more}."

    def _told_dropped(self) -> Iterator[str]:
        for path, n in sorted(self._committer.dropped.items()):
            yield f"{path}: dropped: {counted(n, 'character')} outside the SCRIPT table"

    def _told_empty(self, todo: Todo) -> Iterator[str]:
        """Name the sources without text among those that were counted now."""
        if self._config.one_in > 1:  # of text files, a sample leaves out most
            return
        spans = list_parts(self._run).by_path
        paths = [source.path for source, _ in todo]
        empty = [path for path in paths if path not in spans or not spans[path].total("text_bytes")]
        if empty:
            yield f"no text is in {_named(empty)}."

    def _going_on(self) -> str:
        left = left_to_count(self._run)
        if not left.sources:  # only the tables are behind
            return f"Continue with: streambpe count {typed(self._run.path)}"
        return f"{left.command}."


def told_left_out(paths: Sequence[str]) -> list[str]:
    """A warning for each source that was refused before and that this count was not given."""
    return [f"{path} was refused before and is not among the sources now, so it is left out." for path in paths]


def _named(paths: Sequence[str]) -> str:
    """Some of these paths, and how many more there are."""
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
