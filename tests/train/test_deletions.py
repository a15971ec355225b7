"""Tokens taken back while learning: the engine equals the slow trainer, however it works."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from streambpe.errors import ReplayMismatch
from streambpe.model.eventlog import Op
from streambpe.train.engine.deletion import Deletions
from tests import oracles
from tests.sequential import (
    BASE,
    BYTES,
    engine_options,
    engine_words,
    gone_on_with,
    hard_words,
    new_engine,
    text_words,
    wrong_pairs,
)
from tests.tiers import long, seeds, share

TAUS = ["0.34", "0.5", "0.6", "0.75", "0.9", "1"]
RULES = [(to, test) for to in ("bytes", "walk") for test in ("before", "after")]
SEEDS = {"scan": 6, "switch": 6, "tables": 6}  # slow ways
WAYS = {
    "index": {},
    "tight": {"hot_pairs": 3, "floor_ratio": 2, "candidates": 4},
    "one": {"batch": "1"},
    "forgetful": {"hot_pairs": 20, "floor_ratio": 4, "memory_bytes": 1 << 12},
    "few": {"hot_pairs": 8},
    "tables": {"learner": "tables", "hot_pairs": 8, "block_places": 30, "memory_bytes": 1 << 10},
    "scan": {"force_scan": True, "block_places": 20, "hot_pairs": 5, "threads": 2},
    "switch": {"force_scan": True, "block_places": 30, "index_below": 60, "digest_tokens": 30},
}


def slowly(words, size, tau, to, test, **options):
    """Events of the slow trainer up to so many living learned tokens."""
    deletions = oracles.Deletions.at(tau, delete_to=to, picky=test == "after")
    words = [(list(word), n) for word, n in words]
    return oracles.train_words(words, BYTES, 256 + size, deletions=deletions, **options).events


def told(batches):
    """The same of the engine's batches."""
    return [event for batch in batches for event in batch.events]


def rule_of(tau, to, test):
    return Deletions(Fraction(tau), to, test)


def learn(words, size, tau, to, test, check=False, **options):
    engine = new_engine(engine_words(words), BASE, engine_options(deletions=rule_of(tau, to, test), **options))
    batches = []
    for batch in engine.batches(size):
        batches.append(batch)
        if check:
            assert wrong_pairs(engine) == []
    engine.close()
    return told(batches), batches


@pytest.mark.every(2)
@pytest.mark.parametrize("way", [long(way) if way in ("scan", "forgetful", "few", "tables") else way for way in WAYS])
def test_deletions_equal_the_slow_trainer(way):
    """Ties, runs, both parts, both tests, every tau: all events are those of one merge at a time."""
    deleted = back = together = 0
    for seed in range(SEEDS.get(way, 30)):
        rng = random.Random(seed)
        words = hard_words(rng)
        tau, (to, test) = rng.choice(TAUS), rng.choice(RULES)
        rule = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        size = rng.choice([5, 20, 60])
        want = slowly(words, size, tau, to, test, **rule)
        events, batches = learn(words, size, tau, to, test, check=seed % 5 == 0, **rule, **WAYS[way])
        assert events == want, f"seed {seed} {tau} {to} {test} {rule}"
        deleted += sum(event.op is Op.DELETE for event in events)
        made = [event.id for event in events if event.op is Op.MERGE]
        back += len(made) - len(set(made))
        together += sum(len(batch.events) > 1 for batch in batches)
    assert deleted > 10
    assert back > 0
    assert together > 3 or way == "one"


def test_snapshots_and_replays_go_on_the_same(tmp_path):
    """Cut anywhere: from the words and the events so far, or from a snapshot, which knows what is dead, learning ends
    the same."""
    cuts = 0
    for seed in seeds(20):
        rng = random.Random(seed)
        words = hard_words(rng)
        rule = rule_of(rng.choice(TAUS), *rng.choice(RULES))
        how = {"deletions": rule, **WAYS[rng.choice(["index", "tight", "one", "few", "scan"])]}
        engine = new_engine(engine_words(words), BASE, engine_options(**how))
        batches = list(engine.batches(30))
        engine.close()
        if len(batches) < 3:
            continue
        cut = rng.randrange(1, len(batches))
        done = told(batches[:cut])
        again = new_engine(engine_words(words), BASE, engine_options(**how))
        again.relearn(done)
        assert wrong_pairs(again) == []
        rest = gone_on_with(again, tmp_path / str(seed), done, **how)
        for engine in (rest, again):
            assert told(engine.batches(30 - engine.learned)) == told(batches[cut:]), f"seed {seed}"
            engine.close()
        cuts += any(event.op is Op.DELETE for event in done)
    assert cuts > share(5)


def test_other_words_are_noticed_by_their_deletions():
    """A log whose deletions are not those that its merges lead to is refused."""
    words = text_words(4, 200)
    options = engine_options(deletions=rule_of("0.6", "bytes", "before"))
    engine = new_engine(engine_words(words), BASE, options)
    events = told(engine.batches(100))
    gone = [at for at, event in enumerate(events) if event.op is Op.DELETE][3]
    with pytest.raises(ReplayMismatch, match=r"it learned .*delete.* in place of"):
        new_engine(engine_words(words), BASE, options).relearn(events[:gone] + events[gone + 1 :])
