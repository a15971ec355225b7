"""Which tokens may join to a superword, and what they spell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.config import TrainConfig
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event
from streambpe.text.chunker import chunks_of
from streambpe.text.eligible import text_test
from streambpe.text.patterns import Pattern
from streambpe.train.engine.rules import PairRule
from streambpe.train.engine.whole_characters import WholeCharacterRule
from streambpe.train.superwords.runs import OpenChunks


def more_chunks(pattern: Pattern, most: int) -> Callable[[bytes], bool]:
    """Whether the pattern cuts a token's text into more than `most` chunks; half a character counts as one."""
    return lambda content: len(chunks_of(pattern, content.decode(errors="replace"))) > most


class JoinRule:
    """Which symbols may join: --max-superword-words, --forbid, --block-token.

    An eligible chunk is one word, whether it stands in a run or not. Any other symbol has the words of both symbols
    that first made it as a superword: " a b" that phase one learned as a part of " a b!" is no chunk, and counts as
    two.
    """

    def __init__(
        self,
        contents: list[bytes],
        eligible: Sequence[int],
        most: int | None,
        tests: Sequence[Callable[[bytes], bool]],
        whole: WholeCharacterRule | None,
    ) -> None:
        """`tests`: none of them may be true of what two symbols spell. `whole`: must allow them too."""
        self.contents = contents  # of every symbol; grows with the engine's births
        self.most, self.tests, self.whole = most, tests, whole
        self.words = np.zeros(2 * len(contents) + 1024, np.int64)  # 0: no superword made it yet, so it is in no pair
        self.words[list(eligible)] = 1

    def allows(self, left: Int64, right: Int64) -> Bool:
        """One answer for each pair."""
        good = np.ones(len(left), bool) if self.whole is None else self.whole.allows(left, right)
        if self.most is not None:
            good &= self.words[left] + self.words[right] <= self.most
        if self.tests:
            for i in np.flatnonzero(good).tolist():
                content = self.contents[left[i]] + self.contents[right[i]]
                good[i] = not any(test(content) for test in self.tests)
        return good

    def born(self, left: int, right: int, new: int) -> None:
        """See PairRule; a known symbol keeps its number of words."""
        if self.whole is not None:
            self.whole.born(left, right, new)
        if new >= len(self.words):
            self.words = np.concatenate((self.words, np.zeros(len(self.words), np.int64)))
        self.words[new] = self.words[new] or self.words[left] + self.words[right]
        if new == len(self.contents):
            self.contents.append(self.contents[left] + self.contents[right])


def join_rule(
    config: TrainConfig,
    alphabet: Alphabet,
    words: Sequence[Event],
    contents: Sequence[bytes],
    eligible: Sequence[int],
    word_pattern: Pattern,
) -> PairRule | None:
    """Which symbols with these contents a training lets join; None if any two may. eligible: the symbols of chunks that
    may join (any under uw); word_pattern: what words are cut by."""
    tests: list[Callable[[bytes], bool]] = []
    if config.block_tokens:
        tests.append({token.encode() for token in config.block_tokens}.__contains__)
    if config.forbid is not None:
        tests.append(text_test(config.forbid, "--forbid"))
    most = config.max_superword_words
    if most is not None and config.superwords == "uw":  # symbols are no chunks
        tests.append(more_chunks(word_pattern, most))
        most = None
    whole = None
    if config.superwords == "uw" and config.whole_characters:  # elsewhere chunks join, which are whole anyway
        whole = WholeCharacterRule(alphabet, len(contents), words)
    if most is None and not tests:
        return whole
    return JoinRule(list(contents), eligible, most, tests, whole)


class Spellings(msgspec.Struct):
    """What every symbol stands for: its bytes, and the chunks it is made of. See the assumption in runs.py."""

    contents: list[bytes]
    chunks: dict[int, tuple[int, ...]]  # of eligible chunks and superwords
    open_chunks: OpenChunks = msgspec.field(default_factory=OpenChunks)

    def add(self, event: Event) -> bool:
        """Take in a supermerge; returns whether it opens chunks that were not open."""
        left, right = event.pair
        chunks = self.chunks[left] + self.chunks[right]
        if event.id == len(self.contents):
            self.contents.append(self.contents[left] + self.contents[right])
        return self.open_chunks.add(chunks, self.chunks.setdefault(event.id, chunks))
