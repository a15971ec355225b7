"""Corpora that are hard for BPE, the slow reference (tests/oracles) on them, and the engine that it judges."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from streambpe.model.alphabet import Alphabet, bytes_alphabet
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.rules import Batch, EngineOptions, Words
from streambpe.train.engine.state import Known, State
from streambpe.train.words import WordFiles
from tests import oracles

BASE = [bytes([i]) for i in range(256)]
Event = tuple[int, int, int, int]
_WORK, _NUMBERS = TemporaryDirectory(prefix="streambpe-engine-"), itertools.count()


def engine_options(**given) -> EngineOptions:
    """Options with a work folder of their own, unless one is given."""
    return EngineOptions(**{"work_dir": Path(_WORK.name) / str(next(_NUMBERS)), **given})


def new_engine(words, base=BASE, options=None, knows=None, **more) -> Engine:
    """An engine that shares no work folder with another one of the same options."""
    options = options or engine_options()
    if options.work_dir.parent == Path(_WORK.name):
        options = replace(options, work_dir=engine_options().work_dir)
    return Engine(words, State(base, options, **more), knows)


def engine_words(words) -> Words:
    """Words from (symbols, count) pairs; bytes count as their values."""
    pairs = [(list(word), n) for word, n in words]
    flat = [symbol for word, _ in pairs for symbol in word]
    offsets = np.concatenate(([0], np.cumsum([len(word) for word, _ in pairs]))).astype(np.int64)
    return Words(np.array(flat, np.int32), offsets, np.array([n for _, n in pairs], np.int64))


def count_pairs(words, overlaps):
    """Pair counts over (symbols, n) words; disjoint: a run of k equal symbols holds k // 2 pairs."""
    count = Counter()
    for symbols, n in words:
        for pair in oracles.count_pairs(symbols, overlaps):
            count[pair] += n
    return count


def learn(words, merges, *, most=None, allows=None, base=BASE, **rule):
    """The events (left, right, id, n) of one-at-a-time BPE. `most`: bytes of a token; `allows`: asked for contents."""
    may_merge = allows and (lambda left, right: allows(left.content, right.content))
    alphabet, size = Alphabet("symbols", tuple(base)), len(base) + merges
    training = oracles.train_words(words, alphabet, size, max_token_length=most, may_merge=may_merge, **rule)
    return plain(training)


def plain(training):
    """The events of a training, as (left, right, id, n)."""
    return [(*event.pair, event.id, event.n) for event in training.events]


def paper_learn(words, merges, **how):
    """BatchBPE's rounds with ties by ids: safe pairs of the best k, counts of the round's start."""
    counts = Counter()
    for word, n in words:
        counts[word] += n
    return plain(oracles.train_batches(counts, bytes_alphabet(), 256 + merges, ties="ids", **how))


def hard_words(rng: random.Random, most_words: int = 25):
    """Few letters, short words, runs, repeated words, counts near each other: ties and overlaps
    everywhere."""
    letters = bytes(rng.sample(range(97, 123), rng.randint(1, 6)))
    words = []
    for _ in range(rng.randint(1, most_words)):
        word = bytes(rng.choices(letters, k=rng.randint(0, 14)))
        if rng.random() < 0.2:
            word += bytes([rng.choice(letters)]) * rng.randint(1, 9)
        words.append((word, rng.choice([1, 1, 2, 3, 5, 7])))
    return words


def text_words(seed: int, size: int):
    """Words of syllables with a long tail of counts: enough for deep merges and real refills."""
    rng = random.Random(seed)
    syllables = [bytes(rng.choices(b"etaoinshrdlucm", k=rng.randint(1, 3))) for _ in range(120)]
    words = {}
    for i in range(size):
        word = b" " + b"".join(rng.choices(syllables, weights=range(120, 0, -1), k=rng.randint(1, 5)))
        words[word] = words.get(word, 0) + 1 + 3 * size // (i + 1)
    return list(words.items())


def events_of(batches: list[Batch]) -> list[Event]:
    """All events of these batches, in order."""
    return [
        event
        for b in batches
        for event in zip(b.left.tolist(), b.right.tolist(), b.id.tolist(), b.n.tolist(), strict=True)
    ]


def wrong_pairs(engine: Engine) -> list[str]:
    """What is wrong when every pair is counted again: hot counts must be exact, cold pairs under the floor."""
    left, right, n, floor = engine.hot_pairs()
    hot = dict(zip(zip(left.tolist(), right.tolist(), strict=True), n.tolist(), strict=True))
    words = [
        (symbols[first:last].tolist(), n)
        for symbols, offsets, weights in engine.words()
        for first, last, n in zip(offsets[:-1].tolist(), offsets[1:].tolist(), weights.tolist(), strict=True)
    ]
    wrong = []
    for pair, n_now in count_pairs(words, engine.options.overlaps).items():
        if pair in hot:
            if hot[pair] != n_now:
                wrong.append(f"hot pair {pair} is kept as {hot[pair]} but counts {n_now}")
            hot[pair] = 0
        elif n_now >= floor and engine.state.allowed(*(np.array([part]) for part in pair))[0]:
            wrong.append(f"cold pair {pair} counts {n_now}, the floor is {floor}")
    return wrong + [f"hot pair {pair} is kept as {n_now} but has no occurrence" for pair, n_now in hot.items() if n_now]


def gone_on_with(engine: Engine, folder, events, deleted=(), **options) -> Engine:
    """An engine with the words that another one has after these events, written and read back."""
    files = WordFiles.write(folder, engine.words())
    return new_engine(files.open(), BASE, engine_options(**options), knows=Known(events, deleted))


def run(words, merges, *, check=False, rule=None, base=BASE, **options):
    """Learn with the engine: (events, batches); `check` recounts every pair after every pass."""
    engine = new_engine(engine_words(words), base, engine_options(**options), rule=rule)
    batches = []
    for batch in engine.batches(merges):
        batches.append(batch)
        if check:
            assert wrong_pairs(engine) == []
    engine.close()
    return events_of(batches), batches
