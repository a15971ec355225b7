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
"""

from __future__ import annotations

import functools

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.arrays import Bool, Int64
from streambpe.model.alphabet import Alphabet
from streambpe.model.script import FIRST_BLOCK, FIRST_ESCAPE

States = npt.NDArray[np.uint8]

_CONTINUING = 0  # kind of a first byte; else the length it declares
_BYTE_STATES = 75
INDEX, BLOCK, WHOLE = _BYTE_STATES, _BYTE_STATES + 1, _BYTE_STATES + 2


class WholeCharacters(msgspec.Struct, frozen=True):
    """The rule for one alphabet: the states of its symbols, and what holds for two states."""

    base_states: States  # of symbol number i, whose id is first_id + i
    allowed: Bool  # [left state, right state]: may the two merge
    merged: States  # [left state, right state]: the state of what they make


def whole_characters(alphabet: Alphabet) -> WholeCharacters:
    """The rule for bytes (any order of them), SCRIPT symbols or characters."""
    if alphabet.kind == "script":
        ids = alphabet.first_id + np.arange(len(alphabet))
        states = np.where(ids < FIRST_BLOCK, INDEX, BLOCK).astype(np.uint8)
        states[ids >= FIRST_ESCAPE] = _states_of_bytes()[: np.count_nonzero(ids >= FIRST_ESCAPE)]
    elif alphabet.kind == "chars":
        states = np.full(len(alphabet), WHOLE, np.uint8)
    else:
        states = _states_of_bytes()[[symbol[0] for symbol in alphabet.symbols]]
    return WholeCharacters(states, *_tables())


def _code(length: Int64 | int, kind: Int64, leads: Int64) -> States:
    return ((length - 1) * 15 + kind * 3 + leads).astype(np.uint8)


def _states_of_bytes() -> States:
    kinds = np.repeat([1, _CONTINUING, 2, 3, 4], [0x80, 0x40, 0x20, 0x10, 0x10])
    return _code(1, kinds, np.minimum(kinds, 1))


@functools.cache
def _tables() -> tuple[Bool, States]:
    """(allowed, merged) over all states."""
    length, kind, leads = np.indices((5, 5, 3)).reshape(3, -1) + np.array([[1], [0], [0]])
    merged = np.full((WHOLE + 1, WHOLE + 1), WHOLE, np.uint8)
    merged[:_BYTE_STATES, :_BYTE_STATES] = _code(
        np.minimum(length[:, None] + length, 5), kind[:, None], np.minimum(leads[:, None] + leads, 2)
    )
    part = (length < 5) & ((kind == _CONTINUING) | (leads < 2) & (length != kind))
    whole = np.append(~part, [False, False, True])
    allowed = whole[:, None] & whole
    allowed[:_BYTE_STATES, :_BYTE_STATES] |= (part & (kind != _CONTINUING))[:, None] & part & (kind == _CONTINUING)
    # two blocks never stand side by side in text; the published rule asks only that the left be a block
    allowed[BLOCK, [INDEX, BLOCK]] = True
    return allowed, merged
