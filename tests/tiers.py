"""Three tiers of tests, by how long they take.

    make test        minutes: every behaviour once, the random cases of few seeds
    make test-long   what is marked `long`, and all tests that draw at random again, with all their examples and seeds
    make soak        hours: seeds and kills that nobody has tried yet (tests/soak.py)

make test-long sets STREAMBPE_LONG; without it, tests draw an eighth of what they name, and always the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

LONG = bool(os.environ.get("STREAMBPE_LONG"))
EIGHTH = 8


def share(n: int, least: int = 1) -> int:
    """So many of n as this tier takes; what is asserted of them must be a share too."""
    return n if LONG else min(n, max(least, n // EIGHTH))


def examples(n: int) -> settings:
    """A hypothesis test of n examples in the long tier."""
    return settings(max_examples=share(n, 10))


def seeds(n: int) -> range:
    """`for seed in seeds(60)`: the first of them. A test that says so runs again in the long tier, with all."""
    return range(share(n, 3))


def long(*values: Any, **more: Any) -> Any:
    """A case of a parametrised test for the long tier."""
    return pytest.param(*values, marks=pytest.mark.long, **more)


def first(fast: int, cases: Iterable[Any]) -> list[Any]:
    """The first cases as they are, the others for the long tier."""
    return [case if place < fast else long(case) for place, case in enumerate(cases)]
