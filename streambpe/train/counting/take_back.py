"""`count RUN --take-back SOURCE`: the counts as if a source had never been counted.

    verify       every stretch of the source has the digest that it had
    count again  the stretches that share a part with other sources, into RUN/tmp/take-back
    record       in run.json: from here on only this command goes on
    subtract     one part takes the place of all shared ones: their sum without what was counted again
    remove       the parts that hold nothing else
    fold         the tables are filled again from the parts

The rename of the new part and the removal of each old one leave counts and stretches that belong together, so a kill
between them leaves a source of which less is counted; the same command takes the rest.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from msgspec import structs

from streambpe.arguments import arguments
from streambpe.core.strings import ChunkList, merge
from streambpe.count_config import CountConfig, Counting
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, SourceChanged, SourceError, Stopped, UsageError, typed
from streambpe.failpoints import failpoint
from streambpe.progress import refuse_mode
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.read import gaps_between
from streambpe.sources.remote.address import has_place
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.store.chunks import fold, range_bytes, read_totals
from streambpe.store.counted_as import refuse_other_counting
from streambpe.store.database import waiting_for_tables
from streambpe.store.merge import compact, lists_of_range, opened, ranges
from streambpe.store.parts import Part, Parts, list_parts, next_number, write_part
from streambpe.store.run import Run
from streambpe.store.sequences import documents_without
from streambpe.store.spans import Spans
from streambpe.store.unfinished import Leaving, Left, left_to_count, read_record, write_record
from streambpe.system import remove_folder
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import stopped_by
from streambpe.train.counting.job import CountJob, CountResult
from streambpe.train.counting.tasks import pattern_for, remove_attempts
from streambpe.train.counting.todo import has_digests

if TYPE_CHECKING:
    from streambpe.keywords import CountKeywords


def take_back(
    run: Run | Path | str,
    sources: Sequence[str],
    *,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    **options: Unpack[CountKeywords],
) -> CountResult:
    """Take the counts of sources out of a run: each is counted again and subtracted, exactly.

    `sources`: as they were given to `count`; a folder or a glob means all counted ones in it. Refused if one is no
    longer what was counted. `options`: those of `count`. After a stop or a kill the same
    call goes on.
    """
    refuse_mode(progress)
    _, asked, resources = arguments("take_back", options, None, resources)
    folder = run if isinstance(run, Run) else Run.open(run)
    folder.refuse_missing()
    refuse_other_counting(folder, replace(asked, shard=None))
    stop = stop or threading.Event()
    with folder.lock(), disk_full_explained(folder.path), waiting_for_tables(stop):
        return _TakingBack(folder, resources, progress, stop).run(sources, asked)


class _TakingBack:
    """One call, of a locked run."""

    def __init__(self, run: Run, resources: Resources, progress: str, stop: threading.Event) -> None:
        self._run, self._resources, self._progress, self._stop = run, resources, progress, stop
        config = json.loads(run.facts()["config"])
        self._config = replace(CountConfig(**config), sequences=False)  # the documents are taken out by their ids
        self._keeps_documents = bool(config.get("sequences"))
        self._pattern = pattern_for(self._config, resources.document_seconds)
        self._again = Run(run.path / "tmp" / "take-back")
        self._told: list[str] = []

    def run(self, asked: Sequence[str], how: Counting) -> CountResult:
        """Take them out, one after another; the tables are filled at the end."""
        remove_attempts(self._run)
        self._run.tidy()
        list_parts(self._run, clean=True)
        paths = self._named(asked, how)
        self._refuse(paths)
        for path in paths:
            known = list_parts(self._run).by_path.get(path)
            if known is not None:
                self._take_out(path, known)
        corpus = fold(self._run, self._resources)
        gone = read_record(self._run).leaving
        self._note(gone)
        failpoint("take-back-noted")
        write_record(self._run, structs.replace(read_record(self._run), leaving=()))
        self._remove_again()
        told = self._told
        left = left_to_count(self._run)
        if left:
            told.append(left.told())
        return CountResult(corpus, 0, 0, tuple(told), tuple(one.path for one in gone))

    def _taken_back(self) -> list[dict[str, Any]]:
        """What table run says of it."""
        found: list[dict[str, Any]] = json.loads(self._run.facts().get("taken_back", "[]"))
        return found

    def _note(self, gone: Sequence[Leaving]) -> None:
        """Say in table run what was taken back."""
        known = self._taken_back()
        new = [structs.asdict(one) for one in gone if structs.asdict(one) not in known]
        if new:
            self._run.put_facts({"taken_back": json.dumps([*known, *new])})

    # ------------------------------------------------------------------ which, and whether

    def _named(self, asked: Sequence[str], how: Counting) -> list[str]:
        """The counted sources that are meant, and those that a stopped call left half taken back."""
        record = read_record(self._run)
        leaving = [one.path for one in record.leaving]
        known = {*list_parts(self._run).by_path, *leaving}
        gone = {one["path"] for one in self._taken_back()} - known
        found: list[str] = []
        for name in asked:
            mine = [name]
            if name not in known | gone:
                mine = [one.path for one in find_sources([name], how, in_part=True)[0]]
            self._told += [f"{path} was taken back before." for path in mine if path in gone]
            there = not gone.isdisjoint(mine)
            mine = [path for path in mine if path in known]
            if not mine and not there:
                raise UsageError(
                    f"--take-back {name}: {self._run.path} has not counted it. Nothing was changed. `streambpe "
                    f'sql {typed(self._run.path)} "FROM source_files"` shows what it has counted.'
                )
            found += mine
        missing = [path for path in leaving if path not in found]
        if missing:
            also = " ".join(f"--take-back {typed(path)}" for path in missing)
            raise UsageError(
                f"{self._run.path}: {missing[0]} is only taken back in part. Nothing was changed. Finish that with "
                f"`streambpe count {typed(self._run.path)} {also}`."
            )
        return list(dict.fromkeys(found))

    def _refuse(self, paths: Sequence[str]) -> None:
        """What would not be exact."""
        run, record = self._run, read_record(self._run)
        if record.runs:
            raise RunError(Left(run.path, [], record.runs).told("Nothing was changed. "))
        known = list_parts(run).by_path
        if not set(known) - set(paths):
            raise UsageError(
                f"{run.path} has counted nothing else. Nothing was changed. Remove {run.path}, and count the sources "
                "that you want into a new one."
            )
        for path in paths:
            if path in known and (known[path][0].kind == "iterator" or not has_place(path)):
                raise UsageError(
                    f"--take-back {path}: it was a stream, or came from another RUN under that name, so it cannot be "
                    "read again. Nothing was changed. Count the others into another RUN."
                )
        if any(known[path][0].kind != "counts" for path in paths if path in known):
            refuse_other_tables(run.path, run.facts(), self._pattern, "taking back")
        if not record.leaving and "corpus" in run.facts() and read_totals(run, self._resources)[1]:
            raise RunError(
                f"chunk_counts or group_counts of {run.path} was edited, so nothing can be taken back exactly. "
                f"Nothing was changed. `streambpe count {typed(run.path)}` fills them again, without the edits."
            )

    def _take_out(self, path: str, known: Spans) -> None:
        """Take one source out of the parts."""
        source = self._source(path, known)
        self._refuse_changed(source, known)
        parts = [part for part in list_parts(self._run) if path in part.spans.values("path")]
        shared = [part for part in parts if part.spans.values("path") != [path]]
        again = self._count_again(source, shared) if shared else []
        if self._source(path, known) != source:
            raise _changed(path)
        failpoint("take-back-counted")
        self._record(path, known)
        failpoint("take-back-recorded")
        if shared:
            self._subtract(path, shared, again)
            failpoint("take-back-committed")
        for part in parts:
            if part not in shared:
                part.path.unlink()
                failpoint("take-back-removed")
        list_parts(self._run, clean=True)
        self._remove_again()

    def _refuse_changed(self, source: Source, known: Spans) -> None:
        """All that is counted of it is read and compared, whatever its time stamp says."""
        if source.bytes != known[0].file_bytes or not has_digests(source, known, self._pattern):
            raise _changed(source.path)

    def _source(self, path: str, known: Spans) -> Source:
        """The file as it is now; it is taken as text whatever its bytes are, as it was."""
        first = known[0]
        try:
            size, mtime_ns = look_at(path)
        except OSError as why:
            raise SourceError(
                f"--take-back {path} cannot be read: {why.strerror}. It has to be counted again, so it must be where "
                "it was. Nothing was changed."
            ) from None
        return Source(
            path, first.kind, first.text_column or "text", size, mtime_ns,  # type: ignore[arg-type]
            group=first.group_name, any_bytes=True,
        )  # fmt: skip

    def _record(self, path: str, known: Spans) -> None:
        """From now on the run is known to be half without this source."""
        record = read_record(self._run)
        if path not in {one.path for one in record.leaving}:
            leaving = Leaving(path, known.total("documents"), known.total("text_bytes"))
            record = structs.replace(record, leaving=(*record.leaving, leaving))
        left = tuple(source for source in record.sources if source.path != path)
        write_record(self._run, structs.replace(record, sources=left))

    # ------------------------------------------------------------------ counting again

    def _count_again(self, source: Source, shared: Sequence[Part]) -> list[Part]:
        """The parts of RUN/tmp/take-back: what the source added to the shared parts, and nothing else."""
        mine = Parts(shared).spans
        mine = mine.where(mine.alike("path", source.path)).in_order()
        gaps = gaps_between(mine.stretches())
        end = gaps.pop()[0]
        whole = not gaps and source.path in list_parts(self._run).by_path.complete
        self._again.counts.mkdir(parents=True, exist_ok=True)
        with self._again.lock():
            before = list_parts(self._again, clean=True)
            if not _is_of(before.spans, source, gaps, end):  # a call that took back something else left it
                for part in before:
                    part.path.unlink()
            elsewhere = [replace(mine[0], start_at=low, stop_at=high or 0, state="part") for low, high in gaps]
            done = Spans.joined([list_parts(self._again).spans, Spans.of(elsewhere)]).in_order()
            job = CountJob(self._again, self._config, self._pattern, self._resources, self._stop, told_in=self._run)
            try:
                job.count_one(source, done, None if whole else end, self._progress)
            except Stopped:
                raise Stopped(
                    f"Stopped; {self._run.path} is as it was before. The same command continues with what it has "
                    f"recounted of {source.path}.",
                    stopped_by(self._stop),
                ) from None
            counted = list_parts(self._again)
            for what in ("text_bytes", "bad_utf8", "nulls", "dropped", "bad_lines"):
                if counted.spans.total(what) != mine.total(what):
                    raise self._not_the_same(source.path)
            at_once = range_bytes(self._resources)
            return compact(self._again, list(counted), at_once, self._resources.threads)

    def _not_the_same(self, path: str) -> SourceChanged:
        return SourceChanged(
            f"{path} does not have the same counts as before, so it cannot be taken back exactly. Nothing was "
            f"changed. Was {self._run.path} counted by another version of streambpe? Count the others into another "
            "RUN."
        )

    def _subtract(self, path: str, shared: Sequence[Part], again: Sequence[Part]) -> None:
        """Commit the sum of the shared parts without what was counted again; it takes their place."""
        spans = Parts(shared).spans.in_order()
        kept = spans.where(~spans.alike("path", path))
        number = next_number(self._run)
        if self._keeps_documents:
            kept = documents_without(self._run, spans, path, number + 1)
        target = self._run.counts / f"merged-{number:05d}.parquet"
        level, names = max(part.level for part in shared), [part.path.name for part in shared]
        write_part(target, self._differences(path, shared, again), kept, level, names, run=self._run.number)

    def _differences(self, path: str, shared: Sequence[Part], again: Sequence[Part]) -> Iterator[ChunkList]:
        """The shared parts without what was counted again, range by range."""
        with opened(shared) as files, opened(again) as others:
            for low, high in ranges([*shared, *again], range_bytes(self._resources)):
                kept = lists_of_range(shared, files, low, high)
                gone = lists_of_range(again, others, low, high)
                less = [ChunkList(rows.offsets, rows.data, -rows.n) for rows in gone if rows is not None]
                less += [rows for rows in kept if rows is not None]
                del kept, gone  # otherwise they would be held while they are merged
                rows = merge(less)
                if (rows.n < 0).any():
                    raise self._not_the_same(path)
                yield ChunkList.of_table(rows.table().filter(pa.array(rows.n > 0)))

    # ------------------------------------------------------------------ the end

    def _remove_again(self) -> None:
        remove_folder(self._again.path)
        with contextlib.suppress(OSError):  # something else is in it, or it is not there
            self._again.path.parent.rmdir()


def _changed(path: str) -> SourceChanged:
    return SourceChanged(
        f"--take-back {path}: its content is no longer what was counted, so it cannot be taken back exactly. Nothing "
        f"was changed. Put the old file back, or count the other sources into another RUN."
    )


def _is_of(spans: Spans, source: Source, gaps: Sequence[tuple[int, int | None]], end: int) -> bool:
    """Whether all of these are stretches of this file as it is now, up to `end` and outside of `gaps`."""
    return all(
        (span.path, span.file_bytes, span.mtime_ns) == (source.path, source.bytes, source.mtime_ns)
        and span.stop_at <= end
        and not any(span.start_at < (high or 0) and low < span.stop_at for low, high in gaps)
        for span in spans
    )
