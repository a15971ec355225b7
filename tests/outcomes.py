"""Tries attempts and tells what became of them; a process that makes them, started anew when one brings it down."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.runs import ROOT

Found = dict[str, Counter[str]]  # how often each thing became of a case
BAD = ("wrong", "error")


def try_all(attempts: Iterable[tuple[str, Any]], answer: Callable[[Any], tuple[str, str]]) -> Found:
    """What became of each (case, attempt) is counted, and told if it is bad. The answer: (outcome, what is said)."""
    found: Found = {}
    for case, attempt in attempts:
        outcome, said = answer(attempt)
        found.setdefault(case, Counter())[outcome] += 1
        if outcome in BAD:
            print(outcome, attempt, said, sep="\n  ", flush=True)
    return found


def table(found: Found) -> str:
    """Case by outcome, as Markdown."""
    everything = sum(found.values(), Counter[str]())
    lines = [f"| case | tried | {' | '.join(everything)} |", "|---|---|" + "---|" * len(everything)]
    for name, outcomes in [*found.items(), ("all", everything)]:
        lines.append(f"| {name} | {outcomes.total()} | {' | '.join(str(outcomes[kind]) for kind in everything)} |")
    return "\n".join(lines)


def bad(found: Found) -> int:
    """How many attempts went wrong."""
    return sum(outcomes[kind] for outcomes in found.values() for kind in BAD)


class Served:
    """`python -m MODULE --serve`, which answers a line of JSON with another one."""

    def __init__(self, module: str, place: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", module, "--serve"]
        self._place, self._env = place, env
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    def ask(self, question: Any) -> tuple[str, str]:
        """The answer; an error if the process ends instead, and the next question goes to another one."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                cwd=self._place, env=self._env,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        if answer := self._process.stdout.readline():
            outcome, said = json.loads(answer)
            return outcome, said
        code = self._end()
        self._errors.seek(0)
        said = self._errors.read()
        return "error", f"the process ended with {code}\n{said[:3000]}\n...\n{said[3000:][-3000:]}"

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.communicate()
        return process.returncode

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()


def serve(answer: Callable[[Any], Any]) -> None:
    """The other end: what commands print goes nowhere."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
