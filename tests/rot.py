"""Rotten files: every file of a RUN, damaged in many ways, in many states. Named or harmless, never wrong.

    python -m tests.soak --only rot [--attempts N] [--seed S] [--case STATE]     # files and ways are drawn
    python -m tests.soak --only bits                                             # one bit of each file, in each state

An attempt copies a RUN, damages one of its files, gives the command that comes next and looks at what came out:

    harmless   exit code 0 and the same output as from the whole RUN
    named      an error whose message names a file of the RUN, the folder it is missing from, the training that it
               is of, or the source to be counted again
    wrong      exit code 0 and another output
    error      an error that names no file, or anything but an exit code and a message

Attempts run in a process of their own, which a crash of a library may end: that counts as an error too.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streambpe.cli.unforeseen import UNFORESEEN
from tests import full_disks, kills
from tests.damage import cut, flip, lose, repeat
from tests.kills import Case, Place
from tests.outcomes import Found, Served, serve, try_all
from tests.runs import cli

# ---------------------------------------------------------------- states of a RUN, and what comes next

_COUNT, _ORDERED = kills.CASES["count"].command, kills.CASES["count, sequences"].command
_TRAIN = "train RUN --vocab-size 900 --memory 400MB --threads 2"
_BOUNDLESS = f"{_TRAIN} --superwords boundless"
_SUPERBPE = f"{_TRAIN} --superwords superbpe --transition 700"
_UW = f"{_TRAIN} --superwords uw --transition 700"
_QUERY = "SELECT id, text, n, (SELECT sum(n) FROM chunk_counts) FROM vocabulary ORDER BY id"
STATES = {
    "half counted": Case(_COUNT, died="part-committed:2"),
    "counted": Case(_TRAIN, (_COUNT,)),
    "half learned": Case(_TRAIN, (_COUNT,), "events-committed:4"),
    "snapshots": Case(_TRAIN, (_COUNT,), "snapshot-made:2"),
    "sequences": Case(_BOUNDLESS, (_ORDERED,)),
    "half the neighbours": Case(_BOUNDLESS, (_ORDERED,), "neighbours-0-committed"),
    "half the superwords": Case(_SUPERBPE, (_ORDERED,), "events-committed:18"),
    "half of uw": Case(_UW, (_ORDERED,), "words-written"),
    "trained, encode": kills.CASES["encode"],
    "trained, export": full_disks.CASES["export hf"],
    "trained, sql": Case(f"sql RUN '{_QUERY}' -o OUT.csv", (_COUNT, _TRAIN)),
    "trained, check": Case("check RUN --memory 400MB", (_ORDERED, _BOUNDLESS)),
    "trained, grow": kills.CASES["plain, larger"],
}


def came_out(state: str, place: Place) -> str:
    """Give the command that comes next to the RUN in a folder; a digest of what it made."""
    cli(*place.words(STATES[state].command))
    return place.output(STATES[state])


# ---------------------------------------------------------------- damage


DAMAGE = {"flip": flip, "cut": cut, "lose": lose, "repeat": repeat}
WAYS = (*DAMAGE, "flip", "flip", "other", "delete")  # one bit is the likeliest: it is drawn three times


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
    if way in DAMAGE:
        path.write_bytes(DAMAGE[way](before, chance))
    elif others := [p for p in files_of(other) if kind_of(p.name) == kind_of(path.name)]:
        path.write_bytes(chance.choice(others).read_bytes())
    return path.read_bytes() != before


# ---------------------------------------------------------------- attempts


class Attempt(NamedTuple):
    """One damage to one file of a RUN in a state."""

    state: str
    folder: str  # with the whole RUN, one of another text, and the place where it is tried
    expected: str  # what comes out of the whole RUN
    file: str
    way: str
    seed: int


def _outcome(attempt: Attempt) -> tuple[str, str]:
    """(what became of an attempt, the message or the end of the traceback)."""
    folder = Path(attempt.folder)
    run, names = folder / "attempt/run", [path.name for path in files_of(folder / "whole/run")]
    shutil.rmtree(folder / "attempt", ignore_errors=True)
    shutil.copytree(folder / "whole", folder / "attempt")
    try:
        if not damage(run, folder / "other/run", attempt.file, attempt.way, random.Random(attempt.seed)):
            return "harmless", "nothing was changed"
        came = came_out(attempt.state, Place(folder / "attempt"))
    except AssertionError as error:  # tests.runs.cli: another exit code than 0
        command, code, stdout, stderr = error.args[0]
        said = f"{code} {stderr}{stdout if command[0] == 'check' else ''}"
        if "/" in attempt.file:  # when the only file of a folder is lost, nobody knows its name
            names.append(str((run / attempt.file).parent))
        named = any(name in said for name in [*names, "text.txt", "training main"])
        return "named" if named and code != UNFORESEEN else "error", said
    except BaseException:
        return "error", traceback.format_exc()[-1500:]
    return "harmless" if came == attempt.expected else "wrong", ""


def prepare(state: str, folder: Path) -> tuple[str, str, str]:
    """Make the RUNs of a state, and see what comes out of a whole one: what its attempts begin with."""
    folder.mkdir()
    place = Place(folder / "attempt")
    for name, seed in (("other", 6), ("whole", 5)):
        kills.begin(STATES[state], place, seed)
        shutil.copytree(place.folder, folder / name)
        if name == "whole":
            expected = came_out(state, place)
        shutil.rmtree(place.folder)
    return state, str(folder), expected


def kind_of(file: str) -> str:
    """A file's name without what differs between two of its kind: numbers of parts, digests of options."""
    return re.sub(r"-([0-9a-f]{12,}|\d+)(?![0-9a-z])", "-*", file)


def attempts(
    begins: Sequence[tuple[str, str, str]], number: int, seed: int, most_states: int
) -> Iterator[tuple[str, Attempt]]:
    """So many attempts, spread over states, over the kinds of files in each, and over ways.

    Then one flipped bit in each file of each state, and the file of another RUN in its place; in `most_states` at most
    where they have files of the same kind."""
    chance = random.Random(seed)

    def attempt(begin: tuple[str, str, str], file: str, way: str) -> tuple[str, Attempt]:
        return f"{begin[0]}: {kind_of(file)}", Attempt(*begin, file, way, chance.randrange(1 << 30))

    runs = {begin: Path(begin[1], "whole/run") for begin in begins}
    names = {begin: [path.relative_to(run).as_posix() for path in files_of(run)] for begin, run in runs.items()}
    for begin in itertools.islice(itertools.cycle(begins), number):
        kinds: dict[str, list[str]] = {}
        for file in names[begin]:
            kinds.setdefault(kind_of(file), []).append(file)
        file = chance.choice(kinds[chance.choice(sorted(kinds))])
        yield attempt(begin, file, chance.choice(WAYS))
    seen: Counter[str] = Counter()
    for begin in begins:
        some = [file for file in names[begin] if seen[kind_of(file)] < most_states]
        for file in some:
            yield from (attempt(begin, file, way) for way in ("flip", "other"))
        seen.update({kind_of(file) for file in some})


def matrix(number: int, seed: int, states: Sequence[str], folder: Path, most_states: int = 0) -> Found:
    """So many attempts, and one for every file; what became of each, by state and kind of file."""
    begins = [prepare(state, folder / str(at)) for at, state in enumerate(states)]
    with Served("tests.rot") as served:
        return try_all(attempts(begins, number, seed, most_states), served.ask)


if __name__ == "__main__" and "--serve" in sys.argv:
    serve(lambda given: _outcome(Attempt(*given)))
