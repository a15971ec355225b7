"""The engine equals one-at-a-time BPE, whatever it is told about memory, threads, batches and
interruptions."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest

from streambpe.errors import ReplayMismatch
from streambpe.model.eventlog import Op
from streambpe.train.engine.rules import Words
from streambpe.train.engine.whole_characters import WholeCharacterRule
from streambpe.train.words import columns_in, open_columns, write_columns
from tests import oracles
from tests.sequential import (
    BASE,
    BYTES,
    RULES,
    TAUS,
    as_events,
    as_merges,
    engine_options,
    engine_words,
    events_of,
    gone_on_with,
    hard_words,
    learn,
    new_engine,
    rule_of,
    run,
    text_words,
    told,
    wrong_pairs,
)
from tests.tiers import long, seeds, share

LETTER_PAIRS = frozenset(bytes([a, b]) for a in range(97, 123) for b in range(97, 123, 5))


class SameKind:
    """A rule by a property that tokens hand down: vowels join vowels, other letters join others."""

    def __init__(self):
        self.vowel = np.zeros(4096, bool)
        self.vowel[list(b"aeiou")] = True

    def allows(self, left, right):
        return self.vowel[left] == self.vowel[right]

    def born(self, left, right, new):
        self.vowel[new] = self.vowel[left]


LIMITS: list[dict[str, Any]] = [
    {},
    {},
    {"min_frequency": 4},
    {"max_token_length": 3},
    {"blocked": LETTER_PAIRS},
    {"blocked": frozenset({b"ab", b"ea", b"oo", b"rst"})},
    {"may_merge": lambda left, right: (left.content[0] in b"aeiou") == (right.content[0] in b"aeiou")},
    {"may_merge": oracles.whole_characters_bytes},
]
WIDE = str.maketrans("efghijklmnopqrstuvwxyz", "éñüżßøдж日本東京語中文한국🎉🎊\u0301\ue000\U000f0000")
# How it is learned: what to choose from for each option. In tables: all blocks are read from their files, most pairs
# are left in the table, and batches end early.
WAYS: dict[str, dict[str, list[Any]]] = {
    "memory": {},
    "few pairs": {"hot_pairs": [3], "floor_ratio": [2], "candidates": [4, 2048]},
    "one": {"batch": ["1"], "learner": ["core", "tables"]},
    "spills": {"force_scan": [True], "block_places": [20], "hot_pairs": [5], "counter_rows": [4], "threads": [2],
               "index_below": [0, 60, 90]},
    "stages": {"force_scan": [True], "block_places": [5, 20, 60, 1000], "threads": [1, 2], "hot_pairs": [None, 3, 8],
               "digest_tokens": [None, None, 8, 30], "candidates": [3, 8, 2048], "index_below": [0, 0, 0, 40, 80]},
    "tables": {"learner": ["tables"], "block_places": [60, None], "hot_pairs": [8, None], "memory_bytes": [1 << 10],
               "candidates": [3, 2048]},
}  # fmt: skip


def for_engine(limits):
    """The limits of a judge as an engine takes them."""
    if limits.get("may_merge") is oracles.whole_characters_bytes:
        return {"rule": WholeCharacterRule(BYTES, len(BASE))}
    return {"rule": SameKind()} if "may_merge" in limits else limits


TINY_TABLES: dict[str, Any] = {"learner": "tables", "block_places": 60, "hot_pairs": 8, "memory_bytes": 1 << 10}


@pytest.mark.parametrize(
    ("way", "many"),
    [("memory", 400), ("few pairs", 160), ("one", 96), ("tables", 96), ("spills", 96), long("stages", 160)],
)
def test_events_are_those_of_one_merge_at_a_time(way, many):
    """Words full of ties, repeats and overlaps; limits, blocked tokens, a rule, deletions; in memory, from disk, in
    tables. Every count adds up after a pass, and what the way is about did happen."""
    together = refills = spills = switches = deleted = 0
    for seed in seeds(many):
        rng = random.Random(seed)
        words, merges = hard_words(rng, rng.choice([10, 25, 40])), rng.choice([5, 20, 60])
        rule = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        limits, options = rng.choice(LIMITS), {key: rng.choice(some) for key, some in WAYS[way].items()}
        if limits.get("may_merge") is oracles.whole_characters_bytes:
            words = [(word.decode().translate(WIDE).encode(), n) for word, n in words]
        judged, learned = {**rule, **limits}, {**rule, **for_engine(limits), **options}
        if seed % 2:
            tau, (to, test) = rng.choice(TAUS), rng.choice(RULES)
            judged["deletions"] = oracles.Deletions.at(tau, to, picky=test == "after")
            learned["deletions"] = rule_of(tau, to, test)
        events, batches = run(words, merges, check=seed % 3 == 0, **learned)
        assert events == learn(words, merges, **judged), f"seed {seed}, {learned}"
        deleted += sum(event.op is Op.DELETE for batch in batches for event in batch.events)
        together += sum(len(batch.events) > 1 for batch in batches)
        refills += sum(batch.record.refills for batch in batches)
        spills += sum(batch.record.spills for batch in batches)
        switches += any(batch.record.mode == "index" for batch in batches)  # where it begins by scans
    assert deleted
    assert together > share(many // 4) or (way == "one" and not together)
    assert refills > len(seeds(many)) or way in ("memory", "one", "tables")
    assert way != "spills" or (spills > share(10) and switches > share(2, least=0))


HOSTILE: dict[str, list[tuple[bytes, int]]] = {
    "nothing": [],
    "words of one byte": [(b"a", 5), (b"", 1), (b"b", 2)],
    "one long repeat": [(b"a" * 1000, 3), (b"a" * 999, 2), (b"aa", 1)],
    "all pairs tie": [(bytes([first, second]), 5) for first in range(30) for second in range(100, 130)],
    "two letters in turns": [(b"ab" * 300, 1), (b"ba" * 299, 1)],
    "large counts": [(b"abcabd", 2**40), (b"bcab", 2**40 + 1), (b"cabd", 2**40 - 1), (b"xyz", 1)],
    "counts beyond what a double can tell": [(b"ab", 2**57 + 1), (b"cd", 2**57 + 2), (b"ef", 2**57)],
    "a sum of 2^63 - 1": [(b"ab", 2**61), (b"abc", 2**61), (b"bc", 2**61 - 1)],
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("overlaps", ["all", "disjoint"])
def test_hostile_words(name, overlaps):
    """Whatever they are, the events are the reference's."""
    wanted = learn(HOSTILE[name], 40, overlaps=overlaps)
    for way in ({}, {"batch": "1"}, {"force_scan": True, "block_places": 20}, {"learner": "tables"}, TINY_TABLES):
        assert run(HOSTILE[name], 40, overlaps=overlaps, **way)[0] == wanted, way


