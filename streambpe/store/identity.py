"""What a RUN says of itself, in one file: RUN/run.json, with its number again in the tables and the parts.

    {"format": "streambpe-run", "version": 1, "run": "6f1c...", "facts": {"config": "...", ...},
     "files": {"model.events.jsonl": ["<sha256>"], ...}, "jobs": {...}, "counting": {...}, "sum": "<sha256>"}

`facts` is what table run said when the run was made, so that a lost state.duckdb is made again with the same options.
`jobs` is what `train` was asked to do (job.py), `counting` what is still to be counted (unfinished.py). `files` has
the sha256 of what each event log may hold ("": it may be absent); for state.duckdb, the name of its last commit. Before
such a file is replaced, the sha256 of its new content is added; once it is replaced, the old one is removed. So a kill
at any moment leaves a known file, while a file of another RUN, or of this RUN at an earlier time, is not known. `sum`
is the sha256 of all that stands before it.

Where run.json is lost, nothing that carries the number of a run is believed until `count` makes it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from streambpe.errors import ModelError, RunError, typed
from streambpe.files import replace_file

_LOOKS = 20
_FORMAT = {"format": "streambpe-run", "version": 1}


@dataclass(frozen=True)
class Identity:
    """The content of run.json."""

    run: str  # a number that no other run has
    facts: dict[str, str] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)  # by file name: the sha256 of all it may hold
    jobs: dict[str, Any] = field(default_factory=dict)
    counting: dict[str, Any] = field(default_factory=dict)


def identity_path(folder: Path) -> Path:
    """Where run.json is."""
    return folder / "run.json"


class _Locked(msgspec.Struct):
    """run.json of a folder that this process has locked."""

    identity: Identity | None = None  # its content, once it is read
    late: bool = False  # the file is behind


_locked: dict[Path, _Locked] = {}


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Use while the lock of a folder is held: nobody else writes run.json, so it is read once."""
    _locked[folder] = _Locked()
    try:
        yield
    finally:
        held = _locked[folder]
        if held.identity is not None and held.late:
            with contextlib.suppress(OSError):
                write_identity(folder, held.identity)
        del _locked[folder]


def read_identity(folder: Path) -> Identity | None:
    """The content of run.json, or None if there is no such file."""
    held = _locked.get(folder, _Locked())
    held.identity = held.identity or _read(identity_path(folder))
    return held.identity


def _read(path: Path) -> Identity | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held.pop("sum") != _sum(held):
            raise ValueError("its checksum is not that of its content")
        if {key: held.pop(key) for key in _FORMAT} != _FORMAT:
            raise ValueError("it has another format or version")
        found = msgspec.convert(vars(Identity(**held)), Identity)
        if not found.run:
            raise ValueError("it names no RUN")
        return found
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise RunError(
            f"{path} is damaged ({why}). Nothing was changed. Remove it; `streambpe count {typed(path.parent)}` makes "
            f"it again."
        ) from None


def write_identity(folder: Path, identity: Identity, *, late: bool = False) -> None:
    """Replace run.json; `late`: with the next change or when the lock is given back, since a kill before that does no
    harm. Locked by the caller."""
    if late and folder in _locked:
        _locked[folder] = _Locked(identity, late=True)
        return
    content = {**_FORMAT, **asdict(identity)}
    replace_file(identity_path(folder), json.dumps({**content, "sum": _sum(content)}).encode())
    if folder in _locked:
        _locked[folder] = _Locked(identity)


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def refuse_other_run(folder: Path, number: str, what: Path, then: str = "") -> None:
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
        f"changed. Put the right one back{'.' if not then else f', or: {then}'}"
    )


def digest_of(path: Path) -> str:
    """The sha256 of a whole file; "" if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def is_known(path: Path) -> bool:
    """Whether a file of a RUN, or its absence, is as run.json says. In a run without run.json everything is known."""
    identity = None
    for _ in range(_LOOKS):
        before, identity = identity, read_identity(path.parent)
        known = identity.files.get(path.name) if identity else None
        if known is None or digest_of(path) in known:
            return True
        if identity == before:  # else another process was replacing the file meanwhile: look again
            break
    return False


def accept(path: Path, digest: str | None = None, *, also: bool = False) -> None:
    """From now on a file may hold only the content with this digest (None: what it holds now); `also`: besides what it
    may hold already. Locked by the caller."""
    identity = read_identity(path.parent)
    if identity is None:
        return
    digest = digest_of(path) if digest is None else digest
    before = identity.files.get(path.name, [digest_of(path)]) if also else []
    now = [*(one for one in before if one != digest), digest]
    if now != identity.files.get(path.name):
        write_identity(path.parent, replace(identity, files={**identity.files, path.name: now}), late=not also)


@contextlib.contextmanager
def tables_written(state: Path) -> Iterator[str]:
    """Use around a commit to the tables; gives what to put into table run as `written` ("" in a run without run.json).

    It is a name for this commit, not a digest, since for that a large file would have to be read. Locked by the caller.
    """
    identity = read_identity(state.parent)
    if identity is None:
        yield ""
        return
    token = uuid.uuid4().hex
    before = identity.files.get(state.name, [""])
    write_identity(state.parent, replace(identity, files={**identity.files, state.name: [*before, token]}))
    yield token
    accept(state, token)


def refuse_earlier_tables(state: Path, written: str) -> None:
    """An error if the tables that are open are not those that were committed last. `written`: see tables_written."""
    identity = read_identity(state.parent)
    known = identity.files.get(state.name) if identity else None
    if known is not None and written not in known:
        raise RunError(
            f"{state} is an older one. Nothing was changed. Put the right one back, or fill it again: `streambpe "
            f"count {typed(state.parent)}` adds the counts, and the `train` command of each training the rest."
        )


def refuse_other_log(log: Path) -> None:
    """An error if an event log that lies in a RUN is not the one that its training wrote there."""
    if not is_known(log):
        name = log.name.removesuffix(".events.jsonl")
        name, option = ("main", "") if name == "model" else (name, f" --name {name}")
        raise ModelError(
            f"{log} is not what training {name} of {log.parent} wrote: it was changed or copied there. Nothing was "
            "changed. Put the right one back, or remove it and train again (`streambpe train "
            f"{typed(log.parent)}{option}` with its options): the counts are kept."
        )
