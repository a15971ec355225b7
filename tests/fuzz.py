"""Random cases of every kind (tests/fuzz_kinds.py), each from a seed that shows it again.

    python -m tests.fuzz [--minutes M] [--cases N] [--seed S] [--kind NAME]

Case N of a run that began with seed S has seed S + N, and kinds take turns. Cases run in a process of their own, which
may be brought down by one, or kept longer than SECONDS: both count as findings. At the end: what came of how many.

    equal      two ways to the same answer agreed
    refused    one message said what is wrong
    wrong      they differ, or a traceback; the command that shows it again is printed
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count as count_up
from pathlib import Path
from typing import IO

from tests.fuzz_kinds import FUZZ
from tests.runs import ROOT

KINDS = {kind.__name__: kind for kind in FUZZ}
OUTCOMES = ("equal", "refused", "wrong")
SECONDS = 180  # of one case; most take less than one
MOST_MEMORY = 6 << 30  # of the process that tries them: a file must not make a reader ask for more

Found = dict[str, Counter[str]]


def tried(kind: str, seed: int) -> tuple[str, str]:
    """(outcome, traceback) of one case, in this process."""
    with tempfile.TemporaryDirectory(prefix="streambpe-fuzz-") as folder:
        try:
            return KINDS[kind](seed, Path(folder)), ""
        except Exception:
            return "wrong", traceback.format_exc()


def _serve() -> None:
    """Cases from stdin, outcomes to stdout; what commands print goes nowhere."""
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        if "ASAN_OPTIONS" in os.environ:  # whose shadow of the memory is larger
            raise ImportError

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        answer = tried(*json.loads(line))
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(answer), file=answers, flush=True)


class Cases:
    """The process that tries cases; another one is started when one has brought it down."""

    def __init__(self, errors: IO[str]) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._errors = errors

    def tried(self, kind: str, seed: int) -> tuple[str, str]:
        """(outcome, what is said of it)."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.fuzz", "--serve"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps((kind, seed)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer:
            outcome, said = json.loads(answer)
            return outcome, said
        code = self.close()
        self._errors.seek(0)
        return "wrong", f"the process ended with {code}\n{self._errors.read()[-3000:]}"

    def close(self) -> int:
        """End the process; its exit code."""
        if self._process is None:
            return 0
        self._process.communicate()
        code, self._process = self._process.returncode, None
        return code


def fuzz(kinds: Sequence[str], seeds: Iterator[int], end: float) -> Found:
    """Cases until the time is over or there are no more seeds; what came of each kind."""
    found: Found = {kind: Counter() for kind in kinds}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        cases = Cases(errors)
        try:
            for turn, seed in enumerate(seeds):
                if time.monotonic() >= end:
                    break
                kind = kinds[turn % len(kinds)]
                outcome, said = cases.tried(kind, seed)
                found[kind][outcome] += 1
                if outcome == "wrong":
                    print(f"wrong: python -m tests.fuzz --kind {kind} --cases 1 --seed {seed}\n{said}", flush=True)
        finally:
            cases.close()
    return found


def wrong(found: Found) -> int:
    """How many cases went wrong."""
    return sum(outcomes["wrong"] for outcomes in found.values())


def table(found: Found) -> str:
    """Kind by outcome, as Markdown."""
    lines = [f"| kind | cases | {' | '.join(OUTCOMES)} |", "|---|---|" + "---|" * len(OUTCOMES)]
    for kind, outcomes in [*found.items(), ("all", sum(found.values(), Counter[str]()))]:
        lines.append(f"| {kind} | {outcomes.total()} | {' | '.join(str(outcomes[each]) for each in OUTCOMES)} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["--serve"]:
        _serve()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many [default: never]")
    parser.add_argument("--cases", type=int, help="stop after so many [default: never]")
    parser.add_argument("--seed", type=int, help="the first one [default: by chance]")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these [default: all]")
    given = parser.parse_args()
    begin = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    seeds = count_up(begin) if given.cases is None else iter(range(begin, begin + given.cases))
    print(f"from seed {begin} on", flush=True)
    found = fuzz(given.kind or list(KINDS), seeds, time.monotonic() + 60 * given.minutes)
    print(table(found))
    sys.exit(bool(wrong(found)))


if __name__ == "__main__":
    main()
