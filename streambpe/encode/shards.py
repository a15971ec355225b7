"""Several files instead of one: --shards N.

    ids.npy, --shards 3  ->  ids-00000-of-00003.npy ... ids-00002-of-00003.npy, and ids.index.json

A shard holds whole documents that follow each other, as near to an N-th of all ids as those allow. One after another
the shards are the one file that is written without --shards. The index says what is where. It is written last, so where
it is, all that it names is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streambpe.results import Result

FORMAT = "streambpe-shards"
MOST_SHARDS = 99_999  # numbers in names have five digits


@dataclass(frozen=True)
class IdsFile(Result):
    """One file of ids."""

    path: Path
    ids: int
    documents: int


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
    ids, documents = (accumulate(many, initial=0) for many in ([m.ids for m in made], [m.documents for m in made]))
    shards = [
        {"file": one.path.name, "first_id": i, "ids": one.ids, "first_document": d, "documents": one.documents}
        for one, i, d in zip(made, ids, documents, strict=False)
    ]
    return json.dumps({**json.loads(record), "format": FORMAT, "shards": shards}, indent=1).encode()


def shards_there(path: Path) -> list[Path]:
    """The index, and what there is of shards of this name, however many: old and new ones never mix."""
    name = re.compile(rf"{re.escape(path.stem)}-\d{{5}}-of-\d{{5}}{re.escape(path.suffix)}(\.json|\.offsets\.npy)?")
    others = path.parent.iterdir() if path.parent.is_dir() else ()
    return [index_path(path), *sorted(file for file in others if name.fullmatch(file.name))]
