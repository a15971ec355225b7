"""Groups of sources: naming them while counting, and counts reweighted by group without counting again.

    count RUN corpus --group de=corpus/de --group en='corpus/en/*.jsonl'
    train RUN --weight de=2.5

A part in counts/ holds the counts of one group only, so every group's counts stay apart on disk while the
table chunk_counts has their sum. `weighted_counts` adds the groups up again with weights.

Weights are decimal numbers, taken as exact fractions. The weighted count of a chunk is the sum over the groups
of weight x count, made an integer by the method of largest remainders: every chunk gets the whole part, and
the rest of the (rounded) total goes, one each, to the chunks with the largest fractions; equal fractions in
the order of the chunks' bytes. Chunks that come out as 0 are left out.

    de: {"ja": 3, "so": 1}  x 0.5       ja 1.5, so 2.5, no 1.0: 5 in all
    en: {"so": 2, "no": 1}  x 1     ->  ja 2,   so 2,   no 1      ("ja" and "so" tie at 0.5; "ja" is first)
"""

from __future__ import annotations

import contextlib
import fnmatch
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from streambpe.core.strings import ChunkList
from streambpe.errors import StreambpeError, UsageError
from streambpe.later import polars as pl
from streambpe.store.database import open_store
from streambpe.store.merge import merge_ranges_by_group
from streambpe.store.parts import MAX_COUNT, Part, PartWriter, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.system import compose_name, portable_path

MOST_GROUPS = 128  # each is a file that a merge keeps open
_RANGE_BYTES = 8 << 20


# ---------------------------------------------------------------------------------------------------------
# which source is in which group


@dataclass(frozen=True)
class GroupRules:
    """Which group a source belongs to: the first rule whose glob its path matches, else its folder, else none."""

    rules: tuple[tuple[str, str], ...] = ()  # name, glob
    by_folder: bool = False

    @classmethod
    def from_options(cls, groups: Sequence[str] = (), group_by: str | None = None) -> GroupRules:
        """`groups`: NAME=GLOB each; `group_by`: "folder" or None."""
        rules = []
        for given in groups:
            name, equals, glob = given.partition("=")
            if not (name.strip() and equals and glob):
                raise UsageError(f"--group {given}: write NAME=GLOB, such as de='corpus/de/*'.")
            rules.append((compose_name(name.strip()), portable_path(glob)))
        if group_by not in (None, "folder"):
            raise UsageError(f"--group-by {group_by}: there is only folder.")
        return cls(tuple(rules), group_by == "folder")

    def __bool__(self) -> bool:
        return bool(self.rules) or self.by_folder

    def group_of(self, path: str) -> str:
        """The group of a source, "" for none. `path`: absolute, or the name of a stream.

        In a glob `*` stands for anything, also for `/`; a glob that does not begin with `/` may begin at
        any folder of the path; one that matches a folder takes everything below it. é is é, whether a file system
        writes it as one character or as two.
        """
        absolute = Path(path).is_absolute()
        path = portable_path(path)
        for name, glob in self.rules:
            glob = glob.removeprefix("./").rstrip("/")
            starts = (glob,) if PurePath(glob).is_absolute() else (glob, f"*/{glob}")
            if any(fnmatch.fnmatchcase(path, form) for start in starts for form in (start, f"{start}/*")):
                return name
        return PurePath(path).parent.name if self.by_folder and absolute else ""


def groups_of_sources(run: Run | Path | str) -> dict[str, str]:
    """The group of every counted source of a run, by its path; "" for none."""
    folder = run if isinstance(run, Run) else Run.open(run)
    return {span.path: span.group_name for part in list_parts(folder) for span in part.spans}


def group_parts(run: Run, name: str) -> list[Part]:
    """The parts that hold the counts of a group; an error that names the groups there are."""
    groups = parts_by_group(list_parts(run))
    name = next((known for known in groups if compose_name(known) == compose_name(name)), name)
    if name not in groups:
        raise UsageError(f"{run.path} has no source group {name!r}; it has {_listed(groups)}. Nothing was changed.")
    return groups[name]


def _listed(names: Mapping[str, object]) -> str:
    named = [name for name in names if name]
    return ", ".join(named) if named else "none: they are named while counting, with --group or --group-by"


# ---------------------------------------------------------------------------------------------------------
# weights


def check_weights(run: Run, parts: Sequence[Part], weights: Mapping[str, str]) -> None:
    """Refuse weights for groups that the run does not have."""
    groups = parts_by_group(parts)
    for name in weights:
        if name not in map(compose_name, groups):
            raise UsageError(
                f"--weight {name}={weights[name]}: {run.path} has no source group {name!r}; it has "
                f"{_listed(groups)}. Nothing was changed."
            )


