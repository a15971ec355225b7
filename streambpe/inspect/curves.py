"""How a vocabulary fares as it grows: one pass over a run's chunks, stopping at several sizes.

    sizes   256        512         1 024  ...
    chunks  t h e ->   th e   ->   the         one replay of the events, a histogram at every stop

Every histogram is exact: all chunks of the run, with their counts. Superwords reach across chunks, and a run's
tables do not say how chunks follow each other; so models with superwords are measured on texts instead.
Cost: one encoding of the distinct chunks (with deletions, one per stop); memory: a range of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypedDict

import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.count_config import SourceOptions
from streambpe.encode.bulk import BulkReplay, Ids
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.evaluate import count_uses, no_uses
from streambpe.inspect.measures import renyi_efficiency
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.replay import sizes as sizes_after
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.store.merge import merge_ranges
from streambpe.store.parts import list_parts
from streambpe.store.run import Run

_RANGE_BYTES = 4 << 20
_MOST_STOPS = 12


GrowthKey = Literal["used_share", "renyi", "renyi_vocab", "bytes_per_token"]  # what is drawn by size


class GrowthFacts(TypedDict):
    """What the page draws of a vocabulary of one size; None where there is nothing to measure."""

    size: int
    tokens: int
    used: int
    used_share: float | None
    renyi: float | None
    renyi_vocab: float | None
    bytes_per_token: float | None


@dataclass
class Stop:
    """The vocabulary after so many events."""

    events: int
    size: int  # how many model ids there are
    n: Int64  # uses of every id
    bytes: int = 0

    def values(self) -> GrowthFacts:
        """What the page draws."""
        tokens, used = int(self.n.sum()), int((self.n > 0).sum())
        return {
            "size": self.size,
            "tokens": tokens,
            "used": used,
            "used_share": used / self.size if self.size else None,
            "renyi": renyi_efficiency(self.n, used),
            "renyi_vocab": renyi_efficiency(self.n, self.size),
            "bytes_per_token": self.bytes / tokens if tokens else None,
        }


def choose_stops(log: EventLog) -> list[tuple[int, int]]:
    """(events, size) from the alphabet to the whole log, by a factor; never between a merge and its deletions."""
    after = sizes_after(log.header, log.events)
    start = Encoder(EventLog(log.header, ())).model.n_vocab
    stops = {0: start}
    if not after:
        return [(0, start)]
    for size in np.geomspace(max(start, 1), max(after[-1], start, 2), _MOST_STOPS)[1:].tolist():
        kept = next((i + 1 for i, found in enumerate(after) if found >= size), len(after))
        while kept < len(after) and log.events[kept].op is Op.DELETE:
            kept += 1
        stops[kept] = after[kept - 1]
    stops[len(after)] = after[-1]
    return sorted(stops.items())


def growth_on_chunks(run: Run, log: EventLog) -> list[Stop]:
    """All chunks of a run at every stop, by log id. Not for models with superwords."""
    stops = choose_stops(log)
    n_log = Encoder(log).n_log
    replay = _replay_in_stages if all(event.op is Op.MERGE for event in log.events) else _encode_at_each
    encoded = replay(log, [events for events, _ in stops], n_log)
    found = [Stop(events, size, np.zeros(n_log + 1, np.int64)) for events, size in stops]
    for frame in merge_ranges(list_parts(run), _RANGE_BYTES):
        n: Int64 = frame["n"].to_numpy()
        text_bytes = int((frame["chunk"].str.len_bytes().cast(pl.Int64) * frame["n"]).sum())
        for stop, (ids, counts) in zip(found, encoded(frame["chunk"]), strict=True):
            named = np.where((ids < 0) | (ids > n_log), n_log, ids)  # ids out of range stand for an unknown symbol
            np.add.at(stop.n, named, np.repeat(n, counts))
            stop.bytes += text_bytes
    return found


Encoded = Iterator[tuple[Ids, Int64]]


def _replay_in_stages(log: EventLog, stops: Sequence[int], n_log: int) -> Callable[[pl.Series], Encoded]:
    """Each stop goes on from the tokens of the one before: one replay in all. For logs of merges only: a deletion needs
    the places of the symbols that its token was made of."""
    first = Encoder(EventLog(log.header, log.events[: stops[0]]))
    replays = [BulkReplay(log.events[low:high], n_log) for low, high in pairwise(stops)]

    def encoded(chunks: pl.Series) -> Encoded:
        ids, counts = first.encode_distinct(chunks)
        yield ids, counts
        for replay in replays:
            ids, counts = replay.replay(np.where(ids < 0, np.int32(replay.unknown), ids), counts)
            yield ids, counts

    return encoded


def _encode_at_each(log: EventLog, stops: Sequence[int], n_log: int) -> Callable[[pl.Series], Encoded]:
    """Every stop encodes from the symbols on."""
    encoders = [Encoder(EventLog(log.header, log.events[:events])) for events in stops]

    def encoded(chunks: pl.Series) -> Encoded:
        for encoder in encoders:
            yield encoder.encode_distinct(chunks)

    return encoded


def growth_on_texts(
    log: EventLog, texts: Sequence[str], resources: Resources, how: SourceOptions = SourceOptions()
) -> list[Stop]:
    """Texts at every stop, by model id: one encoding per stop."""
    sources, _ = find_sources(list(texts), how)
    found = []
    for events, size in choose_stops(log):
        tokenizer = Tokenizer.from_event_log(EventLog(log.header, log.events[:events]))
        total = no_uses(tokenizer)
        for source in sources:
            total += count_uses(tokenizer, source, resources)
        found.append(Stop(events, size, total.n, total.bytes))
    return found
