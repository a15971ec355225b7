"""streambpe sizes: which size for whom. One table of a model cut to several sizes, on the texts of several groups.

    de    32 000   16 000   8 000     bytes per token, ids used, ids that are rare, Rényi efficiency
    en    32 000   16 000   8 000
    all   32 000   16 000   8 000

Every text is read and encoded once for all sizes, or with superwords or deletions once for each (curves.uses_after).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import numpy as np
import polars as pl

from streambpe.arguments import arguments
from streambpe.encode.formats.export import kept_events, several_sizes
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.columns import file_form, print_columns, write_rows
from streambpe.inspect.curves import readings, uses_after, uses_in_texts
from streambpe.inspect.evaluate import ALL, cell, refuse_read_again
from streambpe.inspect.measures import MEASURES, Uses, measure
from streambpe.model.eventlog import EventLog
from streambpe.model.replay import sizes_after, why_never_cut
from streambpe.options import several, taken, whole_number
from streambpe.outputs import whole_output
from streambpe.progress import present_meter, reported
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.sources.find import find_sources
from streambpe.store.models import read_model
from streambpe.train.balance_texts import Given, parse_texts

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

RARE = 10
_MOST_HALVES = 8


@dataclass(frozen=True)
class SizeFacts(Result):
    """A model cut to one size, on the texts of one group, or on all of them."""

    group: str
    vocab_size: int
    bytes: int
    tokens: int
    bytes_per_token: float | None
    vocab_used_share: float  # of the ids
    rare: int  # ids that are used less often than asked, never included
    renyi: float | None


@reported("measuring")
def sizes(
    model: str | os.PathLike[str],
    text: Given | str,
    *,
    vocab_size: int | str | Sequence[int | str] | None = None,
    rare: int | str = RARE,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    resources: Resources | None = None,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> list[SizeFacts]:
    """How a model fares cut to each of some sizes (none: its own, a half of it, a quarter, ...), for each group of
    texts and all together, the largest size first.

    `text`: GROUP=FILE each, or files by group; a FILE without a group is only a part of all. `rare`: an id is rare
    below so many uses. `output`: also write the table, as .csv, .json, .jsonl or .parquet.
    """
    _, how, resources = arguments("sizes", options, None, resources)
    rare = taken("rare", rare, whole_number)
    form = None if output is None else file_form(output, force)
    texts = {name: find_sources(files, how, in_part=True)[0] for name, files in grouped(text).items()}
    if not texts:
        raise UsageError("Nothing to measure on: name at least one --text GROUP=FILE.")
    log = read_model(model)
    after = sizes_after(log.header, log.events)
    wanted = several_sizes(vocab_size) or _halves(log, after)
    kept = {
        size: len(log.events) if after and size == after[-1] else kept_events(log, size, after)
        for size in sorted(set(wanted), reverse=True)
    }  # its own size may be passed before, and lost again
    times = readings(log, len(kept))
    every = [source for some in texts.values() for source in some]
    refuse_read_again(every, times)
    present_meter().total = times * sum(source.bytes for source in every)
    whole, found = Tokenizer(log), []
    total = {size: Uses() for size in kept}
    for group, some in texts.items():
        uses_of = partial(uses_in_texts, sources=some, resources=resources)
        for size, uses in zip(kept, uses_after(log, [*kept.values()], uses_of, whole), strict=True):
            total[size] += uses
            if group:
                found.append(_facts(group, size, uses, rare))
    found += [_facts(ALL, size, uses, rare) for size, uses in total.items()]
    if output is not None:
        with whole_output(Path(output)) as file:
            if form == "parquet":
                pl.DataFrame(found).write_parquet(file)
            else:
                with open(file, "w", encoding="utf-8", newline="") as out:
                    print_sizes(found, str(form), out)
    return found


def grouped(text: Given | str) -> dict[str, list[str]]:
    """The files of each group, of entries GROUP=FILE, and under "" those that are in none. A group has no / or \\."""
    given = text if not isinstance(text, str) else several(text)
    alone = [] if isinstance(given, Mapping) else [one for one in given if re.match(r"[^=]*([/\\]|$)", one)]
    groups = parse_texts(given if not alone else [entry for entry in given if entry not in alone], "--text")
    if ALL in groups:
        raise UsageError(f"--text {ALL}=FILE: the last rows have this name, of all texts together. Give another one.")
    return {**groups, "": alone} if alone else groups


def _halves(log: EventLog, after: Sequence[int]) -> list[int]:
    """The size of a model, and halves down to what it had before it learned."""
    before = Tokenizer(EventLog(log.header, ())).n_vocab
    most = after[-1] if after else before
    least = after[log.header.inherited - 1] if log.header.inherited else before
    least = most if why_never_cut(log.header, log.events) else least
    return [size for size in (most >> i for i in range(_MOST_HALVES)) if size == most or size >= least]


def _facts(group: str, size: int, uses: Uses, rare: int) -> SizeFacts:
    found = measure(uses, size)
    often = int(np.count_nonzero(uses.n >= max(rare, 1)))
    known: dict[str, Any] = {name: found[name] for name in found.keys() & SizeFacts.__dataclass_fields__}
    return SizeFacts(**known | {"group": group, "vocab_size": size, "rare": size - often})


def print_sizes(found: Sequence[SizeFacts], form: str, out: TextIO) -> None:
    """A table for people, or all values as json, jsonl or csv."""
    if form == "table":
        print_columns(size_cells(found), 1, out)
    else:
        write_rows(form, [*SizeFacts.__dataclass_fields__], [[[*asdict(one).values()] for one in found]], out)


def size_cells(found: Sequence[SizeFacts]) -> list[list[str]]:
    """The table for people: its head, and its rows."""
    heads = [MEASURES[name][0] if name in MEASURES else name for name in SizeFacts.__dataclass_fields__]
    return [heads, *([one.group, *map(cell, [*asdict(one).values()][1:])] for one in found)]
