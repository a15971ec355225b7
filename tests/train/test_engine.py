"""The engine equals one-at-a-time BPE, whatever it is told about memory, threads, batches and
interruptions."""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.errors import CountOverflow, ReplayMismatch
from streambpe.train.engine import engine as engine_module
from streambpe.train.engine.rules import Words
from streambpe.train.engine.state import Known
from streambpe.train.words import WordFiles
from tests.sequential import (
    BASE,
    engine_options,
    engine_words,
    events_of,
    gone_on_with,
    hard_words,
    learn,
    new_engine,
    paper_learn,
    run,
    text_words,
    wrong_pairs,
)
from tests.tiers import examples, seeds, share

RULES = [(ties, overlaps) for ties in ("ids", "bytes") for overlaps in ("all", "disjoint")]
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


@pytest.mark.parametrize(("ties", "overlaps"), RULES)
def test_batches_equal_one_merge_at_a_time(ties, overlaps):
    """On 200 corpora full of ties, runs and overlaps every event is the sequential one, and batches were
    made."""
    together = 0
    for seed in seeds(200):
        rng = random.Random(seed)
        words = hard_words(rng)
        merges = rng.choice([5, 20, 60])
        events, batches = run(words, merges, ties=ties, overlaps=overlaps)
        assert events == learn(words, merges, ties=ties, overlaps=overlaps), f"seed {seed}"
        together += sum(len(batch.id) > 1 for batch in batches)
    assert together > share(100)


@pytest.mark.parametrize(("ties", "overlaps"), RULES)
def test_tight_frontiers_and_one_at_a_time_change_nothing(ties, overlaps):
    """With three hot pairs at most, or one merge a batch, events stay, and every count adds up after every
    pass."""
    refills = 0
    for seed in seeds(40):
        rng = random.Random(1000 + seed)
        words = hard_words(rng)
        want = learn(words, 30, ties=ties, overlaps=overlaps)
        events, batches = run(
            words, 30, ties=ties, overlaps=overlaps, hot_pairs=3, floor_ratio=2, candidates=4, check=True
        )
        assert events == want, f"seed {seed}"
        refills += sum(batch.record.refills for batch in batches)
        one, batches = run(words, 30, ties=ties, overlaps=overlaps, batch="1")
        assert one == want
        assert all(len(batch.id) == 1 for batch in batches)
    assert refills > 3 * len(seeds(40))


@pytest.mark.long
@pytest.mark.parametrize(("ties", "overlaps"), RULES)
def test_scan_spills_and_switch_change_nothing(tmp_path, ties, overlaps):
    """Scanned in blocks of twenty places with counts spilled, and moved to the index half way: the same
    events."""
    spills = switches = scans = 0
    for seed in seeds(16):
        rng = random.Random(2000 + seed)
        words = hard_words(rng)
        events, batches = run(
            words,
            30,
            check=seed % 3 == 0,
            ties=ties,
            overlaps=overlaps,
            force_scan=True,
            block_places=20,
            hot_pairs=5,
            counter_rows=4,
            threads=2,
            index_below=rng.choice([0, 60, 90]),
            work_dir=tmp_path,
        )
        assert events == learn(words, 30, ties=ties, overlaps=overlaps), f"seed {seed}"
        spills += sum(batch.record.spills for batch in batches)
        switches += sum(batch.record.switched for batch in batches)
        scans += sum(batch.record.mode == "scan" for batch in batches)
    assert spills > share(5)
    assert switches > share(1, least=0)
    assert scans > share(20)


@pytest.mark.long
def test_stages_of_a_scan_are_the_sequential_merges():
    """Ties, overlaps, tiny blocks, tiny digests, vetoes, rules: merges learned from digests
    of the blocks are the sequential ones, and most passes make several."""
    together = digests_cut = 0
    for seed in seeds(120):
        rng = random.Random(5000 + seed)
        words = hard_words(rng, rng.choice([10, 25, 40]))
        ties, overlaps = rng.choice(RULES)
        options = {
            "ties": ties,
            "overlaps": overlaps,
            "force_scan": True,
            "block_places": rng.choice([5, 20, 60, 1000]),
            "threads": rng.choice([1, 2]),
            "hot_pairs": rng.choice([None, 3, 8]),
            "digest_tokens": rng.choice([None, None, 8, 30]),
            "candidates": rng.choice([3, 8, 2048]),
            "index_below": rng.choice([0, 0, 0, 40, 80]),
        }
        limits, judge = rng.choice(
            [
                ({}, {}),
                ({}, {}),
                ({"blocked": LETTER_PAIRS}, {"blocked": LETTER_PAIRS}),
                ({"max_token_length": 3}, {"most": 3}),
                ({"rule": SameKind()}, {"allows": lambda a, b: (a[0] in b"aeiou") == (b[0] in b"aeiou")}),
            ]
        )
        events, batches = run(words, 30, check=seed % 8 == 0, **options, **limits)
        assert events == learn(words, 30, ties=ties, overlaps=overlaps, **judge), f"seed {seed}"
        scans = [len(batch.id) for batch in batches if batch.record.mode == "scan"]
        together += sum(merges > 1 for merges in scans)
        digests_cut += options["digest_tokens"] == 8
    assert together > share(200)
    assert digests_cut > share(12)


