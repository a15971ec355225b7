"""How a vocabulary fares as it grows: one pass over a run's chunks, stopping at several sizes.

    sizes   256        512         1 024  ...
    chunks  t h e      th e        the         encoded at every stop, and a histogram of it

Every histogram is exact: all chunks of the run, with their counts. Superwords reach across chunks; so models that have
them are measured on the documents that such runs store, or on texts.
Cost: one encoding of the distinct chunks per stop; memory: a range of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.count_config import SourceOptions
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.evaluate import count_uses, no_uses
from streambpe.inspect.measures import renyi_efficiency
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.replay import sizes as sizes_after
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.sources.source import Source
from streambpe.store.merge import merge_ranges
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import OfChunks, SequencePart, order_parts, read_stretch
from streambpe.text.chunker import END_OF_DOCUMENT

_MOST_STOPS = 12
_MOST_PLACES = 16 << 20  # chunks of stored documents that are measured at every stop: about 80 MB of text


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


def growth_on_chunks(run: Run, log: EventLog, meter: Meter, range_bytes: int = 4 << 20) -> list[Stop]:
    """All chunks of a run at every stop, by log id; so much of them is read at once. Not for models with superwords.
    `meter` advances by the chunks."""
    n_log = Encoder(log).n_log
    found = [Stop(events, size, np.zeros(n_log + 1, np.int64)) for events, size in choose_stops(log)]
    for stop in found:  # an encoder each: one at a time, for the memory
        encoder = Encoder(EventLog(log.header, log.events[: stop.events]))
        for frame in merge_ranges(list_parts(run), range_bytes):
            n: Int64 = frame["n"].to_numpy()
            stop.bytes += int((frame["chunk"].str.len_bytes().cast(pl.Int64) * frame["n"]).sum())
            ids, counts = encoder.encode_distinct(frame["chunk"])
            np.add.at(stop.n, np.where(ids < 0, n_log, ids), np.repeat(n, counts))
            if stop is found[-1]:
                meter.advance(frame.height)
    return found


def uses_on_chunks(run: Run, log: EventLog, range_bytes: int) -> tuple[Int64, int]:
    """(how often each log id is used in all chunks of a run, their bytes); so much is read at once."""
    encoder, total_bytes = Encoder(log), 0
    uses = np.zeros(encoder.n_log + 1, np.int64)
    for frame in merge_ranges(list_parts(run), range_bytes):
        n: Int64 = frame["n"].to_numpy()
        total_bytes += int((frame["chunk"].str.len_bytes().cast(pl.Int64) * frame["n"]).sum())
        ids, counts = encoder.encode_distinct(frame["chunk"])
        np.add.at(uses, np.where(ids < 0, encoder.n_log, ids), np.repeat(n, counts))
    return uses, total_bytes


def growth_on_documents(
    run: Run, log: EventLog, resources: Resources, meter: Meter
) -> tuple[list[Stop], tuple[int, int]]:
    """The run's stored documents at every stop, by model id; (stretches taken, all stretches): of a large corpus every
    second, third, ... stretch is taken, and a document ends where its stretch does. `meter` advances by the stops."""
    parts = order_parts(run, list_parts(run))
    step = -(-sum(part.places for part in parts) // _MOST_PLACES) or 1
    taken = parts[::step]
    stops = choose_stops(log)
    meter.begin("measuring", len(stops), "sizes")
    found = []
    for events, size in stops:
        tokenizer = Tokenizer.from_event_log(EventLog(log.header, log.events[:events]))
        texts = Source("documents", "iterator", texts=_stored_documents(run, taken, step > 1))
        total = no_uses(tokenizer)
        total += count_uses(tokenizer, texts, resources)
        found.append(Stop(events, size, total.n, total.bytes))
        meter.advance(1)
    return found, (len(taken), len(parts))


def _stored_documents(run: Run, parts: Sequence[SequencePart], apart: bool) -> Iterator[str]:
    """The texts of documents: their chunks put together. `apart`: no stretch goes on where the one before it ends."""
    of_chunks = OfChunks(run.sequences, lambda chunks: np.array([*chunks.to_list(), ""], dtype=object))
    begun: list[str] = []
    for part in parts:
        if begun and (apart or not part.follows):
            yield "".join(begun)
            begun = []
        chunks, ids = read_stretch(run.sequences, part, of_chunks)
        at = 0
        for end in np.flatnonzero(ids == END_OF_DOCUMENT).tolist():
            yield "".join([*begun, *chunks[ids[at:end]]])
            begun, at = [], end + 1
        begun += chunks[ids[at:]].tolist()
    if begun:
        yield "".join(begun)


def growth_on_texts(
    log: EventLog, texts: Sequence[str], resources: Resources, how: SourceOptions, meter: Meter
) -> list[Stop]:
    """Texts at every stop, by model id: one encoding per stop. `meter` advances by the bytes read."""
    sources, _ = find_sources(list(texts), how)
    found = []
    stops = choose_stops(log)
    meter.begin("measuring", len(stops) * sum(source.bytes for source in sources))
    for events, size in stops:
        tokenizer = Tokenizer.from_event_log(EventLog(log.header, log.events[:events]))
        total = no_uses(tokenizer)
        for source in sources:
            total += count_uses(tokenizer, source, resources, meter)
        found.append(Stop(events, size, total.n, total.bytes))
    return found
