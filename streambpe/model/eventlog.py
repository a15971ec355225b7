"""The event log: one portable file that says everything a model is.

The first line is the header, every further line one event in the order it was learned:

    {"format":"streambpe-events","version":1,"config":{...},...,"events":{"count":3,"sha256":"..."}}
    {"op":"merge","left":97,"right":98,"id":256,"n":12}
    {"op":"merge","left":256,"right":99,"id":257,"n":11}
    {"op":"delete","id":256,"into":[97,98],"n":1}

docs/event-log.md is the full description. Equal models give equal bytes: keys are written in
the fixed order of that document (inside `config` and `corpus` sorted by name), without
spaces, and everything outside ASCII is written as a \\u escape, so that no editor, locale or
Unicode normalisation can change the file unnoticed.

    sha256 = write_event_log(path, EventLog(header, events))
    log = read_event_log(path)         # refuses a damaged file, naming file and line
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.errors import EventLogError, quoted, shortened
from streambpe.files import whole_file
from streambpe.model.alphabet import Alphabet
from streambpe.model.events import DELETE, Events, read_event
from streambpe.model.events import Event as Event
from streambpe.model.events import Op as Op
from streambpe.model.events import delete_event as delete_event
from streambpe.model.events import event_line as event_line
from streambpe.model.events import merge_event as merge_event
from streambpe.model.events import supermerge_event as supermerge_event
from streambpe.model.line_shapes import (
    FORMAT,
    VERSIONS,
    ConfigShape,
    CorpusShape,
    EmptyIds,
    EventsShape,
    ListedAlphabet,
    NumberedAlphabet,
    StopWordShape,
)
from streambpe.model.line_shapes import Special as Special
from streambpe.options import MOST_EMPTY_IDS, Count
from streambpe.resources import uncollected

# Base symbols in all tokens together: a token takes part in the next, so sixty lines could name one of 2^60 bytes.
MOST_SYMBOLS = 1 << 24
MOST_SYMBOLS_A_LINE = 64  # ... and so many more for each line: beyond the average of any vocabulary

Given = TypeVar("Given")
Shape = TypeVar("Shape")


class StopWord(msgspec.Struct, frozen=True):
    """A chunk that is one id and never takes part in a merge."""

    id: int
    content: bytes


class FixedIds(msgspec.Struct, frozen=True):
    """Ids that stay where they are however many tokens there are: the header has these facts in version 2.

    Special tokens have the ids that the header says; tokens take, in their order, the ids that are neither those nor
    free. So the ids of a model that was extended are those it had before.
    """

    inherited: Count  # the first events, whose counts are not of this corpus; no cut goes below them
    # (first, how many) ids of no token, as many as are reserved
    free: tuple[tuple[Count, Annotated[int, msgspec.Meta(ge=1, le=MOST_EMPTY_IDS)]], ...] = ()

    @classmethod
    def of(cls, inherited: int, free: Iterable[int]) -> FixedIds:
        """With these ids of no token."""
        stretches = itertools.groupby(enumerate(sorted(free)), lambda place: place[1] - place[0])
        numbers = ([number for _, number in stretch] for _, stretch in stretches)
        return cls(inherited, tuple((listed[0], len(listed)) for listed in numbers))


@dataclass(frozen=True)
class Header:
    """Everything about a model except its events; see docs/event-log.md for each field."""

    # JSON of the outside: an import writes what it found, and another version's log may say more than this one knows.
    alphabet: dict[str, Any]  # ListedAlphabet or NumberedAlphabet
    config: dict[str, Any] = field(default_factory=dict)  # ConfigShape
    unicode: str | None = None
    corpus: dict[str, Any] = field(default_factory=dict)  # CorpusShape
    unk: str | None = None
    stop_words: tuple[StopWord, ...] = ()
    specials: tuple[Special, ...] = ()
    reserved: EmptyIds = 0
    fixed: FixedIds | None = None  # of version 2

    @property
    def inherited(self) -> int:
        """How many of the first events another model brought."""
        return 0 if self.fixed is None else self.fixed.inherited

    @property
    def symbols(self) -> range:
        """The ids of the base symbols; behind them come those of stop words."""
        alphabet = self.alphabet
        size = alphabet["size"] if alphabet["kind"] == "script" else len(alphabet["symbols"])
        return range(alphabet["first_id"], alphabet["first_id"] + size)

    @property
    def first_learned(self) -> int:
        """The first id of a learned token."""
        return self.symbols.stop + len(self.stop_words)


@dataclass(frozen=True)
class EventLog:
    """A header and its events."""

    header: Header
    events: Sequence[Event]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def events_digest(events: Iterable[Event]) -> str:
    """sha256 over the event lines: equal exactly when two trainings learned the same."""
    digest = hashlib.sha256()
    for lines in Events.of(events).lines():
        digest.update(lines)
    return digest.hexdigest()


def _by_name(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same with all fields sorted by name."""
    ordered: dict[str, Any] = json.loads(json.dumps(value, sort_keys=True))
    return ordered


