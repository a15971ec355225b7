"""A training's tables in state.duckdb, brought up to its journal every few seconds while it learns, and at the end. A
process that holds the file meanwhile only delays this.

The engine tells the pairs that may come next (table pair_counts). With words on disk it must end its stage for that and
begin another, so there pairs are told more seldom than events; table facts says after how many events they were
told."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import NamedTuple

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from streambpe.encode.encoder import Encoder
from streambpe.errors import StoreHeld
from streambpe.failpoints import failpoint
from streambpe.model.eventlog import Event, EventLog
from streambpe.resources import BASE_BYTES
from streambpe.store.database import append, incoming, put_facts, use_training
from streambpe.store.journal import Journal
from streambpe.store.merge import merged_lists
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.store.trainings import (
    FOLD_BYTES,
    TokenCounts,
    TokenTable,
    event_rows,
    fill_token_counts,
    fold_training,
    read_facts,
)
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.learning import HotPairs
from streambpe.train.extension import TOKEN_BYTES
from streambpe.train.pace import Pace
from streambpe.train.superwords.runs import RunTable
from streambpe.train.training import Start, TrainResult
from streambpe.train.words import count_tokens

_WEIGHED_BYTES = 2 << 20  # of weighted counts, appended at a time
_SELDOM = 12  # checkpoints, at least, between two times that pairs are told from disk
_MOST_PAIRS = 1 << 16  # that are told while learning goes on, unless more tie for the best


class Standing(NamedTuple):
    """What stands in the words, or in the runs of documents once superwords are learned; the engine tells it early, so
    that it may end before the tables are filled."""

    pairs: HotPairs
    tokens: TokenCounts | None  # once nothing more is learned


class Joined(msgspec.Struct, frozen=True):
    """Words and superwords in one order."""

    journal: Journal  # of that order; never written
    book: TokenTable
    ahead: list[Event]  # word steps that found no place, under the ids they would have got next
    runs: RunTable | None  # none with uw, whose neighbours and tokens are not those of chunk_counts
    standing: Standing  # superwords that may come next
    documents_sum: str  # for the log's header


class Tables:
    """Fills the tables of one training, while it learns and at its end."""

    def __init__(self, start: Start, least_seconds: float, stop: threading.Event) -> None:
        """`least_seconds`: pairs are told at most once in this time, and where learning is asked to stop."""
        self.training, self.start, self.stop = start.training, start, stop
        self._from_memory, self._from_disk = Pace(least_seconds), Pace(_SELDOM * least_seconds)
        self._filled_from: Journal | None = None  # in this process

    def publish(self, engine: Engine, journal: Journal, book: TokenTable) -> None:
        """Bring the tables as far as the journal is, without waiting for another process."""
        standing, pace = None, self._from_disk if engine.learning.kind == "scan" else self._from_memory
        if pace.is_due() or self.stop.is_set():
            with pace.timed():
                standing = Standing(engine.pairs_from(1).best(_MOST_PAIRS), None)
        self.try_fill(journal, book, standing, wait_seconds=0.0)

    def try_fill(
        self,
        journal: Journal,
        book: TokenTable,
        standing: Standing | None = None,
        *,
        wait_seconds: float,
        finished: TrainResult | None = None,
        joined: Joined | None = None,
    ) -> bool:
        """Add events, tokens, passes and vetoes since the last time, and what follows from all of them, in one
        transaction; False if somebody held the file all the time.

        `standing` brings the pair counts too; without it those of an earlier event stay, and table facts says which. At
        the end there is no engine beside DuckDB, which may then take more memory.
        """
        resources = self.training.resources
        known = BASE_BYTES + TOKEN_BYTES * self.start.brought
        memory_bytes = max(FOLD_BYTES, (resources.memory_bytes - known) // 2) if finished else FOLD_BYTES
        writing = self.training.run.writing(
            memory_bytes=memory_bytes,
            threads=resources.threads,
            temp_dir=resources.temp_dir,
            wait_seconds=wait_seconds,
        )
        with contextlib.ExitStack() as held:
            try:
                con = held.enter_context(writing)
            except StoreHeld:
                return False
            con.begin()
            use_training(con, self.training.name, create=True)
            anew = journal is not self._filled_from
            fold_training(con, journal, book, anew=anew)
            if self.start.corpus.weighed:
                self._fill_weighted_counts(con)
            facts = self._facts(journal, finished)
            if standing is not None:
                facts["pair_counts_at"] = facts["events"]
                facts["pair_floor"] = str(standing.pairs.floor)
                _fill_pair_counts(con, standing.pairs)
            else:
                facts["pair_counts_at"] = read_facts(con).get("pair_counts_at", "")
            counts = standing.tokens if standing is not None else None
            encoded = counts is not None and bool(self.training.config.unk or self.training.inherited)
            if joined is not None:
                facts |= _fill_superwords(con, joined)
                encoded = joined.runs is not None
            if encoded:
                counts = self._count_in_chunks(journal, book)
            fill_token_counts(con, counts, self.training.config, encoded=encoded)
            facts["token_counts_at"] = "" if counts is None else facts["events"]
            put_facts(con, "facts", facts)
            failpoint("tables-filled")
            self.training.run.commit(con, {})
            self._filled_from = journal
        failpoint("tables-committed")
        return True

    def _fill_weighted_counts(self, con: duckdb.DuckDBPyConnection) -> None:
        """Fill them once, from what the training learns from: group_counts may have been edited since it was read."""
        if run_sql(con, "has_weighted_counts") == [(False,)]:
            for rows in merged_lists(self.start.corpus.weighed, _WEIGHED_BYTES):
                append(con, "weighted_counts", rows.table())

    def _facts(self, journal: Journal, finished: TrainResult | None) -> dict[str, str]:
        """Table facts, without those about the tables that follow from all events."""
        facts = {
            "config": json.dumps(journal.training),
            "events": str(len(journal.events)),
            "batches": str(len(journal.batches)),
            "vetoed": str(len(journal.vetoes)),
            "state": "done" if finished else "unfinished",
        }
        if "left_out" in journal.training:
            facts["left_out"] = json.dumps(journal.training["left_out"])
        if self.training.config.unk:
            facts["unknown"] = str(self.start.uncovered.n)
        if finished:
            facts["sha256"] = finished.sha256
            facts["size"] = str(finished.size)
            facts["reached"] = str(finished.reached).lower()
        return facts

    def _count_in_chunks(self, journal: Journal, book: TokenTable) -> TokenCounts:
        """The tokens in all chunks but stop words, which are encoded. The engine knows only what stands between unknown
        characters, not the chunks that are one token of a model that is extended, and with superwords not which merges
        found no place."""
        encoder = Encoder(EventLog(self.start.header(None, book.learned), tuple(journal.events)))
        return count_tokens(self.start.corpus.chunks, encoder)


def _fill_pair_counts(con: duckdb.DuckDBPyConnection, pairs: HotPairs) -> None:
    """Fill in the pairs that the engine knows."""
    pairs = pairs.only(np.argsort(pairs.left << 32 | pairs.right))  # ids are below 2^31
    run_sql(con, "clear_pair_counts")
    append(con, "pair_counts", pa.table(list(pairs[:3]), names=["left_id", "right_id", "n"]))


def _fill_superwords(con: duckdb.DuckDBPyConnection, joined: Joined) -> dict[str, str]:
    """Fill in neighbours, runs, and word steps that found no place; returns the facts about them."""
    facts: dict[str, str] = {}
    run_sql(con, "clear_superwords")
    if (runs := joined.runs) is not None:
        with incoming(con, runs.chunks):
            path, floor = str(runs.neighbours), runs.floor
            run_sql(con, "steps/publish_neighbours", neighbours=path, adjacency_floor=floor)
            numbered = query_frame(con, "get_chunk_numbers")
        facts["adjacency_floor"] = str(runs.floor)
        failpoint("neighbours-published")
        facts["superword_runs"] = "filled"
        for rows in runs.rows(numbered):
            append(con, "superword_run_numbers", rows)
    run_sql(con, "clear_words_ahead")
    append(con, "events", event_rows(joined.ahead, None))
    return facts
