"""The slow trainers do what their docstrings say, and what published trainers do."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.model.alphabet import (
    UNKNOWN,
    bytes_alphabet,
    chars_alphabet,
    gpt2_alphabet,
    numbered_alphabet,
    seen_alphabet,
)
from streambpe.model.eventlog import Op, delete_event, merge_event, supermerge_event
from tests import oracles
from tests.oracles import Deletions, train_boundless, train_words
from tests.oracles.primitives import Corpus
from tests.oracles.superwords import IMPROVED, SIMPLE, split_runs
from tests.samples import WORD, chunks_of, documents, sample_text, word_counts
from tests.tiers import examples, seeds

BYTES = bytes_alphabet()


def learned(training: oracles.Training) -> list[bytes]:
    """What each merge made, in order."""
    return [training.vocabulary[event.id].content for event in training.events if event.left is not None]


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


def test_unknown_symbols_are_walls():
    """No pair with a symbol outside the alphabet is ever counted."""
    assert list(oracles.count_pairs([1, UNKNOWN, 1, 2], "all")) == [(1, 2)]
    training = train_words({b"abab": 2, "aéb".encode(): 9}, chars_alphabet("ab"), 5)
    assert learned(training) == [b"ab", b"abab"]


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


def test_ties_are_decided_as_asked():
    """ca, ab and bc all occur 3 times: ids follow the alphabet, bytes the bytes, first-seen the text."""
    words = {b"ca": 3, b"bc": 3, b"ab": 3}
    backwards = chars_alphabet("cba", in_given_order=True)
    assert learned(train_words(words, backwards, 4, ties="ids")) == [b"ca"]
    assert learned(train_words(words, backwards, 4, ties="bytes")) == [b"ab"]
    reordered = {b"bc": 3, b"ca": 3, b"ab": 3}
    assert learned(train_words(reordered, backwards, 4, ties="first-seen")) == [b"bc"]


def test_learning_stops_below_the_least_frequency():
    """min_frequency is inclusive, and running out of pairs is not an error."""
    words = {b"ab": 3, b"cd": 2}
    assert learned(train_words(words, BYTES, 300, min_frequency=2)) == [b"ab", b"cd"]
    assert learned(train_words(words, BYTES, 300, min_frequency=3)) == [b"ab"]
    training = train_words(words, BYTES, 300)
    assert not training.target_reached
    assert training.size == 258


def test_vetoed_pairs_are_never_learned():
    """A length limit and blocked contents veto pairs; the next best is taken instead."""
    words = {b"abcd": 5, b"bc": 1}
    assert learned(train_words(words, BYTES, 300)) == [b"bc", b"abc", b"abcd"]
    assert learned(train_words(words, BYTES, 300, max_token_length=3)) == [b"bc", b"abc"]
    assert learned(train_words(words, BYTES, 300, blocked=[b"bc"])) == [b"ab", b"cd", b"abcd"]


def test_stop_words_and_specials_take_their_places():
    """Stop words get ids after the alphabet, leave the training, and count in the size, as specials do."""
    training = train_words({b"the": 9, b"then": 5}, BYTES, 260, stop_words=[b"the"], other_ids=2)
    assert training.vocabulary.stop_ids == {b"the": 256}
    assert training.events == [merge_event(ord("e"), ord("n"), 257, 5)]
    assert training.size == 260


# Deletions


def test_a_token_that_was_only_a_stage_is_deleted():
    """kin stands 10 times, 9 of them go into king: at tau 0.9 it is split, the freed place goes on."""
    words = {b"king": 9, b"kin": 1}
    training = train_words(words, BYTES, 258, deletions=Deletions.at(0.9))
    assert training.events == [
        merge_event(ord("i"), ord("n"), 256, 10),
        merge_event(ord("k"), 256, 257, 10),
        delete_event(256, b"in", 0),
        merge_event(257, ord("g"), 258, 9),
        delete_event(257, b"kin", 1),
        merge_event(ord("i"), ord("n"), 256, 1),
    ]
    assert training.size == 258
    assert list(training.vocabulary.living)[-2:] == [258, 256]
    assert_counts_are_true(training.corpus)


def test_the_threshold_is_exact():
    """9 of 10 passes tau 0.9 as >= and fails it as >: no float decides."""
    words = {b"king": 9, b"kin": 1}

    def deleted(tau: Any, picky: bool) -> bool:
        training = train_words(words, BYTES, 258, deletions=Deletions.at(tau, picky=picky))
        return 257 in [event.id for event in training.events if event.op is Op.DELETE]

    assert Deletions.at(0.1).tau == Fraction(1, 10) == Deletions.at("0.10").tau
    assert deleted(0.9, picky=False)
    assert not deleted("0.9000001", picky=False)
    assert not train_words(words, BYTES, 259, deletions=Deletions.at(0.9, picky=True)).events[-1].into
    assert not deleted(1.1, picky=False)


def test_a_pair_of_equal_ids_deletes_at_most_once():
    """aa+aa merges half of the aa: at tau 0.5 aa goes, and goes once."""
    training = train_words({b"aaaa": 4}, BYTES, 300, deletions=Deletions.at(0.5))
    ops = [event.op for event in training.events]
    assert ops == ["merge", "merge", "delete"]
    assert training.events[-1] == delete_event(256, b"aa", 0)
    twice = train_words({b"aaaa": 4}, BYTES, 300, deletions=Deletions.at(0.5, ask_twice=True))
    assert twice.events == [*training.events, training.events[-1]]


@pytest.mark.parametrize(("delete_to", "into"), [("bytes", b"abc"), ("walk", b"abc"), ("pair", (256, ord("c")))])
def test_what_a_token_is_split_into(delete_to, into):
    """ab dies first, so abc is walked back past it; `pair` names it although it is dead."""
    deletions = Deletions.at(0.7, delete_to=delete_to)
    training = train_words({b"abcd": 8, b"abc": 2, b"ab": 1}, BYTES, 258, deletions=deletions)
    splits = [event for event in training.events if event.op is Op.DELETE]
    assert splits[:2] == [delete_event(256, b"ab", 1), delete_event(257, tuple(into), 2)]


def test_a_merge_onto_a_living_token_adds_nothing():
    """abc arises as ab+c and, after ab died, as a+bc: one id, one place, two events."""
    seen = set()
    for seed in seeds(400):
        rng = random.Random(seed)
        words = {bytes(rng.choices(b"abc", k=rng.randint(2, 9))): rng.randint(1, 9) for _ in range(8)}
        training = train_words(words, BYTES, 300, deletions=Deletions.at(0.6))
        alive = set(range(256))
        for event in training.events:
            if event.op is Op.DELETE:
                alive.discard(event.id)
            else:
                seen.add("again" if event.id in alive else "second birth" if event.id in seen else "birth")
                alive.add(event.id)
        assert alive == set(training.vocabulary.living)
        assert training.size == len(alive)
        bases = [training.vocabulary[number].base for number in alive]
        assert len(set(bases)) == len(bases)
    assert "again" in seen  # else this tested nothing


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


def test_the_rarest_characters_leave_the_alphabet():
    """Coverage drops whole characters, rarest first, while their sum stays below what may go."""
    words = oracles.marked_words(["aa aa bb", "c"])
    assert words == {"▁aa".encode(): 2, "▁bb".encode(): 1, "▁c".encode(): 1}
    assert b"".join(oracles.covering_alphabet(words, 1.0).symbols).decode() == "▁abc"
    assert b"".join(oracles.covering_alphabet(words, 0.8).symbols).decode() == "▁ab"  # 2 of 11 may go
    # 1 of 11 may go and c alone reaches it: nothing leaves (the reference would drop everything).
    assert b"".join(oracles.covering_alphabet(words, 0.9).symbols).decode() == "▁abc"


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


def test_script_characters_are_completed_first():
    """Block then index make a character; a base symbol never joins a longer token."""
    alphabet = numbered_alphabet("script", 8, first_id=1)  # index symbols 1-6, block symbols 7 and 8
    training = train_words([([7, 1, 7, 2], 5), ([8, 1], 2)], alphabet, 13, may_merge=oracles.whole_characters_script(6))
    assert [event.pair for event in training.events] == [(7, 1), (7, 2), (9, 10), (8, 1)]


# BatchBPE


def test_a_batch_takes_only_pairs_that_cannot_clash():
    """The docstring's example: th and in are taken, he and er are left for the next batch."""
    counts = {b"th": 9, b"he": 8, b"in": 7, b"er": 6, b"xx": 0}
    training = oracles.train_batches(counts, BYTES, 256 + 8, cap_divisor=2)
    assert learned(training)[:2] == [b"th", b"in"]
    assert training.batch_sizes[0] == 2
    assert learned(training)[2] == b"he"


