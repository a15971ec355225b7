"""--whole-characters while learning: which pairs the engine may merge, by a state it keeps for every token.

The rule itself is model/whole_characters.py. Cost: one byte per token and two look-ups per pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event
from streambpe.model.whole_characters import States, whole_characters


class WholeCharacterRule:
    """A PairRule (train/engine/rules.py). `first_id`: the id of the first learned token; ids before it that are no
    symbol of the alphabet (stop words) stand in no pair, or are tokens of `words`, from which learning goes on."""

    def __init__(self, alphabet: Alphabet, first_id: int, words: Sequence[Event] = ()) -> None:
        self.tables = whole_characters(alphabet)
        state = np.zeros(first_id, np.uint8)
        state[alphabet.first_id : alphabet.first_id + len(alphabet)] = self.tables.base_states
        self._state = bytearray(state)
        for event in words:
            self.born(*event.pair, event.id)

    def kinds(self, tokens: int) -> States:
        """The state of each of so many tokens."""
        return np.array(self._state.ljust(tokens, b"\0"))[:tokens]

    def allows(self, left: Int64, right: Int64) -> Bool:
        """See PairRule."""
        state = np.array(self._state)
        allowed: Bool = self.tables.allowed[state[left], state[right]]
        return allowed

    def born(self, left: int, right: int, new: int) -> None:
        """See PairRule."""
        self._state.extend(bytes(max(0, new + 1 - len(self._state))))
        self._state[new] = self.tables.merged[self._state[left], self._state[right]]
