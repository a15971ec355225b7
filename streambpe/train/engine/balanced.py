"""Parity-aware BPE: each merge is the commonest pair of the source group that is compressed worst at that moment.

    de  1 000 bytes, 900 tokens      rate 1.11
    en  5 000 bytes, 4 000 tokens    rate 1.25      de is worst: its commonest pair merges, in the words of both

A group's rate is its bytes divided by its tokens now, and by its ratio if it has one; the lowest is worst, ties go to
the group whose name is first. Where texts are given that say the same in every group, the tokens of those are looked at
instead: the group that needs most, times its ratio, is worst. The first merges may be those of plain BPE over the sum
of the groups (`start`). With a window, a group that chose more than alpha / groups of the last so many merges is passed
over; if all are, the worst chooses. A group that has no pair left chooses no more.

The words of each group are in a learner of their own (core/learn.h) with all their pairs, so that the pair that one
group chooses is found in all others, or is known to be nowhere. If the words do not fit in memory, they stay on disk,
and the learners hold a digest of them for a while, as in from_disk.py. The chains of every digest consist of the best
pairs of all groups. A group only chooses a pair that counts more than any of its own pairs that were left out, so
every place of that pair is in the digests of all groups (see ScanColumn.digest).

The words can be made again after any event (`GroupedWords`): that is how learning begins, how it resumes, and how it
continues from disk when a learner runs out of room in the middle of a merge.

Judge: tests/oracles/balanced.py, which counts everything anew for every merge.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Protocol

import msgspec
import numpy as np

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.core.learner import FULL, Learner, NoRoom
from streambpe.model.events import Events
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import columns, read_column, write_column
from streambpe.train.engine.engine import Engine, word_slices
from streambpe.train.engine.from_disk import (
    FEWEST_LINKS,
    MOST_LINKS,
    NO_LIMIT,
    best_pair,
    block_places,
    count_column,
    digest_room,
    more_links,
)
from streambpe.train.engine.learning import NO_PAIRS, HotPairs, Learning, Parts
from streambpe.train.engine.pair_counter import PairCounter
from streambpe.train.engine.rules import ANY, Batch, Bounds, Words
from streambpe.train.engine.scan import Digest, ScanColumn
from streambpe.train.engine.state import State

_BATCH_SECONDS = 0.1
_MOST_HOT = 1 << 20  # pairs that are told
_LEAST_BYTES = 1 << 20  # of a learner, beside its tokens
_SHARE = 0.6  # of the memory for words and pairs; the rest for telling the pairs
_BYTES_PER_PLACE = 24  # in memory, with all pairs, when learning begins
_BYTES_WITH_PAIRS = 100  # of a token of a digest, in a learner, where few pairs stand twice
LEARNER_TOKEN_BYTES = 250  # of a token, in each learner


class Group(msgspec.Struct, frozen=True):
    """One source group and its words as they are now, including those of one token."""

    words: Words
    weight: Fraction  # the group with the most tokens times weight is worst
    text: Words | None = None  # words that it is measured on, in place of its own; all groups, or none


class GroupedWords(Protocol):
    """The words of a training, as they are after any of its events."""

    def together(self, events: Events) -> Words:
        """The sum of the groups."""

    def apart(self, events: Events) -> Sequence[Group]:
        """The groups, sorted by name."""


class Balance(msgspec.Struct, frozen=True):
    """Which group chooses."""

    start: int = 0  # so many tokens are learned from the sum of the groups
    window: int | None = None
    alpha: Fraction = Fraction(2)


class Choices(msgspec.Struct):
    """What decides the next choice, besides the words."""

    last: list[int] = []  # who chose, as far back as the window reaches
    done: list[int] = []  # groups that have no pair left


class Choice:
    """Who chooses next, by how many tokens each group has now."""

    def __init__(self, balance: Balance, before: Choices) -> None:
        self._balance = balance
        self.tokens: list[int] = []
        self._weights: list[int] = []
        self._last = deque(before.last)
        self._chose = Counter(before.last)
        self._done = set(before.done)

    def measure(self, groups: Sequence[Group]) -> None:
        """Count the tokens of the groups."""
        self.tokens = [_tokens(group.text or group.words) for group in groups]
        common = math.lcm(*(group.weight.denominator for group in groups))
        self._weights = [int(group.weight * common) for group in groups]  # compared in whole numbers

    def next_group(self) -> int | None:
        """The group that is worst; None if none has a pair left."""
        left = [i for i in range(len(self.tokens)) if i not in self._done]
        worst_first = sorted(left, key=lambda i: (-self.tokens[i] * self._weights[i], i))
        window = self._balance.window
        if window is not None:
            most = self._balance.alpha * window / len(self.tokens)
            worst_first = [i for i in worst_first if self._chose[i] <= most] or worst_first
        return worst_first[0] if worst_first else None

    def chose(self, group: int, *, found: bool) -> None:
        """A group had its turn. `found`: it has a pair."""
        if not found:
            self._done.add(group)
        if (window := self._balance.window) is not None:
            self._last.append(group)
            self._chose[group] += 1
            if len(self._last) > window:
                self._chose[self._last.popleft()] -= 1

    def so_far(self) -> Choices:
        """What decides later choices, besides the words."""
        return Choices(list(self._last), sorted(self._done))


def _tokens(words: Words) -> int:
    """How many tokens words have."""
    return sum(int(np.diff(offsets) @ weights) for _, offsets, weights in word_slices(words))


class BalancedLearning(Learning):
    """The words of all groups, and of the texts that they are measured on."""

    def __init__(self, state: State, groups: Sequence[Group], choice: Choice, *, in_memory: bool) -> None:
        """`in_memory`: learn there if the words fit; otherwise from disk, until half of them are left."""
        self.state, self._choice, self._groups = state, choice, len(groups)
        self.lost = False  # there was no room in the middle of a merge: the words have to be made again
        self._learners: list[Learner] = []  # of the groups, then of the texts
        self._least: list[int] = []  # what a pair counts that each group may choose now
        self._columns: list[ScanColumn] = []  # of the same, on disk
        self._digests: list[Digest] = []  # what the learners have of them
        self._links, self._alone = FEWEST_LINKS, False
        choice.measure(groups)
        options = state.options
        held = [group.words for group in groups] + [group.text for group in groups if group.text]
        for i, words in enumerate(held):
            folder = options.work_dir / f"column-{i}"
            column = ScanColumn(folder, state)
            for some in columns(word_slices(words), block_places(options), 2):
                column.append(*some)
            self._columns.append(column)
        self._fitting = options.index_below if options.force_scan else self._room(len(held)) // _BYTES_PER_PLACE
        if not in_memory:
            self._fitting = min(self._fitting, self._all_places() // 2)

    def _room(self, held: int) -> int:
        """Bytes for words and pairs; each learner knows all tokens, too."""
        memory_bytes = self.state.options.memory_bytes
        return max(int(memory_bytes * _SHARE) - held * LEARNER_TOKEN_BYTES * self.state.next_id, memory_bytes // 8)

    def _all_places(self) -> int:
        return sum(column.places for column in self._columns)

    def _learn_from(self, held: Sequence[Callable[[], Parts]], room: int, *, stage: bool = False) -> bool:
        """Give these words to learners; False if they take more room than that."""
        self._least = [self.state.options.at_least] * self._groups
        sizes = []
        for parts in held:
            ends = [(int(offsets[-1] - offsets[0]), len(weights)) for _, offsets, weights in parts()]
            sizes.append((sum(symbols for symbols, _ in ends), sum(words for _, words in ends)))
        whole = sum(symbols + words + 1 for symbols, words in sizes)
        try:
            for parts, (symbols, words) in zip(held, sizes, strict=True):
                share = max(room * (symbols + words + 1) // whole, _LEAST_BYTES)
                learner = self.state.learner(share + LEARNER_TOKEN_BYTES * self.state.next_id, 1, stage=stage)
                self._learners.append(learner)
                learner.make_room(symbols, words)
                for part in parts():
                    learner.add_words(*part, 1 if stage else 2)
        except NoRoom:
            self._close_learners()
        return bool(self._learners)

    # ------------------------------------------------------------------ learning

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """Merges for a moment, one at a time; None when no group has a pair left."""
        assert bounds == ANY, "each group counts for itself"
        began, most = time.perf_counter(), min(remaining, self.state.options.candidates)
        rows: list[tuple[int, int, int, int]] = []
        while len(rows) < most and (not rows or time.perf_counter() - began < _BATCH_SECONDS):
            if not self._learners and (rows or not self._begin(record)):
                break
            try:
                chosen = self._choose()
                if chosen is None:
                    if not self._columns:
                        break
                    self._end_stage()
                    continue
                left, right, n = chosen
                fresh = self.state.next_id
                ids, _ = self.state.commit([(left, right)], [0])
                rows.append((left, right, int(ids[0]), n))
                self._merge(left, right)
            except NoRoom:
                if not rows:
                    raise
                self.lost = True
                break
            if ids[0] != fresh or self._alone:  # a token that was alive already stands outside of the digests, too
                self._end_stage()
        if not rows:
            return None
        record.hot_pairs = sum(learner.figures.hot for learner in self._learners)
        merges = np.array(rows, np.int64).T
        return Batch.of(list(merges), record)

    def _choose(self) -> tuple[int, int, int] | None:
        """The pair of the group that is worst, and its count there. None: no group has a pair left, or none that the
        stage knows."""
        while (group := self._choice.next_group()) is not None:
            left, right, n, _ = self._learners[group].best(1, force=False)
            if len(n) and n[0] >= self._least[group]:
                self._choice.chose(group, found=True)
                return int(left[0]), int(right[0]), int(n[0])
            if self._least[group] > self.state.options.at_least:
                return None
            self._choice.chose(group, found=False)
        return None

    def _merge(self, left: int, right: int) -> None:
        """Merge a pair wherever it stands."""
        pair, measured = np.array([[left, right]]), self._learners[-self._groups :]
        made = [learner.figures.made for learner in measured]
        for learner in self._learners:
            if learner.apply(pair, 1).why == FULL:
                raise NoRoom
        for i, learner in enumerate(measured):
            self._choice.tokens[i] -= learner.figures.made - made[i]

    # ------------------------------------------------------------------ stages

    def _begin(self, record: PassRow) -> bool:
        """Have words to learn from: all, if they fit by now, or a digest. False if no group has a pair left."""
        if self._all_places() <= self._fitting:
            if self._learn_from([column.current_words for column in self._columns], self._room(len(self._columns))):
                self._remove_columns()
                return True
            self._fitting //= 2
        hot = [count_column(column, self.state, record)[0] for column in self._columns[: self._groups]]
        while (group := self._choice.next_group()) is not None and not len(hot[group].n):
            self._choice.chose(group, found=False)
        if group is None:
            return False
        some = [one.best(self._links) for one in hot]
        self._alone = max(len(one.n) for one in some) > MOST_LINKS or not self._boil_down(_union(some))
        if self._alone:  # no room: one pair is merged
            self._links = max(FEWEST_LINKS, self._links // 2)
            best = best_pair(hot[group], self.state)
            self._boil_down(best, NO_LIMIT)
            self._least = [MAX_COUNT] * self._groups
            self._least[group] = best.floor
        else:
            tokens = sum(len(digest.column) for digest in self._digests)
            self._links = more_links(self._links, tokens, self._digest_room())
            self._least = [one.floor for one in some]
        return True

    def _digest_room(self) -> int:
        return min(digest_room(self.state.options), self._room(len(self._columns)) // _BYTES_WITH_PAIRS)

    def _boil_down(self, links: HotPairs, limit: int = 0) -> bool:
        """Learn from digests made of these links; False if there is no room. `limit`: of tokens and of bytes, in place
        of what --memory leaves."""
        room = limit or self._digest_room()
        for column in self._columns:
            digest = column.digest(links, NO_PAIRS, room)
            if digest is None:
                self._digests = []
                return False
            self._digests.append(digest)
            room -= len(digest.column)
        held = [partial(_chains, digest) for digest in self._digests]
        if self._learn_from(held, limit or self._room(len(held)), stage=True):
            return True
        self._digests = []
        return False

    def _end_stage(self) -> None:
        """Make the merges of the stage in the words on disk."""
        if self._digests:
            for column, digest, learner in zip(self._columns, self._digests, self._learners, strict=True):
                column.rewrite(digest, learner.words())
            self._close_learners()
            self._digests, self._alone = [], False

    # ------------------------------------------------------------------ what there is

    @property
    def kind(self) -> str:  # type: ignore[override]
        """index: in memory; scan: on disk."""
        return "scan" if self._columns else "index"

    @property
    def places(self) -> int:
        """Places of the words of all groups."""
        if self._columns:
            return sum(column.places for column in self._columns[: self._groups])
        return sum(learner.figures.places for learner in self._learners[: self._groups])

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        blocks = max((column.nbytes for column in self._columns), default=0)
        return blocks + sum(learner.figures.bytes for learner in self._learners)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words of all groups as they are now."""
        self._end_stage()
        for column in self._columns[: self._groups]:
            yield from column.current_words()
        for learner in self._learners[: self._groups]:
            yield from learner.words()

    def hot_pairs(self) -> HotPairs:
        """The pairs that count most in all groups together, counted anew."""
        options = self.state.options
        counter = PairCounter(int((1 - _SHARE) / 2 * options.memory_bytes), options.work_dir)
        for some in self.words():
            counter.count(*write_column(*some), self.state.disjoint)
        return counter.hot_pairs(1, _MOST_HOT, self.state.judged if self.state.filters else None)[0]

    def close(self) -> None:
        """Give memory and files back."""
        self._close_learners()
        self._remove_columns()

    def _close_learners(self) -> None:
        for learner in self._learners:
            learner.close()
        self._learners = []

    def _remove_columns(self) -> None:
        for column in self._columns:
            column.remove()
        self._columns = []


