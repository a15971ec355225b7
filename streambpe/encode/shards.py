"""Several files instead of one: --shards N, or --shards SIZE.

    ids.npy, --shards 3  ->  ids-00000-of-00003.npy ... ids-00002-of-00003.npy, and ids.index.json

A shard holds whole documents that follow each other, as near to an N-th of all ids as those allow. With a size, N is
the least number of shards that are no larger on average. One after another the shards are the one file that is written
without --shards. The index says what is where. It is written last, so where it is, all that it names is whole.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.encode.sidecar import offsets_of, sidecar_of
from streambpe.errors import UsageError
from streambpe.resources import format_size, parse_size
from streambpe.results import Result

FORMAT = "streambpe-shards"
MOST = 99_999  # numbers in names have five digits
LEAST_BYTES = 1000


@dataclass(frozen=True)
class IdsFile(Result):
    """One file of ids."""

    path: Path
    ids: int
    documents: int


class Shards(msgspec.Struct, frozen=True):
    """What was asked for: so many shards, or shards of so many bytes of ids."""

    number: int | None = None
    size_bytes: int = 0

    @classmethod
    def parse(cls, asked: int | str) -> Shards:
        """A number, or a size such as 500MB; an error if such shards cannot be made."""
        text = str(asked).strip()
        if re.fullmatch(r"-?[0-9]+", text):
            shards = cls(int(text))
        elif re.fullmatch(r"[0-9.]+ *[KMGT]?i?B", text, re.I):
            shards = cls(None, parse_size(text, "--shards"))
        else:
            raise UsageError(
                f"--shards {text}: give a number of files, or a size for each, such as 500MB. Nothing was written."
            )
        if shards.number is not None and not 1 <= shards.number <= MOST:
            raise UsageError(f"--shards {text}: a number of files from 1 to {MOST:,}. Nothing was written.")
        if shards.number is None and shards.size_bytes < LEAST_BYTES:
            raise UsageError(f"--shards {text}: at least {format_size(LEAST_BYTES)} each. Nothing was written.")
        return shards

    def count(self, ids: int, item_bytes: int) -> int:
        """How many shards so many ids become."""
        return self.number or min(max(1, -(-ids * item_bytes // self.size_bytes)), MOST)

    def in_the_way(self, path: Path) -> list[Path]:
        """The files that they would overwrite, or may: how many there will be is not known before all is encoded."""
        if self.number is not None:
            return shard_paths(path, self.number)
        name = re.compile(rf"{re.escape(path.stem)}-\d{{5}}-of-\d{{5}}{re.escape(path.suffix)}")
        folder = path.parent
        return sorted(file for file in folder.iterdir() if name.fullmatch(file.name)) if folder.is_dir() else []


def index_path(path: Path) -> Path:
    """Where it stands what is in which shard: ids.npy -> ids.index.json."""
    return path.with_name(f"{path.stem}.index.json")


def shard_paths(path: Path, shards: int) -> list[Path]:
    """The files: ids.npy -> ids-00000-of-00003.npy, ..."""
    return [path.with_name(f"{path.stem}-{k:05}-of-{shards:05}{path.suffix}") for k in range(shards)]


def shard_borders(ends: npt.NDArray[np.int64], shards: int) -> list[int]:
    """shards + 1 numbers of documents; shard k holds those from borders[k] up to borders[k + 1].

    ends: where each document ends, counted in ids. With ends 4 6 12 and two shards the middle is 6: borders 0 2 3.
    """
    total = int(ends[-1]) if len(ends) else 0
    borders = [0]
    for k in range(1, shards):
        wanted = total * k // shards
        after = int(np.searchsorted(ends, wanted))  # the first document that reaches it
        below = int(ends[after - 1]) if after else 0
        nearest = after if after == len(ends) or wanted - below < int(ends[after]) - wanted else after + 1
        borders.append(max(nearest, borders[-1]))
    return [*borders, len(ends)]


def index_of(record: bytes, made: Sequence[IdsFile]) -> bytes:
    """The index as it is written: the record of all ids, and what each shard holds of them."""
    shards: list[dict[str, object]] = []
    first_id = first_document = 0
    for one in made:
        shards.append({
            "file": one.path.name, "first_id": first_id, "ids": one.ids, "first_document": first_document,
            "documents": one.documents,
        })  # fmt: skip
        first_id, first_document = first_id + one.ids, first_document + one.documents
    return json.dumps({**json.loads(record), "format": FORMAT, "shards": shards}, indent=1).encode()


def remove_shards(path: Path) -> None:
    """Remove the index of earlier shards of this name, and the files that it names, so that old and new never mix."""
    index = index_path(path)
    names: list[str] = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(index.read_text(encoding="utf-8"))
        names = [shard["file"] for shard in held["shards"]] if held["format"] == FORMAT else []
    for shard in shard_paths(path, len(names)):
        if shard.name in names:
            for file in (shard, offsets_of(shard), sidecar_of(shard)):
                file.unlink(missing_ok=True)
    index.unlink(missing_ok=True)
