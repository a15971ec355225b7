"""The counts that a training learns from, read from view training_chunks once, when it begins.

From then on they lie in a file of the training's own, so a process that reads or writes state.duckdb meanwhile neither
stops the training nor changes what it learns from.

The tables of a training are published at checkpoints. Until then the tables that the view needs (options, stop words,
weighted counts) are seen only by the connection that reads, so that this connection may be read-only.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.config import TrainConfig
from streambpe.errors import RunError, StreambpeError, typed
from streambpe.store.chunks import fold, open_counts, range_bytes, read_totals
from streambpe.store.counted import copy_rows
from streambpe.store.database import append, put_facts, use_private_training
from streambpe.store.groups import read_groups
from streambpe.store.identity import Wanted
from streambpe.store.parts import Part, list_parts
from streambpe.store.sqlfiles import run_sql
from streambpe.store.unfinished import Unfinished, left_to_count
from streambpe.store.weights import temper, weigh_groups
from streambpe.system import compose_name
from streambpe.train.training import Corpus, Training

EDITED = "chunk_counts was edited in state.duckdb: the training uses the edited counts"


def find_corpus(training: Training) -> Corpus:
    """The counts of a run, which are folded now if a kill came before the fold."""
    run, resources = training.run, training.resources
    if not list_parts(run, clean=True):
        if "corpus" in run.facts():
            raise RunError(
                f"{run.counts} has no part, but the tables were filled from some: the files are lost. Nothing was "
                f"changed. Put them back, or count the sources again: `streambpe count {typed(run.path)} SOURCE...`."
            )
        raise RunError(
            f"{run.path} has no counts yet. `streambpe train {typed(run.path)} SOURCE...` counts and learns."
        )
    fold(run, resources)
    written_at = run.written_at()
    totals, edited, groups_edited = read_totals(run, resources)
    option = training.config.by_groups
    if option and (edited or groups_edited):
        raise RunError(
            f"{run.path}: counts were edited in state.duckdb, but {option} uses the counts of groups, which the edits "
            f"do not reach. Nothing was changed. `streambpe count {typed(run.path)}` undoes the edits; without "
            f"{option}, the training uses them."
        )
    if not totals["chunks"]:
        raise RunError(
            f"{run.path} holds no text: all its sources are empty. Nothing was changed. "
            f"`streambpe train {typed(run.path)} SOURCE...` counts others into it."
        )
    parts = list_parts(run)
    left = left_to_count(run, parts)
    if edited:
        totals["edited"] = True
    return Corpus(
        totals,
        parts,
        run.facts(),
        written_at,
        left_out=[*left.sources, *(Unfinished(Wanted(name, "run")) for name in left.runs)],
        groups=read_groups(run) if option else {},
    )


@contextlib.contextmanager
def read_counts(training: Training, corpus: Corpus) -> Iterator[Corpus]:
    """The corpus with its stop words, and with the rows of view training_chunks in a file that is removed
    afterwards."""
    place = training.counts
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    config, run, size = training.config, training.run, range_bytes(training.resources)
    try:
        with contextlib.closing(open_counts(run, training.resources)) as con:
            if run.written_at() != corpus.written_at:
                raise RunError(
                    f"{run.state}: chunk_counts was edited just now. Nothing was changed. Give the command again."
                )
            if config.alpha is not None:
                weights = temper(dict(run_sql(con, "count_group_characters")), config.alpha)
                groups = {
                    name: {**facts, "weight": weights[compose_name(name)]} for name, facts in corpus.groups.items()
                }
                config, corpus = replace(config, weights=weights), replace(corpus, groups=groups)
            given = None if training.inherited is None else training.inherited.stop_words
            part, stop_words = copy_training_chunks(con, config, place / "chunks.parquet", size, given)
            weighed: list[Part] = []
            if config.weights:
                weighed.append(copy_rows(con, "weighed_chunks", place / "weighed.parquet", size))
        yield replace(corpus, chunks=[part], weighed=weighed, stop_words=stop_words)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def copy_training_chunks(
    con: duckdb.DuckDBPyConnection, config: TrainConfig, target: Path, size: int, given: Sequence[str] | None = None
) -> tuple[Part, list[str]]:
    """What view training_chunks shows for these options, as one part; and the stop words. Afterwards unqualified names
    mean the tables that only this connection sees. `given`: stop words that are not to be chosen."""
    use_private_training(con)
    put_facts(con, "facts", {"config": json.dumps({"config": config.as_facts()})})
    if config.weights:
        weigh_groups(con, config.weights, size)
    stop_words = list(given or ())
    if given is None and config.stop_list:
        stop_words = [chunk for chunk, _ in run_sql(con, "steps/choose_stop_words", stop_list=config.stop_list)]
    if stop_words:
        append(con, "stop_words", pa.table({"id": list(range(len(stop_words))), "chunk": stop_words}))
    ((found,),) = run_sql(con, "count_training_bytes")
    if found > MAX_COUNT:  # which no count of pairs or characters is more than
        raise StreambpeError(
            f"The chunks to learn from have {found} bytes, more than 2^63 - 1 = {MAX_COUNT}: a count could overflow. "
            "Nothing was learned. Divide the counts, or train on fewer chunks."
        )
    return copy_rows(con, "training_chunks", target, size), stop_words
