"""What superwords ask of the documents, so that whoever learns never reads one.

    Documents   their places, their digest; as chunks that may join, or as tokens of a second stage (uw)
    Texts       the documents as symbols: neighbours counted, runs cut and counted

Numbers, arrays, tables and paths of files pass between the two sides, so the side of the documents may be other
processes. LocalDocuments reads the stored sequences of a RUN: in threads of this process, or by tasks (tasks.py,
stage2.py) where work.py finds a crew for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from streambpe.arrays import Bool, Int64
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event
from streambpe.store.documents import documents_digest
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart
from streambpe.text.patterns import Pattern
from streambpe.train.superwords.neighbours import PART_BYTES, PartsReader, SymbolReader, count_neighbours
from streambpe.train.superwords.runs import FoundRuns, OpenChunks, collect_runs, kept_pairs
from streambpe.train.superwords.stage2 import StageTwo, stage_two_crew
from streambpe.train.superwords.tasks import (
    NEIGHBOUR_SECONDS,
    RUN_SECONDS,
    RunShards,
    neighbour_shards,
    shard_neighbours,
    shard_runs,
)
from streambpe.train.superwords.work import Advance, Work

_TABLE_SHARE = 2  # of the free memory: the table of neighbours or runs takes one part
_REST_SHARE = 64  # and so does a document without a certain border


@dataclass(frozen=True)
class Kept:
    """The neighbours that runs are not cut between: these, and any of a chunk that is open on that side."""

    keys: Int64  # left << 32 | right, ascending
    open_chunks: OpenChunks
    symbols: int  # all symbols are below


@dataclass(frozen=True)
class SecondStage:
    """How documents become tokens: cut by a pattern, then encoded by words."""

    pattern: Pattern
    alphabet: Alphabet
    contents: Sequence[bytes]  # of every id of the words
    words: Sequence[Event]
    disjoint: bool


class Texts(Protocol):
    """The documents as symbols; what may not join is a barrier."""

    @property
    def places(self) -> int:
        """How many symbols and barriers."""

    def neighbours(self, work: Work, advance: Advance) -> list[Path]:
        """Files (key, n) that add up to the counts of all neighbours."""

    def runs(self, kept: Kept, name: str, work: Work, advance: Advance) -> FoundRuns:
        """All runs that hold two symbols or more. name: of their files."""


class Documents(Protocol):
    """The documents that superwords are learned from."""

    @property
    def places(self) -> int:
        """Their chunks and ends."""

    @property
    def facts(self) -> list[dict[str, Any]]:
        """What they are, part by part; equal for equal documents."""

    def digest(self, work: Work) -> str:
        """Which documents they are, in any order (store/documents.py)."""

    def as_chunks(self, eligible: pl.DataFrame) -> Texts:
        """Chunks of the rows (chunk, symbol) are symbols, all others barriers."""

    def as_tokens(self, how: SecondStage, work: Work, advance: Advance) -> tuple[Int64, Bool, Texts]:
        """(what each of the words counts there, whether its pair ever stood there, the tokens)."""


@dataclass(frozen=True)
class LocalTexts:
    """Texts that a reader gives in this process."""

    reader: PartsReader

    @property
    def places(self) -> int:
        """See Texts."""
        return self.reader.places

    def neighbours(self, work: Work, advance: Advance) -> list[Path]:
        """See Texts."""
        shards = neighbour_shards(self.reader, work.folder.absolute(), work.made_of)
        crew = shards.crew(work, NEIGHBOUR_SECONDS)
        if crew is not None:
            return shards.answer(shard_neighbours, crew, advance)
        threads, table_bytes = _readers(self.reader.parts, work), work.memory_bytes // _TABLE_SHARE
        return count_neighbours(self.reader, work.folder, threads, table_bytes, advance, work.made_of)

    def runs(self, kept: Kept, name: str, work: Work, advance: Advance) -> FoundRuns:
        """See Texts."""
        shards = RunShards(
            "runs", work.folder.absolute(), work.made_of, self.reader, name, kept.keys, kept.open_chunks, kept.symbols
        )
        crew = shards.crew(work, RUN_SECONDS)
        if crew is not None:
            return FoundRuns(shards.answer(shard_runs, crew, advance))
        threads, table_bytes = _readers(self.reader.parts, work), work.memory_bytes // _TABLE_SHARE
        pairs = kept_pairs(kept.keys, kept.open_chunks, kept.symbols)
        return collect_runs(self.reader, pairs, work.folder, name, threads, table_bytes, advance, work.made_of)


@dataclass(frozen=True)
class LocalDocuments:
    """The stored documents of a RUN."""

    run: Run
    parts: Sequence[SequencePart]

    @property
    def places(self) -> int:
        """See Documents."""
        return sum(part.places for part in self.parts)

    @property
    def facts(self) -> list[dict[str, Any]]:
        """See Documents."""
        return [asdict(part) for part in self.parts]

    def digest(self, work: Work) -> str:
        """See Documents."""
        return documents_digest(self.run, self.parts, _readers(self.parts, work))

    def as_chunks(self, eligible: pl.DataFrame) -> Texts:
        """See Documents."""
        return LocalTexts(SymbolReader(self.run.sequences.absolute(), self.parts, eligible))

    def as_tokens(self, how: SecondStage, work: Work, advance: Advance) -> tuple[Int64, Bool, Texts]:
        """See Documents."""
        stage = StageTwo(
            self.run.sequences, self.parts, how.pattern, how.alphabet, how.contents, how.words, how.disjoint,
            work.folder / "stage2", work.memory_bytes // _REST_SHARE, work.made_of,
        )  # fmt: skip
        reader = stage.write_by(stage_two_crew(self.parts, work), advance)
        return *stage.counted(), LocalTexts(reader)


def _readers(parts: Sequence[SequencePart], work: Work) -> int:
    """How many threads may each hold a part."""
    largest = max((part.places for part in parts), default=0)
    return max(1, min(work.threads, work.memory_bytes // 2 // max(1, largest * PART_BYTES)))
