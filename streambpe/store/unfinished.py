"""What a run was asked to count and has not counted to its end: "counting" in RUN/run.json and the committed parts.

    count RUN a.txt b.txt       counting: a.txt, b.txt; written before the first byte is read
    (killed in a.txt)           parts: a.txt to byte 4 096, not its last stretch
    unfinished                  a.txt, 4,096 bytes of it are counted; b.txt, nothing of it is

The parts alone would not tell of b.txt. The record is there while a count is going on, and stays after a stop, a
kill or an error; `streambpe resume RUN` goes on from it. A source is marked if an error named it before anything of it
was counted; once the user counts without it, it is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import structs

from streambpe.errors import CountUnfinished, typed
from streambpe.model.corpus_facts import LeftOut
from streambpe.plurals import some_of
from streambpe.resources import ResourceFacts
from streambpe.sources.remote.address import has_place, is_remote
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.store.identity import Record, Wanted, read_identity
from streambpe.store.parts import Parts, list_parts
from streambpe.store.run import Run
from streambpe.store.spans import NO_SPANS, Spans

_UNITS = {"parquet": "rows", "counts": "rows", "iterator": "documents", "run": "chunks"}  # by kind; else bytes


def read_record(run: Run) -> Record:
    """What run.json says is still to be counted."""
    identity = read_identity(run.path)
    return identity.counting if identity else Record()


def change_record(run: Run, **fields: Any) -> None:
    """Replace fields of it. Locked by the caller."""
    record = structs.replace(read_record(run), **fields)
    run.change_identity(counting=record, late=not record)


def source_of(wanted: Wanted) -> Source:
    """The source to be counted, with its file's size and time as they are now."""
    size = mtime_ns = 0
    if is_remote(wanted.path) or Path(wanted.path).is_file():
        size, mtime_ns = look_at(wanted.path)
    return Source(
        wanted.path, wanted.kind, wanted.column, size, mtime_ns,  # type: ignore[arg-type]
        group=wanted.group, any_bytes=wanted.any_bytes,
    )  # fmt: skip


def wanted_of(spans: Spans) -> list[Wanted]:
    """The sources of these stretches, as a count was given them."""
    return [
        Wanted(one.path, one.kind, one.text_column or "text", one.group_name, _stream_of(one.path, one.kind))
        for one in spans.firsts("path")
    ]


def sources_in_tables(run: Run, without: Collection[str] = frozenset()) -> list[Wanted]:
    """The inputs that the tables hold counts of."""
    run.facts()  # which refuses another run's
    return [source for source in wanted_of(run.tables().stretches) if source.path not in without]


def lost_sources(run: Run, parts: Parts) -> list[Wanted]:
    """The inputs whose counts are in the tables, but not, or not to the end, in the parts: parts were lost, and were
    not taken back."""
    leaving = {source.path for source in read_record(run).leaving}
    return sources_in_tables(run, parts.by_path.complete | leaving)


def note_lost(run: Run, parts: Parts) -> None:
    """Record lost sources as still to be counted, before the tables forget them. Locked by the caller."""
    known = {source.path: source for source in read_record(run).sources}
    wanted = {source.path: source for source in lost_sources(run, parts)} | known
    if len(wanted) > len(known):
        change_record(run, sources=tuple(wanted.values()))


class Unfinished(msgspec.Struct, frozen=True):
    """A source that is not counted to its end."""

    source: Wanted
    counted: int = 0  # bytes of its content, rows, or documents
    leaving: bool = False  # it is being taken back

    @property
    def unit(self) -> str:
        """What is counted of it."""
        return _UNITS.get(self.source.kind, "bytes")

    def __str__(self) -> str:
        path = self.source.path
        if self.leaving:
            return f"{path} (only a part of it is taken back)"
        if self.counted:
            return f"{path} ({self.counted:,} {self.unit} of it are counted)"
        return f"{path} (stopped by an error)" if self.source.refused else f"{path} (none of it is counted)"

    def as_fact(self, *, whole_path: bool) -> LeftOut:
        """For tables; and, without `whole_path`, for the event log, which has no paths."""
        name = self.source.path if whole_path else PurePath(self.source.path).name
        return {"source": name, "counted": self.counted, "unit": self.unit}


def unfinished(sources: Iterable[Wanted], parts: Parts) -> Iterator[Unfinished]:
    """The sources, wanted or counted in part, that are not counted to their end; sorted by path."""
    wanted, spans = {source.path: source for source in sources}, parts.by_path
    for path in sorted((wanted.keys() | spans.keys()) - spans.complete):
        mine = spans.get(path, NO_SPANS)
        yield Unfinished(wanted.get(path) or wanted_of(mine)[0], mine.total("stop_at") - mine.total("start_at"))


def _stream_of(path: str, kind: str) -> str:
    """Wanted.stream of a source without a record."""
    if kind == "iterator":
        return kind
    return "" if has_place(path) else "stdin"