def test_every_way_of_working_gives_one_result_on_text():
    """1 200 merges of 3 000 words: refills, spills, and a scan that takes a few dozen sweeps for a thousand merges. A
    budget below what the words need makes the engine learn from disk, until merges have made room."""
    words = text_words(0, 3000)
    want, batches = run(words, 1200)
    assert want[:60] == learn(words, 60)
    assert want[:60] == run(words, 60, force_scan=True, counter_rows=60)[0]  # a part of the pairs is too large, too
    assert len(batches) < 400
    ways = {
        "small": {"hot_pairs": 60, "floor_ratio": 2},
        "scan": {"force_scan": True, "block_places": 5000, "threads": 2},
        "spill": {"force_scan": True, "block_places": 3000, "counter_rows": 500, "hot_pairs": 150},
        "limit": {"memory_bytes": 12 * batches[0].record.places},
    }
    records = {}
    for name, options in ways.items():
        events, batches = run(words, 1200, **options)
        assert events == want, name
        records[name] = [batch.record for batch in batches]
    assert sum(r.refills for r in records["small"]) >= 3
    assert sum(r.spills for r in records["spill"]) >= 3
    modes = [r.mode for r in records["limit"]]
    assert modes == sorted(modes, reverse=True) != ["scan"] * len(modes)
    assert {r.mode for r in records["scan"]} == {"scan"}
    assert sum(r.refills for r in records["scan"]) < 60