@given(word_counts, st.integers(0, 20), st.sampled_from(["first-seen", "ids", "bytes"]))
def test_batches_of_one_are_plain_bpe(words, merges, ties):
    """With max_batch_size 1 the rule is one-at-a-time BPE, whatever the ties."""
    batches = oracles.train_batches(words, BYTES, 256 + merges, ties=ties, max_batch_size=1, overlaps="all")
    assert batches.events == train_words(words, BYTES, 256 + merges, ties=ties).events


def test_stop_words_are_the_commonest_chunks_of_more_than_one_character():
    """Of the 2N commonest, those longer than a character, at most N; ties by bytes or by first seen."""
    counts = {b"a": 9, b"the": 8, "é".encode(): 7, b"zz": 5, b"of": 5, b"it": 4}
    assert oracles.choose_stop_words(counts, 2) == [b"the", b"of"]
    assert oracles.choose_stop_words(counts, 2, ties="first-seen") == [b"the", b"zz"]
    assert oracles.choose_stop_words(counts, 1) == [b"the"]
    assert oracles.cut_off(counts, 5) == {chunk: n for chunk, n in counts.items() if n > 4}


# Superwords


def test_superwords_compete_with_merges_by_count():
    """of the: its halves are learned first, then the superword, and a tie goes to the merge."""
    text = [[b" of", b" the"]] * 4 + [[b" xy", b"."]] * 4
    training = train_boundless(text, BYTES, 264)
    kinds = [(event.op.value, training.vocabulary[event.id].content) for event in training.events]
    assert ("merge", b" xy") in kinds[:7]  # it occurs 4 times, as often as " of the"
    assert kinds[7:] == [("supermerge", b" of the")]
    assert train_boundless(text, BYTES, 300).events == training.events  # nothing else is left


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


