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
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from streambpe.errors import EventLogError
from streambpe.files import whole_file
from streambpe.model.events import Event, Op, delete_event, event_line, lines_of, merge_event, supermerge_event
from streambpe.model.line_shapes import (
    FORMAT,
    VERSION,
    DeleteLine,
    SupermergeLine,
    check_alphabet,
    read_event,
    read_format,
    read_header,
)

Given = TypeVar("Given")
Shape = TypeVar("Shape")


@dataclass(frozen=True, slots=True)
class StopWord:
    """A chunk that is one id and never takes part in a merge."""

    id: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Special:
    """A special token; id is its model id at the model's full size."""

    text: str
    id: int


@dataclass(frozen=True)
class Header:
    """Everything about a model except its events; see docs/event-log.md for each field."""

    # JSON of the outside: an import writes what it found, and another version's log may say more than this one knows.
    alphabet: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    unicode: str | None = None
    corpus: dict[str, Any] = field(default_factory=dict)
    unk: str | None = None
    stop_words: tuple[StopWord, ...] = ()
    specials: tuple[Special, ...] = ()
    reserved: int = 0


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
    for lines in lines_of(events):
        digest.update(lines)
    return digest.hexdigest()


def _sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted_deep(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted_deep(item) for item in value]
    return value


