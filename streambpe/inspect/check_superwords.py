"""Tables superword_adjacency, superword_chunks and superword_run_numbers against the stored documents, counted again
chunk by chunk as text.

The trainer looks chunks up as numbers, group by group, and joins sums of keys. Here every part's documents are
turned into a column of chunks, beside the column of their right neighbours, and DuckDB adds the parts up. Runs are then
stretches of these columns, and added up as lists of text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from streambpe.config import TrainConfig
from streambpe.inspect.recount import Replay, encode_words
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Op
from streambpe.store.database import append, feed
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts, read_sequence
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.text.eligible import text_test


def eligible_chunks(
    alphabet: Alphabet, stop_words: Sequence[str], events: Sequence[Event], ahead: Sequence[Event], config: TrainConfig
) -> list[str]:
    """The chunks that all word steps of phase one make one token, and that match.

    ahead: the word steps that are not among the events of the model.
    """
    content = dict(enumerate(alphabet.symbols, alphabet.first_id))
    for event in (*events, *ahead):
        if event.op is not Op.DELETE:
            left, right = event.pair
            content[event.id] = content[left] + content[right]
    words = [event for event in (*events, *ahead) if event.op is not Op.SUPERMERGE]
    replay, matches = Replay(words), text_test(config.superword_pattern, "--superword-pattern")
    table = np.full(256, -1, np.int64)
    for number, symbol in enumerate(alphabet.symbols, alphabet.first_id):
        table[symbol[0]] = number
    stops = set(stop_words)
    base = range(alphabet.first_id, alphabet.first_id + len(alphabet))
    numbers = dict.fromkeys([*base, *(event.id for event in words)])
    asked = [i for i in numbers if matches(content[i]) and content[i].decode() not in stops]
    symbols = table[np.frombuffer(b"".join(content[number] for number in asked), np.uint8)]
    found = []
    for tokens, word in encode_words(replay, symbols, np.array([len(content[number]) for number in asked], np.int64)):
        whole = np.flatnonzero(np.bincount(word)[word] == 1)
        found += [place for token, place in zip(tokens[whole], word[whole], strict=True) if token == asked[place]]
    return [content[asked[place]].decode() for place in sorted(found)]


def check_superwords(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    floor: int,
    eligible: Sequence[str],
    with_runs: bool,
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(table, row) of superword_adjacency, superword_chunks and view superword_runs for every row that differs.

    with_runs: a training from before there were tables of runs has none.
    """
    run_sql(con, "make_adjacency_recount")
    known = pl.Series("chunk", list(eligible), dtype=pl.String)
    last: str | None = None  # the chunk before this part, if its document goes on here
    for text, follows in _texts(run, parts):
        if follows:
            text = pl.concat([pl.Series("chunk", [last], dtype=pl.String), text])
        last = text[-1] if len(text) else None
        frame = pl.DataFrame({"left_chunk": text, "right_chunk": text.shift(-1)}).drop_nulls()
        frame = frame.filter(pl.col("left_chunk").is_in(known.implode()), pl.col("right_chunk").is_in(known.implode()))
        counted = frame.group_by("left_chunk", "right_chunk").agg(pl.len().cast(pl.Int64).alias("n"))
        append(con, "recounted_adjacency", counted)
    for row in run_sql(con, "checks/superword_adjacency", adjacency_floor=floor):
        yield "superword_adjacency", row
    if not with_runs:
        return
    for row in run_sql(con, "checks/superword_chunks", adjacency_floor=floor):
        yield "superword_chunks", row
    run_sql(con, "make_run_recount")
    for runs in _runs(_texts(run, parts), query_frame(con, "steps/list_adjacency_recount", adjacency_floor=floor)):
        feed(con, "steps/add_run_recount", runs)
    for row in run_sql(con, "checks/superword_runs"):
        yield "superword_runs", row


def _texts(run: Run, parts: Sequence[Part]) -> Iterator[tuple[pl.Series, bool]]:
    """(every part's chunks, with a null behind each document, whether its first document is the part in front's)."""
    for part in order_parts(run, parts):
        chunks, ids = read_sequence(run.sequences, part.name)
        yield chunks.append(pl.Series("chunk", [None], dtype=pl.String))[ids], part.follows


def _runs(texts: Iterable[tuple[pl.Series, bool]], kept: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Rows (chunks), one for every place of a run; one that goes on in the next part waits for it."""
    waiting = pl.Series("chunk", [], dtype=pl.String)
    between = pl.Series("chunk", [None], dtype=pl.String)
    for more, follows in itertools.chain(texts, [(between, False)]):
        text = pl.concat([waiting, more] if follows else [waiting, between, more])
        if not len(text):
            continue
        beside = pl.DataFrame({"left_chunk": text, "right_chunk": text.shift(-1)})
        found = beside.join(kept.with_columns(together=True), how="left", maintain_order="left", on=beside.columns)
        together = found["together"].fill_null(False).to_numpy()  # a chunk with the next
        before = np.concatenate(([False], together[:-1]))
        last = int(np.flatnonzero(~before)[-1])  # where the stretch at the end begins
        waiting = text[last:]
        inside = (together | before)[:last]
        starts = np.flatnonzero((~before[:last])[inside])
        offsets = pl.Series(np.append(starts, inside.sum()))
        chunks = pa.LargeListArray.from_arrays(offsets.to_arrow(), text[:last].filter(pl.Series(inside)).to_arrow())
        yield pl.DataFrame({"chunks": pl.from_arrow(chunks)})
