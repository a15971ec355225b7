"""Superwords: merges across chunk borders, in two phases and, for comparison, in one pass.

A superword joins whole chunks: " of" + " the" -> " of the". Only chunks that stand as one token
may join, and only if they are *eligible*: their text matches a pattern (at least a letter), and
they end as one token when words alone are learned to the full size.

The meaning (one pass): hold every document in memory; at each step compare the best pair
inside chunks with the best pair of neighbouring eligible tokens; make the one that occurs more
often, the ordinary merge if they tie.

The same in two phases: learn the words first, all of them; then learn superwords from the
runs of eligible chunks, taking at each step the next word step if its recorded count is at
least the best supermerge's. Why nothing is lost: as long as a chunk is not one token it holds a
pair that is still to be merged, so it occurs at most as often as the best merge; a supermerge
with a strictly larger count therefore joins tokens that exist already.

    word steps      " t"+"he" 90   " o"+"f" 80   "i"+"n" 7 ...
    supermerges                                " of"+" the" 30
    interleaved     " the" 90, " of" 80, " of the" 30, "in" 7 ...

SuperBPE (`train_superbpe`) is the same without competition: words to the transition size, then
only supermerges. UW SuperBPE (`train_uw`) is another thing: the learned merges are carried into
text cut by a coarser pattern, and ordinary BPE goes on there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import regex

from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import (
    Event,
    EventLog,
    Header,
    StopWord,
    delete_event,
    merge_event,
    supermerge_event,
)
from streambpe.model.replay import Model, Pair, steps
from streambpe.model.vocabulary import Token, Vocabulary
from tests.oracles.primitives import Best, Corpus, Detail, Overlaps, Ties, Training, count_pairs
from tests.oracles.replay import encode_chunk
from tests.oracles.words import TokenTest, WordTrainer, learn, train_words

Documents = Sequence[Sequence[bytes]]  # each document as its chunks in order
Base = tuple[int, ...]  # a chunk or superword as its base symbols: its identity
TextTest = Callable[[bytes], bool]

SIMPLE = r"\p{L}"
IMPROVED = r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+\Z"  # a letter that is not the first character


def text_matches(pattern: str, at_start: bool = False) -> TextTest:
    """A test for chunk bytes: valid UTF-8 in which the pattern is found, anywhere or only at its start."""
    compiled = regex.compile(pattern)
    found = compiled.match if at_start else compiled.search

    def matches(content: bytes) -> bool:
        try:
            return found(content.decode()) is not None
        except UnicodeDecodeError:
            return False

    return matches


def count_chunks(documents: Documents) -> Counter[bytes]:
    """Distinct chunks with their counts, in first-seen order."""
    return Counter(chunk for document in documents for chunk in document)


def as_log(training: Training, **header: Any) -> EventLog:
    """A training as an event log. `header`: more fields of it."""
    vocabulary = training.vocabulary
    stop_words = tuple(StopWord(number, chunk) for chunk, number in vocabulary.stop_ids.items())
    return EventLog(Header(vocabulary.alphabet.to_header(), stop_words=stop_words, **header), tuple(training.events))


def as_model(training: Training, **header: Any) -> Model:
    """A training as a model that can encode."""
    return Model(as_log(training, **header))


def eligible_chunks(words: Training, chunks: Iterable[bytes], eligible: TextTest) -> dict[bytes, Base]:
    """The chunks that may join superwords, with their base symbols. Candidates are the chunks given and the texts of
    all tokens, since a superword may spell one.

    A chunk cut off before training counts too, if the learned merges make it one token.
    """
    model = as_model(words)
    found = {}
    for chunk in dict.fromkeys([*chunks, *(token.content for token in words.vocabulary.tokens)]):
        encoded = encode_chunk(model, chunk, unknown="unk")
        if len(encoded) == 1 and encoded[0] in words.vocabulary.living and chunk not in words.vocabulary.stop_ids:
            base = words.vocabulary[encoded[0]].base
            if eligible(chunk):
                found[chunk] = base
    return found


def eligible_runs(documents: Documents, eligible: Mapping[bytes, Base]) -> Counter[tuple[Base, ...]]:
    """Distinct runs of two or more neighbouring eligible chunks; anything else ends a run."""
    runs: Counter[tuple[Base, ...]] = Counter()
    for document in documents:
        run: list[Base] = []
        for chunk in (*document, None):
            if chunk in eligible:
                run.append(eligible[chunk])  # type: ignore[index]
            else:
                if len(run) > 1:
                    runs[tuple(run)] += 1
                run = []
    return runs


class Superwords:
    """Runs being joined. Symbols have numbers of their own here: a log id is given only at birth."""

    def __init__(
        self,
        runs: Mapping[tuple[Base, ...], int],
        eligible: Iterable[Base],
        vocabulary: Vocabulary,
        ties: Ties,
        overlaps: Overlaps,
        max_words: int | None = None,
        blocked: Collection[bytes] = (),
        forbid: TextTest | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.ties = ties
        self.base: list[Base] = []
        self.number_of: dict[Base, int] = {}
        self.words_in: list[int] = []  # chunks in a symbol: one in an eligible chunk, in a run or not
        for base in eligible:
            self.number(base, 1)
        filtered = max_words is not None or bool(blocked) or forbid is not None
        self.max_words, self.blocked, self.forbid = max_words, blocked, forbid
        sequences = [([self.number(symbol, 1) for symbol in run], n) for run, n in runs.items()]
        self.corpus = Corpus(sequences, overlaps, self._allowed if filtered else None)

    def number(self, base: Base, words: int) -> int:
        """The symbol with these base symbols; equal bytes are one symbol, and keep the number of words they had."""
        if base not in self.number_of:
            self.number_of[base] = len(self.base)
            self.base.append(base)
            self.words_in.append(words)
        return self.number_of[base]

    def content(self, symbol: int) -> bytes:
        """The bytes of a symbol."""
        return b"".join(self.vocabulary[number].content for number in self.base[symbol])

    def _allowed(self, left: int, right: int) -> bool:
        content = self.content(left) + self.content(right)
        return (
            (self.max_words is None or self.words_in[left] + self.words_in[right] <= self.max_words)
            and content not in self.blocked
            and (self.forbid is None or not self.forbid(content))
        )

    def tie_key(self, pair: Pair) -> tuple[Any, Any]:
        """Ids of the interleaved order, or contents. A symbol that is not born yet sorts last and is never chosen."""
        left, right = pair
        if self.ties == "bytes":
            return self.content(left), self.content(right)
        unborn = len(self.vocabulary.tokens) + self.vocabulary.first_id
        id_of = self.vocabulary.id_of
        return id_of.get(self.base[left], unborn), id_of.get(self.base[right], unborn)

    def best(self) -> Best | None:
        """The supermerge to make next."""
        return self.corpus.best(self.tie_key)

    def step(self, training: Training, best: Best) -> None:
        """Join one pair everywhere and record it."""
        left, right = best.pair
        symbol = self.number(self.base[left] + self.base[right], self.words_in[left] + self.words_in[right])
        before = self.corpus.token_counts[left], self.corpus.token_counts[right]
        merged, completed = self.corpus.merge(best.pair, symbol)
        ids = training.vocabulary.id_of[self.base[left]], training.vocabulary.id_of[self.base[right]]
        new = training.vocabulary.learn(*ids)
        training.record(supermerge_event(*ids, new, best.n), Detail(*before, merged, completed))


def replay_step(training: Training, words: Vocabulary, step: Sequence[Event]) -> None:
    """Take one step of the word phase into the interleaved order, under the ids it has there."""

    def renumbered(number: int) -> int:
        return training.vocabulary.id_of[words[number].base]

    for event in step:
        if event.left < 0:
            number = renumbered(event.id)
            training.vocabulary.delete(number)
            training.record(delete_event(number, map(renumbered, event.into), event.n))
        else:
            left, right = map(renumbered, event.pair)
            training.record(merge_event(left, right, training.vocabulary.learn(left, right), event.n))


def train_boundless(
    documents: Documents,
    alphabet: Alphabet,
    vocab_size: int,
    *,
    transition: int | None = None,
    superword_pattern: str | TextTest = IMPROVED,
    freq_cutoff: int = 1,
    greedy_split: tuple[int, int] | None = None,
    stop_early: bool = False,
    max_words: int | None = None,
    forbid: str | None = None,
    ties: Ties = "ids",
    overlaps: Overlaps = "all",
    min_frequency: int = 1,
    blocked: Collection[bytes] = (),
    stop_words: Sequence[bytes] = (),
    other_ids: int = 0,
    **word_options: Any,
) -> Training:
    """Words and superwords in two phases (module docstring), to vocab_size ids in all.

    transition: None lets the two compete; a size makes it SuperBPE (`train_superbpe`).
    greedy_split, stop_early: what fastboundlessbpe can do or does, here to judge it: cut runs first into n-grams
    that occur at least so often (as often as the last word merge, if that is more) and have at most so many chunks;
    end as soon as no superword pair is left, even below vocab_size.
    word_options: deletions, max_token_length, may_merge, as for train_words.
    """
    counts = {chunk: n for chunk, n in count_chunks(documents).items() if n >= freq_cutoff}
    rule = {"ties": ties, "overlaps": overlaps, "blocked": blocked, "stop_words": stop_words, "other_ids": other_ids}
    size = vocab_size if transition is None else transition + other_ids
    words = train_words(counts, alphabet, size, min_frequency=min_frequency, **rule, **word_options)
    eligible = eligible_chunks(words, count_chunks(documents), _test(superword_pattern))
    runs = eligible_runs(documents, eligible)
    if greedy_split is not None:
        merges = [event.n for event in words.events if event.left >= 0]
        least, longest = greedy_split
        runs = split_runs(runs, max(merges[-1] if merges else 0, least), longest)
    training = Training(Vocabulary(alphabet, stop_words), words.corpus, other_ids=other_ids)
    forbidden = None if forbid is None else text_matches(forbid)
    supers = Superwords(runs, eligible.values(), training.vocabulary, ties, overlaps, max_words, blocked, forbidden)
    waiting = list(steps(words.events))[::-1]
    while training.size < vocab_size or (transition is not None and waiting):
        best = supers.best()
        if best is not None and best.n < min_frequency:
            best = None
        if waiting and (transition is not None or best is None or best.n <= waiting[-1][0].n):
            replay_step(training, words.vocabulary, waiting.pop())
        elif best is not None:
            supers.step(training, best)
        else:
            return training
        if stop_early and not supers.corpus.pair_counts:
            break
    training.target_reached = training.size >= vocab_size
    return training


def _test(pattern: str | TextTest) -> TextTest:
    return text_matches(pattern) if isinstance(pattern, str) else pattern


def train_superbpe(
    documents: Documents, alphabet: Alphabet, vocab_size: int, transition: int, **options: Any
) -> Training:
    """Words until `transition` tokens live (specials not counted), then only supermerges."""
    return train_boundless(documents, alphabet, vocab_size, transition=transition, **options)


def split_runs(runs: Mapping[tuple[Base, ...], int], least: int, longest: int) -> Counter[tuple[Base, ...]]:
    """The greedy n-gram split of fastboundlessbpe, which changes the result and is here to judge it.

    An n-gram of chunks is counted only where both its (n-1)-grams occur `least` times; runs are cut
    left to right into the longest n-grams that occur `least` times, other chunks standing alone.
    """
    kept: set[tuple[Base, ...]] = set()
    shorter: set[tuple[Base, ...]] | None = None  # None: every single chunk counts
    for length in range(2, longest + 1):
        counts: Counter[tuple[Base, ...]] = Counter()
        for run, n in runs.items():
            for i in range(len(run) - length + 1):
                gram = run[i : i + length]
                if shorter is None or (gram[:-1] in shorter and gram[1:] in shorter):
                    counts[gram] += n
        shorter = {gram for gram, n in counts.items() if n >= least}
        if not shorter:
            break
        kept |= shorter
    if not kept:
        return Counter(runs)
    pieces: Counter[tuple[Base, ...]] = Counter()
    for run, n in runs.items():
        i = 0
        while i < len(run):
            length = 1
            while run[i : i + length + 1] in kept and i + length < len(run):
                length += 1
            pieces[run[i : i + length]] += n
            i += length
    return pieces


def train_boundless_one_pass(
    documents: Documents,
    alphabet: Alphabet,
    vocab_size: int,
    *,
    superword_pattern: str | TextTest = IMPROVED,
    freq_cutoff: int = 1,
    ties: Ties = "ids",
    overlaps: Overlaps = "all",
    min_frequency: int = 1,
    stop_words: Sequence[bytes] = (),
    blocked: Collection[bytes] = (),
    other_ids: int = 0,
    **word_options: Any,
) -> Training:
    """The definition itself: documents in memory, one operation at a time, neighbours counted anew.

    A chunk's symbol takes part from the moment its bytes are first a living token. Cost: O(text) per step. Must give
    the events of `train_boundless`.
    """
    counts = {chunk: n for chunk, n in count_chunks(documents).items() if n >= freq_cutoff}
    rule = {"ties": ties, "overlaps": overlaps, "blocked": blocked, "stop_words": stop_words, "other_ids": other_ids}
    options: dict[str, Any] = {**word_options, **rule}

    # Which chunks end as one token can only be known by learning the words to the end once.
    ahead = WordTrainer(counts, alphabet, **options)
    learn(ahead, vocab_size, min_frequency)
    eligible = eligible_chunks(ahead.training, count_chunks(documents), _test(superword_pattern))

    words = WordTrainer(counts, alphabet, **options)
    texts: list[list[Base | None]] = [[eligible.get(chunk) for chunk in document] for document in documents]
    training = Training(Vocabulary(alphabet, stop_words), words.training.corpus, other_ids=other_ids)
    vocabulary = training.vocabulary
    while training.size < vocab_size:
        supers: Counter[tuple[Base, Base]] = Counter()
        for text in texts:
            # Only what was born has an id; everything else is a wall between its neighbours.
            symbols = [vocabulary.id_of.get(base, -1) if base is not None else -1 for base in text]
            for left, right in count_pairs(symbols, overlaps):
                base = vocabulary[left].base, vocabulary[right].base
                if vocabulary[left].content + vocabulary[right].content not in blocked:
                    supers[base] += 1
        best_super = min(supers, key=lambda pair: (-supers[pair], _place(vocabulary, ties, pair)), default=None)
        n = supers[best_super] if best_super else 0
        best_word = words.best() if words.training.size < vocab_size else None
        if best_word is not None and best_word.n < min_frequency:
            best_word = None
        if best_word is not None and best_word.n >= n:
            done = len(words.training.events)
            words.step(*best_word)
            replay_step(training, words.training.vocabulary, words.training.events[done:])
        elif best_super is not None and n >= min_frequency:
            left, right = vocabulary.id_of[best_super[0]], vocabulary.id_of[best_super[1]]
            training.record(supermerge_event(left, right, vocabulary.learn(left, right), n))
            texts = [_join(text, best_super) for text in texts]
        else:
            return training
    training.target_reached = True
    return training


def _place(vocabulary: Vocabulary, ties: Ties, pair: tuple[Base, Base]) -> tuple[Any, Any]:
    left, right = (vocabulary[vocabulary.id_of[base]] for base in pair)
    return (left.content, right.content) if ties == "bytes" else (left.id, right.id)


def _join(text: list[Base | None], pair: tuple[Base, Base]) -> list[Base | None]:
    if pair not in set(pairwise(text)):
        return text
    result: list[Base | None] = []
    i = 0
    while i < len(text):
        if (text[i], text[i + 1] if i + 1 < len(text) else None) == pair:
            result.append(pair[0] + pair[1])
            i += 2
        else:
            result.append(text[i])
            i += 1
    return result


def train_uw(
    inherited: Iterable[tuple[bytes, bytes]],
    chunk_counts: Mapping[bytes, int],
    alphabet: Alphabet,
    vocab_size: int,
    *,
    min_frequency: int = 1,
    refused: TextTest | None = None,
    may_merge: TokenTest | None = None,
    **word_options: Any,
) -> Training:
    """UW SuperBPE's second stage: make the inherited merges in stage-2 chunks, then go on with BPE.

    inherited: the first stage's merges as contents, in order; one whose parts do not exist here or
    whose pair never stood in the text is passed over. Their counts are those of the stage-2 text, 0 where
    earlier merges have taken up every place that the pair had: such a merge is kept, as its authors keep it.
    refused: contents that no merge of this stage may make. may_merge: which tokens its merges may join.
    """
    inherited = list(inherited)
    known = set(inherited)

    def joins(left: Token, right: Token) -> bool:
        return (left.content, right.content) in known or (
            (may_merge is None or may_merge(left, right))
            and (refused is None or not refused(left.content + right.content))
        )

    trainer = WordTrainer(chunk_counts, alphabet, may_merge=joins, **word_options)
    vocabulary = trainer.training.vocabulary
    id_of = {token.content: token.id for token in vocabulary.tokens}
    for left, right in inherited:
        if left in id_of and right in id_of:
            pair = id_of[left], id_of[right]
            if pair in trainer.training.corpus.words_with:  # has ever been counted
                trainer.step(pair, trainer.training.corpus.pair_counts[pair])
                id_of[left + right] = trainer.training.events[-1].id
    learn(trainer, vocab_size, min_frequency)
    return trainer.training
