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

from collections.abc import Sequence
from functools import partial

from tests import kills
from tests.kills import Attempt, Case, Place, Prepared
from tests.runs import cli
from tests.uses import USES

_TRAINED = kills.CASES["plain"].command
CASES = {
    **kills.CASES,
    "export-counts": Case(USES["export-counts-csv"], (kills.CASES["count"].command,)),
    "export hf": Case(USES["export-hf"], (_TRAINED,)),
    "check": Case("check RUN --memory 400MB --threads 2", (_TRAINED,)),
}


def is_told(words: Sequence[str], boundary: int) -> bool:
    """Whether the full disk ends a command, which it must do with one message that names it."""
    process = kills.start("--fill", words, f"boundary:{boundary}")
    _, err = process.communicate(timeout=300)
    if process.returncode:
        assert_one_message(process.returncode, err)
    return process.returncode != 0


def assert_one_message(code: int, err: str) -> None:
    """Beside warnings."""
    told = [line for line in err.strip().splitlines() if not line.startswith("warning: ")]
    assert (code, len(told)) == (1, 1), (code, err)
    assert "disk is full" in told[0], err
    assert "Make room" in told[0], err


def _told(prepared: Prepared, place: Place, attempt: Attempt) -> tuple[str, str]:
    """(outcome, what is said of it)."""
    words = place.words(prepared.case.command)
    told = is_told(words, attempt.at)
    if told:
        cli(*words)
    # not state.duckdb.wal: what found no room in the file is read with it
    wrong = place.wrong(prepared, (".new", ".tmp"), ("run/training/*",))
    return ("wrong" if wrong else "told" if told else "done"), wrong


matrix = partial(kills.matrix, way="--fill", cases=CASES, tried=_told)