def test_a_scan_of_text_sweeps_the_blocks_rarely():
    """A thousand merges over scanned blocks take a few dozen sweeps, not one or more a merge."""
    words = text_words(6, 3000)
    events, batches = run(words, 1000, force_scan=True, block_places=5000, threads=2)
    assert events == run(words, 1000)[0]
    swept = sum(batch.record.positions for batch in batches if batch.record.refills)
    assert swept / batches[0].record.places < 60
    assert all(batch.record.mode == "scan" for batch in batches)


def test_a_scan_where_all_pairs_tie_is_one_stage():
    """More of them than a stage first looks at: 900 words of two letters that are nowhere else, each five times."""
    words = [(bytes([first, second]), 5) for first in range(30) for second in range(100, 130)]
    events, batches = run(words, 900, force_scan=True, threads=1)
    assert events == run(words, 900)[0]
    assert len(events) == 900
    assert len(batches) < 100


@examples(150)
@given(
    words=st.lists(st.tuples(st.text("ab", max_size=9).map(str.encode), st.integers(0, 4)), min_size=1, max_size=12),
    ties=st.sampled_from(["ids", "bytes"]),
    overlaps=st.sampled_from(["all", "disjoint"]),
    candidates=st.sampled_from([2, 5, 2048]),
)
def test_two_letters_are_the_hardest_alphabet(words, ties, overlaps, candidates):
    """Whatever hypothesis finds over two letters, zero counts included, the events are the sequential
    ones."""
    words = [(word, n) for word, n in words if n]
    events, _ = run(words, 25, ties=ties, overlaps=overlaps, candidates=candidates)
    assert events == learn(words, 25, ties=ties, overlaps=overlaps)


def test_every_way_of_working_gives_one_result_on_text(tmp_path):
    """Six ways to learn 1 200 merges from 3 000 words: dense batches, refills, spills and a switch, one
    event list."""
    words = text_words(0, 3000)
    want, batches = run(words, 1200)
    assert want == learn(words[:], 60) + want[60:]
    assert len(batches) < 400
    ways = {
        "one": {"batch": "1"},
        "small": {"hot_pairs": 60, "floor_ratio": 2},
        "scan": {"force_scan": True, "block_places": 5000, "threads": 2},
        "spill": {"force_scan": True, "block_places": 3000, "counter_rows": 500, "hot_pairs": 150},
        "switch": {"force_scan": True, "block_places": 4000, "index_below": 12000},
    }
    records = {}
    for name, options in ways.items():
        events, batches = run(words, 1200, **options)
        assert events == want, name
        records[name] = [batch.record for batch in batches]
    assert sum(r.refills for r in records["small"]) >= 3
    assert sum(r.spills for r in records["spill"]) >= 3
    assert {r.mode for r in records["switch"]} == {"scan", "index"}
    assert sum(r.switched for r in records["switch"]) == 1
    assert {r.mode for r in records["scan"]} == {"scan"}


def test_memory_limit_alone_chooses_scan_then_index(tmp_path):
    """A budget below what the words need makes the engine learn from disk, and it moves to memory when merges have
    made room."""
    words = text_words(1, 3000)
    want, batches = run(words, 800)
    places = batches[0].record.places
    events, batches = run(words, 800, memory_bytes=12 * places)
    assert events == want
    modes = [batch.record.mode for batch in batches]
    assert modes[0] == "scan"
    assert modes[-1] == "index"


def test_paper_batches_equal_the_published_rule():
    """--batch paper gives BatchBPE's merges and counts (ties by ids), with caps, under both ways of
    counting."""
    for seed in seeds(60):
        rng = random.Random(seed)
        words = hard_words(rng)
        cap, most = rng.choice([(2, None), (1, 5), (3, 2)])
        overlaps = rng.choice(["all", "disjoint"])
        events, _ = run(words, 40, batch="paper", cap_divisor=cap, max_batch=most, overlaps=overlaps, hot_pairs=8)
        want = paper_learn(words, 40, cap_divisor=cap, max_batch=most, overlaps=overlaps)
        assert events == want[: len(events)], f"seed {seed}"
        assert len(events) == min(40, len(want))


