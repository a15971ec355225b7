"""Inputs: finding them, reading them in blocks, and turning a block into a counting buffer.

One reader goes through a source in order and hands out `Block`s of raw bytes; where a block ends is
chosen so that it can be counted on its own (a line end, or a place where the pattern has a chunk
border whatever stands around). `block_text` then makes the counting buffer: UTF-8 with a mark
behind every document (text/marks.py). Positions are decompressed bytes (rows, for Parquet), so a
source that was counted in part goes on from where it stopped.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from streambpe.count_config import SourceOptions
from streambpe.errors import SourceError, UsageError
from streambpe.sources.source import Kind, Source
from streambpe.sources.streams import strip_compression
from streambpe.system import NamesOnDisk, name_order

_KIND_OF_SUFFIX: dict[str, Kind] = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_COUNT_SUFFIXES = (".csv", ".tsv", ".txt", ".vocab", ".dict", ".parquet")


def find_sources(arguments: Sequence[str], how: SourceOptions = SourceOptions()) -> tuple[list[Source], list[str]]:
    """The inputs behind the SOURCE arguments, sorted by path, each once; and warnings for the user."""
    if how.counts and (how.lines or how.text_column or how.kind != "auto"):
        raise UsageError("--counts: a table of counts has no lines, field or format to choose. Leave that option out.")
    if how.lines and how.kind in ("jsonl", "csv", "parquet"):
        raise UsageError(f"--lines with --format {how.kind}: lines are documents in text files only. Leave one out.")
    found: dict[str, Source] = {}
    warnings: list[str] = []
    name_on_disk = NamesOnDisk()
    for argument in arguments:
        for source in _expand(argument, how, name_on_disk, warnings):
            if source.path in found:
                if source.kind in ("jsonl", "csv", "parquet") and source.column != found[source.path].column:
                    raise UsageError(
                        f"{source.path} is named with two fields, {found[source.path].column!r} and "
                        f"{source.column!r}; a run counts one of a file. Count the other into another RUN, and "
                        f"add it with merge-counts."
                    )
                warnings.append(f"{source.path} is named more than once; it is counted once.")
            found[source.path] = source
    return [found[path] for path in sorted(found, key=name_order)], warnings


def _expand(argument: str, how: SourceOptions, name_on_disk: NamesOnDisk, warnings: list[str]) -> Iterator[Source]:
    column = how.text_column or "text"
    if argument == "-":
        yield Source(how.stdin_name, _kind_of("-", how), column, is_stdin=True)
        return
    path = Path(argument)
    match = re.fullmatch(r"(.+\.(?:jsonl|ndjson|csv|parquet)(?:\.gz|\.zst)?):(.+)", argument)
    if not _exists(path) and match:
        path, column = Path(match.group(1)), match.group(2)
    if _exists(path) and path.is_dir():
        if (path / "state.duckdb").is_file():
            raise SourceError(
                f"{argument} is a RUN, not a folder of sources. Nothing was changed. RUN comes first; the counts of "
                f"another one are added by `streambpe merge-counts RUN {argument}`."
            )
        names = sorted(_sources_in(path, how.counts, warnings))
        if not names:
            wanted = " ".join(_COUNT_SUFFIXES if how.counts else _KIND_OF_SUFFIX)
            raise SourceError(f"{argument} is a folder without sources. Looked for: {wanted} (each also .gz .zst).")
    elif _exists(path) or not glob.has_magic(str(path)):
        names = [path]
    else:
        names = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
        if not names:
            raise SourceError(f"No file matches {argument}.")
    for name in names:
        try:
            status = name.stat()
        except (OSError, ValueError) as why:  # of a name with a NUL in it
            raise SourceError(f"{shown(name)} cannot be read: {getattr(why, 'strerror', why)}.") from None
        refuse_what_is_no_file(name, status)
        real = str(name_on_disk(name))
        yield Source(real, _kind_of(real, how), column, status.st_size, status.st_mtime_ns)


def _exists(path: Path) -> bool:
    """Whether there is such a file; false for a name that is too long or holds a NUL."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _sources_in(folder: Path, counts: bool, warnings: list[str]) -> Iterator[Path]:
    """The sources below a folder; an error if part of it cannot be looked into, rather than less text than there is."""

    def stop(why: OSError) -> None:
        raise SourceError(f"{shown(why.filename)} cannot be looked into: {why.strerror}. Nothing was read.")

    for place, _, names in os.walk(folder, onerror=stop):
        for path in (Path(place, name) for name in names if _is_source_name(name, counts)):
            if path.is_file():
                yield path
            elif not path.is_dir():
                warnings.append(
                    f"{shown(path)} is no file that can be read (a broken link, or a pipe): it is left out."
                )


def shown(path: Path | str) -> str:
    """A path for a message, also where its name is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def refuse_what_is_no_file(path: Path, status: os.stat_result) -> None:
    """Refuse a pipe, a socket or a device: it gives its bytes once, but a count that goes on has to read them again."""
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    kind = kinds.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        raise SourceError(
            f"{shown(path)} is a {kind}, not a file. Nothing was read. To read it, give - in place of its "
            f"name, and < {shown(path)} behind the command."
        )


def refuse_names_that_are_no_text(sources: Iterable[Source]) -> None:
    """Refuse names that are no text: a run keeps the paths of its sources in tables of text."""
    for source in sources:
        if not source.path.isascii() and any("\ud800" <= letter <= "\udfff" for letter in source.path):
            raise SourceError(
                f"The name of {shown(source.path)} is not UTF-8, and a run keeps the names of its sources as text. "
                f"Nothing was read. Rename it."
            )


def _is_source_name(name: str, counts: bool) -> bool:
    suffix = Path(strip_compression(name)[0]).suffix
    return suffix in _COUNT_SUFFIXES if counts else suffix in _KIND_OF_SUFFIX


def _kind_of(path: str, how: SourceOptions) -> Kind:
    if how.counts:
        return "counts"
    known = _KIND_OF_SUFFIX.get(Path(strip_compression(path)[0]).suffix, "txt")
    if how.kind != "auto":
        if how.kind not in ("txt", "lines", "jsonl", "csv", "parquet"):
            raise UsageError(f"There is no source format {how.kind!r}.")
        known = how.kind  # type: ignore[assignment]
    return "lines" if how.lines and known == "txt" else known
