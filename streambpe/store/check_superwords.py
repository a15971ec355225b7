"""Table superword_adjacency against the stored documents, counted again chunk by chunk as text.

The trainer looks chunks up as numbers, group by group, and joins sums of keys. Here every part's documents are
turned into a column of chunks, beside the column of their right neighbours, and DuckDB adds the parts up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from streambpe.config import TrainConfig
from streambpe.encode.alphabet import Alphabet
from streambpe.encode.eligible import text_test
from streambpe.encode.eventlog import Event, Op
from streambpe.store.chunks import Part
from streambpe.store.recount import Replay, encode_words
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts, read_sequence
from streambpe.store.sqlfiles import run_sql


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


def check_adjacency(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    floor: int,
    eligible: Sequence[str],
) -> Iterator[tuple[Any, ...]]:
    """Rows (left_chunk, right_chunk, in table, recounted) that differ."""
    run_sql(con, "steps/make_adjacency_recount")
    known = pl.Series("chunk", list(eligible), dtype=pl.String)
    last: str | None = None  # the chunk before this part, if its document goes on here
    for part in order_parts(run, parts):
        chunks, ids = read_sequence(run.sequences, part.name)
        text = chunks.append(pl.Series("chunk", [None], dtype=pl.String))[ids]
        if part.follows:
            text = pl.concat([pl.Series("chunk", [last], dtype=pl.String), text])
        last = text[-1] if len(text) else None
        frame = pl.DataFrame({"left_chunk": text, "right_chunk": text.shift(-1)}).drop_nulls()
        frame = frame.filter(pl.col("left_chunk").is_in(known.implode()), pl.col("right_chunk").is_in(known.implode()))
        counted = frame.group_by("left_chunk", "right_chunk").agg(pl.len().cast(pl.Int64).alias("n"))
        con.register("incoming", counted.to_arrow())
        run_sql(con, "steps/insert_adjacency_recount")
        con.unregister("incoming")
    yield from run_sql(con, "checks/superword_adjacency", adjacency_floor=floor)
