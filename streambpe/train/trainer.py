"""Learning a vocabulary from a counted run: the whole story.

    words      chunk counts -> words of base symbols                     (train/words.py)
    engine     one pass after another, each a batch of exact merges      (train/engine.py)
    journal    events appended and fsynced every few seconds             (train/journal.py)
    fold       the same into tables, when nobody holds state.duckdb
    event log  RUN/model.events.jsonl, at the end                        (encode/eventlog.py)

Learning is deterministic, so a checkpoint is only the events so far: after a kill the words are made
again (or the last snapshot of them is loaded) and the events replayed, which is several times faster
than learning them was.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl

from streambpe.config import CountConfig, Resources, TrainConfig
from streambpe.encode.alphabet import Alphabet, bytes_alphabet, gpt2_alphabet, utf8_alphabet
from streambpe.encode.eventlog import (
    EventLog,
    Header,
    Special,
    StopWord,
    events_digest,
    merge_event,
    read_event_log,
    write_event_log,
)
from streambpe.encode.patterns import find_pattern
from streambpe.errors import LimitError, ResumeMismatch, RunError, Stopped, UsageError
from streambpe.memory import release_memory
from streambpe.progress import Meter, Reporter
from streambpe.store.chunks import BASE_BYTES, Part, fold, list_parts
from streambpe.store.database import open_store, use_training
from streambpe.store.run import Run, replace_file
from streambpe.store.sources import Source
from streambpe.store.sqlfiles import run_sql
from streambpe.store.trainings import TokenBook, fold_training, insert
from streambpe.train.count import count
from streambpe.train.engine import Batch, Engine, EngineOptions
from streambpe.train.journal import Journal
from streambpe.train.words import WordFiles, bytes_seen, choose_stop_words, takes_part, write_words

CHECKPOINT_SECONDS = 5.0
_SNAPSHOT_SHARE = 20  # a snapshot may cost one part in so many of the time since the last
_SNAPSHOT_SECONDS = 60.0  # and none is made sooner: replaying a minute of learning takes seconds
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


def log_path(run: Run, name: str) -> Path:
    """Where the event log of a training is."""
    return run.path / ("model.events.jsonl" if name == "main" else f"{name}.events.jsonl")


def journal_path(run: Run, name: str) -> Path:
    """Where the write-ahead log of a training is, while it is not finished."""
    return run.path / ("pending.events" if name == "main" else f"{name}.pending.events")


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
    ) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UsageError(f"--name {name}: small letters, digits and underscores, a letter first.")
        self.folder = run if isinstance(run, Run) else Run.open(run)
        self.config = config or TrainConfig()
        self.name = name
        self.resources = resources or Resources.from_options()
        self.progress = progress
        self.stop = stop or threading.Event()
        self.on_batch = on_batch
        self.checkpoint_seconds = checkpoint_seconds
        self.snapshot_seconds = snapshot_seconds
        self.tuning = tuning or {}
        self.private = self.folder.path / "training" / name  # words, snapshot, the engine's blocks
        self.meter = Meter("preparing", unit="tokens")

    # ------------------------------------------------------------------ the story

    def run(self) -> TrainResult:
        """Learn until the size is reached or no pair is left."""
        with self.folder.lock():
            corpus, parts = self._corpus()
            done = self._finished(corpus)
            if done is not None:
                return done
            with Reporter(self.meter, self.folder, self.progress):
                return self._learn(corpus, parts)

    def _learn(self, corpus: dict[str, Any], parts: list[Part]) -> TrainResult:
        journal = self._open_journal(corpus)
        stop_words, alphabet = self._choose_symbols(parts)
        target = self._target(alphabet, stop_words)
        self.book = TokenBook.of(alphabet.first_id, alphabet.symbols, [word.encode() for word in stop_words])
        self.book.add(journal.events, 0)
        engine = self._open_engine(parts, alphabet, stop_words, journal)
        first_id = alphabet.first_id + len(alphabet) + len(stop_words)
        try:
            self.meter.stage, self.meter.total = "learning", target
            self.meter.done = self.meter.resumed_from = engine.next_id - first_id
            self.meter.started = time.monotonic()
            self._pass_until(engine, journal, target, first_id)
            journal.commit()
            learned = engine.next_id - first_id
            reached = learned >= target
            if self.stop.is_set() and not reached:
                self._fold(journal, engine, wait_seconds=1.0)
                raise Stopped(
                    f"Stopped after {len(journal.events):,} events, all kept. Go on with: "
                    f"streambpe resume {self.folder.path}" + ("" if self.name == "main" else f" --name {self.name}"),
                    getattr(self.stop, "signal_number", signal.SIGINT),
                )
            self.meter.stage = "writing"
            result = self._finish(journal, corpus, alphabet, stop_words, learned, reached)
            self._fold(journal, engine, wait_seconds=30.0, finished=result)
        finally:
            engine.close()
        journal.path.unlink()
        shutil.rmtree(self.private, ignore_errors=True)
        self.meter.stage = "trained"
        return result

    def _pass_until(self, engine: Engine, journal: Journal, target: int, first_id: int) -> None:
        """Pass after pass, with a checkpoint every few seconds."""
        last_checkpoint = last_snapshot = time.monotonic()
        snapshot_cost = 0.0
        for batch in engine.batches(target - (engine.next_id - first_id)):
            self._record(batch, journal)
            self.meter.done = engine.next_id - first_id
            self.meter.facts.update(events=len(journal.events), mode=batch.record.mode)
            if self.on_batch:
                self.on_batch(batch)
            now = time.monotonic()
            if now - last_checkpoint >= self.checkpoint_seconds or self.stop.is_set():
                journal.commit()
                last_checkpoint = now
                self.meter.facts["checkpoint"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
                if self.stop.is_set():
                    return
                self._try_fold(journal)
                if now - last_snapshot > max(self.snapshot_seconds, _SNAPSHOT_SHARE * snapshot_cost):
                    began = time.monotonic()
                    self._snapshot(engine, len(journal.events))
                    snapshot_cost = time.monotonic() - began
                    last_snapshot = time.monotonic()
                last_checkpoint = time.monotonic()

    def _record(self, batch: Batch, journal: Journal) -> None:
        for left, right, n in batch.vetoed:
            journal.add_veto(left, right, n)
        first = len(journal.events)
        for left, right, new, n in zip(
            batch.left.tolist(), batch.right.tolist(), batch.id.tolist(), batch.n.tolist(), strict=True
        ):
            journal.add_event(merge_event(left, right, new, n))
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
        corpus = fold(
            self.folder,
            memory_bytes=self.resources.memory_bytes,
            threads=self.resources.threads,
            temp_dir=self.resources.temp_dir,
        )
        return corpus, list_parts(self.folder)

    def _identity(self, corpus: dict[str, Any]) -> dict[str, Any]:
        """What must not change while a training goes on."""
        return {"config": self.config.as_facts(), "specials": list(self.config.specials),
                "reserve": self.config.reserve, "corpus": corpus["sha256"]}  # fmt: skip

    def _refuse_changes(self, before: dict[str, Any], corpus: dict[str, Any]) -> None:
        """Only a larger vocab_size may differ from what a training was started with."""
        now = self._identity(corpus)
        where = f"{self.folder.path}, training {self.name},"
        if before["corpus"] != now["corpus"]:
            raise ResumeMismatch(
                f"{where} was learned from other counts: sources were added since. Nothing was changed. "
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
            elif saved != asked:
                raise ResumeMismatch(
                    f"{where} was started with --{key.replace('_', '-')} {saved}, not {asked}; nothing was changed. "
                    f"Go on with `streambpe resume {self.folder.path}`, or learn beside it with --name NAME."
                )

    def _finished(self, corpus: dict[str, Any]) -> TrainResult | None:
        """The result of a training that is done; None if there is something to learn."""
        path = log_path(self.folder, self.name)
        if not path.exists() or journal_path(self.folder, self.name).exists():
            return None
        log = read_event_log(path)
        self._refuse_changes(self._identity_of(log), corpus)
        if log.header.config["vocab_size"] < self.config.vocab_size:
            return None
        return TrainResult(
            path, _model_size(log), len(log.events), events_digest(log.events),
            _model_size(log) >= self._full_size(), 0, skipped=True,
        )  # fmt: skip

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
            if journal.training["config"]["vocab_size"] != self.config.vocab_size:
                grown = Journal.create(path, identity, journal.events)
                grown.batches, grown.vetoes = journal.batches, journal.vetoes
                return grown
            return journal
        log = log_path(self.folder, self.name)
        return Journal.create(path, identity, read_event_log(log).events if log.exists() else ())

    def _choose_symbols(self, parts: Sequence[Part]) -> tuple[list[str], Alphabet]:
        stop_words = choose_stop_words(parts, self.config.stop_list)
        if self.config.alphabet == "seen":
            seen = bytes_seen(parts, takes_part(stop_words, self.config.freq_cutoff))
            return stop_words, replace_symbols(gpt2_alphabet(), seen)
        made = {"gpt2": gpt2_alphabet, "bytes": bytes_alphabet, "utf8": utf8_alphabet}[self.config.alphabet]()
        return stop_words, made

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

    def _engine_options(self) -> EngineOptions:
        room = self.resources.memory_bytes - BASE_BYTES - _FOLD_BYTES
        if room < 0:
            raise LimitError(
                f"--memory must leave room for the engine: at least {(BASE_BYTES + _FOLD_BYTES) >> 20} MB."
            )
        return EngineOptions(**{
            "ties": self.config.ties,
            "overlaps": self.config.overlaps,
            "batch": self.config.batch,
            "cap_divisor": self.config.cap_divisor,
            "max_batch": self.config.max_batch,
            "min_frequency": self.config.min_frequency,
            "max_token_length": self.config.max_token_length,
            "blocked": frozenset(token.encode() for token in self.config.block_tokens),
            "memory_bytes": max(room, 8 << 20),
            "threads": self.resources.threads,
            "work_dir": self.private / "blocks",
            **self.tuning,
        })  # fmt: skip

    def _open_engine(
        self, parts: Sequence[Part], alphabet: Alphabet, stop_words: Sequence[str], journal: Journal
    ) -> Engine:
        """The engine at the journal's last event: from a snapshot if there is one, else from the words."""
        options = self._engine_options()
        base: list[bytes] = [b""] * alphabet.first_id + list(alphabet.symbols)
        first_id = len(base) + len(stop_words)
        events = [(*event.pair, event.id, event.n) for event in journal.events]
        vetoes = [(v["left"], v["right"], v["n"]) for v in journal.vetoes]
        shutil.rmtree(self.private / "blocks", ignore_errors=True)
        (self.private / "blocks").mkdir(parents=True, exist_ok=True)
        snapshot = self._newest_snapshot(len(events))
        if snapshot is not None:
            at = int(snapshot.name.split("-")[1])
            engine = Engine.restore(snapshot, base, options, first_id=first_id, events=events[:at])
            known = len(engine.vetoed)
        else:
            at = known = 0
            files = WordFiles(self.private / "words")
            self.meter.stage = "words"
            keep = takes_part(stop_words, self.config.freq_cutoff)
            files = write_words(parts, keep, alphabet, self.private / "words", lambda rows: None)
            release_memory()
            engine = Engine(files.open(), base, options, first_id=first_id)
        if len(events) > at or len(vetoes) > known:
            self.meter.stage = "replaying"
            engine.replay(events[at:], vetoes[known:])
        return engine

    # ------------------------------------------------------------------ what it leaves

    def _newest_snapshot(self, events: int) -> Path | None:
        found = sorted(self.private.glob("snapshot-*"), key=lambda p: p.name)
        whole = [p for p in found if not p.name.endswith(".new") and int(p.name.split("-")[1]) <= events]
        return whole[-1] if whole else None

    def _snapshot(self, engine: Engine, events: int) -> None:
        """The words as they are now, under a name that says after how many events."""
        target = self.private / f"snapshot-{events:012d}"
        temporary = target.with_name(target.name + ".new")
        shutil.rmtree(temporary, ignore_errors=True)
        engine.snapshot(temporary)
        temporary.rename(target)
        for old in self.private.glob("snapshot-*"):
            if old != target:
                shutil.rmtree(old, ignore_errors=True)

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
        before = alphabet.first_id + len(alphabet)
        next_id = before + len(stop_words) + learned
        facts = self.folder.facts()
        count_config = {**CountConfig(**json.loads(facts["config"])).as_facts()}
        for key in ("bad_utf8", "sequences"):
            del count_config[key]
        pattern = find_pattern(count_config["pattern"], gaps=count_config["gaps"])
        header = Header(
            alphabet=alphabet.to_header(),
            config={**count_config, "expression": pattern.expression, **self.config.as_facts()},
            unicode=pattern.unicode,
            corpus={key: corpus[key] for key in ("documents", "bytes", "chunks", "sha256")},
            stop_words=tuple(StopWord(before + i, word.encode()) for i, word in enumerate(stop_words)),
            specials=tuple(Special(text, next_id + i) for i, text in enumerate(self.config.specials)),
            reserved=self.config.reserve,
        )
        path = log_path(self.folder, self.name)
        sha256 = write_event_log(path, EventLog(header, tuple(journal.events)))
        size = next_id - alphabet.first_id + self.config.extra_ids
        return TrainResult(path, size, len(journal.events), sha256, reached, len(journal.vetoes))

    def _try_fold(self, journal: Journal) -> None:
        """Bring the tables up to date if nobody holds the file; a reader only delays this."""
        with contextlib.suppress(RunError):
            self._fold(journal, None, wait_seconds=0.0)

    def _fold(
        self,
        journal: Journal,
        engine: Engine | None,
        *,
        wait_seconds: float,
        finished: TrainResult | None = None,
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
            fold_training(con, journal.events, journal.batches, journal.vetoes, self.book)
            facts = {
                "config": json.dumps(journal.training),
                "events": str(len(journal.events)),
                "state": "done" if finished else "unfinished",
                "pair_counts_at": str(len(journal.events)) if engine else "",
            }
            if engine is not None:
                left, right, n, floor = engine.hot_pairs()
                pairs = pl.DataFrame({"left_id": left, "right_id": right, "n": n}).sort("left_id", "right_id")
                run_sql(con, "steps/clear_pair_counts")
                insert(con, "pair_counts", pairs)
                facts["pair_floor"] = str(floor)
            if finished:
                facts |= {
                    "sha256": finished.sha256,
                    "size": str(finished.size),
                    "reached": str(finished.reached).lower(),
                }
            for key, value in facts.items():
                run_sql(con, "steps/put_fact", key=key, value=value)
            con.commit()


def replace_symbols(alphabet: Alphabet, seen: bytes) -> Alphabet:
    """The symbols of an alphabet that were seen, in its order."""
    return Alphabet("seen", tuple(symbol for symbol in alphabet.symbols if symbol[0] in seen))


def _model_size(log: EventLog) -> int:
    """Model ids of a finished training without deletions."""
    made = {event.id for event in log.events}
    symbols = len(log.header.alphabet["symbols"])
    return symbols + len(log.header.stop_words) + len(made) + len(log.header.specials) + log.header.reserved


# ---------------------------------------------------------------------------------------------------------
# the calls behind the commands


def job_path(run: Run) -> Path:
    """What the last `train` was asked to do, for `resume`."""
    return run.path / "job.json"


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
    **options: Any,
) -> TrainResult:
    """Count the sources (if any are named) and learn a vocabulary; goes on where a stop or a kill left it.

    `counting`: arguments of `count`, such as {"options": {"pattern": "gpt4"}, "lines": True}; `options`:
    fields of TrainConfig, on top of what `like` sets.
    """
    config = TrainConfig.from_options(like, **options)
    folder = Run(run)
    counting = counting or {}
    names = [source for source in sources if isinstance(source, str)]
    job = {"sources": names, "counting": counting, "name": name, "config": asdict(config)}
    if sources or folder.state.exists():
        with folder.lock():
            replace_file(job_path(folder), json.dumps(job).encode())
    if sources:
        count(run, sources, resources=resources, progress=progress, stop=stop, **counting)
    trainer = Trainer(
        Run.open(run),
        config,
        name=name,
        resources=resources,
        progress=progress,
        stop=stop,
        on_batch=on_batch,
        checkpoint_seconds=checkpoint_seconds,
    )
    return trainer.run()


def resume(
    run: Path | str,
    *,
    resources: Resources | None = None,
    progress: str = "none",
    stop: threading.Event | None = None,
) -> TrainResult:
    """Go on with the last `train` of a run, wherever it was stopped or killed."""
    folder = Run(run)
    try:
        job = json.loads(job_path(folder).read_text())
    except FileNotFoundError:
        raise RunError(
            f"{folder.path} has no training to go on with. `streambpe train {folder.path}` learns from its counts; "
            f"an unfinished count goes on with the same `streambpe count` command."
        ) from None
    config = job["config"]
    for key in ("specials", "block_tokens"):
        config[key] = tuple(config[key])
    counting = job["counting"]
    if job["sources"]:
        count(run, job["sources"], resources=resources, progress=progress, stop=stop, **counting)
    trainer = Trainer(
        Run.open(run), TrainConfig(**config), name=job["name"], resources=resources, progress=progress, stop=stop
    )
    return trainer.run()


def train_from_iterator(
    run: Path | str, texts: Iterable[str], *, source_name: str = "iterator", **arguments: Any
) -> TrainResult:
    """As `train`, over Python strings, one document each; call it again after a stop and it goes on."""
    return train(run, [Source(source_name, "iterator", texts=texts)], **arguments)
