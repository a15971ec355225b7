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

import msgspec
from msgspec import structs

from streambpe.errors import CountUnfinished, RunError, typed
from streambpe.model.corpus_facts import LeftOut
from streambpe.resources import ResourceFacts
from streambpe.sources.remote.address import has_place, is_remote
from streambpe.sources.source import Source
from streambpe.sources.streams import look_at
from streambpe.store.identity import read_identity
from streambpe.store.parts import Parts, list_parts
from streambpe.store.run import Run
from streambpe.store.spans import NO_SPANS, Spans

_NAMED = 3  # sources that a message names; of the others it gives the number


class Wanted(msgspec.Struct, frozen=True):
    """A source that a count was given, and how."""

    path: str
    kind: str
    column: str = "text"
    group: str = ""
    stream: str = ""  # "stdin" or "iterator": only the user can give it again
    refused: bool = False  # an error named it before anything of it was counted
    any_bytes: bool = False  # as in Source

    @classmethod
    def of(cls, source: Source) -> Wanted:
        """Made from a source as `count` has it."""
        stream = "stdin" if source.is_stdin else "iterator" if source.texts is not None else ""
        return cls(source.path, source.kind, source.column, source.group or "", stream, any_bytes=source.any_bytes)

    def source(self) -> Source:
        """The source to be counted, with its file's size and time as they are now."""
        size = mtime_ns = 0
        if is_remote(self.path) or Path(self.path).is_file():
            size, mtime_ns = look_at(self.path)
        return Source(
            self.path, self.kind, self.column, size, mtime_ns,  # type: ignore[arg-type]
            group=self.group, any_bytes=self.any_bytes,
        )  # fmt: skip


class Leaving(msgspec.Struct, frozen=True):
    """A source whose counts are being taken back, and what it held."""

    path: str
    documents: int
    text_bytes: int


class Record(msgspec.Struct, frozen=True):
    """What is still to be counted, merged, or taken back."""

    sources: tuple[Wanted, ...] = ()
    runs: tuple[str, ...] = ()  # that merge-counts was given, until all of them are added
    resources: ResourceFacts | None = None  # those of the last count
    leaving: tuple[Leaving, ...] = ()  # sources that are being taken back, until the tables are without them

    def __bool__(self) -> bool:
        return bool(self.sources or self.runs or self.leaving)


def read_record(run: Run) -> Record:
    """What run.json says is still to be counted."""
    identity = read_identity(run.path)
    try:
        return msgspec.convert(identity.counting, Record) if identity else Record()
    except msgspec.ValidationError as why:
        raise RunError(
            f"{run.path}: this streambpe cannot read what is still to be counted ({why}). Nothing was changed. Use the "
            "streambpe that began to count."
        ) from None


def write_record(run: Run, record: Record) -> None:
    """Replace it. Locked by the caller."""
    run.change_identity(counting=msgspec.to_builtins(record) if record else {}, late=not record)


def wanted_of(spans: Spans) -> list[Wanted]:
    """The sources of these stretches, as a count was given them."""
    return [
        Wanted(one.path, one.kind, one.text_column or "text", one.group_name, _stream_of(one.path, one.kind))
        for one in spans.firsts("path")
    ]


def sources_in_tables(run: Run, without: Collection[str] = frozenset()) -> list[Wanted]:
    """The inputs that the tables hold counts of."""
    tables = run.tables()
    run.refuse_other_tables(tables.facts)
    return [source for source in wanted_of(tables.stretches) if source.path not in without]


def lost_sources(run: Run, parts: Parts) -> list[Wanted]:
    """The inputs whose counts are in the tables, but not, or not to the end, in the parts: parts were lost, and were
    not taken back."""
    leaving = {source.path for source in read_record(run).leaving}
    return sources_in_tables(run, parts.by_path.complete | leaving)


def note_lost(run: Run, parts: Parts) -> None:
    """Record lost sources as still to be counted, before the tables forget them. Locked by the caller."""
    record = read_record(run)
    known = {source.path for source in record.sources}
    lost = [source for source in lost_sources(run, parts) if source.path not in known]
    if lost:
        write_record(run, structs.replace(record, sources=(*record.sources, *lost)))


class Unfinished(msgspec.Struct, frozen=True):
    """A source that is not counted to its end."""

    path: str
    counted: int  # bytes of its content, rows, or documents
    unit: str
    stream: str
    refused: bool
    leaving: bool = False  # it is being taken back

    def __str__(self) -> str:
        if self.leaving:
            return f"{self.path} (only a part of it is taken back)"
        if self.counted:
            return f"{self.path} ({self.counted:,} {self.unit} of it are counted)"
        return f"{self.path} (stopped by an error)" if self.refused else f"{self.path} (none of it is counted)"

    def as_fact(self, *, whole_path: bool) -> LeftOut:
        """For tables; and, without `whole_path`, for the event log, which has no paths."""
        name = self.path if whole_path else PurePath(self.path).name
        return {"source": name, "counted": self.counted, "unit": self.unit}


