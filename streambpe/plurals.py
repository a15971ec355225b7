"""Numbers of things in sentences: "1 document", "2,000 documents"."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """The number with what it is of; `many` where the plural is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
