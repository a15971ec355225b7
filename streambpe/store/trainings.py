"""The tables of a training (sql/schema/training.sql), filled from its journal.

Events, tokens, passes and vetoes only ever grow, so a fold appends what came since the last one; pair
counts are replaced, and which tokens are dead follows from the events. Tables that were filled from another
journal (table facts names it) are made anew. Everything happens in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import shown_content
from streambpe.model.events import OPS, Event, Events, Op, delete_event, merge_event
from streambpe.store.database import append, feed
from streambpe.store.sqlfiles import run_sql

_EVENT_COLUMNS: dict[str, Any] = {
    "seq": pl.Int64,
    "op": pl.String,
    "left_id": pl.Int64,
    "right_id": pl.Int64,
    "id": pl.Int64,
    "n": pl.Int64,
    "parts": pl.List(pl.Int64),
}
_TOKEN_COLUMNS = {"id": pl.Int64, "bytes": pl.Binary, "kind": pl.String, "born": pl.Int64, "died": pl.Int64}
_BATCH_COLUMNS = (
    "batch", "first_seq", "events", "seconds", "mode", "candidates", "occurrences", "executed", "positions",
    "rounds", "stopped_by", "refills", "spills", "switched", "hot_pairs", "pair_floor", "places", "memory_bytes",
)  # fmt: skip
_VETO_COLUMNS = ("seq", "left", "right", "n")


@dataclass
class TokenTable:
    """What every log id stands for and when it was born; grows with the events."""

    alphabet: Alphabet
    contents: list[bytes]  # of id first_id + i: the alphabet, the stop words, then what was learned
    stop_words: int
    born: list[int | None]
    dead: set[int] = field(default_factory=set)  # deleted now

    @classmethod
    def of(cls, alphabet: Alphabet, stop_words: Sequence[bytes]) -> TokenTable:
        """Before the first event."""
        contents = [*alphabet.symbols, *stop_words]
        return cls(alphabet, contents, len(stop_words), [None] * len(contents))

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return len(self.contents) - len(self.alphabet) - self.stop_words - len(self.dead)

    def add(self, events: Sequence[Event], seq: int) -> None:
        """Take in events, the first of which is number `seq`."""
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

    def rows(self, start: int) -> pl.DataFrame:
        """Rows of table tokens from the start-th on."""
        kinds = ["base"] * len(self.alphabet) + ["stop word"] * self.stop_words
        kinds += ["learned"] * (len(self.contents) - len(kinds))
        ids = range(self.alphabet.first_id, self.alphabet.first_id + len(self.contents))
        shown = self.contents[start:]
        if self.alphabet.kind == "script":
            shown = [
                content if kind == "stop word" else shown_content(self.alphabet, content)
                for content, kind in zip(shown, kinds[start:], strict=True)
            ]
        columns = {
            "id": ids[start:],
            "bytes": shown,
            "kind": kinds[start:],
            "born": self.born[start:],
            "died": [None] * len(shown),
        }
        return pl.DataFrame(columns, schema=_TOKEN_COLUMNS)


def event_rows(events: Sequence[Event], seq: int) -> pl.DataFrame:
    """Rows of table events; the first event is number `seq`."""
    columns = Events.of(events)
    op = columns.column("op")
    deleted = pl.lit(pl.Series(op == OPS.index(Op.DELETE)))
    frame = pl.DataFrame(
        {
            "seq": np.arange(seq, seq + len(columns)),
            "op": pl.Series([str(one) for one in OPS]).gather(op),
            "left_id": columns.column("left"),
            "right_id": columns.column("right"),
            "id": columns.column("id"),
            "n": columns.column("n"),
        }
    )
    parts: pl.Expr | pl.Series = pl.lit(None, _EVENT_COLUMNS["parts"]).alias("parts")
    if columns.into:
        parts = pl.Series("parts", [columns.into.get(at) for at in range(len(columns))], _EVENT_COLUMNS["parts"])
    return frame.with_columns(
        pl.when(~deleted).then("left_id").alias("left_id"), pl.when(~deleted).then("right_id").alias("right_id"), parts
    )


def read_facts(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Table facts of the connection's training."""
    return dict(run_sql(con, "get_facts"))


