"""A disk that fills at every stage of every command, and has room again when the command is given once more.

    python -m tests.soak --only full-disks [--attempts N] [--seed S] [--case NAME]

An attempt copies what a command begins with and gives it in a process that can write nothing any more from its n-th
boundary on (before an fsync, a rename or a commit: failpoints.py; 0: from the start). Then it is given once more, with
room:

    told     exit 1 and one message that names the full disk; then the output of a command that nobody disturbed
    done     what could not be written was advice (status.json, a snapshot): the command came to that output
    wrong    another output, a complaint of `check`, or a file that stays
    error    no message, another one, or the command does not go on
"""

from __future__ import annotations

import random
import shutil
import subprocess
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests import kills
from tests.kills import Case, Place, Prepared
from tests.runs import cli

OUTCOMES = ("told", "done", "wrong", "error")
RESOURCES = ("--memory", "400MB", "--threads", "2")
_COUNTED = ("count", "RUN", "TEXT", "--lines", *RESOURCES)
_TRAINED = kills.CASES["plain"].command
CASES = {
    **kills.CASES,
    "export-counts": Case(("export-counts", "RUN", "-o", "OUT.csv"), (_COUNTED,)),
    "export hf": Case(("export", "RUN", "--to", "hf", "-o", "OUT.json"), (_TRAINED,)),
    "check": Case(("check", "RUN", *RESOURCES), (_TRAINED,)),
}


def _tried(prepared: Prepared, at: int, folder: Path) -> tuple[str, str]:
    """(outcome, what is said of it)."""
    place, case = Place(folder / "attempt"), prepared.case
    shutil.copytree(prepared.start, place.folder)
    try:
        process = kills.start("--fill", place, case, at)
        _, err = process.communicate(timeout=300)
        if process.returncode:
            lines = [line for line in err.strip().splitlines() if not line.startswith("warning: ")]
            told = [line for line in lines if "disk is full" in line]
            if process.returncode != 1 or len(told) != 1 or lines[-1:] != told or "Make room" not in told[0]:
                return "error", f"exit {process.returncode}: {err[-1500:]}"
            cli(*place.words(case.command))
        # not state.duckdb.wal: what found no room in the file is read with it
        wrong = place.wrong(prepared, (".new", ".tmp"), ("run/training/*",))
    except (AssertionError, OSError, subprocess.TimeoutExpired):
        return "error", traceback.format_exc()[-1500:]
    finally:
        shutil.rmtree(place.folder)
    return ("wrong" if wrong else "told" if process.returncode else "done"), wrong


def matrix(number: int, seed: int, names: Sequence[str], folder: Path) -> dict[str, Counter[str]]:
    """So many attempts, in turn over the cases, spread evenly over the boundaries of each; a bad one is told."""
    chance = random.Random(seed)
    found: dict[str, Counter[str]] = {}
    for turn, prepared in enumerate(kills.prepare("--fill", {name: CASES[name] for name in names}, folder)):
        each = len(range(turn, number, len(names)))
        outcomes = found[prepared.name] = Counter()
        for step in range(each):
            at = int((step + chance.random()) * (prepared.boundaries + 1) / each)
            outcome, said = _tried(prepared, at, folder)
            outcomes[outcome] += 1
            if outcome in ("wrong", "error"):
                where = f"boundary {at} of {prepared.boundaries}"
                print(outcome, prepared.name, where, said, sep="\n  ", flush=True)
    return found
