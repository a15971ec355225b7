"""Random cases of every kind (tests/fuzz_kinds.py), each from a seed that shows it again:

    python -m tests.soak --only fuzz --case KIND --attempts 1 --seed SEED

Case N of a run that began with seed S has seed S + N, and kinds take turns. Cases run in a process of their own, which
may be brought down by one, or kept longer than SECONDS: both count as findings.

    equal      two ways to the same answer agreed
    refused    one message said what is wrong
    wrong      they differ, or a traceback; the command that shows it again is printed
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz_kinds import FUZZ
from tests.outcomes import Ended, Served, serve

KINDS = {kind.__name__: kind for kind in FUZZ}
OUTCOMES = ("equal", "refused", "wrong")
SECONDS = 180  # of one case; most take less than one
MOST_MEMORY = 6 << 30  # of the process that tries them: a file must not make a reader ask for more


def tried(question: tuple[str, int]) -> tuple[str, str]:
    """(outcome, traceback) of one case, in this process."""
    kind, seed = question
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    with tempfile.TemporaryDirectory(prefix="streambpe-fuzz-") as folder:
        try:
            return KINDS[kind](seed, Path(folder)), ""
        except Exception:
            return "wrong", traceback.format_exc()
        finally:
            faulthandler.cancel_dump_traceback_later()


def limit_memory() -> None:
    """Of this process."""
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        if "ASAN_OPTIONS" not in os.environ:  # whose shadow of the memory is larger
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def matrix(number: int, seed: int, kinds: Sequence[str], folder: Path) -> dict[str, Counter[str]]:
    """So many cases, in turn over the kinds; what came of each kind."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    with Served("tests.fuzz") as cases:
        for turn in range(number):
            kind = kinds[turn % len(kinds)]
            try:
                outcome, said = cases.ask((kind, seed + turn))
            except Ended as why:
                outcome, said = "wrong", str(why)
            found[kind][outcome] += 1
            if outcome == "wrong":
                again = f"python -m tests.soak --only fuzz --case {kind} --attempts 1 --seed {seed + turn}"
                print(f"wrong: {again}\n{said}", flush=True)
    return found


if __name__ == "__main__" and "--serve" in sys.argv:
    limit_memory()
    serve(tried)
