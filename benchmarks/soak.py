"""A long training that is killed again and again: does it learn the same events as an undisturbed one?

    python benchmarks/soak.py --text en_100.txt --mb 3000 --minutes 60 --memory 1GB --work /big/disk

Synthetic text (synthetic.py) is learned with superwords, first undisturbed. Then, until the minutes are over, the same
command is given, killed after a random time (--shortest to --longest seconds), and given again, and a training that is
done is compared and begun anew. Half of the kills end the whole process tree, half only its first process, whose
children then have to end by themselves. When the minutes are over the last training goes on to its end, with no more
kills. `check` looks at the last RUN.

Memory is PSS of the process tree, once a second. A row of results/soak.tsv is a life: a command from its start to its
kill or its end. Exit 1 if events differ, a command fails, processes stay, memory is above 1.05 of the limit, or `check`
finds a difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import synthetic
from harness import Table, members, parser, process_tree, scratch, streambpe, summed_pss

from streambpe.model.eventlog import events_digest, read_event_log
from streambpe.resources import parse_size

MOST = 1.05
COLUMNS = ("life", "ended", "stage", "wall_s", "peak_mb", "ratio")
END_SECONDS = 60  # children of a killed process have so long to end by themselves
OPTIONS = ("--pattern", "boundless", "--superwords", "boundless", "--progress", "none")


@dataclass(frozen=True)
class Life:
    """A command from its start to its kill or its end."""

    training: int  # 0: the one that nobody disturbs
    number: int
    ended: str
    stage: str
    seconds: float
    peak: float  # MB


@dataclass
class Soak:
    """What is done, and what came of it."""

    command: Sequence[str]
    run: Path
    memory: float  # MB
    chance: random.Random
    between: tuple[float, float]
    table: Table
    lives: list[Life] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)

    def train(self, training: int, until: float) -> None:
        """One training to its end; killed up to the moment `until`."""
        shutil.rmtree(self.run, ignore_errors=True)
        for number in range(1, 1 << 20):
            seconds = self.chance.uniform(*self.between)
            life = self._live(training, number, seconds if time.monotonic() + seconds < until else None)
            self.lives.append(life)
            ratio = f"{life.peak / self.memory:.3f}"
            name = f"{training}.{number}"
            self.table.add(name, life.ended, life.stage, f"{life.seconds:.1f}", f"{life.peak:.1f}", ratio)
            if life.peak > MOST * self.memory:
                self.wrong.append(
                    f"{training}.{number}: {life.peak:.0f} MB are {life.peak / self.memory:.2f} of the limit"
                )
            if not life.ended.startswith("killed"):
                break
        if life.ended == "done":
            self.digests.append(events_digest(read_event_log(self.run / "model.events.jsonl").events))
            if self.digests[-1] != self.digests[0]:
                self.wrong.append(f"training {training}: other events than undisturbed")
        else:
            self.wrong.append(f"training {training}: {life.ended}")

    def _live(self, training: int, number: int, seconds: float | None) -> Life:
        """Start the command; kill it after so many seconds, if it is still there."""
        began, peak = time.monotonic(), 0
        whole_tree = self.chance.random() < 0.5
        said = self.run.with_suffix(".said")
        with said.open("wb") as err:
            process = subprocess.Popen(self.command, stdout=err, stderr=err, start_new_session=True)
        try:
            while process.poll() is None and (seconds is None or time.monotonic() - began < seconds):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                peak = max(peak, summed_pss(process_tree(process.pid)))
            stage = self._stage()
            ended = self._end(process, whole_tree, said)
        finally:
            if left := members(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
        if left and not whole_tree:
            self.wrong.append(f"{training}.{number}: {len(left)} processes stayed when the first was killed")
        return Life(training, number, ended, stage, time.monotonic() - began, peak / 1e6)

    def _end(self, process: subprocess.Popen[bytes], whole_tree: bool, said: Path) -> str:
        """Kill what is still there; how it ended."""
        if process.poll() is None:
            (os.killpg if whole_tree else os.kill)(process.pid, signal.SIGKILL)
            process.wait()
            until = time.monotonic() + END_SECONDS
            while members(process.pid) and time.monotonic() < until:
                time.sleep(0.2)
            return "killed, the tree" if whole_tree else "killed, the first process"
        if process.returncode:
            return f"exit {process.returncode}: {said.read_text(errors='replace').strip()[-300:]}"
        return "done"

    def _stage(self) -> str:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads((self.run / "status.json").read_text())["stage"])
        return "starting"


def outcome(soak: Soak, minutes: float) -> str:
    """The whole in one line."""
    killed = [life for life in soak.lives if life.ended.startswith("killed")]
    stages = ", ".join(sorted({life.stage for life in killed}))
    equal = sum(digest == soak.digests[0] for digest in soak.digests[1:])
    return (
        f"{minutes:.0f} minutes; {len(killed)} kills in the stages {stages or 'none'}; "
        f"{equal} of {max(life.training for life in soak.lives)} disturbed trainings equal to the undisturbed one; "
        f"highest peak {max(life.peak for life in soak.lives) / soak.memory:.2f} of --memory"
    )


def main() -> None:
    """Make the text, train, kill, compare."""
    options = parser(__doc__, "vocab-size", "work")
    options.add_argument("--text", required=True, help="what the synthetic text is made of")
    options.add_argument("--mb", type=float, default=3000)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--memory", default="1GB")
    options.add_argument("--shortest", type=float, default=30)
    options.add_argument("--longest", type=float, default=300)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    work, began = scratch(given.work), time.monotonic()
    corpus = work / f"synthetic_{given.mb:.0f}.jsonl"
    if not corpus.exists():
        synthetic.write([Path(given.text)], corpus, given.mb)
    run, until = work / "soak.run", time.monotonic() + 60 * given.minutes
    command = streambpe("train", str(run), str(corpus), *OPTIONS, "--memory", given.memory)
    command += ["--vocab-size", str(given.vocab_size)]
    with Table("soak", {"job": " ".join(command[1:]).replace(str(work), ".")}, COLUMNS) as table:
        memory, between = parse_size(given.memory) / 1e6, (given.shortest, given.longest)
        soak = Soak(command, run, memory, random.Random(given.seed), between, table)
        soak.train(0, 0)
        while not soak.wrong and time.monotonic() < until:
            soak.train(soak.lives[-1].training + 1, until)
    checked = subprocess.run(streambpe("check", str(run)), capture_output=True, text=True)
    if checked.returncode:
        soak.wrong.append(f"check: {checked.stdout[-500:]}{checked.stderr[-500:]}")
    print(outcome(soak, (time.monotonic() - began) / 60))
    sys.exit("\n".join(soak.wrong) or None)


if __name__ == "__main__":
    main()
