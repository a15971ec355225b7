"""What learning knows beside the words: tokens and their ids, ties, lives, what may not merge."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from msgspec import structs

from streambpe.arrays import Bool, Int64
from streambpe.core.learner import FLOOR_RATIO, MOST_HOT, Deletion, Learner
from streambpe.model.events import Event, Op
from streambpe.train.engine.deletion import LivingTokens
from streambpe.train.engine.rules import EngineOptions, PairRule, Veto
from streambpe.train.engine.ties import TieOrder
from streambpe.train.engine.whole_characters import WholeCharacterRule


class State:
    """The tokens so far. Passes from disk and the learner take turns with it; neither keeps any of this itself."""

    def __init__(
        self,
        base_tokens: Sequence[bytes],
        options: EngineOptions,
        first_id: int | None = None,
        base_lengths: Sequence[int] = (),
        rule: PairRule | None = None,
        ties: TieOrder | None = None,
    ) -> None:
        """`first_id`: the id of the first merge (ids in between belong to stop words), else len(base_tokens).
        `base_lengths`: what max_token_length adds up (1 per base symbol unless given). `ties`: an order to use instead
        of options.ties."""
        self.options, self.rule = options, rule
        self.first_id = len(base_tokens) if first_id is None else first_id
        self.tokens = [*base_tokens, *[b""] * (self.first_id - len(base_tokens))]
        self.known = {token: i for i, token in enumerate(base_tokens)}  # dead ones too
        self.lengths = array("q", [*base_lengths, *[1] * (self.first_id - len(base_lengths))])
        self.ties = ties or TieOrder(options.ties)
        self.banned: set[tuple[int, int]] = set()
        self.lives = LivingTokens(options.deletions, self.first_id) if options.deletions else None

    @property
    def next_id(self) -> int:
        """The id of the next token."""
        return len(self.tokens)

    @property
    def learned(self) -> int:
        """How many learned tokens are alive."""
        return self.next_id - self.first_id - (len(self.lives.dead) if self.lives else 0)

    @property
    def disjoint(self) -> bool:
        """Whether "aaa" holds (a, a) once."""
        return self.options.overlaps == "disjoint"

    @property
    def filters(self) -> bool:
        """Whether `allowed` ever says no."""
        return self.rule is not None or self.options.max_token_length is not None or bool(self.banned)

    def judged(self, left: Int64, right: Int64) -> tuple[Bool, Bool]:
        """(which of these pairs may merge, which may not although a token may be born across them: these are not too
        long)."""
        good = np.ones(len(left), bool) if self.rule is None else self.rule.allows(left, right)
        if self.banned:
            banned = [a << 32 | b for a, b in self.banned]
            good &= np.isin(left << 32 | right, banned, invert=True)
        if self.options.max_token_length is None:
            return good, ~good
        lengths = np.array(self.lengths)
        fits = lengths[left] + lengths[right] <= self.options.max_token_length
        return good & fits, ~good & fits

    def allowed(self, left: Int64, right: Int64) -> Bool:
        """Which of these pairs may merge."""
        return self.judged(left, right)[0]

    def labels(self) -> Int64:
        """For each token a number that sorts as the tie rule does; those of two moments cannot be compared."""
        return self.ties.labels(self.tokens)

    def spelled(self, left: int, right: int) -> bytes:
        """The bytes that two tokens make."""
        return self.tokens[left] + self.tokens[right]

    def is_blocked(self, left: int, right: int) -> bool:
        """Whether the caller does not want what two tokens make."""
        return bool(self.options.blocked) and self.spelled(left, right) in self.options.blocked

    def commit(
        self, pairs: Sequence[tuple[int, int]], made: Sequence[int], *, whole_round: bool = False
    ) -> tuple[Int64, list[Deletion]]:
        """Ids for merges in order, each made so often, and the deletions they lead to; up to the first that changes
        pairs of old tokens, unless it is a `whole_round`."""
        ids: list[int] = []
        deleted: list[Deletion] = []
        for (left, right), times in zip(pairs, made, strict=False):
            known = self.known.get(self.spelled(left, right))
            ids.append(self.next_id if known is None else known)
            self._take_merge(left, right, ids[-1])
            gone = [] if self.lives is None else self.lives.merge(left, right, ids[-1], times, len(ids))
            deleted += gone
            if not whole_round and (known is not None or any(one.n for one in gone)):
                break
        return np.array(ids, np.int64), deleted

    def _take_merge(self, left: int, right: int, number: int) -> None:
        """A merge gives the next new token, or one that is known."""
        if number == self.next_id:
            token = self.spelled(left, right)
            self.tokens.append(token)
            self.known[token] = number
            self.lengths.append(self.lengths[left] + self.lengths[right])
            if self.lives is not None:
                self.lives.born(left, right)
        elif self.lives is not None:
            self.lives.dead.discard(number)
        if self.rule is not None:
            self.rule.born(left, right, number)

    def take(self, events: Iterable[Event], vetoed: Iterable[Veto] = ()) -> None:
        """Take over what was learned elsewhere. How often tokens stand then is told by the words, or by the learner
        (`take_counts`)."""
        self.banned.update((left, right) for left, right, _ in vetoed)
        for event in events:
            if event.op is not Op.DELETE:
                self._take_merge(*event.pair, event.id)
            elif self.lives is not None:
                self.lives.dead.add(event.id)

    # ------------------------------------------------------------------ the learner in memory

    def learner(self, limit: int, at_least: int, *, stage: bool) -> Learner:
        """A learner that knows all this. `stage`: its words are chains, which stay in their order, and splitting tokens
        is left to the caller."""
        ties, order, falling = self.ties.for_learner()
        options, lives = self.options, self.lives
        by_kind = self.rule if isinstance(self.rule, WholeCharacterRule) else None
        tau = Fraction(0) if lives is None else lives.rule.tau
        rule = structs.replace(
            ties,
            disjoint=self.disjoint,
            asks=self.rule is not None and by_kind is None,
            lives=lives is not None,
            walk=lives is not None and lives.rule.to == "walk",
            after=lives is not None and lives.rule.test == "after",
            numerator=tau.numerator,
            denominator=tau.denominator,
            longest=options.max_token_length or 0,
            at_least=at_least,
            first_id=self.first_id,
            splits=lives is not None and not stage,
            keeps=stage,
            most_hot=options.hot_pairs or (MOST_HOT if options.floor_ratio else 0),
            ratio=options.floor_ratio or FLOOR_RATIO,
        )
        tables = kinds = None
        if by_kind is not None:
            tables, kinds = (by_kind.tables.allowed, by_kind.tables.merged), by_kind.kinds(self.next_id)
        learner = Learner(rule, limit, tables, falling)
        learned = None if lives is None else (lives.count[self.first_id :], lives.first_pair, lives.alive())
        learner.add_tokens(self.tokens, np.array(self.lengths), order, learned, kinds)
        if options.batch != "paper":  # a round of BatchBPE is judged as a whole
            learner.block(options.blocked)
        for left, right in sorted(self.banned):
            learner.answer(left, right, allowed=False)
        return learner

    def take_counts(self, learner: Learner) -> None:
        """Take over from the learner how often tokens stand now."""
        if self.lives is not None:
            self.lives.count[self.first_id :] = learner.token_counts()
