"""Ways to damage the bytes of a file: as disks and careless copies do, and as somebody would who means harm."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

# what readers have stumbled over: numbers at the edges, names of nothing, text that is not text
_ODD_WORDS = (
    b"-1", b"0", b"1e400", b"9223372036854775807", b"18446744073709551616", b"1" * 400, b"null", b"true", b'""', b"{}",
    b"[]", b"[[" * 3000, b'{"a":' * 3000, b"NaN", b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf",
    b"\r\n", b'"', b"'", b",", b"\n\n", "\u2028\u0301\U0010ffff".encode(),
)  # fmt: skip


def flip(data: bytes, chance: random.Random) -> bytes:
    """One bit."""
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return data[: chance.randrange(len(data) + 1)]


def lose(data: bytes, chance: random.Random) -> bytes:
    """A stretch is missing."""
    low, high = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:low] + data[min(high, low + chance.choice((1, 8, 512))) :]


def repeat(data: bytes, chance: random.Random) -> bytes:
    """A stretch stands there twice."""
    low, high = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:high] + data[low:high] + data[high:]


def odd_word(data: bytes, chance: random.Random) -> bytes:
    """Something else in place of a number, a name, or nothing."""
    word = chance.choice(_ODD_WORDS)
    places = [found.span() for found in re.finditer(rb"\d+|\w+", data[: 1 << 16])]
    low, high = chance.choice(places) if places and chance.random() < 0.7 else (chance.randrange(len(data) + 1),) * 2
    return data[:low] + word + data[high:]


def splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A stretch of another file in place of one of this."""
    low, high = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    first, last = sorted(chance.randrange(len(other) + 1) for _ in range(2))
    return data[:low] + other[first:last] + data[min(high, low + 512) :]


def swap_lines(data: bytes, chance: random.Random) -> bytes:
    """Two lines change places."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        one, two = chance.sample(range(len(lines)), 2)
        lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


WAYS: tuple[Damage, ...] = (flip, flip, flip, cut, lose, repeat, odd_word, odd_word, swap_lines)


def damaged(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """The bytes after one to three damages; `others` give what is spliced in."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        if others and chance.random() < 0.15:
            data = splice(data, chance.choice(others), chance)
        else:
            data = chance.choice(WAYS)(data, chance)
    return data


def changed_value(document: Any, chance: random.Random) -> Any:
    """JSON with one value anywhere in it lost, replaced by one of another kind, or by one from another place."""
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        some = list(keys) if len(keys) < 40 else chance.sample(list(keys), 40)
        places.extend((value, key) for key in some)
        for key in some:
            visit(value[key])

    document = json.loads(json.dumps(document))
    visit(document)
    if not places:
        return chance.choice((None, [], {}, 1))
    holder, key = chance.choice(places)
    what = chance.random()
    if what < 0.25:
        del holder[key]
    elif what < 0.8:
        odd = (None, True, -1, 2**31, 2**63, 10**30, 0.5, "", "x", "\ud800", [], [1], {}, {"a": 1}, [[]], "é", " ")
        holder[key] = chance.choice(odd)
    else:
        other, place = chance.choice(places)
        holder[key] = json.loads(json.dumps(other.get(place) if isinstance(other, dict) else other[place : place + 1]))
    return document
