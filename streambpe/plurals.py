"""Numbers of things in sentences: "1 document", "2,000 documents"; "a.txt, b.txt, c.txt and 7 more"."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, many: str = "") -> str:
    """The number with what it is of; `many` where the plural is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def some_of(names: Sequence[str], most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
