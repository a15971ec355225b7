"""train --balance-text GROUP=FILE: texts that the groups are measured on.

    --balance-text de=dev/de.txt --balance-text en=dev/en.txt      they say the same: who needs most tokens is worst
    RUN/balance/SHA256.parquet                                     the counts of each, cut as RUN cuts its text

The counts are kept in the RUN from before anything is learned, so that a training that was stopped goes on without the
files, and TrainConfig.balanced_on has for each group the sha256 of its counts.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from streambpe.count_config import Counting, SourceOptions
from streambpe.errors import NoText, RunError, UsageError, typed
from streambpe.files import scratch_folder
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.source import Source
from streambpe.store.chunks import range_bytes
from streambpe.store.counted import CorpusDigest
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, list_parts, parts_by_group, read_part, write_part
from streambpe.store.run import Run
from streambpe.system import compose_name
from streambpe.train.counting.count import count
from streambpe.train.made_with import of_sources

# Options of counting with which a text to measure on is read whole, whatever the RUN has.
READ_WHOLE = {"sequences": False, "sample": "all", "sample_files": "all", "seed": 0, "document_cap": None}
_ALONE = {"counts": False, "groups": (), "group_by": None, "shard": None, "stdin_name": "-"}
Given = Sequence[str] | Mapping[str, str | Sequence[str]]


class BalanceTexts(msgspec.Struct, frozen=True):
    """Texts that were counted, by group."""

    parts: Mapping[str, Sequence[Part]]
    digests: Mapping[str, str]

    def keep(self, run: Run, at_once: int) -> list[Path]:
        """Write the counts into a RUN; returns the files that are new."""
        new = []
        for name, parts in self.parts.items():
            path = _path(run, self.digests[name])
            if not path.is_file():
                new.append(path)
            path.parent.mkdir(exist_ok=True)
            write_part(path, merged_lists(parts, at_once))
        return new


def parse_texts(given: Given, flag: str = "--balance-text") -> dict[str, list[str]]:
    """Entries GROUP=FILE, or files by group -> files by group."""
    found: dict[str, list[str]] = {}
    if isinstance(given, Mapping):
        given = [
            f"{name}={file}" for name, some in given.items() for file in ([some] if isinstance(some, str) else some)
        ]
    for entry in given:
        name, equals, file = entry.partition("=")
        if not (name.strip() and equals and file):
            raise UsageError(f"{flag} {entry}: write GROUP=FILE, such as de=dev/de.txt.")
        if file == "-":
            raise UsageError(f"{flag} {entry}: standard input cannot be the text of a group. Give a file.")
        found.setdefault(compose_name(name.strip()), []).append(file)
    return found


@contextlib.contextmanager
def counted_texts(
    run: Run, files: Mapping[str, Sequence[str]], counting: Counting, resources: Resources, flag: str = "--balance-text"
) -> Iterator[BalanceTexts]:
    """The texts of groups, counted as a RUN counts, in a folder that is gone afterwards."""
    facts = run.known_facts()
    options: dict[str, Any] = json.loads(facts["config"]) if facts else dict(counting.options)
    read = of_sources(list_parts(run).spans, counting) if facts else {}  # as RUN's sources were read
    sources = _sources(files, replace(counting, **(read | _ALONE)))
    at_once = range_bytes(resources)
    with scratch_folder(Path(resources.temp_dir or tempfile.gettempdir()), "streambpe-balance") as place:
        counted = Run(place / "run")
        local = replace(resources, engine="threads", address=None)
        with contextlib.suppress(NoText):  # told below, of the group's file
            count(counted, sources, counting={"options": options | READ_WHOLE}, resources=local)
        parts = parts_by_group(list_parts(counted))
        digests = {}
        for name in sorted(files):
            digest = _digest(parts.get(name, []), at_once)
            if not digest.bytes:
                raise UsageError(
                    f"{flag} {name}{'=' if name else ''}{files[name][0]}: there is no text in it. Nothing was "
                    "changed. Give another one."
                )
            digests[name] = str(digest.facts(0)["sha256"])
        yield BalanceTexts({name: parts[name] for name in digests}, digests)


def _sources(files: Mapping[str, Sequence[str]], how: SourceOptions) -> list[Source]:
    """The sources of all groups, each of one group."""
    found: dict[str, Source] = {}
    for name, some in files.items():
        for source in find_sources(list(some), how, in_part=True)[0]:
            if source.path in found and found[source.path].group != name:
                raise UsageError(
                    f"--balance-text: {source.path} is given for both {found[source.path].group} and {name}. Nothing "
                    "was changed. Every group needs its own text."
                )
            found[source.path] = replace(source, group=name)
    return list(found.values())


def refuse_texts(run: Path, groups: Collection[str], texts: Collection[str]) -> None:
    """An error unless there is a text for every one of these groups, and for no other."""
    names = set(map(compose_name, groups))
    for what, some in (("is not a source group", set(texts) - names), ("has no text", names - set(texts))):
        if texts and some:
            raise UsageError(
                f"--balance-text: {min(some)!r} {what} of {run}, which has {', '.join(sorted(names))}. Nothing was "
                "changed. Give at least one text for each group: --balance-text GROUP=FILE."
            )


def read_text(run: Run, digest: str, at_once: int) -> Part:
    """The counts of a group's text, as they were kept."""
    path, why = _path(run, digest), "has changed"
    try:
        part = read_part(path)
        if _digest([part], at_once).facts(0)["sha256"] == digest:
            return part
    except FileNotFoundError:
        why = "is lost"
    raise RunError(
        f"{path}, the counts of a text of --balance-text, {why}. Nothing was changed. Put the right one back, or "
        f"give the `streambpe train {typed(run.path)}` command again with every --balance-text."
    )


def _path(run: Run, digest: str) -> Path:
    return run.path / "balance" / f"{digest}.parquet"


def _digest(parts: Sequence[Part], at_once: int) -> CorpusDigest:
    return CorpusDigest.of(merged_lists(parts, at_once))
