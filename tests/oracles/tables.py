"""What the tables of a finished training must hold, worked out from the run's own counts by the slow reference.

    words        every chunk is encoded by a replay of the log; its tokens and pairs are added up
    superwords   every document is cut where chunks may not join; the supermerges are made, and the pairs left added up

`check` is `streambpe check`, which compares tables with each other and with the log, and this.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from streambpe.config import TrainConfig
from streambpe.inspect import check as checking
from streambpe.inspect.check import Problem
from streambpe.model.alphabet import UNKNOWN
from streambpe.model.eventlog import Event, EventLog, Op, delete_event, merge_event, read_event_log
from streambpe.model.replay import Model, Pair, steps
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS
from streambpe.model.vocabulary import Vocabulary
from streambpe.store.database import list_trainings
from streambpe.store.run import Run
from streambpe.text.eligible import find_superword_pattern
from streambpe.text.patterns import find_pattern
from tests.oracles.primitives import Corpus, PairTest, Training, count_pairs
from tests.oracles.replay import encode_chunk
from tests.oracles.splits import split_text
from tests.oracles.superwords import Superwords, eligible_chunks, eligible_runs, replay_step, text_matches
from tests.oracles.words import WordTrainer, pair_test, whole_characters_bytes, whole_characters_script
from tests.runs import stored_ids

Weighted = Mapping[bytes, int]
_SHOWN = 20  # wrong rows of one table
_VIEWS = ("superword_adjacency", "superword_runs")


def check(run: Path, **given: Any) -> list[Problem]:
    """What `check` finds, and every row of a finished training's tables that is not the slow reference's; where it is
    asked to learn again, what it finds alone."""
    found = checking.check(run, **given)
    return found if given.get("replay") else [*found, *wrong_rows(Path(run))]


def wrong_rows(run: Path) -> Iterator[Problem]:
    """The wrong rows of the trainings that learned from the counts there are now."""
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as con:
        corpus = json.loads(dict(con.sql("FROM run").fetchall())["corpus"])
        for name in list_trainings(con):
            con.execute("SET schema = ?", [name])
            facts = dict(con.sql("FROM facts").fetchall())
            log = run / f"{'model' if name == 'main' else name}.events.jsonl"
            if facts.get("state") != "done" or not log.exists():
                continue
            tables = _Tables(con, run, read_event_log(log), facts)
            if tables.log.header.corpus["sha256"] == corpus["sha256"] and not corpus.get("edited"):
                for table, wanted in tables.wanted():
                    yield from (Problem(f"{name}.{table}", row) for row in tables.differences(table, wanted)[:_SHOWN])


class _Tables:
    """The tables of one training."""

    def __init__(self, con: duckdb.DuckDBPyConnection, run: Path, log: EventLog, facts: Mapping[str, str]) -> None:
        self.con, self.run, self.log, self.facts = con, run, log, facts
        self.config = TrainConfig.of_facts(log.header.config, (), 0)
        self.model = Model(log)
        self.floor = int(facts["pair_floor"])
        self.blocked = {token.encode() for token in self.config.block_tokens}
        counts = "weighted_counts" if self.config.weights or self.config.alpha else "main.chunk_counts"
        self.all = {chunk.encode(): n for chunk, n in con.sql(f"SELECT chunk, n FROM {counts}").fetchall()}
        stops, least = self.model.vocabulary.stop_ids, self.config.freq_cutoff
        self.counts = {chunk: n for chunk, n in self.all.items() if n >= least and chunk not in stops}
        self.superwords = self.config.superwords

    def differences(self, table: str, wanted: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The rows of a table that are not as wanted, and those that are missing."""
        schema = "main." if table in _VIEWS else ""
        rows = self.con.sql(f"FROM {schema}{table}").fetchall()
        held = Counter(tuple(tuple(one) if isinstance(one, list) else one for one in row) for row in rows)
        wanted = Counter(wanted)
        if table == "vetoed" and self.superwords != "none":  # those of words are not carried over when it grows
            wanted &= held
        return [*(("wrong", *row) for row in held - wanted), *(("missing", *row) for row in wanted - held)]

    def wanted(self) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
        """(table, the rows it must have)."""
        words = self.encoded(self.model)
        unknown = sum(n * ids.count(UNKNOWN) for ids, n in words)
        if self.facts.get("unknown", str(unknown)) != str(unknown):
            raise AssertionError(f"{unknown} characters are unknown; the facts are {self.facts}")
        if self.superwords != "uw":
            yield "token_counts", self.token_counts(words)
        yield "vetoed", self.vetoed()
        if self.superwords == "none":
            vetoes = {row[1:3] for row in self.con.sql("FROM vetoed").fetchall()}
            test = pair_test(self.model.vocabulary, self.config.max_token_length)
            pairs = {p: n for p, n in self.pairs(words).items() if p not in vetoes and (test is None or test(*p))}
        elif self.superwords == "uw":
            pairs = self.second_stage()
        else:
            chunks, pairs = self.joined()
            yield from chunks
        yield "pair_counts", ((*pair, n) for pair, n in pairs.items() if n >= self.floor)

    # ------------------------------------------------------------------ words

    def encoded(self, model: Model) -> list[tuple[list[int], int]]:
        """(ids, how often) of every chunk that is learned from."""
        unknown = "drop" if model.header.config.get("unknown") == "drop" else None  # as of some that are extended
        return [(encode_chunk(model, chunk, unknown), n) for chunk, n in self.counts.items()]

    def pairs(self, words: Iterable[tuple[Sequence[int], int]]) -> Counter[Pair]:
        """Every pair that may be counted."""
        allowed: PairTest | None = None
        if self.config.whole_characters:
            script = self.config.encoding == "script"
            rule = whole_characters_script(INDEX_SYMBOLS, FIRST_ESCAPE) if script else whole_characters_bytes
            allowed = pair_test(self.model.vocabulary, may_merge=rule)
        found: Counter[Pair] = Counter()
        for ids, n in words:
            for pair in count_pairs(ids, self.config.overlaps, allowed):
                found[pair] += n
        return found

    def token_counts(self, words: Iterable[tuple[Sequence[int], int]]) -> Iterator[tuple[int, int, int]]:
        """(id, n, alone)."""
        total: Counter[int] = Counter()
        alone: Counter[int] = Counter()
        stops = self.model.vocabulary.stop_ids
        for ids, n in [*words, *(([number], self.all.get(chunk, 0)) for chunk, number in stops.items())]:
            for number in ids:
                total[number] += n
            if len(ids) == 1:
                alone[ids[0]] += n
        return ((number, n, alone[number]) for number, n in total.items() if n and number != UNKNOWN)

    def vetoed(self) -> Iterator[tuple[int, int, int, int]]:
        """The vetoes, with what their pairs counted then."""
        for seq, left, right, _ in self.con.sql("FROM vetoed").fetchall():
            before = self.encoded(Model(EventLog(self.log.header, tuple(self.log.events[:seq]))))
            spelled = self.model.content(left) + self.model.content(right)
            if spelled in self.blocked or self.config.encoding == "script":
                yield seq, left, right, self.pairs(before)[left, right]

    # ------------------------------------------------------------------ superwords

    def documents(self) -> list[list[bytes]]:
        """The stored documents as chunks, in order."""
        documents: list[list[bytes]] = [[]]
        for ids, chunks in stored_ids(Run(self.run)):
            for number in ids:
                if number < 0:
                    documents.append([])
                else:
                    documents[-1].append(chunks[number].encode())
        return documents

    def words_ahead(self) -> list[Event]:
        """The steps of phase one that are not in the model, in order."""
        found = self.con.sql(
            "SELECT op, left_id, right_id, id, n, parts FROM events WHERE seq IS NULL ORDER BY rowid"
        ).fetchall()
        return [
            delete_event(number, parts, n) if op == Op.DELETE else merge_event(left, right, number, n)
            for op, left, right, number, n, parts in found
        ]

    def joined(self) -> tuple[list[tuple[str, Any]], dict[Pair, int]]:
        """The rows about neighbours, and the pairs that may join next."""
        config, header, events = self.config, self.log.header, [*self.log.events, *self.words_ahead()]
        stops = [word.content for word in header.stop_words]
        known = Model(EventLog(header, tuple(events))).vocabulary
        words = Training(Vocabulary(known.alphabet, stops), Corpus([], "all"))
        for step in steps(event for event in events if event.op is not Op.SUPERMERGE):
            replay_step(words, known, step)
        documents = self.documents()
        chunks = {chunk for document in documents for chunk in document}
        matches = text_matches(find_superword_pattern(config.superword_pattern))
        eligible = eligible_chunks(words, chunks, matches)
        floor = int(self.facts["adjacency_floor"])
        together = Counter(
            pair for document in documents for pair in pairwise(document) if set(pair) <= eligible.keys()
        )  # fmt: skip
        kept = {pair: n for pair, n in together.items() if n >= floor}
        forbid = None if config.forbid is None else text_matches(config.forbid)
        supers = Superwords(
            eligible_runs(documents, eligible), eligible.values(), self.model.vocabulary, config.ties,
            config.overlaps, config.max_superword_words, self.blocked, forbid,
        )  # fmt: skip
        base = {token.id: token.base for token in self.model.vocabulary.tokens}
        for event in self.log.events:
            if event.op is Op.SUPERMERGE:
                left, right = (supers.number(base[part], 1) for part in event.pair)
                length = supers.words_in[left] + supers.words_in[right]
                supers.corpus.merge((left, right), supers.number(base[event.id], length))
        living = {token.base: token.id for token in self.model.vocabulary.tokens
                  if token.id in self.model.vocabulary.living and token.content not in stops}  # fmt: skip
        pairs = {}
        for pair, n in supers.corpus.pair_counts.items():
            ids = tuple(living.get(supers.base[symbol]) for symbol in pair)
            if None not in ids:
                pairs[ids] = n
        text = {pair: tuple(chunk.decode() for chunk in pair) for pair in kept}
        self.con.execute("SET VARIABLE training = current_schema()")
        neighbours = [("superword_adjacency", [(*text[pair], n) for pair, n in kept.items()])]
        return [*neighbours, ("superword_runs", stretches(documents, kept))], pairs

    def second_stage(self) -> dict[Pair, int]:
        """The pairs that may join next under uw: in the chunks of the second stage."""
        config = self.config
        said = self.log.header.config
        first, second = (find_pattern(name, gaps=said["gaps"]) for name in (said["pattern"], config.stage2_pattern))
        most, forbid = config.max_superword_words, config.forbid and text_matches(config.forbid)
        vocabulary = self.model.vocabulary
        known = {tuple(vocabulary[part].content for part in event.pair) for event in self.log.events}

        def joins(left: Any, right: Any) -> bool:
            made = left.content + right.content
            return (left.content, right.content) in known or not (
                (config.whole_characters and not whole_characters_bytes(left, right))
                or (forbid and forbid(made))
                or (most is not None and len(split_text(first, made.decode(errors="replace"))) > most)
            )

        texts = (b"".join(document).decode() for document in self.documents())
        counts = Counter(chunk.encode() for text in texts for chunk in split_text(second, text))
        trainer = WordTrainer(
            counts, vocabulary.alphabet, overlaps=config.overlaps, blocked=self.blocked, may_merge=joins,
            max_token_length=config.max_token_length,
        )  # fmt: skip
        for event in self.log.events:
            trainer.step(event.pair, event.n)
        return dict(trainer.training.corpus.pair_counts)


def stretches(documents: Sequence[Sequence[bytes]], kept: Mapping[tuple[bytes, bytes], int]) -> list[tuple[Any, int]]:
    """(chunks, how often) of every stretch, as long as it can be, in which all neighbours are kept ones."""
    runs: Counter[tuple[str, ...]] = Counter()
    for document in documents:
        run: list[bytes] = []
        for chunk in (*document, None):
            if run and (run[-1], chunk) not in kept:
                runs[tuple(one.decode() for one in run)] += len(run) > 1
                run = []
            run.append(chunk)  # type: ignore[arg-type]
    return [(run, n) for run, n in runs.items() if n]
