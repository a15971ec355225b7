"""How a vocabulary fares as it grows: one pass over a run's chunks, stopping at several sizes.

    sizes   256        512         1 024  ...
    chunks  t h e ->   th e   ->   the         one replay of the events, a histogram at every stop

Every histogram is exact: all chunks of the run, at their counts. Superwords reach across chunks, which a run's
tables do not hold, so models that have them are measured on texts instead.
Cost: one encoding of the distinct chunks; memory: a range of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from streambpe.config import Resources
from streambpe.encode.bulk import BulkReplay
from streambpe.encode.encoder import Encoder
from streambpe.encode.eventlog import EventLog, Op
from streambpe.encode.replay import sizes as sizes_after
from streambpe.encode.tokenizer import Tokenizer
from streambpe.report.evaluate import count_uses, no_uses
from streambpe.report.measures import Int64, renyi_efficiency
from streambpe.store.chunks import list_parts, merge_ranges
from streambpe.store.run import Run
from streambpe.store.sources import find_sources

_RANGE_BYTES = 4 << 20
_MOST_STOPS = 12


@dataclass
class Stop:
    """The vocabulary after so many events."""

    events: int
    size: int  # model ids
    n: Int64  # uses of every id
    bytes: int = 0

    def values(self) -> dict[str, Any]:
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
    """(events, size): from the alphabet to the whole log, by factors; never between a merge and its deletions."""
    after = sizes_after(log.header, log.events)
    start = Encoder(EventLog(log.header, ())).model.n_vocab
    stops = {0: start}
    wanted = np.geomspace(max(start, 1), max(after[-1], start), _MOST_STOPS) if after else []
    for size in wanted:
        kept = next((i + 1 for i, found in enumerate(after) if found >= size), len(after))
        while kept < len(after) and log.events[kept].op is Op.DELETE:
            kept += 1
        stops[kept] = after[kept - 1]
    stops[len(after)] = after[-1] if after else start
    return sorted(stops.items())


def growth_on_chunks(run: Run, log: EventLog) -> list[Stop]:
    """All chunks of a run at every stop, by log id. Not for models with superwords."""
    stops = choose_stops(log)
    first = Encoder(EventLog(log.header, log.events[: stops[0][0]]))
    whole = Encoder(log)
    lengths = [0] * whole.model.vocabulary.first_id + [len(token.base) for token in whole.model.vocabulary.tokens]
    replays = [BulkReplay(log.events[low:high], whole.n_log, lengths) for (low, _), (high, _) in pairwise(stops)]
    found = [Stop(events, size, np.zeros(whole.n_log + 1, np.int64)) for events, size in stops]
    for frame in merge_ranges(list_parts(run), _RANGE_BYTES):
        n: Int64 = frame["n"].to_numpy()
        text_bytes = int((frame["chunk"].str.len_bytes().cast(int) * frame["n"]).sum())
        ids, counts = first.encode_distinct(frame["chunk"])
        for at, stop in enumerate(found):
            if at:
                known = np.where(ids < 0, np.int32(whole.n_log + 1), ids)  # no event touches what is unknown
                ids, counts = replays[at - 1].replay(known, counts)
            named = np.where((ids < 0) | (ids > whole.n_log), whole.n_log, ids)
            np.add.at(stop.n, named, np.repeat(n, counts))
            stop.bytes += text_bytes
    return found


def growth_on_texts(log: EventLog, texts: Sequence[str], resources: Resources, **how: Any) -> list[Stop]:
    """Texts at every stop, by model id: one encoding a stop."""
    sources, _ = find_sources(list(texts), **how)
    found = []
    for events, size in choose_stops(log):
        tokenizer = Tokenizer.from_event_log(EventLog(log.header, log.events[:events]))
        total = no_uses(tokenizer)
        for source in sources:
            total += count_uses(tokenizer, source, resources)
        found.append(Stop(events, size, total.n, total.bytes))
    return found
