"""Counting again which superwords come next, while they are learned: table pair_counts and the stored documents.

The documents are cut where chunks may not join (uw: by the pattern of the second stage), every stretch is encoded by
the superwords so far, and its pairs are counted. The trainer also cuts where neighbours are rare; this does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig
from streambpe.inspect.check_superwords import chunk_numbers, eligible_chunks, stretches
from streambpe.inspect.recount import Replay, encode_words, pair_counts
from streambpe.model.eventlog import Event, merge_event
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


def recount_next(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    vocabulary: Vocabulary,
    events: Sequence[Event],
    words: int,
    config: TrainConfig,
    at: int,
    floor: int,
    place: Path,
) -> None:
    """Fill temporary table recounted_pairs: the pairs that may join after event `at`, with counts of at least `floor`.
    The first `words` events are those of words."""
    alphabet, stops = vocabulary.alphabet, len(vocabulary.stop_ids)
    learned = max((event.id for event in events[:words]), default=alphabet.first_id + len(alphabet) + stops - 1) + 1
    contents = [token.content for token in vocabulary.tokens[: learned - alphabet.first_id]]
    word_pattern = None
    if config.superwords == "uw":
        counting = CountConfig(**json.loads(dict(run_sql(con, "get_run"))["config"]))
        word_pattern, pattern = stage_patterns(counting, config)
        eligible = [*range(alphabet.first_id, alphabet.first_id + len(alphabet)), *(e.id for e in events[:words])]
        found = _second_stage(run, parts, vocabulary, contents, events[:words], pattern, config, place)
    else:
        stop_words = [word.decode() for word in vocabulary.stop_ids]
        known = sorted(set(eligible_chunks(alphabet, stop_words, events[:words], [], config)))
        id_of = {token.content: token.id for token in vocabulary.tokens if token.content not in vocabulary.stop_ids}
        eligible = [id_of[chunk.encode()] for chunk in known]
        found = _chunks(run, parts, known, np.array([-1, *eligible], np.int64))

    superwords = events[words:at]
    replay = Replay([merge_event(*event.pair, event.id, event.n) for event in superwords])
    run_sql(con, "make_pair_recount")
    for symbols, sizes in found:
        once = np.ones(len(sizes), np.int64)
        for tokens, word in encode_words(replay, symbols, sizes):
            append(con, "recounted_pairs", pair_counts(tokens, word, once, disjoint=config.overlaps == "disjoint"))

    counted = query_frame(con, "list_pair_recount", pair_floor=floor)
    base = symbol_contents(alphabet, contents, stops)
    rule = join_rule(config, alphabet, events[:words], base, eligible, word_pattern)
    if rule is not None:
        left, right = (np.array([event.pair[side] for event in superwords], np.int64) for side in (0, 1))
        rule.born(left, right, np.array([event.id for event in superwords], np.int64))
        counted = counted.filter(
            pl.Series(rule.allows(*(counted[name].to_numpy() for name in ("left_id", "right_id"))))
        )
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
