"""Groups of sources: naming them while counting, so that their counts stay apart.

    count RUN corpus --group de=corpus/de --group en='corpus/en/*.jsonl'

A part in counts/ holds the counts of one group only; table group_counts has a row for each chunk and group, and table
chunk_counts their sum. store/weights.py adds the groups up again with weights.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from streambpe.errors import UsageError
from streambpe.sources.remote.address import has_place
from streambpe.store.database import open_store
from streambpe.store.run import Run
from streambpe.store.sqlfiles import query_arrow
from streambpe.system import compose_name, portable_path

MOST_GROUPS = 128  # a merge keeps a file open for each


# ---------------------------------------------------------------------------------------------------------
# which source is in which group


class GroupRules(msgspec.Struct, frozen=True):
    """Which group a source belongs to: that of the first rule whose glob matches, else its folder, else none."""

    rules: tuple[tuple[str, str], ...] = ()  # name, glob
    by_folder: bool = False

    @classmethod
    def from_options(cls, groups: Sequence[str] = (), group_by: str | None = None) -> GroupRules:
        """`groups`: texts NAME=GLOB; `group_by`: "folder" or None."""
        rules = []
        for given in groups:
            name, equals, glob = given.partition("=")
            if not (name.strip() and equals and glob):
                raise UsageError(f"--group {given}: write NAME=GLOB, such as de='corpus/de/*'.")
            rules.append((compose_name(name.strip()), portable_path(glob)))
        return cls(tuple(rules), group_by == "folder")

    def __bool__(self) -> bool:
        return bool(self.rules) or self.by_folder

    def group_of(self, path: str) -> str:
        """The group of a source, "" for none. `path`: absolute, or the name of a stream.

        In a glob `*` stands for anything, also for `/`. A glob that does not begin with `/` may begin at any folder
        of the path. A glob that matches a folder takes everything below it. é is é, whether a file system writes it
        as one character or as two.
        """
        absolute = has_place(path)
        path = portable_path(path)
        for name, glob in self.rules:
            glob = glob.removeprefix("./").rstrip("/")
            starts = (glob,) if PurePath(glob).is_absolute() else (glob, f"*/{glob}")
            if any(fnmatch.fnmatchcase(path, form) for start in starts for form in (start, f"{start}/*")):
                return name
        return PurePath(path).parent.name if self.by_folder and absolute else ""


def read_groups(run: Run) -> dict[str, dict[str, int | str]]:
    """Table source_groups: what was counted in each group, by name."""
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        rows = query_arrow(con, "get_source_groups").to_pylist()
    return {row.pop("group_name"): row for row in rows}
