"""The slow trainers do what their docstrings say, and what published trainers do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import Op, merge_event
from tests import oracles
from tests.oracles import Deletions, train_words
from tests.oracles.primitives import Corpus
from tests.samples import chunks_of, sample_text, word_counts

BYTES = bytes_alphabet()


def learned(training: oracles.Training) -> list[bytes]:
    """What each merge made, in order."""
    return [training.vocabulary[event.id].content for event in training.events if event.left >= 0]


def assert_counts_are_true(corpus: Corpus) -> None:
    """Every running count equals one made from scratch."""
    fresh = Corpus(list(zip(corpus.sequences, corpus.weights, strict=True)), corpus.overlaps, corpus.allowed)
    assert corpus.pair_counts == fresh.pair_counts
    assert +corpus.token_counts == +fresh.token_counts
    assert min(corpus.token_counts.values(), default=0) >= 0
    assert {pair: words for pair, words in corpus.words_with.items() if words} == fresh.words_with


# Counting and plain BPE


@pytest.mark.parametrize(
    ("sequence", "overlapping", "disjoint"),
    [
        ("aaa", ["aa", "aa"], ["aa"]),
        ("aaaa", ["aa"] * 3, ["aa"] * 2),
        ("aaab", ["aa", "aa", "ab"], ["aa", "ab"]),
        ("aabaa", ["aa", "ab", "ba", "aa"], ["aa", "ab", "ba", "aa"]),
        ("a", [], []),
    ],
)
def test_a_run_of_equal_symbols_is_counted_by_place_or_by_merge(sequence, overlapping, disjoint):
    """`all` counts every place; `disjoint` counts the merges that can be made."""
    ids = list(sequence.encode())
    assert list(oracles.count_pairs(ids, "all")) == [tuple(pair.encode()) for pair in overlapping]
    assert list(oracles.count_pairs(ids, "disjoint")) == [tuple(pair.encode()) for pair in disjoint]


def test_the_page_on_plain_bpe_is_right():
    """The worked example in plain.py: lo, low, then ew before ne by lower ids."""
    words = {b"low": 5, b"lower": 2, b"new": 6}
    training = train_words(words, BYTES, 259)
    assert learned(training) == [b"lo", b"low", b"ew"]
    assert [event.n for event in training.events] == [7, 7, 6]
    assert training.events[1] == merge_event(256, ord("w"), 257, 7)
    plain = oracles.learn_plain(list(words.items()), 256, 3)
    assert plain == [(event.pair, event.n) for event in training.events]


@given(word_counts, st.integers(0, 40))
def test_counts_kept_between_merges_change_nothing(words, merges):
    """The trainer that keeps its counts learns what the page that counts anew learns."""
    training = train_words(words, BYTES, 256 + merges)
    plain = oracles.learn_plain(list(words.items()), 256, merges)
    assert [(event.pair, event.n) for event in training.events] == plain
    assert training.target_reached == (len(plain) == merges)
    assert_counts_are_true(training.corpus)


# Deletions


deletion_rules = st.builds(
    Deletions.at,
    st.sampled_from(["1.1", "1", "0.9", "0.6", "0.34"]),
    st.sampled_from(["bytes", "walk", "pair"]),
    st.booleans(),
)


@given(word_counts, deletion_rules, st.sampled_from(["all", "disjoint"]), st.sampled_from(["ids", "bytes"]))
def test_counts_stay_true_through_deletions(words, deletions, overlaps, ties):
    """Whatever is merged and deleted, running counts equal counts from scratch and size is what lives."""
    training = train_words(words, BYTES, 275, deletions=deletions, overlaps=overlaps, ties=ties)
    assert_counts_are_true(training.corpus)
    assert training.target_reached == (training.size >= 275)
    for event in training.events:
        content = training.vocabulary[event.id].content
        parts = event.into if event.op is Op.DELETE else event.pair
        assert b"".join(training.vocabulary[part].content for part in parts) == content
    total = sum(len(chunk) * n for chunk, n in words.items())
    spelled = sum(
        len(training.vocabulary[number].base) * weight
        for sequence, weight in zip(training.corpus.sequences, training.corpus.weights, strict=True)
        for number in sequence
    )
    assert spelled == total


# Whole characters


def test_whole_characters_grow_left_to_right():
    """Every learned token is whole characters or the first bytes of one character."""
    words = Counter(chunks_of(sample_text(1, 800)))
    training = train_words(words, BYTES, 400, may_merge=oracles.whole_characters_bytes)
    partial = 0
    for content in learned(training):
        whole = content.decode(errors="ignore").encode()
        assert whole in (content, b""), f"{content!r} joins a whole character with a part of one"
        assert content[0] < 0x80 or content[0] >= 0xC2
        partial += not whole
    assert partial
    assert len(training.events) == 400 - 256
