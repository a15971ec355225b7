"""Which token is which, and which are alive: the bookkeeping of log ids.

A token *is* its base symbols. A log id is given at first birth and never reused or
renumbered: the base alphabet, then the stop words, then tokens in the order they were first
learned. A deleted token keeps its number and has it back if it is learned again.

    v = Vocabulary(bytes_alphabet())
    v.learn(97, 98)  -> 256        b"ab" is born; v.size is 257
    v.learn(256, 99) -> 257        b"abc"
    v.delete(256)                  b"ab" is dead; v.size is 257 again
    v.learn(97, 98)  -> 256        b"ab" is back under its number, but is now the youngest
    list(v.living)[-2:] -> [257, 256]   living ids by latest birth

Stop words are whole chunks with an id. They are not learned tokens: a merge that spells the
same bytes makes a token of its own, because the stop word must never enter a merge.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streambpe.model.alphabet import Alphabet


class Token(msgspec.Struct, frozen=True, gc=False):
    """A log id with what it stands for. Python's garbage collector does not look at it: there are as many as ids."""

    id: int
    base: tuple[int, ...]  # log ids of its base symbols
    content: bytes  # their contents joined


class Vocabulary:
    """Tokens by log id. Cost: O(token length) per operation; memory: every token ever born."""

    def __init__(self, alphabet: Alphabet, stop_words: Sequence[bytes] = ()) -> None:
        self.alphabet = alphabet
        self.first_id = alphabet.first_id
        known = enumerate((*alphabet.symbols, *stop_words), self.first_id)
        self.tokens = [Token(number, (number,), content) for number, content in known]
        self.stop_ids = {token.content: token.id for token in self.tokens[len(alphabet) :]}
        # base symbols -> log id, for symbols and learned tokens; a stop word never enters a merge
        self.id_of = {token.base: token.id for token in self.tokens[: len(alphabet)]}
        self.first_pair: dict[int, tuple[int, int]] = {}  # log id -> the pair that first made it
        self.living = dict.fromkeys(token.id for token in self.tokens)  # log ids, oldest latest-birth first

    def __getitem__(self, number: int) -> Token:
        if number < self.first_id:
            raise KeyError(f"log id {number} does not exist; the first is {self.first_id}")
        return self.tokens[number - self.first_id]

    @property
    def size(self) -> int:
        """Living tokens: base symbols, stop words and what was learned and not deleted."""
        return len(self.living)

    def learn(self, left: int, right: int) -> int:
        """The id of left + right: a new one, its old one back, or a living token's own."""
        tokens, first = self.tokens, self.first_id
        a = tokens[left - first] if left >= first else self[left]
        b = tokens[right - first] if right >= first else self[right]
        base = a.base + b.base
        number = self.id_of.get(base)
        if number is None:
            number = first + len(tokens)
            tokens.append(Token(number, base, a.content + b.content))
            self.id_of[base] = number
            self.first_pair[number] = (left, right)
        # Setting a key that is there keeps its place: a living token does not get younger.
        self.living[number] = None
        return number

    def delete(self, number: int) -> None:
        """Take a learned token out of the living; deleting a dead one changes nothing."""
        if len(self[number].base) == 1:
            raise ValueError(f"log id {number} is a base symbol or a stop word; those are never deleted")
        self.living.pop(number, None)
