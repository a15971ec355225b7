"""Comparing every table of a training with its event log and the chunk counts; part of `streambpe check`.

    events       equal the event log; while a training goes on, its journal up to the last fold
    tokens       the alphabet, the stop words, and what the events made
    batches      cover the events without gaps
    vetoed       pairs of blocked tokens, counted in the chunks as they were then
    superword_adjacency, superword_chunks, superword_runs  counted again in the stored documents
    pair_counts  counted in the chunks as the events leave them (inspect/recount.py, not the engine)
    token_counts the same
    balance      with --balance: the group that was worst before every event, and its count (check_balance.py)
    weighted_counts  the counts of the groups, weighted again
    facts        how many rows, which digest, what size

A training that learned from fewer sources than the run has now can only be checked against its log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.core.strings import ChunkList
from streambpe.errors import EventLogError, ModelError, RunError
from streambpe.inspect.asked import spill_folder
from streambpe.inspect.check_balance import COUNTED_ANEW, check_balance
from streambpe.inspect.check_next import Steps, recount_next
from streambpe.inspect.check_superwords import check_superwords, eligible_chunks
from streambpe.inspect.recount import Replay, encode_words, pair_counts
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import Codec, shown_content
from streambpe.model.eventlog import Event, Header, Op, events_digest, read_event_log
from streambpe.model.vocabulary import Vocabulary
from streambpe.model.whole_characters import merging_pairs
from streambpe.progress import Meter
from streambpe.resources import release_memory
from streambpe.store.database import append, list_trainings, use_training
from streambpe.store.identity import refuse_other_log
from streambpe.store.journal import Journal
from streambpe.store.merge import merge_ranges
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.sqlfiles import run_sql
from streambpe.store.training_files import extended_path, journal_path, log_path
from streambpe.store.trainings import event_rows, read_facts, read_words_ahead
from streambpe.text.script_blocks import Unencodable
from streambpe.train.counts import copy_training_chunks
from streambpe.train.extension import Inherited
from streambpe.train.words import choose_alphabet, training_codec, uncovered_by, word_symbols

Row = tuple[Any, ...]
_NO_LIMIT = 2**62
MOST_PROBLEMS = 1000  # shown for one table; a damaged table would fill the screen
_FACTS = {"journal", "config", "events", "batches", "vetoed", "state", "pair_counts_at", "pair_floor",
          "token_counts_at", "sha256", "size", "reached", "adjacency_floor", "superword_runs", "unknown",
          "left_out"}  # fmt: skip
_MAY_MISS = {"token_counts_at", "left_out", "sha256", "size", "reached", "pair_floor", "adjacency_floor",
             "superword_runs", "unknown"}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """What a training's tables are compared with."""

    config: TrainConfig
    corpus: str  # sha256 of the counts it learns from
    events: Sequence[Event]
    symbols: tuple[Alphabet, list[str]] | None  # the log's own, with its stop words
    finished: bool
    unencodable: Unencodable  # the option that the run was counted with
    words: int | None = None  # so many events are of words; those after them, of superwords being learned
    inherited: Inherited | None = None  # of the model that is extended
    header: Header | None = None  # of the log, once there is one


