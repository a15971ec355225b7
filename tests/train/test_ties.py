"""Ties by bytes: words that begin alike, large alphabets, long runs. The events are those of one merge at a time."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from streambpe.config import TrainConfig
from streambpe.errors import Stopped
from streambpe.inspect.check import check
from streambpe.train.commands import resume, train
from streambpe.train.engine.engine import Engine, EngineOptions, Words
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.trainer import Trainer
from tests.runs import SMALL, counted_run, log_of
from tests.sequential import BASE, events_of, hard_words, learn, run
from tests.tiers import seeds
from tests.train import test_superwords, test_uw
from tests.train.test_trainer import assert_equal_to_reference, hard_counts

# Thirty words, most of them the first letters of one row of letters: half the tokens are born beside each other.
BEGIN_ALIKE = (
    "abcdefghijklmnopqrstuvwxyzαβγδε abcdefghijklmnopqrstuv abcdef j abcdefghijklmnopqrstu "
    "abcdefghijklmnopqrstuvwxyzαβγδεζηθικλμνξοπ ν abcdefghi ab νiχwy ςi wα uv abcdefghijklmnopq φiαθ cξlsu wg "
    "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqr abcdefghijklmnopqrstuvwxy "
    "abcdefghijklmnopqrstuvwxyzαβγδεζηθικλμν abcdefghij abc νbοοvy κwδσ abcdefghijk mgdωk abcdefghijklmno κvλa ee"
)


@pytest.mark.long
def test_like_kensho_on_words_that_begin_alike(tmp_path):
    """400 bytes of text whose tokens are born beside each other, until no pair is left: the reference's events."""
    (tmp_path / "text.txt").write_text(BEGIN_ALIKE)
    train(tmp_path / "run", [str(tmp_path / "text.txt")], like="kensho", resources=SMALL, vocab_size=2000)
    assert check(tmp_path / "run", resources=SMALL) == []
    counts = Counter(word if i == 0 else " " + word for i, word in enumerate(BEGIN_ALIKE.split(" ")))
    again = counted_run(tmp_path / "counted", counts)
    for name, options in (("plain", {}), ("pruned", {"tau": "0.8"})):
        expected = assert_equal_to_reference(again, counts, name, like="kensho", vocab_size=2000, **options)
        assert len(expected.events) > 90


@pytest.mark.parametrize("overlaps", ["all", "disjoint"])
def test_ties_by_bytes_however_it_is_learned(overlaps):
    """Small batches, few hot pairs, words on disk."""
    for seed in seeds(60):
        rng = random.Random(seed)
        words = hard_words(rng)
        want = learn(words, 60, ties="bytes", overlaps=overlaps)
        how = rng.choice(
            [
                {"candidates": rng.choice([2, 4, 8]), "hot_pairs": rng.choice([None, 3, 20])},
                {"force_scan": True, "block_places": 20, "hot_pairs": 5, "index_below": rng.choice([0, 60])},
                {"force_scan": True, "block_places": 60, "digest_tokens": 30, "candidates": 3},
                {"hot_pairs": 4, "floor_ratio": 2, "candidates": 6},
            ]
        )
        assert run(words, 60, ties="bytes", overlaps=overlaps, **how)[0] == want, f"seed {seed}, {how}"


def test_large_alphabets_and_long_runs():
    """Hundreds of symbols of one to four bytes, words of dozens of ascending or equal letters, ties everywhere."""
    for seed in seeds(25):
        rng = random.Random(7000 + seed)
        letters = rng.sample([*range(97, 123), *range(0x3B1, 0x3CA), *range(0x4E00, 0x4E00 + 600), 0x1F600], 400)
        base = [chr(letter).encode() for letter in sorted(letters)]
        words = []
        for _ in range(30):
            start, length = rng.randrange(len(base)), rng.randint(2, 70)
            kind = rng.choice(["row", "row", "run", "any"])
            if kind == "row":  # every merge's token stands just behind its left part
                word = list(range(start % 5, min(len(base), start % 5 + length)))
            elif kind == "run":
                word = [start % 3] * length + [rng.randrange(len(base))]
            else:
                word = rng.choices(range(len(base)), k=rng.randint(1, 8))
            words.append((word, rng.choice([1, 1, 1, 2, 3])))
        overlaps = rng.choice(["all", "disjoint"])
        want = learn(words, 150, ties="bytes", overlaps=overlaps, base=base)
        some = {"candidates": rng.choice([3, 16, 2048])}
        assert run(words, 150, ties="bytes", overlaps=overlaps, base=base, **some)[0] == want, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("stop", [1, 9, 40])
