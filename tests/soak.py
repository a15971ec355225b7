"""Cases that nobody has tried yet, one after the other, for hours: `make soak`, never in CI.

    python -m tests.soak [--hours H] [--seed N] [--only fuzz|kills|rot|full-disks] [--attempts N] [--case NAME]

A round has random cases of every kind (tests/fuzz.py), commands of every kind killed (tests/kills.py), damaged files
(tests/rot.py), and disks that fill (tests/full_disks.py), with a table of what came of them. It ends after the first of
these that went wrong, with the seed that shows it once more: `--seed N`. Without --seed it begins where chance says.
--attempts: one round, and so many of each in it, as bits has; --case: only this kind, command or state (again for
each):

    make soak SOAK="--only kills --attempts 500"
    make soak SOAK="--only rot --attempts 1000"
    make soak SOAK="--only fuzz --hours 1"
    make soak SOAK="--only bits"                  # one bit of every file, in every state of a RUN
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count as count_up
from pathlib import Path
from typing import NamedTuple

from tests import full_disks, fuzz, kills, rot
from tests.outcomes import Found, bad, table

SEEDS = 100_000  # from round to round: cases of fuzz have one each


# Makes so many attempts from a seed on, tells what went wrong, and says how often each thing became of each case.
Matrix = Callable[[int, int, Sequence[str], Path], Found]


class Check(NamedTuple):
    """One sort of attempts."""

    matrix: Matrix
    cases: Collection[str]
    each: int  # so many attempts of each case in a round


CHECKS = {
    "fuzz": Check(fuzz.matrix, fuzz.KINDS, 20),
    "kills": Check(kills.matrix, kills.CASES, 3),
    "rot": Check(rot.matrix, rot.STATES, 5),
    "bits": Check(partial(rot.matrix, most_states=99), rot.STATES, 0),
    "full-disks": Check(full_disks.matrix, full_disks.CASES, 3),
}


def main() -> None:
    """Rounds until the time is over, or one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=float("inf"), help="stop after so many [default: never]")
    parser.add_argument("--seed", type=int, help="the first one [default: by chance]")
    parser.add_argument("--only", action="append", choices=list(CHECKS), help="not the others")
    parser.add_argument("--attempts", type=int, help="of each, in one round")
    parser.add_argument("--case", action="append", help="not the others")
    given = parser.parse_args()
    begin = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    end = time.monotonic() + 3600 * given.hours
    once = given.attempts or given.only == ["bits"]
    for seed in [begin] if once else count_up(begin, SEEDS):
        for name in given.only or [name for name in CHECKS if name != "bits"]:
            if time.monotonic() >= end:
                return
            check = CHECKS[name]
            print(f"seed {seed} {name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="streambpe-soak-") as folder:
                number = given.attempts or check.each * len(check.cases)
                found = check.matrix(number, seed, given.case or list(check.cases), Path(folder))
            print(table(found), flush=True)
            if bad(found):
                sys.exit(1)


if __name__ == "__main__":
    main()
