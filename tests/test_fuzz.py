"""Random cases (tests/fuzz.py): a part of what the soak tries, of every kind."""

from __future__ import annotations

import pytest

from tests.fuzz import KINDS
from tests.tiers import long

# Superwords and patterns have tests of their own beside their code. Each second kind is for make test-long.
EACH = {"choices": 2, "readers": 1, "logs": 20, "importers": 2, "encoders": 1, "runs": 3, "tokenizer_files": 3,
        "ranks": 3}  # fmt: skip
FIRST = 20_000_000


@pytest.mark.every(2)
@pytest.mark.parametrize(("kind", "number"), [*EACH.items(), *(long(kind, 4 * EACH[kind]) for kind in EACH)])
def test_random_cases(kind, number, tmp_path):
    """Two ways to the same answer agree, and what is damaged is used as it is or refused by one message."""
    first = FIRST if number == EACH[kind] else FIRST + EACH[kind]
    for seed in range(first, first + number):
        (tmp_path / f"{seed}").mkdir()
        assert KINDS[kind](seed, tmp_path / f"{seed}") in ("equal", "refused"), f"--kind {kind} --seed {seed}"
