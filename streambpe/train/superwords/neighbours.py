"""Which chunks stand side by side in the documents, and how often: the stored sequences, streamed.

    eligible    tokens that are a whole chunk and match --superword-pattern; a chunk's symbol is its token's log id
    symbols     a part's documents with every eligible chunk as its symbol, everything else as a BARRIER
    neighbours  (left, right) -> n over all parts: every adjacent place counts, also under --overlaps disjoint

Documents never join. Neighbours are counted by tasks (tasks.py) and added up by SQL (sums.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from streambpe.arrays import Int32, Int64
from streambpe.core.strings import as_buffers
from streambpe.encode.bulk import BulkReplay
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.eventlog import Event, Op
from streambpe.store.sequences import SequencePart, reader_of_stretches

BARRIER = -1  # a chunk that takes no part, or the end of a document
PART_BYTES = 64  # of a part's chunk while it is read


def find_eligible(
    alphabet: Alphabet,
    contents: Sequence[bytes],
    events: Sequence[Event],
    stop_words: Sequence[str],
    matches: Callable[[bytes], bool],
) -> pl.DataFrame:
    """Rows (chunk, symbol): the chunks that encode to one token and match.

    contents: of every log id from alphabet.first_id on. A chunk that is one token spells that token, so only the
    tokens' own bytes need to be looked at. Without deletions every token encodes to itself: where it was made of l and
    r, no earlier merge had crossed the ends of l r, so these bytes alone would have become l r as well (a run of equal
    symbols that goes on beyond an end was paired up to that end). With deletions the events are replayed.
    """
    first, base = alphabet.first_id, len(alphabet)
    stops = set(stop_words)
    found = []
    for i, content in enumerate(contents):
        if (i < base or i >= base + len(stop_words)) and matches(content):
            chunk = content.decode()
            if chunk not in stops:
                found.append((chunk, first + i))
    chunks = pl.DataFrame(found, schema={"chunk": pl.String, "symbol": pl.Int32}, orient="row")
    if not any(event.op is Op.DELETE for event in events):
        return chunks
    symbols, lengths = codec_of(alphabet, "error").split_many(*as_buffers(chunks["chunk"]))
    sizes = [0] * first + [len(content) for content in contents]
    ids, counts = BulkReplay(events, first + len(contents), sizes).replay(symbols, lengths)
    whole = counts == 1
    own = np.full(len(counts), -1)
    own[whole] = ids[(np.cumsum(counts) - counts)[whole]]
    return chunks.filter(pl.Series(own == chunks["symbol"].to_numpy()))


class PartsReader(ABC):
    """The parts of a run as symbols, in the order of the input."""

    parts: Sequence[SequencePart]
    effort: ClassVar[int] = 1  # how long reading takes; a task has that many times fewer places

    @property
    def places(self) -> int:
        """The places of all parts."""
        return sum(part.places for part in self.parts)

    @abstractmethod
    def read(self, part: SequencePart) -> Int32:
        """Symbols and barriers of one part. Only behind a symbol may its last document go on in the next part."""

    @abstractmethod
    def close(self) -> None:
        """Give back the memory that reading took; it can be read again."""

    def counting(self) -> PartsReader:
        """One that counts the merges of phase one in what it reads, if they count anything there."""
        return self

    def counted(self) -> tuple[Int64, Int64]:
        """(-1 less the place of each merge among the words, what it counted), ascending."""
        return np.empty(0, np.int64), np.empty(0, np.int64)


class SymbolReader(PartsReader):
    """Stored documents with every eligible chunk as its symbol, everything else as a barrier."""

    def __init__(self, folder: Path, parts: Sequence[SequencePart], eligible: pl.DataFrame) -> None:
        self.folder, self.parts, self.eligible = folder, parts, eligible
        self.close()

    def close(self) -> None:
        """See PartsReader."""
        self._read = reader_of_stretches(self.folder, self._look_up)

    def __reduce__(self) -> tuple[Any, ...]:
        """For Ray: what was looked up is looked up again there."""
        return SymbolReader, (self.folder, self.parts, self.eligible)

    def _look_up(self, chunks: pl.Series) -> Int32:
        joined = chunks.to_frame("chunk").join(self.eligible, on="chunk", how="left", maintain_order="left")["symbol"]
        # behind the chunks' own symbols stands the barrier that END_OF_DOCUMENT = -1 looks up
        return np.append(joined.fill_null(BARRIER).to_numpy(), np.int32(BARRIER))

    def read(self, part: SequencePart) -> Int32:
        """See PartsReader."""
        symbols, ids = self._read(part)
        return symbols[ids]
