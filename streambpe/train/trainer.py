"""Learning a vocabulary from a counted run: the whole story.

    words      chunk counts -> words of base symbols                     (train/words.py)
    engine     one pass after another, each a batch of exact merges      (train/engine/engine.py)
    journal    events appended and fsynced every few seconds             (store/journal.py)
    fold       the same into tables, when nobody holds state.duckdb
    event log  RUN/model.events.jsonl, at the end                        (model/eventlog.py)

Learning is deterministic, so a checkpoint is only the events so far: after a kill the words are made
again (or the last snapshot of them is loaded) and the events replayed, which is several times faster
than learning them was.

Places where tests let the process die (failpoints.py), in the order they are passed: job-written,
journal-written, journal-created, events-committed, tables-filled, tables-committed, snapshot-written,
snapshot-made, log-written, tables-filled, tables-committed, journal-removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streambpe.config import LIKE_COUNTING, CountConfig, TrainConfig
from streambpe.disk import disk_full_explained
from streambpe.encode.encoder import Encoder
from streambpe.errors import (
    EventLogError,
    ResumeMismatch,
    RunError,
    RunMismatch,
    Stopped,
    StoreHeld,
    StreambpeError,
    UsageError,
)
from streambpe.failpoints import failpoint
from streambpe.files import replace_file
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import Codec
from streambpe.model.eventlog import (
    Event,
    EventLog,
    Header,
    Op,
    Special,
    StopWord,
    alphabet_size,
    delete_event,
    events_digest,
    log_lines,
    merge_event,
    read_event_log,
    write_event_log,
)
from streambpe.progress import Meter, Reporter
from streambpe.resources import (
    BASE_BYTES,
    LEFT_BEHIND_BYTES,
    TRANSIENT_SHARE,
    Resources,
    release_memory,
    room_for_arrays,
)
from streambpe.sources.find import find_sources
from streambpe.sources.source import Source
from streambpe.store.chunks import fold
from streambpe.store.counted_as import refuse_like, refuse_other_counting
from streambpe.store.database import append, list_trainings, open_store, use_training
from streambpe.store.documents import documents_digest
from streambpe.store.groups import check_weights, read_groups, weighted_counts
from streambpe.store.identity import accept, refuse_other_log, tables_written
from streambpe.store.job import find_job, find_work, left_to_count, put_job, read_jobs, refuse_half_counted, write_jobs
from streambpe.store.journal import Journal
from streambpe.store.made_of import fingerprint
from streambpe.store.merge import merge_ranges
from streambpe.store.models import encoding_pattern
from streambpe.store.parts import Part, list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, order_parts
from streambpe.store.sqlfiles import run_sql
from streambpe.store.trainings import (
    TokenBook,
    carried_pass,
    event_rows,
    fill_token_counts,
    fill_weighted_counts,
    fold_training,
    read_facts,
    read_passes,
    read_words_ahead,
)
from streambpe.store.unfinished import Unfinished, is_complete, spans_by_path
from streambpe.system import is_reserved_name, remove_folder
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.text.script_blocks import Unencodable
from streambpe.text.unicode_tables import refuse_other_tables
from streambpe.threads import stopped_by
from streambpe.train.counting.count import count, resume_count
from streambpe.train.counting.job import CountResult
from streambpe.train.engine.batch import Int64
from streambpe.train.engine.deletion import Deletion, Deletions
from streambpe.train.engine.engine import LEAST_BYTES, Batch, CountOverflow, Engine, EngineOptions, ReplayMismatch
from streambpe.train.engine.in_memory import BYTES_PER_PLACE
from streambpe.train.engine.whole_characters import WholeCharacterRule
from streambpe.train.snapshots import find_snapshot, write_snapshot
from streambpe.train.superwords.interleave import Interleaved, phase_one
from streambpe.train.superwords.join import can_undo, undo
from streambpe.train.superwords.phase import StopRequested, SuperwordJob, SuperwordPhase, phase_folder
from streambpe.train.superwords.runs import RunTable
from streambpe.train.words import (
    Uncovered,
    WordFiles,
    choose_symbols,
    count_tokens,
    count_whole,
    takes_part,
    training_codec,
    write_words,
)

CHECKPOINT_SECONDS = 5.0
_SNAPSHOT_SHARE = 20  # a snapshot may cost one part in so many of the time since the last
_SNAPSHOT_SECONDS = 60.0  # and none is made sooner: replaying a minute of learning takes seconds
_LAST_FOLD_SECONDS = 30.0  # that a finished training waits for another process to close state.duckdb
_WEIGHTED_BYTES = 8 << 20  # of weighted counts, copied at a time
_FOLD_BYTES = 64 << 20  # of DuckDB, while the engine's arrays are in memory


@dataclass(frozen=True)
class TrainResult:
    """What a training came to."""

    log: Path
    size: int  # model ids
    events: int
    sha256: str  # of the event lines
    reached: bool  # the size asked for; else no pair was left
    vetoed: int
    skipped: bool = False  # it was done before
    folded: bool = True  # into state.duckdb; else another process held it, and the next command does it
    warnings: tuple[str, ...] = ()  # of counting, by this call
    uncovered: Uncovered | None = None  # characters that are unknown, by --encoding chars
    left_out: tuple[str, ...] = ()  # sources that were not counted to their end, by --allow-partial


@dataclass(frozen=True)
class Joined:
    """Words and superwords in one order."""

    journal: Journal  # of that order; never written
    learned: int  # tokens
    ahead: list[Event]  # word steps that found no place, under the ids they would have got next
    adjacency: tuple[pl.DataFrame, int] | None  # neighbours, and how many places the rarest stand in; none with uw
    runs: RunTable | None  # none with uw
    token_counts: tuple[Int64, Int64, Int64] | None  # as Engine.token_counts, after the merges that found a place


def log_path(run: Run, name: str) -> Path:
    """Where the event log of a training is."""
    return run.path / ("model.events.jsonl" if name == "main" else f"{name}.events.jsonl")


def journal_path(run: Run, name: str) -> Path:
    """Where the write-ahead log of a training is, while it is not finished."""
    return run.path / ("pending.events" if name == "main" else f"{name}.pending.events")


def check_name(name: str) -> None:
    """A training's name becomes a schema and a file name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in ("information_schema", "pg_catalog", "temp", "system"):
        raise UsageError(f"--name {name}: small letters, digits and underscores, a letter first.")
    if name == "model" or is_reserved_name(name):
        whose = "the event log of training main is called" if name == "model" else "Windows keeps for a device"
        raise UsageError(f"--name {name}: that is what {whose}. Nothing was changed; give another name.")


