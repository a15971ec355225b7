"""Three tiers of tests, by how long they take.

    make test        minutes: what takes little, and one training, count and kill of each sort; few random cases
    make test-long   tests marked `long`, and again all tests that draw at random, with other and more cases
    make soak        hours: cases, kills and damage that nobody has tried yet (tests/soak.py)

A test names how many random cases it has; `share` says how many of them a tier takes: a 24th, always the same, for
`make test`; a sixth where STREAMBPE_LONG is set, as make test-long does; all with STREAMBPE_LONG=all. Of a test with
`every(3)` each third case is for its own tier, and the others are for the next.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

LONG = bool(os.environ.get("STREAMBPE_LONG"))
PARTS = 1 if os.environ.get("STREAMBPE_LONG") == "all" else 6 if LONG else 24


def share(n: int, least: int = 1) -> int:
    """How many of n this tier takes. A number that a test asserts about them must be such a share too."""
    return min(n, max(least, n // PARTS))


def examples(n: int) -> settings:
    """Settings of a hypothesis test that has n examples."""
    return settings(max_examples=share(n, 5))


def seeds(n: int) -> range:
    """`for seed in seeds(60)`: the first few of 60. A test with this runs again in the long tier, with more of them."""
    return range(share(n, 2))


def long(*values: Any, **more: Any) -> Any:
    """A case of a parametrised test for the long tier."""
    return pytest.param(*values, marks=pytest.mark.long, **more)
