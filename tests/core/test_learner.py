"""The compiled loop that learns: every rule against one merge at a time, its limit, its state, what it refuses."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from streambpe.core.learner import DONE, Learner, NoRoom, Rule
from streambpe.errors import CoreError
from tests.sequential import (
    BASE,
    RULES,
    TAUS,
    engine_options,
    engine_words,
    events_of,
    hard_words,
    learn,
    new_engine,
    rule_of,
    run,
    slowly,
    text_words,
    told,
    wrong_pairs,
)
from tests.tiers import seeds
from tests.train.test_engine import LIMITS, for_engine


def made(words, limit=1 << 24, tokens=BASE, **rule):
    """A learner of these words over bytes, or other tokens."""
    learner = Learner(Rule(first_id=256, **rule), limit)
    learner.add_tokens(tokens, np.ones(len(tokens), np.int64))
    flat = engine_words(words)
    learner.make_room(len(flat.symbols), len(flat.weights))
    learner.add_words(flat.symbols, flat.offsets, flat.weights, 2)
    return learner


def events(learned):
    """As tests/sequential.py has them."""
    rows = (learned.left, learned.right, learned.id, learned.n)
    return list(zip(*(row.tolist() for row in rows), strict=True))


def words_for(rng):
    """Short words full of ties, now and then a long run of one letter or a giant word."""
    words = hard_words(rng)
    if rng.random() < 0.3:
        words.append((bytes([rng.choice(b"abc")]) * rng.randint(20, 200), rng.randint(1, 3)))
    if rng.random() < 0.1:
        words.append((bytes(rng.choices(b"abcd", k=300)), 1))
    return words


def small_index(rng):
    """Options with which pairs are counted again and again, and most of them are cold."""
    ratio, most = rng.choice([2, 3, 32, 128]), rng.choice([None, 1, 2, 5, 20])
    return {"hot_pairs": most, "floor_ratio": ratio, "candidates": rng.choice([1, 3, 2048])}


def test_every_rule_at_once_equals_one_merge_at_a_time():
    """Ties, runs, minimum frequency, length, vetoes, a rule asked for, deletions: over an index of a few pairs."""
    for seed in seeds(480):
        rng = random.Random(seed)
        words, few = words_for(rng), small_index(rng)
        rule = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        limits = rng.choice(LIMITS)
        events, _ = run(words, 40, check=seed % 3 == 0, **rule, **few, **for_engine(limits))
        assert events == learn(words, 40, **rule, **limits)
        tau, (to, test), size = rng.choice(TAUS), rng.choice(RULES), rng.choice([5, 20, 60])
        engine = new_engine(engine_words(words), BASE, engine_options(deletions=rule_of(tau, to, test), **rule, **few))
        assert told(engine.batches(size)) == slowly(words, size, tau, to, test, **rule), f"seed {seed}"
        assert wrong_pairs(engine) == []


def test_the_limit_is_kept_or_told():
    """Less memory, more counting, the same events; and where it does not do, the words are as the events say."""
    words = text_words(7, 4000)
    want = events(made(words).learn(600, 999))
    told_full = counted = 0
    for limit in range(150_000, 420_000, 6_000):
        try:
            learner = made(words, limit)
        except NoRoom:
            told_full += 1
            continue
        found = []
        while len(found) < 600:
            learned = learner.learn(600 - len(found), 999)
            found += events(learned)
            if learned.why != DONE:
                break
        figures = learner.figures
        assert figures.most_bytes <= limit
        assert found == want[: len(found)]
        counted += figures.refills > 8
        if len(found) < 600:
            told_full += 1
            assert not figures.pending
    assert told_full > 1
    assert counted > 0


def test_tables_of_tokens_grow_where_twice_as_much_is_too_much():
    """40 000 tokens are known, as in superwords from disk: what grows is a sixteenth then, not all or nothing."""
    contents = [b"%d." % number for number in range(40_000)]
    words = [((number, number + 1), 5) for number in range(0, 4_000, 2)]
    wide = made(words, 1 << 28, contents)
    limit = wide.figures.bytes * 3 // 2
    tight = made(words, limit, contents)
    wanted, learned = (learner.learn(len(words), 1 << 30) for learner in (wide, tight))
    assert events(learned) == events(wanted)
    assert len(learned.id) == len(words) > 256
    assert wide.figures.most_bytes > limit >= tight.figures.most_bytes


def learned_with_deletions(words, limit, enough=400):
    """The merges and deletions of a learner at tau 0.5 in one call, and its figures."""
    learner = made(words, limit, lives=True, splits=True, numerator=1, denominator=2)
    learned = learner.learn(10**6, enough)
    assert learned.why == DONE
    return events(learned), learned.deleted, learner.figures


def test_deletions_are_the_same_within_any_limit():
    """Also where base symbols get no lists of their places."""
    words = text_words(7, 4000)
    merged, gone, roomy = learned_with_deletions(words, 1 << 24)
    refills = []
    for limit in range(500_000, 700_000, 20_000):
        tight = learned_with_deletions(words, limit)
        assert tight[:2] == (merged, gone)
        assert tight[2].most_bytes <= limit
        refills.append(tight[2].refills)
    assert max(refills) > roomy.refills


@pytest.mark.long
def test_what_cannot_be_split_for_want_of_room_is_split_on_the_way_to_disk(monkeypatch):
    """A learner that has no room to split what it deleted: the words that leave it are split."""
    words, rule = text_words(4, 3000), rule_of("0.5", "bytes", "before")
    want = told(new_engine(engine_words(words), BASE, engine_options(deletions=rule)).batches(150))

    def replace(rule, **given):
        return structs.replace(rule, **{name: name != "splits" and value for name, value in given.items()})

    monkeypatch.setattr("streambpe.train.engine.state.structs", SimpleNamespace(replace=replace))
    engine = new_engine(engine_words(words), BASE, engine_options(deletions=rule))
    batches, unsplit = [], False
    while engine.learned < 150:
        batches.append(engine.step(150 - engine.learned))
        unsplit = unsplit or bool(getattr(engine.learning, "_unsplit", ()))
        assert wrong_pairs(engine) == []
    assert told(batches) == want
    assert unsplit


def test_an_engine_without_room_goes_on_from_disk(tmp_path, monkeypatch):
    """NoRoom in the middle of learning: words go to disk, and come back when half of them are left."""
    words = text_words(8, 2000)
    want, _ = run(words, 500)
    engine = new_engine(engine_words(words), BASE, engine_options(work_dir=tmp_path))
    found = events_of(list(engine.batches(100)))
    assert engine.learning.kind == "index"

    def full(*_):
        raise NoRoom

    monkeypatch.setattr(engine.learning, "step", full)
    found += events_of([engine.step(400)])
    assert engine.learning.kind == "scan"
    found += events_of(list(engine.batches(500 - len(found))))
    assert found == want
    engine.close()


def test_what_was_promised_is_looked_at():
    """Symbols that are no tokens, more words than there is room for, pairs of unknown ids: told, nothing is touched."""
    learner = Learner(Rule(first_id=256), 1 << 20)
    learner.add_tokens(BASE, np.ones(256, np.int64))
    learner.make_room(4, 1)
    offsets, weights = np.array([0, 3]), np.array([1])
    with pytest.raises(CoreError, match="damaged"):
        learner.add_words(np.array([1, 300, 2], np.int32), offsets, weights, 2)
    learner.add_words(np.array([1, 2], np.int32), np.array([0, 2]), weights, 2)
    with pytest.raises(CoreError, match="damaged"):
        learner.add_words(np.array([1, 2, 3], np.int32), offsets, weights, 2)
    with pytest.raises(CoreError, match="damaged"):
        learner.apply(np.array([[1, 999]]), 1)
    with pytest.raises(NoRoom):
        Learner(Rule(first_id=256), 1 << 12).add_tokens(BASE, np.ones(256, np.int64))
    with pytest.raises(NoRoom):
        learner.make_room(2**33, 1)
