"""Rotten files: every file of a RUN, damaged in many ways, in many states. Named or harmless, never wrong.

    python -m tests.soak --only rot [--attempts N] [--seed S] [--case STATE]     # files and ways are drawn
    python -m tests.soak --only bits                                             # one bit of each file, in each state

An attempt copies a RUN, damages one of its files, gives the command that comes next and looks at what came out:

    harmless   exit code 0 and the same output as from the whole RUN
    named      an error whose message names a file of the RUN, the folder it is missing from, the training that it
               is of, or the source to be counted again
    told       an error that names no file
    wrong      exit code 0 and another output
    traceback  anything but an exit code and a message

Attempts run in a process of their own, which a crash of a library may end: that counts as a traceback too.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from streambpe.cli.unforeseen import UNFORESEEN
from tests.damage import cut, flip, lose, repeat
from tests.kills import Case, Place
from tests.outcomes import Ended, Served, serve, table
from tests.runs import cli, ended
from tests.samples import natural_text, written

OUTCOMES = ("harmless", "named", "told", "wrong", "traceback")
BAD = OUTCOMES[2:]
_SIZE = "900"
_MEMORY = ("--memory", "400MB", "--threads", "2")
_TRAIN = ("--vocab-size", _SIZE, *_MEMORY)


# ---------------------------------------------------------------- states of a RUN, and what comes next


@dataclass(frozen=True)
class State:
    """How a RUN is made, and the command that is given next."""

    make: Callable[[Path, Path], object]  # (RUN, text)
    next: tuple[str, ...]  # as Case.command


def _counted(*more: str) -> Callable[[Path, Path], object]:
    pattern = "boundless" if "--sequences" in more else "gpt4"
    return lambda run, text: cli("count", run, text, "--lines", "--pattern", pattern, *more, *_MEMORY)


def _trained(*options: str) -> Callable[[Path, Path], object]:
    return lambda run, text: cli("train", run, text, "--lines", "--pattern", "gpt4", *options, *_TRAIN)


def _killed(failpoint: str, **options: object) -> Callable[[Path, Path], object]:
    """A training that died."""

    def make(run: Path, text: Path) -> None:
        _counted(*(["--sequences"] if "superwords" in options else []))(run, text)
        how = {"vocab_size": int(_SIZE), **options}
        assert ended(failpoint, run=run, file_places=2000, options=how, always_due="snapshot" in failpoint), failpoint

    return make


def _half_counted(run: Path, text: Path) -> None:
    counting = {"lines": True, "options": {"pattern": "gpt4"}}
    assert ended("part-committed:4", run=run, sources=[text], counting=counting, block=1 << 13)


_TRAIN_ON = ("train", "RUN", *_TRAIN)
_BOUNDLESS = (*_TRAIN_ON, "--superwords", "boundless")
_SUPERBPE = (*_TRAIN_ON, "--superwords", "superbpe", "--transition", "700")
_UW = (*_TRAIN_ON, "--superwords", "uw", "--transition", "700")
_QUERY = "SELECT id, text, n, (SELECT sum(n) FROM chunk_counts) FROM vocabulary ORDER BY id"
STATES: dict[str, State] = {
    "half counted": State(_half_counted, ("count", "RUN", "TEXT", "--lines", "--pattern", "gpt4", *_MEMORY)),
    "counted": State(_counted(), _TRAIN_ON),
    "half learned": State(_killed("events-committed:4"), _TRAIN_ON),
    "snapshots": State(_killed("snapshot-made:2"), _TRAIN_ON),
    "sequences": State(_counted("--sequences"), _BOUNDLESS),
    "half the neighbours": State(_killed("neighbours-0-committed", superwords="boundless"), _BOUNDLESS),
    "half the superwords": State(_killed("events-committed:18", superwords="superbpe", transition=700), _SUPERBPE),
    "half of stage 2": State(_killed("tokens-written", superwords="uw", transition=700), _UW),
    "half of uw": State(_killed("words-written", superwords="uw", transition=700), _UW),
    "trained, encode": State(_trained(), ("encode", "RUN", "TEXT", "-o", "OUT.bin", *_MEMORY)),
    "trained, export": State(_trained(), ("export", "RUN", "--to", "hf", "-o", "OUT.json")),
    "trained, sql": State(_trained(), ("sql", "RUN", _QUERY, "-o", "OUT.csv")),
    "trained, check": State(_trained("--superwords", "boundless"), ("check", "RUN", *_MEMORY)),
    "trained, grow": State(_trained(), ("train", "RUN", "--vocab-size", "1000", *_MEMORY)),
}


def came_out(state: str, folder: Path, text: str) -> str:
    """Give the command that comes next to the RUN in a folder; a digest of what it made."""
    place, case = Place(folder), Case(tuple(text if word == "TEXT" else word for word in STATES[state].next))
    cli(*place.words(case.command))
    return place.output(case)


# ---------------------------------------------------------------- damage


DAMAGE = {"flip": flip, "cut": cut, "lose": lose, "repeat": repeat}
WAYS = (*DAMAGE, "flip", "flip", "swap", "other", "delete")  # one bit is the likeliest: it is drawn three times


def files_of(run: Path) -> list[Path]:
    """The files of a RUN that hold something, without its lock."""
    return [path for path in sorted(run.rglob("*")) if path.is_file() and path.name != "lock" and path.stat().st_size]


def damage(run: Path, other: Path, file: str, way: str, chance: random.Random) -> bool:
    """Damage one file of a RUN; False if it cannot be done so. `other`: a RUN in the same state, of another text."""
    path = run / file
    before = path.read_bytes()
    if way == "delete":
        path.unlink()
        return True
    if way == "swap":
        others = [p for p in files_of(run) if p != path and p.suffix == path.suffix]
    elif way == "other":
        others = [p for p in files_of(other) if kind_of(p.name) == kind_of(path.name)]
    else:
        path.write_bytes(DAMAGE[way](before, chance))
        return path.read_bytes() != before
    if not others:
        return False
    taken = chance.choice(others)
    path.write_bytes(taken.read_bytes())
    if way == "swap":
        taken.write_bytes(before)
    return path.read_bytes() != before


# ---------------------------------------------------------------- attempts


@dataclass(frozen=True)
class Attempt:
    """One damage to one file."""

    state: str
    file: str
    way: str
    seed: int


@dataclass(frozen=True)
class Prepared:
    """What attempts of one state begin with."""

    run: str
    other: str  # a RUN of another text
    text: str
    expected: str  # what comes out of the whole RUN


def _outcome(attempt: Attempt, prepared: Prepared) -> tuple[str, str] | None:
    """(what became of an attempt, the message or the end of the traceback); None if the damage changed nothing."""
    with tempfile.TemporaryDirectory(prefix="streambpe-rot-") as folder:
        run = Path(folder) / "run"
        shutil.copytree(prepared.run, run)
        if not damage(run, Path(prepared.other), attempt.file, attempt.way, random.Random(attempt.seed)):
            return None
        try:
            came = came_out(attempt.state, Path(folder), prepared.text)
        except AssertionError as error:  # tests.runs.cli: another exit code than 0
            command, code, stdout, stderr = error.args[0]
            if code == UNFORESEEN:
                return "traceback", stderr
            said = f"{code} {stderr}{stdout if command[0] == 'check' else ''}"
            names = [path.name for path in files_of(Path(prepared.run))] + ["run.txt", "training main"]
            if "/" in attempt.file:  # when the only file of a folder is lost, nobody knows its name
                names.append(str((run / attempt.file).parent))
            return "named" if any(name in said for name in names) else "told", said
        except BaseException:
            return "traceback", traceback.format_exc()[-1500:]
        return "harmless" if came == prepared.expected else "wrong", ""


def prepare(state: str, folder: Path) -> Prepared:
    """Make the RUNs of a state, and see what comes out of a whole one."""
    folder.mkdir()
    for name, seed in (("run", 5), ("other", 6)):
        text = written(folder / f"{name}.txt", natural_text(seed, 40_000))
        STATES[state].make(folder / name, text)
    text = str(folder / "run.txt")
    shutil.copytree(folder / "run", folder / "whole" / "run")
    return Prepared(str(folder / "run"), str(folder / "other"), text, came_out(state, folder / "whole", text))


def kind_of(file: str) -> str:
    """A file's name without what differs between two of its kind: numbers of parts, digests of options."""
    return re.sub(r"-([0-9a-f]{12,}|\d+)(?![0-9a-z])", "-*", file)


