"""How a vocabulary fares as it grows: one pass over a run's chunks, looking at several sizes.

    sizes   256        512         1 024  ...
    chunks  t h e      th e        the         a histogram of ids at every size

Every histogram is exact: all chunks of the run, with their counts. Superwords reach across chunks; so models that have
them are measured on texts alone.
Cost: one encoding of the distinct chunks (encode/grown.py), or with deletions or superwords one for each size; memory:
a range of them at a time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
from msgspec import structs

from streambpe.arrays import Int64
from streambpe.count_config import SourceOptions
from streambpe.encode.grown import GrownUses, grows_by_merges
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.evaluate import Also, add_chunks, count_uses, no_uses, nothing, refuse_read_again
from streambpe.inspect.measures import Uses, measure
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.replay import sizes_after
from streambpe.progress import present_meter
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.source import Source
from streambpe.store.chunks import range_bytes
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, list_parts
from streambpe.store.run import Run
from streambpe.text.shown import harmless

_MOST_STOPS = 12


UsesOf = Callable[..., Uses]  # what a tokenizer makes of the text; a second argument also gets its chunks (Also)
GrowthFacts = dict[str, int | float | None]  # what `measure` says of a vocabulary of one size


def choose_stops(log: EventLog, also: int = 0) -> list[tuple[int, int]]:
    """(events, size) from the alphabet to the whole log, by a factor; never between a merge and its deletions. `also`:
    a size that is a stop too, where the log has it."""
    after = sizes_after(log.header, log.events)
    start = Tokenizer(EventLog(log.header, ())).n_vocab
    stops = {0: start}
    if not after:
        return [(0, start)]
    wanted = np.geomspace(max(start, 1), max(after[-1], start, 2), _MOST_STOPS)[1:].tolist()
    for size in [*wanted, also] if start < also < after[-1] else wanted:
        kept = next((i + 1 for i, found in enumerate(after) if found >= size), len(after))
        while kept < len(after) and log.events[kept].op is Op.DELETE:
            kept += 1
        stops[kept] = after[kept - 1]
    stops[len(after)] = after[-1]
    return sorted(stops.items())


def growth(log: EventLog, stops: Sequence[tuple[int, int]], uses_of: UsesOf) -> tuple[list[GrowthFacts], Int64]:
    """What the page draws of every stop, and the uses of each id at the last one, which is the whole log."""
    found = []
    for (_, size), uses in zip(stops, uses_after(log, [events for events, _ in stops], uses_of), strict=True):
        found.append({**measure(uses, size)})
    return found, uses.n


def uses_after(log: EventLog, kept: Sequence[int], uses_of: UsesOf, whole: Tokenizer | None = None) -> Iterator[Uses]:
    """How often a model uses its ids, cut after so many events each. A text is read once for all of them, where every
    event joins tokens of a chunk, and ids are those of the log in all but the whole model; else once for each.
    `whole`: the tokenizer of the log, if there is one already."""
    if not grows_by_merges(log):
        for events in kept:  # a tokenizer each: one at a time, for the memory
            yield uses_of(Tokenizer(EventLog(log.header, log.events[:events])))
        return
    whole = whole or Tokenizer(log)
    grown = GrownUses(whole.encoder)
    uses = uses_of(whole, grown.add)
    for events in kept:
        after = structs.replace(uses, n=grown.uses(events), chunks=0, single_chunks=0)
        yield uses if events == len(log.events) else after


def readings(log: EventLog, kept: int) -> int:
    """How often `uses_after` reads a text."""
    return 1 if grows_by_merges(log) else kept


def measuring_on(
    run: Run | None, log: EventLog, texts: Sequence[str], how: SourceOptions, resources: Resources, times: int
) -> tuple[UsesOf, str]:
    """(what counts how often a tokenizer uses its ids, the name of what it counts in): texts; without any, all chunks
    of the run in which a log lies. `times`: how many such measurements there will be."""
    meter = present_meter()
    if texts:
        sources, _ = find_sources(list(texts), how)
        refuse_read_again(sources, times)
        meter.begin("measuring", times * sum(source.bytes for source in sources))
        named = ", ".join(harmless(os.path.basename(text) or text) for text in texts)  # no folder: a page is given away
        return functools.partial(uses_in_texts, sources=sources, resources=resources), named
    if how.lines or how.text_column:
        raise UsageError("--lines and --text-column say how --text FILE is read: give --text, or leave them out.")
    if run is None:
        raise UsageError(
            "There is nothing to measure on, because the model is not in a RUN. Nothing was written. Give --text FILE."
        )
    of_words = {log.header.config.get(key) for key in ("superwords", "extends_pattern")} <= {None, "none"}
    if not of_words or any(event.op is Op.SUPERMERGE for event in log.events):
        raise UsageError(
            "Superwords span several chunks, so the chunks that a RUN has counted do not show their use. Nothing was "
            "written. Give texts to measure on, such as the RUN's sources: --text FILE."
        )
    at_once = range_bytes(resources) // 4  # replaying takes a multiple of what is read
    meter.begin("measuring", times * sum(part.rows for part in list_parts(run)), "chunks")
    return functools.partial(uses_in_parts, parts=list_parts(run), at_once=at_once), "all chunks of the corpus"


def uses_in_parts(tokenizer: Tokenizer, also: Also = nothing, *, parts: Sequence[Part], at_once: int) -> Uses:
    """Of the chunks of some parts; so many bytes of them are read at once. Not for models with superwords."""
    total, meter = no_uses(tokenizer), present_meter()
    end = meter.done + sum(part.rows for part in parts)
    for frame in (rows.frame() for rows in merged_lists(parts, at_once)):
        total.bytes += int((frame["chunk"].str.len_bytes().cast(pl.Int64) * frame["n"]).sum())
        add_chunks(total, tokenizer.encoder, frame)
        also(frame)
        meter.advance(frame.height)
    meter.done = end  # a chunk that is in several parts was seen once
    return total


def uses_in_texts(
    tokenizer: Tokenizer, also: Also = nothing, *, sources: Sequence[Source], resources: Resources
) -> Uses:
    """Of texts."""
    total = Uses()
    for source in sources:
        total += count_uses(tokenizer, source, resources, also)
    return total