def header_line(header: Header, count: int, sha256: str) -> bytes:
    """The header as its line, line feed included."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "config": _sorted_deep(header.config),
        "unicode": header.unicode,
        "corpus": _sorted_deep(header.corpus),
        "alphabet": header.alphabet,
        "unk": header.unk,
        "stop_words": [{"id": word.id, "bytes": word.content.hex()} for word in header.stop_words],
        "specials": [{"text": special.text, "id": special.id} for special in header.specials],
        "reserved": header.reserved,
        "events": {"count": count, "sha256": sha256},
    }
    return _compact(record).encode() + b"\n"


def log_lines(log: EventLog) -> tuple[list[bytes], str]:
    """(the file in pieces, first the header line, then one or many event lines each; sha256 of the event lines)."""
    lines = list(lines_of(log.events))
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


def parse_event(line: bytes, where: str = "event") -> Event:
    """One event line -> Event; `where` begins the message if the line is damaged."""
    read = _shaped(read_event.decode, line, where)
    if isinstance(read, DeleteLine):
        return Event(Op.DELETE, read.id, read.n, into=read.into)
    op = Op.SUPERMERGE if isinstance(read, SupermergeLine) else Op.MERGE
    return Event(op, read.id, read.n, read.left, read.right)


def _shaped(read: Callable[[Given], Shape], given: Given, where: str) -> Shape:
    """What msgspec reads; its complaint is raised as an error about the file."""
    try:
        return read(given)
    except ValueError as why:
        raise EventLogError(f"{where}: the file is damaged, or was changed by hand ({why})") from None


def _hex(where: str, name: str, value: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise EventLogError(f"{where}: {name} is {value!r}, not bytes in hex") from None


def _parse_header(line: bytes, where: str) -> tuple[Header, int, str]:
    found = _shaped(read_format.decode, line, where)
    if found.format != FORMAT:
        raise EventLogError(f"{where}: not a streambpe event log (format is {found.format!r})")
    if found.version != VERSION:
        raise EventLogError(
            f"{where}: version {found.version!r} of the format; this program reads version {VERSION} "
            f"and would misread another. Use the streambpe that wrote it, or a newer one."
        )
    read = _shaped(read_header.decode, line, where)
    _shaped(check_alphabet, read.alphabet, where)
    header = Header(
        alphabet=_check_symbols(where, read.alphabet),
        config=read.config,
        unicode=read.unicode,
        corpus=read.corpus,
        unk=read.unk,
        stop_words=tuple(StopWord(word.id, _hex(where, "stop word", word.bytes)) for word in read.stop_words),
        specials=tuple(Special(special.text, special.id) for special in read.specials),
        reserved=read.reserved,
    )
    base = header.alphabet["first_id"] + alphabet_size(header.alphabet)
    if [word.id for word in header.stop_words] != list(range(base, base + len(header.stop_words))):
        raise EventLogError(f"{where}: stop words must be numbered from {base}, right after the alphabet")
    return header, read.events.count, read.events.sha256


def alphabet_size(alphabet: dict[str, Any]) -> int:
    """How many symbols the alphabet of a header has."""
    return alphabet["size"] if alphabet["kind"] == "script" else len(alphabet["symbols"])


def _check_symbols(where: str, alphabet: dict[str, Any]) -> dict[str, Any]:
    symbols = alphabet.get("symbols", [])
    for symbol in symbols:
        _hex(where, "alphabet symbol", symbol)
    if len(set(symbols)) != len(symbols):
        raise EventLogError(f"{where}: the alphabet lists a symbol twice")
    return alphabet


def _check_ids(where: str, event: Event, next_id: int, learnable: range, first_learned: int) -> int:
    """Ids may only name what exists; a new one is the next number. Returns the next free id."""
    if event.op is Op.DELETE:
        if not first_learned <= event.id < next_id:
            raise EventLogError(f"{where}: deletes id {event.id}, which no merge before it made")
        parts: tuple[int, ...] = event.into
        made = next_id - 1
    else:
        parts, made = event.pair, event.id
    for part in parts:
        if not (first_learned <= part < next_id or part in learnable):
            raise EventLogError(f"{where}: uses id {part}, which does not exist there")
    if not first_learned <= made <= next_id:
        raise EventLogError(f"{where}: makes id {made}; the next new id is {next_id}")
    return max(next_id, made + 1)


def read_event_log(path: str | os.PathLike[str]) -> EventLog:
    """Read and check a whole log; EventLogError names file and line of the first thing wrong.

    Cost: about 3 us per line; memory: the file and its events.
    """
    with Path(path).open("rb") as file:
        lines = file.read().split(b"\n")
    if lines == [b""]:
        raise EventLogError(f"{path}: line 1: the file is empty")
    cut_off = lines.pop() != b""
    last = len(lines) + cut_off
    if cut_off:
        raise EventLogError(
            f"{path}: line {last}: the file ends inside this line; it was cut off while written or copied. "
            f"Copy it again, or write it anew from its RUN with `streambpe export`."
        )
    return read_event_lines(lines, str(path))


def read_event_lines(lines: Sequence[bytes], name: str) -> EventLog:
    """The log made of these lines, without their line feeds; `name` begins the message if one is damaged."""
    last = len(lines)
    header, count, sha256 = _parse_header(lines[0], f"{name}: line 1")
    first_learned = header.alphabet["first_id"] + alphabet_size(header.alphabet) + len(header.stop_words)
    learnable = range(header.alphabet["first_id"], first_learned - len(header.stop_words))
    next_id = first_learned
    events = []
    digest = hashlib.sha256()
    for number, line in enumerate(lines[1:], 2):
        where = f"{name}: line {number}"
        event = parse_event(line, where)
        next_id = _check_ids(where, event, next_id, learnable, first_learned)
        events.append(event)
        digest.update(line + b"\n")
    if len(events) != count:
        raise EventLogError(
            f"{name}: line {last}: the header promises {count} events, the file holds {len(events)}; "
            f"it was cut off or added to"
        )
    if digest.hexdigest() != sha256:
        raise EventLogError(
            f"{name}: lines 2 to {last}: the events do not match the header's sha256 {sha256[:12]}...; "
            f"a line was changed after the log was written"
        )
    return EventLog(header, tuple(events))


__all__ = [
    "Event",
    "EventLog",
    "Header",
    "Op",
    "Special",
    "StopWord",
    "alphabet_size",
    "delete_event",
    "event_line",
    "events_digest",
    "header_line",
    "log_lines",
    "merge_event",
    "parse_event",
    "read_event_lines",
    "read_event_log",
    "supermerge_event",
    "write_event_log",
    "write_log_lines",
]
