"""Counting again which superwords come next, while they are learned and when they are done: table pair_counts and the
stored documents.

The documents are cut where chunks may not join (uw: by the pattern of the second stage), every stretch is encoded by
the superwords so far, and its pairs are counted. The trainer also cuts where neighbours are rare; this does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig
from streambpe.inspect.check_superwords import chunk_numbers, eligible_chunks, stretches
from streambpe.inspect.recount import Replay, encode_words, pair_counts
from streambpe.model.eventlog import Event, Op, merge_event
from streambpe.model.vocabulary import Vocabulary
from streambpe.store.database import append
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.text.patterns import Pattern
from streambpe.train.joining import stage_patterns
from streambpe.train.superwords.rules import join_rule, symbol_contents
from streambpe.train.superwords.stage2 import StageTwo

_REST_BYTES = 64 << 20  # held of a document while it has no certain border


@dataclass(frozen=True)
class Steps:
    """The events that the pairs are told after."""

    words: Sequence[Event]
    superwords: Sequence[Event]
    ahead: Sequence[Event]  # steps of words behind them, which decide too which chunks may join
    done: bool  # whether ids are those of a finished model

    @classmethod
    def so_far(cls, events: Sequence[Event], words: int, at: int) -> Steps:
        """While superwords are learned: all words, then superwords."""
        return cls(events[:words], events[words:at], (), done=False)

    @classmethod
    def of_model(cls, events: Sequence[Event], ahead: Sequence[Event]) -> Steps:
        """When they are done: in one order. Those of uw are merges like its words, and are replayed as such."""
        words = [event for event in events if event.op is not Op.SUPERMERGE]
        return cls(words, [event for event in events if event.op is Op.SUPERMERGE], ahead, done=True)


def recount_next(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    vocabulary: Vocabulary,
    steps: Steps,
    config: TrainConfig,
    floor: int,
    place: Path,
) -> None:
    """Fill temporary table recounted_pairs: the pairs of living tokens that may join after these steps, with counts of
    at least `floor`."""
    alphabet, stops = vocabulary.alphabet, len(vocabulary.stop_ids)
    last = max((event.id for event in steps.words), default=alphabet.first_id + len(alphabet) + stops - 1)
    known = len(vocabulary.tokens) if steps.done else last + 1 - alphabet.first_id
    contents = [token.content for token in vocabulary.tokens[:known]]
    word_pattern = None
    if config.superwords == "uw":
        counting = CountConfig(**json.loads(dict(run_sql(con, "get_run"))["config"]))
        word_pattern, pattern = stage_patterns(counting, config)
        eligible = [*range(alphabet.first_id, alphabet.first_id + len(alphabet)), *(e.id for e in steps.words)]
        found = _second_stage(run, parts, vocabulary, contents, steps.words, pattern, config, place)
    else:
        stop_words = [word.decode() for word in vocabulary.stop_ids]
        chunks = sorted(set(eligible_chunks(alphabet, stop_words, steps.words, steps.ahead, config)))
        id_of = {token.content: token.id for token in vocabulary.tokens if token.content not in vocabulary.stop_ids}
        ids = [id_of.get(chunk.encode(), -1) for chunk in chunks]  # -1: ahead of the model, so in none of its pairs
        eligible = [number for number in ids if number >= 0]
        found = _chunks(run, parts, chunks, np.array([-1, *ids], np.int64))

    superwords = steps.superwords
    replay = Replay([merge_event(*event.pair, event.id, event.n) for event in superwords])
    run_sql(con, "make_pair_recount")
    for symbols, sizes in found:
        once = np.ones(len(sizes), np.int64)
        for tokens, word in encode_words(replay, symbols, sizes):
            append(con, "recounted_pairs", pair_counts(tokens, word, once, disjoint=config.overlaps == "disjoint"))

    counted = query_frame(con, "list_pair_recount", pair_floor=floor)
    base = symbol_contents(alphabet, contents, stops)
    rule = join_rule(config, alphabet, steps.words, base, eligible, word_pattern)
    if rule is not None:
        for event in superwords:  # one by one: each may be made of one before it
            rule.born(*(np.array([number], np.int64) for number in (*event.pair, event.id)))
        counted = counted.filter(
            pl.Series(rule.allows(*(counted[name].to_numpy() for name in ("left_id", "right_id"))))
        )
    if steps.done:
        living = list(vocabulary.living)
        counted = counted.filter(pl.col("left_id").is_in(living) & pl.col("right_id").is_in(living))
    run_sql(con, "make_pair_recount")
    append(con, "recounted_pairs", counted)


def _chunks(run: Run, parts: Sequence[Part], known: list[str], ids: Int64) -> Iterator[tuple[Int64, Int64]]:
    """(tokens, how many in each stretch) of the documents, part by part. `ids`: token ids by chunk number."""
    numbers = chunk_numbers(run, parts, pl.Series("chunk", known, dtype=pl.String))
    for frame in stretches(numbers, lambda keys: keys >= 0):
        sizes = frame["numbers"].list.len().cast(pl.Int64).to_numpy()
        yield ids[frame["numbers"].explode().drop_nulls().to_numpy()], sizes


def _second_stage(
    run: Run,
    parts: Sequence[Part],
    vocabulary: Vocabulary,
    contents: Sequence[bytes],
    words: Sequence[Event],
    pattern: Pattern,
    config: TrainConfig,
    place: Path,
) -> Iterator[tuple[Int64, Int64]]:
    """The same for uw: the stretches are chunks of the second stage, encoded by all words."""
    stage = StageTwo(
        run.sequences, order_parts(run, parts), pattern, vocabulary.alphabet, contents, words,
        config.overlaps == "disjoint", place / "stage2", _REST_BYTES,
    )  # fmt: skip
    reader = stage.write(lambda places: None)
    for part in reader.parts:
        symbols = reader.read(part).astype(np.int64)
        ends = np.flatnonzero(symbols < 0)
        sizes = np.diff(ends, prepend=-1) - 1
        yield symbols[symbols >= 0], sizes[sizes > 0]
