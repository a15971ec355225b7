"""Learning while the words fit in memory: the compiled loop (core/learn.h), and what it leaves to Python.

The loop makes events one at a time. Python asks for several at once and keeps `State` in step. Where a rule decides
which pairs may merge, Python answers for the best few dozen at once. BatchBPE's rounds are put together here. Where the
learner cannot split what it deleted, the words are split on their way out, and learning goes on from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.core.learner import ASK, DONE, FULL, LIVING, NONE_LEFT, UNFIT, Deletion, Learned, NoRoom
from streambpe.store.passes import PassRow
from streambpe.train.engine.column import read_column, split_token, write_column
from streambpe.train.engine.learning import HotPairs, Learning, Parts
from streambpe.train.engine.rules import ANY, Batch, Bounds, Veto, safe_pairs
from streambpe.train.engine.state import State

BYTES_PER_PLACE = 14  # when learning begins: 8 for the words, the rest for where pairs stand and their table
_WORK = 8 << 20  # places looked at in one batch, some 50 ms
_ASKED = 64  # pairs that a rule is asked about at once
_FIRST_MERGES = 16  # in the first batch, which is told soon; each later batch has a few more
_LEAST_BYTES = 1 << 21


class MemoryLearning(Learning):
    """Words in memory. NoRoom says that they are there, unharmed, but that there is no room to learn from them."""

    kind = "index"

    def __init__(
        self,
        state: State,
        parts: Callable[[], Parts],
        memory_bytes: int,
        *,
        most: int = MAX_COUNT,
        chains_least: int | None = None,
    ) -> None:
        """`parts`: gives the words, as often as it is asked. `most`: places that may be taken. chains_least: the words
        are the chains of a stage, which all stay in their order; nothing is split, and pairs that count less than this
        are of no use."""
        self.state = state
        self.stage = chains_least is not None
        self.ended = DONE  # NONE_LEFT, LIVING or UNFIT: the stage ends behind the last batch
        self._merges = _FIRST_MERGES  # in the next batch
        self._unsplit: list[Deletion] = []  # whose tokens are still in the learner's words
        places = words = 0
        # a token that may be split takes a place for each of its base symbols
        sizes = None if self.stage or state.lives is None else np.array(state.lengths)
        for symbols, offsets, weights in parts():
            inside = symbols[int(offsets[0]) : int(offsets[-1])]
            places += len(inside) if sizes is None else int(sizes[inside].sum())
            words += len(weights)
        if places + words + 1 > most:
            raise NoRoom
        at_least = max(state.options.at_least, chains_least or 1)
        self.learner = state.learner(max(memory_bytes, _LEAST_BYTES), at_least, stage=self.stage)
        self.learner.make_room(places, words)
        # a deletion may split a word that has become one token
        shortest = 1 if self.stage or state.lives is not None else 2
        for part in parts():
            self.learner.add_words(*part, shortest)

    # ------------------------------------------------------------------ learning

    def step(self, remaining: int, record: PassRow, bounds: Bounds = ANY) -> Batch | None:
        """See Learning.step."""
        self._refuse_unsplit()
        options = self.state.options
        self._before = self.learner.figures
        if options.batch == "paper":
            return self._round(remaining, record)
        merges = 1 if options.batch == "1" else min(self._merges, options.candidates, remaining)
        while True:
            enough = self.state.learned + remaining
            learned = self.learner.learn(merges, enough, _WORK, first=bounds.first, least=bounds.least)
            if len(learned.id):
                self._merges = len(learned.id) * 17 // 16 + 2
            elif learned.why == ASK:
                if vetoed := self._answer(_ASKED):
                    return self._take(learned, record, vetoed)
                continue
            batch = self._take(learned, record, [])
            if len(learned.id) or learned.why == DONE:  # without a merge: the best pair is out of bounds
                return batch
            if learned.why == FULL:
                raise NoRoom
            if learned.why == NONE_LEFT:
                return None

    def _take(self, learned: Learned, record: PassRow, vetoed: Sequence[Veto]) -> Batch:
        """What the learner did, as a batch."""
        before, now = self._before, self.learner.figures
        record.occurrences = now.looked - before.looked
        record.executed = now.executed - before.executed
        record.refills += now.refills - before.refills
        record.hot_pairs = now.hot
        merges = learned.left, learned.right, learned.id, learned.n
        batch = Batch.of(merges, record, vetoed, learned.deleted)
        self.state.take(batch.events, vetoed)
        self.state.ties.placed(learned.id, learned.n)
        if self.stage:
            self.ended = learned.why if learned.why in (NONE_LEFT, LIVING, UNFIT) else DONE
        elif learned.why == UNFIT:
            self._unsplit = [gone for gone in learned.deleted if gone.n][-now.pending :]
        return batch

    def _answer(self, many: int) -> list[Veto]:
        """Tell the learner which of the best pairs may merge; or veto the best, if it makes a token that is blocked."""
        left, right, n, known = self.learner.best(many, force=False)
        best = int(left[0]), int(right[0])
        if self.state.is_blocked(*best):
            self.learner.answer(*best, allowed=False)
            return [(*best, int(n[0]))]
        rule = self.state.rule
        assert rule is not None
        left, right = left[~known], right[~known]
        for pair in zip(left.tolist(), right.tolist(), rule.allows(left, right).tolist(), strict=True):
            self.learner.answer(*pair)
        return []

    # ------------------------------------------------------------------ BatchBPE's rounds

    def _round(self, remaining: int, record: PassRow) -> Batch | None:
        state = self.state
        most = state.options.round_size(remaining, state.next_id)
        vetoed: list[Veto] = []
        while True:
            left, right, n, known = self.learner.best(most, force=True)
            if self.learner.rule.asks and not known.all():
                self._answer(most)
                continue
            pairs = list(zip(left.tolist(), right.tolist(), strict=True))
            blocked = next((i for i, pair in enumerate(pairs) if state.is_blocked(*pair)), None)
            if blocked is None:
                break
            vetoed.append((*pairs[blocked], int(n[blocked])))
            self.learner.answer(*pairs[blocked], allowed=False)
        if not pairs and not vetoed:
            return None
        safe = safe_pairs(pairs)[:remaining]
        learned = self.learner.apply(np.stack((left, right), axis=1)[safe], int(n.min()) if len(n) else 1)
        if learned.why == FULL:
            raise NoRoom
        return self._take(learned, record, vetoed)

    # ------------------------------------------------------------------ what there is

    @property
    def places(self) -> int:
        """Places of the words, the separators between them included."""
        return self.learner.figures.places

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self.learner.figures.bytes

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now: symbols, offsets, weights, some at a time."""
        for words in self.learner.words():
            if self._unsplit:
                column, weights = write_column(*words, 1)
                for gone in self._unsplit:
                    column = split_token(column, gone)
                words = read_column(column, weights)
            yield words

    def _refuse_unsplit(self) -> None:
        """Raise NoRoom if deleted tokens are left in the learner's own words: only `words` splits them."""
        if self._unsplit:
            raise NoRoom

    def next_at_most(self) -> int:
        """No pair counts more than this."""
        _, _, n, _ = self.learner.best(1, force=False)
        return int(max([self.learner.figures.floor - 1, *n.tolist()]))

    def hot_pairs(self) -> HotPairs:
        """The best pairs of the words as they are now."""
        self._refuse_unsplit()
        hot = HotPairs(*self.learner.hot(), max(1, self.learner.figures.floor))
        return hot.only(self.state.allowed(hot.left, hot.right)) if self.state.filters else hot

    def close(self) -> None:
        """Give the memory back; lives go to the state."""
        self.state.take_counts(self.learner)
        self.learner.close()
