"""Which chunks may join superwords: their text matches a pattern (and they are one token).

    improved   letters with their marks, space, _ ' and ’ only; one letter at least is not the first character
    simple     a letter anywhere (fastboundlessbpe's default)
    paper      ASCII letters, space, _ and ' only (the paper's footnote)

Anything else is a regular expression that is searched for; its `$` means the end of the text, never the
place before a last line break.
"""

from __future__ import annotations

from collections.abc import Callable

from streambpe.errors import UsageError, quoted
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.text.expressions import compiled, end_of_text

SUPERWORD_PATTERNS = {
    "improved": r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+\Z",
    "simple": r"\p{L}",
    "paper": r"^[ _'a-zA-Z]*[a-zA-Z][ _'a-zA-Z]*\Z",
}


def find_superword_pattern(name: str) -> str:
    """The expression behind a preset's name, or the expression itself, `$` taken as the end of the text."""
    return SUPERWORD_PATTERNS.get(name) or end_of_text(name)


def text_test(name: str, option: str) -> Callable[[bytes], bool]:
    """A test of a token's bytes: valid UTF-8 in which the pattern is found. `option`: how an error names it."""
    found = compiled(find_superword_pattern(name), f"{option} {quoted(name)}")

    def matches(content: bytes) -> bool:
        try:
            return found.search(content.decode(), timeout=DOCUMENT_SECONDS) is not None
        except UnicodeDecodeError:
            return False
        except TimeoutError:
            raise UsageError(
                f"{option} {name!r} takes more than {DOCUMENT_SECONDS} s on one chunk of {len(content):,} bytes. What "
                f"was counted is kept. Give an expression that tries less."
            ) from None

    return matches