@examples(400)
@given(documents, st.integers(1, 30), boundless_options)
def test_two_phases_give_the_one_pass_result(documents, tokens, options):
    """Words first and interleaving afterwards equals one operation at a time over whole documents."""
    two = train_boundless(documents, BYTES, 256 + tokens, **options)
    one = oracles.train_boundless_one_pass(documents, BYTES, 256 + tokens, **options)
    assert two.events == one.events
    assert list(two.vocabulary.living) == list(one.vocabulary.living)


def test_a_superword_that_spells_another_chunk_is_that_token():
    """a + b joined spells the chunk ab: one id, and learning in two phases or one agrees."""
    text = [[b"a", b"b"] * 6, [b"ab", b" ab"] * 2, [b"ab", b"."]]
    options: dict[str, Any] = {"superword_pattern": SIMPLE}
    two = train_boundless(text, BYTES, 262, **options)
    joined = [event for event in two.events if two.vocabulary[event.id].content == b"ab"]
    assert {event.op for event in joined} == {Op.MERGE, Op.SUPERMERGE}
    assert len({event.id for event in joined}) == 1
    assert two.events == oracles.train_boundless_one_pass(text, BYTES, 262, **options).events


def test_learning_goes_on_when_superwords_run_out():
    """Documents without any neighbours give the vocabulary of plain BPE at the full size."""
    words = [[chunk] for chunk in chunks_of(sample_text(2, 300))]
    plain = train_words(oracles.count_chunks(words), BYTES, 300)
    assert train_boundless(words, BYTES, 300).events == plain.events
    # fastboundlessbpe ends after one operation here; its results can still be judged.
    early = train_boundless(words, BYTES, 300, stop_early=True)
    assert early.events == plain.events[:1]
    assert not early.target_reached


def test_superbpe_learns_all_words_first():
    """Up to the transition only merges, after it only supermerges."""
    text = [chunks_of(line) for line in sample_text(3).split("\n")]
    training = oracles.train_superbpe(text, BYTES, 360, 320)
    assert [event.op for event in training.events] == [Op.MERGE] * 64 + [Op.SUPERMERGE] * 40
    plain = train_words(oracles.count_chunks(text), BYTES, 320)
    assert training.events[:64] == plain.events