def check_trainings(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    sha256: str,
    range_bytes: int,
    temp_dir: Path | None,
    unencodable: Unencodable,
    meter: Meter,
    told: list[str],
) -> Iterator[tuple[str, Row]]:
    """(table, row) for every row that does not add up. `con` is open read-only; `sha256`: of the counts;
    `unencodable`: the option that they were counted with. `meter` is told how far it is, and `told` what was looked at
    in part only."""
    names = list_trainings(con)
    logs = {path.name.removesuffix(".events.jsonl") for path in run.path.glob("*.events.jsonl")}
    for name in sorted({"main" if log == "model" else log for log in logs} - set(names)):
        if journal_path(run, name).exists():  # not folded yet
            continue
        yield f"{name}.events", ("the event log is there, the tables are not",)
    for name in names:
        meter.begin(f"checking {name}")
        use_training(con, name)
        facts = read_facts(con)
        try:
            source = read_source(run, name, facts, unencodable)
        except (EventLogError, ModelError, RunError) as why:
            yield f"{name}.events", (str(why),)
            source = None
        if source is None:
            continue
        current = source.corpus == sha256
        with spill_folder(run, temp_dir) as place:
            counts = None
            if current:
                target = place / "chunks.parquet"
                given = None if source.inherited is None else source.inherited.stop_words
                counts = _Counts(
                    *copy_training_chunks(con, source.config, target, range_bytes, given), parts, source, meter
                )
            con.begin()  # a transaction of its own, so that temporary tables go with it
            use_training(con, name)
            if current:
                for row in _check_weighted(con):
                    yield f"{name}.weighted_counts", row
            for table, row in _check_one(con, run, parts, facts, source, counts, range_bytes, place):
                yield f"{name}.{table}", row
            if counts is not None and source.config.balance and len(source.events) > COUNTED_ANEW:
                told.append(
                    f"training {name}: which group chose, and its count, was worked out for all {len(source.events):,} "
                    f"merges; that no other pair of the group counted more, for {COUNTED_ANEW} of them."
                )
            con.rollback()
    use_training(con, "main")


class _Counts:
    """What a training learns from, read again as the training reads it; and what follows from that."""

    def __init__(
        self, part: Part, stop_words: dict[str, int], counted: Sequence[Part], source: Source, meter: Meter
    ) -> None:
        self.parts = [part]
        self.meter = meter
        self.stop_words = stop_words
        if source.inherited is None:
            self.alphabet, self.uncovered = choose_alphabet(self.parts, source.config, source.unencodable, counted)
        else:
            self.alphabet = Alphabet.from_header(source.inherited.header.alphabet)
            self.uncovered = uncovered_by(self.parts, self.alphabet)