def read_words_ahead(con: duckdb.DuckDBPyConnection) -> list[Event]:
    """The steps of phase one that are not in the model, in order."""
    return [
        delete_event(number, parts, n) if op == Op.DELETE else merge_event(left, right, number, n)
        for op, left, right, number, n, parts in run_sql(con, "get_words_ahead")
    ]


def list_batches(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Table batches of the connection's training, in order."""
    return [dict(zip(_BATCH_COLUMNS, row, strict=True)) for row in run_sql(con, "get_batches")]


def read_passes(
    con: duckdb.DuckDBPyConnection, events: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """The passes and vetoes of a finished training; None if they are not those of so many events."""
    batches = list_batches(con)
    vetoes = [dict(zip(_VETO_COLUMNS, row, strict=True)) for row in run_sql(con, "get_vetoed")]
    return (batches, vetoes) if sum(batch["events"] for batch in batches) == events else None


def pass_carried_over(events: int) -> dict[str, Any]:
    """A pass that stands for all events of a log whose own passes are not known."""
    return {**dict.fromkeys(_BATCH_COLUMNS, 0), "events": events, "seconds": 0.0, "mode": "unknown",
            "stopped_by": "unknown", "switched": False}  # fmt: skip


def fold_training(
    con: duckdb.DuckDBPyConnection,
    journal: str,
    events: Events,
    batches: Sequence[dict[str, Any]],
    vetoes: Sequence[dict[str, Any]],
    book: TokenTable,
) -> None:
    """Append to the tables of the connection's training what they do not hold yet of this journal."""
    if read_facts(con).get("journal") != journal:
        run_sql(con, "drop_training")
        run_sql(con, "schema/training")
    ((n_events, n_batches, n_tokens, n_vetoed),) = run_sql(con, "count_folded")
    append(con, "events", event_rows(events[n_events:], n_events))
    append(con, "tokens", book.rows(n_tokens))
    if events.into:  # deletions; of an earlier fold too: what was dead may be back
        run_sql(con, "steps/mark_dead_tokens")
    if len(batches) > n_batches:
        append(con, "batches", pl.DataFrame(batches[n_batches:], infer_schema_length=None))
    if len(vetoes) > n_vetoed:
        rows = [[veto[key] for key in _VETO_COLUMNS] for veto in vetoes[n_vetoed:]]
        schema = {"seq": pl.Int64, "left_id": pl.Int64, "right_id": pl.Int64, "n": pl.Int64}
        append(con, "vetoed", pl.DataFrame(rows, schema=schema, orient="row"))


def fill_weighted_counts(con: duckdb.DuckDBPyConnection, frames: Iterable[pl.DataFrame]) -> None:
    """Table weighted_counts, from (chunk, n); they do not change while a training goes on, so it is filled once."""
    ((there,),) = run_sql(con, "has_weighted_counts")
    if not there:
        for frame in frames:
            append(con, "weighted_counts", frame)


def fill_token_counts(
    con: duckdb.DuckDBPyConnection,
    ids: npt.NDArray[np.int64],
    n: npt.NDArray[np.int64],
    alone: npt.NDArray[np.int64],
    *,
    freq_cutoff: int,
    symbols_spell_chunks: bool,
    deletions: bool,
) -> None:
    """Table token_counts, from how often each token stands in the words that the engine holds.

    Without deletions those are the chunks of several tokens, with them all of several symbols.
    """
    feed(
        con,
        "steps/fill_token_counts",
        pl.DataFrame({"id": ids, "n": n, "alone": alone}),
        freq_cutoff=freq_cutoff,
        symbols_spell_chunks=symbols_spell_chunks,
        deletions=deletions,
    )