class Trainer:
    """One training in a counted run. `run()` starts it, goes on with it, or finds it done.

    `on_batch` is called after every pass with the batch just learned. `tuning` sets private options of
    the engine (tests force spills, refills and scans with them); they never change an event.
    """

    def __init__(
        self,
        run: Run | Path | str,
        config: TrainConfig | None = None,
        *,
        name: str = "main",
        resources: Resources | None = None,
        progress: str = "none",
        stop: threading.Event | None = None,
        on_batch: Callable[[Batch], None] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        snapshot_seconds: float = _SNAPSHOT_SECONDS,
        tuning: dict[str, Any] | None = None,
        allow_partial: bool = False,
    ) -> None:
        check_name(name)
        self.folder = run if isinstance(run, Run) else Run.open(run)
        self.config = config or TrainConfig()
        self.name = name
        self.resources = resources or Resources.from_options()
        self.progress = progress
        self.stop = stop or threading.Event()
        self.on_batch = on_batch
        self.checkpoint_seconds = checkpoint_seconds
        self.snapshot_seconds = snapshot_seconds
        self.tuning = dict(tuning or {})
        self.prune = bool(self.tuning.pop("prune", True))  # superwords from documents cut at rare neighbours
        self.private = self.folder.path / "training" / name  # words, snapshot, the engine's blocks
        self.allow_partial = allow_partial
        self.left_out: list[Unfinished] = []  # sources not counted to their end
        self.meter = Meter("preparing", unit="tokens", memory_limit=self.resources.memory_bytes)
        self.meter.facts["training"] = name
        self.groups: dict[str, Any] = {}  # with weights: for the header, what was counted in each group
        self.parts: Sequence[Part] = ()  # the counts learned from
        self.facts: dict[str, str] = {}  # table run, read at the start: later another process may hold it

    # ------------------------------------------------------------------ the story

    def run(self) -> TrainResult:
        """Learn until the size is reached or no pair is left."""
        with self.folder.lock(), disk_full_explained(self.folder.path):
            self.refuse_half_counted()
            corpus, parts = self._corpus()
            done = self._finished(corpus)
            if done is not None:
                return done
            check_weights(self.folder, parts, self.config.weights)
            with (
                Reporter(self.meter, self.folder.write_status, self.progress),
                weighted_counts(parts, self.config.weights, self.private.with_name(f"{self.name}.weighted")) as counts,
            ):
                return self._learn(corpus, counts)

    def _learn(self, corpus: dict[str, Any], parts: list[Part]) -> TrainResult:
        self.parts = parts
        self.unencodable: Unencodable = self._counting().unencodable
        stop_words, alphabet, self.uncovered = choose_symbols(parts, self.config, self.unencodable)
        target = self._target(alphabet, stop_words)
        joins = self.config.superwords != "none"
        if joins:  # which chunks may join, and what cuts the text of uw, the tables say again
            refuse_other_tables(self.folder.path, self.facts, self._counting_pattern(), "learning superwords")
        documents = self._documents(parts) if joins else []
        patterns = self._stage_patterns() if self.config.superwords == "uw" else (None, None)
        words_target = self._words_target(target, alphabet, stop_words)
        journal = self._open_journal(corpus)
        self.book = self._new_book(alphabet, stop_words)
        self.book.add(journal.events, 0)
        engine = None
        try:
            if not joins or not phase_folder(self.private, journal.events, words_target, self.config).exists():
                engine = self._open_engine(parts, alphabet, stop_words, journal)
                if not journal.saved:  # what the words refuse leaves no journal behind
                    journal.save()
                self.meter.stage, self.meter.total = "learning", words_target
                self.meter.done = self.meter.resumed_from = engine.learned
                self.meter.started = time.monotonic()
                self._pass_until(engine, journal, words_target)
                journal.commit()
            elif not journal.saved:  # a larger size, and no words more
                journal.save()
            learned = self.book.learned
            reached = learned >= words_target
            if self.stop.is_set() and not (reached and not joins):
                self._try_fold(journal, engine, wait_seconds=1.0)
                raise self._stopped(len(journal.events))
            joined = None
            if joins:
                stand = None  # how often each token does, after all words
                if engine is not None:
                    self._try_fold(journal, None, wait_seconds=0.0)
                    stand = engine.token_counts()
                    engine.close()
                    engine = None
                    release_memory()
                folder = phase_folder(self.private, journal.events, words_target, self.config)
                phase = self._superwords(journal, alphabet, stop_words, documents, patterns, target, reached, folder)
                joined = self._join(phase, journal, parts, alphabet, stop_words, stand)
                journal, learned = joined.journal, joined.learned
                reached = learned >= target
                corpus = {**corpus, "documents_sum": self._documents_sum(phase, documents)}
            self.meter.stage = "writing"
            result = self._finish(journal, corpus, alphabet, stop_words, learned, reached)
            failpoint("log-written")
            folded = self._try_fold(journal, engine, wait_seconds=_LAST_FOLD_SECONDS, finished=result, joined=joined)
        finally:
            if engine is not None:
                engine.close()
            shutil.rmtree(self.blocks, ignore_errors=True)
        if not folded:  # the journal stays, and the next command folds it
            return replace(result, folded=False)
        journal.path.unlink()
        failpoint("journal-removed")
        shutil.rmtree(self.private, ignore_errors=True)
        self.meter.stage = "trained"
        return result

    # ------------------------------------------------------------------ superwords

    def _documents(self, parts: Sequence[Part]) -> list[SequencePart]:
        """The stored documents, or what to do where there are none."""
        if not json.loads(self.facts["config"]).get("sequences"):
            raise RunMismatch(
                f"{self.folder.path} was counted without --sequences, and superwords are learned from the documents. "
                f"Nothing was changed. Count into another RUN: `streambpe train RUN SOURCE... --superwords "
                f"{self.config.superwords}` does it by itself."
            )
        return order_parts(self.folder, parts)

    def _stage_patterns(self) -> tuple[Pattern, Pattern]:
        """uw: what the words are cut by, and what superwords are cut by."""
        counting = self._counting().as_facts()
        gaps = counting["gaps"]
        first = find_pattern(counting["pattern"], gaps=gaps, split_scripts=counting["split_scripts"])
        if gaps == "drop" or first.word_mark:
            raise RunMismatch(
                f"{self.folder.path} was counted with --{'gaps drop' if gaps == 'drop' else 'pattern whitespace'}, so "
                f"that its chunks are not the whole text, which --superwords uw cuts anew. Nothing was changed. "
                f"Count into another RUN."
            )
        find_pattern(self.config.stage2_pattern, gaps=gaps)  # refuses one that leaves text out
        return first, encoding_pattern({**counting, **self.config.as_facts()})

    def _words_target(self, target: int, alphabet: Alphabet, stop_words: Sequence[str]) -> int:
        """How many tokens phase one learns."""
        if self.config.transition is None:
            return target
        there = len(alphabet) + len(stop_words)
        if self.config.transition < there:
            raise UsageError(
                f"--transition {self.config.transition} is less than the {there} ids that are there before anything is "
                f"learned: {len(alphabet)} base symbols, {len(stop_words)} stop words."
            )
        return self.config.transition - there

    def _words_of(self, log: EventLog) -> list[Event]:
        """Phase one of a finished training, under its own ids."""
        ahead: list[Event] = []
        with contextlib.closing(open_store(self.folder.state, read_only=True)) as con:
            if self.name in list_trainings(con):
                use_training(con, self.name)
                if read_facts(con).get("sha256") == events_digest(log.events):
                    ahead = read_words_ahead(con)
        return phase_one(log, ahead)

    def _superwords(
        self,
        journal: Journal,
        alphabet: Alphabet,
        stop_words: Sequence[str],
        documents: list[SequencePart],
        patterns: tuple[Pattern | None, Pattern | None],
        target: int,
        words_reached: bool,
        folder: Path,
    ) -> SuperwordPhase:
        job = SuperwordJob(
            config=self.config,
            alphabet=alphabet,
            stop_words=stop_words,
            contents=self.book.contents,
            born=self.book.born,
            words=journal.events,
            words_learned=self.book.learned,
            words_reached=words_reached,
            target=target,
            sequences=self.folder.sequences,
            parts=documents,
            word_pattern=patterns[0],
            pattern=patterns[1],
            folder=folder,
            blocks=self.blocks,
            resources=self.resources,
            prune=self.prune,
            tuning=self.tuning,
        )
        return SuperwordPhase(
            job, self.meter, self.stop, checkpoint_seconds=self.checkpoint_seconds, on_batch=self.on_batch
        )

    def _join(
        self,
        phase: SuperwordPhase,
        words: Journal,
        parts: Sequence[Part],
        alphabet: Alphabet,
        stop_words: Sequence[str],
        stand: tuple[Int64, Int64, Int64] | None,
    ) -> Joined:
        """The one order of words and superwords, as the log and the tables are to show it."""
        runs = None
        try:
            made = phase.run()
            if self.config.superwords != "uw":
                runs = phase.run_table()
        except StopRequested:
            raise self._stopped(len(words.events) + phase.learned) from None
        journal = Journal(words.path, words.training, f"{words.number}-joined", made.events, saved=True)
        journal.batches.append({**carried_pass(len(made.events)), "mode": "interleaved"})
        for veto in words.vetoes if len(phase.words) == len(words.events) else []:  # uw may pass words over
            if veto["seq"] <= made.used:  # else the words never come that far in this model
                pair = {side: made.renumbered[veto[side]] for side in ("left", "right")}
                journal.vetoes.append({**veto, **pair, "seq": made.place_of_word(veto["seq"])})
        self.book = self._new_book(alphabet, stop_words)
        self.book.add(made.events, 0)
        if self.config.superwords == "uw":  # neither its neighbours nor its tokens are those of chunk_counts
            return Joined(journal, made.learned, made.ahead, None, None, None)
        if (
            stand is not None
            and self.config.tau is None
            and self.config.encoding == "bytes"
            and can_undo(words.events, made.used)
        ):
            token_counts = self._counts_before(stand, words.events[made.used :], phase.job, parts)
        else:
            token_counts = self._count_again(made, words, parts, alphabet, stop_words)
        renumbered = np.array([made.renumbered[number] for number in token_counts[0].tolist()], np.int64)
        return Joined(journal, made.learned, made.ahead, phase.adjacency(), runs, (renumbered, *token_counts[1:]))

    def _counts_before(
        self, stand: tuple[Int64, Int64, Int64], merges: Sequence[Event], job: SuperwordJob, parts: Sequence[Part]
    ) -> tuple[Int64, Int64, Int64]:
        """As `_count_again`, from the counts after all words: those that found no place are taken back."""
        number_of = {job.contents[event.id - job.alphabet.first_id]: event.id for event in merges}
        n = count_whole(parts, takes_part(job.stop_words, self.config.freq_cutoff), number_of)
        ids, left = undo(stand[0], stand[1], merges, {number_of[chunk]: many for chunk, many in n.items()})
        return ids, left, np.zeros(len(ids), np.int64)

    def _count_again(
        self,
        made: Interleaved,
        words: Journal,
        parts: Sequence[Part],
        alphabet: Alphabet,
        stop_words: Sequence[str],
    ) -> tuple[Int64, Int64, Int64]:
        """(id, n, alone) of the tokens in chunks of several, by the word steps that found a place: these, replayed."""
        vetoes = [veto for veto in words.vetoes if veto["seq"] <= made.used]
        kept = Journal(words.path, words.training, words.number, words.events[: made.used], vetoes=vetoes, saved=True)
        with contextlib.closing(self._open_engine(parts, alphabet, stop_words, kept)) as engine:
            return engine.token_counts()

    def _documents_sum(self, phase: SuperwordPhase, documents: list[SequencePart]) -> str:
        file = phase.job.folder / "documents.sum"
        with contextlib.suppress(OSError, ValueError):
            found, made_of = file.read_text().split()
            if made_of == fingerprint(phase.made_of, found):
                return found
        self.meter.stage = "documents"
        found = documents_digest(self.folder, documents, phase.readers)
        replace_file(file, f"{found} {fingerprint(phase.made_of, found)}".encode())
        return found

    @staticmethod
    def _new_book(alphabet: Alphabet, stop_words: Sequence[str]) -> TokenBook:
        return TokenBook.of(alphabet, [word.encode() for word in stop_words])

    def _stopped(self, events: int) -> Stopped:
        return Stopped(
            f"Stopped after {events:,} events, all kept. Go on with: {self._resume_command()}",
            stopped_by(self.stop),
        )

    def _resume_command(self) -> str:
        return f"streambpe resume {self.folder.path}" + ("" if self.name == "main" else f" --name {self.name}")

    def _pass_until(self, engine: Engine, journal: Journal, target: int) -> None:
        """Pass after pass, with a checkpoint every few seconds."""
        last_checkpoint = last_snapshot = time.monotonic()
        snapshot_cost = 0.0
        for batch in engine.batches(target - engine.learned):
            self._record(batch, journal)
            self.meter.done = engine.learned
            self.meter.facts.update(
                events=len(journal.events),
                passes=len(journal.batches),
                batch_events=len(batch.id),
                mode=batch.record.mode,
            )
            if self.on_batch:
                self.on_batch(batch)
            now = time.monotonic()
            if now - last_checkpoint >= self.checkpoint_seconds or self.stop.is_set():
                journal.commit()
                last_checkpoint = now
                self.meter.facts["checkpoint"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
                if self.stop.is_set():
                    return
                self._try_fold(journal, None, wait_seconds=0.0)
                if now - last_snapshot > max(self.snapshot_seconds, _SNAPSHOT_SHARE * snapshot_cost):
                    began = time.monotonic()
                    write_snapshot(self.private, engine, journal)
                    snapshot_cost = time.monotonic() - began
                    last_snapshot = time.monotonic()
                last_checkpoint = time.monotonic()

    def _record(self, batch: Batch, journal: Journal) -> None:
        for left, right, n in batch.vetoed:
            journal.add_veto(left, right, n)
        first = len(journal.events)
        deleted = iter(batch.deleted)
        gone = next(deleted, None)
        merges = zip(batch.left.tolist(), batch.right.tolist(), batch.id.tolist(), batch.n.tolist(), strict=True)
        for done, merge in enumerate(merges, 1):
            journal.add_event(merge_event(*merge))
            while gone is not None and gone.after == done:
                journal.add_event(delete_event(gone.id, gone.into, gone.n))
                gone = next(deleted, None)
        self.book.add(journal.events[first:], first)
        record = asdict(batch.record)
        journal.add_batch(
            {
                "batch": len(journal.batches),
                "first_seq": first,
                "events": len(journal.events) - first,
                "pair_floor": record.pop("floor"),
                **{key: record[key] for key in record if key != "merges"},
            }
        )

    # ------------------------------------------------------------------ what it starts from

    def _corpus(self) -> tuple[dict[str, Any], list[Part]]:
        """The facts of the counted corpus, folded if a kill came before that."""
        parts = list_parts(self.folder, clean=True)
        if not parts:
            raise RunError(
                f"{self.folder.path} has no counts yet. `streambpe train {self.folder.path} SOURCE...` counts "
                f"and learns."
            )
        for leftover in self.folder.path.glob(f"{log_path(self.folder, self.name).name}.*.tmp"):
            leftover.unlink()
        corpus = fold(
            self.folder,
            memory_bytes=self.resources.memory_bytes,
            threads=self.resources.threads,
            temp_dir=self.resources.temp_dir,
        )
        if not corpus["chunks"]:
            raise RunError(
                f"{self.folder.path} holds no text: all its sources are empty. Nothing was changed. "
                f"`streambpe train {self.folder.path} SOURCE...` counts others into it."
            )
        self.facts = self.folder.facts()
        left, runs = left_to_count(self.folder)
        self.left_out = [*left, *(Unfinished(run, 0, "chunks", "", False) for run in runs)]
        if self.config.weights:
            self.groups = {"groups": read_groups(self.folder)}
        return corpus, list_parts(self.folder)

    def refuse_half_counted(self, given: Collection[str] = ()) -> None:
        """An error where a new training would learn from part of a corpus and nobody asked for that.

        One that is going on was begun on the counts it is to have; that these are the same is asked elsewhere.
        `given`: paths of sources that are counted before it begins.
        """
        if not self.allow_partial and not journal_path(self.folder, self.name).exists():
            refuse_half_counted(self.folder, ", or learn from what is there with --allow-partial", given=given)

    def _identity(self, corpus: dict[str, Any]) -> dict[str, Any]:
        """What must not change while a training goes on."""
        return {"config": self.config.as_facts(), "specials": list(self.config.specials),
                "reserve": self.config.reserve, "corpus": corpus["sha256"]}  # fmt: skip

    def refuse_changes(self) -> bool:
        """Compare the options with those this training was started with, before anything is read.

        Returns whether it was started at all.
        """
        path, log = journal_path(self.folder, self.name), log_path(self.folder, self.name)
        if path.exists():
            before = Journal.read(path).training
        elif log.exists():
            before = self._identity_of(self._read_log())
        else:
            return False
        self._refuse_changes(before, {"sha256": before["corpus"]})
        return True

    def _refuse_changes(self, before: dict[str, Any], corpus: dict[str, Any]) -> None:
        """Only a larger vocab_size may differ from what a training was started with."""
        now = self._identity(corpus)
        where = f"{self.folder.path}, training {self.name},"
        if before["corpus"] != now["corpus"]:
            raise ResumeMismatch(
                f"{where} was learned from other counts: sources were added since, or parts of its counts are gone. It "
                f"was not changed. `streambpe count {self.folder.path} SOURCE...` reads again what is gone. "
                f"Learn from all of them beside it with --name NAME."
            )
        flat_before = {**before["config"], "special": before["specials"], "reserve": before["reserve"]}
        flat_now = {**now["config"], "special": now["specials"], "reserve": now["reserve"]}
        for key in sorted(flat_now.keys() | flat_before.keys()):
            saved, asked = flat_before.get(key), flat_now.get(key)
            if key == "vocab_size":
                if saved is not None and asked is not None and asked < saved:
                    raise ResumeMismatch(
                        f"{where} was started with --vocab-size {saved}; {asked} is smaller. Nothing was changed. "
                        f"Every smaller vocabulary can be cut from it, or learned beside it with --name NAME."
                    )
                if saved != asked and self.config.batch == "paper":
                    raise ResumeMismatch(
                        f"{where} was started with --vocab-size {saved}, not {asked}, and --batch paper: its batches "
                        f"depend on the size asked for, so it cannot go on to another. Nothing was changed. Learn "
                        f"the larger one beside it with --name NAME."
                    )
            elif saved != asked:
                raise ResumeMismatch(
                    f"{where} was started with --{key.replace('_', '-')} {saved}, not {asked}; nothing was changed. "
                    f"Go on with `{self._resume_command()}`, or learn beside it with --name NAME."
                )

    def _finished(self, corpus: dict[str, Any]) -> TrainResult | None:
        """The result of a training that is done; None if there is something to learn."""
        path = log_path(self.folder, self.name)
        if not path.exists() or journal_path(self.folder, self.name).exists():
            return None
        log = self._read_log()
        self._refuse_changes(self._identity_of(log), corpus)
        if log.header.config["vocab_size"] < self.config.vocab_size or not self._in_tables(log):
            return None
        accept(path)
        return TrainResult(
            path, _model_size(log), len(log.events), events_digest(log.events),
            _model_size(log) >= self._full_size(), 0, skipped=True,
            left_out=tuple(source["source"] for source in log.header.corpus.get("left_out", ())),
        )  # fmt: skip

    def _in_tables(self, log: EventLog) -> bool:
        """Whether the tables show this log; else they were lost, or are those of an earlier time."""
        with contextlib.closing(open_store(self.folder.state, read_only=True)) as con:
            if self.name not in list_trainings(con):
                return False
            use_training(con, self.name)
            return read_facts(con).get("sha256") == events_digest(log.events)

    def _read_log(self) -> EventLog:
        path = log_path(self.folder, self.name)
        refuse_other_log(path)
        try:
            return read_event_log(path)
        except EventLogError as why:
            raise RunError(f"{why}. Remove the file and train again: the counts are kept.") from None

    @staticmethod
    def _identity_of(log: EventLog) -> dict[str, Any]:
        ours = {f.name for f in fields(TrainConfig)}
        return {
            "config": {key: value for key, value in log.header.config.items() if key in ours},
            "specials": [special.text for special in log.header.specials],
            "reserve": log.header.reserved,
            "corpus": log.header.corpus["sha256"],
        }

    def _open_journal(self, corpus: dict[str, Any]) -> Journal:
        """The journal of an unfinished training, or a new one; a finished smaller vocabulary is gone on from."""
        path = journal_path(self.folder, self.name)
        identity = self._identity(corpus)
        if path.exists():
            journal = Journal.read(path)
            self._refuse_changes(journal.training, corpus)
            if journal.training["config"]["vocab_size"] == self.config.vocab_size:
                if self._tables_are_ahead(journal):  # it was cut; what is learned again may come in other passes
                    return Journal.start(path, journal.training, journal.events, journal.batches, journal.vetoes)
                return journal
            identity |= {key: journal.training[key] for key in ("left_out",) if key in journal.training}
            return Journal.start(path, identity, journal.events, journal.batches, journal.vetoes)
        if self.left_out:
            identity["left_out"] = [source.as_fact(whole_path=True) for source in self.left_out]
        # what an earlier training of this name left belongs to other events
        remove_folder(self.private)
        if not log_path(self.folder, self.name).exists():
            return Journal.start(path, identity)
        if self.config.superwords == "uw":  # its log has the words as they count in stage 2
            return Journal.start(path, identity)
        if self.config.superwords != "none":
            words = self._words_of(self._read_log())
            return Journal.start(path, identity, words, [carried_pass(len(words))] if words else [])
        events = self._read_log().events
        passes = None
        with contextlib.closing(open_store(self.folder.state, read_only=True)) as con:
            if self.name in list_trainings(con):
                use_training(con, self.name)
                passes = read_passes(con, len(events))
        return Journal.start(path, identity, events, *(passes or ([carried_pass(len(events))], [])))

    def _tables_are_ahead(self, journal: Journal) -> bool:
        """Whether the tables hold more of this journal than it does itself, as no kill can leave them."""
        try:
            con = open_store(self.folder.state, read_only=True, wait_seconds=0.0)
        except StoreHeld:
            return False
        with contextlib.closing(con):
            if self.name not in list_trainings(con):
                return False
            use_training(con, self.name)
            facts = read_facts(con)
        if facts.get("journal") != journal.number:
            return False
        return int(facts["events"]) > len(journal.events) or int(facts["batches"]) > len(journal.batches)

    def _full_size(self) -> int:
        return self.config.vocab_size + (0 if self.config.count_specials else self.config.extra_ids)

    def _target(self, alphabet: Alphabet, stop_words: Sequence[str]) -> int:
        """How many tokens are to be learned."""
        taken = len(alphabet) + len(stop_words) + (self.config.extra_ids if self.config.count_specials else 0)
        if self.config.vocab_size < taken:
            raise UsageError(
                f"--vocab-size {self.config.vocab_size} is less than the {taken} ids that are there before anything "
                f"is learned: {len(alphabet)} base symbols, {len(stop_words)} stop words, {self.config.extra_ids} "
                f"special and reserved."
            )
        return self.config.vocab_size - taken

    @property
    def blocks(self) -> Path:
        """Where the engine's blocks and spills go: under --temp-dir if it is given, named after the run."""
        if self.resources.temp_dir is None:
            return self.private / "blocks"
        run = hashlib.sha256(str(self.folder.path.resolve()).encode()).hexdigest()[:16]
        return self.resources.temp_dir / f"streambpe-{run}-{self.name}"

    def _engine_options(self, codec: Codec) -> EngineOptions:
        room = room_for_arrays(self.resources.memory_bytes, BASE_BYTES) - _FOLD_BYTES
        deletions = None
        if self.config.tau is not None:
            deletions = Deletions(Fraction(self.config.tau), self.config.delete_to, self.config.delete_test)
        return EngineOptions(**{
            "ties": self.config.ties,
            "overlaps": self.config.overlaps,
            "batch": self.config.batch,
            "cap_divisor": self.config.cap_divisor,
            "max_batch": self.config.max_batch,
            "min_frequency": self.config.min_frequency,
            "max_token_length": self.config.max_token_length,
            "blocked": frozenset(map(codec.content, self.config.block_tokens)),
            "memory_bytes": max(room, LEAST_BYTES),
            "deletions": deletions,
            "threads": self.resources.threads,
            "work_dir": self.blocks,
            **self.tuning,
        })  # fmt: skip

    def _open_engine(
        self, parts: Sequence[Part], alphabet: Alphabet, stop_words: Sequence[str], journal: Journal
    ) -> Engine:
        """The engine at the journal's last event: from a snapshot if there is one, else from the words."""
        codec = training_codec(alphabet, self.unencodable)
        options = self._engine_options(codec)
        base: list[bytes] = [b""] * alphabet.first_id + list(alphabet.symbols)
        first_id = len(base) + len(stop_words)
        rule = WholeCharacterRule(alphabet, first_id) if self.config.whole_characters else None
        merges, deleted = _merges_and_deletions(journal.events)
        vetoes = [(v["left"], v["right"], v["n"]) for v in journal.vetoes]
        remove_folder(self.blocks)
        self.blocks.mkdir(parents=True, exist_ok=True)
        engine = None
        found = find_snapshot(self.private, journal)
        if found is not None:
            snapshot, events = found
            at = sum(event.op is not Op.DELETE for event in journal.events[:events])
            with contextlib.suppress(ValueError):  # of a version that this one does not read
                engine = Engine.restore(snapshot, base, options, first_id=first_id, rule=rule, events=merges[:at])
        if engine is not None:
            known = len(engine.vetoed)
        else:
            at = known = 0
            files = WordFiles(self.private / "words")
            self.meter.stage = "words"
            keep = takes_part(stop_words, self.config.freq_cutoff)
            files = write_words(parts, keep, codec, self.private / "words", lambda rows: None)
            release_memory()
            try:
                engine = Engine(files.open(), base, options, first_id=first_id, rule=rule)
            except CountOverflow as why:
                raise StreambpeError(str(why)) from None
        if len(merges) > at or len(vetoes) > known:
            self.meter.stage = "replaying"
            try:
                engine.replay([], vetoes[known:])
                borders = [len(merges)]
                if self.config.batch == "paper":  # counts are those of a round's start: replayed round by round
                    borders = [batch["first_seq"] + batch["events"] for batch in journal.batches]
                for border in borders:
                    if border > at:
                        later = [gone._replace(after=gone.after - at) for gone in deleted if at < gone.after <= border]
                        engine.replay(merges[at:border], deleted=later)
                        at = border
            except ReplayMismatch as why:
                engine.close()
                raise RunError(
                    f"{self.folder.path}, training {self.name}: {why} Remove {journal.path.name} and "
                    f"{log_path(self.folder, self.name).name} and train again: the counts are kept."
                ) from None
        return engine

    # ------------------------------------------------------------------ what it leaves

    def _counting_pattern(self) -> Pattern:
        counting = self._counting()
        return find_pattern(counting.pattern, gaps=counting.gaps, split_scripts=counting.split_scripts)

    def _counting(self) -> CountConfig:
        """How the run was counted."""
        return CountConfig(**json.loads(self.facts["config"]))

    def _finish(
        self,
        journal: Journal,
        corpus: dict[str, Any],
        alphabet: Alphabet,
        stop_words: Sequence[str],
        learned: int,
        reached: bool,
    ) -> TrainResult:
        """Write the event log."""
        left_out = journal.training.get("left_out", [])
        if left_out:  # without the folders: a log has no paths
            names = [{**source, "source": source["source"].rsplit("/", 1)[-1]} for source in left_out]
            corpus = {**corpus, "left_out": names}
        header = self._header(corpus, alphabet, stop_words, learned)
        path = log_path(self.folder, self.name)
        log = EventLog(header, tuple(journal.events))
        digest = hashlib.sha256(b"".join(log_lines(log)[0])).hexdigest()
        accept(path, digest, also=True)
        sha256 = write_event_log(path, log)
        accept(path, digest)
        size = len(alphabet) + len(stop_words) + learned + self.config.extra_ids
        uncovered = self.uncovered if self.config.unk else None
        return TrainResult(
            path, size, len(journal.events), sha256, reached, len(journal.vetoes), uncovered=uncovered,
            left_out=tuple(source["source"] for source in left_out),
        )  # fmt: skip

    def _header(self, corpus: dict[str, Any], alphabet: Alphabet, stop_words: Sequence[str], learned: int) -> Header:
        before = alphabet.first_id + len(alphabet)
        next_id = before + len(stop_words) + learned
        first_special = alphabet.first_id if self.config.specials_first else next_id
        count_config = self._counting().as_facts()
        for key in ("bad_utf8", "sequences"):
            del count_config[key]
        pattern = find_pattern(count_config["pattern"], gaps=count_config["gaps"])
        return Header(
            alphabet=alphabet.to_header(),
            config={**count_config, "expression": pattern.expression, **self.config.as_facts()},
            unicode=json.loads(self.facts.get("unicode", "{}")).get("version", pattern.unicode),
            corpus={
                key: corpus[key]
                for key in ("documents", "bytes", "chunks", "sha256", "documents_sum", "left_out")
                if key in corpus
            }
            | self.groups,
            unk=self.config.unk,
            stop_words=tuple(StopWord(before + i, word.encode()) for i, word in enumerate(stop_words)),
            specials=tuple(Special(text, first_special + i) for i, text in enumerate(self.config.specials)),
            reserved=self.config.reserve,
        )

    def _try_fold(
        self,
        journal: Journal,
        engine: Engine | None,
        *,
        wait_seconds: float,
        finished: TrainResult | None = None,
        joined: Joined | None = None,
    ) -> bool:
        """Bring the tables up to date unless somebody holds the file; that only delays this."""
        try:
            self._fold(journal, engine, wait_seconds=wait_seconds, finished=finished, joined=joined)
        except StoreHeld:
            return False
        return True

    def _fold(
        self,
        journal: Journal,
        engine: Engine | None,
        *,
        wait_seconds: float,
        finished: TrainResult | None = None,
        joined: Joined | None = None,
    ) -> None:
        """Events, tokens, passes and vetoes since the last fold into state.duckdb, in one transaction.

        With the engine also the pair counts; without it they are left out of date, as table facts says.
        """
        con = open_store(
            self.folder.state,
            memory_bytes=_FOLD_BYTES,
            threads=self.resources.threads,
            temp_dir=self.resources.temp_dir,
            wait_seconds=wait_seconds,
        )
        with contextlib.closing(con):
            con.begin()
            use_training(con, self.name, create=True)
            fold_training(con, journal.number, journal.events, journal.batches, journal.vetoes, self.book)
            if self.config.weights:
                fill_weighted_counts(con, merge_ranges(self.parts, _WEIGHTED_BYTES))
            facts = {
                "journal": journal.number,
                "config": json.dumps(journal.training),
                "events": str(len(journal.events)),
                "batches": str(len(journal.batches)),
                "vetoed": str(len(journal.vetoes)),
                "state": "done" if finished else "unfinished",
                "pair_counts_at": str(len(journal.events)) if engine else "",
            }
            if "left_out" in journal.training:
                facts["left_out"] = json.dumps(journal.training["left_out"])
            token_counts = None
            if engine is not None:
                left, right, n, floor = engine.hot_pairs()
                pairs = pl.DataFrame({"left_id": left, "right_id": right, "n": n}).sort("left_id", "right_id")
                run_sql(con, "steps/clear_pair_counts")
                append(con, "pair_counts", pairs)
                facts["pair_floor"] = str(floor)
                token_counts = self._count_in_chunks(journal.events) if self.config.unk else engine.token_counts()
            if joined is not None:
                token_counts = joined.token_counts
                run_sql(con, "steps/clear_superword_adjacency")
                run_sql(con, "steps/clear_superword_runs")
                if joined.adjacency is not None:
                    append(con, "superword_adjacency", joined.adjacency[0])
                    facts["adjacency_floor"] = str(joined.adjacency[1])
                if joined.runs is not None:
                    append(con, "superword_chunks", joined.runs.chunks)
                    facts["superword_runs"] = "filled"  # a training from before these tables has none
                    for rows in joined.runs.rows():
                        append(con, "superword_run_numbers", rows)
                run_sql(con, "steps/clear_words_ahead")
                ahead = event_rows(joined.ahead, 0).with_columns(seq=pl.lit(None, pl.Int64))
                append(con, "events", ahead)
            if token_counts is not None:
                fill_token_counts(
                    con,
                    *token_counts,
                    freq_cutoff=self.config.freq_cutoff,
                    symbols_spell_chunks=self.config.encoding == "bytes",
                    deletions=self.config.tau is not None or self.config.unk is not None,
                )
            else:
                run_sql(con, "steps/clear_token_counts")
            if self.config.unk:
                facts["unknown"] = str(self.uncovered.n)
            if finished:
                facts |= {
                    "sha256": finished.sha256,
                    "size": str(finished.size),
                    "reached": str(finished.reached).lower(),
                }
            for key, value in facts.items():
                run_sql(con, "steps/put_fact", key=key, value=value)
            failpoint("tables-filled")
            with tables_written(self.folder.state) as written:
                run_sql(con, "steps/put_run", key="written", value=written)
                con.commit()
        failpoint("tables-committed")

    def _count_in_chunks(self, events: Sequence[Event]) -> tuple[Int64, Int64, Int64]:
        """(id, n, alone) of the tokens in all chunks but stop words. The engine knows only what stands between unknown
        characters, so the chunks are encoded."""
        alphabet, there = self.book.alphabet, len(self.book.alphabet)
        stop_words = [word.decode() for word in self.book.contents[there : there + self.book.stop_words]]
        encoder = Encoder(EventLog(self._header({}, alphabet, stop_words, self.book.learned), tuple(events)))
        keep = takes_part(stop_words, self.config.freq_cutoff)
        return count_tokens(self.parts, keep, encoder)


def _merges_and_deletions(events: Sequence[Event]) -> tuple[list[tuple[int, int, int, int]], list[Deletion]]:
    """Events as the engine takes them: merges, and deletions by how many merges stand before them."""
    merges: list[tuple[int, int, int, int]] = []
    deleted: list[Deletion] = []
    for event in events:
        if event.op is Op.DELETE:
            deleted.append(Deletion(len(merges), event.id, event.into, event.n))
        else:
            merges.append((*event.pair, event.id, event.n))
    return merges, deleted


def _model_size(log: EventLog) -> int:
    """Model ids of a finished training."""
    living: set[int] = set()
    for event in log.events:
        (living.discard if event.op is Op.DELETE else living.add)(event.id)
    symbols = alphabet_size(log.header.alphabet)
    return symbols + len(log.header.stop_words) + len(living) + len(log.header.specials) + log.header.reserved


def engine_room(memory_bytes: int) -> int:
    """What --memory leaves to the engine at least, whatever counting left behind."""
    base = BASE_BYTES + LEFT_BEHIND_BYTES
    return max(memory_bytes - base - _FOLD_BYTES - memory_bytes // TRANSIENT_SHARE, LEAST_BYTES)


def fits_in_memory(places: int, memory_bytes: int) -> bool:
    """Whether an index of so many places (symbols + words) fits from the start; else the words go to disk first."""
    return places * BYTES_PER_PLACE <= engine_room(memory_bytes)


def memory_for(places: int) -> int:
    """The --memory with which an index of so many places fits in one piece."""
    room = places * BYTES_PER_PLACE + BASE_BYTES + LEFT_BEHIND_BYTES + _FOLD_BYTES
    return room * TRANSIENT_SHARE // (TRANSIENT_SHARE - 1)


# ---------------------------------------------------------------------------------------------------------
# the calls behind the commands


def train(
    run: Path | str,
    sources: Sequence[str | Source] = (),
    *,
    like: str = "hf",
    name: str = "main",
    counting: dict[str, Any] | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
    **options: Any,
) -> TrainResult:
    """Count the sources (if any are named) and learn a vocabulary; goes on where a stop or a kill left it.

    `counting`: arguments of `count`, such as {"options": {"pattern": "gpt4"}, "lines": True}; `options`:
    fields of TrainConfig, on top of what `like` sets. `allow_partial`: learn also where other sources that the run was
    given are not counted to their end.
    """
    config = TrainConfig.from_options(like, **options)
    check_name(name)
    folder = Run(run)
    folder.refuse_other_content("train", [source for source in sources if isinstance(source, str)])
    if not sources:
        folder = Run.open(run)
    resources = resources or Resources.from_options()
    resources.check_superwords(config.superwords)
    if folder.state.exists():
        refuse_like(folder, like, (counting or {}).get("options") or {})
    if not sources:
        refuse_other_counting(folder, counting or {})
    counting = counting_for(like, config, counting)
    names = [source for source in sources if isinstance(source, str)]
    trainer = Trainer(
        folder,
        config,
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        on_batch=on_batch,
        checkpoint_seconds=checkpoint_seconds,
        allow_partial=allow_partial,
    )
    if folder.path.is_dir():
        with folder.lock():  # the journal of a running training is not to be touched
            found = _find_named(names, counting)
            if trainer.refuse_changes():
                _refuse_new_sources(folder, name, found)
            trainer.refuse_half_counted({*found, *(source.path for source in sources if isinstance(source, Source))})
    job = describe_job(sources, counting, config, resources, checkpoint_seconds, allow_partial)
    with disk_full_explained(folder.path):
        before = put_job(folder, name, job)
    failpoint("job-written")
    try:
        warnings: tuple[str, ...] = ()
        if sources:
            warnings = _count(folder, name, job, sources, resources=resources, progress=progress, stop=stop)
        return replace(trainer.run(), warnings=warnings)
    except UsageError:
        with folder.lock():
            write_jobs(folder, before)  # what was refused is not what `resume` goes on with
        raise


def describe_job(
    sources: Sequence[str | Source],
    counting: dict[str, Any],
    config: TrainConfig,
    resources: Resources,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    allow_partial: bool = False,
) -> dict[str, Any]:
    """What `resume` needs to know of a training."""
    return {
        "sources": [source for source in sources if isinstance(source, str)],
        "streams": [source.path for source in sources if not isinstance(source, str)],
        "counting": counting,
        "counted": not sources,
        "config": asdict(config),
        "resources": resources.as_facts(),
        "checkpoint_seconds": checkpoint_seconds,
        "allow_partial": allow_partial,
    }


def counting_for(like: str, config: TrainConfig, counting: dict[str, Any] | None) -> dict[str, Any]:
    """What to count with: what `like` says unless something else is asked for; superwords need the documents stored."""
    counting = dict(counting or {})
    if like in LIKE_COUNTING:
        asked = {key: value for key, value in counting.get("options", {}).items() if value is not None}
        counting["options"] = LIKE_COUNTING[like] | asked
    if config.superwords == "none":
        return counting
    options = dict(counting.get("options") or {})
    if options.get("sequences") is False:
        raise UsageError(f"--superwords {config.superwords} needs the documents; leave --no-sequences out.")
    return {**counting, "options": {**options, "sequences": True}}


def _count(
    folder: Run, name: str, job: dict[str, Any], sources: Sequence[str | Source], **arguments: Any
) -> tuple[str, ...]:
    """The counting half of a training; notes when it is complete. What there is to warn of."""
    try:
        result = count(folder.path, sources, **arguments, **job["counting"])
    except Stopped as stopped:
        command = f"streambpe resume {folder.path}" + ("" if name == "main" else f" --name {name}")
        if job["streams"]:
            command = "the same call of train_from_iterator"
        raise Stopped(
            f"Stopped; everything counted so far is kept in {folder.path}. Go on with: {command}",
            stopped.signal_number,
        ) from None
    with folder.lock():
        jobs = read_jobs(folder)
        jobs["trainings"][name]["counted"] = True
        write_jobs(folder, jobs)
    return result.warnings


def _find_named(sources: Sequence[str], counting: dict[str, Any]) -> list[str]:
    """The paths of the sources that are named."""
    arguments = {key: value for key, value in counting.items() if key not in ("options", "groups", "group_by")}
    return [source.path for source in find_sources(list(sources), **arguments)[0]] if sources else []


def _refuse_new_sources(folder: Run, name: str, found: Sequence[str]) -> None:
    """A training that was started learns from the counts it was started with: none may be added to it."""
    spans = spans_by_path(list_parts(folder))
    new = [path for path in found if not is_complete(spans.get(path, []))]
    if new:
        raise ResumeMismatch(
            f"{folder.path}, training {name}, was started without {new[0]}"
            + (f" and {len(new) - 1} more sources" if len(new) > 1 else "")
            + ". Nothing was changed. Learn from all of them beside it with --name NAME."
        )


def resume(
    run: Path | str,
    *,
    name: str | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> TrainResult | CountResult:
    """Go on with the last `train` or `count` of a run, or the training of a name, wherever it was stopped or killed.

    Without `resources` it goes on with those it had.
    """
    folder = Run(run)
    name, before = find_work(folder, name)
    if resources is None and before:
        resources = Resources.from_facts(before)
    if name is None:
        return resume_count(folder.path, resources=resources, progress=progress, stop=stop)
    name, job = find_job(folder, name)
    config = job["config"]
    for key in ("specials", "block_tokens"):
        config[key] = tuple(config[key])
    if resources is not None:
        resources.check_superwords(config["superwords"])
    warnings: tuple[str, ...] = ()
    if not job["counted"]:
        if job["streams"]:
            raise RunError(
                f"{folder.path} was counting {job['streams'][0]}, which only its program can give again: call "
                f"train_from_iterator as before and it goes on. Nothing was changed."
            )
        warnings = _count(folder, name, job, job["sources"], resources=resources, progress=progress, stop=stop)
    trainer = Trainer(
        Run.open(run),
        TrainConfig(**config),
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        checkpoint_seconds=job["checkpoint_seconds"],
        allow_partial=job.get("allow_partial", False),
    )
    return replace(trainer.run(), warnings=warnings)


def train_from_iterator(
    run: Path | str, texts: Iterable[str], *, source_name: str = "iterator", **arguments: Any
) -> TrainResult:
    """As `train`, over Python strings, one document each; call it again after a stop and it goes on."""
    return train(run, [Source(source_name, "iterator", texts=texts)], **arguments)