def _check_weighted(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Compare table weighted_counts with the counts of the groups, weighted again; it is empty without weights."""
    run_sql(con, "make_recount")
    run_sql(con, "recount_weighted")
    return run_sql(con, "checks/weighted_counts")


def read_source(run: Run, name: str, facts: dict[str, str], unencodable: Unencodable = "bytes") -> Source | None:
    """What a training's tables, of which these are the facts, are compared with; None if they show nothing of it."""
    path, log_file = journal_path(run, name), log_path(run, name)
    if path.exists() and facts.get("state") != "done":
        journal = Journal.read(path, mend=False)
        number, _, superwords = facts.get("journal", "").partition("+")
        if number == journal.number:
            events, words = list(journal.events), len(journal.events) if superwords else None
            if superwords:
                events += read_supermerges(run, name, superwords)
            config, known = config_of(journal.training), tuple(events[: int(facts["events"])])
            return Source(
                config, journal.training["corpus"], known, None, False, unencodable, words,
                _inherited(run, name, config, known),
            )  # fmt: skip
        return None  # nothing of this journal is folded yet
    if not log_file.exists():
        if facts and not path.exists():
            raise RunError(f"{log_file} is gone; train again to make it anew")
        return None
    refuse_other_log(log_file)
    log = read_event_log(log_file)
    header = log.header
    if path.exists() and facts.get("sha256") != events_digest(log.events):
        return None  # a larger vocabulary was just written; the tables still show the smaller one
    identity = {
        "config": header.config,
        "specials": [special.text for special in header.specials],
        "reserve": header.reserved,
    }
    symbols = Alphabet.from_header(header.alphabet), [word.content.decode() for word in header.stop_words]
    config = config_of(identity)
    return Source(
        config, header.corpus["sha256"], log.events, symbols, True, unencodable,
        inherited=_inherited(run, name, config, log.events), header=header,
    )  # fmt: skip


def _inherited(run: Run, name: str, config: TrainConfig, events: Sequence[Event]) -> Inherited | None:
    """What a training has from the model that it extends; an error if its events do not begin with that model's."""
    if config.extends is None:
        return None
    found = Inherited.read(run, name, config.extends)
    if tuple(events[: found.events]) != tuple(found.log.events):
        raise RunError(f"the events do not begin with those of {extended_path(run, name).name}")
    return found


def read_supermerges(run: Run, name: str, number: str) -> Sequence[Event]:
    """What phase two has learned so far, by the number of its journal."""
    for path in (run.path / "training" / name).glob("superwords-*/supermerges.events"):
        journal = Journal.read(path, mend=False)
        if journal.number == number:
            return journal.events
    raise RunError(f"the superwords learned so far are gone from {run.path / 'training' / name}; train again")


def config_of(training: Mapping[str, Any]) -> TrainConfig:
    """The options of a training, from its journal or its log."""
    ours = {f.name for f in fields(TrainConfig)}
    given = {key: value for key, value in training["config"].items() if key in ours}
    given["block_tokens"] = tuple(given["block_tokens"])
    return TrainConfig(**given, specials=tuple(training["specials"]), reserve=training["reserve"])


def _check_one(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    facts: dict[str, str],
    source: Source,
    counts: _Counts | None,
    range_bytes: int,
    place: Path,
) -> Iterator[tuple[str, Row]]:
    """`counts`: the present ones, if the training learned from them. `place`: a folder for temporary files."""
    con.register("logged_events", event_rows(source.events, 0))
    for row in run_sql(con, "checks/events"):
        yield "events", row
    for row in run_sql(con, "checks/batches", events=len(source.events), batches=int(facts.get("batches", -1))):
        yield "batches", row
    recounted = None
    if counts is not None:
        recounted = counts.alphabet, list(counts.stop_words)
        if source.config.unk and facts.get("unknown") != str(counts.uncovered.n):
            yield "facts", ("unknown", facts.get("unknown"), str(counts.uncovered.n))
        if source.symbols is not None and source.symbols != recounted:
            yield "events", ("the alphabet or the stop words of the log are not those of the counts",)
    symbols = source.symbols or recounted
    if symbols is None:
        return
    vocabulary = Vocabulary(symbols[0], [word.encode() for word in symbols[1]])
    con.register("recounted_tokens", _tokens(vocabulary, source.events).to_arrow())
    for row in run_sql(con, "checks/tokens"):
        yield "tokens", row
    for row in _check_facts(facts, source, vocabulary):
        yield "facts", row
    if counts is not None:
        yield from _check_pairs(con, counts, facts, source, vocabulary, range_bytes)
        if source.config.balance:
            codec = training_codec(vocabulary.alphabet, source.unencodable)
            found = check_balance(con, run, parts, source.config, source.events, vocabulary, codec, range_bytes, place)
            yield from (("balance", row) for row in found)
        if _told_of_superwords(facts, source):
            longest = source.config.max_token_length if source.config.superwords == "uw" else None
            if source.words is None:
                steps = Steps.of_model(source.events, read_words_ahead(con))
            else:
                steps = Steps.so_far(source.events, source.words, int(facts["pair_counts_at"]))
            release_memory()
            recount_next(con, run, parts, vocabulary, steps, source.config, int(facts["pair_floor"]), place)
            yield from _compare_pairs(con, facts, longest)
        if source.config.superwords in ("boundless", "superbpe") and source.finished:
            missing = [name for name in ("adjacency_floor", "superword_runs") if name not in facts]
            if missing:
                yield from (("facts", (name, None, "missing")) for name in missing)
                return
            eligible = eligible_chunks(*symbols, source.events, read_words_ahead(con), source.config)
            release_memory()
            yield from check_superwords(con, run, parts, int(facts["adjacency_floor"]), eligible)
    con.unregister("logged_events")
    con.unregister("recounted_tokens")


def _tokens(vocabulary: Vocabulary, events: Sequence[Event]) -> pl.DataFrame:
    base, stop_words = len(vocabulary.alphabet), len(vocabulary.stop_ids)
    born: list[int | None] = [None] * (base + stop_words)
    died: dict[int, int] = {}
    for seq, event in enumerate(events):
        if event.op is Op.DELETE:
            vocabulary.delete(event.id)
            died[event.id] = seq
            continue
        number = vocabulary.learn(*event.pair)
        died.pop(number, None)
        if number == vocabulary.first_id + len(born):
            born.append(seq)
    learned = len(born) - base - stop_words
    kinds = ["base"] * base + ["stop word"] * stop_words + ["learned"] * learned
    return pl.DataFrame(
        {
            "id": range(vocabulary.first_id, vocabulary.first_id + len(born)),
            "bytes": [
                token.content if kind == "stop word" else shown_content(vocabulary.alphabet, token.content)
                for token, kind in zip(vocabulary.tokens, kinds, strict=True)
            ],
            "kind": kinds,
            "born": born,
            "died": [died.get(token.id) for token in vocabulary.tokens],
            "length": [len(token.base) for token in vocabulary.tokens],
        },
        schema={
            "id": pl.Int64,
            "bytes": pl.Binary,
            "kind": pl.String,
            "born": pl.Int64,
            "died": pl.Int64,
            "length": pl.Int64,
        },
    )


def _check_facts(facts: dict[str, str], source: Source, vocabulary: Vocabulary) -> Iterator[Row]:
    """Check what table facts says of the training, where that can be worked out."""
    found = {"state": "done" if source.finished else "unfinished", "events": str(len(source.events))}
    if source.finished:
        size = vocabulary.size + source.config.extra_ids
        full = source.config.vocab_size + (0 if source.config.count_specials else source.config.extra_ids)
        found |= {"sha256": events_digest(source.events), "size": str(size), "reached": str(size >= full).lower()}
    for key in ("sha256", "size", "reached"):
        found.setdefault(key, "")
    for key, value in found.items():
        if facts.get(key, "") != value:
            yield key, facts.get(key), value
    for key in sorted(facts.keys() - _FACTS):
        yield key, facts[key], "no fact of a training"
    for key in sorted(_FACTS - facts.keys() - _MAY_MISS):
        yield key, None, "missing"
    if facts.get("pair_counts_at") and "pair_floor" not in facts:
        yield "pair_floor", None, "missing"
    stated = json.loads(facts.get("config", "{}"))
    if "config" not in stated or config_of(stated) != source.config or stated["corpus"] != source.corpus:
        yield "config", facts.get("config"), "not what the log says"
    told_at = facts.get("pair_counts_at", "")
    if told_at and (int(told_at) != len(source.events) if source.finished else int(told_at) > len(source.events)):
        yield "pair_counts_at", told_at, str(len(source.events))


def _check_pairs(
    con: duckdb.DuckDBPyConnection,
    counts: _Counts,
    facts: dict[str, str],
    source: Source,
    vocabulary: Vocabulary,
    range_bytes: int,
) -> Iterator[tuple[str, Row]]:
    """Compare pair_counts and vetoed with the chunks, in one pass over the counts."""
    alphabet, config = vocabulary.alphabet, source.config
    stop_words = [word.decode() for word in vocabulary.stop_ids]
    codec = training_codec(alphabet, source.unencodable, drops=source.inherited is not None and source.inherited.drops)
    contents = {token.id: token.content for token in vocabulary.tokens}
    vetoes = run_sql(con, "get_vetoed")
    if len(vetoes) != int(facts.get("vetoed", -1)):
        yield "vetoed", (len(vetoes), "rows, where table facts says", facts.get("vetoed"))
    blocked = {codec.content(token): token for token in config.block_tokens}
    open_vetoes = []
    for seq, left, right, n in vetoes:
        token = contents.get(left, b"") + contents.get(right, b"")
        if token in blocked:
            open_vetoes.append((seq, left, right, n, blocked[token]))
        else:
            yield "vetoed", (seq, left, right, n, "makes no blocked token")
    found = [0] * len(open_vetoes)

    replay = Replay(source.events)
    may_merge = merging_pairs(vocabulary) if config.whole_characters else None
    told_at, now = int(facts.get("pair_counts_at") or -1), len(source.events)
    with_pairs = 0 <= told_at <= now and not _told_of_superwords(facts, source)
    with_tokens = _has_token_counts(facts, source)
    counted_by = [(replay, with_pairs and told_at == now, with_tokens)]
    if with_pairs and told_at < now:
        counted_by.append((Replay(source.events[:told_at]), True, False))
    run_sql(con, "make_pair_recount")
    stop_ids = {word: alphabet.first_id + len(alphabet) + i for i, word in enumerate(stop_words)}
    uses, alone = np.zeros((2, max(contents, default=0) + 1), np.int64)
    for text, number in stop_ids.items():
        alone[number] = counts.stop_words.get(text, 0)
    counts.meter.begin(counts.meter.stage, sum(part.rows for part in counts.parts), "chunks")
    for mine in merge_ranges(counts.parts, range_bytes // 4):  # symbols of 8 bytes each, and their words
        for events, of_pairs, of_tokens in counted_by:
            for tokens, word, weights in _encoded(events, mine, codec) if of_pairs or of_tokens else ():
                if of_pairs:
                    counted = pair_counts(tokens, word, weights, disjoint=config.overlaps == "disjoint")
                    if may_merge is not None:
                        left, right = counted["left_id"].to_numpy(), counted["right_id"].to_numpy()
                        counted = counted.filter(pl.Series(may_merge(left, right)))
                    append(con, "recounted_pairs", counted.select("left_id", "right_id", "n"))
                if of_tokens:
                    known = tokens >= 0
                    np.add.at(uses, tokens[known], weights[word[known]])
                    whole = (np.bincount(word)[word] == 1) & known
                    np.add.at(alone, tokens[whole], weights[word[whole]])
        for i, (seq, left, right, _, text) in enumerate(open_vetoes):
            holds = mine.filter(pl.col("chunk").str.contains(text, literal=True))
            for tokens, word, weights in _encoded(replay, holds, codec, seq):
                counted = pair_counts(tokens, word, weights, disjoint=config.overlaps == "disjoint")
                found[i] += int(counted.filter(left_id=left, right_id=right)["n"].sum())
        counts.meter.advance(mine.height)
    for (seq, left, right, n, _), counted_n in zip(open_vetoes, found, strict=True):
        if n != counted_n:
            yield "vetoed", (seq, left, right, n, counted_n)
    if with_pairs:
        yield from _compare_pairs(con, facts, config.max_token_length)
    if with_tokens:
        for number in stop_ids.values():
            uses[number] = alone[number]
        recounted = pl.DataFrame({"id": np.arange(len(uses)), "n": uses, "alone": alone}).filter(pl.col("n") > 0)
    else:
        recounted = pl.DataFrame(schema={"id": pl.Int64, "n": pl.Int64, "alone": pl.Int64})
    con.register("recounted_token_counts", recounted.to_arrow())
    for row in run_sql(con, "checks/token_counts"):
        yield "token_counts", row
    con.unregister("recounted_token_counts")


def _compare_pairs(
    con: duckdb.DuckDBPyConnection, facts: dict[str, str], longest: int | None
) -> Iterator[tuple[str, Row]]:
    """Compare table pair_counts with the pairs, counted again."""
    values = {key: int(facts.get(key, 1)) for key in ("pair_floor", "pair_counts_at")}
    for row in run_sql(con, "checks/pair_counts", max_token_length=longest or _NO_LIMIT, **values):
        yield "pair_counts", row


def _told_of_superwords(facts: dict[str, str], source: Source) -> bool:
    """Whether table pair_counts holds pairs that may join into superwords."""
    told_at = facts.get("pair_counts_at")
    if not told_at or source.config.superwords == "none":
        return False  # also a finished training from before they were told
    return source.finished if source.words is None else int(told_at) > source.words


def _has_token_counts(facts: dict[str, str], source: Source) -> bool:
    """Whether table token_counts is filled; in older tables no fact of its own says so."""
    at = facts.get("token_counts_at")
    if at is None and source.config.superwords in ("boundless", "superbpe") and source.finished:
        return True
    return (facts.get("pair_counts_at") if at is None else at) == str(len(source.events))


def _encoded(
    replay: Replay, frame: pl.DataFrame, codec: Codec, before: int | None = None
) -> Iterator[tuple[Int64, Int64, Int64]]:
    """(tokens, the word of each, how often each word stands) of a frame's chunks; after the events below `before`."""
    for symbols, sizes, n in word_symbols(ChunkList.of(frame), codec):
        some = sizes > 0
        weights = n[some]
        for tokens, word in encode_words(replay, symbols.astype(np.int64), sizes[some], before):
            yield tokens, word, weights
