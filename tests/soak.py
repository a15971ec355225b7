"""Cases that nobody has tried yet, one after the other, for hours: `make soak`, never in CI.

    python -m tests.soak [--hours H] [--seed N]

Each seed is one round: a corpus with every option at random against the slow reference, superwords of both kinds, a
training killed again and again at moments by chance, and damaged files. It ends at the first difference with its
traceback, and the seed that shows it once more: `--seed N`. Without --seed it begins where chance says.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count as count_up
from pathlib import Path

from tests import rot
from tests.runs import text_run
from tests.samples import natural_text
from tests.train import test_resume, test_superwords, test_trainer, test_uw

KILLS = 5


def words(seed: int, folder: Path) -> None:
    """24 trainings of one corpus: ties, overlaps, alphabets, and other options drawn at random."""
    test_trainer.compare_on_random_corpora(folder, range(seed, seed + 1))


def superwords(seed: int, folder: Path) -> None:
    """Superwords over whole chunks: events, tables, runs."""
    test_superwords.test_equals_the_slow_reference(seed, folder)


def stages(seed: int, folder: Path) -> None:
    """Superwords over any neighbours, in two stages."""
    test_uw.test_equals_the_slow_reference(seed, folder)


def kills(seed: int, folder: Path) -> None:
    """SIGKILL at moments by chance; the last try gives the bytes of a training that nobody disturbed."""
    run = text_run(folder / "counted", natural_text(seed, 150_000))
    whole = test_resume.learn(test_resume.copy(run, folder / "whole"))
    assert test_resume.kill_and_go_on(run, folder, random.Random(seed), KILLS, least=0) == whole


def rotten_files(seed: int, folder: Path) -> None:
    """Every kind of file of a RUN damaged, in every state: named or harmless."""
    found = rot.matrix(5 * len(rot.STATES), seed, list(rot.STATES), folder)
    bad = [(attempt, outcome) for attempt, outcome in found if outcome.kind not in ("harmless", "named")]
    assert not bad, f"{rot.table(found)}\n{bad}"


CHECKS: tuple[Callable[[int, Path], None], ...] = (words, superwords, stages, kills, rotten_files)


def soak(seeds: Iterator[int], end: float) -> int:
    """Rounds until the time is over; how many."""
    rounds = 0
    for seed in seeds:
        for check in CHECKS:
            if time.monotonic() >= end:
                return rounds
            print(f"seed {seed} {check.__name__}", flush=True)
            with tempfile.TemporaryDirectory(prefix="streambpe-soak-") as folder:
                check(seed, Path(folder))
        rounds += 1
    return rounds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=float("inf"), help="stop after so many [default: never]")
    parser.add_argument("--seed", type=int, help="the first one [default: by chance]")
    given = parser.parse_args()
    begin = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"{soak(count_up(begin), time.monotonic() + 3600 * given.hours)} rounds, no difference")


if __name__ == "__main__":
    main()
