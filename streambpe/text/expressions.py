r"""A regular expression in tokens: the one place that reads the syntax of the `regex` module.

    tokens(r"a{2}|[$\]]\p{L}$")  ->  a  {2}  |  [$\]]  \p{L}  $

An escape and a class in brackets are one token each, so what looks like syntax inside them is not taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import regex

from streambpe.errors import PatternError

MOST_REPEATED = 10_000_000  # the most characters that a match may be required to have
_TOKEN = regex.compile(
    r"""(?sx)
    (?P<escape> \\[pP]\{[^}]*\} | \\u[0-9a-fA-F]{4} | \\U[0-9a-fA-F]{8} | \\. )
  | (?P<class> \[\^?\]?(?:\\.|[^\]\\])*\] )   # a bracket right behind [ or [^ is an ordinary character
  | (?P<repeat> \{\d+(?:,\d*)?\} )
  | (?P<open> \( ) | (?P<close> \) ) | (?P<bar> \| ) | (?P<end> \$ )
  | (?P<other> . )
    """
)
_CALL = regex.compile(r"\(\?(?:R|\d+|&\w+|P>\w+)\)")


# The tokens of an expression, each with its kind as the name of its group; together they are the expression.
tokens: Callable[[str], Iterator[regex.Match[str]]] = _TOKEN.finditer


def end_of_text(expression: str) -> str:
    r"""`$` outside of escapes and classes becomes `\Z`."""
    return "".join(r"\Z" if token.lastgroup == "end" else token[0] for token in tokens(expression))


def alternatives(expression: str) -> list[str]:
    """The alternatives of an expression at its top level: "a|(b|c)|[|]" -> ["a", "(b|c)", "[|]"]."""
    parts, depth = [""], 0
    for token in tokens(expression):
        depth += {"open": 1, "close": -1}.get(str(token.lastgroup), 0)
        if token.lastgroup == "bar" and not depth:
            parts.append("")
        else:
            parts[-1] += token[0]
    return parts


def refuse_calls(expression: str, what: str) -> None:
    r"""An error for an expression that calls itself or a group: `\((?:[^()]|(?R))*\)`. `what`: how it names it."""
    for token in tokens(expression):
        call = _CALL.match(expression, token.start()) if token.lastgroup == "open" else None
        if call:
            raise PatternError(
                f"{what} calls itself with {call[0][:20]}: how deep that goes, and how much memory it takes, follows "
                f"from the text, and no limit stops it. Nothing was changed. Write it out as deep as it has to go."
            )


def compiled(expression: str, what: str) -> regex.Pattern[str]:
    """An expression of the user's own, compiled; an error if that cannot be done. `what`: how it names it."""
    refuse_calls(expression, what)
    try:
        if least_length(expression) > MOST_REPEATED:
            raise MemoryError
        return regex.compile(expression)
    except (regex.error, OverflowError) as why:
        raise PatternError(f"{what} does not compile: {why}.") from None
    except (RecursionError, MemoryError):
        raise PatternError(
            f"{what} ({len(expression):,} characters) does not compile: brackets nested too deeply, or too large a "
            "repetition."
        ) from None


def least_length(expression: str) -> int:
    """About how many characters a match has at least, repetitions multiplied out; never less where it is large.

    least_length(r"(a{1000}|b){50}c")  ->  50001

    The `regex` module writes out what has to repeat, however often: `.{1000000}` takes a second and a half to compile;
    `(?:.{1000}){1000000}` takes all memory, and no signal stops it.
    """
    outer: list[tuple[int, int]] = []  # for each group around: its length so far, the best of its alternatives before
    length = best = last = 0
    for token in tokens(expression):
        if token.lastgroup == "open":
            outer.append((length, best))
            length = best = last = 0
        elif token.lastgroup == "close" and outer:
            last = max(length, best)
            length, best = outer.pop()
            length += last
        elif token.lastgroup == "bar":
            length, best, last = 0, max(length, best), 0
        elif token.lastgroup == "repeat":
            times = int(token[0][1:-1].split(",")[0])
            length += last * (times - 1)
            last *= times
        elif token[0] in ("*", "?"):
            length, last = length - last, 0
        elif token[0] != "+":
            length, last = length + 1, 1
    return max(length, best)
