"""Kills at every boundary: before each fsync, rename and commit of a command, in every system. Then it is given again.

    python -m tests.soak --only kills [--attempts N] [--seed S] [--case NAME]

An attempt copies what the command begins with, gives it in a process that dies at its n-th boundary (failpoints.py), or
at a moment by chance, sometimes twice, and gives it once more to its end:

    same     the output of a command that nobody disturbed, `check` is clean, no unfinished file stays
    missed   the same, but the command was done before the kill came
    wrong    another output, a complaint of `check`, or a file that stays
    error    the command does not go on

The process that dies writes in small pieces (many parts, a checkpoint after every pass); the one that goes on does not.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streambpe.store.run import Run
from streambpe.store.unfinished import read_record
from tests.outcomes import Found, try_all
from tests.runs import ROOT, cli, rows
from tests.samples import natural_text, written
from tests.uses import USES, words_of

_RESOURCES = "--memory 400MB --threads 2"
_LINES = f"--lines --pattern gpt4 {_RESOURCES}"
_ORDERED = f"--lines --pattern boundless {_RESOURCES}"


@dataclass(frozen=True)
class Case:
    """A command, and those that make what it begins with. RUN, OTHER, TEXT, MORE and OUT stand for paths.

    died: a failpoint at which it died when it was given before; "" for the first time.
    """

    command: str
    before: tuple[str, ...] = ()
    died: str = ""


_TRAIN = "train RUN TEXT --vocab-size 500"
_TRAINED = f"{_TRAIN} {_LINES}"
_OLD = _TRAINED.replace("RUN", "OTHER")
_EXTENDED = f"train RUN MORE --extend OTHER --vocab-size 600 --lines {_RESOURCES}"
CASES = {
    "count": Case(f"count RUN TEXT {_LINES}"),
    "count, sequences": Case(f"count RUN TEXT --sequences {_ORDERED}"),
    "count, sample": Case(f"count RUN TEXT --sample 1/3 --sequences {_ORDERED}"),
    "merge-counts": Case(
        f"merge-counts RUN OTHER {_RESOURCES}",
        (f"count RUN TEXT --sequences {_ORDERED}", f"count OTHER MORE --sequences {_ORDERED}"),
    ),
    "count more": Case(f"count RUN MORE {_LINES}", (f"count RUN TEXT {_LINES}",)),
    "plain": Case(_TRAINED),
    "plain, larger": Case(f"train RUN --vocab-size 600 {_RESOURCES}", (_TRAINED,)),
    "picky": Case(f"{_TRAIN} -s 400 --like picky --lines {_RESOURCES}"),
    "batch": Case(f"{_TRAIN} --like batch --lines {_RESOURCES}"),
    "script": Case(f"{_TRAIN} -s 2500 --like script --lines {_RESOURCES}"),
    "tables": Case(f"{_TRAIN} --learner tables {_LINES}"),
    "tables, boundless": Case(f"{_TRAIN} --learner tables --superwords boundless {_ORDERED}"),
    "boundless": Case(f"{_TRAIN} --superwords boundless {_ORDERED}"),
    "superbpe": Case(f"{_TRAIN} --superwords superbpe --transition 400 {_ORDERED}"),
    "uw": Case(f"{_TRAIN} --superwords uw --transition 400 --lines {_RESOURCES}"),
    "balance": Case("train RUN TEXT MORE -s 500 --group a=TEXT --group b=MORE --balance --balance-from 40 "
                    f"--balance-window 20 --balance-text a=MORE --balance-text b=TEXT {_LINES}"),
    "until": Case(f"{_TRAIN} -s 500 --until-bytes-per-token 1.5 --text MORE {_LINES}"),
    "extend": Case(_EXTENDED, (_OLD,)),
    "extend, uw": Case(f"{_EXTENDED} --superwords uw", (_OLD,)),
    "encode": Case(USES["encode-bin"], (_TRAINED,)),
    "export": Case(f"{USES['export-events']} --force", (_TRAINED,)),
    "report": Case(USES["report"], (_TRAINED,)),
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A folder with a RUN, a text and room for output."""

    folder: Path

    def words(self, command: str) -> list[str]:
        """The command with paths of this folder."""
        files = {"RUN": "run", "OTHER": "other", "OUT": "out", "TEXT": "text.txt", "MORE": "more.txt"}
        return words_of(command, **{name: self.folder / file for name, file in files.items()})

    def output(self, case: Case) -> str:
        """A digest of what the command made; counts by way of a table, since parts may be cut in any way."""
        run, digest, words = self.folder / "run", hashlib.sha256(), self.words(case.command)
        name = words[0]
        if name in ("count", "merge-counts"):
            cli("export-counts", run, "-o", self.folder / "counts.csv", "--force")
            digest.update((self.folder / "counts.csv").read_bytes())
        elif name == "train":
            digest.update((run / "model.events.jsonl").read_bytes())
        elif name == "report":  # a page tells of times
            assert (self.folder / "out.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
        elif name != "check":
            digest.update(Path(words[words.index("-o") + 1]).read_bytes())
        return digest.hexdigest()

    def is_done(self, case: Case) -> bool:
        """Whether the command was done before it was killed and would be refused now: what is encoded is not written
        over, what was added is not added again."""
        if case.command.startswith("encode "):
            return (self.folder / "out.bin").exists()
        if not case.command.startswith("merge-counts ") or read_record(Run(self.folder / "run")):
            return False
        (paths,) = zip(*rows(self.folder / "run", "SELECT path FROM source_files"), strict=True)
        return len(paths) == 2

    def wrong(self, prepared: Prepared, suffixes: Sequence[str], patterns: Sequence[str]) -> str:
        """What is wrong when the command is done: another output, or files that nobody needs any more."""
        wrong = [] if self.output(prepared.case) == prepared.output else ["another output"]
        wrong += [path.name for path in self.folder.rglob("*") if path.suffix in suffixes]
        wrong += [path.name for pattern in patterns for path in self.folder.glob(pattern)]
        cli("check", self.folder / "run", *_RESOURCES.split())
        return ", ".join(wrong)


# ---------------------------------------------------------------- the process that dies, or whose disk fills


def in_small_pieces() -> None:
    """Many parts, files and checkpoints, even for a small corpus."""
    from streambpe.encode import corpus
    from streambpe.train.counting import sizes, spread, worker
    from streambpe.train.engine import balanced
    from streambpe.train.pace import Pace
    from streambpe.train.superwords import tasks
    from streambpe.train.trainer import Trainer

    make = Trainer.__init__

    sizes.MOST_BLOCK = sizes.LEAST_BLOCK = 1 << 13
    sizes.MOST_ORDERED = 0
    worker.CHECKPOINT_SECONDS = corpus.COMMIT_SECONDS = -1.0
    spread._LEAST_TASK = 1 << 13
    tasks.MOST_PLACES = 2000
    balanced._BATCH_SECONDS = 0.005
    balanced._BYTES_PER_PLACE = 1 << 40  # from disk
    Pace.is_due = lambda _: True  # type: ignore[method-assign]
    Trainer.__init__ = lambda *given, **how: make(*given, **{**how, "checkpoint_seconds": 0.0})  # type: ignore


def _fill_disk() -> None:
    """From now on the files of this process cannot grow."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def _serve(way: str, words: list[str]) -> None:
    """One command; if it comes to its end, the number of boundaries that it passed goes to stdout."""
    from streambpe import failpoints
    from streambpe.cli.main import main

    in_small_pieces()
    if way == "--fill":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        failpoints.die = _fill_disk
        if os.environ["STREAMBPE_FAILPOINT"] == "boundary:0":
            _fill_disk()
    try:
        main(words, prog_name="streambpe")
    except SystemExit as end:
        if not end.code:
            print("\nboundaries", next(failpoints._passed) - 1, flush=True)
        raise


def start(way: str, words: Sequence[str], failpoint: str) -> subprocess.Popen[str]:
    """A command in a process of its own, in whose way something comes there: `--kill`, or `--fill` of its disk."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kills", way, *words], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "STREAMBPE_FAILPOINT": failpoint},
    )  # fmt: skip


