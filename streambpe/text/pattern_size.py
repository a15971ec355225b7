"""Whether an expression can be compiled at all: the `regex` module writes out what has to repeat, however often.

`.{1000000}` takes a second and a half; `(?:.{1000}){1000000}` all memory, and no signal stops it.
"""

from __future__ import annotations

import regex

MOST_REPEATED = 10_000_000  # characters that have to stand there
_TOKEN = regex.compile(r"(?s)\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.")


def least_length(expression: str) -> int:
    """About how many characters a match has at least, repetitions multiplied out; never less where it is large.

    least_length(r"(a{1000}|b){50}c")  ->  50001
    """
    outer: list[tuple[int, int]] = []  # of the groups around: length so far, best of the alternatives before
    length = best = last = 0
    for token in _TOKEN.finditer(expression):
        text = token[0]
        if text == "(":
            outer.append((length, best))
            length = best = last = 0
        elif text == ")" and outer:
            last = max(length, best)
            length, best = outer.pop()
            length += last
        elif text == "|":
            length, best, last = 0, max(length, best), 0
        elif token[1] is not None:
            length += last * (int(token[1]) - 1)
            last *= int(token[1])
        elif text in "*?":
            length, last = length - last, 0
        elif text != "+":
            length, last = length + 1, 1
    return max(length, best)
