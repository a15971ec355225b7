"""The engine of a training, at its journal's last event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from streambpe.errors import ReplayMismatch, RunError
from streambpe.model.events import Events
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, release_memory, room_for_arrays
from streambpe.store.journal import Journal
from streambpe.store.trainings import FOLD_BYTES
from streambpe.system import remove_folder
from streambpe.train.engine.deletion import Deletions
from streambpe.train.engine.engine import LEAST_BYTES, Engine
from streambpe.train.engine.rules import EngineOptions, EngineTuning, Veto, Words
from streambpe.train.engine.state import State
from streambpe.train.engine.whole_characters import WholeCharacterRule
from streambpe.train.extension import TOKEN_BYTES, encoded_chunks
from streambpe.train.snapshots import find_snapshot
from streambpe.train.training import Start, Training
from streambpe.train.words import ChunkCutter, open_columns, training_codec, write_words

_SAME = ("batch", "cap_divisor", "max_batch", "min_frequency", "max_token_length")  # options of the engine


def open_engine(start: Start, journal: Journal, tuning: EngineTuning, meter: Meter) -> Engine:
    """An engine for the words of the last snapshot, or of the counts; what was learned since then is learned again."""
    training, options = start.training, _options_of_words(start, tuning)
    events = journal.words[start.brought :]
    vetoed = [(veto.left, veto.right, veto.n) for veto in journal.vetoes]
    found = find_snapshot(training.private, journal)
    snapshot, known = (None, 0) if found is None else (found[0], found[1] - start.brought)
    if snapshot is None or training.config.balance:
        meter.stage = "words"
    if training.config.balance:
        from streambpe.train.balancing import balanced_engine  # not above: most trainings do without

        engine: Engine = balanced_engine(start, options, events[:known], snapshot)
    else:
        words = _write_words(start) if snapshot is None else open_columns(snapshot)
        engine = _engine(start, options, words, events[:known], vetoed)
    if known < len(events):
        meter.stage = "learning again"
        learn_again(training, engine, events[known:], start.goal.words)
    return engine


def learn_again(training: Training, engine: Engine, events: Events, wanted: int = 0) -> None:
    """Have an engine learn the events of the journal again; `wanted`: see Engine.relearn."""
    try:
        engine.relearn(events, wanted)
    except ReplayMismatch as why:
        engine.close()
        raise RunError(
            f"{training}: {why} Remove {training.journal.name} and {training.log.name} and train again: the counts "
            f"are kept."
        ) from None


def _write_words(start: Start) -> Words:
    """The words before the first event that is learned here."""
    release_memory()  # of reading the counts
    cut: ChunkCutter = training_codec(start.alphabet, start.corpus.counting.unencodable).split_many
    if start.training.inherited is not None:
        cut = encoded_chunks(start.training.inherited.log)
    words = write_words(start.corpus.chunks, cut, start.training.private / "words")
    del cut
    release_memory()
    return words


def _engine(start: Start, options: EngineOptions, words: Words, known: Events, vetoed: Sequence[Veto]) -> Engine:
    """The engine for these words, which these events made what they are."""
    # the bytes of the ids before those of the stop words, and how many symbols each has; of a model that is extended,
    # those of all its ids
    tokens, lengths = [b""] * start.alphabet.first_id + list(start.alphabet.symbols), list[int]()
    inherited = start.training.inherited
    if inherited is not None:
        tokens, lengths = inherited.base_tokens()
    first_id = max(len(tokens), start.first_learned)
    brought = () if inherited is None else inherited.log.events
    is_whole = start.training.config.whole_characters
    rule = WholeCharacterRule(start.alphabet, first_id, brought) if is_whole else None
    return Engine(words, State(tokens, options, first_id, lengths, rule), known, vetoed)


def _options_of_words(start: Start, tuning: EngineTuning) -> EngineOptions:
    config, memory_bytes = start.training.config, start.training.resources.memory_bytes
    codec = training_codec(start.alphabet, start.corpus.counting.unencodable)
    known = TOKEN_BYTES * start.brought
    deletions = None
    if config.tau is not None:
        deletions = Deletions(Fraction(config.tau), config.delete_to, config.delete_test)
    return engine_options(
        start.training,
        tuning,
        room_for_arrays(memory_bytes, BASE_BYTES, known) - FOLD_BYTES,
        **{name: getattr(config, name) for name in _SAME},
        blocked=frozenset(map(codec.content, config.block_tokens)),
        deletions=deletions,
    )


def engine_options(training: Training, tuning: EngineTuning, room: int, **more: Any) -> EngineOptions:
    """The options of an engine that may take so much memory; the folder of its blocks is made anew."""
    remove_folder(training.blocks)
    training.blocks.mkdir(0o700, parents=True, exist_ok=True)
    return EngineOptions(
        **asdict(tuning),
        **more,
        ties=training.config.ties,
        overlaps=training.config.overlaps,
        memory_bytes=max(room, LEAST_BYTES),
        threads=training.resources.threads,
        learner=training.resources.learner,
        work_dir=training.blocks,
    )