def unfinished(sources: Iterable[Wanted], parts: Parts) -> Iterator[Unfinished]:
    """The sources, wanted or counted in part, that are not counted to their end; sorted by path."""
    wanted, spans = {source.path: source for source in sources}, parts.by_path
    for path in sorted((wanted.keys() | spans.keys()) - spans.complete):
        mine = spans.get(path, NO_SPANS)
        asked = wanted.get(path)
        kind = mine[0].kind if mine else asked.kind if asked else ""
        unit = {"parquet": "rows", "counts": "rows", "iterator": "documents"}.get(kind, "bytes")
        stream = asked.stream if asked else _stream_of(path, kind)
        counted = mine.total("stop_at") - mine.total("start_at")
        yield Unfinished(path, counted, unit, stream, bool(asked and asked.refused and not mine))


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
        names = [str(source) for source in self.sources[:_NAMED]]
        if len(self.sources) > _NAMED:
            names.append(f"and {len(self.sources) - _NAMED:,} more")
        if self.runs:
            names.append(f"the merge of {', '.join(self.runs)} was not finished")
        return ", ".join(names)

    @property
    def command(self) -> str:
        """Which command ends it, as the beginning of a sentence."""
        quoted_run = typed(self.run)
        if self.runs:
            return f"Finish it with `streambpe merge-counts {quoted_run} {' '.join(map(typed, self.runs))}`"
        leaving = [source for source in self.sources if source.leaving]
        if leaving:
            given = " ".join(f"--take-back {typed(source.path)}" for source in leaving)
            return f"Finish that with `streambpe count {quoted_run} {given}`"
        if self.sources and all(source.refused for source in self.sources):
            return f"Count it with the right options, or leave it out for good with `streambpe count {quoted_run}`"
        if not all(source.stream for source in self.sources):
            return f"Finish the count with `streambpe resume {quoted_run}`"
        if all(source.stream == "iterator" for source in self.sources):
            return "Finish the count by giving the iterator again, with the same call"
        return f"Finish the count by giving the stream again, with the same `streambpe count {quoted_run}` command"

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
    wanted = {source.path: source for source in lost_sources(run, parts)} if run.state.exists() else {}
    wanted |= {source.path: source for source in record.sources}
    leaving = _half_taken_back(record)
    gone = {source.path for source in leaving}
    left = [source for source in unfinished(wanted.values(), parts) if source.path not in gone]
    return Left(run.path, left + leaving, record.runs)


def refuse_half_counted(run: Run, or_else: str = "", *, given: Collection[str] = ()) -> None:
    """An error if a run is not counted to its end; it names the command that ends it. `given`: paths counted now.

    `or_else`: what can be done instead, as the end of a sentence.
    """
    left = left_to_count(run)
    Left(run.path, [source for source in left.sources if source.path not in given], left.runs).refuse(or_else)


def refuse_leaving(run: Run) -> None:
    """An error if a stopped command left sources half taken back: nothing else is counted before that ends."""
    Left(run.path, _half_taken_back(read_record(run))).refuse()


def _half_taken_back(record: Record) -> list[Unfinished]:
    paths = sorted(source.path for source in record.leaving)
    return [Unfinished(path, 0, "", "", refused=False, leaving=True) for path in paths]


class Watch:
    """Keeps the record while a count is going on. Locked by the caller."""

    def __init__(self, run: Run, given: Sequence[Source], resources: ResourceFacts | None) -> None:
        self._run = run
        self._before = read_record(run)
        self._given = {source.path for source in given}
        self._resources = resources

    def begin(self, todo: Sequence[Source]) -> None:
        """Called before the first byte is read: records what is to be counted now, and what was left before."""
        wanted = {source.path: source for source in self._before.sources}
        wanted |= {source.path: Wanted.of(source) for source in todo}
        if todo:
            ordered = tuple(wanted[path] for path in sorted(wanted))
            write_record(self._run, structs.replace(self._before, sources=ordered, resources=self._resources))

    def refuse(self, path: str, parts: Parts, *, for_good: bool) -> None:
        """An error named this source. If nothing of it is counted, mark it; or, `for_good`, forget it if it is new."""
        record = read_record(self._run)
        if path in parts.by_path:
            return
        before = {source.path for source in self._before.sources}
        kept = [
            structs.replace(source, refused=True) if source.path == path else source
            for source in record.sources
            if source.path != path or not for_good or path in before
        ]
        write_record(self._run, structs.replace(record, sources=tuple(kept)))

    def end(self, parts: Parts) -> list[str]:
        """All given sources are counted. Sources left from earlier counts stay recorded, except refused ones that were
        not given again: they are left out, and returned."""
        record = read_record(self._run)
        left = {source.path for source in unfinished(record.sources, parts)}
        gone = [s.path for s in record.sources if s.refused and s.path in left and s.path not in self._given]
        kept = tuple(s for s in record.sources if s.path in left and s.path not in gone)
        write_record(self._run, structs.replace(record, sources=kept))
        return gone
