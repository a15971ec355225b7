"""Parity-aware BPE: each merge is the commonest pair of the source group that is compressed worst at that moment.

    de  1 000 bytes, 900 tokens      rate 1.11
    en  5 000 bytes, 4 000 tokens    rate 1.25      de is worst: its commonest pair merges, in the words of both

A group's rate is its bytes divided by its tokens now, and by its ratio if it has one; the lowest is worst, ties go to
the group whose name is first. Where texts are given that say the same in every group, the tokens of those are looked at
instead: the group that needs most, times its ratio, is worst. The words of each group are in memory with all their
pairs (core/learn.h), so that the pair that one group chooses is found in all others, or is known to be nowhere. The
first merges may be those of plain BPE over the sum of the groups (`start`). With a window, a group that chose more than
alpha / groups of the last so many merges is passed over; if all are, the worst chooses. A group that has no pair left
chooses no more.

Judge: tests/oracles/balanced.py, which counts everything anew for every merge.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from streambpe.arrays import Int32, Int64
from streambpe.core.learner import FULL, Learner, NoRoom
from streambpe.errors import LimitError
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import write_column
from streambpe.train.engine.engine import Engine, word_slices
from streambpe.train.engine.learning import HotPairs, Learning
from streambpe.train.engine.pair_counter import PairCounter
from streambpe.train.engine.rules import ANY, Batch, Bounds, EngineOptions, Words
from streambpe.train.engine.state import State

_BATCH_SECONDS = 0.1
_MOST_HOT = 1 << 20  # pairs that are told
_LEAST_BYTES = 1 << 21
_SHARE = 0.6  # of the memory for words and pairs; the rest for telling the pairs


class Group(msgspec.Struct, frozen=True):
    """One source group."""

    name: str
    words: Words
    tokens: int  # before the first merge, of the words that it is measured on: their bytes
    weight: Fraction  # the group with the most tokens times weight is worst
    text: Words | None = None  # words that it is measured on, in place of its own; all groups, or none


class Balance(msgspec.Struct, frozen=True):
    """Which group chooses."""

    groups: Sequence[Group]  # sorted by name
    start: int = 0  # so many tokens are learned from the sum of the groups
    window: int | None = None
    alpha: Fraction = Fraction(2)


class Choice:
    """Who chooses next, by how many tokens each group has now."""

    def __init__(self, balance: Balance) -> None:
        self._balance = balance
        self.tokens = [group.tokens for group in balance.groups]
        common = math.lcm(*(group.weight.denominator for group in balance.groups))
        self._weights = [int(group.weight * common) for group in balance.groups]  # compared in whole numbers
        self._last: deque[int] = deque()
        self._chose: Counter[int] = Counter()
        self.done: set[int] = set()  # groups that have no pair left

    def next_group(self) -> int | None:
        """The group that is worst; None if none has a pair left."""
        left = [i for i in range(len(self.tokens)) if i not in self.done]
        if not left:
            return None
        worst_first = sorted(left, key=lambda i: (-self.tokens[i] * self._weights[i], i))
        window = self._balance.window
        if window is None:
            return worst_first[0]
        most = self._balance.alpha * window / len(self.tokens)
        chosen = next((i for i in worst_first if self._chose[i] <= most), worst_first[0])
        self._last.append(chosen)
        self._chose[chosen] += 1
        if len(self._last) > window:
            self._chose[self._last.popleft()] -= 1
        return chosen


class BalancedLearning(Learning):
    """The words of all groups, in memory."""

    kind = "index"

    def __init__(self, state: State, balance: Balance, known: Sequence[tuple[int, int]], fresh: State) -> None:
        """`known`: the merges so far; `fresh`: the state before them."""
        self.state, self._balance = state, balance
        self._choice = Choice(balance)
        held = [group.words for group in balance.groups] + [group.text for group in balance.groups if group.text]
        sizes = [len(words.symbols) + len(words.weights) + 1 for words in held]
        room = state.options.memory_bytes * _SHARE
        self._all: list[Learner] = []
        try:
            for words, size in zip(held, sizes, strict=True):
                limit = max(int(room * size / sum(sizes)), _LEAST_BYTES)
                learner = fresh.learner(limit, 1, stage=False)
                self._all.append(learner)
                learner.make_room(len(words.symbols), len(words.weights))
                for part in word_slices(words):
                    learner.add_words(*part, 2)
            self._learners, texts = self._all[: len(balance.groups)], self._all[len(balance.groups) :]
            self._measured = texts or self._learners
            for left, right in known:
                self._merge(left, right)
        except NoRoom:
            self.close()
            raise self._too_small() from None

    def _too_small(self) -> LimitError:
        groups = self._balance.groups
        places = sum(len(words.symbols) for group in groups for words in (group.words, group.text) if words)
        texts = ", including those of the given texts" if any(group.text for group in groups) else ""
        return LimitError(
            f"--balance keeps the words of all groups{texts} and all their pairs in memory: {places:,} symbols at the "
            "start, but this --memory has too little room. What was learned is kept. Give more --memory, or leave out "
            "rare text while counting."
        )

    # ------------------------------------------------------------------ learning

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """Merges for a moment, one at a time; None when no group has a pair left."""
        assert bounds == ANY, "each group counts for itself"
        began = time.perf_counter()
        most = min(remaining, self.state.options.candidates)
        rows: list[tuple[int, int, int, int]] = []
        try:
            while len(rows) < most and (not rows or time.perf_counter() - began < _BATCH_SECONDS):
                row = self._next()
                if row is None:
                    break
                rows.append(row)
        except NoRoom:
            raise self._too_small() from None
        if not rows:
            return None
        record.hot_pairs = sum(learner.figures.hot for learner in self._learners)
        left, right, new, n = np.array(rows, np.int64).T
        return Batch.of((left, right, new, n), record)

    def _next(self) -> tuple[int, int, int, int] | None:
        """One merge: left, right, id, and its count in the group that chose it."""
        while (group := self._choice.next_group()) is not None:
            learner = self._learners[group]
            left, right, n, _ = learner.best(1, force=False)
            if len(n) and n[0] >= self.state.options.at_least:
                a, b = int(left[0]), int(right[0])
                ids, _ = self.state.commit([(a, b)], [0])
                self._merge(a, b)
                return a, b, int(ids[0]), int(n[0])
            self._choice.done.add(group)
        return None

    def _merge(self, left: int, right: int) -> None:
        """Merge a pair in the words of all groups, and in the texts that they are measured on."""
        pair = np.array([[left, right]])
        made = [learner.figures.made for learner in self._measured]
        for learner in self._all:
            if learner.apply(pair, 1).why == FULL:
                raise NoRoom
        for i, learner in enumerate(self._measured):
            self._choice.tokens[i] -= learner.figures.made - made[i]

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Places of the words of all groups."""
        return sum(learner.figures.places for learner in self._learners)

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return sum(learner.figures.bytes for learner in self._all)

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words of all groups as they are now."""
        for learner in self._learners:
            yield from learner.words()

    def hot_pairs(self) -> HotPairs:
        """The pairs that count most in all groups together, counted anew."""
        options = self.state.options
        counter = PairCounter(int((1 - _SHARE) / 2 * options.memory_bytes), options.work_dir)
        for some in self.words():
            counter.count(*write_column(*some), self.state.disjoint)
        return counter.hot_pairs(1, _MOST_HOT, self.state.allowed if self.state.filters else None)

    def close(self) -> None:
        """Give the memory back."""
        for learner in self._all:
            learner.close()


class BalancedEngine(Engine):
    """An engine that learns `balance.start` tokens as any other, and then by groups."""

    def __init__(
        self, words: Words, base_tokens: Sequence[bytes], options: EngineOptions, *, first_id: int, balance: Balance
    ) -> None:
        """`words`: the sum of the groups."""
        super().__init__(words, State(base_tokens, options, first_id))
        self._balance = balance
        self._fresh = State(base_tokens, options, first_id)
        self._known: list[tuple[int, int]] = []
        self._by_group = False

    def step(self, remaining: int, bounds: Bounds = ANY) -> Batch | None:
        """See Engine.step."""
        if not self._by_group and self.learned < self._balance.start:
            batch = super().step(min(remaining, self._balance.start - self.learned), bounds)
            if batch is not None:
                self._known += (event.pair for event in batch.events)
            return batch
        if not self._by_group:  # from now on the groups choose
            self.learning.close()
            self.learning = BalancedLearning(self.state, self._balance, self._known, self._fresh)
            self._by_group, self._known = True, []
        return super().step(remaining, bounds)
