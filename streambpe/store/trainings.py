"""The tables of a training (sql/schema/training.sql), filled from its journal.

The tables of events, tokens, passes and vetoes only grow, so a fold appends what came since the last one; pair
counts are replaced, and which tokens are dead follows from the events. The first time that a process fills the tables
from a journal, they are made anew. Everything happens in the caller's transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
from msgspec import structs

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import shown_content
from streambpe.model.events import OPS, Event, Events, Op
from streambpe.store.database import append, feed, list_trainings, open_store, use_training
from streambpe.store.journal import Journal
from streambpe.store.passes import PassRow, VetoRow
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql

TokenCounts = tuple[Int64, Int64, Int64]  # id, n, alone: as Engine.token_counts
FOLD_BYTES = 64 << 20  # of DuckDB, while the engine's arrays are in memory


class TokenTable(msgspec.Struct):
    """What every log id stands for and when it was born; grows with the events."""

    alphabet: Alphabet
    contents: list[bytes]  # place i is id first_id + i: the alphabet, the stop words, then learned tokens
    stop_words: int
    born: list[int | None]
    dead: set[int] = msgspec.field(default_factory=set)  # ids that are deleted now

    @classmethod
    def of(cls, alphabet: Alphabet, stop_words: Sequence[bytes]) -> TokenTable:
        """The table before the first event."""
        contents = [*alphabet.symbols, *stop_words]
        return cls(alphabet, contents, len(stop_words), [None] * len(contents))

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return len(self.contents) - len(self.alphabet) - self.stop_words - len(self.dead)

    def symbols(self) -> list[bytes]:
        """The bytes of every log id from 0 on, as the engine takes them: a stop word stands in no merge."""
        found = [b""] * self.alphabet.first_id + self.contents
        stops = self.alphabet.first_id + len(self.alphabet)
        found[stops : stops + self.stop_words] = [b""] * self.stop_words
        return found

    def add(self, events: Sequence[Event], seq: int) -> None:
        """Add events; the first is number `seq`."""
        columns = Events.of(events)
        first_id = self.alphabet.first_id
        left, right, ids = (columns.column(name) - first_id for name in ("left", "right", "id"))
        delete = (columns.column("op") == OPS.index(Op.DELETE)).tolist()
        next_one = len(self.contents)
        for at, (a, b, number) in enumerate(zip(left.tolist(), right.tolist(), ids.tolist(), strict=True)):
            if number == next_one:
                self.contents.append(self.contents[a] + self.contents[b])
                self.born.append(seq + at)
                next_one += 1
            elif delete[at]:
                self.dead.add(number + first_id)
            else:
                self.dead.discard(number + first_id)

    def rows(self, start: int) -> pa.Table:
        """Rows of table tokens from the start-th on."""
        kinds = ["base"] * len(self.alphabet) + ["stop word"] * self.stop_words
        kinds += ["learned"] * (len(self.contents) - len(kinds))
        shown, first = self.contents[start:], self.alphabet.first_id + start
        if self.alphabet.kind == "script":
            shown = [
                content if kind == "stop word" else shown_content(self.alphabet, content)
                for content, kind in zip(shown, kinds[start:], strict=True)
            ]
        return pa.table(
            {
                "id": np.arange(first, first + len(shown)),
                "bytes": pa.array(shown, pa.large_binary()),
                "kind": pa.array(kinds[start:], pa.string()),
                "born": pa.array(self.born[start:], pa.int64()),
                "died": pa.nulls(len(shown), pa.int64()),
            }
        )


def event_rows(events: Sequence[Event], seq: int | None) -> pa.Table:
    """Rows of table events; the first event is number `seq`; None: events have no numbers."""
    columns = Events.of(events)
    size, op = len(columns), columns.column("op")
    deleted = op == OPS.index(Op.DELETE)
    parts = pa.nulls(size, pa.list_(pa.int64()))
    if columns.into:
        parts = pa.array([columns.into.get(at) for at in range(size)], parts.type)
    return pa.table(
        {
            "seq": pa.nulls(size, pa.int64()) if seq is None else np.arange(seq, seq + size),
            "op": pa.DictionaryArray.from_arrays(op.astype(np.int8), [str(one) for one in OPS]),
            "left_id": pa.array(columns.column("left"), mask=deleted),
            "right_id": pa.array(columns.column("right"), mask=deleted),
            "id": columns.column("id"),
            "n": columns.column("n"),
            "parts": parts,
        }
    )


@contextlib.contextmanager
def open_tables(run: Run, name: str) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """The tables of a training, to be read; None if there are none."""
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        if name in list_trainings(con):
            use_training(con, name)
            yield con
        else:
            yield None


def read_facts(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Table facts of the connection's training."""
    return dict(run_sql(con, "get_facts"))


def list_batches(con: duckdb.DuckDBPyConnection) -> list[PassRow]:
    """Table batches of the connection's training, in order."""
    return [PassRow(*row) for row in run_sql(con, "get_batches")]


def read_passes(con: duckdb.DuckDBPyConnection, events: int) -> tuple[list[PassRow], list[VetoRow]] | None:
    """The passes and vetoes of a finished training; None if its passes do not add up to so many events."""
    batches = list_batches(con)
    vetoes = [VetoRow(*row) for row in run_sql(con, "get_vetoed")]
    return (batches, vetoes) if sum(batch.events for batch in batches) == events else None


def fold_training(con: duckdb.DuckDBPyConnection, journal: Journal, book: TokenTable, *, anew: bool) -> None:
    """Append to the tables of the connection's training what they do not yet hold; `anew`: they hold nothing of it."""
    events = journal.events
    if anew:
        run_sql(con, "drop_training")
        run_sql(con, "schema/training")
    ((n_events, n_batches, n_tokens, n_vetoed),) = run_sql(con, "count_folded")
    append(con, "events", event_rows(events[n_events:], n_events))
    append(con, "tokens", book.rows(n_tokens))
    run_sql(con, "fill_stop_words")
    if events.into:  # there were deletions, if only before the last fold: a dead token may be learned again
        run_sql(con, "steps/mark_dead_tokens")
    append(con, "batches", pa.Table.from_pylist(list(map(structs.asdict, journal.batches[n_batches:]))))
    if len(journal.vetoes) > n_vetoed:
        new = pa.Table.from_pylist(list(map(structs.asdict, journal.vetoes[n_vetoed:])))
        append(con, "vetoed", new.rename_columns({"left": "left_id", "right": "right_id"}))


def fill_token_counts(
    con: duckdb.DuckDBPyConnection, counts: TokenCounts | None, config: TrainConfig, *, encoded: bool
) -> None:
    """Table token_counts, from how often each token stands in the words that the engine holds, or `encoded`, in all
    chunks; it is emptied if that is not known.

    Without deletions these words are the chunks of several tokens; with deletions, all chunks of several symbols.
    """
    if counts is None:
        run_sql(con, "clear_token_counts")
        return
    ((longest,),) = run_sql(con, "get_longest_token")
    feed(
        con,
        "steps/fill_token_counts",
        pa.table(list(counts), names=["id", "n", "alone"]),
        freq_cutoff=config.freq_cutoff,
        symbols_spell_chunks=config.encoding == "bytes" and not encoded,
        deletions=config.tau is not None or encoded,
        longest_token=longest,
    )
