"""The slow trainers learn what slower ones do. That it is what published trainers learn: tests/conformance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streambpe.model.alphabet import bytes_alphabet
from tests import oracles
from tests.oracles import Deletions, train_boundless, train_words
from tests.oracles.superwords import IMPROVED, SIMPLE
from tests.samples import documents, word_counts
from tests.tiers import examples

BYTES = bytes_alphabet()

deletion_rules = st.builds(
    Deletions.at,
    st.sampled_from(["1.1", "1", "0.9", "0.6", "0.34"]),
    st.sampled_from(["bytes", "walk", "pair"]),
    st.booleans(),
)
boundless_options = st.fixed_dictionaries(
    {
        "ties": st.sampled_from(["ids", "bytes"]),
        "overlaps": st.sampled_from(["all", "disjoint"]),
        "superword_pattern": st.sampled_from([SIMPLE, IMPROVED]),
        "deletions": st.sampled_from(
            [None, *(Deletions.at(tau) for tau in (0.9, 0.6, 0.34)), Deletions.at(0.5, "walk")]
        ),
        "stop_words": st.sampled_from([(), (b" ab",)]),
        "freq_cutoff": st.sampled_from([1, 2, 3]),
        "min_frequency": st.sampled_from([1, 2]),
    }
)


@given(word_counts, st.integers(0, 40))
def test_counts_kept_between_merges_change_nothing(words, merges):
    """The trainer that keeps its counts learns what the page that counts anew learns."""
    training = train_words(words, BYTES, 256 + merges)
    plain = oracles.learn_plain(list(words.items()), 256, merges)
    assert [(event.pair, event.n) for event in training.events] == plain
    assert training.target_reached == (len(plain) == merges)


@examples(400)
@given(documents, st.integers(1, 30), boundless_options)
def test_two_phases_give_the_one_pass_result(documents, tokens, options):
    """Words first and interleaving afterwards equals one operation at a time over whole documents."""
    two = train_boundless(documents, BYTES, 256 + tokens, **options)
    one = oracles.train_boundless_one_pass(documents, BYTES, 256 + tokens, **options)
    assert two.events == one.events
    assert list(two.vocabulary.living) == list(one.vocabulary.living)
