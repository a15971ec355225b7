"""Random cases of every kind (tests/fuzz_kinds.py), each from a seed that shows it again:

    python -m tests.soak --only fuzz --case KIND --attempts 1 --seed SEED

Case N of a run that began with seed S has seed S + N, and kinds take turns. Cases run in a process of their own, which
may be brought down by one, or kept longer than SECONDS: both count as findings, and so does memory beyond MOST_MEMORY.
Each case is tried twice: as users run it, and with the sanitizers (tests/sanitizers.py).

    equal      two ways to the same answer agreed
    refused    one message said what is wrong
    wrong      they differ, or a traceback; the command that shows it again is printed
    error      the process ended
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz_kinds import FUZZ
from tests.outcomes import BAD, Found, Served, serve, try_all
from tests.sanitizers import build_sanitized

KINDS = {kind.__name__: kind for kind in FUZZ}
SECONDS = 180  # of one case; most take less than one
SANITIZED = "ASAN_OPTIONS" in os.environ  # this process already; its shadow of the memory is large
MOST_MEMORY = 6 << 30  # of the process that tries them: a file must not make a reader ask for more
MOST_MORE = 600 << 20  # that one case may take of it; files have less than 1 MB, and commands --memory 400MB


def tried(question: tuple[str, int]) -> tuple[str, str]:
    """(outcome, traceback) of one case, in this process."""
    kind, seed = question
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    before = peak_memory(anew=True)
    with tempfile.TemporaryDirectory(prefix="streambpe-fuzz-") as folder:
        try:
            outcome, more = KINDS[kind](seed, Path(folder)), peak_memory() - before
            return (outcome, "") if more < MOST_MORE else ("wrong", f"it took {more:,} bytes")
        except Exception:
            return "wrong", traceback.format_exc()
        finally:
            faulthandler.cancel_dump_traceback_later()


def peak_memory(anew: bool = False) -> int:
    """The most bytes that this process had in memory, since it was asked for `anew`; 0 where nobody says."""
    if SANITIZED or not Path("/proc/self/clear_refs").exists():
        return 0
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak) << 10


def limit_memory() -> None:
    """Of this process."""
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def matrix(number: int, seed: int, kinds: Sequence[str], folder: Path) -> Found:
    """So many cases, in turn over the kinds; what came of each kind."""
    env = None if SANITIZED else build_sanitized(folder / "sanitized")
    with contextlib.ExitStack() as stack:
        tries = [stack.enter_context(Served("tests.fuzz"))]
        if env is not None:
            tries.append(stack.enter_context(Served("tests.fuzz", folder / "sanitized", env)))

        def answer(question: tuple[str, int]) -> tuple[str, str]:
            for cases in tries:
                outcome, said = cases.ask(question)
                if outcome in BAD:
                    break
            kind, its_seed = question
            return outcome, f"python -m tests.soak --only fuzz --case {kind} --attempts 1 --seed {its_seed}\n{said}"

        questions = [(kinds[turn % len(kinds)], seed + turn) for turn in range(number)]
        return try_all(((question[0], question) for question in questions), answer)


if __name__ == "__main__" and "--serve" in sys.argv:
    limit_memory()
    serve(tried)