def header_line(header: Header, count: int, sha256: str) -> bytes:
    """The header as its line, line feed included."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": 1 if header.fixed is None else 2,
        "config": _by_name(header.config),
        "unicode": header.unicode,
        "corpus": _by_name(header.corpus),
        "alphabet": header.alphabet,
        "unk": header.unk,
        "stop_words": [{"id": word.id, "bytes": word.content.hex()} for word in header.stop_words],
        "specials": [{"text": special.text, "id": special.id} for special in header.specials],
        "reserved": header.reserved,
    }
    if header.fixed is not None:
        record |= {"inherited": header.fixed.inherited, "free": header.fixed.free}
    record["events"] = {"count": count, "sha256": sha256}
    return _compact(record).encode() + b"\n"


def log_lines(log: EventLog) -> tuple[list[bytes], str]:
    """(the file in pieces, first the header line, then one or many event lines each; sha256 of the event lines)."""
    lines = list(Events.of(log.events).lines())
    sha256 = hashlib.sha256(b"".join(lines)).hexdigest()
    return [header_line(log.header, len(log.events), sha256), *lines], sha256


def write_event_log(path: str | os.PathLike[str], log: EventLog) -> str:
    """Write the log and return the sha256 of its event lines."""
    lines, sha256 = log_lines(log)
    write_log_lines(path, lines)
    return sha256


def write_log_lines(path: str | os.PathLike[str], lines: Iterable[bytes]) -> None:
    """Write what `log_lines` gave. The file appears under its name only when it is complete and on disk."""
    with whole_file(Path(path)) as temporary, temporary.open("wb") as file:
        file.writelines(lines)


# Reading. Every check names the file and the line, because a log may have been edited by hand.


def _shaped(read: Callable[[Given], Shape], given: Given, where: str) -> Shape:
    """What msgspec reads; its complaint is raised as an error about the file."""
    try:
        return read(given)
    except ValueError as why:
        raise _damaged(where, why) from None


def _damaged(where: str, why: ValueError) -> EventLogError:
    return EventLogError(f"{where}: the file is damaged, or was changed by hand ({shortened(str(why), 300)})")


def _stop_word(word: StopWordShape) -> StopWord:
    content = bytes.fromhex(word.bytes)
    content.decode()  # it is a chunk of text
    return StopWord(word.id, content)


_read_record = msgspec.json.Decoder(dict[str, Any]).decode


def _parse_header(line: bytes, where: str) -> tuple[Header, int, str]:
    found = _shaped(_read_record, line, where)
    form, version = found.get("format"), found.get("version")
    if form != FORMAT:
        raise EventLogError(f"{where}: not a streambpe event log (format is {quoted(form)})")
    if version not in VERSIONS or isinstance(version, bool):
        raise EventLogError(
            f"{where}: version {quoted(version)} of the format; this streambpe reads versions "
            f"{' and '.join(map(str, VERSIONS))} only. Use the streambpe that wrote it, or a newer one."
        )
    fixed = FixedIds.__struct_fields__ if version == 2 else ()
    wanted = {"format", "version", "events", *Header.__dataclass_fields__, *fixed} - {"fixed"}
    if wrong := sorted(found.keys() ^ wanted):
        needs = "needs" if wrong[0] in wanted else "has no"
        raise _damaged(where, ValueError(f"version {version} {needs} field `{wrong[0]}`"))
    counted = _shaped(partial(msgspec.convert, type=EventsShape), found["events"], f"{where}: events")
    words = _shaped(partial(msgspec.convert, type=list[StopWordShape]), found.pop("stop_words"), f"{where}: stop words")
    if fixed:
        found["fixed"] = {name: found[name] for name in fixed}
    header = _shaped(partial(msgspec.convert, type=Header), found, where)
    alphabet = NumberedAlphabet if header.alphabet.get("kind") == "script" else ListedAlphabet
    _shaped(partial(msgspec.convert, type=alphabet), header.alphabet, f"{where}: alphabet")
    _shaped(Alphabet.from_header, header.alphabet, f"{where}: alphabet")
    _shaped(partial(msgspec.convert, type=CorpusShape), header.corpus, f"{where}: corpus")
    config = _shaped(partial(msgspec.convert, type=ConfigShape), header.config, f"{where}: config")
    if unknown := sorted(header.config.keys() - {*ConfigShape.__struct_fields__, *config.optional}):
        raise EventLogError(
            f"{where}: this streambpe does not know what {quoted(unknown[0])} in config means. Use the streambpe that "
            "wrote it, or a newer one."
        )
    stop_words = tuple(_shaped(_stop_word, word, f"{where}: stop word {word.id}") for word in words)
    header = replace(header, stop_words=stop_words)
    base = header.symbols.stop
    if [word.id for word in header.stop_words] != list(range(base, base + len(header.stop_words))):
        raise EventLogError(f"{where}: stop words must be numbered from {base}, right after the alphabet")
    for name, texts in (
        ("stop word", [word.content for word in header.stop_words]),
        ("special token", [special.text for special in header.specials]),
    ):
        if len(set(texts)) != len(texts):
            raise EventLogError(f"{where}: two entries are the same {name}")
    if header.unk is not None and header.unk not in {special.text for special in header.specials}:
        raise EventLogError(f"{where}: unk is {quoted(header.unk)}, which is not one of the special tokens")
    return header, counted.count, counted.sha256


def _check_fixed(where: str, header: Header, events: Sequence[Event]) -> None:
    """The fixed ids of version 2 lie among those of the inherited tokens, so that no id is left out."""
    fixed, first = header.fixed, header.symbols.start
    if fixed is None:
        return
    if sum(many for _, many in fixed.free) != header.reserved:
        raise EventLogError(f"{where}: {header.reserved} ids are reserved, but another number of ids is free")
    taken = [special.id for special in header.specials]
    taken += [number for low, many in fixed.free for number in range(low, low + many)]
    if len(set(taken)) != len(taken):
        raise EventLogError(f"{where}: two special tokens or free ids have the same id")
    if fixed.inherited > len(events):
        raise EventLogError(f"{where}: {fixed.inherited} events are inherited, but the file has {len(events)}")
    if any(event.op is Op.DELETE for event in events):
        raise EventLogError(f"{where}: version 2 has fixed ids and cannot have deletions, but the file has some")
    tokens = max((event.id + 1 for event in events[: fixed.inherited]), default=header.first_learned) - first
    end = first + tokens + len(header.specials) + header.reserved
    for number in sorted(taken):
        if not first <= number < end:
            raise EventLogError(f"{where}: id {number} is fixed, but the inherited ids are {first} to {end - 1}")


def _check_ids(name: str, events: Events, learnable: range, first_learned: int) -> None:
    """Ids may only name what exists there, and a new one is the next number; `name` and the line begin the message.

    With symbols 0 to 9:  1 2 -> 10, 10 3 -> 11   before: 10, 11: neither uses nor makes more than there is
                          1 2 -> 10, 11 3 -> 11   before: 10, 11: the second uses 11, which is yet to come
    """
    made = np.where(events.column("op") == DELETE, first_learned - 1, events.column("id"))
    before = np.maximum.accumulate(np.concatenate([[first_learned], made + 1]))[:-1]

    def exist(parts: Int64, before: Int64 | int) -> Bool:
        learned = (parts >= first_learned) & (parts < before)
        return learned | ((parts >= learnable.start) & (parts < learnable.stop))

    good = exist(events.column("left"), before) & exist(events.column("right"), before)
    good |= events.column("op") == DELETE
    good &= (events.column("id") >= first_learned) & (events.column("id") <= before)
    for at, into in events.into.items():
        good[at] = first_learned <= events.column("id")[at] < before[at] and exist(np.array(into), before[at]).all()
    if good.all():
        return
    at = int(np.argmin(good))
    where, event, next_id = f"{name}: line {at + 2}", events[at], int(before[at])
    if event.op is Op.DELETE and not first_learned <= event.id < next_id:
        raise EventLogError(f"{where}: deletes id {event.id}, which no merge before it made")
    for part in event.into if event.op is Op.DELETE else event.pair:
        if not (first_learned <= part < next_id or part in learnable):
            raise EventLogError(f"{where}: uses id {part}, which does not exist there")
    raise EventLogError(f"{where}: makes id {event.id}; the next new id is {next_id}")


def check_sizes(name: str, header: Header, events: Events) -> None:
    """All tokens together may have so many base symbols: their sum is what a reader has to hold."""
    first_learned = header.first_learned
    left = most = MOST_SYMBOLS + MOST_SYMBOLS_A_LINE * (len(events) + 1)
    sizes: list[int] = []  # of the learned tokens
    columns = (events.column(column).tolist() for column in ("left", "right", "id"))
    for at, (a, b, made) in enumerate(zip(*columns, strict=True)):
        if made - first_learned != len(sizes):
            continue  # it is known already, or taken away
        size = 1 if a < first_learned else sizes[a - first_learned]
        size += 1 if b < first_learned else sizes[b - first_learned]
        sizes.append(size)
        left -= size
        if left < 0:
            raise EventLogError(
                f"{name}: line {at + 2}: the tokens up to here have more than {most:,} base symbols together, more "
                "than any real vocabulary. The file was made to fill the memory, or was learned from text that "
                "repeats itself for megabytes. Learn it again with --max-token-length."
            )


def read_event_log(path: str | os.PathLike[str]) -> EventLog:
    """Read and check a whole log; EventLogError names file and line of the first thing wrong.

    Cost: about 2 us per line; memory: the file and its lines as objects meanwhile, then 40 bytes for each event.
    """
    with Path(path).open("rb") as file:
        lines = file.read().split(b"\n")
    if lines == [b""]:
        raise EventLogError(f"{path}: line 1: the file is empty")
    cut_off = lines.pop() != b""
    last = len(lines) + cut_off
    if cut_off:
        raise EventLogError(
            f"{path}: line {last}: the file ends inside this line; it was cut off while written or copied. Copy it "
            "again, or write it again from its RUN with `streambpe export`."
        )
    return read_event_lines(lines, str(path))


def read_event_lines(lines: Sequence[bytes], name: str) -> EventLog:
    """The log made of these lines, without their line feeds; `name` begins the message if one is damaged."""
    last = len(lines)
    header, count, sha256 = _parse_header(lines[0], f"{name}: line 1")
    with uncollected():
        read, damaged = _read_lines(lines, name)
        events = Events.of(read)
    _check_ids(name, events, header.symbols, header.first_learned)
    check_sizes(name, header, events)
    if damaged is not None:
        raise damaged
    if len(events) != count:
        raise EventLogError(
            f"{name}: line {last}: the header promises {count} events, the file holds {len(events)}; it was cut off "
            "or extended"
        )
    if hashlib.sha256(b"\n".join([*lines[1:], b""])).hexdigest() != sha256:
        raise EventLogError(
            f"{name}: lines 2 to {last}: the events do not match the header's sha256 {sha256[:12]}...; "
            f"a line was changed after the log was written"
        )
    _check_fixed(f"{name}: line 1", header, events)
    return EventLog(header, events)


def _read_lines(lines: Sequence[bytes], name: str) -> tuple[list[Event], EventLogError | None]:
    """The event lines up to the first that is none, and what is wrong with that one."""
    read: list[Event] = []
    try:
        for line in itertools.islice(lines, 1, None):
            read.append(read_event.decode(line))
    except ValueError as why:
        return read, _damaged(f"{name}: line {len(read) + 2}", why)
    return read, None
