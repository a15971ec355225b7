"""Three tiers of tests, by how long they take.

    make test        minutes: what takes little, and one training, count and kill of each sort; few random cases
    make test-long   tests marked `long`, and again all tests that draw at random, with all their examples and seeds
    make soak        hours: cases, kills and damage that nobody has tried yet (tests/soak.py)

make test-long sets STREAMBPE_LONG. Without it, tests draw an eighth of the examples that they name, always the same.
Of a long test over four seeds or more it takes every second; STREAMBPE_LONG=all make test-long takes all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

LONG = bool(os.environ.get("STREAMBPE_LONG"))
ALL = os.environ.get("STREAMBPE_LONG") == "all"
EIGHTH = 8


def share(n: int, least: int = 1) -> int:
    """How many of n this tier takes. A number that a test asserts about them must be such a share too."""
    return n if LONG else min(n, max(least, n // EIGHTH))


def examples(n: int) -> settings:
    """Settings of a hypothesis test that has n examples in the long tier, and fewer in the others."""
    return settings(max_examples=share(n, 10))


def seeds(n: int) -> range:
    """`for seed in seeds(60)`: the first few of 60. A test with this runs again in the long tier, with all of them."""
    return range(share(n, 3))


def long(*values: Any, **more: Any) -> Any:
    """A case of a parametrised test for the long tier."""
    return pytest.param(*values, marks=pytest.mark.long, **more)


def first(fast: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrised test: the first `fast` for every tier, the others for the long tier."""
    return [case if place < fast else long(case) for place, case in enumerate(cases)]
