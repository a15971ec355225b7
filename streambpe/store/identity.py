"""What a RUN says of itself, in one file: RUN/run.json, with its number again in the tables and the parts.

    {"format": "streambpe-run", "version": 11, "run": "6f1c...", "facts": {"config": "...", ...},
     "files": {"model.events.jsonl": ["<sha256>"], ...}, "jobs": {...}, "counting": {...}, "sum": "<mmh3>"}

`facts` is what table run said when the run was made, so that a lost state.duckdb is made again with the same options.
`jobs` is what `train` was asked to do (job.py), `counting` what is still to be counted (unfinished.py). `files` has
the sha256 of what each event log may hold ("": it may be absent); for state.duckdb, the name of its last commit. Before
such a file is replaced, the sha256 of its new content is added; once it is replaced, the old one is removed. So a kill
at any moment leaves a known file, while a file of another RUN, or of this RUN at an earlier time, is not known. `sum`
is the checksum of all that stands before it.

Where run.json is lost, nothing that carries the number of a run is believed until `count` makes it again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import structs

from streambpe.errors import ModelError, RunError, typed
from streambpe.files import replace_file
from streambpe.resources import ResourceFacts
from streambpe.store.checksums import with_sum, without_sum

FORMAT_VERSION = 11  # of a whole RUN; no other is read
_LOOKS = 20


class _Version(msgspec.Struct):
    """What is read of run.json before the rest is believed."""

    format: Literal["streambpe-run"]
    version: int = 0


class Wanted(msgspec.Struct, frozen=True):
    """A source that a count was given, and how."""

    path: str
    kind: str
    column: str = "text"
    group: str = ""
    stream: str = ""  # "stdin" or "iterator": only the user can give it again
    refused: bool = False  # an error named it before anything of it was counted
    any_bytes: bool = False  # as in Source


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


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of run.json."""

    format: Literal["streambpe-run"] = "streambpe-run"
    version: int = FORMAT_VERSION
    run: Annotated[str, msgspec.Meta(min_length=1)]  # a number that no other run has
    facts: dict[str, str] = {}
    files: dict[str, list[str]] = {}  # by file name: the sha256 of all it may hold
    jobs: dict[str, Any] = {}
    counting: Record = Record()


def identity_path(folder: Path) -> Path:
    """Where run.json is."""
    return folder / "run.json"


_locked: dict[Path, Identity | None] = {}  # of each folder that this process has locked: run.json, once it is read
_late: set[Path] = set()  # those of them whose file is behind


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Use while the lock of a folder is held: nobody else writes run.json, so it is read once."""
    _locked[folder] = None
    try:
        yield
        _write_late(folder)  # a full disk is told, or the run would stay unfinished without a word
    finally:
        with contextlib.suppress(OSError):  # told already, like the error that this would hide
            _write_late(folder)
        del _locked[folder]
        _late.discard(folder)


def _write_late(folder: Path) -> None:
    identity = _locked[folder]
    if identity is not None and folder in _late:
        write_identity(folder, identity)


def read_identity(folder: Path) -> Identity | None:
    """The content of run.json, or None if there is no such file."""
    identity = _locked.get(folder) or _read(identity_path(folder))
    if folder in _locked:
        _locked[folder] = identity
    return identity


def _read(path: Path) -> Identity | None:
    try:
        content = path.read_bytes()
        version = msgspec.json.decode(content, type=_Version).version
        if version != FORMAT_VERSION:
            raise RunError(
                f"{path.parent} has format {version}, but this streambpe only reads format {FORMAT_VERSION}. Nothing "
                "was changed. Use the version that wrote it, or count the sources into another RUN."
            )
        return msgspec.json.decode(without_sum(content), type=Identity)
    except FileNotFoundError:
        return None
    except ValueError as why:
        raise RunError(
            f"{path} is damaged ({why}). Nothing was changed. Remove it; `streambpe count {typed(path.parent)}` makes "
            f"it again."
        ) from None


def write_identity(folder: Path, identity: Identity, *, late: bool = False) -> None:
    """Replace run.json; `late`: with the next change or when the lock is given back, since a kill before that does no
    harm. Locked by the caller."""
    if late and folder in _locked:
        _late.add(folder)
    else:
        replace_file(identity_path(folder), with_sum(msgspec.json.encode(identity) + b"\n"))
        _late.discard(folder)
    if folder in _locked:
        _locked[folder] = identity


def refuse_other_run(folder: Path, number: str, what: Path, then: str) -> None:
    """An error if a file's number is not the run's. `then`: what the user can do, as sentences."""
    identity = read_identity(folder)
    mine = identity.run if identity else ""
    if number == mine:
        return
    if not mine:
        raise RunError(
            f"{identity_path(folder)} is lost, but {what} belongs to a RUN that had one. Nothing was changed. Put it "
            f"back, or `streambpe count {typed(folder)}` makes it again from state.duckdb."
        )
    raise RunError(
        f"{what} and {identity_path(folder)} belong to different RUNs: one of them was copied there. Nothing was "
        f"changed. Put the right one back, or: {then}"
    )


def digest_of(path: Path) -> str:
    """The sha256 of a whole file; "" if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def replacing(path: Path, mark: str) -> Iterator[None]:
    """Use around replacing a file of a run: inside, it may be what it was or what `mark` says, afterwards only that.

    `mark`: the sha256 of the new content; of the tables, which are too large for that, what table run then says as
    `written`. Nothing is noted in a run without run.json. Locked by the caller.
    """
    identity = read_identity(path.parent)
    before = identity.files.get(path.name, [""]) if identity else []
    _expect(path, [*(one for one in before if one != mark), mark])
    yield
    _expect(path, [mark], late=True)


def _expect(path: Path, marks: Sequence[str], *, late: bool = False) -> None:
    identity = read_identity(path.parent)
    if identity is not None and identity.files.get(path.name) != marks:
        files = {**identity.files, path.name: list(marks)}
        write_identity(path.parent, structs.replace(identity, files=files), late=late)


def refuse_earlier_tables(state: Path, written: str) -> None:
    """An error if the tables that are open are not those that were committed last. `written`: see `replacing`."""
    identity = read_identity(state.parent)
    known = identity.files.get(state.name) if identity else None
    if known is not None and written not in known:
        raise RunError(
            f"{state} is an older one. Nothing was changed. Put the right one back, or fill it again: `streambpe "
            f"count {typed(state.parent)}` adds the counts, and the `train` command of each training the rest."
        )


def refuse_other_log(log: Path) -> None:
    """An error if an event log that lies in a RUN is not the one that its training wrote there."""
    identity = None
    for _ in range(_LOOKS):
        before, identity = identity, read_identity(log.parent)
        known = identity.files.get(log.name) if identity else None
        if known is None or digest_of(log) in known:
            return
        if identity == before:  # else another process was replacing the file meanwhile: look again
            break
    name = log.name.removesuffix(".events.jsonl")
    name, option = ("main", "") if name == "model" else (name, f" --name {name}")
    raise ModelError(
        f"{log} is not what training {name} of {log.parent} wrote: it was changed or copied there. Nothing was "
        "changed. Put the right one back, or remove it and train again (`streambpe train "
        f"{typed(log.parent)}{option}` with its options): the counts are kept."
    )
