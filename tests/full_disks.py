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

from functools import partial

from tests import kills
from tests.kills import Attempt, Case, Place, Prepared
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


def _told(prepared: Prepared, place: Place, attempt: Attempt) -> tuple[str, str]:
    """(outcome, what is said of it)."""
    process = kills.start("--fill", place, prepared.case, attempt.at)
    _, err = process.communicate(timeout=300)
    if process.returncode:
        lines = [line for line in err.strip().splitlines() if not line.startswith("warning: ")]
        told = [line for line in lines if "disk is full" in line]
        if process.returncode != 1 or len(told) != 1 or lines[-1:] != told or "Make room" not in told[0]:
            return "error", f"exit {process.returncode}: {err[-1500:]}"
        cli(*place.words(prepared.case.command))
    # not state.duckdb.wal: what found no room in the file is read with it
    wrong = place.wrong(prepared, (".new", ".tmp"), ("run/training/*",))
    return ("wrong" if wrong else "told" if process.returncode else "done"), wrong


matrix = partial(kills.matrix, way="--fill", cases=CASES, tried=_told)
