"""Learning a vocabulary from a counted run: the whole story.

    words        chunk counts -> words of base symbols                     (train/words.py)
    passes       the engine, each pass a batch of exact merges             (train/engine/engine.py)
                 with a checkpoint every few seconds                       (store/journal.py)
    superwords   with --superwords, from the stored documents              (train/joining.py)
    event log    RUN/model.events.jsonl, at the end                        (model/eventlog.py)
    tables       the same in state.duckdb, when nobody holds it            (train/tables.py)

Learning is deterministic, so a checkpoint holds only the events so far: after a kill the words are made
again (or the last snapshot of them is loaded), the events behind it are learned again, and compared.

Places where tests let the process die (failpoints.py), in the order they are passed: job-written,
journal-written, journal-created, events-committed, tables-filled, tables-committed, snapshot-written,
snapshot-made, log-written, neighbours-published (of superwords), tables-filled, tables-committed, journal-removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from streambpe.disk import disk_full_explained
from streambpe.errors import EventLogError, LimitError, Stopped
from streambpe.failpoints import failpoint
from streambpe.model.corpus_facts import LeftOut
from streambpe.model.eventlog import EventLog, check_sizes, log_lines, write_log_lines
from streambpe.progress import Meter, Reporter
from streambpe.resources import release_memory
from streambpe.store.database import waiting_for_tables
from streambpe.store.identity import replacing
from streambpe.store.job import CHECKPOINT_SECONDS
from streambpe.store.journal import Journal
from streambpe.store.parts import parts_by_group
from streambpe.store.trainings import TokenTable
from streambpe.store.weights import check_weights
from streambpe.train.beginning import open_journal
from streambpe.train.counts import EDITED, find_corpus, read_counts
from streambpe.train.disk_bound import disk_needed, refuse_too_little_disk, within_disk
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.rules import Batch, EngineTuning
from streambpe.train.extension import refuse_too_little_memory
from streambpe.train.identity import finished, refuse_half_counted
from streambpe.train.joining import find_documents, join_superwords
from streambpe.train.must_haves import MustHaves
from streambpe.train.opening import open_engine
from streambpe.train.pace import Pace
from streambpe.train.snapshots import write_snapshot
from streambpe.train.superwords.phase import SuperwordPhase, superwords_folder
from streambpe.train.tables import Joined, Standing, Tables
from streambpe.train.training import Corpus, Goal, Start, Training, TrainResult, weights_told

SNAPSHOT_SECONDS = 60.0  # no snapshot is made sooner: a minute of learning is soon learned again
_LAST_FOLD_SECONDS = 30.0  # that a finished training waits for another process to close state.duckdb


@dataclass(eq=False)
class Trainer:
    """One training in a counted run. `run()` starts it, goes on with it, or finds it done.

    `on_batch` is called after every pass with the batch just learned. `tuning` is for tests; it never
    changes an event.
    """

    training: Training
    _: KW_ONLY
    progress: str = "none"
    stop: threading.Event = field(default_factory=threading.Event)
    on_batch: Callable[[Batch], None] | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    snapshot_seconds: float = SNAPSHOT_SECONDS
    tuning: EngineTuning = field(default_factory=EngineTuning)
    allow_partial: bool = False
    until: Sequence[str] = ()  # see train/until.py
    told: tuple[str, ...] = field(default=(), init=False)

    # ------------------------------------------------------------------ the story

    def run(self) -> TrainResult:
        """Learn until the size is reached or no pair is left."""
        training = self.training
        self.meter = Meter("preparing", unit="tokens", memory_limit=training.resources.memory_bytes)
        self.meter.facts["training"] = training.name
        with training.run.lock(), disk_full_explained(training.run.path), waiting_for_tables(self.stop):
            if not self.allow_partial:
                refuse_half_counted(training)
            if training.inherited is not None:
                refuse_too_little_memory(training.resources, str(training), len(training.inherited.log.events))
            corpus = find_corpus(training)
            warnings = (f"{EDITED}.",) * ("edited" in corpus.totals) + self.told
            done = None if self.until else finished(training, corpus.totals["sha256"])
            if done is not None:
                training.remove_work()  # killed at its very end, it left its files
                training.run.tidy()
                return replace(done, warnings=warnings)
            check_weights(training.run.path, parts_by_group(corpus.parts), training.config)
            if training.config.balance:
                from streambpe.train.balancing import BY_BYTES, refuse_groups  # not above: most trainings do without

                refuse_groups(training.run.path, parts_by_group(corpus.parts), training.config, training.resources)
                if not (training.config.balanced_on or training.config.balance_ratios):
                    warnings = (*warnings, BY_BYTES)
            if training.config.superwords != "none":
                text, kind = corpus.totals["bytes"], training.config.superwords
                refuse_too_little_disk(training.resources, text, kind, training.resume_command)
                self.meter.facts["disk_needed_bytes"] = sum(disk_needed(text, kind).values())
            with (
                Reporter(self.meter, training.run.write_status, self.progress),
                within_disk(training.run.path, training.blocks, training.resources, self.stop),
                read_counts(training, corpus) as read,
            ):
                if not self.until:
                    return replace(self._learn(read), warnings=warnings)
                self._choose_size(read)
            return self.run()

    def _choose_size(self, corpus: Corpus) -> None:
        """With --until-bytes-per-token: go on as a training of the size that it comes to."""
        from streambpe.train.until import size_until  # not above: most trainings do without

        size, told = size_until(self.until, self.training, corpus, self.tuning, self.meter, self.stop)
        self.training = replace(self.training, config=replace(self.training.config, vocab_size=size))
        self.until, self.told = (), (told,) if told else ()

    def _learn(self, corpus: Corpus) -> TrainResult:
        """Learn from the counts; write the log and the tables."""
        training = self.training
        start = Start.of(training, corpus)
        goal = start.goal
        documents = find_documents(training, corpus) if training.config.superwords != "none" else None
        journal = open_journal(training, corpus).without_must_haves()
        tables = Tables(start, self.checkpoint_seconds, self.stop)
        book = start.book()
        book.add(journal.words, 0)
        must = MustHaves.of(start, journal.words)
        with contextlib.ExitStack() as cleaning:
            cleaning.push(self._remove_blocks)
            standing, joined = None, None
            if documents is None or not superwords_folder(start, documents, journal.words).exists():
                journal = journal.without_superwords()  # those that there are follow from other words or documents
                engine = open_engine(start, journal, self.tuning, self.meter)
                with contextlib.closing(engine):
                    must.refuse_what_cannot_be(engine.state, goal.words - book.learned)
                    journal.save()  # not sooner: words that are refused leave none
                    self._learn_words(engine, journal, book, tables, goal, must)
                    if must.lack and not self.stop.is_set():
                        _record(must.put_together(engine, training.private / "must"), journal, book)
                        self._learn_words(engine, journal, book, tables, goal, must)
                    if documents is None or self.stop.is_set():
                        standing = Standing(engine.hot_pairs(), engine.token_counts())
                    else:
                        tables.publish(engine, journal, book)
                del engine
            journal.save()
            if self.stop.is_set() and not (book.learned >= goal.words and documents is None):
                tables.try_fill(journal, book, standing, wait_seconds=1.0)
                raise training.stopped(len(journal.events), self.stop)
            if documents is not None:
                release_memory()
                phase = SuperwordPhase(
                    start, documents, journal, book, self.meter, self.stop, tables.publish,
                    checkpoint_seconds=self.checkpoint_seconds, tuning=self.tuning, on_batch=self.on_batch,
                )  # fmt: skip
                joined = join_superwords(phase)
                journal, book, standing = joined.journal, joined.book, joined.standing
            result = self._write_log(start, journal, book, joined)
            release_memory()
            folded = tables.try_fill(
                journal, book, standing, wait_seconds=_LAST_FOLD_SECONDS, finished=result, joined=joined
            )
        if folded:  # without tables the journal stays: the next command fills them
            training.journal.unlink()
            failpoint("journal-removed")
            training.remove_work()
            self.meter.stage = "trained"
        return replace(result, folded=folded)

    # ------------------------------------------------------------------ words

    def _learn_words(
        self, engine: Engine, journal: Journal, book: TokenTable, tables: Tables, goal: Goal, must: MustHaves
    ) -> None:
        """Learn pass after pass, with a checkpoint every few seconds, until the other ids are what must-haves lack."""
        self.meter.stage, self.meter.total = "learning", goal.words
        self.meter.done = self.meter.resumed_from = book.learned
        self.meter.started = last_checkpoint = time.monotonic()
        snapshots = Pace(self.snapshot_seconds)
        while (left := goal.words - book.learned - must.lack) > 0 and (batch := engine.step(left)) is not None:
            _record(batch, journal, book)
            must.take(batch.events)
            self._tell(batch, book, journal)
            if time.monotonic() - last_checkpoint >= self.checkpoint_seconds or self.stop.is_set():
                journal.commit()
                self.meter.facts["checkpoint"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
                if self.stop.is_set():
                    break
                tables.publish(engine, journal, book)
                if snapshots.is_due():
                    with snapshots.timed():
                        write_snapshot(self.training.private, engine, journal)
                last_checkpoint = time.monotonic()
        journal.commit()

    def _tell(self, batch: Batch, book: TokenTable, journal: Journal) -> None:
        """Tell how far learning is."""
        self.meter.done = book.learned
        self.meter.facts |= {"events": len(journal.events), "passes": len(journal.batches)}
        self.meter.facts |= {"batch_events": len(batch.events), "mode": batch.record.mode}
        if self.on_batch:
            self.on_batch(batch)

    # ------------------------------------------------------------------ what it leaves

    def _write_log(self, start: Start, journal: Journal, book: TokenTable, joined: Joined | None) -> TrainResult:
        """Write the event log, whole or not at all."""
        self.meter.stage = "writing"
        path, totals = self.training.log, start.corpus.totals.copy()
        if joined is not None:
            totals["documents_sum"] = joined.documents_sum
        left_out: list[LeftOut] = journal.training.get("left_out", [])
        if left_out:  # without the folders: a log has no paths
            totals["left_out"] = [{**one, "source": one["source"].rsplit("/", 1)[-1]} for one in left_out]
        header = start.header(totals, book.learned)
        try:
            check_sizes(str(path), header, journal.events)
        except EventLogError:
            raise LimitError(
                f"{path} was not written, because its tokens are too long for any command to read: the text repeats "
                "itself for megabytes. The counts are kept; train with another --name and, for example, "
                "--max-token-length 1000, or a smaller --vocab-size."
            ) from None
        lines, sha256 = log_lines(EventLog(header, journal.events))
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        with replacing(path, digest):
            write_log_lines(path, lines)
        failpoint("log-written")
        return TrainResult(
            log=path,
            size=len(start) + book.learned + self.training.config.extra_ids,
            events=len(journal.events),
            sha256=sha256,
            reached=book.learned >= start.goal.tokens,
            vetoed=len(journal.vetoes),
            uncovered=start.uncovered if self.training.config.unk else None,
            left_out=tuple(source["source"] for source in left_out),
            weights=weights_told(header),
        )

    def _remove_blocks(self, why: type[BaseException] | None, *_: object) -> None:
        """Remove what learning takes of the disk; tables stay where it stops, for anyone who wants to look at them."""
        if self.training.resources.learner != "tables" or why is not Stopped:
            shutil.rmtree(self.training.blocks, ignore_errors=True)


def _record(batch: Batch, journal: Journal, book: TokenTable) -> None:
    """Add a pass to the journal: its vetoes, its events, then the pass itself."""
    book.add(batch.events, len(journal.events))
    journal.add_pass(batch.events, batch.record, batch.vetoed)
