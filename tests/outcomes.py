"""What became of attempts, as a table; and a process that makes them, started anew when one of them brings it down."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.runs import ROOT

Found = Mapping[str, Counter[str]]  # how often each thing became of a case


def table(title: str, found: Found, kinds: Sequence[str]) -> str:
    """Case by outcome, as Markdown."""
    lines = [f"| {title} | tried | {' | '.join(kinds)} |", "|---|---|" + "---|" * len(kinds)]
    for name, outcomes in [*found.items(), ("all", sum(found.values(), Counter[str]()))]:
        lines.append(f"| {name} | {outcomes.total()} | {' | '.join(str(outcomes[kind]) for kind in kinds)} |")
    return "\n".join(lines)


def bad(found: Found, *kinds: str) -> int:
    """How many attempts came to one of these."""
    return sum(outcomes[kind] for outcomes in found.values() for kind in kinds)


class Ended(Exception):
    """The process ended instead of answering; what it said last."""


class Served:
    """`python -m MODULE --serve`, which answers a line of JSON with another one."""

    def __init__(self, module: str, place: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", module, "--serve"]
        self._place, self._env = place, env
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    def ask(self, question: Any) -> Any:
        """The answer; Ended if there is none, and the next question goes to another process."""
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
            return json.loads(answer)
        code = self._end()
        self._errors.seek(0)
        said = self._errors.read()
        raise Ended(f"the process ended with {code}\n{said[:3000]}\n...\n{said[3000:][-3000:]}")

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