@dataclass
class Prepared:
    """A case that can be tried."""

    name: str
    case: Case
    start: Path  # what is copied for each attempt
    output: str
    boundaries: int
    seconds: float = 0.0  # of a command that nobody disturbs


def begin(case: Case, place: Place, seed: int = 5) -> None:
    """Make what a case begins with, in a new folder."""
    place.folder.mkdir()
    for file, number in (("text.txt", seed), ("more.txt", seed + 1)):
        written(place.folder / file, natural_text(number, 20_000))
    for command in case.before:
        cli(*place.words(command))
    if case.died:
        process = start("--kill", place.words(case.command), case.died)
        _, err = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, (case, err)


def prepare(way: str, cases: Mapping[str, Case], folder: Path) -> Iterator[Prepared]:
    """Make what cases begin with, and see what comes out of them undisturbed."""
    for number, (name, case) in enumerate(cases.items()):
        whole = Place(folder / "attempt")  # where it is tried, too
        begin(case, whole)
        shutil.copytree(whole.folder, folder / str(number))
        began = time.monotonic()
        process = start(way, whole.words(case.command), f"boundary:{1 << 60}")
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, (name, err)
        seconds = time.monotonic() - began
        boundaries = int(out.rpartition("boundaries")[2])
        assert boundaries > 2, name
        yield Prepared(name, case, folder / str(number), whole.output(case), boundaries, seconds)
        shutil.rmtree(whole.folder)


