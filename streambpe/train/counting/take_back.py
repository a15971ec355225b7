"""`count RUN --take-back SOURCE`: the counts as if a source had never been counted.

    verify       every stretch of the sources has the digest that it had
    count again  the stretches that share a part with other sources, into RUN/tmp/take-back
    record       in run.json: from here on only this command goes on
    subtract     one part takes the place of all shared ones of a source group: their sum without what was counted again
    remove       the parts that hold nothing else
    fold         the tables are filled again from the parts

The rename of the new part and the removal of each old one leave counts and stretches that belong together, so a kill
between them leaves a source of which less is counted; the same command takes the rest.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from msgspec import structs

from streambpe.arguments import arguments
from streambpe.core.strings import ChunkList
from streambpe.count_config import CountConfig, Counting
from streambpe.disk import disk_full_explained
from streambpe.errors import SourceChanged, SourceError, Stopped, UsageError, typed
from streambpe.failpoints import failpoint
from streambpe.progress import refuse_mode
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.read import gaps_between
from streambpe.sources.remote.address import has_place
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.sources.stretches import Stretch
from streambpe.store.chunks import fold, range_bytes, refuse_edited
from streambpe.store.counted_as import refuse_other_counting
from streambpe.store.database import waiting_for_tables
from streambpe.store.identity import Leaving
from streambpe.store.merge import compact, merged_lists
from streambpe.store.parts import Part, Parts, list_parts, next_number, parts_by_group, write_part
from streambpe.store.run import Run
from streambpe.store.sequences import documents_without
from streambpe.store.spans import Spans
from streambpe.store.unfinished import Left, change_record, left_to_count, read_record, refuse_leaving
from streambpe.system import remove_folder
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import stopped_by
from streambpe.train.counting.job import CountJob, CountResult
from streambpe.train.counting.tasks import remove_attempts
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
        self._pattern = self._config.split_pattern(resources.document_seconds)
        self._told: list[str] = []

    def run(self, asked: Sequence[str], how: Counting) -> CountResult:
        """Take them out of the parts, and fill the tables."""
        run = self._run
        remove_attempts(run)
        run.tidy()
        known = list_parts(run, clean=True).by_path
        paths = self._named(asked, how)
        self._refuse(paths)
        self._take_out({path: known[path] for path in paths if path in known})
        corpus = fold(run, self._resources)
        gone = read_record(run).leaving
        before = self._taken_back()
        if new := [one for one in map(structs.asdict, gone) if one not in before]:
            run.put_facts({"taken_back": json.dumps([*before, *new])})
        failpoint("take-back-noted")
        change_record(run, leaving=())
        remove_folder(_again_folder(run))
        remove_attempts(run)  # and with it the folder of both
        if left := left_to_count(run):
            self._told.append(left.told())
        return CountResult(corpus, 0, 0, tuple(self._told), tuple(one.path for one in gone))

    def _taken_back(self) -> list[dict[str, Any]]:
        """What table run says of what was taken back."""
        found: list[dict[str, Any]] = json.loads(self._run.facts().get("taken_back", "[]"))
        return found

    # ------------------------------------------------------------------ which, and whether

    def _named(self, asked: Sequence[str], how: Counting) -> list[str]:
        """The counted sources that are meant, and those that a stopped call left half taken back."""
        leaving = [one.path for one in read_record(self._run).leaving]
        known = {*list_parts(self._run).by_path, *leaving}
        gone = {one["path"] for one in self._taken_back()} - known
        found: list[str] = []
        for name in asked:
            mine = [name]
            if name not in known | gone:
                mine = [one.path for one in find_sources([name], how, in_part=True)[0]]
            if (known | gone).isdisjoint(mine):
                raise UsageError(
                    f"--take-back {name}: {self._run.path} has not counted it. Nothing was changed. `streambpe "
                    f'sql {typed(self._run.path)} "FROM source_files"` shows what it has counted.'
                )
            self._told += [f"{path} was taken back before." for path in mine if path in gone]
            found += [path for path in mine if path in known]
        refuse_leaving(self._run, given=found)
        return list(dict.fromkeys(found))

    def _refuse(self, paths: Sequence[str]) -> None:
        """What would not be exact."""
        run, record = self._run, read_record(self._run)
        Left(run.path, [], record.runs).refuse()
        known = list_parts(run).by_path
        if not set(known) - set(paths):
            raise UsageError(
                f"{run.path} has counted nothing else. Nothing was changed. Remove {run.path}, and count the sources "
                "that you want into a new one."
            )
        kinds = {path: known[path][0].kind for path in paths if path in known}
        for path, kind in kinds.items():
            if kind == "iterator" or not has_place(path):
                raise UsageError(
                    f"--take-back {path}: it was a stream, or came from another RUN under that name, so it cannot be "
                    "read again. Nothing was changed. Count the others into another RUN."
                )
        if any(kind != "counts" for kind in kinds.values()):
            refuse_other_tables(run.path, run.facts(), self._pattern, "taking back")
        if not record.leaving:
            refuse_edited(run, self._resources, "so nothing can be taken back exactly")

    def _take_out(self, known: dict[str, Spans]) -> None:
        """Take sources out of the parts."""
        run, sources = self._run, [self._source(path, spans) for path, spans in known.items()]
        for source in sources:  # all that is counted of it is read and compared, whatever its time stamp says
            spans = known[source.path]
            if source.bytes != spans[0].file_bytes or not has_digests(source, spans, self._pattern):
                raise _changed(source.path)
        alone, shared = list[Part](), list[Part]()
        for part in list_parts(run):
            paths = set(part.spans.values("path"))
            if paths & known.keys():
                (shared if paths - known.keys() else alone).append(part)
        again = self._count_again(sources, shared) if shared else []
        for source in sources:
            if self._source(source.path, known[source.path]) != source:
                raise _changed(source.path)
        failpoint("take-back-counted")
        record = read_record(run)  # from now on the run is known to be half without them
        before = {one.path for one in record.leaving}
        leaving = [
            Leaving(path, spans.total("documents"), spans.total("text_bytes"))
            for path, spans in known.items()
            if path not in before
        ]
        left = tuple(source for source in record.sources if source.path not in known)
        change_record(run, sources=left, leaving=(*record.leaving, *leaving))
        failpoint("take-back-recorded")
        recounted = parts_by_group(again)
        for group, parts in parts_by_group(shared).items():
            self._subtract(known, parts, recounted.get(group, []))
            failpoint("take-back-committed")
        for part in alone:
            part.path.unlink()
            failpoint("take-back-removed")
        list_parts(run, clean=True)

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

    # ------------------------------------------------------------------ counting again

    def _count_again(self, sources: Sequence[Source], shared: Sequence[Part]) -> list[Part]:
        """Parts of what these sources added to the shared parts, and of nothing else."""
        mine = Parts(shared).by_path
        todo = []
        for source in sources:
            if source.path in mine:
                *gaps, (end, _) = gaps_between(mine[source.path].stretches())
                whole = not gaps and mine[source.path].among("state", ("last",)).any()
                todo.append(Stretch(source, tuple((low, high or 0) for low, high in gaps), None if whole else end))
        again = Run(_again_folder(self._run))
        remove_folder(again.path)  # of a call that was stopped
        again.counts.mkdir(parents=True)
        job = CountJob(again, self._config, self._pattern, self._resources, self._stop)
        with again.lock():
            with job.shown_in(self._run, [each.source for each in todo], todo, self._progress):
                job.count(todo)
                if self._stop.is_set():
                    raise Stopped(f"Stopped; {self._run.path} is as it was before.", stopped_by(self._stop))
            counted = list_parts(again)
            for column in ("text_bytes", "bad_utf8", "nulls", "dropped", "bad_lines"):
                sums, same = (by_path.totals(column) for by_path in (mine, counted.by_path))
                for path in (each.source.path for each in todo):
                    if sums[path] != same.get(path, 0):
                        raise self._not_the_same(path)
            return compact(again, list(counted), range_bytes(self._resources))

    def _not_the_same(self, what: str) -> SourceChanged:
        return SourceChanged(
            f"{what} does not have the same counts as before, so it cannot be taken back exactly. Nothing was "
            f"changed. Was {self._run.path} counted by another version of streambpe? Count the others into another "
            "RUN."
        )

    def _subtract(self, paths: Collection[str], shared: Sequence[Part], again: Sequence[Part]) -> None:
        """Commit the sum of the shared parts without what was counted again; it takes their place."""
        spans = Parts(shared).spans.in_order()
        kept = spans.where(~spans.among("path", paths))
        number = next_number(self._run)
        if self._keeps_documents:
            kept = documents_without(self._run, spans, paths, number + 1)
        target = self._run.counts / f"merged-{number:05d}.parquet"
        level, names = max(part.level for part in shared), [part.path.name for part in shared]
        write_part(target, self._differences(shared, again), kept, level, names, run=self._run.number)

    def _differences(self, shared: Sequence[Part], again: Sequence[Part]) -> Iterator[ChunkList]:
        """The shared parts without what was counted again, range by range."""
        for rows in merged_lists(shared, range_bytes(self._resources), again):
            if (rows.n < 0).any():
                raise self._not_the_same("One of the sources")
            yield ChunkList.of_table(rows.table().filter(pa.array(rows.n > 0)))


def _again_folder(run: Run) -> Path:
    return run.path / "tmp" / "take-back"


def _changed(path: str) -> SourceChanged:
    return SourceChanged(
        f"--take-back {path}: its content is no longer what was counted, so it cannot be taken back exactly. Nothing "
        f"was changed. Put the old file back, or count the other sources into another RUN."
    )