def test_paper_differs_from_exact_on_text():
    """The paper's rule is another rule: on text it does not give the sequential order (else the test above
    is idle)."""
    words = text_words(2, 800)
    assert run(words, 200, batch="paper", overlaps="disjoint")[0] != run(words, 200, overlaps="disjoint")[0]


@pytest.mark.parametrize("ties", ["ids", "bytes"])
def test_limits_on_tokens(ties):
    """min_frequency, max_token_length and blocked tokens leave out what they say, and nothing else."""
    for seed in seeds(60):
        words = hard_words(random.Random(seed))
        assert run(words, 30, ties=ties, min_frequency=6)[0] == learn(words, 30, ties=ties, min_frequency=6)
        assert run(words, 30, ties=ties, max_token_length=3)[0] == learn(words, 30, ties=ties, most=3)
        first = learn(words, 3, ties=ties)
        blocked = frozenset(bytes([a]) + bytes([b]) for a, b, _, _ in first if a < 256 and b < 256)
        events, batches = run(words, 30, ties=ties, blocked=blocked, hot_pairs=6)
        assert events == learn(words, 30, ties=ties, blocked=blocked), f"seed {seed}"
        vetoed = [veto for batch in batches for veto in batch.vetoed]
        assert [bytes([a, b]) in blocked for a, b, _ in vetoed] == [True] * len(vetoed)
        if first:
            assert vetoed[0] == (*first[0][:2], first[0][3])


def test_vetoes_are_the_same_in_every_batch_mode():
    """What was vetoed, and the count it had when it was the best, does not depend on the batches."""
    for seed in seeds(40):
        words = hard_words(random.Random(seed))
        blocked = frozenset({b"ab", b"ea", b"rst", b"oo"} | {bytes([a, a]) for a in range(97, 123)})
        vetoes = []
        for options in ({}, {"batch": "1"}, {"hot_pairs": 3}):
            _, batches = run(words, 30, blocked=blocked, **options)
            vetoes.append([veto for batch in batches for veto in batch.vetoed])
        assert vetoes[0] == vetoes[1] == vetoes[2]


def test_a_rule_decides_which_pairs_may_merge():
    """Pairs that a rule refuses are never merged and never stop others, in memory or scanned."""
    for seed in seeds(40):
        words = hard_words(random.Random(seed))
        want = learn(words, 30, allows=lambda a, b: (a[0] in b"aeiou") == (b[0] in b"aeiou"))
        assert run(words, 30, rule=SameKind())[0] == want, f"seed {seed}"
        if seed < 6:
            assert run(words, 30, rule=SameKind(), force_scan=True, block_places=30)[0] == want


@pytest.mark.parametrize("stop", [1, 7, 150, 599])
def test_snapshot_and_restore_go_on_with_the_same_events(tmp_path, stop):
    """Stopped after any merge, written and read back with another budget, the rest is what it would have
    been."""
    words = text_words(3, 1500)
    want, _ = run(words, 600, ties="bytes")
    engine = new_engine(engine_words(words), BASE, engine_options(ties="bytes"))
    done = events_of(list(engine.batches(stop)))
    options = {"ties": "bytes", "force_scan": True, "block_places": 4000, "index_below": 9000}
    again = gone_on_with(engine, tmp_path / "snap", done, **options)
    here = events_of(list(engine.batches(600 - stop)))
    assert done + here == want
    assert again.state.merges == stop
    twice = gone_on_with(again, tmp_path / "second", done, ties="bytes")
    rest = events_of(list(again.batches(600 - stop)))
    again.close()
    assert done + rest == want
    assert done + events_of(list(twice.batches(600 - stop))) == want


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


@pytest.mark.parametrize(("ties", "overlaps"), RULES)
def test_going_on_behind_known_events(ties, overlaps):
    """Learned again up to any event, in memory or on disk, the words are what they were, and the rest is the same."""
    for seed in seeds(40):
        rng = random.Random(seed)
        words = hard_words(rng)
        want, batches = run(words, 40, ties=ties, overlaps=overlaps, blocked=frozenset({b"ab"}))
        cut = rng.randint(0, len(want))
        options = engine_options(ties=ties, overlaps=overlaps, blocked=frozenset({b"ab"}), hot_pairs=4,
                                 candidates=rng.choice([3, 2048]), force_scan=seed % 4 == 0)  # fmt: skip
        vetoed = [veto for batch in batches for veto in batch.vetoed] if cut == len(want) else []
        engine = new_engine(engine_words(words), BASE, options, knows=Known(vetoed=vetoed))
        engine.relearn(want[:cut])
        assert engine.state.merges == cut
        assert wrong_pairs(engine) == []
        assert events_of(list(engine.batches(40 - cut))) == want[cut:], f"seed {seed}"
        engine.close()


