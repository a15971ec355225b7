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
from dataclasses import replace
from pathlib import Path

from streambpe.count_config import Counting, SourceOptions
from streambpe.errors import SourceError, UsageError, typed
from streambpe.options import options_of
from streambpe.sources.remote.address import checked, is_remote
from streambpe.sources.remote.place import find
from streambpe.sources.samples import FileSample
from streambpe.sources.shards import share_of
from streambpe.sources.source import WITH_FIELDS, Kind, Source, name_of
from streambpe.sources.streams import strip_compression
from streambpe.system import NamesOnDisk, name_order

_KIND_OF_SUFFIX: dict[str, Kind] = dict.fromkeys((".txt", ".text", ".md"), "txt")
_KIND_OF_SUFFIX |= {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
Named = str | os.PathLike[str] | Source  # what a caller of Python may name
_READ_AS = {"txt": "plain text", "lines": "lines of text"} | {kind: kind for kind in (*WITH_FIELDS, "counts")}
_COUNT_SUFFIXES = (".csv", ".tsv", ".txt", ".vocab", ".dict", ".parquet")


def as_given(sources: Named | Iterable[Named]) -> list[str | Source]:
    """What a caller of Python named: a path as a word, one name alone as a list of one; nothing else is taken."""
    if isinstance(sources, str | os.PathLike | Source):
        sources = [sources]
    given = list(sources)
    for source in given:
        if not isinstance(source, str | os.PathLike | Source):
            raise UsageError(
                f"A source is a path, a pattern or an address, as a str or a Path, but {source!r} is a "
                f"{type(source).__name__}. Nothing was read. Texts that are in memory go to count_from_iterator or "
                "train_from_iterator."
            )
        if not isinstance(source, Source) and is_remote(os.fspath(source)):
            checked(os.fspath(source))  # refused before any name is written or shown
    return [source if isinstance(source, Source) else os.fspath(source) for source in given]


def find_sources(
    arguments: Sequence[str],
    how: SourceOptions = SourceOptions(),
    *,
    in_part: bool = False,
    sample: FileSample | None = None,
) -> tuple[list[Source], list[str]]:
    """The inputs behind the SOURCE arguments, sorted by path, each once; and warnings for the user.

    `in_part`: these are not all that `how` was said of, so what they do not need is not refused. `sample`: only these.
    """
    if how.counts and (how.lines or how.text_column or how.kind != "auto"):
        raise UsageError("--counts: a table of counts has no lines, field or format to choose. Leave that option out.")
    if how.lines and how.kind in WITH_FIELDS:
        raise UsageError(f"--lines with --format {how.kind}: lines are documents in text files only. Leave one out.")
    found: dict[str, Source] = {}
    warnings: list[str] = []
    name_on_disk = NamesOnDisk()
    for argument in arguments:
        for source in _expand(argument, how, name_on_disk, warnings):
            if source.path in found:
                if source.kind in WITH_FIELDS and source.column != found[source.path].column:
                    raise UsageError(
                        f"{source.path} is named with two fields, {found[source.path].column!r} and "
                        f"{source.column!r}; a RUN counts one field of a file. Count the other into another RUN, and "
                        "add it with merge-counts."
                    )
                warnings.append(f"{source.path} is named more than once; it is counted once.")
            found[source.path] = source
    sources = [found[path] for path in sorted(found, key=name_order)]
    if sources and not in_part:
        refuse_idle(sources, how)
    if sample is not None:
        sources = sample.choose(sources)
    return share_of(sources, how.shard) if how.shard is not None else sources, warnings


def refuse_idle(sources: Sequence[Source], how: SourceOptions) -> None:
    """An error if an option says how sources are read, and none of these is read so."""
    given = how.given()
    if sources and all(source.texts is not None for source in sources):
        for name in ("lines", "text_column", "kind", "counts", "shard"):
            if name in given:
                raise UsageError(
                    f"{options_of(SourceOptions)[name].flag} is about files, and the texts come from none."
                )
        return
    if how.shard is not None:  # these may be one share of the sources, and another share needs the option
        return
    told = (
        f"{shown(name_of(sources[0]))} is read as {_READ_AS[sources[0].kind]}. Nothing was changed. Leave it out, or "
    )
    told += "give the sources' --format."
    if "text_column" in given:
        columns = {source.column for source in sources if source.kind in WITH_FIELDS}
        if not columns:
            raise UsageError(
                f"--text-column {how.text_column} names a field of jsonl, csv or parquet, and no source is one of "
                f"these: {told}"
            )
        if how.text_column not in columns:
            raise UsageError(
                f"--text-column {how.text_column}: every source has its own field, as FILE:FIELD. Nothing was "
                "changed. Leave it out."
            )
    if how.lines and all(source.kind != "lines" for source in sources):
        raise UsageError(f"--lines is about text files, and no source is one: {told}")


def without_idle(how: Counting, sources: Sequence[Source]) -> Counting:
    """The same without what `refuse_idle` would refuse, where other texts are read so (--balance-text)."""
    if how.lines and all(source.kind != "lines" for source in sources):
        how = replace(how, lines=False)
    if all(source.kind not in WITH_FIELDS or source.column != how.text_column for source in sources):
        how = replace(how, text_column=None)
    return how


def from_anywhere(argument: str) -> str:
    """A SOURCE argument that means the same in any folder: relative ones begin with the present folder."""
    if is_remote(argument):
        return checked(argument)
    if argument in ("-", "") or os.path.isabs(argument):  # an empty one is refused when it is looked for
        return argument
    here = os.getcwd()
    if glob.has_magic(argument) and not os.path.exists(argument):
        here = glob.escape(here)
    return os.path.join(here, argument)


def _expand(argument: str, how: SourceOptions, name_on_disk: NamesOnDisk, warnings: list[str]) -> Iterator[Source]:
    column = how.text_column or "text"
    if not argument:  # as a path it would be the present folder
        raise UsageError(
            "A SOURCE is empty, perhaps a shell variable that is not set. Nothing was read. Name a file or folder; "
            "'.' is the current one."
        )
    if argument == "-":
        yield Source(how.stdin_name, _kind_of("-", how), column, is_stdin=True)
        return
    match = re.fullmatch(r"(.+\.(?:jsonl|ndjson|csv|parquet)(?:\.gz|\.zst)?):(.*)", argument)
    if match and not match[2] and not os.path.exists(argument):
        raise UsageError(
            f"{argument} has no field after its colon. Nothing was read. Write FILE:FIELD, or leave the colon out."
        )
    if is_remote(argument):
        address, column = (match[1], match[2]) if match else (argument, column)
        yield from _remote(address, column, how)
        return
    path = Path(argument)
    if match and not os.path.exists(path):
        path, column = Path(match[1]), match[2]
    if os.path.isdir(path):
        if (path / "state.duckdb").is_file():
            raise SourceError(
                f"{argument} is a RUN, not a folder of sources. Nothing was changed. Give only one RUN, first; to add "
                f"the counts of another, use `streambpe merge-counts RUN {typed(argument)}`."
            )
        names = sorted(_sources_in(path, how.counts, warnings))
        if not names:
            raise _no_sources(argument, how)
    elif os.path.exists(path) or not glob.has_magic(str(path)):
        names = [path]
    else:
        names = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
        if not names:
            raise SourceError(f"No file matches {argument}.")
    for name in names:
        try:
            status = name.stat()
        except (OSError, ValueError) as why:  # of a name with a NUL in it
            text, hint = str(name).rpartition(":")[0], ""
            if os.path.exists(text):
                hint = f" FILE:FIELD is for jsonl, csv and parquet, but {shown(Path(text))} is none of these."
            raise SourceError(f"{shown(name)} cannot be read: {getattr(why, 'strerror', why)}.{hint}") from None
        refuse_what_is_no_file(name, status)
        real = str(name_on_disk(name))
        yield Source(real, _kind_of(real, how), column, status.st_size, status.st_mtime_ns)


def _remote(argument: str, column: str, how: SourceOptions) -> Iterator[Source]:
    """What lies at an address: a file, or those of a folder or glob."""
    address = checked(argument)
    every = list(find(address, lambda name: _is_source_name(name, how.counts)))
    if not every:
        raise SourceError(f"No file matches {address}.") if glob.has_magic(address) else _no_sources(address, how)
    for found in every:
        yield Source(found.name, _kind_of(found.name, how), column, found.bytes, found.stamp)


def _no_sources(argument: str, how: SourceOptions) -> SourceError:
    wanted = " ".join(_COUNT_SUFFIXES if how.counts else _KIND_OF_SUFFIX)
    return SourceError(f"{argument} is a folder without sources, which are {wanted} (each also .gz .zst).")


def _sources_in(folder: Path, counts: bool, warnings: list[str]) -> Iterator[Path]:
    """The sources below a folder; an error if part of it cannot be looked into, rather than less text than there is."""

    def stop(why: OSError) -> None:
        raise SourceError(f"{shown(why.filename)} cannot be opened: {why.strerror}. Nothing was read.")

    for place, folders, names in os.walk(folder, onerror=stop):
        for path in (Path(place, name) for name in sorted(folders)):
            if path.is_symlink():  # it may lead back to where it stands
                warnings.append(f"{shown(path)} is a link to a folder, and is left out. Name that folder as a SOURCE.")
        for path in (Path(place, name) for name in names if _is_source_name(name, counts)):
            if path.is_file():
                yield path
            elif not path.is_dir():
                warnings.append(
                    f"{shown(path)} is not a file that can be read (a broken link, or a pipe), and is left out."
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
            f"{shown(path)} is a {kind}, not a file. Nothing was read. To read it, give - instead of its name, and < "
            f"{shown(path)} after the command."
        )


def refuse_names_that_are_no_text(sources: Iterable[Source]) -> None:
    """Refuse names that are no text: a run keeps the paths of its sources in tables of text."""
    for source in sources:
        if not source.path.isascii() and any("\ud800" <= letter <= "\udfff" for letter in source.path):
            raise SourceError(
                f"The name of {shown(source.path)} is not UTF-8, and a RUN stores the names of its sources as text. "
                "Nothing was read. Rename it."
            )


def _is_source_name(name: str, counts: bool) -> bool:
    suffix = Path(strip_compression(name)).suffix
    return suffix in _COUNT_SUFFIXES if counts else suffix in _KIND_OF_SUFFIX


def _kind_of(path: str, how: SourceOptions) -> Kind:
    if how.counts:
        return "counts"
    by_name = _KIND_OF_SUFFIX.get(Path(strip_compression(path)).suffix, "txt")
    known = by_name if how.kind == "auto" else how.kind
    return "lines" if how.lines and known == "txt" else known
