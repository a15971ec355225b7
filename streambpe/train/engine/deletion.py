"""Which tokens a merge made superfluous, and what becomes of them (PickyBPE).

After the merge (a, b) -> ab each operand is asked whether it was hardly more than a stage on the way: of its
occurrences, which share went into ab (IoS, intersection over self)? With tau 0.9:

    k i n g 91, k i n 9     kin occurs 100 times, 91 are merged into king: 91/100 >= 0.9
                            kin is deleted; the 9 others become k i n, or ki n if ki is alive and --delete-to walk

All that is decided here needs counts alone, so it costs a few Python steps per merge and no look at the words:
a token's count starts at 0, grows by the merges that make it, and falls by those that use it. The words are
rewritten by the column, and only when a deleted token still stands somewhere (n > 0).

    before (default)  merged / count before the merge >= tau, both operands by the counts before (fastboundlessbpe)
    after             merged / (count left + merged)  >  tau, the right one after the left one's deletion (PickyBPE)

Shares are compared as Python integers, merged * den >= num * count, with tau as an exact decimal fraction.
Base symbols and stop words have ids below `first_id`; they are never asked.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import msgspec

from streambpe.core.learner import Deletion


class Deletions(msgspec.Struct, frozen=True):
    """The rule; see the module."""

    tau: Fraction
    to: Literal["bytes", "walk"] = "bytes"  # base symbols, or back along first pairs to tokens that are alive
    test: Literal["before", "after"] = "before"


class LivingTokens:
    """Learned tokens: how often each stands in the words, which pair first made it, and which are dead.

    Memory: about 120 bytes per token.
    """

    def __init__(self, rule: Deletions, first_id: int) -> None:
        self.rule = rule
        self.first_id = first_id
        self.count = [0] * first_id  # by id; what stands here of base symbols means nothing
        self.first_pair: list[tuple[int, int]] = []
        self.dead: set[int] = set()  # a token that is learned again, under its old id, leaves it

    def born(self, left: int, right: int) -> None:
        """A new token, the next id."""
        self.first_pair.append((left, right))
        self.count.append(0)

    def alive(self) -> list[bool]:
        """Of each token, whether it is alive."""
        return [number not in self.dead for number in range(self.first_id, len(self.count))]

    def merge(self, left: int, right: int, new: int, merged: int, after: int) -> list[Deletion]:
        """Count a merge that was made `merged` times; returns the deletions it causes, in their order."""
        count, rule = self.count, self.rule
        operands = (left,) if left == right else (left, right)
        before = [count[t] for t in operands]
        count[new] += merged
        for t in (left, right):
            count[t] -= merged
        deleted = []
        numerator, denominator = rule.tau.numerator, rule.tau.denominator
        for t, counted in zip(operands, before, strict=True):
            if t < self.first_id:
                continue
            if rule.test == "before":
                superfluous = merged * denominator >= numerator * counted
            else:
                superfluous = merged * denominator > numerator * (count[t] + merged)
            if superfluous:
                deleted.append(self._delete(t, after))
        return deleted

    def _delete(self, number: int, after: int) -> Deletion:
        self.dead.add(number)
        into = self.parts(number)
        n = self.count[number]
        self.count[number] = 0
        for part in into:
            self.count[part] += n
        return Deletion(after, number, into, n)

    def parts(self, number: int) -> tuple[int, ...]:
        """What a token that just died is split into."""
        first, walk = self.first_id, self.rule.to == "walk"
        parts: list[int] = []
        stack = [number]
        while stack:
            part = stack.pop()
            if part < first or (walk and part not in self.dead):
                parts.append(part)
            else:
                left, right = self.first_pair[part - first]
                stack += (right, left)
        return tuple(parts)
