"""Merges and supermerges in one order, and what that order means for ties.

Both lists are known by count: the word steps of phase one, and the supermerges as the engine learns them.
At each step the supermerge is taken if it counts strictly more than the next word step, else the word step:

    word steps    " the" 90 · " of" 80 · "in" 7 ...
    supermerges   " of the" 30 · " of the end" 9 ...
    one order     " the" 90, " of" 80, " of the" 30, " of the end" 9, "in" 7 ...

A superword's id is its place in this order, so between equal counts a word token may come before a superword
although it was numbered long after it, or the other way round. `InterleavedTies` gives that order as labels to the
engine, which knows only symbols: a chunk's symbol has the place of its word step; a superword that was chosen by count
n stands behind all word steps that count at least n, and behind the superwords before it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from streambpe.arrays import Int64
from streambpe.core.learner import TIES_PLACES, Rule
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, Op, delete_event, merge_event, supermerge_event
from streambpe.model.replay import steps
from streambpe.train.engine.ties import TieOrder

_STEP = 32  # bits below a word step's place, for the superwords between it and the next
_SUPER = 1 << 31  # superwords stand in the upper half of a step, the alphabet in the lower half of the first


class InterleavedTies(TieOrder):
    """Ties by ids of the interleaved order, for symbols that are chunks and superwords.

    born[symbol]: the word step that made the chunk's token, -1 for a base symbol; chunk symbols are in the order
    of their log ids. word_counts: the counts of the word steps, in order.
    """

    def __init__(self, born: Sequence[int], word_counts: Int64) -> None:
        super().__init__("ids")
        steps = np.array(born, np.int64)
        self._label = array("q", np.where(steps < 0, np.arange(len(steps)), (steps + 1) << _STEP).tobytes())
        self._place = 0  # word steps taken before the last supermerge
        self._born = 0  # superwords so far
        # the first step that counts less than n is the first whose running minimum does
        self._falling = -np.minimum.accumulate(word_counts)

    def labels(self, tokens: Sequence[bytes]) -> Int64:
        """See TieOrder."""
        return np.array(self._label)

    def for_learner(self) -> tuple[Rule, Int64 | None, Int64 | None]:
        """The order as it stands now."""
        return Rule(ties=TIES_PLACES, place=self._place, born=self._born), np.array(self._label), -self._falling

    def placed(self, ids: Int64, count: Int64) -> None:
        """Note that these were chosen, in this order, with these counts."""
        steps = np.maximum(self._place, np.searchsorted(self._falling, -count, side="right"))
        for number, self._place in zip(ids.tolist(), np.maximum.accumulate(steps).tolist(), strict=True):
            label = (self._place << _STEP) + _SUPER + self._born
            if number == len(self._label):
                self._label.append(label)
                self._born += 1
            elif label < self._label[number]:  # it spells a chunk whose word step is still to come
                self._label[number] = label
                self._born += 1


class Interleaved(msgspec.Struct):
    """The one order."""

    events: list[Event] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)  # the place of each word event among the events
    ahead: list[Event] = msgspec.field(default_factory=list)  # word events that found no place, as if they came next
    renumbered: dict[int, int] = msgspec.field(default_factory=dict)  # ids of phase one -> of this order


def interleave(
    base: Alphabet,
    stop_words: int,
    words: Sequence[Event],
    next_supermerge: Callable[[int, int, int], tuple[bytes, bytes, int] | None],
    target: int,
    *,
    least: int,
    kind: str,
) -> Interleaved:
    """Take word steps and supermerges until `target` tokens are alive or nothing is left.

    A token is its bytes: a step that spells a token which exists uses its id, and adds nothing or brings the token
    back. A word step is a merge with its deletions. kind: --superwords; all word steps come before the first supermerge
    unless it is boundless, and a supermerge of uw is a merge in the log. next_supermerge: see SuperwordPhase.
    """
    words_first, joined_event = kind != "boundless", merge_event if kind == "uw" else supermerge_event
    made = Interleaved()
    word_content = dict(enumerate(base.symbols, base.first_id))
    id_of = {symbol: number for number, symbol in word_content.items()}
    made.renumbered = {number: number for number in word_content}
    next_id = first_learned = base.first_id + len(base) + stop_words
    alive: set[int] = set()

    def number(content: bytes) -> int:
        nonlocal next_id
        found = id_of.get(content)
        if found is None:
            found = id_of[content] = next_id
            next_id += 1
        if found >= first_learned:
            alive.add(found)
        return found

    def word_event(word: Event) -> Event:
        if word.op is Op.DELETE:
            alive.discard(made.renumbered[word.id])
            return delete_event(made.renumbered[word.id], [made.renumbered[part] for part in word.into], word.n)
        left, right = (word_content[part] for part in word.pair)
        content = word_content[word.id] = left + right
        made.renumbered[word.id] = number(content)
        return merge_event(id_of[left], id_of[right], made.renumbered[word.id], word.n)

    waiting = deque(steps(words))
    many = len(waiting)
    while len(alive) < target or (words_first and waiting):
        word = waiting[0][0] if waiting else None
        found = None
        if word is None or not words_first:
            at_least = max(least, 0 if word is None else word.n + 1)
            found = next_supermerge(at_least, target - len(alive), many - len(waiting))
        if found is not None:
            left, right, n = found
            made.events.append(joined_event(id_of[left], id_of[right], number(left + right), n))
        elif word is not None:
            for event in waiting.popleft():
                made.places.append(len(made.events))
                made.events.append(word_event(event))
        else:
            break
    made.ahead = [word_event(event) for step in waiting for event in step]
    return made
