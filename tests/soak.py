"""Cases that nobody has tried yet, one after the other, for hours: `make soak`, never in CI.

    python -m tests.soak [--hours H] [--seed N] [--only fuzz|kills|rot|full-disks] [--attempts N]

Each seed is one round: random cases of every kind (tests/fuzz.py), commands of every kind killed (tests/kills.py),
damaged files (tests/rot.py), and disks that fill (tests/full_disks.py), with a table of what came of them. It ends
after the first of these that went wrong, with the seed that shows it once more: `--seed N`. Without --seed it begins
where chance says. --attempts: one round, and so many of each in it:

    make soak SOAK="--only kills --attempts 500"
    make soak SOAK="--only rot --attempts 1000"
    make soak SOAK="--only fuzz --hours 1"
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_up
from pathlib import Path

from tests import full_disks, fuzz, kills, rot
from tests.outcomes import bad, table

CASES_A_SEED = 100_000  # seeds of cases lie apart from each other


def random_cases(number: int, seed: int, end: float, folder: Path) -> bool:
    """Engine against reference, log against encoders, readers of files against damage; whether all was well."""
    first = seed * CASES_A_SEED
    found = fuzz.fuzz(list(fuzz.KINDS), iter(range(first, first + number)), end)
    print(fuzz.table(found), flush=True)
    return not fuzz.wrong(found)


def killed(number: int, seed: int, end: float, folder: Path) -> bool:
    """Every kind of command killed at boundaries and at moments by chance, and given again; whether all was well."""
    found = kills.matrix(number, seed, list(kills.CASES), folder)
    print(table(found, kills.OUTCOMES), flush=True)
    return not bad(found)


def rotten_files(number: int, seed: int, end: float, folder: Path) -> bool:
    """Every kind of file of a RUN damaged, in every state: named or harmless; whether all was well."""
    found = rot.matrix(number, seed, list(rot.STATES), folder)
    print(rot.tables(found), flush=True)
    return not rot.bad(found)


def full(number: int, seed: int, end: float, folder: Path) -> bool:
    """Every kind of command whose disk fills at a boundary, given again with room; whether all was well."""
    found = full_disks.matrix(number, seed, list(full_disks.CASES), folder)
    print(table(found, full_disks.OUTCOMES), flush=True)
    return not bad(found)


Check = Callable[[int, int, float, Path], bool]
CHECKS: dict[str, tuple[Check, int]] = {  # and how many attempts in a round
    "fuzz": (random_cases, 20 * len(fuzz.KINDS)),
    "kills": (killed, 3 * len(kills.CASES)),
    "rot": (rotten_files, 5 * len(rot.STATES)),
    "full-disks": (full, 3 * len(full_disks.CASES)),
}


def soak(names: Sequence[str], attempts: int | None, seeds: Iterator[int], end: float) -> bool:
    """Rounds until the time is over; whether all was well."""
    for seed in seeds:
        for name in names:
            if time.monotonic() >= end:
                return True
            check, number = CHECKS[name]
            print(f"seed {seed} {name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="streambpe-soak-") as folder:
                if not check(attempts or number, seed, end, Path(folder)):
                    return False
    return True


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=float("inf"), help="stop after so many [default: never]")
    parser.add_argument("--seed", type=int, help="the first one [default: by chance]")
    parser.add_argument("--only", action="append", choices=list(CHECKS), help="not the others")
    parser.add_argument("--attempts", type=int, help="of each, in one round")
    given = parser.parse_args()
    begin = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    if given.attempts is None and given.hours < float("inf") and given.only == ["fuzz"]:
        given.attempts = sys.maxsize  # one round, for all of the time
    seeds = iter([begin]) if given.attempts else count_up(begin)
    sys.exit(not soak(given.only or list(CHECKS), given.attempts, seeds, time.monotonic() + 3600 * given.hours))


if __name__ == "__main__":
    main()