class Left(msgspec.Struct, frozen=True):
    """What a run was asked to count, to merge or to take back, and did not to the end."""

    run: Path
    sources: list[Unfinished]
    runs: tuple[str, ...] = ()  # that merge-counts was given

    def __bool__(self) -> bool:
        return bool(self.sources or self.runs)

    def __str__(self) -> str:
        """Some of it, and how much more there is."""
        sources = some_of(list(map(str, self.sources)))
        merge = f"the merge of {', '.join(self.runs)} was not finished" if self.runs else ""
        return ", ".join(filter(None, [sources, merge]))

    @property
    def command(self) -> str:
        """Which command ends it, as the beginning of a sentence."""
        quoted_run = typed(self.run)
        if self.runs:
            return f"Finish it with `streambpe merge-counts {quoted_run} {' '.join(map(typed, self.runs))}`"
        leaving = [one.source.path for one in self.sources if one.leaving]
        if leaving:
            given = " ".join(f"--take-back {typed(path)}" for path in leaving)
            return f"Finish that with `streambpe count {quoted_run} {given}`"
        if self.sources and all(one.source.refused for one in self.sources):
            return f"Count it with the right options, or leave it out for good with `streambpe count {quoted_run}`"
        if not all(one.source.stream for one in self.sources):
            return f"Finish the count with `streambpe resume {quoted_run}`"
        if all(one.source.stream == "iterator" for one in self.sources):
            return "Finish the count by giving the iterator again, with the same call"
        return "Finish the count by giving the stream again, with the same command"

    def told(self, between: str = "", or_else: str = "") -> str:
        """What is not counted, and which command ends it. `or_else`: the end of that sentence."""
        return f"{self.run} is not counted to its end: {self}. {between}{self.command}{or_else}."

    def refuse(self, or_else: str = "") -> None:
        """An error, unless all is counted. `or_else`: what can be done instead, as the end of a sentence."""
        if self:
            raise CountUnfinished(self.told("Nothing was changed. ", or_else))


def left_to_count(run: Run, parts: Parts | None = None) -> Left:
    """What is left of a count, a merge or a take-back."""
    record = read_record(run)
    parts = list_parts(run) if parts is None else parts
    lost = lost_sources(run, parts) if run.state.exists() else []
    leaving = _half_taken_back(record)
    gone = {one.source.path for one in leaving}
    left = [one for one in unfinished([*lost, *record.sources], parts) if one.source.path not in gone]
    return Left(run.path, left + leaving, record.runs)


def refuse_half_counted(run: Run, or_else: str = "", *, given: Collection[str] = ()) -> None:
    """An error if a run is not counted to its end; it names the command that ends it. `given`: paths counted now.

    `or_else`: what can be done instead, as the end of a sentence.
    """
    left = left_to_count(run)
    Left(run.path, [one for one in left.sources if one.source.path not in given], left.runs).refuse(or_else)


def refuse_leaving(run: Run, *, given: Collection[str] = ()) -> None:
    """An error if a stopped command left sources half taken back: nothing else is counted before that ends. `given`:
    paths that are taken back now."""
    Left(run.path, [one for one in _half_taken_back(read_record(run)) if one.source.path not in given]).refuse()


def _half_taken_back(record: Record) -> list[Unfinished]:
    return [Unfinished(Wanted(path, ""), leaving=True) for path in sorted(one.path for one in record.leaving)]


class Watch:
    """Keeps the record while a count is going on. Locked by the caller."""

    def __init__(self, run: Run, given: Sequence[Source], resources: ResourceFacts | None) -> None:
        self._run = run
        self._before = {source.path: source for source in read_record(run).sources}
        self._given = {source.path for source in given}
        self._resources = resources

    def begin(self, todo: Sequence[Source]) -> None:
        """Called before the first byte is read: records what is to be counted now, and what was left before."""
        wanted = self._before | {source.path: _as_wanted(source) for source in todo}
        if todo:
            ordered = tuple(wanted[path] for path in sorted(wanted))
            change_record(self._run, sources=ordered, resources=self._resources)

    def refuse(self, path: str, parts: Parts, *, for_good: bool) -> None:
        """An error named this source. If nothing of it is counted, mark it; or, `for_good`, forget it if it is new."""
        if path in parts.by_path:
            return
        kept = [
            structs.replace(source, refused=True) if source.path == path else source
            for source in read_record(self._run).sources
            if source.path != path or not for_good or path in self._before
        ]
        change_record(self._run, sources=tuple(kept))

    def end(self, parts: Parts) -> list[str]:
        """All given sources are counted. Sources left from earlier counts stay recorded, except refused ones that were
        not given again: they are left out, and told."""
        recorded = {source.path: source for source in read_record(self._run).sources}
        left = [one.source for one in unfinished(recorded.values(), parts) if one.source.path in recorded]
        gone = [source.path for source in left if source.refused and source.path not in self._given]
        change_record(self._run, sources=tuple(source for source in left if source.path not in gone))
        return [f"{path} was refused before and is not among the sources now, so it is left out." for path in gone]


def _as_wanted(source: Source) -> Wanted:
    """A source as `count` has it, for the record."""
    stream = "stdin" if source.is_stdin else "iterator" if source.texts is not None else ""
    return Wanted(source.path, source.kind, source.column, source.group or "", stream, any_bytes=source.any_bytes)