class _Weighing:
    """Whole parts and remainders of weighted counts, in 64-bit integers without overflow."""

    def __init__(self, parts: Sequence[Part], weights: Mapping[str, str]) -> None:
        self.parts = parts
        exact = {name: Fraction(weights.get(compose_name(name), "1")) for name in parts_by_group(parts)}
        self.denominator = 1
        for weight in exact.values():
            self.denominator *= weight.denominator // np.gcd(self.denominator, weight.denominator)
        self.denominator = int(self.denominator)
        total = sum(exact[part.group_name] * part.total for part in parts)
        if total > MAX_COUNT:
            raise StreambpeError(
                f"The weighted counts add up to {int(total)}, more than a 64-bit count holds ({MAX_COUNT}). "
                f"Nothing was changed. Give smaller weights."
            )
        self.numerators = {name: int(weight * self.denominator) for name, weight in exact.items()}

    def frames(self) -> Iterator[pl.DataFrame]:
        """(chunk, whole, rest): weighted count = whole + rest / denominator, rest < denominator; by chunk."""
        weigh = pl.col("group_name").replace_strict(self.numerators, return_dtype=pl.Int64)
        # n = q * denominator + r, so that no product passes the weighted count or denominator^2 x weight
        split = [weigh.alias("w"), (pl.col("n") // self.denominator).alias("q"),
                 (pl.col("n") % self.denominator).alias("r")]  # fmt: skip
        rest = pl.col("r") * pl.col("w")
        for frame in merge_ranges_by_group(self.parts, _RANGE_BYTES):
            yield (
                frame.with_columns(split)
                .with_columns((pl.col("q") * pl.col("w") + rest // self.denominator).alias("whole"))
                .with_columns((rest % self.denominator).alias("rest"))
                .group_by("chunk")
                .agg(pl.col("whole").sum(), pl.col("rest").sum())
                .with_columns((pl.col("whole") + pl.col("rest") // self.denominator).alias("whole"))
                .with_columns((pl.col("rest") % self.denominator).alias("rest"))
                .sort("chunk")
            )

    def raised(self) -> tuple[int, int]:
        """(least rest, how many): chunks above that rest get one more, and so many of those that have it."""
        if self.denominator == 1:
            return 1, 0
        many: npt.NDArray[np.int64] = np.zeros(self.denominator, np.int64)
        for frame in self.frames():
            many += np.bincount(frame["rest"].to_numpy(), minlength=self.denominator)
        rests = sum(int(rest) * int(many[rest]) for rest in np.flatnonzero(many))
        left = (2 * rests + self.denominator) // (2 * self.denominator)  # the total, halves rounded up
        for rest in np.flatnonzero(many)[::-1].tolist():
            if many[rest] >= left:
                return rest, left
            left -= int(many[rest])
        return 0, 0


@contextlib.contextmanager
def weighted_counts(parts: Sequence[Part], weights: Mapping[str, str], place: Path) -> Iterator[list[Part]]:
    """The counts with weights as one part in the folder `place`, which is this call's own and removed at the end.

    Without weights these are the parts themselves. Two passes over the counts (one if all weights are whole
    numbers); memory does not grow with them.
    """
    if not weights:
        yield list(parts)
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield [_write_weighted(_Weighing(parts, weights), place / "weighted.parquet")]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write_weighted(weighing: _Weighing, target: Path) -> Part:
    least, open_places = weighing.raised()
    writer = PartWriter(target)
    try:
        for frame in weighing.frames():
            rest = frame["rest"].to_numpy()
            more = rest > least
            tied = np.flatnonzero(rest == least)[:open_places]
            more[tied] = True
            open_places -= len(tied)
            counts = pl.DataFrame({"chunk": frame["chunk"], "n": frame["whole"].to_numpy() + more})
            writer.write(ChunkList.of(counts.filter(pl.col("n") > 0)))
        part = writer.commit([])
    except BaseException:
        writer.abandon()
        raise
    if not part.rows:
        raise UsageError("With these --weight nothing is left to learn from. Nothing was changed.")
    return part


def read_groups(run: Run) -> dict[str, dict[str, int | str]]:
    """Table source_groups: what was counted in each group, by name."""
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        rows = run_sql(con, "get_source_groups")
    keys = ("documents", "bytes", "chunks", "sha256")
    return {name: dict(zip(keys, row, strict=True)) for name, *row in rows}
