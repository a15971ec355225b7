"""What a training is: a run, a name, the options; the files it has, the counts and the symbols it starts from, and what
it comes to."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streambpe.config import TrainConfig
from streambpe.count_config import TOLD_IF_SET, CountConfig
from streambpe.errors import Stopped, UsageError, typed
from streambpe.model.alphabet import Alphabet
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.model.eventlog import Header, Special, StopWord
from streambpe.plurals import counted
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.store.parts import Part
from streambpe.store.run import Run
from streambpe.store.training_files import check_name, journal_path, log_path
from streambpe.store.trainings import TokenTable
from streambpe.store.unfinished import Unfinished
from streambpe.threads import stopped_by
from streambpe.train.extension import Extension
from streambpe.train.words import Uncovered, choose_alphabet, uncovered_by

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer

_CORPUS_FACTS = ("documents", "bytes", "chunks", "sha256", "documents_sum", "edited", "left_out")  # in a log's header


@dataclass(frozen=True)
class TrainResult(Result):
    """What a training came to."""

    log: Path
    size: int  # model ids
    events: int
    sha256: str  # of the event lines
    reached: bool  # the size asked for; else no pair was left
    vetoed: int
    skipped: bool = False  # it was done before
    folded: bool = True  # the tables are filled; else another process held state.duckdb: the next command does it
    warnings: tuple[str, ...] = ()  # of this call
    uncovered: Uncovered | None = None  # characters that are unknown, with --encoding chars
    left_out: tuple[str, ...] = ()  # sources that were not counted to their end, with --allow-partial
    weights: dict[str, str] = field(default_factory=dict)  # of the source groups, which --alpha made

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of what was learned."""
        from streambpe.encode.tokenizer import Tokenizer

        return Tokenizer(self.log)


def weights_told(header: Header) -> dict[str, str]:
    """The weights of the source groups that --alpha made."""
    groups = header.corpus.get("groups", {})
    return {name: facts["weight"] for name, facts in groups.items() if "weight" in facts}


@dataclass(frozen=True)
class Training:
    """One training of a run: what was asked for, and where its files are."""

    run: Run
    config: TrainConfig
    name: str
    resources: Resources

    def __post_init__(self) -> None:
        check_name(self.name)

    def __str__(self) -> str:
        return f"{self.run.path}, training {self.name}"

    @property
    def log(self) -> Path:
        """The event log, once it is finished."""
        return log_path(self.run, self.name)

    @property
    def journal(self) -> Path:
        """The write-ahead log, until then."""
        return journal_path(self.run, self.name)

    @cached_property
    def inherited(self) -> Extension | None:
        """The model that it extends."""
        digest = self.config.extends
        return None if digest is None else Extension.kept(self.run, self.name, digest)

    @property
    def private(self) -> Path:
        """Words, snapshots and the superwords' files; gone when it is finished."""
        return self.run.path / "training" / self.name

    @property
    def counts(self) -> Path:
        """The folder of the counts it learns from, once they are read."""
        return self.private.with_name(f"{self.name}.counts")

    def remove_work(self) -> None:
        """Remove both: the training is finished."""
        for folder in (self.private, self.counts):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def blocks(self) -> Path:
        """Where the engine's blocks and spills go: under --temp-dir if it is given, named after the run."""
        if self.resources.temp_dir is None:
            return self.private / "blocks"
        run = hashlib.sha256(str(self.run.path.resolve()).encode()).hexdigest()[:16]
        return self.resources.temp_dir / f"streambpe-{run}-{self.name}"

    @property
    def model(self) -> str:
        """How a command names what it learned."""
        return typed(f"{self.run.path}" + ("" if self.name == "main" else f":{self.name}"))

    @property
    def resume_command(self) -> str:
        """The command that goes on with it."""
        return f"streambpe resume {typed(self.run.path)}" + ("" if self.name == "main" else f" --name {self.name}")

    def stopped(self, events: int, stop: threading.Event) -> Stopped:
        """The end of a training that was asked to stop."""
        return Stopped(
            f"Stopped after {counted(events, 'event')}, all kept. Continue with: {self.resume_command}",
            stopped_by(stop),
        )


@dataclass(frozen=True)
class Corpus:
    """The counts that a training learns from, and how they were counted."""

    totals: CorpusFacts
    parts: Sequence[Part]  # of the run
    facts: dict[str, str]  # table run, read at the start: later another process may hold it
    written_at: object = None  # when these were the counts in state.duckdb (Run.written_at)
    chunks: Sequence[Part] = ()  # what view training_chunks shows, once it is read (train/counts.py)
    stop_words: Sequence[str] = ()  # chosen when that is read, or those of the model that is extended
    weighed: Sequence[Part] = ()  # what view weighed_chunks shows, if there are weights
    left_out: Sequence[Unfinished] = ()  # sources not counted to their end
    # With --weight, --alpha or --balance: what was counted in each source group.
    groups: dict[str, dict[str, int | str]] = field(default_factory=dict)

    @cached_property
    def counting(self) -> CountConfig:
        """How the run was counted."""
        return CountConfig(**json.loads(self.facts["config"]))


