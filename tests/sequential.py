"""Engines of words, what they must learn, and corpora that are hard for them."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.events import Event, merge_event
from streambpe.train.engine.deletion import Deletions
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.rules import Batch, EngineOptions, Words
from streambpe.train.engine.state import State
from streambpe.train.words import open_columns, write_columns
from tests import oracles

BYTES = bytes_alphabet()
BASE = list(BYTES.symbols)
Merge = tuple[int, ...]
_WORK, _NUMBERS = TemporaryDirectory(prefix="streambpe-engine-"), itertools.count()


def engine_options(**given) -> EngineOptions:
    """Options with a work folder of their own, unless one is given."""
    return EngineOptions(**{"work_dir": Path(_WORK.name) / str(next(_NUMBERS)), **given})


def new_engine(words, base=BASE, options=None, known=(), vetoed=(), **more) -> Engine:
    """An engine that shares no work folder with another one of the same options."""
    options = options or engine_options()
    if options.work_dir.parent == Path(_WORK.name):
        options = replace(options, work_dir=engine_options().work_dir)
    return Engine(words, State(base, options, **more), known, vetoed)


def engine_words(words) -> Words:
    """Words from (symbols, count) pairs; bytes count as their values."""
    pairs = [(list(word), n) for word, n in words]
    flat = [symbol for word, _ in pairs for symbol in word]
    offsets = np.concatenate(([0], np.cumsum([len(word) for word, _ in pairs]))).astype(np.int64)
    return Words(np.array(flat, np.int32), offsets, np.array([n for _, n in pairs], np.int64))


def count_pairs(words, overlaps="all"):
    """Pair counts over (symbols, n) words."""
    count = Counter()
    for symbols, n in words:
        for pair in oracles.count_pairs(symbols, overlaps):
            count[pair] += n
    return count


def learn(words, merges, alphabet=BYTES, **rule):
    """The events (left, right, id, n) of one-at-a-time BPE."""
    words, size = [(list(symbols), n) for symbols, n in words], len(alphabet) + merges
    return as_merges(oracles.train_words(words, alphabet, size, **rule).events)


# --tau, --delete-to and --delete-test
TAUS = ["0.34", "0.5", "0.6", "0.75", "0.9", "1"]
RULES = [(to, test) for to in ("bytes", "walk") for test in ("before", "after")]


def rule_of(tau: str, to: Any, test: Any) -> Deletions:
    """As an engine has it."""
    return Deletions(Fraction(tau), to, test)


def slowly(words, size, tau, to, test, **options) -> list[Event]:
    """Events of the slow trainer with deletions, up to so many living learned tokens."""
    deletions = oracles.Deletions.at(tau, delete_to=to, picky=test == "after")
    words = [(list(word), n) for word, n in words]
    return oracles.train_words(words, BYTES, 256 + size, deletions=deletions, **options).events


def told(batches) -> list[Event]:
    """All events of these batches, in order."""
    return [event for batch in batches for event in batch.events]


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


def as_merges(events) -> list[Merge]:
    """Events as (left, right, id, n); a deletion has no pair, and what the token was split into stands behind."""
    return [(event.left, event.right, event.id, event.n, *event.into) for event in events]


def events_of(batches: list[Batch]) -> list[Merge]:
    """The same as tuples."""
    return as_merges(told(batches))


def as_events(merges: list[Merge]) -> list[Event]:
    """Merges as events of a log."""
    return [merge_event(*merge) for merge in merges]


def wrong_pairs(engine: Engine) -> list[str]:
    """What is wrong when every pair is counted again: hot counts must be exact, cold pairs under the floor."""
    left, right, n, floor = engine.hot_pairs()
    hot = dict(zip(zip(left.tolist(), right.tolist(), strict=True), n.tolist(), strict=True))
    words = [
        (symbols[first:last].tolist(), n)
        for symbols, offsets, weights in engine.words()
        for first, last, n in zip(offsets[:-1].tolist(), offsets[1:].tolist(), weights.tolist(), strict=True)
    ]
    counted = count_pairs(words, engine.options.overlaps)
    wrong = [f"hot pair {pair} is kept as {hot[pair]} but counts {counted[pair]}"
             for pair in hot if hot[pair] != counted[pair]]  # fmt: skip
    return wrong + [
        f"cold pair {pair} counts {n}, the floor is {floor}"
        for pair, n in counted.items()
        if n >= floor and pair not in hot and engine.state.allowed(*(np.array([part]) for part in pair))[0]
    ]


def gone_on_with(engine: Engine, folder, events, **options) -> Engine:
    """An engine with the words that another one has after these events, written and read back."""
    write_columns(folder, engine.words())
    return new_engine(open_columns(folder), BASE, engine_options(**options), events)


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
