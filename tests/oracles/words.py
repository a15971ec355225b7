"""Learning inside words: plain BPE with its knobs, and PickyBPE's deletions.

One step is a merge and the deletions it causes. Deletions ask after each merge (a, b) -> ab
whether a (then b) was hardly more than a stage on the way: of its occurrences, which share
went into ab? With tau 0.9 and

    k i n g 91, k i n 9       before the merge (kin, g): kin occurs 100 times, 91 are merged
                              91/100 >= 0.9: kin is deleted, the 9 others become k i n again

The freed place goes to another token; kin may be learned again later. Where the published
systems differ, `Deletions` says which way: the share is compared by >= over the count before
the merge (fastboundlessbpe), or by > over what is left plus what was merged, after the merge
(`picky`: the second token is then judged after the first one's deletion). Shares are compared as
integers, never as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, delete_event, merge_event
from streambpe.model.replay import Pair, merge
from streambpe.model.vocabulary import Token, Vocabulary
from tests.oracles.primitives import (
    Best,
    Corpus,
    Detail,
    Overlaps,
    PairTest,
    Ties,
    Training,
    tie_key,
)
from tests.oracles.symbols import symbols_of

TokenTest = Callable[[Token, Token], bool]
Words = Mapping[bytes, int] | Sequence[tuple[Sequence[int], int]]


@dataclass(frozen=True)
class Deletions:
    """When a token is deleted and what becomes of its other occurrences.

    delete_to  "bytes": base symbols;  "walk": back along the pairs that first made it, as far as
               tokens that are alive;  "pair": the two tokens of its first merge, alive or not
    picky      compare strictly and after the merge (module docstring)
    ask_twice  log the deletion of a twice for a merge (a, a), as fastboundlessbpe does; changes
               nothing else, and exists only to read its results
    """

    tau: Fraction
    delete_to: Literal["bytes", "walk", "pair"] = "bytes"
    picky: bool = False
    ask_twice: bool = False

    @classmethod
    def at(cls, tau: str | float, *more: Any, **named: Any) -> Deletions:
        """tau as a decimal: 0.9 means exactly 9/10, whatever the float nearest to it is."""
        return cls(Fraction(str(tau)), *more, **named)


class WordTrainer:
    """The words, their vocabulary, and one step at a time. The systems below drive it."""

    def __init__(
        self,
        words: Words,
        alphabet: Alphabet,
        *,
        ties: Ties = "ids",
        overlaps: Overlaps = "all",
        max_token_length: int | None = None,
        blocked: Collection[bytes] = (),
        may_merge: TokenTest | None = None,
        deletions: Deletions | None = None,
        stop_words: Sequence[bytes] = (),
        other_ids: int = 0,
        inherited: Sequence[Event] = (),
    ) -> None:
        vocabulary = Vocabulary(alphabet, stop_words)
        self.alphabet, self.inherited = alphabet, inherited
        for event in inherited:
            vocabulary.learn(*event.pair)
        if isinstance(words, Mapping):
            words = [(self.encode(chunk), n) for chunk, n in words.items() if chunk not in vocabulary.stop_ids]
        self.deletions = deletions
        allowed = pair_test(vocabulary, max_token_length, blocked, may_merge)
        self.training = Training(vocabulary, Corpus(words, overlaps, allowed), other_ids=other_ids)
        self.tie_key = tie_key(ties, vocabulary)

    def encode(self, chunk: bytes) -> list[int]:
        """A chunk before the first step: its base symbols, or what the merges of an extended model make of them."""
        sequence = symbols_of(self.alphabet, chunk)
        for event in self.inherited:
            sequence = merge(sequence, event.pair, event.id)
        return sequence

    def best(self) -> Best | None:
        """The pair the next step would merge."""
        return self.training.corpus.best(self.tie_key)

    def step(self, pair: Pair, n: int) -> None:
        """Merge one pair everywhere, then delete what it made superfluous."""
        training = self.training
        vocabulary, corpus = training.vocabulary, training.corpus
        left, right = pair
        before = corpus.token_counts[left], corpus.token_counts[right]
        new = vocabulary.learn(left, right)
        merged, completed = corpus.merge(pair, new)
        training.record(merge_event(left, right, new, n), Detail(*before, merged, completed))
        if self.deletions is None:
            return
        asked = list(zip(pair, before, strict=True))
        if left == right and not self.deletions.ask_twice:
            del asked[1]  # both answers would be the same
        for number, count in asked:
            if len(vocabulary[number].base) > 1 and self._superfluous(number, count, merged):
                into = parts(vocabulary, number, self.deletions.delete_to)
                training.record(delete_event(number, into, corpus.split(number, into)))

    def _superfluous(self, number: int, count_before: int, merged: int) -> bool:
        assert self.deletions is not None
        tau = self.deletions.tau
        if self.deletions.picky:
            count = self.training.corpus.token_counts[number] + merged
            return merged * tau.denominator > tau.numerator * count
        return merged * tau.denominator >= tau.numerator * count_before


def pair_test(
    vocabulary: Vocabulary,
    max_token_length: int | None = None,
    blocked: Collection[bytes] = (),
    may_merge: TokenTest | None = None,
) -> PairTest | None:
    """One test for all vetoes: length in base symbols, blocked contents, whole characters."""
    if max_token_length is None and not blocked and may_merge is None:
        return None
    known: dict[Pair, bool] = {}  # an answer never changes, and every recount asks again

    def allowed(left: int, right: int) -> bool:
        if (left, right) not in known:
            a, b = vocabulary[left], vocabulary[right]
            known[left, right] = (
                (max_token_length is None or len(a.base) + len(b.base) <= max_token_length)
                and a.content + b.content not in blocked
                and (may_merge is None or may_merge(a, b))
            )
        return known[left, right]

    return allowed


def parts(vocabulary: Vocabulary, number: int, delete_to: str) -> tuple[int, ...]:
    """What a token is split into; the token is dead from here on."""
    vocabulary.delete(number)
    if delete_to == "bytes":
        return vocabulary[number].base
    if delete_to == "pair":
        return vocabulary.first_pair[number]

    def walk(part: int) -> tuple[int, ...]:
        if part in vocabulary.living:  # base symbols always are
            return (part,)
        left, right = vocabulary.first_pair[part]
        return walk(left) + walk(right)

    return walk(number)


def train_words(words: Words, alphabet: Alphabet, vocab_size: int, *, min_frequency: int = 1, **rule: Any) -> Training:
    """Learn until vocab_size model ids are alive, or no allowed pair occurs min_frequency times.

    words            chunk -> count, or (base symbol ids, count) pairs; order matters only for
                     ties "first-seen"
    rule             the options of WordTrainer, among them:
    ties             between equal counts: lowest (left id, right id), or contents, or first in the words
    max_token_length most base symbols a token may have
    blocked          contents never to be learned
    may_merge        a rule two tokens must pass to be a pair at all (whole_characters_*)
    stop_words       chunks that get an id of their own and stay out of the training
    other_ids        special tokens and reserved places, counted in vocab_size
    inherited        merges of a model that is extended
    """
    trainer = WordTrainer(words, alphabet, **rule)
    learn(trainer, vocab_size, min_frequency)
    return trainer.training


def learn(trainer: WordTrainer, vocab_size: int, min_frequency: int) -> None:
    """The loop: best pair, one step, until the size is reached or pairs run out."""
    training = trainer.training
    while training.size < vocab_size:
        best = trainer.best()
        if best is None or best.n < min_frequency:
            return
        trainer.step(*best)
    training.target_reached = True


# Whole characters: rules that complete a character before it joins anything else.


def whole_characters_bytes(left: Token, right: Token) -> bool:
    """UTF-8: whole with whole, or a character's first bytes with its next byte or bytes.

    "é" is c3 a9:  c3 + a9 yes;  " " + c3 no (half a character);  a9 + 62 no.
    A character grows from its lead byte to the right.
    """
    partial_left, partial_right = _partial_utf8(left.content), _partial_utf8(right.content)
    if partial_left and partial_right:
        return not _continues(left.content[0]) and _continues(right.content[0])
    return not partial_left and not partial_right


def _continues(byte: int) -> bool:
    """A UTF-8 continuation byte; every other byte, ASCII too, begins a character."""
    return 0x80 <= byte < 0xC0


def _partial_utf8(content: bytes) -> bool:
    """Whether this is less than a whole character, judged from lengths as the SCRIPT trainer does."""
    if len(content) > 4:
        return False
    lead = content[0]
    if _continues(lead):
        return True
    if sum(not _continues(byte) for byte in content) > 1:
        return False
    return len(content) != (1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)


def whole_characters_script(index_symbols: int, first_escape: int | None = None) -> TokenTest:
    """SCRIPT: block + index make a character; only then may it join other characters.

    Ids up to index_symbols are index symbols, ids above it block symbols. Two base symbols merge if the
    left is a block symbol; a base symbol and a longer token never do. Ids from first_escape on are the
    bytes of characters outside the table: among themselves they follow `whole_characters_bytes`, and only
    a whole character of them joins others.
    """

    def escaped(token: Token) -> bytes | None:
        if first_escape is None or min(token.base) < first_escape:
            return None
        return bytes(symbol - first_escape for symbol in token.base)

    def is_part(token: Token) -> bool:
        content = escaped(token)
        return len(token.base) == 1 if content is None else _partial_utf8(content)

    def may_merge(left: Token, right: Token) -> bool:
        if is_part(left) != is_part(right):
            return False
        if not is_part(left):
            return True
        first, second = escaped(left), escaped(right)
        if first is not None and second is not None:
            return not _continues(first[0]) and _continues(second[0])
        return first is None and second is None and left.base[0] > index_symbols

    return may_merge
