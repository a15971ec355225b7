"""The pairs that were next in line when a superword was learned, counted anew in the stored documents of a RUN.

    boundless, superbpe   eligible chunks are symbols, everything else is a barrier; earlier supermerges applied
    uw                    stage-2 chunks are encoded by all merges before the event

What may join, how pairs are counted, how ties are decided: all is as in the training. Which chunks are eligible follows
from the whole of phase one: the word steps that found no place in the model are in the tables of the training.

Memory: one part, a run of eligible chunks that goes on in the next part, and the distinct pairs; explain has no
--memory. 20 MB of English, 2 busy cores: 4 s and 450 MB in all with 16 384 ids, under uw 12 s and 690 MB with 12 000.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from streambpe.arrays import Int32
from streambpe.config import TrainConfig
from streambpe.encode.bulk import BulkReplay, pair_places
from streambpe.errors import RunError
from streambpe.inspect.asked import spill_folder
from streambpe.inspect.check_training import config_of
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, EventLog, Op, events_digest, supermerge_event
from streambpe.store.database import list_trainings, open_store, use_training
from streambpe.store.models import encoding_pattern
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, order_parts
from streambpe.store.trainings import TokenTable, read_facts, read_words_ahead
from streambpe.text.eligible import text_test
from streambpe.text.patterns import find_pattern
from streambpe.train.engine.rules import PairRule
from streambpe.train.superwords.interleave import phase_one
from streambpe.train.superwords.neighbours import BARRIER, PartsReader, SymbolReader, find_eligible
from streambpe.train.superwords.rules import join_rule, symbol_contents
from streambpe.train.superwords.stage2 import StageTwo

Rival = tuple[bytes, bytes, int]  # left, right, count
_SLICE = 1024  # pairs that the rule is asked about at a time


@dataclass
class _Moment:
    """The state of the training just before the event."""

    reader: PartsReader
    joins: list[Event]  # to be applied to the symbols that are read
    contents: list[bytes]  # the bytes of every symbol
    rule: PairRule | None
    older: list[bytes]  # contents in the order of their ids at that moment


def superword_rivals(run: Path, log: EventLog, index: int, most: int) -> list[Rival]:
    """The best `most` pairs just before event `index`, best first."""
    folder = Run.open(run)
    config, ahead = _find_training(folder, log)
    parts = order_parts(folder, list_parts(folder))
    with spill_folder(folder) as place:
        if config.superwords == "uw":
            moment = _in_stage_two(folder, config, log, index, parts, place)
        else:
            moment = _among_chunks(folder, config, log, ahead, index, parts)
        pairs = _count(moment, config.overlaps == "disjoint")
    if config.superwords == "uw" and config.max_token_length is not None:
        sizes = np.array([len(content) for content in moment.contents])
        fits = sizes[pairs["left"].to_numpy()] + sizes[pairs["right"].to_numpy()] <= config.max_token_length
        pairs = pairs.filter(pl.Series(fits))
    order = sorted(moment.older) if config.ties == "bytes" else moment.older
    return _best(pairs, moment, order, most)


def _find_training(run: Run, log: EventLog) -> tuple[TrainConfig, list[Event]]:
    """The options of the training that made this log, and the word steps that are not in it."""
    digest, header = events_digest(log.events), log.header
    with contextlib.closing(open_store(run.state, read_only=True)) as con:
        for name in list_trainings(con):
            use_training(con, name)
            facts = read_facts(con)
            if facts.get("sha256") == digest:
                config = config_of(json.loads(facts["config"]))
                specials = [special.text for special in header.specials]
                mine = {"config": header.config, "specials": specials, "reserve": header.reserved}
                if config == config_of(mine):
                    return config, read_words_ahead(con)
    raise RunError(f"{run.path} has no tables of the training that made this model, which say what its words were.")


def _among_chunks(
    run: Run, config: TrainConfig, log: EventLog, ahead: Sequence[Event], index: int, parts: Sequence[SequencePart]
) -> _Moment:
    alphabet = Alphabet.from_header(log.header.alphabet)
    stop_words = [word.content for word in log.header.stop_words]
    words = phase_one(log, ahead)
    book, logged = TokenTable.of(alphabet, stop_words), TokenTable.of(alphabet, stop_words)
    book.add(words, 0)
    logged.add(log.events[:index], 0)
    matches = text_test(config.superword_pattern, "--superword-pattern")
    eligible = find_eligible(alphabet, book.contents, words, [word.decode() for word in stop_words], matches)

    contents = symbol_contents(alphabet, book.contents, len(stop_words))
    rule = join_rule(config, alphabet, words, contents, eligible["symbol"].to_list(), None)
    number_of = {content: number for number, content in enumerate(contents) if content}
    joins = []
    for event in log.events[:index]:
        if event.op is Op.SUPERMERGE:
            left, right = (logged.contents[part - alphabet.first_id] for part in event.pair)
            a, b = number_of[left], number_of[right]
            new = number_of.setdefault(left + right, len(contents))
            if new == len(contents):
                contents.append(left + right)
            if rule is not None:
                rule.born(np.array([a]), np.array([b]), np.array([new]))
            joins.append(supermerge_event(a, b, new, event.n))
    # a token whose word step is still to come gets a higher id than every superword so far
    known = symbol_contents(alphabet, logged.contents, len(stop_words))
    older = list(dict.fromkeys(content for content in (*known, *contents) if content))
    return _Moment(SymbolReader(run.sequences, parts, eligible), joins, contents, rule, older)


def _in_stage_two(
    run: Run, config: TrainConfig, log: EventLog, index: int, parts: Sequence[SequencePart], folder: Path
) -> _Moment:
    header, events = log.header, log.events[:index]
    alphabet = Alphabet.from_header(header.alphabet)
    book = TokenTable.of(alphabet, [word.content for word in header.stop_words])
    book.add(events, 0)
    pattern = encoding_pattern(header.config)
    stage = StageTwo(
        run.sequences,
        parts,
        pattern,
        alphabet,
        book.contents,
        events,
        config.overlaps == "disjoint",
        folder,
        sys.maxsize,
    )
    contents = symbol_contents(alphabet, book.contents, len(header.stop_words))
    first = find_pattern(
        header.config["pattern"], gaps="keep", split_scripts=bool(header.config.get("split_scripts", False))
    )
    rule = join_rule(config, alphabet, events, contents, (), first)
    older = [content for content in contents if content]
    return _Moment(stage.write(lambda _: None), [], contents, rule, older)


def symbols_of(reader: PartsReader) -> Iterator[Int32]:
    """Symbols and barriers, part after part; a run that a part does not end comes with the part that does."""
    waiting = np.empty(0, np.int32)
    for part in reader.parts:
        symbols = reader.read(part)
        between = np.full(0 if part.follows else 1, BARRIER, np.int32)
        symbols = np.concatenate((waiting, between, symbols))
        barriers = np.flatnonzero(symbols < 0)
        stop = int(barriers[-1]) + 1 if len(barriers) else 0
        yield symbols[:stop]
        waiting = symbols[stop:]
    yield waiting


def _count(moment: _Moment, disjoint: bool) -> pl.DataFrame:
    """Rows (left, right, n) of all pairs that stand side by side once everything is joined."""
    replay = BulkReplay(moment.joins, len(moment.contents))
    frames = [pl.DataFrame(schema={"left": pl.Int32, "right": pl.Int32, "n": pl.Int64})]
    for symbols in symbols_of(moment.reader):
        barriers = np.flatnonzero(symbols < 0)
        lengths = np.diff(barriers, prepend=-1, append=len(symbols)) - 1
        ids, counts = replay.replay(symbols[symbols >= 0], lengths[lengths > 0])
        at = pair_places(ids, counts, disjoint)
        pairs = pl.DataFrame({"left": ids[at], "right": ids[at + 1]})
        frames.append(pairs.group_by("left", "right").agg(pl.len().cast(pl.Int64).alias("n")))
        if sum(frame.height for frame in frames[1:]) > frames[0].height:
            frames = [sum_pairs(frames)]
    return sum_pairs(frames)


def sum_pairs(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Rows (left, right, n), each pair once."""
    return pl.concat(frames).group_by("left", "right").agg(pl.col("n").sum())


def _best(pairs: pl.DataFrame, moment: _Moment, order: Sequence[bytes], most: int) -> list[Rival]:
    """The most frequent pairs that may join; ties go to the pair whose contents come first in `order`."""
    place = {content: i for i, content in enumerate(order)}
    label = np.array([place.get(content, -1) for content in moment.contents], np.int64)
    ranked = pairs.with_columns(
        a=pl.Series(label[pairs["left"].to_numpy()]), b=pl.Series(label[pairs["right"].to_numpy()])
    ).sort("n", "a", "b", descending=[True, False, False])
    found: list[Rival] = []
    for some in ranked.iter_slices(_SLICE):
        left, right = (some[side].cast(pl.Int64).to_numpy() for side in ("left", "right"))
        allowed = np.ones(len(left), bool) if moment.rule is None else moment.rule.allows(left, right)
        for row in np.flatnonzero(allowed).tolist():
            found.append((moment.contents[left[row]], moment.contents[right[row]], some["n"][row]))
            if len(found) == most:
                return found
    return found