def test_paper_batches_equal_the_published_rule():
    """--batch paper gives BatchBPE's merges and counts (ties by ids), with caps, under both ways of counting, in memory
    and in tables; also when it goes on, though its rounds depend on how many tokens are wanted in the end."""
    for seed in seeds(60):
        rng = random.Random(seed)
        words, counts = hard_words(rng), Counter()
        for word, n in words:
            counts[word] += n
        cap, most = rng.choice([(2, None), (1, 5), (3, 2)])
        rule = {"overlaps": rng.choice(["all", "disjoint"]), "cap_divisor": cap}
        how = {**rule, **[{"hot_pairs": 8}, {"learner": "tables"}, TINY_TABLES][seed % 3], "max_batch": most}
        events, batches = run(words, 40, batch="paper", **how)
        slow = oracles.train_batches(counts, BYTES, 256 + 40, ties="ids", max_batch_size=most or 0, **rule)
        assert events == as_merges(slow.events), f"seed {seed}"
        done = told(batches[: len(batches) // 2])
        engine = new_engine(engine_words(words), BASE, engine_options(batch="paper", **how))
        engine.relearn(done, wanted=40)
        assert as_merges(done) + events_of(list(engine.batches(40 - len(done)))) == events
        engine.close()


def test_vetoes_are_the_same_in_every_batch_mode():
    """What was vetoed, and the count it had when it was the best, does not depend on the batches."""
    for seed in seeds(40):
        words = hard_words(random.Random(seed))
        blocked = frozenset({b"ab", b"ea", b"rst", b"oo"} | {bytes([a, a]) for a in range(97, 123)})
        vetoes = []
        for options in ({}, {"batch": "1"}, {"hot_pairs": 3}, {"learner": "tables"}):
            _, batches = run(words, 30, blocked=blocked, **options)
            vetoes.append([veto for batch in batches for veto in batch.vetoed])
        assert vetoes[0] == vetoes[1] == vetoes[2] == vetoes[3]
        assert all(bytes([a, b]) in blocked for a, b, _ in vetoes[0] if max(a, b) < 256)
        first = learn(words, 1)
        if first and bytes(first[0][:2]) in blocked:
            assert vetoes[0][0] == (*first[0][:2], first[0][3])


@pytest.mark.parametrize("force_scan", [False, True])
def test_going_on_from_a_snapshot_holds_no_copy_of_it(tmp_path, force_scan):
    """A snapshot of many words goes slice by slice into memory or to disk: in Python a slice's worth is held."""
    rng = np.random.default_rng(5)
    offsets = np.arange(0, 4_800_001, 4)
    words = Words(rng.integers(97, 123, 4_800_000, np.int32), offsets, np.ones(1_200_000, np.int64))
    engine = new_engine(words, BASE, engine_options(force_scan=True, block_places=60_000))
    write_columns(tmp_path / "snap", engine.words())
    engine.close()
    options = engine_options(force_scan=force_scan, block_places=60_000)
    tracemalloc.start()
    try:
        new_engine(open_columns(tmp_path / "snap"), BASE, options).close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < sum(path.stat().st_size for path in columns_in(tmp_path / "snap")) / 4


def test_going_on_behind_known_events(tmp_path):
    """Learned again up to any event, in memory, on disk or in tables, the words are what they were, and the rest is the
    same; from their snapshot, too. With deletions: up to any pass."""
    deleted = 0
    for seed in seeds(160):
        rng = random.Random(seed)
        words = hard_words(rng)
        how: dict[str, Any] = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        how["blocked"] = frozenset({b"ab"})
        if seed % 3 == 0:
            how["deletions"] = rule_of(rng.choice(TAUS), *rng.choice(RULES))
        _, batches = run(words, 40, **how)
        want = told(batches)
        cut = len(told(batches[: rng.randint(0, len(batches))])) if seed % 3 == 0 else rng.randint(0, len(want))
        how |= TINY_TABLES if seed % 4 == 1 else {"hot_pairs": 4, "force_scan": seed % 4 == 0}
        options = engine_options(**how, candidates=rng.choice([3, 2048]))
        vetoed = [veto for batch in batches for veto in batch.vetoed] if cut == len(want) else []
        engine = new_engine(engine_words(words), BASE, options, vetoed=vetoed)
        engine.relearn(want[:cut])
        assert wrong_pairs(engine) == []
        going_on = [engine] if vetoed else [gone_on_with(engine, tmp_path / str(seed), want[:cut], **how), engine]
        for one in going_on:
            assert told(one.batches(40 - one.learned)) == want[cut:], f"seed {seed}"
            one.close()
        deleted += any(event.op is Op.DELETE for event in want[:cut])
    assert deleted > share(20)


@pytest.mark.parametrize("learner", ["core", "tables"])
def test_events_of_other_words_or_of_another_rule_are_noticed(learner):
    """By what is learned in their place, or that nothing is."""
    words = text_words(4, 150)
    want, _ = run(words, 50)
    others = [[*want[:30], (*want[30][:3], want[30][3] + 1), *want[31:]], run(text_words(5, 150), 50)[0],
              [(300, 97, 256, 5)], run(words, 50, overlaps="disjoint", ties="bytes")[0]]  # fmt: skip
    for known in others:
        engine = new_engine(engine_words(words), BASE, engine_options(learner=learner))
        with pytest.raises(ReplayMismatch, match=r"in place of .*: these events come from other words"):
            engine.relearn(as_events(known))
        engine.close()
    deletions = engine_options(learner=learner, deletions=rule_of("0.6", "bytes", "before"))
    events = told(new_engine(engine_words(words), BASE, deletions).batches(100))
    gone = [at for at, event in enumerate(events) if event.op is Op.DELETE][3]
    with pytest.raises(ReplayMismatch, match=r"it learned .*delete.* in place of"):
        new_engine(engine_words(words), BASE, deletions).relearn(events[:gone] + events[gone + 1 :])
    engine = new_engine(engine_words([(b"ab", 3)]), BASE, engine_options(learner=learner))
    with pytest.raises(ReplayMismatch, match="it learned nothing in place of"):
        engine.relearn(as_events([(97, 98, 256, 3), (256, 97, 257, 1)]))
