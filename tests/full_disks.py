"""A disk that fills at every stage of every command, and has room again when the command is given once more.

    python -m tests.full_disks [--attempts N] [--seed S] [--case NAME]

An attempt copies what a command begins with and gives it in a process that can write nothing any more from its n-th
boundary on (before an fsync, a rename or a commit: failpoints.py; 0: from the start). Then it is given once more, with
room:

    told     exit 1 and one message that names the full disk; then the output of a command that nobody disturbed
    done     what could not be written was advice (status.json, a snapshot): the command came to that output
    wrong    another output, a complaint of `check`, or a file that stays
    error    no message, another one, or the command does not go on
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests import kills
from tests.kills import Case, Prepared
from tests.outcomes import command_line
from tests.runs import ROOT, cli
from tests.samples import natural_text

OUTCOMES = ("told", "done", "wrong", "error")
RESOURCES = ("--memory", "400MB", "--threads", "2")
_LINES = ("--lines", *RESOURCES)
_TRAINED = kills.CASES["plain"].command
CASES = {
    **kills.CASES,
    "merge-counts": Case(("merge-counts", "MERGED", "RUN"), (("count", "RUN", "TEXT", *_LINES),)),
    "export-counts": Case(("export-counts", "RUN", "-o", "OUT.csv"), (("count", "RUN", "TEXT", *_LINES),)),
    "export hf": Case(("export", "RUN", "--to", "hf", "-o", "OUT.json"), (_TRAINED,)),
    "check": Case(("check", "RUN", *RESOURCES), (_TRAINED,)),
}
PATHS = {
    "RUN": "run", "MERGED": "merged", "TEXT": "text.txt", "MORE": "more.txt", "OUT.bin": "out.bin",
    "OUT.csv": "out.csv", "OUT.json": "out.json", "OUT.parquet": "out.parquet", "OUT.html": "out.html",
}  # fmt: skip


def words_of(folder: Path, command: Sequence[str]) -> list[str]:
    """The command with paths of a folder."""
    return [str(folder / PATHS[word]) if word in PATHS else word for word in command]


def output(folder: Path, case: Case) -> str:
    """A digest of what the command made; counts by way of a table, since parts may be cut in any way."""
    name, digest = case.command[0], hashlib.sha256()
    if name in ("count", "merge-counts"):
        run = folder / ("merged" if name == "merge-counts" else "run")
        cli("export-counts", run, "-o", folder / "counts.csv", "--force")
        digest.update((folder / "counts.csv").read_bytes())
    elif name == "train":
        digest.update((folder / "run" / "model.events.jsonl").read_bytes())
    elif name == "report":  # a page tells of times
        assert (folder / "out.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    elif name != "check":
        digest.update(Path(words_of(folder, case.command)[case.command.index("-o") + 1]).read_bytes())
    return digest.hexdigest()


def unfinished(folder: Path) -> list[str]:
    """Files that nobody needs any more; not state.duckdb.wal: what found no room in the file is read with it."""
    left = [path.name for path in folder.rglob("*") if path.suffix in (".new", ".tmp")]
    return left + [path.name for path in folder.glob("run/training/*")]


# ---------------------------------------------------------------- the process whose disk fills


def _serve(words: list[str]) -> None:
    """One command, whose files cannot grow from a boundary on; if it comes to its end, it tells how many it passed."""
    import resource
    import signal

    from streambpe import failpoints
    from streambpe.cli.main import main

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    failpoints.die = fill
    kills._in_small_pieces()
    if os.environ["STREAMBPE_FAILPOINT"] == "boundary:0":
        fill()
    try:
        main(words, prog_name="streambpe")
    except SystemExit as end:
        if not end.code:
            print("\nboundaries", next(failpoints._passed) - 1, flush=True)
        raise


def _given(folder: Path, case: Case, at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.full_disks", "--serve", *words_of(folder, case.command)], cwd=ROOT, text=True,
        capture_output=True, env={**os.environ, "STREAMBPE_FAILPOINT": f"boundary:{at}"}, timeout=300, check=False,
    )  # fmt: skip


# ---------------------------------------------------------------- attempts


def prepare(name: str, folder: Path) -> Prepared:
    """Make what a case begins with, and see what comes out of it with room."""
    case, start, whole = CASES[name], folder / f"start {name}", folder / f"whole {name}"
    start.mkdir()
    for file, seed in (("text.txt", 5), ("more.txt", 6)):
        (start / file).write_text(natural_text(seed, 40_000), encoding="utf-8")
    for command in case.before:
        cli(*words_of(start, command))
    shutil.copytree(start, whole)
    done = _given(whole, case, 1 << 60)
    assert done.returncode == 0, (name, done.stderr)
    boundaries = int(done.stdout.rpartition("boundaries")[2])
    prepared = Prepared(name, case, start, output(whole, case), boundaries)
    shutil.rmtree(whole)
    return prepared


def _tried(prepared: Prepared, at: int, folder: Path) -> tuple[str, str]:
    """(outcome, what is said of it)."""
    place, case = folder / "attempt", prepared.case
    shutil.copytree(prepared.start, place)
    try:
        failed = _given(place, case, at)
        if failed.returncode:
            lines = [line for line in failed.stderr.strip().splitlines() if not line.startswith("warning: ")]
            told = [line for line in lines if "disk is full" in line]
            if failed.returncode != 1 or len(told) != 1 or lines[-1:] != told or "Make room" not in told[0]:
                return "error", f"exit {failed.returncode}: {failed.stderr[-1500:]}"
            cli(*words_of(place, case.command))
        wrong = [] if output(place, case) == prepared.output else ["another output"]
        wrong += unfinished(place)
        if (place / "run").exists():
            cli("check", place / "run", *RESOURCES)
    except (AssertionError, OSError, subprocess.TimeoutExpired):
        return "error", traceback.format_exc()[-1500:]
    finally:
        shutil.rmtree(place)
    if wrong:
        return "wrong", ", ".join(wrong)
    return ("told" if failed.returncode else "done"), ""


def matrix(number: int, seed: int, names: Sequence[str], folder: Path) -> list[Prepared]:
    """So many attempts, in turn over the cases, spread evenly over the boundaries of each; a bad one is told."""
    chance = random.Random(seed)
    found = []
    for turn, name in enumerate(names):
        prepared = prepare(name, folder)
        found.append(prepared)
        each = len(range(turn, number, len(names)))
        for step in range(each):
            at = int((step + chance.random()) * (prepared.boundaries + 1) / each)
            outcome, said = _tried(prepared, at, folder)
            prepared.outcomes[outcome] += 1
            if outcome in ("wrong", "error"):
                print(outcome, name, f"boundary {at} of {prepared.boundaries}", said, sep="\n  ", flush=True)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(sys.argv[2:])
    else:
        command_line(__doc__, 200, CASES, OUTCOMES, matrix)
