"""Comparing views superword_adjacency and superword_runs, and table superword_chunks, with the stored documents,
counted again.

The chunks that may stand in superwords are sorted and numbered here, independently of the trainer's numbers. Every
part's documents are turned into a column of these numbers, beside the column of their right neighbours; any other chunk
is 0. numpy counts each part, DuckDB adds the parts up. Runs are then stretches of these columns, and are added up as
lists of numbers. Only rows that differ from the tables are turned back into text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from streambpe.arrays import Bool, Int32, Int64
from streambpe.config import TrainConfig
from streambpe.inspect.recount import Replay, encode_words
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Op
from streambpe.store.database import append, feed
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.sequences import OfChunks, order_parts, read_stretch
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.text.eligible import text_test

_PLACES_AT_ONCE = 1 << 18  # of the documents: about 100 bytes each while neighbours and runs are counted


def eligible_chunks(
    alphabet: Alphabet, stop_words: Sequence[str], events: Sequence[Event], ahead: Sequence[Event], config: TrainConfig
) -> list[str]:
    """The chunks that are one token after all word steps of phase one, and that match the pattern of superwords.

    `ahead`: the word steps that are not among the events of the model.
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
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(table, row) of superword_adjacency, superword_chunks and superword_runs for every row that differs."""
    known = pl.Series("chunk", sorted(set(eligible)), dtype=pl.String)
    run_sql(con, "make_chunk_recount")
    append(con, "recounted_chunks", pl.DataFrame({"number": np.arange(1, len(known) + 1), "chunk": known}))
    run_sql(con, "make_adjacency_recount")
    last = np.zeros(1, np.int32)  # the chunk before this part
    for numbers, follows in chunk_numbers(run, parts, known):
        text = np.concatenate((last if follows else last[:0], numbers))
        last = text[-1:] if len(text) else np.zeros(1, np.int32)
        keys, n = np.unique(_neighbours(text), return_counts=True)
        keys, n = keys[keys >= 0], n[keys >= 0]
        counted = {"left_number": keys >> 32, "right_number": keys & 0xFFFFFFFF, "n": n}
        append(con, "recounted_adjacency", pl.DataFrame(counted))
    for row in run_sql(con, "checks/superword_adjacency", adjacency_floor=floor):
        yield "superword_adjacency", row
    for row in run_sql(con, "checks/superword_chunks", adjacency_floor=floor):
        yield "superword_chunks", row
    run_sql(con, "make_run_recount")
    kept = query_frame(con, "steps/list_adjacency_recount", adjacency_floor=floor)
    joins = pl.Series(_keys(*(kept[name].to_numpy() for name in kept.columns))).implode()
    for runs in stretches(chunk_numbers(run, parts, known), lambda keys: pl.Series(keys).is_in(joins).to_numpy()):
        feed(con, "steps/add_run_recount", runs)
    for row in run_sql(con, "checks/superword_runs"):
        yield "superword_runs", row


def chunk_numbers(run: Run, parts: Sequence[Part], known: pl.Series) -> Iterator[tuple[Int32, bool]]:
    """The documents, some places at a time: (chunks by their numbers among the known ones, with a 0 behind each
    document; whether the first document goes on from the places before)."""
    table = pl.DataFrame({"chunk": known, "number": np.arange(1, len(known) + 1, dtype=np.int32)})

    def numbers(chunks: pl.Series) -> Int32:
        found = chunks.to_frame("chunk").join(table, on="chunk", how="left", maintain_order="left")["number"]
        return np.append(found.fill_null(0).to_numpy(), np.int32(0))  # END_OF_DOCUMENT is -1

    of_chunks = OfChunks(run.sequences, numbers)
    for part in order_parts(run, parts):
        known_as, ids = read_stretch(run.sequences, part, of_chunks)
        for at in range(0, max(len(ids), 1), _PLACES_AT_ONCE):
            yield known_as[ids[at : at + _PLACES_AT_ONCE]], part.follows or at > 0


def _keys(left: Int32, right: Int32) -> Int64:
    return (left.astype(np.int64) << 32) | right


def _neighbours(numbers: Int32) -> Int64:
    """Each chunk and the next as one key; -1 where one of the two is not a known chunk."""
    left, right = numbers[:-1], numbers[1:]
    return np.where((left > 0) & (right > 0), _keys(left, right), -1)


def stretches(parts: Iterable[tuple[Int32, bool]], joined: Callable[[Int64], Bool]) -> Iterator[pl.DataFrame]:
    """Rows (numbers), one for each stretch of joined neighbours, everywhere it stands; a stretch that may go on in the
    next part waits for it. `joined`: whether the two chunks of a key are joined; see `_neighbours`."""
    between = waiting = np.zeros(1, np.int32)
    for more, follows in itertools.chain(parts, [(between, False)]):
        text = np.concatenate((waiting, more) if follows else (waiting, between, more))
        together = np.append(joined(_neighbours(text)), False)  # each chunk with the next
        before = np.concatenate(([False], together[:-1]))
        last = int(np.flatnonzero(~before)[-1])  # where the stretch at the end begins
        waiting = text[last:]
        inside = (together | before)[:last]
        starts = np.flatnonzero((~before[:last])[inside])
        numbers = pa.LargeListArray.from_arrays(np.append(starts, inside.sum()), pa.array(text[:last][inside]))
        yield pl.DataFrame({"numbers": pl.from_arrow(numbers)})