# ---------------------------------------------------------------- attempts


@dataclass(frozen=True)
class Attempt:
    """One kill or two: at this boundary, or (0) after this share of the time."""

    case: str
    at: int
    share: float
    twice: bool


def _killed(prepared: Prepared, place: Place, attempt: Attempt, again: bool) -> bool:
    """Give the command in a process that dies; whether it did."""
    at = 1 + attempt.at // 2 if again else attempt.at
    process = start("--kill", place.words(prepared.case.command), f"boundary:{at or 1 << 60}")
    if not at:
        time.sleep(attempt.share * prepared.seconds)
        process.send_signal(signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGKILL) or "worker" in err, (process.returncode, err)
    return process.returncode != 0


def _killed_and_given_again(prepared: Prepared, place: Place, attempt: Attempt) -> tuple[str, str]:
    """(outcome, what is said of it)."""
    killed = _killed(prepared, place, attempt, again=False)
    if attempt.twice:
        killed = _killed(prepared, place, attempt, again=True) or killed
    if place.is_done(prepared.case):
        killed = False
        if prepared.case.command.startswith("merge-counts "):  # refused, but it removes what the kill left
            cli(*place.words(prepared.case.command), expect=2)
    else:
        cli(*place.words(prepared.case.command))
    wrong = place.wrong(prepared, (".new", ".tmp", ".wal"), ("run/*pending*", "run/training/*", "run/tmp/*"))
    return ("wrong" if wrong else "same" if killed else "missed"), wrong


def attempts(cases: Sequence[Prepared], number: int, seed: int) -> list[Attempt]:
    """So many, in turn over the cases; those of one case are spread evenly over its boundaries, every fifth by time."""
    chance = random.Random(seed)
    each = -(-number // len(cases))
    made = []
    for turn in range(number):
        prepared, step = cases[turn % len(cases)], turn // len(cases)
        at = 1 + int((step + chance.random()) * prepared.boundaries / each)
        made.append(Attempt(prepared.name, 0 if step % 5 == 4 else at, chance.random(), chance.random() < 0.2))
    return made


def matrix(
    number: int,
    seed: int,
    names: Sequence[str],
    folder: Path,
    way: str = "--kill",
    cases: Mapping[str, Case] = CASES,
    tried: Callable[[Prepared, Place, Attempt], tuple[str, str]] = _killed_and_given_again,
) -> Found:
    """So many attempts, and what became of each case."""
    prepared = {each.name: each for each in prepare(way, {name: cases[name] for name in names}, folder)}
    place = Place(folder / "attempt")

    def answer(attempt: Attempt) -> tuple[str, str]:
        shutil.copytree(prepared[attempt.case].start, place.folder)
        try:
            return tried(prepared[attempt.case], place, attempt)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            return "error", traceback.format_exc()[-1500:]
        finally:
            shutil.rmtree(place.folder)

    return try_all(((each.case, each) for each in attempts(list(prepared.values()), number, seed)), answer)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