class Start(msgspec.Struct, frozen=True):
    """What a training has before anything is learned."""

    training: Training
    corpus: Corpus
    alphabet: Alphabet
    uncovered: Uncovered  # characters outside the alphabet

    @classmethod
    def of(cls, training: Training, corpus: Corpus) -> Start:
        """With the symbols that the options ask for; takes at most one pass over the counts."""
        inherited, unencodable = training.inherited, corpus.counting.unencodable
        if inherited is not None:
            alphabet = Alphabet.from_header(inherited.log.header.alphabet)
            return cls(training, corpus, alphabet, uncovered_by(corpus.chunks, alphabet))
        memory_bytes = training.resources.memory_bytes
        chosen = choose_alphabet(corpus.chunks, training.config, unencodable, corpus.parts, memory_bytes)
        return cls(training, corpus, *chosen)

    def __len__(self) -> int:
        return len(self.alphabet) + len(self.corpus.stop_words)

    @property
    def first_learned(self) -> int:
        """The id of the first merge."""
        return self.alphabet.first_id + len(self)

    @property
    def brought(self) -> int:
        """How many of the first events are those of a model that is extended."""
        return 0 if self.training.inherited is None else len(self.training.inherited.log.events)

    @property
    def goal(self) -> Goal:
        """How many tokens are to be learned."""
        return Goal.of(self.training.config, len(self.alphabet), len(self.corpus.stop_words))

    def book(self) -> TokenTable:
        """All tokens that are there before the first event."""
        return TokenTable.of(self.alphabet, [word.encode() for word in self.corpus.stop_words])

    def header(self, totals: CorpusFacts | None, learned: int) -> Header:
        """The header of a log with so many learned tokens. totals: what to say of the corpus, if anything."""
        config, corpus, inherited = self.training.config, self.corpus, self.training.inherited
        said: Mapping[str, object] = totals or {}
        first_stop_word = self.alphabet.first_id + len(self.alphabet)
        first_special = self.alphabet.first_id if config.specials_first else self.first_learned + learned
        specials, fixed = tuple(Special(text, i) for i, text in enumerate(config.specials, first_special)), None
        if inherited is not None:
            specials, fixed = inherited.ids
        how = corpus.counting
        untold = ["bad_utf8", "bad_lines", "sequences"]
        untold += [name for name in TOLD_IF_SET if getattr(how, name) == getattr(CountConfig, name)]
        counted = {key: value for key, value in vars(how).items() if key not in untold}
        pattern = how.split_pattern()
        if inherited is not None and inherited.log.header.config.get("unknown") == "drop":
            counted["unknown"] = "drop"
        return Header(
            alphabet=self.alphabet.to_header(),
            config={**counted, "expression": pattern.expression, **config.as_facts()},
            unicode=json.loads(corpus.facts.get("unicode", "{}")).get("version", pattern.unicode),
            corpus={key: said[key] for key in _CORPUS_FACTS if key in said}
            | ({"groups": corpus.groups} if config.by_groups else {}),
            unk=config.unk,
            stop_words=tuple(StopWord(i, word.encode()) for i, word in enumerate(corpus.stop_words, first_stop_word)),
            specials=specials,
            reserved=config.reserve,
            fixed=fixed,
        )


class Goal(msgspec.Struct, frozen=True):
    """How many tokens are to be learned."""

    tokens: int
    words: int  # of them in phase one: all, unless --transition says when superwords begin

    @classmethod
    def of(cls, config: TrainConfig, base_symbols: int, stop_words: int) -> Goal:
        """What --vocab-size and --transition leave beside the ids that are there."""
        symbols = base_symbols + stop_words
        there = f"{counted(base_symbols, 'base symbol')}, {counted(stop_words, 'stop word')}"
        taken = symbols + (config.extra_ids if config.count_specials else 0)
        if config.vocab_size < taken:
            raise UsageError(
                f"--vocab-size {config.vocab_size} is less than the {taken} ids that exist before anything is "
                f"learned: {there}, {config.extra_ids} special and reserved."
            )
        tokens = config.vocab_size - taken
        if config.transition is None:
            return cls(tokens, tokens)
        if config.transition < symbols:
            raise UsageError(
                f"--transition {config.transition} is less than the {symbols} ids that exist before anything is "
                f"learned: {there}."
            )
        return cls(tokens, config.transition - symbols)
