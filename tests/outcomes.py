"""What became of attempts at commands, by case; the command line of who makes them (kills.py, full_disks.py)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol, TypeVar


class Tried(Protocol):
    """A case, and how often each thing became of it."""

    name: str
    boundaries: int
    outcomes: Counter[str]


T = TypeVar("T", bound=Tried)


def bad(found: Sequence[Tried]) -> int:
    """How many attempts went wrong."""
    return sum(each.outcomes["wrong"] + each.outcomes["error"] for each in found)


def table(found: Sequence[Tried], kinds: Sequence[str]) -> str:
    """Case by outcome, as Markdown."""
    lines = [f"| case | boundaries | tried | {' | '.join(kinds)} |", "|---|---|---|" + "---|" * len(kinds)]
    rows = [(each.name, str(each.boundaries), each.outcomes) for each in found]
    for name, boundaries, outcomes in [*rows, ("all", "", sum((each.outcomes for each in found), Counter[str]()))]:
        counts = " | ".join(str(outcomes[kind]) for kind in kinds)
        lines.append(f"| {name} | {boundaries} | {outcomes.total()} | {counts} |")
    return "\n".join(lines)


def command_line(
    told: str,
    attempts: int,
    cases: Collection[str],
    kinds: Sequence[str],
    matrix: Callable[[int, int, Sequence[str], Path], list[T]],
) -> None:
    """Make as many attempts as are asked for, print the table, end with 1 if one went wrong."""
    parser = argparse.ArgumentParser(description=told.splitlines()[0])
    parser.add_argument("--attempts", type=int, default=attempts)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", action="append", choices=list(cases))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streambpe-attempts-") as folder:
        found = matrix(given.attempts, given.seed, given.case or list(cases), Path(folder))
    print(table(found, kinds))
    sys.exit(bool(bad(found)))
