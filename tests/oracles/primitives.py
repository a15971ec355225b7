"""What every system shares: counting pairs, and words that are rewritten with true counts.

Counting. Neighbours overlap in a run of equal ids: `a a a` holds (a, a) at two places, but a
merge can only use one of them. Systems differ in what they count:

    count_pairs([a, a, a, b], "all")      -> aa aa ab     every place; n can exceed the merges made
    count_pairs([a, a, a, b], "disjoint") -> aa ab        a place used up by the one before is skipped

A `Corpus` is the words being rewritten. To change one word, take all its pairs out of the
counts, rewrite it, put its pairs back: there is no update rule to get wrong. Cost: O(word) per change,
and a merge visits only the words that hold its pair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from sortedcontainers import SortedDict

from streambpe.model.alphabet import UNKNOWN
from streambpe.model.eventlog import Event
from streambpe.model.replay import Pair, merge, split
from streambpe.model.vocabulary import Vocabulary

Ties = Literal["ids", "bytes", "first-seen"]
Overlaps = Literal["all", "disjoint"]
PairTest = Callable[[int, int], bool]


def count_pairs(sequence: Sequence[int], overlaps: Overlaps, allowed: PairTest | None = None) -> Iterator[Pair]:
    """Each counted neighbour pair of one word; pairs that hold UNKNOWN or are not allowed are passed over."""
    used = False  # "disjoint": the last place counted was (x, x), so its right x is taken
    for left, right in pairwise(sequence):
        refused = UNKNOWN in (left, right) or (allowed is not None and not allowed(left, right))
        taken = overlaps == "disjoint" and used and left == right
        used = left == right and not refused and not taken
        if not refused and not taken:
            yield left, right


class Merged(NamedTuple):
    """What one merge did to the words."""

    occurrences: int  # places merged, weighted by the words' counts
    completed: bool  # some word became a single token


class Best(NamedTuple):
    """The pair to merge next and its count."""

    pair: Pair
    n: int


class Corpus:
    """Weighted words, their pair counts and token counts."""

    def __init__(
        self,
        words: Iterable[tuple[Sequence[int], int]],
        overlaps: Overlaps,
        allowed: PairTest | None = None,
    ) -> None:
        self.overlaps = overlaps
        self.allowed = allowed
        self.sequences: list[list[int]] = []
        self.weights: list[int] = []
        self.pair_counts: Counter[Pair] = Counter()
        self._by_count: SortedDict[int, set[Pair]] = SortedDict()  # the pairs of each count, as `best` last saw them
        self._filed: dict[Pair, int] = {}  # the count under which each pair is in _by_count
        self._changed: set[Pair] = set()  # pairs whose counts changed since then
        self.token_counts: Counter[int] = Counter()
        # pair -> words that count it; a pair that was ever counted stays, so look only for pairs that are counted
        self.words_with: defaultdict[Pair, set[int]] = defaultdict(set)
        for sequence, weight in words:
            self.sequences.append(list(sequence))
            self.weights.append(weight)
            self._count(len(self.sequences) - 1, +1)

    def _count(self, word: int, sign: int) -> None:
        weight = sign * self.weights[word]
        sequence = self.sequences[word]
        for number in sequence:
            self.token_counts[number] += weight
        for pair in count_pairs(sequence, self.overlaps, self.allowed):
            self.pair_counts[pair] += weight
            self._changed.add(pair)
            if sign > 0:
                self.words_with[pair].add(word)
            else:
                self.words_with[pair].discard(word)
                if not self.pair_counts[pair]:
                    del self.pair_counts[pair]

    def rewrite(self, word: int, sequence: list[int]) -> None:
        """Give a word another segmentation."""
        self._count(word, -1)
        self.sequences[word] = sequence
        self._count(word, +1)

    def recount(self, words: Iterable[int], change: Callable[[], None]) -> None:
        """Make a change that alters which pairs of these words are allowed."""
        listed = list(words)
        for word in listed:
            self._count(word, -1)
        change()
        for word in listed:
            self._count(word, +1)

    def merge(self, pair: Pair, new: int, on_completed: Callable[[], None] = lambda: None) -> Merged:
        """Apply one merge to every word that counts the pair. on_completed: called for a word that is one token now,
        before the next word's turn."""
        occurrences, completed = 0, False
        for word in sorted(self.words_with.get(pair, ())):
            shorter = merge(self.sequences[word], pair, new)
            occurrences += (len(self.sequences[word]) - len(shorter)) * self.weights[word]
            self.rewrite(word, shorter)
            if len(shorter) == 1:
                completed = True
                on_completed()
        return Merged(occurrences, completed)

    def split(self, number: int, into: Sequence[int]) -> int:
        """Replace a token everywhere by its parts; returns the occurrences split."""
        occurrences = self.token_counts[number]
        for word, sequence in enumerate(self.sequences):
            if number in sequence:
                self.rewrite(word, split(sequence, number, into))
        return occurrences

    def best(
        self,
        tie_key: Callable[[Pair], object] | None,
        skip: Callable[[Pair], bool] | None = None,
    ) -> Best | None:
        """The commonest pair; of those that tie, the one with the smallest tie_key, or the first seen if tie_key is
        None.

        skip: pairs that may be counted but not chosen; the next count is tried if all are skipped.
        """
        self._file()
        key = tie_key or self.first_place
        for n in reversed(self._by_count):
            tied = [pair for pair in self._by_count[n] if not (skip and skip(pair))]
            if tied:
                first = min(map(key, tied))  # type: ignore[type-var]
                equal = [pair for pair in tied if key(pair) == first]
                # these pairs are of tokens that are spelled alike: take the one that was counted first
                return Best(equal[0] if len(equal) == 1 else next(p for p in self.pair_counts if p in equal), n)
        return None

    def _file(self) -> None:
        """Put the pairs whose counts changed under the counts that they have now."""
        for pair in self._changed:
            n, before = self.pair_counts.get(pair, 0), self._filed.pop(pair, 0)
            if before:
                self._by_count[before].remove(pair)
                if not self._by_count[before]:
                    del self._by_count[before]
            if n:
                self._by_count.setdefault(n, set()).add(pair)
                self._filed[pair] = n
        self._changed.clear()

    def first_place(self, pair: Pair) -> tuple[int, int]:
        """(word, position) where a pair is first met, reading the words in order."""
        word = min(self.words_with[pair])
        return word, list(pairwise(self.sequences[word])).index(pair)