def test_superwords_can_be_limited():
    """max_words bounds the chunks in a superword; forbid keeps a pattern out of them."""
    text = [[b" a", b" b", b" c", b" d"]] * 5  # ab and cd first; abc is never a pair, abcd is
    for limit in (2, 3, 4):
        training = train_boundless(text, BYTES, 290, max_words=limit)
        assert max(content.count(b" ") for content in learned(training)) == (2 if limit < 4 else 4)
    training = train_boundless(text, BYTES, 290, forbid="c")
    assert b" a b" in learned(training)
    assert not any(b"c" in training.vocabulary[e.id].content for e in training.events if e.op is Op.SUPERMERGE)


def test_stop_words_are_walls_for_superwords():
    """No superword holds a stop word or reaches across one."""
    text = [[b" of", b" the", b" sea"]] * 5
    training = train_boundless(text, BYTES, 300, stop_words=[b" the"])
    assert all(event.op is Op.MERGE for event in training.events)


def test_runs_are_cut_at_rare_neighbours():
    """The greedy split keeps the longest n-grams that occur often enough, and single chunks."""
    a, b, c = (97,), (98,), (99,)
    runs = {(a, b, c): 15, (b, a): 3, (a, b): 2}
    assert split_runs(runs, 15, 30) == {(a, b, c): 15, (b,): 3, (a,): 3, (a, b): 2}
    assert split_runs(runs, 15, 2) == {(a, b): 17, (c,): 15, (b,): 3, (a,): 3}
    assert split_runs(runs, 3, 30) == {(a, b, c): 15, (b, a): 3, (a, b): 2}
    assert split_runs(runs, 99, 30) == runs


def test_the_original_lets_superwords_win_ties_and_forgets_no_string():
    """In the first form a tie goes to the superword, and a deleted token still holds its place."""
    text = [[b" of", b" the"]] * 4 + [[b" xy", b"."]] * 4
    options: dict[str, Any] = {"superword_pattern": IMPROVED, "deletions": Deletions.at(1.0)}
    training = oracles.train_boundless_original(text, BYTES, 262, **options)
    tokens = [token.content for token in training.vocabulary.tokens]
    assert len(tokens) == 262 == len(set(tokens))
    assert training.vocabulary.size < 262  # some are deleted, and yet counted
    new = train_boundless(text, BYTES, 300, ties="bytes", overlaps="disjoint")
    old = oracles.train_boundless_original(text, BYTES, 300)
    place = {
        name: [t.vocabulary[e.id].content for e in t.events].index(b" of the")
        for name, t in (("new", new), ("old", old))
    }
    assert place["old"] < place["new"]


def test_the_original_joins_nothing_to_a_superword_of_a_word_and_itself():
    """ " no no" stays locked, so " no no oh" is never made; a document that has become " no no" alone unlocks it."""
    line = [b" no", b" no", b" oh", b"."]
    alone = [b" no", b" no"]

    def superwords(documents: list[list[bytes]]) -> list[bytes]:
        training = oracles.train_boundless_original(documents, BYTES, 300)
        vocabulary = training.vocabulary
        return [vocabulary[event.id].content for event in training.events if event.op is Op.SUPERMERGE]

    assert superwords([line] * 6) == [b" no no"]
    assert superwords([alone, *[line] * 6]) == [b" no no", b" no no oh"]
    two_phases = train_boundless([line] * 6, BYTES, 300, ties="bytes", overlaps="disjoint")
    assert b" no no oh" in {token.content for token in two_phases.vocabulary.tokens}


def test_the_original_does_not_count_beside_a_chunk_that_a_superword_spells():
    """ "don" + "'t" unlocks the chunk "don't" that stands elsewhere, but its neighbours there stay uncounted."""
    documents = [[b" don", b"'t", b"."]] * 9 + [[b" don't", b" go", b"."]] * 4 + [[b" go", b"."]] * 9
    training = oracles.train_boundless_original(documents, BYTES, 300)
    made = [training.vocabulary[event.id].content for event in training.events]
    assert b" don't" in made
    assert b" don't go" not in made


@given(documents, st.integers(1, 25))
def test_original_and_two_phases_part_only_at_a_tie_or_a_listed_string(documents, tokens):
    """Without deletions both forms learn the same until a tie of the two kinds, a string made twice, a superword of a
    word and itself, or one that spells a chunk."""
    old = oracles.train_boundless_original(documents, BYTES, 256 + tokens)
    new = train_boundless(documents, BYTES, 256 + tokens, ties="bytes", overlaps="disjoint")
    made: set[int] = set()
    locked = False
    chunks = {chunk for document in documents for chunk in document}
    for a, b in zip(old.events, new.events, strict=False):
        if a != b:
            tie = a.n == b.n and (a.op, b.op) == (Op.SUPERMERGE, Op.MERGE)
            assert tie or b.id in made or locked
            return
        made.add(b.id)
        content = new.vocabulary[b.id].content
        locked |= b.op is Op.SUPERMERGE and (b.left == b.right or content in chunks)
    assert len(old.events) == len(new.events) or not old.target_reached or new.events[-1].id in made or locked


