"""Learning in memory: the compiled loop, called with numpy arrays (learn.h says how it works).

learner = Learner(Rule(at_least=2, first_id=256), limit=1 << 30)
learner.add_tokens(contents, lengths)
learner.add_words(words)
learned = learner.learn(merges=1000, enough=32_000)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import structs

from streambpe.arrays import Int32, Int64
from streambpe.core.binding import CoreObject, completed, library, structure, succeeded
from streambpe.core.binding import NoRoom as NoRoom

DONE, NONE_LEFT, ASK, OUT, LIVING, UNFIT = range(6)
FULL = -1
MOST_HOT = 1 << 20
FLOOR_RATIO = 128
TIES_IDS, TIES_BYTES, TIES_PLACES = range(3)
_ALLOWED = 4
_SYMBOLS = 1 << 20  # that are taken out at a time
_NO_LIMIT = 2**62
Kinds = tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]


class Rule(msgspec.Struct, frozen=True):
    """What decides the next merge, as learn_rule in learn.h has it. numerator / denominator is tau, each below 2^63."""

    ties: int = TIES_IDS
    disjoint: bool = False
    asks: bool = False  # the caller says which pairs may merge
    lives: bool = False  # tokens may be deleted
    walk: bool = False
    after: bool = False
    numerator: int = 0
    denominator: int = 1
    longest: int = 0  # length of a token at most; 0: no limit
    at_least: int = 1
    first_id: int = 0  # of the first learned token
    place: int = 0  # TIES_PLACES: word steps taken so far
    born: int = 0  # TIES_PLACES: superwords made so far
    splits: bool = False  # deleted tokens are split here, not by the caller
    keeps: bool = False  # words are chains of a stage: none is dropped, and a merge that makes a living token ends the
    # call even with deletions
    most_hot: int = 0  # pairs in the index, about; 0: by how many tokens are wanted
    ratio: int = FLOOR_RATIO  # the index reaches down to the best count divided by this


class Deletion(NamedTuple):
    """One token taken back after so many merges (of a call, of a batch, or of a whole training); n occurrences are
    split."""

    after: int
    id: int
    into: tuple[int, ...]
    n: int


class Learned(msgspec.Struct):
    """What one call did, in order, and why it ended: DONE, NONE_LEFT, ASK, LIVING, UNFIT or FULL."""

    why: int
    left: Int64
    right: Int64
    id: Int64
    n: Int64
    deleted: list[Deletion] = msgspec.field(default_factory=list)


class Figures(NamedTuple):
    """What `learner_told` in learn.c tells."""

    bytes: int
    most_bytes: int
    places: int
    words: int
    floor: int
    hot: int
    looked: int
    executed: int
    refills: int
    pending: int
    next_id: int
    dead: int
    made: int  # tokens by weight, two of which each merge made one


def _longs(values: Any) -> Int64:
    return np.ascontiguousarray(values, dtype=np.int64)


class Learner(CoreObject):
    """Words and tokens in at most `limit` bytes; NoRoom if that is not enough."""

    def __init__(self, rule: Rule, limit: int, kinds: Kinds | None = None, falling: Int64 | None = None) -> None:
        """`kinds`: of tokens, which two may merge, and the kind they make. `falling`: for TIES_PLACES, for each word
        step the lowest count of any step up to it."""
        self.rule = rule
        tables = () if kinds is None else tuple(np.ascontiguousarray(table, np.uint8) for table in kinds)
        steps = _longs(() if falling is None else falling)
        self._arrays = *tables, steps  # the core reads them where they are
        known = (len(tables[0]), *tables) if tables else (0, 0, 0)
        numbers = structure(*structs.astuple(rule), *known, len(steps), steps)
        super().__init__("learner", "a learner", limit, numbers)
        self._out, self._gone = np.empty((1 << 12, 4), np.int64), np.empty(1 << 12, np.int64)  # merges, deletions
        self._told = np.empty(2, np.int64)  # how many merges, and numbers of deletions

    # ------------------------------------------------------------------ what it starts from

    def add_tokens(
        self,
        contents: Sequence[bytes | None],
        lengths: Int64,
        order: Int64 | None = None,
        lives: tuple[Sequence[int], Sequence[tuple[int, int]], Sequence[bool]] | None = None,
        kinds: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """All tokens known so far, base symbols first. `order`: for TIES_PLACES; `lives`: how often each learned token
        stands, the pair that first made it, whether it is alive; `kinds`: the kind of each."""
        text = np.frombuffer(b"".join(content or b"" for content in contents) + b"\0", np.uint8)
        sizes = np.fromiter((len(content or b"") for content in contents), np.uint64, len(contents))
        ends = np.cumsum(sizes, dtype=np.uint64)
        count, first, alive = lives if lives is not None else ((), (), ())
        arrays = (
            _longs(lengths[: len(contents)]),
            None if order is None else _longs(order[: len(contents)]),
            _longs(list(count)),
            _longs(list(first)),
            np.array(alive, np.uint8),
            None if kinds is None else np.ascontiguousarray(kinds[: len(contents)]),
        )
        completed(library().learner_tokens(self.handle, len(contents), text, ends, *arrays))

    def block(self, contents: Iterable[bytes]) -> None:
        """Never learn these tokens: when a pair that would make one is the best, learning stops with ASK."""
        for content in sorted(contents):
            if content:
                completed(library().learner_block(self.handle, content, len(content)))

    def make_room(self, places: int, words: int) -> None:
        """Make room for so many words with so many places: one for each symbol, or for each of its base symbols."""
        completed(library().learner_room(self.handle, places, words))

    def add_words(self, symbols: Int32, offsets: Int64, weights: Int64, shortest: int) -> None:
        """Add words symbols[offsets[i]:offsets[i + 1]] (offsets[0] need not be 0) of at least `shortest` symbols."""
        symbols = np.ascontiguousarray(symbols[int(offsets[0]) : int(offsets[-1])], np.int32)
        offsets, weights = _longs(offsets), _longs(weights)
        completed(library().learner_words(self.handle, len(weights), symbols, offsets, weights, shortest))

    # ------------------------------------------------------------------ learning

    def learn(self, merges: int, enough: int, work: int = _NO_LIMIT, *, first: int = 0, least: int = 0) -> Learned:
        """Make at most so many merges, until `enough` learned tokens are alive or `work` places were looked at. The
        first merge counts at least `first`, the others at least `least`."""
        asked = merges, enough, work, first, least
        while True:
            buffers = self._out, self._out.size, self._gone, len(self._gone), self._told
            code = library().learner_learn(self.handle, *asked, *buffers)
            if code != OUT or self._told[0]:
                return self._decoded(code)
            self._gone = np.empty(2 * len(self._gone), np.int64)  # until the parts of two tokens have room

    def apply(self, pairs: Int64, at_most: int) -> Learned:
        """Merge known pairs (rows of left, right), none of which counts less than `at_most`, in this order. All are
        found before the first is merged, and told with their counts from before it. Of a pair that is nowhere in the
        words only the token is made."""
        pairs = _longs(pairs)
        heads = np.empty(len(pairs), np.uint32)
        if len(self._out) < len(pairs):
            self._out = np.empty((len(pairs), 4), np.int64)
        code = library().learner_apply(self.handle, pairs, len(pairs), at_most, heads, self._out, self._told)
        return self._decoded(code)

    def _decoded(self, code: int) -> Learned:
        succeeded(code)
        made, used = self._told.tolist()
        numbers, at = self._gone[:used].tolist(), 0
        deleted = []
        while at < used:
            after, gone, times, many = numbers[at : at + 4]
            at += 4 + many
            deleted.append(Deletion(after, gone, tuple(numbers[at - many : at]), times))
        left, right, new, n = self._out[:made].T.copy()
        return Learned(DONE if code == OUT else code, left, right, new, n, deleted)

    def best(self, most: int, force: bool) -> tuple[Int64, Int64, Int64, npt.NDArray[np.bool_]]:
        """(left, right, count, known to be allowed) of the best pairs, best first. `force`: fewer than `most` only if
        there are no more; without it, only pairs in the index."""
        out = np.empty((most, 4), np.int64)
        found = completed(library().learner_best(self.handle, most, force, out))
        return out[:found, 0], out[:found, 1], out[:found, 2], (out[:found, 3] & _ALLOWED) != 0

    def answer(self, left: int, right: int, allowed: bool) -> None:
        """Tell whether a pair may merge, once and for all."""
        completed(library().learner_answer(self.handle, left, right, allowed))

    # ------------------------------------------------------------------ what there is

    @property
    def figures(self) -> Figures:
        """Memory, sizes, and what was done so far."""
        told = np.empty(len(Figures._fields), np.int64)
        library().learner_told(self.handle, told)
        return Figures(*told.tolist())

    def hot(self) -> tuple[Int64, Int64, Int64]:
        """(left, right, count) of every pair that counts at least figures.floor, but for forbidden and refused ones."""
        out = np.empty((completed(library().learner_hot(self.handle, 0, None)), 3), np.int64)
        completed(library().learner_hot(self.handle, len(out), out))
        return out[:, 0], out[:, 1], out[:, 2]

    def token_counts(self) -> list[int]:
        """How often each learned token stands, with deletions."""
        count = np.empty(self.figures.next_id - self.rule.first_id, np.int64)
        library().learner_token_counts(self.handle, count)
        return count.tolist()

    def words(self) -> Iterator[tuple[Int32, Int64, Int64]]:
        """The words as they are now, about a million symbols at a time: (symbols, offsets, weights)."""
        room, at = _SYMBOLS, 0
        while True:
            symbols = np.empty(room, np.int32)
            offsets, weights = np.empty(_SYMBOLS + 1, np.int64), np.empty(_SYMBOLS, np.int64)
            told = np.zeros(3, np.int64)
            longest = library().learner_take(self.handle, at, room, _SYMBOLS, symbols, offsets, weights, told)
            if longest:
                room = int(longest)
                continue
            many, words, at = told.tolist()
            yield symbols[:many].copy(), offsets[: words + 1].copy(), weights[:words].copy()
            if not at:
                return
