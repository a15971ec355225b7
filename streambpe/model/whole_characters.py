"""--whole-characters as array work: which pairs may merge so that characters are completed first.

    UTF-8 é is c3 a9:      c3 + a9 yes       " " + c3 no: half a character       a9 + "b" no
    SCRIPT é is 1550 95:   1550 + 95 yes     95 + 1550 no                         é + é yes

Every token has a *state*, a small number. Whether a pair may merge, and the state of the token it makes,
are look-ups in two tables over states, so millions of candidate pairs are tested at once:

    rule = whole_characters(alphabet)
    state = rule.base_states                        uint8, one per base symbol, in id order
    ok = rule.allowed[state[left], state[right]]    bool, one per candidate pair
    state[new] = rule.merged[state[left], state[right]]

State of a byte string w:  (min(|w|, 5), kind of its first byte, min(number of lead bytes in w, 2))

where a lead byte is any that does not continue a character (ASCII too) and its kind is the length it
declares (1 to 4), or "continuing". The rule asks only four things of w: is it longer than 4 bytes, does it begin with
a continuing byte, has it two leads or more, is its length the one that its first byte declares? The state
answers all four: lengths beyond 4 and leads beyond 1 need not be told apart.

Closed under merging: |vw| = |v| + |w| and leads add up, and min(a + b, c) = min(min(a, c) + min(b, c), c);
the first byte of vw is that of v. So state(vw) = merged(state(v), state(w)) for *any* v and w, not only for
pairs that may merge: 5 * 5 * 3 = 75 states.

State of a SCRIPT token w: INDEX (one index symbol), BLOCK (one block symbol), the byte state of its bytes
if all of w are escape symbols, else WHOLE. BLOCK + INDEX may merge, escapes by the byte rule,
and two tokens if neither is just a part of a character. Concatenation: escapes with escapes are escapes; everything
else has two symbols or more that are not all escapes, hence WHOLE. 3 + 75 states.

For characters as symbols every token is whole: one state.
"""

from __future__ import annotations

import functools

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.model.alphabet import Alphabet
from streambpe.model.script import FIRST_BLOCK, FIRST_ESCAPE

States = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer]

_CONTINUING = 0  # kind of a first byte; else the length it declares
_BYTE_STATES = 75
INDEX, BLOCK, WHOLE = _BYTE_STATES, _BYTE_STATES + 1, _BYTE_STATES + 2
_SCRIPT_STATES = _BYTE_STATES + 3


class WholeCharacters(msgspec.Struct, frozen=True):
    """The rule for one alphabet: the states of its symbols, and what holds for two states."""

    base_states: States  # of symbol number i, whose id is first_id + i
    allowed: Mask  # [left state, right state]: may the two merge
    merged: States  # [left state, right state]: the state of what they make

    def state(self, base: npt.ArrayLike, first_id: int) -> int:
        """The state of a token from the ids of its base symbols; for tokens that were not made by `merged`."""
        numbers = np.asarray(base, np.int64) - first_id
        found = int(self.base_states[numbers[0]])
        for number in numbers[1:]:
            found = int(self.merged[found, self.base_states[number]])
        return found


def whole_characters(alphabet: Alphabet) -> WholeCharacters:
    """The rule for bytes (any order of them), SCRIPT symbols or characters."""
    if alphabet.kind == "script":
        return _script_rule(alphabet)
    if alphabet.kind == "chars":
        none = np.zeros((1, 1), np.uint8)
        return WholeCharacters(np.zeros(len(alphabet), np.uint8), np.ones((1, 1), np.bool_), none)
    allowed, merged, _ = _byte_tables()
    bytes_of = np.array([symbol[0] for symbol in alphabet.symbols], np.intp)
    return WholeCharacters(_states_of_bytes()[bytes_of], allowed, merged)


def _code(length: int, kind: int, leads: int) -> int:
    return (length - 1) * 15 + kind * 3 + leads


@functools.cache
def _states_of_bytes() -> States:
    kinds = [
        _CONTINUING if 0x80 <= byte < 0xC0 else 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        for byte in range(256)
    ]
    return np.array([_code(1, kind, int(kind != _CONTINUING)) for kind in kinds], np.uint8)


@functools.cache
def _byte_tables() -> tuple[Mask, States, Mask]:
    """(allowed, merged, whole) over the 75 states of byte strings."""
    parts = [(length, kind, leads) for length in range(1, 6) for kind in range(5) for leads in range(3)]
    merged = np.array(
        [[_code(min(a + b, 5), kind, min(m + n, 2)) for b, _, n in parts] for a, kind, m in parts], np.uint8
    )
    whole = np.array([_is_whole(*part) for part in parts])
    continuing = np.array([kind == _CONTINUING for _, kind, _ in parts])
    both_whole = whole[:, None] & whole
    grows = (~whole & ~continuing)[:, None] & (~whole & continuing)
    return both_whole | grows, merged, whole


def _is_whole(length: int, kind: int, leads: int) -> bool:
    if length > 4:
        return True
    if kind == _CONTINUING:
        return False
    return leads > 1 or length == kind


def _script_rule(alphabet: Alphabet) -> WholeCharacters:
    escape_allowed, escape_merged, escape_whole = _byte_tables()
    merged = np.full((_SCRIPT_STATES, _SCRIPT_STATES), WHOLE, np.uint8)
    merged[:_BYTE_STATES, :_BYTE_STATES] = escape_merged
    whole = np.append(escape_whole, [False, False, True])
    allowed = whole[:, None] & whole
    allowed[:_BYTE_STATES, :_BYTE_STATES] = escape_allowed
    # two blocks never stand side by side in text; the published rule asks only that the left be a block
    allowed[BLOCK, [INDEX, BLOCK]] = True
    ids = alphabet.first_id + np.arange(len(alphabet))
    states = np.where(ids < FIRST_BLOCK, INDEX, BLOCK).astype(np.uint8)
    escapes = ids >= FIRST_ESCAPE
    states[escapes] = _states_of_bytes()[ids[escapes] - FIRST_ESCAPE]
    return WholeCharacters(states, allowed, merged)
