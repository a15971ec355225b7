"""What is asked of another machine, and the stream that is made of its answers."""

from __future__ import annotations

import contextlib
import glob
import importlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar, cast

import mmh3
import msgspec

from streambpe.errors import SourceChanged, SourceError, SourceUnreachable, UsageError
from streambpe.sources.remote.address import scheme_of
from streambpe.threads import wait

Answer = TypeVar("Answer")
Errors = type[Exception] | tuple[type[Exception], ...]
BUFFER_BYTES = 8 << 20  # asked for at once: an answer takes its time, however small it is
TRIES = 5
WAIT = 0.5  # seconds until an answer that did not come is asked for again; twice as many each time


class Found(msgspec.Struct, frozen=True):
    """A remote file as it was when it was looked at."""

    name: str  # its address
    bytes: int
    stamp: int  # another one if its content is; 0 if the server does not tell


class Place(Protocol):
    """A module that reads a kind of address."""

    def file_at(self, address: str) -> Found | None:
        """The file at an address as it is now; None if there is none, such as at that of a folder."""

    def below(self, folder: str) -> Iterable[Found]:
        """All files in a folder and in its folders; an error if there is no such folder."""

    def open_found(self, found: Found) -> io.RawIOBase:
        """Open a file; an error if it is not what was found."""


def place_of(address: str) -> Place:
    """Who reads addresses of this kind; an error that says how its library is installed."""
    scheme = str(scheme_of(address))
    try:
        return cast(Place, importlib.import_module(f"streambpe.sources.remote.{'hub' if scheme == 'hf' else 'stores'}"))
    except ModuleNotFoundError as why:
        raise UsageError(f"{scheme}:// needs the package {why.name}: pip install 'streambpe[remote]'.") from None


def find(address: str, wanted: Callable[[str], bool]) -> Iterator[Found]:
    """The file at an address, or those below a folder whose names are `wanted`, or those that match a glob."""
    place = place_of(address)
    one = None if address.endswith("/") else place.file_at(address)
    scheme, _, path = address.partition("://")
    if one is not None:
        yield one
    elif not glob.has_magic(path):
        yield from (file for file in place.below(address) if wanted(file.name.rpartition("/")[2]))
    else:
        folder = re.split(r"[*?[]", path)[0].rpartition("/")[0]
        yield from (file for file in place.below(f"{scheme}://{folder}") if in_glob(file.name, address))


def look(address: str) -> Found:
    """One file as it is now."""
    found = place_of(address).file_at(address)
    if found is None:
        raise missing(address)
    return found


def open_remote(address: str, size: int, stamp: int) -> io.BufferedReader:
    """A remote file as a stream that can be read from any place. `size`, `stamp`: as it was found; 0, 0: as it is."""
    place = place_of(address)
    found = Found(address, size, stamp) if size or stamp else look(address)
    return io.BufferedReader(place.open_found(found), BUFFER_BYTES)


class NoAnswer(Exception):
    """What was asked for did not come; the same may come if it is asked for again. Its text ends a sentence."""


def asked_again(address: str, ask: Callable[[], Answer], tries: int = TRIES) -> Answer:
    """What `ask` gives, asked for again some times if it raises NoAnswer."""
    for number in range(tries):
        try:
            return ask()
        except NoAnswer as why:
            if number == tries - 1:
                raise unreachable(address, f"{why}, after {tries} tries") from None
            if wait(WAIT * 2**number):
                raise unreachable(address, f"{why}, and the job was stopped before another try") from None
    raise AssertionError


@contextlib.contextmanager
def explaining(explained: Callable[[str, Exception], Exception], kinds: Errors, address: str) -> Iterator[None]:
    """Errors of a library as ours: its own texts name addresses with all in them, tokens' names and more."""
    try:
        yield
    except kinds as why:
        raise explained(address, why) from None


def unreachable(address: str, why: str) -> SourceUnreachable:
    """An error that another try may not meet."""
    return SourceUnreachable(
        f"{address} cannot be read: {why}. Everything before it is kept; give the same command again to continue."
    )


def missing(address: str) -> SourceError:
    """The error for what does not exist."""
    return SourceError(f"{address} does not exist. None of it was read.")


def changed(address: str) -> SourceChanged:
    """The error for a file that is not the one that was found."""
    return SourceChanged(
        f"{address} changed on its server while it was read. What was counted of it is kept, and will be compared "
        "when you give the same command again."
    )


def stamp_of(mark: str) -> int:
    """A number for what a server gives to tell one content from another; 0 for nothing."""
    return int(mmh3.hash64(mark.encode(), signed=False)[0]) >> 1 or 1 if mark else 0


def in_glob(path: str, pattern: str) -> bool:
    """Whether a path matches a glob: * and ? within a name, ** for any folders; hidden names only if they are named."""
    return _matches(tuple(path.split("/")), tuple(pattern.split("/")))


def _matches(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    if not globs or not names:
        return not globs and not names
    if globs[0] == "**":
        if len(globs) == 1:
            return not any(name.startswith(".") for name in names)
        return _matches(names, globs[1:]) or (not names[0].startswith(".") and _matches(names[1:], globs))
    hidden = names[0].startswith(".") and not globs[0].startswith(".")
    return not hidden and fnmatchcase(names[0], globs[0]) and _matches(names[1:], globs[1:])
