"""What learning knows beside the words: tokens and their ids, ties, lives, what may not merge."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from msgspec import structs

from streambpe.arrays import Bool, Int64
from streambpe.core.learner import FLOOR_RATIO, MOST_HOT, Deletion, Learned, Learner
from streambpe.train.engine.deletion import LivingTokens
from streambpe.train.engine.rules import EngineOptions, PairRule
from streambpe.train.engine.ties import TieOrder
from streambpe.train.engine.whole_characters import WholeCharacterRule


class Known(NamedTuple):
    """What was learned before: merges (left, right, id, n), deletions, and vetoes (left, right, n).

    `deleted[i].after`: how many of the merges stand before that deletion.
    """

    merges: Sequence[tuple[int, int, int, int]] = ()
    deleted: Sequence[Deletion] = ()
    vetoed: Sequence[tuple[int, int, int]] = ()


class State:
    """The tokens so far. Passes from disk and the learner take turns with it; neither keeps any of this itself."""

    def __init__(
        self,
        base_tokens: Sequence[bytes],
        options: EngineOptions,
        first_id: int | None = None,
        base_lengths: Sequence[int] | None = None,
        rule: PairRule | None = None,
        ties: TieOrder | None = None,
    ) -> None:
        """`first_id`: the id of the first merge (ids in between belong to stop words), else len(base_tokens).
        `base_lengths`: what max_token_length adds up (1 per base symbol unless given). `ties`: an order to use instead
        of options.ties."""
        self.options = options
        self.rule = rule
        self.next_id = len(base_tokens) if first_id is None else first_id
        if self.next_id < len(base_tokens):
            raise ValueError(f"first_id {first_id} is below {len(base_tokens)}, the number of base tokens")
        self.first_id = self.next_id
        self.tokens: list[bytes | None] = [*base_tokens, *[None] * (self.next_id - len(base_tokens))]
        self.known = {token: i for i, token in enumerate(base_tokens)}  # dead ones too
        self.lengths = np.ones(max(1024, 2 * self.next_id), np.int64)
        if base_lengths is not None:
            self.lengths[: len(base_lengths)] = base_lengths
        self._ties = ties or TieOrder(options.ties)
        self._ties.start(self.tokens)
        self._tied = self.next_id  # tokens the tie order knows
        self._placed: list[tuple[Int64, Int64]] = []  # merges that the tie order was not told of yet: ids, counts
        self.banned: set[tuple[int, int]] = set()
        self.vetoed: list[tuple[int, int, int]] = []
        self.merges = 0  # so far, those onto a living token included
        self.dead = 0  # learned tokens that are deleted now
        self.lives = LivingTokens(options.deletions, self.next_id) if options.deletions else None
        if self.lives and options.batch == "paper":
            raise ValueError("batch paper with deletions: a round of BatchBPE has no single merge to ask after")

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return self.next_id - self.first_id - self.dead

    @property
    def disjoint(self) -> bool:
        """Whether "aaa" holds (a, a) once."""
        return self.options.overlaps == "disjoint"

    @property
    def filters(self) -> bool:
        """Whether `allowed` ever says no."""
        return self.rule is not None or self.options.max_token_length is not None or bool(self.banned)

    def allowed(self, left: Int64, right: Int64) -> Bool:
        """Which of these pairs may merge."""
        good = np.ones(len(left), bool)
        if self.options.max_token_length is not None:
            good &= self.lengths[left] + self.lengths[right] <= self.options.max_token_length
        if self.rule is not None:
            good &= self.rule.allows(left, right)
        if self.banned:
            banned = [a << 32 | b for a, b in self.banned]
            good &= np.isin(left << 32 | right, banned, invert=True)
        return good

    def spelled(self, left: int, right: int) -> bytes:
        """The bytes that two tokens make."""
        a, b = self.tokens[left], self.tokens[right]
        assert a is not None
        assert b is not None
        return a + b

    def is_blocked(self, left: int, right: int) -> bool:
        """Whether the caller does not want what two tokens make."""
        return bool(self.options.blocked) and self.spelled(left, right) in self.options.blocked

    def veto(self, left: int, right: int, n: int) -> None:
        """Ban a pair that was the best, because it makes a blocked token."""
        self.vetoed.append((left, right, n))
        self.banned.add((left, right))

    def create_token(self, token: bytes, left: int, right: int) -> int:
        """Add a token that never was there before; returns its id."""
        new = self.next_id
        self.next_id += 1
        self.tokens.append(token)
        self.known[token] = new
        if new >= len(self.lengths):
            self.lengths = np.concatenate((self.lengths, np.ones(len(self.lengths), np.int64)))
        self.lengths[new] = self.lengths[left] + self.lengths[right]
        return new

    def commit(
        self, pairs: Sequence[tuple[int, int]], made: Sequence[int], *, whole_round: bool = False
    ) -> tuple[Int64, list[Deletion]]:
        """Ids for merges in order, each made so often, and the deletions they lead to; up to the first that changes
        pairs of old tokens, unless it is a `whole_round`."""
        ids: list[int] = []
        deleted: list[Deletion] = []
        for (left, right), times in zip(pairs, made, strict=False):
            token = self.spelled(left, right)
            known = self.known.get(token)
            number = self.create_token(token, left, right) if known is None else known
            ids.append(number)
            if self.rule is not None:
                self.rule.born(left, right, number)
            if self.lives is not None:
                if known is None:
                    self.lives.born(left, right)
                elif number >= self.first_id and not self.lives.alive[number - self.first_id]:
                    self.lives.returns(number)
                    self.dead -= 1
                gone = self.lives.merge(left, right, number, times, len(ids))
                self.dead += len(gone)
                deleted += gone
            if not whole_round and (known is not None or any(one.n for one in deleted)):
                break
        return np.array(ids, np.int64), deleted

    def take_known(self, known: Known) -> None:
        """Take over events that were learned before; how often tokens stand now is told by the words."""
        for veto in known.vetoed:
            self.veto(*veto)
        deleted = deque(known.deleted)
        for done, (left, right, number, _) in enumerate(known.merges, 1):
            if number == self.next_id:
                self.create_token(self.spelled(left, right), left, right)
                if self.lives is not None:
                    self.lives.born(left, right)
            elif self.lives is not None:
                self.lives.returns(number)
            if self.rule is not None:
                self.rule.born(left, right, number)
            while self.lives is not None and deleted and deleted[0].after == done:
                self.lives.dies(deleted.popleft().id)
        self.merges = len(known.merges)
        self.dead = 0 if self.lives is None else self.lives.alive.count(False)

    def placed(self, ids: Int64, count: Int64) -> None:
        """Note that these merges were committed with these counts."""
        self.merges += len(ids)
        if len(ids):
            self._placed.append((ids, count))

    @property
    def ties(self) -> TieOrder:
        """The order of ties, with everything that was learned so far."""
        for number in range(self._tied, self.next_id):
            token = self.tokens[number]
            assert token is not None
            self._ties.add(token, number)
        self._tied = self.next_id
        for ids, count in self._placed:
            self._ties.placed(ids, count)
        self._placed = []
        return self._ties

    # ------------------------------------------------------------------ the learner in memory

    def learner(self, limit: int, at_least: int, *, stage: bool) -> Learner:
        """A learner that knows all this. `stage`: its words are chains, which stay in their order, and splitting tokens
        is left to the caller."""
        ties, order, falling = self.ties.for_learner()
        options, lives, by_kind = self.options, self.lives, isinstance(self.rule, WholeCharacterRule)
        tau = Fraction(0) if lives is None else lives.rule.tau
        rule = structs.replace(
            ties,
            disjoint=self.disjoint,
            asks=self.rule is not None and not by_kind,
            walk=lives is not None and lives.rule.to == "walk",
            after=lives is not None and lives.rule.test == "after",
            numerator=tau.numerator,
            denominator=tau.denominator,
            longest=options.max_token_length or 0,
            at_least=at_least,
            first_id=self.first_id,
            splits=not stage,
            keeps=stage,
            most_hot=options.hot_pairs or (MOST_HOT if options.floor_ratio else 0),
            ratio=options.floor_ratio or FLOOR_RATIO,
        )
        tables = kinds = None
        if isinstance(self.rule, WholeCharacterRule):
            tables = self.rule.tables.allowed, self.rule.tables.merged
            kinds = self.rule.kinds(len(self.tokens))
        learner = Learner(rule, limit, tables, falling)
        learned = None if lives is None else (lives.count, lives.first_pair, lives.alive)
        learner.add_tokens(self.tokens, self.lengths, order, learned, kinds)
        if options.batch != "paper":  # a round of BatchBPE is judged as a whole
            learner.block(options.blocked)
        for left, right in sorted(self.banned):
            learner.answer(left, right, allowed=False)
        return learner

    def take(self, learned: Learned, dead: int) -> None:
        """Take over what the learner did; `dead`: how many learned tokens are deleted now. `take_lives` brings token
        counts."""
        for left, right, n in learned.vetoed:
            self.veto(left, right, n)
        for a, b, new in zip(learned.left.tolist(), learned.right.tolist(), learned.id.tolist(), strict=True):
            if new == self.next_id:
                self.create_token(self.spelled(a, b), a, b)
            if self.rule is not None:
                self.rule.born(a, b, new)
        self.dead = dead
        self.placed(learned.id, learned.n)

    def sizes(self) -> Int64 | None:
        """With deletions: how many base symbols each token has, and so how many places it takes in memory. None: one
        place each."""
        if self.lives is None or not self.lives.first_pair:
            return None
        sizes = [1] * self.first_id
        for left, right in self.lives.first_pair:
            sizes.append(sizes[left] + sizes[right])
        return np.array(sizes, np.int64)

    def take_lives(self, learner: Learner) -> None:
        """Take over from the learner how often tokens stand now, and which are alive."""
        if self.lives is not None:
            self.lives.count, self.lives.first_pair, self.lives.alive = learner.lives()