def test_snapshot_restore_and_replay_with_ties_by_bytes(tmp_path, stop):
    """Stopped after any merge and gone on with, from a snapshot or from the events: the events of one go."""
    for seed in seeds(15):
        words = hard_words(random.Random(seed))
        want = learn(words, 60, ties="bytes")
        options = EngineOptions(ties="bytes", candidates=4)
        engine = Engine(Words.of(words), BASE, options)
        done = []
        for batch in engine.batches(60):
            done += events_of([batch])
            if len(done) >= stop:
                break
        engine.snapshot(tmp_path / f"{seed}")
        again = Engine.restore(tmp_path / f"{seed}", BASE, options)
        assert done + events_of(list(again.batches(60 - len(done)))) == want
        replayed = Engine(Words.of(words), BASE, options)
        replayed.replay(done)
        assert done + events_of(list(replayed.batches(60 - len(done)))) == want


@pytest.mark.long
def test_stopped_and_resumed_with_ties_by_bytes(tmp_path):
    """`resume` of a training that broke off goes on to the events of one that did not."""
    (tmp_path / "text.txt").write_text(BEGIN_ALIKE)
    options = {"like": "kensho", "vocab_size": 2000, "resources": SMALL}
    train(tmp_path / "whole", [str(tmp_path / "text.txt")], **options)
    stop, seen = threading.Event(), []

    def enough(batch):
        seen.append(batch)
        if len(seen) == 4:
            stop.set()

    with pytest.raises(Stopped):
        train(tmp_path / "run", [str(tmp_path / "text.txt")], stop=stop, on_batch=enough, **options)
    resume(tmp_path / "run", resources=SMALL)
    assert log_of(tmp_path / "run").events == log_of(tmp_path / "whole").events


@pytest.mark.long
@pytest.mark.every(4)
@pytest.mark.parametrize("like", ["kensho", "picky"])
@pytest.mark.parametrize("tau", [None, "0.7"])
def test_every_name_with_ties_by_bytes(tmp_path, like, tau):
    """--like kensho and --like picky, with deletions and without, until no pair is left: the reference's events."""
    for seed in range(3):
        counts = hard_counts(random.Random(seed))
        given = counted_run(tmp_path / f"{seed}", counts)
        options = {"tau": tau, "delete_to": "bytes", "delete_test": "before"} if like == "picky" else {"tau": tau}
        assert_equal_to_reference(given, counts, "x", like=like, vocab_size=400, **options)
        assert check(given, resources=SMALL) == []


def superword_cases(cases, seeds: range, tmp_path) -> None:
    """Random cases with ties by bytes, judged by the slow reference."""
    for seed in seeds:
        documents, pattern, options = cases.random_case(seed)
        options |= {"ties": "bytes"}
        given = test_superwords.documents_run(tmp_path / f"{seed}", documents, pattern)
        config = TrainConfig.from_options(**options)
        Trainer(given, config, resources=SMALL, tuning=EngineTuning(candidates=4)).run()
        assert list(log_of(given).events) == cases.reference_events(documents, pattern, options), f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("cases", [test_superwords, test_uw], ids=["superwords", "uw"])
def test_superwords_with_ties_by_bytes(tmp_path, cases):
    """Both kinds of superwords, few letters, every option now and then."""
    superword_cases(cases, range(4), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cases", [test_superwords, test_uw], ids=["superwords", "uw"])
@pytest.mark.parametrize("first", range(600, 620, 10))
def test_superwords_with_ties_by_bytes_on_many_more(tmp_path, cases, first):
    """The same on twenty corpora of each kind."""
    superword_cases(cases, range(first, first + 10), tmp_path)