def tie_key(ties: Ties, vocabulary: Vocabulary) -> Callable[[Pair], object] | None:
    """What decides between pairs of equal count; None means "first-seen"."""
    if ties == "ids":
        return lambda pair: pair
    if ties == "bytes":
        return lambda pair: (vocabulary[pair[0]].content, vocabulary[pair[1]].content)
    return None


@dataclass(frozen=True, slots=True)
class Detail:
    """What the log leaves out about an event, for comparing with systems that print more."""

    count_left: int  # occurrences of the left token before a merge
    count_right: int
    merged: int  # merges actually made; with overlaps "all" it can be below n
    completed: bool  # some word became a single token


@dataclass
class Training:
    """What a training learned. details[i] belongs to events[i]; None for deletions and replayed merges."""

    vocabulary: Vocabulary
    corpus: Corpus  # as the last event left it
    events: list[Event] = field(default_factory=list)
    details: list[Detail | None] = field(default_factory=list)
    other_ids: int = 0  # specials and reserved places, part of the size
    target_reached: bool = False

    @property
    def size(self) -> int:
        """Model ids: living tokens, specials and reserved places."""
        return self.vocabulary.size + self.other_ids

    def record(self, event: Event, detail: Detail | None = None) -> None:
        """Append one event."""
        self.events.append(event)
        self.details.append(detail)