def attempts(states: list[tuple[str, str]], number: int, seed: int) -> list[Attempt]:
    """So many attempts, spread over states, over the kinds of files in each, and over ways."""
    chance = random.Random(seed)
    made = []
    for at in range(number):
        state, run = states[at % len(states)]
        kinds: dict[str, list[str]] = {}
        for file in _names(run):
            kinds.setdefault(kind_of(file), []).append(file)
        file = chance.choice(kinds[chance.choice(sorted(kinds))])
        made.append(Attempt(state, file, chance.choice(WAYS), chance.randrange(1 << 30)))
    return made


def every_file(states: list[tuple[str, str]], seed: int, most_states: int) -> list[Attempt]:
    """One flipped bit in each file of each state, and the file of another RUN in its place; in so many states at most
    where they have files of the same kind."""
    chance, made = random.Random(seed), []
    seen: Counter[str] = Counter()
    for state, run in states:
        names = [name for name in _names(run) if seen[kind_of(name)] < most_states]
        made += [Attempt(state, name, way, chance.randrange(1 << 30)) for name in names for way in ("flip", "other")]
        seen.update({kind_of(name) for name in names})
    return made


def _names(run: str) -> list[str]:
    return [path.relative_to(run).as_posix() for path in files_of(Path(run))]


Found = list[tuple[Attempt, str]]  # with what became of each