def _union(some: Sequence[HotPairs]) -> HotPairs:
    """The pairs of all groups."""
    keys = np.unique(np.concatenate([one.left << 32 | one.right for one in some]))
    return HotPairs(keys >> 32, keys & 0xFFFFFFFF, np.zeros_like(keys), 0)


def _chains(digest: Digest) -> Parts:
    return [read_column(digest.column, digest.weights)]


class BalancedEngine(Engine):
    """An engine that learns `balance.start` tokens as any other, and then by groups."""

    def __init__(
        self, words: GroupedWords, state: State, known: Events, balance: Balance, before: Choices | None = None
    ) -> None:
        """`known`: the events so far; `before`: what decides the next choice, besides the words after them."""
        self.state, self.options = state, state.options
        self.state.take(known)
        self._grouped, self._balance, self._events = words, balance, known[:]
        self._choice = Choice(balance, before or Choices())
        if self.learned < balance.start:
            self._load(words.together(known))
        else:
            self._choose_by_group()

    def _choose_by_group(self, *, in_memory: bool = True) -> None:
        groups = self._grouped.apart(self._events)
        self.learning = BalancedLearning(self.state, groups, self._choice, in_memory=in_memory)

    @property
    def _by_group(self) -> bool:
        return isinstance(self.learning, BalancedLearning)

    def _to_disk(self) -> None:
        if not self._by_group:
            super()._to_disk()
            return
        self.learning.close()
        self._choose_by_group(in_memory=False)

    def step(self, remaining: int, bounds: Bounds = ANY) -> Batch | None:
        """See Engine.step."""
        of_the_sum = self._balance.start - self.learned
        if of_the_sum <= 0 and not self._by_group:
            self.learning.close()
            self._choose_by_group()
        batch = super().step(remaining if self._by_group else min(remaining, of_the_sum), bounds)
        if batch is not None:
            self._events.extend(batch.events)
        if isinstance(self.learning, BalancedLearning) and self.learning.lost:
            self._to_disk()
        return batch

    def choices(self) -> Choices:
        """See Engine.choices."""
        return self._choice.so_far()
