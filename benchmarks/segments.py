"""A corpus larger than the disk: counted from a pipe segment by segment, killed on the way, learned, and checked.

    python benchmarks/segments.py en_100.txt multi_60.txt --mb 100000 --kills 20 --memory 2GB --work /disk
    python benchmarks/segments.py en_100.txt multi_60.txt --mb 30000 --superwords uw --kills 10 --train-kills 10

synthetic.py makes segment N from seed N, and `streambpe count RUN - --stdin-name seg-N` reads it from a pipe, so the
corpus never lies on the disk. Kills (SIGKILL, the whole process tree) fall at random into as many segments, which are
then given again. At the end the vocabulary is learned, killed at random times and resumed, and `check` adds everything
up. With --unbroken the whole is done once more without kills, and the event logs have to be equal.

A row is a tenth of the segments, or a stage after them: its seconds; those of a processor that making the text took,
which is no work of ours but needs one of the cores; those of our process tree; its highest memory (PSS, once a second);
what RUN takes up on disk at its end; and what was counted up to there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import synthetic
from harness import Table, parser, process_tree, scratch, streambpe, summed_pss

from streambpe.disk import folder_bytes
from streambpe.model.eventlog import events_digest, read_event_log

COUNTED = ("documents", "chunks", "distinct")
COLUMNS = ("stage", "counted_MB", "wall_s", "making_s", "cpu_s", "peak_MB", "disk_MB", "kills", *COUNTED)
PART = 10  # of the segments for a row
PIPE = 1 << 20
BETWEEN = 180  # seconds, on average, from one kill of the training to the next


class Watched:
    """What a stage takes."""

    def __init__(self, run: Path) -> None:
        self.run, self.began, self.used = run, time.monotonic(), os.times()
        self.making, self.peak, self.kills = 0.0, 0, 0

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """One of our commands, whose memory is looked at."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(streambpe(*arguments), stdin=pipe, stdout=pipe, start_new_session=True)
        threading.Thread(target=self._look, args=[process], daemon=True).start()
        return process

    def _look(self, process: subprocess.Popen[bytes]) -> None:
        while process.returncode is None:
            self.peak = max(self.peak, summed_pss(process_tree(process.pid)))
            time.sleep(1)

    def count(self, arguments: list[str], text: synthetic.Text, mb: float, seed: int, kill: float) -> dict[str, int]:
        """Count a segment; killed once after so many of its bytes, if they are fewer than it has."""
        process, began, left = self.start(*arguments), time.thread_time(), kill
        for piece in synthetic.pieces(text, mb, seed):
            for at in range(0, len(piece), PIPE):
                self._write(process, piece[at : at + PIPE])
            left -= len(piece)
            if left < 0:
                os.killpg(process.pid, signal.SIGKILL)
                break
        self.making += time.thread_time() - began
        said, _ = process.communicate()
        if left < 0:
            self.kills += 1
            return self.count(arguments, text, mb, seed, float("inf"))
        if process.returncode:
            sys.exit(f"{' '.join(arguments)}: exit {process.returncode}")
        return json.loads(said)

    def finish(self, arguments: list[str], kills: list[float]) -> None:
        """Run a command to its end; killed after each of so many seconds, and given again."""
        for seconds in [*kills, None]:
            process = self.start(*arguments)
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                self.kills += 1
                continue
            if process.returncode:
                sys.exit(f"{' '.join(arguments)}: exit {process.returncode}\n{said.decode()}")
            return

    @staticmethod
    def _write(process: subprocess.Popen[bytes], piece: memoryview) -> None:
        while piece:
            piece = piece[os.write(process.stdin.fileno(), piece) :]  # type: ignore[union-attr]

    def row(self, stage: str, mb: float, counted: dict[str, int]) -> list[str]:
        """All of it."""
        now = os.times()
        cpu = now.children_user + now.children_system - self.used.children_user - self.used.children_system
        figures = (time.monotonic() - self.began, self.making, cpu, self.peak / 1e6, folder_bytes(self.run) / 1e6)
        cells = [stage, f"{mb:g}", *(f"{figure:.1f}" for figure in figures), str(self.kills)]
        return [*cells, *(str(counted[name]) for name in COUNTED)]


def whole(
    table: Table, text: synthetic.Text, given: argparse.Namespace, name: str, kills: dict[int, float], late: list[float]
) -> str:
    """Count, learn and check; what the event log's digest is."""
    run = scratch(given.work) / f"{name}.run"
    shutil.rmtree(run, ignore_errors=True)
    quiet, segments = ["--memory", given.memory, "--progress", "none"], round(given.mb / given.segment)
    counting, learning = ["--format", "jsonl", "--json", *quiet], ["--vocab-size", str(given.vocab_size), *quiet]
    if given.superwords:
        pattern = {"uw": "superbpe1", "boundless": "boundless"}[given.superwords]
        counting += ["--pattern", pattern, "--sequences"]
        learning += ["--superwords", given.superwords]
    if given.max_disk:
        counting, learning = ([*options, "--max-disk", given.max_disk] for options in (counting, learning))
    measured = Watched(run)
    for number in range(1, segments + 1):
        arguments = ["count", str(run), "-", "--stdin-name", f"seg-{number}", *counting]
        counted = measured.count(arguments, text, given.segment, number, kills.get(number, float("inf")))
        if number % -(-segments // PART) == 0 or number == segments:
            stage = f"{name}: counting to {number * given.segment / 1000:g} GB"
            table.add(*measured.row(stage, number * given.segment, counted))
            measured = Watched(run)
    for stage, arguments in (("learning", ["train", str(run), *learning]), ("check", ["check", str(run), *quiet])):
        measured = Watched(run)
        measured.finish(arguments, late if stage == "learning" else [])
        table.add(*measured.row(f"{name}: {stage}", given.mb, counted))
    return events_digest(read_event_log(run / "model.events.jsonl").events)


def main() -> None:
    """Count with kills; once more without, if asked."""
    options = parser(__doc__, "vocab-size", "work", "name", name="segments")
    options.add_argument("text", type=Path, nargs="+", help="what the corpus is made of")
    options.add_argument("--mb", type=float, default=100_000)
    options.add_argument("--segment", type=float, default=1000, help="MB of each")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--train-kills", type=int, default=0, help=f"about {BETWEEN} s apart")
    options.add_argument("--superwords", choices=("uw", "boundless"))
    options.add_argument("--memory", default="2GB")
    options.add_argument("--max-disk", help="for each command")
    options.add_argument("--seed", type=int, default=0, help="of the kills")
    options.add_argument("--unbroken", action="store_true")
    given = options.parse_args()
    chance = random.Random(given.seed)
    chosen = chance.sample(range(1, round(given.mb / given.segment) + 1), given.kills)
    kills = {number: chance.uniform(0, given.segment * 1e6) for number in chosen}
    late = [chance.uniform(0, 2 * BETWEEN) for _ in range(given.train_kills)]
    of = " and ".join(path.stem for path in given.text)
    about = {
        "corpus": f"{given.mb:g} MB in segments of {given.segment:g} MB, made of {of}",
        "job": f"{given.vocab_size} ids, {given.superwords or 'plain'}, --memory {given.memory}",
    }
    with Table(given.name, about, COLUMNS) as table:
        text = synthetic.learned(given.text)
        digests = [whole(table, text, given, "killed", kills, late)]
        if given.unbroken:
            digests.append(whole(table, text, given, "unbroken", {}, []))
    print(f"events: {', '.join(digests)}")
    sys.exit("the event logs differ" if len(set(digests)) > 1 else None)


if __name__ == "__main__":
    main()
