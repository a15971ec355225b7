"""Random cases (tests/fuzz.py): a part of what the soak tries, of every kind."""

from __future__ import annotations

import pytest

from tests.fuzz import KINDS, fuzz, table, wrong
from tests.fuzz_kinds import FUZZ
from tests.tiers import long

# Superwords have long tests of their own beside their code. Slow ones first.
EACH = {"words": 1, "counting": 1, "readers": 1, "encoders": 1, "importers": 2, "tokenizer_files": 3, "ranks": 3,
        "ids": 2, "logs": 4, "patterns": 4}  # fmt: skip
FIRST = 20_000_000


@pytest.mark.parametrize(("kind", "number"), [*EACH.items(), *(long(kind, 7 * EACH[kind]) for kind in EACH)])
def test_random_cases(kind, number, tmp_path):
    """Two ways to the same answer agree, and what is damaged is used as it is or refused by one message."""
    first = FIRST if number == EACH[kind] else FIRST + EACH[kind]
    for seed in range(first, first + number):
        (tmp_path / f"{seed}").mkdir()
        assert KINDS[kind](seed, tmp_path / f"{seed}") in ("equal", "refused"), f"--kind {kind} --seed {seed}"


@pytest.mark.long
def test_what_goes_wrong_is_told(monkeypatch, capsys):
    """A process that dies counts as wrong, with the command that shows it again; the next case has another process."""
    monkeypatch.setitem(KINDS, "none", FUZZ[0])  # which the process that tries cases does not know
    found = fuzz(["none", "patterns"], iter([7, FIRST]), float("inf"))
    assert wrong(found) == found["none"]["wrong"] == 1
    assert found["patterns"].total() == 1
    assert "wrong: python -m tests.fuzz --kind none --cases 1 --seed 7" in capsys.readouterr().out
    assert "| all | 2 |" in table(found)