def test_going_on_with_rounds():
    """The rounds of BatchBPE depend on how many tokens are wanted in the end."""
    for seed in seeds(20):
        words = hard_words(random.Random(seed))
        want, batches = run(words, 40, batch="paper")
        done = events_of(batches[: len(batches) // 2])
        engine = new_engine(engine_words(words), BASE, engine_options(batch="paper"))
        engine.relearn(done, wanted=40)
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
        with pytest.raises(ReplayMismatch, match=r"is learned now: these events were learned from other words"):
            engine.relearn(known)
        engine.close()
    engine = new_engine(engine_words([(b"ab", 3)]), BASE, engine_options(learner=learner))
    with pytest.raises(ReplayMismatch, match="nothing is learned now"):
        engine.relearn([(97, 98, 256, 3), (256, 97, 257, 1)])


def test_sums_beyond_64_bits_are_refused_and_just_below_are_exact():
    """Counts that add up to 2^63 - 1 are learned exactly; one more is refused with a clear error."""
    big = 2**61
    words = [(b"ab", big), (b"abc", big), (b"bc", big - 1)]  # pairs: 4 * 2^61 - 1 = 2^63 - 1
    for overlaps in ("all", "disjoint"):
        events, _ = run(words, 5, overlaps=overlaps)
        assert events == learn(words, 5, overlaps=overlaps)
        assert events[0] == (97, 98, 256, 2**62)
    with pytest.raises(CountOverflow, match="2\\^63"):
        new_engine(engine_words([*words, (b"xy", 1)]), BASE)
    with pytest.raises(ValueError, match="negative"):
        new_engine(engine_words([(b"ab", -1)]), BASE)


def test_counts_around_2_to_the_62_are_compared_exactly():
    """Counts that differ by one beyond what a double can tell are still ranked right, in batches."""
    big = 2**57
    words = [(b"ab", big + 1), (b"cd", big + 2), (b"ef", big), (b"gh", big + 2), (b"abx", 1), (b"ij", 5)]
    events, _ = run(words, 10)
    assert events == learn(words, 10)
    scanned, _ = run(words, 10, force_scan=True, block_places=8)
    assert scanned == events


@pytest.mark.long
def test_symbols_need_not_be_bytes():
    """Half a million base symbols (chunks) with ids far beyond a byte: superwords run on the same engine."""
    rng = random.Random(0)
    base = [b"w%d" % i for i in range(500_000)]
    words = [([rng.choice([3, 499_999, 250_000, 17]) for _ in range(8)], rng.randint(1, 9)) for _ in range(50)]
    engine = new_engine(engine_words(words), base, engine_options(ties="bytes"))
    events = events_of(list(engine.batches(40)))
    count = {}
    for symbols, n in words:
        for pair in pairwise(symbols):
            count[pair] = count.get(pair, 0) + n
    best = min(count, key=lambda pair: (-count[pair], base[pair[0]], base[pair[1]]))
    assert events[0] == (*best, 500_000, count[best])
    assert len(events) == 40
    one = new_engine(engine_words(words), base, engine_options(ties="bytes", batch="1"))
    assert events_of(list(one.batches(40))) == events


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
        assert engine.state.merges == 3
        assert engine.state.next_id == 6


def test_stop_words_leave_a_gap_in_the_ids():
    """Ids between the base tokens and first_id belong to others; merges start behind them."""
    engine = new_engine(engine_words([(b"aab", 3), (b"ab", 2)]), BASE, first_id=300)
    assert events_of(list(engine.batches(2))) == [(97, 98, 300, 5), (97, 300, 301, 3)]
    with pytest.raises(ValueError, match="inside the 256 base tokens"):
        new_engine(engine_words([(b"ab", 1)]), BASE, first_id=200)


def test_nothing_to_learn_is_not_an_error():
    """No words, words of one symbol, and words without weight end at once."""
    for words in ([], [(b"a", 5)], [(b"", 1), (b"b", 2)]):
        for options in ({}, {"force_scan": True}, {"batch": "1"}):
            assert run(words, 10, **options)[0] == []


def test_tokens_of_a_large_word_are_counted_some_places_at_a_time(monkeypatch):
    """Three places at a time, or as many as there are: the same counts, and no array is larger than that."""
    monkeypatch.setattr(engine_module, "_PLACES", 3)
    offsets, n = np.array([4, 4, 6, 7, 15]), np.array([2, 5, 9, 3])
    found = list(engine_module._stretches(offsets, n))
    assert [(first, stop) for first, stop, _ in found] == [(4, 7), (7, 10), (10, 13), (13, 15)]
    assert np.concatenate([own for *_, own in found]).tolist() == np.repeat(n, np.diff(offsets)).tolist()
