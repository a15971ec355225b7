"""The engine equals one-at-a-time BPE, whatever it is told about memory, threads, batches and
interruptions."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streambpe.errors import ReplayMismatch
from streambpe.train.engine import column
from streambpe.train.engine.rules import Words
from streambpe.train.engine.whole_characters import WholeCharacterRule
from streambpe.train.words import WordFiles
from tests import oracles
from tests.sequential import (
    BASE,
    BYTES,
    as_events,
    engine_options,
    engine_words,
    events_of,
    gone_on_with,
    hard_words,
    learn,
    new_engine,
    run,
    text_words,
    wrong_pairs,
)
from tests.tiers import seeds, share

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


TINY_TABLES = {"learner": "tables", "block_places": 60, "hot_pairs": 8, "memory_bytes": 1 << 10}


@pytest.mark.parametrize(
    ("way", "many"),
    [("memory", 400), ("few pairs", 160), ("one", 40), ("tables", 96),
     *(pytest.param(way, many, marks=pytest.mark.long) for way, many in (("spills", 64), ("stages", 160)))],
)  # fmt: skip
def test_events_are_those_of_one_merge_at_a_time(way, many):
    """Words full of ties, repeats and overlaps; limits, blocked tokens, a rule; in memory, from disk, in tables. Every
    count adds up after a pass, and what the way is about did happen."""
    together = refills = spills = switches = 0
    for seed in seeds(many):
        rng = random.Random(seed)
        words, merges = hard_words(rng, rng.choice([10, 25, 40])), rng.choice([5, 20, 60])
        rule = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        limits, options = rng.choice(LIMITS), {key: rng.choice(some) for key, some in WAYS[way].items()}
        if limits.get("may_merge") is oracles.whole_characters_bytes:
            words = [(word.decode().translate(WIDE).encode(), n) for word, n in words]
        events, batches = run(words, merges, check=seed % 4 == 0, **rule, **for_engine(limits), **options)
        assert events == learn(words, merges, **rule, **limits), f"seed {seed}, {options}"
        together += sum(len(batch.events) > 1 for batch in batches)
        refills += sum(batch.record.refills for batch in batches)
        spills += sum(batch.record.spills for batch in batches)
        switches += any(batch.record.mode == "index" for batch in batches)  # where it begins by scans
    assert together > share(many // 4) or (way == "one" and not together)
    assert refills > len(seeds(many)) or way in ("memory", "one", "tables")
    assert way != "spills" or (spills > share(10) and switches > share(2, least=0))


def test_a_scan_where_all_pairs_tie_is_one_stage():
    """More of them than a stage first looks at: 900 words of two letters that are nowhere else, each five times."""
    words = [(bytes([first, second]), 5) for first in range(30) for second in range(100, 130)]
    events, batches = run(words, 900, force_scan=True, threads=1)
    assert events == run(words, 900)[0]
    assert len(events) == 900
    assert len(batches) < 100


def test_every_way_of_working_gives_one_result_on_text():
    """Six ways to learn 1 200 merges from 3 000 words: refills, spills, a switch, and a scan that takes a few dozen
    sweeps for a thousand merges. A budget below what the words need makes the engine learn from disk, until merges have
    made room."""
    words = text_words(0, 3000)
    want, batches = run(words, 1200)
    assert want[:60] == learn(words, 60)
    assert len(batches) < 400
    places = batches[0].record.places
    ways = {
        "one": {"batch": "1"},
        "small": {"hot_pairs": 60, "floor_ratio": 2},
        "scan": {"force_scan": True, "block_places": 5000, "threads": 2},
        "spill": {"force_scan": True, "block_places": 3000, "counter_rows": 500, "hot_pairs": 150},
        "switch": {"force_scan": True, "block_places": 4000, "index_below": 12000},
        "limit": {"memory_bytes": 12 * places},
    }
    records = {}
    for name, options in ways.items():
        events, batches = run(words, 1200, **options)
        assert events == want, name
        records[name] = [batch.record for batch in batches]
    assert sum(r.refills for r in records["small"]) >= 3
    assert sum(r.spills for r in records["spill"]) >= 3
    for name in ("switch", "limit"):
        assert (records[name][0].mode, records[name][-1].mode) == ("scan", "index")
        assert sum(a.mode != b.mode for a, b in pairwise(records[name])) == 1
    assert {r.mode for r in records["scan"]} == {"scan"}
    assert sum(r.refills for r in records["scan"]) < 60


def test_paper_batches_equal_the_published_rule():
    """--batch paper gives BatchBPE's merges and counts (ties by ids), with caps, under both ways of counting, in memory
    and in tables."""
    for seed in seeds(60):
        rng = random.Random(seed)
        words = hard_words(rng)
        cap, most = rng.choice([(2, None), (1, 5), (3, 2)])
        overlaps = rng.choice(["all", "disjoint"])
        way = rng.choice([{"hot_pairs": 8}, {"learner": "tables"}, TINY_TABLES])
        events, _ = run(words, 40, batch="paper", cap_divisor=cap, max_batch=most, overlaps=overlaps, **way)
        counts = Counter()
        for word, n in words:
            counts[word] += n
        slow = oracles.train_batches(
            counts, BYTES, 256 + 40, ties="ids", overlaps=overlaps, cap_divisor=cap, max_batch_size=most or 0
        )
        assert events == [(*event.pair, event.id, event.n) for event in slow.events], f"seed {seed}"


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
    files = WordFiles.write(tmp_path / "snap", engine.words())
    engine.close()
    written = sum(path.stat().st_size for path in files.paths)
    options = engine_options(force_scan=force_scan, block_places=60_000)
    tracemalloc.start()
    try:
        new_engine(files.open(), BASE, options).close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < written / 4


def test_going_on_behind_known_events(tmp_path):
    """Learned again up to any event, in memory, on disk or in tables, the words are what they were, and the rest is the
    same; from their snapshot, too."""
    for seed in seeds(160):
        rng = random.Random(seed)
        words = hard_words(rng)
        how: dict[str, Any] = {"ties": rng.choice(["ids", "bytes"]), "overlaps": rng.choice(["all", "disjoint"])}
        how["blocked"] = frozenset({b"ab"})
        want, batches = run(words, 40, **how)
        cut = rng.randint(0, len(want))
        how |= TINY_TABLES if seed % 4 == 1 else {"hot_pairs": 4, "force_scan": seed % 4 == 0}
        options = engine_options(**how, candidates=rng.choice([3, 2048]))
        vetoed = [veto for batch in batches for veto in batch.vetoed] if cut == len(want) else []
        engine = new_engine(engine_words(words), BASE, options, vetoed=vetoed)
        engine.relearn(as_events(want[:cut]))
        assert wrong_pairs(engine) == []
        if not vetoed:
            again = gone_on_with(engine, tmp_path / str(seed), as_events(want[:cut]), **how)
            assert events_of(list(again.batches(40 - cut))) == want[cut:], f"seed {seed}"
            again.close()
        assert events_of(list(engine.batches(40 - cut))) == want[cut:], f"seed {seed}"
        engine.close()


def test_going_on_with_rounds():
    """The rounds of BatchBPE depend on how many tokens are wanted in the end."""
    for seed in seeds(20):
        words = hard_words(random.Random(seed))
        want, batches = run(words, 40, batch="paper")
        done = events_of(batches[: len(batches) // 2])
        engine = new_engine(engine_words(words), BASE, engine_options(batch="paper"))
        engine.relearn(as_events(done), wanted=40)
        assert done + events_of(list(engine.batches(40 - len(done)))) == want


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
    engine = new_engine(engine_words([(b"ab", 3)]), BASE, engine_options(learner=learner))
    with pytest.raises(ReplayMismatch, match="it learned nothing in place of"):
        engine.relearn(as_events([(97, 98, 256, 3), (256, 97, 257, 1)]))


def test_a_merge_onto_a_living_token_takes_its_id():
    """Two ways to the same bytes share one id, the batch ends there, and the counts it raises are counted
    again."""
    base = [b"a", b"b", b"ab", b"c"]
    words = [([0, 1, 3], 10), ([2, 3], 4), ([0, 1, 1], 3), ([2, 1], 2)]
    for options in ({}, {"batch": "1"}, {"force_scan": True, "block_places": 6}, {"hot_pairs": 1}):
        engine = new_engine(engine_words(words), base, engine_options(**options))
        events = []
        for batch in engine.batches(3):
            events += events_of([batch])
            assert wrong_pairs(engine) == []
        engine.close()
        # (a, b) 13 is the token ab already: id 2, no new token; then (ab, c) 14 and (ab, b) 5.
        assert events == [(0, 1, 2, 13), (2, 3, 4, 14), (2, 1, 5, 5)]
        assert engine.state.next_id == 6


def test_nothing_to_learn_is_not_an_error():
    """No words, words of one symbol, and words without weight end at once."""
    for words in ([], [(b"a", 5)], [(b"", 1), (b"b", 2)]):
        for options in ({}, {"force_scan": True}, {"batch": "1"}):
            assert run(words, 10, **options)[0] == []


def test_tokens_of_a_large_word_are_counted_some_places_at_a_time(monkeypatch):
    """Three places at a time, or as many as there are; words of no token, of one, of many."""
    monkeypatch.setattr(column, "_PLACES", 3)
    words = np.array([9, 9, 9, 9, 1, 2, 0, 1, 1, 2, 2, 0, 0, -1, 1], np.int32), np.array([4, 4, 6, 7, 15])
    for whole, wanted in ((True, ([15, 14, 11], [9, 0, 0])), (False, ([6, 14, 11], [0, 0, 0]))):
        found = column.count_tokens([(*words, np.array([2, 5, 9, 3]))], 3, whole=whole)
        assert [counts.tolist() for counts in found] == list(wanted)


def test_sums_just_below_64_bits_are_exact():
    """Counts that add up to 2^63 - 1 are learned exactly."""
    big = 2**61
    words = [(b"ab", big), (b"abc", big), (b"bc", big - 1)]  # pairs: 4 * 2^61 - 1 = 2^63 - 1
    for overlaps in ("all", "disjoint"):
        events, _ = run(words, 5, overlaps=overlaps)
        assert events == learn(words, 5, overlaps=overlaps)
        assert events[0] == (97, 98, 256, 2**62)