def matrix(number: int, seed: int, states: list[str], folder: Path, most_states: int = 0) -> Found:
    """So many attempts, one for every file besides, in so many states of each kind, and what became of each."""
    prepared = {state: prepare(state, folder / str(number)) for number, state in enumerate(states)}
    runs = [(state, prepared[state].run) for state in states]
    found = []
    with Served("tests.rot") as maker:
        for attempt in attempts(runs, number, seed) + every_file(runs, seed, most_states):
            question = {"attempt": asdict(attempt), "prepared": asdict(prepared[attempt.state])}
            try:
                answer = maker.ask(question)
            except Ended as why:
                answer = "traceback", str(why)
            if answer is not None:
                outcome, said = answer
                found.append((attempt, outcome))
                if outcome in BAD:
                    print(outcome, attempt, said, sep="\n  ", flush=True)
    return found


def bad(found: Found) -> Found:
    """The attempts that were neither harmless nor named."""
    return [(attempt, outcome) for attempt, outcome in found if outcome in BAD]


def counted(found: Found, of: Callable[[Attempt], str]) -> dict[str, Counter[str]]:
    """Outcomes by state, by kind of file or by way."""
    counts: dict[str, Counter[str]] = {}
    for attempt, outcome in found:
        counts.setdefault(of(attempt), Counter())[outcome] += 1
    return counts


def tables(found: Found) -> str:
    """State by outcome, kind of file by outcome, way by outcome, as Markdown."""
    by = {"state": lambda one: one.state, "file": lambda one: f"`{kind_of(one.file)}`", "way": lambda one: one.way}
    return "\n\n".join(table(title, counted(found, of), OUTCOMES) for title, of in by.items())


if __name__ == "__main__" and "--serve" in sys.argv:
    serve(lambda given: _outcome(Attempt(**given["attempt"]), Prepared(**given["prepared"])))