def test_uw_superbpe_carries_merges_into_coarser_chunks():
    """Inherited merges are made first with the counts of the coarse text; unknown ones are passed over."""
    coarse = {b"of the": 5, b"of a": 3}
    training = oracles.train_uw([(b"o", b"f"), (b"x", b"y"), (b"q", b"of")], coarse, seen_alphabet(coarse), 10)
    vocabulary = training.vocabulary
    assert learned(training)[:2] == [b"of", b"of "]
    assert training.events[0].n == 8
    assert vocabulary.size == 10


def test_uw_superbpe_keeps_what_it_inherits_while_it_once_stood():
    """Only pairs that never stood are passed over: earlier merges may have taken up every place of a pair."""
    training = oracles.train_uw([(b"a", b"b"), (b"b", b"c"), (b"x", b"y")], {b"abc": 14}, gpt2_alphabet(), 259)
    assert [(learned(training)[i], event.n) for i, event in enumerate(training.events)] == [
        (b"ab", 14),
        (b"bc", 0),
        (b"abc", 14),
    ]
    # stands only between two merges: (ab, c) after the first, until the second takes c
    training = oracles.train_uw([(b"a", b"b"), (b"c", b"d"), (b"ab", b"c")], {b"abcd": 5}, gpt2_alphabet(), 260)
    assert [event.n for event in training.events] == [5, 5, 0, 5]


# Published trainers


def hugging_face_merges(text: str, vocab_size: int, all_bytes: bool, min_frequency: int) -> list[tuple[str, str]]:
    import json

    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet() if all_bytes else []
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, initial_alphabet=alphabet, min_frequency=min_frequency
    )
    tokenizer.train_from_iterator([text], trainer)
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


@pytest.mark.parametrize("all_bytes", [True, False])
@pytest.mark.parametrize("min_frequency", [1, 9])
def test_plain_bpe_equals_hugging_face(all_bytes, min_frequency):
    """Under the default rules the merge list is Hugging Face's, ties included."""
    from streambpe.model.alphabet import byte_to_character

    text = sample_text(4)
    counts = Counter(chunks_of(text))
    alphabet = gpt2_alphabet() if all_bytes else seen_alphabet(counts)
    training = train_words(counts, alphabet, 600, min_frequency=min_frequency)
    shown = byte_to_character()

    def name(number: int) -> str:
        return "".join(shown[byte] for byte in training.vocabulary[number].content)

    ours = [(name(left), name(right)) for left, right in (event.pair for event in training.events)]
    assert len(ours) > 100
    assert ours == hugging_face_merges(text, 600, all_bytes, min_frequency)


def test_plain_bpe_equals_rustbpe():
    """With ids = bytes the merge list is rustbpe's."""
    import rustbpe

    text = sample_text(5)
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter([text]), vocab_size=600, pattern=WORD)
    theirs = [bytes(content) for content, rank in sorted(tokenizer.get_mergeable_ranks(), key=lambda r: r[1])]
    training = train_words(Counter(chunks_of(text)), BYTES, 600)
    assert [token.content for token in training.vocabulary.tokens] == theirs


def test_neighbouring_ids_are_learned_with_their_own_counts():
    """The count of an event is the pair's count at that moment, not at the start."""
    training = train_words({b"abc": 3, b"ab": 1, b"bc": 2}, BYTES, 258)
    assert [(e.pair, e.n) for e in training.events] == [((98, 99), 5), ((97, 256), 3)]


def test_superword_events_name_log_ids_of_the_interleaved_order():
    """A superword takes the next number between the merges around it."""
    text = [[b"a", b"b"]] * 9 + [[b"xyz"]] * 5
    training = train_boundless(text, BYTES, 259, superword_pattern=SIMPLE)
    assert training.events == [
        supermerge_event(97, 98, 256, 9),
        merge_event(120, 121, 257, 5),
        merge_event(257, 122, 258, 5),
    ]
