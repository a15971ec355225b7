"""Sources -> chunk counts on disk (and documents as chunk ids, with --sequences).

    reader (this thread)  ->  blocks  ->  workers: split, count chunks  ->  parts in RUN/counts
                                                                        ->  fold into state.duckdb

A worker adds blocks up and every few seconds commits its distinct chunks as a part: one rename, which
records the counts and the stretches of input they cover. A kill loses what is not in a part; counting
again reads just that. Nothing depends on which worker took which block.

Memory: a block is given _BYTES_A_BYTE times its size while it is cut and counted, so the block size follows
from --memory and --threads; a worker's table of distinct chunks is committed when it outgrows its share.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streambpe.config import CountConfig, reconcile
from streambpe.core.strings import ChunkList, as_buffers
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, SourceChanged, SourceError, Stopped, StreambpeError, UsageError
from streambpe.failpoints import failpoint
from streambpe.progress import Meter, Reporter
from streambpe.resources import BASE_BYTES, Resources, release_memory
from streambpe.sources.decode import block_text
from streambpe.sources.digests import digest_file, digest_stretches
from streambpe.sources.find import find_sources, refuse_names_that_are_no_text
from streambpe.sources.read import Reader
from streambpe.sources.source import BadUtf8, Block, BlockText, Source
from streambpe.sources.tables import read_count_table
from streambpe.store import sequences
from streambpe.store.chunks import fold
from streambpe.store.counted_as import refuse_other_counting
from streambpe.store.groups import MOST_GROUPS, GroupRules
from streambpe.store.job import left_to_count
from streambpe.store.parts import MAX_COUNT, Part, PartWriter, Span, check_total, list_parts, next_number
from streambpe.store.run import Run, program_versions
from streambpe.store.unfinished import (
    Wanted,
    Watch,
    ending_command,
    is_complete,
    listed,
    note_lost,
    read_record,
    sources_in_tables,
    spans_by_path,
)
from streambpe.system import compose_name
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.text.prepare import UnencodableText, drop_unencodable, prepare
from streambpe.text.unicode_tables import refuse_other_tables, tables_fact, told_of_old_run

CHECKPOINT_SECONDS = 5.0  # of work a kill can lose, for each worker
_BYTES_A_BYTE = 26  # peak memory of cutting and counting a block, for each byte of it
_GIANT_COST = 10  # the same for a block that is one chunk, beside which no other worker works
_GIANT_SEQUENCE_COST = 16  # and with --sequences
_MOST_BLOCK = 8 << 20  # 16 MB measured slower (page faults of larger arrays) and 200 MB larger
_LEAST_BLOCK = 256 << 10
_TOLD_SOURCES = 5  # by name, in a warning
_TABLE_ROWS = 1_000_000  # rows of a count table in one part


def _share_bytes(resources: Resources) -> int:
    """Of memory, for the reader or one worker."""
    return (resources.memory_bytes - BASE_BYTES) // (resources.threads + 1)


def table_bytes(resources: Resources) -> int:
    """How large a worker's table of distinct chunks grows before it is committed."""
    return int(max(_share_bytes(resources) // 8, 4 << 20))


@dataclass(frozen=True)
class CountResult:
    """What `count` did."""

    corpus: dict[str, Any]  # documents, bytes, chunks, distinct, sha256
    counted: int  # sources read now
    skipped: int  # sources that were counted before
    warnings: tuple[str, ...]


@dataclass
class _Plan:
    """Which stretches of which sources are still to be read."""

    todo: list[tuple[Source, list[tuple[int, int]]]]
    skipped: int


def count(
    run: Path | str,
    sources: Sequence[str | Source],
    *,
    options: dict[str, Any] | None = None,
    resources: Resources | None = None,
    lines: bool = False,
    text_column: str | None = None,
    kind: str = "auto",
    counts: bool = False,
    stdin_name: str = "-",
    groups: Sequence[str] = (),
    group_by: str | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> CountResult:
    """Count sources into a run; those counted before are skipped, a stopped count goes on.

    `options` are fields of CountConfig; None or missing means the run's own, or the default. Without sources the
    tables are filled again from what is counted, and options may only say how that was counted.
    `counts`: the sources are count tables. `groups` (NAME=GLOB each) and `group_by` ("folder") keep the counts
    of groups of sources apart (store/groups.py). Setting `stop` commits and raises Stopped.
    """
    rules = GroupRules.from_options(groups, group_by)
    folder = Run(run)
    folder.refuse_other_content("count", [source for source in sources if isinstance(source, str)])
    if not sources and folder.state.exists():
        given = {"lines": lines, "text_column": text_column, "kind": kind, "counts": counts, "stdin_name": stdin_name}
        refuse_other_counting(folder, {"options": options, **given, "groups": groups, "group_by": group_by})
        return _fold_again(folder, resources or Resources.from_options(), progress)
    names = [s for s in sources if isinstance(s, str)]
    found, warnings = find_sources(
        names, lines=lines, text_column=text_column, counts=counts, kind=kind, stdin_name=stdin_name
    )
    found += [s for s in sources if isinstance(s, Source)]
    if not found:
        raise UsageError("Nothing to count: name at least one SOURCE.")
    refuse_names_that_are_no_text(found)
    if (options or {}).get("bad_utf8") is not None:
        found = [replace(source, any_bytes=True) for source in found]
    if rules:
        found = [replace(s, group=rules.group_of(s.path)) if s.group is None else s for s in found]
    unused = [name for name, _ in rules.rules if name not in {source.group for source in found}]
    warnings += [f"--group {name}: no source is in it." for name in dict.fromkeys(unused)]
    resources = resources or Resources.from_options()
    facts = folder.facts() if folder.state.exists() else folder.facts_kept()
    if facts:
        config = reconcile(json.loads(facts["config"]), options or {}, folder.path)
    else:
        config = CountConfig(**{k: v for k, v in (options or {}).items() if v is not None})
    pattern = find_pattern(
        config.pattern, gaps=config.gaps, split_scripts=config.split_scripts, prepared=config.prepares
    )
    if stdin_name != "-" and not any(source.is_stdin for source in found):
        raise UsageError(f"--stdin-name {stdin_name} names standard input, and `-` is not among the sources.")
    if counts and config.sequences:
        raise UsageError("--sequences needs documents; count tables have none.")
    with folder.lock(), disk_full_explained(folder.path):
        made_with = facts or {"versions": json.dumps(program_versions()), **tables_fact(pattern)}
        if not folder.state.exists():
            list_parts(folder)  # strangers among them are told before tables are made
        folder.create({**made_with, "config": json.dumps(config.as_facts())})
        if facts and "unicode" not in facts and not list_parts(folder):  # an old run in which nothing is counted yet
            folder.put_facts(tables_fact(pattern))
        job = _Job(folder, config, pattern, resources, stop or threading.Event())
        return job.run(found, warnings, progress, facts)


def _fold_again(folder: Run, resources: Resources, progress: str) -> CountResult:
    """Fill the tables from the committed parts, whatever stands in them: the way out if `check` finds a difference.

    Sources that were refused by name and not counted otherwise since are left out from here on.
    """
    with folder.lock(), disk_full_explained(folder.path), Reporter(Meter("folding"), folder.write_status, progress):
        folder.number_again()
        left_to_count(folder)  # a lost record of what is left is told before another is written
        note_lost(folder, list_parts(folder))
        told = _told_left_out(Watch(folder, (), {}).end(list_parts(folder)))
        corpus = fold(
            folder,
            memory_bytes=resources.memory_bytes,
            threads=resources.threads,
            temp_dir=resources.temp_dir,
            again=True,
        )
        left, runs = left_to_count(folder)
    if left or runs:
        told.append(f"it is not counted to its end: {listed(left, runs)}. {ending_command(folder, left, runs)}.")
    return CountResult(corpus, 0, 0, tuple(told))


def _told_left_out(paths: Sequence[str]) -> list[str]:
    return [f"{path} was refused before and is not among the sources now: it is left out." for path in paths]


def resume_count(
    run: Path | str,
    *,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> CountResult:
    """Go on with a count that was stopped, killed or ended by an error: all sources that are left, as they were given.

    Streams cannot be given again from here: they are named in an error, when the rest is counted.
    """
    folder = Run.open(run)
    left, runs = left_to_count(folder)
    wanted = {source.path: source for source in read_record(folder).sources}
    known = spans_by_path(list_parts(folder))
    wanted = {source.path: source for source in sources_in_tables(folder)} | wanted
    sources = []
    for path in (source.path for source in left if not source.stream):
        if path not in wanted:  # from a version that kept no record
            span = known[path][0]
            wanted[path] = Wanted(path, span.kind, span.text_column or "text", span.group_name)
        sources.append(wanted[path].source())
    streams = [source for source in left if source.stream]
    if not sources and (streams or runs):
        raise RunError(
            f"{folder.path} is not counted to its end: {listed(streams, runs)}. Nothing was changed. "
            f"{ending_command(folder, streams, runs)}."
        )
    result = count(run, sources, resources=resources, progress=progress, stop=stop)
    if streams or runs:
        told = f"not everything is counted yet: {listed(streams, runs)}. {ending_command(folder, streams, runs)}."
        result = replace(result, warnings=(*result.warnings, told))
    return result


def count_from_iterator(
    run: Path | str, texts: Iterable[str], *, name: str = "iterator", **arguments: Any
) -> CountResult:
    """As `count`, over Python strings, one document each.

    Called again with the same name it passes by the documents that were counted, checks that they
    are the same, and goes on behind them.
    """
    return count(run, [Source(name, "iterator", texts=texts)], **arguments)


class _Job:
    """One call of `count`: a reader, its workers, their parts."""

    def __init__(
        self, run: Run, config: CountConfig, pattern: Pattern, resources: Resources, stop: threading.Event
    ) -> None:
        self.run_folder = run
        self.config = config
        self.pattern = pattern
        self.resources = resources
        self.stop = stop
        self.failed: BaseException | None = None
        self.failing: str | None = None  # the source that it was about
        self.numbers = itertools.count(next_number(run))
        self.numbers_lock = threading.Lock()
        self.sketch = _DistinctSketch()
        self.dropped: dict[str, int] = {}  # characters by source, --unencodable drop
        self.bad_utf8: dict[str, int] = {}  # sequences by source, where nobody said what becomes of them
        self.meter = Meter("counting", memory_limit=self.resources.memory_bytes)
        share = _share_bytes(resources)
        self.block_bytes = int(min(_MOST_BLOCK, max(_LEAST_BLOCK, share // _BYTES_A_BYTE)))
        giant_cost = _GIANT_SEQUENCE_COST if config.sequences else _GIANT_COST
        self.most_bytes = int(max(self.block_bytes, (resources.memory_bytes - BASE_BYTES) // giant_cost))
        self.room = _Room()
        self.table_bytes = table_bytes(resources)

    def run(self, found: list[Source], warnings: list[str], progress: str, facts: dict[str, str]) -> CountResult:
        """`facts`: table run as it was before; empty for a new run."""
        parts = list_parts(self.run_folder, clean=True)
        plan = self._plan(found, parts)
        if facts and any(source.kind != "counts" for source, _ in plan.todo):
            refuse_other_tables(self.run_folder.path, facts, self.pattern, "counting on")
            doubt = told_of_old_run(facts) if parts else None
            warnings += [doubt] if doubt else []
        self.meter.total = sum(source.bytes for source, _ in plan.todo if not source.is_stream)
        if any(source.is_stream for source, _ in plan.todo):
            self.meter.total = 0
        self.meter.facts.update(
            run=str(self.run_folder.path), sources=len(found), memory_limit_bytes=self.resources.memory_bytes
        )
        note_lost(self.run_folder, parts)
        watch = Watch(self.run_folder, found, self.resources.as_facts())
        watch.begin([source for source, _ in plan.todo])
        failpoint("count-recorded")
        with Reporter(self.meter, self.run_folder.write_status, progress):
            try:
                if plan.todo:
                    self._count_all(plan, {(s.path, s.start_at, s.stop_at): s.digest for p in parts for s in p.spans})
                if self.failed is not None:
                    raise self.failed
            except StreambpeError as why:
                if self.failing is not None:
                    parts = list_parts(self.run_folder)
                    watch.refuse(self.failing, parts, for_good=isinstance(why, UsageError))
                raise
            if self.stop.is_set():
                raise Stopped(
                    f"Stopped; everything counted so far is kept in {self.run_folder.path}. {self._going_on()}",
                    getattr(self.stop, "signal_number", signal.SIGINT),
                )
            warnings += _told_left_out(watch.end(list_parts(self.run_folder)))
            self.meter.stage = "folding"
            release_memory()
            corpus = fold(
                self.run_folder,
                memory_bytes=self.resources.memory_bytes,
                threads=self.resources.threads,
                temp_dir=self.resources.temp_dir,
            )
            self.meter.facts.update(corpus=corpus, distinct_chunks=corpus["distinct"])
            self.meter.stage = "counted"
        if not corpus["chunks"]:
            raise SourceError(
                f"The sources hold no text: {_named([source.path for source in found])}. "
                f"{self.run_folder.path} is made, and its counts are empty. Count others into it, or remove it."
            )
        warnings += self._told_empty([source.path for source, _ in plan.todo])
        told = [
            f"{path}: {n:,} characters outside the SCRIPT table were dropped"
            for path, n in sorted(self.dropped.items())
        ]
        return CountResult(corpus, len(plan.todo), plan.skipped, (*warnings, *told, *self._told_bad_utf8(found)))

    def _told_bad_utf8(self, found: Sequence[Source]) -> Iterator[str]:
        """What became of bytes that are not UTF-8, unless the user said what is to become of them."""
        asked = {source.path for source in found if source.any_bytes}
        bad = [(path, n) for path, n in sorted(self.bad_utf8.items()) if path not in asked]
        became = {"replace": "became U+FFFD", "skip": "were left out"}.get(self.config.bad_utf8, "")
        for path, n in bad[:_TOLD_SOURCES]:
            yield f"{path}: {n:,} sequences of bytes that are not UTF-8 {became} (--bad-utf8)."
        if len(bad) > _TOLD_SOURCES:
            more = sum(n for _, n in bad[_TOLD_SOURCES:])
            yield f"{len(bad) - _TOLD_SOURCES:,} more sources with {more:,} of them: table sources has all."

    def _told_empty(self, paths: Sequence[str]) -> list[str]:
        """Of the sources that were counted now, those without text."""
        spans = spans_by_path(list_parts(self.run_folder))
        empty = [path for path in paths if not sum(span.text_bytes for span in spans.get(path, ()))]
        return [f"no text is in {_named(empty)}."] if empty else []

    def _going_on(self) -> str:
        left, runs = left_to_count(self.run_folder)
        if not left:  # only the tables are behind
            return f"Go on with: streambpe count {self.run_folder.path}"
        return f"{ending_command(self.run_folder, left, runs)}."

    def _plan(self, found: list[Source], parts: list[Part]) -> _Plan:
        """Compare the sources with what is committed; refuse one whose content changed."""
        spans = spans_by_path(parts)
        plan = _Plan([], 0)
        for source in found:
            known = sorted(spans.get(source.path, []), key=lambda span: span.start_at)
            if known and known[0].kind != source.kind:
                raise UsageError(
                    f"{source.path} was counted as {known[0].kind}, not {source.kind}; nothing was changed. "
                    f"Give the options it was counted with, or count into another RUN."
                )
            if known and source.kind in ("jsonl", "csv", "parquet") and known[0].text_column != source.column:
                raise UsageError(
                    f"{source.path} was counted by its field {known[0].text_column!r}, not {source.column!r}; nothing "
                    f"was changed. Count the other field into another RUN."
                )
            done = [(span.start_at, span.stop_at) for span in known]
            if known and source.group not in (None, compose_name(known[0].group_name)):
                raise UsageError(
                    f"{source.path} was counted in source group {known[0].group_name or 'none'!r}, not "
                    f"{source.group or 'none'!r}; nothing was changed. Counts cannot move between groups: count "
                    f"into another RUN."
                )
            source = replace(source, group=known[0].group_name if known else source.group or "")
            complete = is_complete(known)
            if known and not source.is_stream:
                self._check_unchanged(source, known)
            if complete and source.is_stdin:
                raise UsageError(
                    "Standard input was counted into this run before. To add another stream, give it a name "
                    "of its own: --stdin-name NAME. Nothing was changed."
                )
            if complete and source.texts is None:
                plan.skipped += 1
            else:
                plan.todo.append((source, done))
        refused = {source.path for source in read_record(self.run_folder).sources if source.refused}
        # what was refused before comes last, that it holds up nothing; a part holds one group: few changes, few parts
        plan.todo.sort(key=lambda entry: (entry[0].path in refused, entry[0].group or ""))
        names = {source.group for source, _ in plan.todo} | {part.group_name for part in parts}
        if len(names) > MOST_GROUPS:
            raise UsageError(
                f"{len(names)} source groups; {MOST_GROUPS} is the most a run can have. Nothing was changed. Name "
                f"larger ones with --group NAME=GLOB."
            )
        return plan

    def _check_unchanged(self, source: Source, known: list[Span]) -> None:
        """Same size and time stamp: taken as unchanged. Same size only: the counted stretches are hashed again."""
        if source.bytes == known[0].file_bytes and source.mtime_ns == known[0].mtime_ns:
            return
        if source.bytes == known[0].file_bytes and not rehash(source, known, self.pattern):
            return
        raise SourceChanged(
            f"{source.path} was counted when it had {known[0].file_bytes} bytes; now its content is another "
            f"({source.bytes} bytes). Nothing was changed. Put the old file back, or count the new one under "
            f"another name or into another RUN: counts cannot be taken back."
        )

    def _count_all(self, plan: _Plan, digests: dict[tuple[str, int, int], str]) -> None:
        tables = [source for source, _ in plan.todo if source.kind == "counts"]
        for source in tables:
            if not self.stop.is_set():
                with self.naming(source):
                    self._count_table(source)
        texts = [(source, done) for source, done in plan.todo if source.kind != "counts"]
        if not texts:
            return
        blocks: queue.Queue[Block | None] = queue.Queue(maxsize=1)
        workers = [_Worker(self, blocks) for _ in range(self.resources.threads)]
        for worker in workers:
            worker.start()
        try:
            reading = self._read(texts, digests)
            while (block := next(reading, None)) is not None and not self._halted():
                while not self._halted():
                    with contextlib.suppress(queue.Full):
                        blocks.put(block, timeout=0.2)
                        break
                del block  # here it would be held until the next one is read
        except BaseException as why:
            self.failed = self.failed or why
        # one end mark for each: any worker may take any of them, also one whose turn here has not come
        for _ in workers:
            while any(worker.is_alive() for worker in workers):
                with contextlib.suppress(queue.Full):
                    blocks.put(None, timeout=0.1)
                    break
        for worker in workers:
            worker.join()
        if isinstance(self.failed, KeyboardInterrupt):
            self.failed = None
            self.stop.set()

    def _halted(self) -> bool:
        return self.stop.is_set() or self.failed is not None

    def _read(
        self, texts: list[tuple[Source, list[tuple[int, int]]]], digests: dict[tuple[str, int, int], str]
    ) -> Iterator[Block]:
        def verify(source: Source, start: int, stop: int, digest: str) -> None:
            if digests.get((source.path, start, stop)) != digest:
                raise SourceChanged(
                    f"{source.path} is not the input it was: what stands at {start} to {stop} is not what was "
                    f"counted. Nothing was changed. Give it another name, or count into another RUN."
                )

        def advance(read: int) -> None:
            self.meter.done += read

        take_anyway = "say with --bad-utf8 replace or skip what becomes of its bytes, to take it all the same"
        reader = Reader(self.pattern, self.block_bytes, self.most_bytes, verify, advance, take_anyway)
        for source, done in texts:
            with self.naming(source):
                yield from reader.blocks(source, done)

    @contextlib.contextmanager
    def naming(self, source: Source) -> Iterator[None]:
        """Remember which source an error was about."""
        try:
            yield
        except StreambpeError:
            self.failing = self.failing or source.path
            raise

    def next_name(self, prefix: str) -> str:
        with self.numbers_lock:
            return f"{prefix}-{next(self.numbers):05d}"

    def commit(self, name: str, rows: ChunkList, spans: list[Span]) -> Part:
        """Write and rename one part."""
        writer = PartWriter(self.run_folder.counts / f"{name}.parquet", run=self.run_folder.number)
        try:
            writer.write(rows)
            part = writer.commit(spans)
        except BaseException:
            writer.abandon()
            raise
        self.sketch.add(rows.strings())
        with self.numbers_lock:
            for span in spans:
                for totals, n in ((self.dropped, span.dropped), (self.bad_utf8, span.bad_utf8)):
                    if n:
                        totals[span.path] = totals.get(span.path, 0) + n
        self.meter.facts["distinct_chunks"] = self.sketch.estimate()
        return part

    def _count_table(self, source: Source) -> None:
        """Add a table of chunks and counts: read whole and checked, then committed in parts of a million rows."""
        writers: list[tuple[PartWriter, int, int, int]] = []  # with the rows it covers and its text bytes
        digest = digest_file(source)
        documents, at, dropped = 0, 0, 0
        try:
            for table in read_count_table(source, _TABLE_ROWS):
                if table.pattern is not None and table.pattern != self.pattern.expression:
                    raise UsageError(
                        f"{source.path} was counted with the pattern {table.pattern!r}; {self.run_folder.path} counts "
                        f"with --pattern {self.config.pattern}. Nothing was changed. Name the pattern it was made with."
                    )
                documents += table.documents
                frame = pl.DataFrame(
                    {"chunk": table.chunks, "n": table.counts}, schema={"chunk": pl.String, "n": pl.Int64}
                )
                if sum(table.counts) > MAX_COUNT:
                    raise StreambpeError(f"{source.path} holds more than {MAX_COUNT} chunks. Nothing was changed.")
                frame = frame.filter(pl.col("n") > 0)
                if self.config.unencodable != "bytes":
                    frame, gone = _without_unencodable(frame, source.path, self.config.unencodable == "error")
                    dropped += gone
                frame = frame.group_by("chunk").agg(pl.col("n").sum()).sort("chunk")
                writer = PartWriter(
                    self.run_folder.counts / f"{self.next_name('part')}.parquet", run=self.run_folder.number
                )
                writers.append((writer, at, at + table.rows, text_bytes(frame)))
                writer.write(ChunkList.of(frame))
                self.sketch.add(frame["chunk"])
                at += table.rows
            chunks, size = sum(writer.total for writer, *_ in writers), sum(writer[3] for writer in writers)
            check_total(list_parts(self.run_folder), chunks, size, source.path)
            for i, (writer, start, stop, size) in enumerate(writers):
                last = i + 1 == len(writers)
                writer.commit(
                    [
                        Span(
                            source.path,
                            "counts",
                            "",
                            start,
                            stop,
                            documents if last else 0,
                            size,
                            0,
                            0,
                            0,
                            digest,
                            writer.target.stem,
                            source.bytes,
                            source.mtime_ns,
                            "last" if last else "part",
                            dropped if last else 0,
                            group_name=source.group or "",
                        )
                    ]
                )
            if dropped:
                self.dropped[source.path] = dropped
        finally:
            for writer, *_ in writers:
                writer.abandon()
        self.meter.done += source.bytes


def _named(paths: Sequence[str]) -> str:
    """Some of them, and how many more."""
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


class _Room:
    """Memory that workers share: all have their part of it, or one has it alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0
        self._waiting = 0  # to have it alone

    @contextlib.contextmanager
    def held(self, alone: bool) -> Iterator[None]:
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


class _Worker(threading.Thread):
    """Takes blocks, adds up their chunks, commits parts."""

    def __init__(self, job: _Job, blocks: queue.Queue[Block | None]) -> None:
        super().__init__(name="streambpe-count", daemon=True)
        self.job, self.blocks = job, blocks
        self.chunker = Chunker(job.pattern, beside=True)
        self.counts = ChunkCounts(self.chunker, job.table_bytes)
        self.spans: list[Span] = []
        self.since = time.monotonic()

    def run(self) -> None:
        told_to_end = False
        try:
            while (block := self.blocks.get()) is not None:
                if self.job.failed is not None:
                    continue
                size = 0 if isinstance(block.data, list) else len(block.data)
                giant = size > 2 * self.job.block_bytes
                with self.job.room.held(alone=giant):
                    if giant:
                        self._commit()
                    with self.job.naming(block.source):
                        self._take(block)
                    del block  # a giant one is not to be held while it is committed
                    late = time.monotonic() - self.since > CHECKPOINT_SECONDS
                    if giant or late or self.counts.held > self.job.table_bytes:
                        self._commit()
            told_to_end = True
            self._commit()
        except BaseException as why:  # told to the thread that reads, which raises it
            self.job.failed = self.job.failed or why
            with contextlib.suppress(BaseException):
                self._commit()
        finally:
            self.chunker.close()
        # each worker gets one None: a second wait would be for another's, and for ever
        while not told_to_end and self.blocks.get() is not None:
            pass

    def _take(self, block: Block) -> None:
        policy: BadUtf8 = self.job.config.bad_utf8  # type: ignore[assignment]
        made = prepared(block, block_text(block, policy), self.job.config)
        if self.job.config.sequences:
            self._commit_sequence(block, made)
            return
        span = _span(block, made, "")
        if self.spans and self.spans[0].group_name != span.group_name:
            self._commit()
        self.counts.add(made.text)
        # the text itself is not kept: only what its span says of it
        self.spans.append(span)

    def _commit(self) -> None:
        """Commit the chunks added up so far."""
        self.since = time.monotonic()
        if not self.spans:
            return
        spans, self.spans = self.spans, []
        rows = self.counts.take()
        name = self.job.next_name("part")
        self.job.commit(name, rows, [replace(span, part=name) for span in spans])

    def _commit_sequence(self, block: Block, made: BlockText) -> None:
        """One block, one part: its counts, and its chunks in order as ids of its own dictionary."""
        numbered = self.chunker.number(made.text)
        n = numbered.n
        name = self.job.next_name("part")
        run, span = self.job.run_folder, _span(block, made, name)
        sequences.write_sequence(run.sequences, name, numbered, n, sequences.sequence_made_of(run, span))
        failpoint("sequence-written")
        self.job.commit(name, ChunkList(*as_buffers(numbered.chunks), n), [span])


def _span(block: Block, made: BlockText, part: str) -> Span:
    source = block.source
    return Span(
        path=source.path,
        kind=source.kind,
        text_column=source.column if source.kind in ("jsonl", "csv", "parquet") else "",
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


def rehash(source: Source, spans: Sequence[Span], pattern: Pattern) -> list[Span]:
    """Read the counted stretches of a source again; those whose digest is another now."""
    by_start = {span.start_at: span for span in spans}
    stretches = sorted((span.start_at, span.stop_at) for span in spans)
    different = []
    for start, _, digest in digest_stretches(source, stretches, pattern):
        if by_start[start].digest != digest:
            different.append(by_start[start])
        by_start.pop(start)
    return different + list(by_start.values())


class _DistinctSketch:
    """About how many distinct chunks there are, from the smallest 4 096 hashes seen (within 2 %)."""

    _KEPT = 4096

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        self._lock = threading.Lock()

    def add(self, chunks: pl.Series) -> None:
        if not len(chunks):
            return
        with self._lock:
            hashes = chunks.hash().to_numpy()
            if len(self._hashes) == self._KEPT:
                hashes = hashes[hashes < self._hashes[-1]]
            hashes = np.sort(np.append(self._hashes, hashes))
            self._hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])][: self._KEPT]

    def estimate(self) -> int:
        with self._lock:
            if len(self._hashes) < self._KEPT:
                return len(self._hashes)
            return int((self._KEPT - 1) / (float(self._hashes[-1]) / 2.0**64))
