"""What 4 to 64 workers would make of a training: a forecast, replayed from the times of its tasks on this machine.

    python benchmarks/forecast.py --corpus en_100.txt --superwords uw --vocab-size 131072
    python benchmarks/forecast.py --replay results/forecast-en_100-uw.tsv        the same tables again, nothing is run

1. The training runs once with `--engine processes`, cut into small tasks; every task notes its processor seconds, and
   the coordinator those between two questions (what no worker can take off it) and within one (planning, noting).
2. A Ray is started on this machine, and some questions are opened on it: what starting costs. A busy machine makes that
   far too long; `--ray-seconds` takes what was measured at another time.
3. A list scheduler hands the tasks out in their order to N workers, each on a core of its own. A question begins when
   the one before it has ended, and takes no less than what its tasks cost the coordinator.

A larger corpus is so many times the measured one: as many more tasks of the size that the program would cut, at the
speeds of measured ones; what the coordinator does alone grows as distinct chunks do (--growth, docs/scale.md).
Not in it: the network, a disk that many workers share, workers that wait for memory. Processor seconds stand for
seconds of a core that nobody else uses. Writes results/forecast-CORPUS-SUPERWORDS.md and .tsv.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from corpora import prepare
from harness import HERE, RESULTS, preamble, scratch
from task_times import Timed

WORKERS = (1, 2, 4, 8, 16, 32, 64)
SIZES = (1, 10, 100, 1000)  # times the measured corpus
MEASURED_TASK = 2 << 20  # bytes of a counting task in the measured run, and places of others: many samples of a speed
# What the program cuts, as streambpe/train/counting/spread.py and superwords/tasks.py have it: (least, most, tasks).
CUT = {"count_stretches": (16 << 20, 256 << 20, 0), "shard_neighbours": (8 << 20, 64 << 20, 32)}
CUT["shard_runs"] = CUT["shard_neighbours"]


@dataclass(frozen=True)
class Question:
    """One call of `map`, as it was measured."""

    kind: str
    tasks: tuple[tuple[float, float], ...]  # (units, processor seconds)
    before: float  # processor seconds of the coordinator since the question before
    during: float  # ... while tasks were at work


def scheduled(tasks: Sequence[float], workers: int) -> float:
    """Seconds until the last of these tasks has ended; each begins when a worker is free, in their order."""
    free = [0.0] * workers
    for seconds in tasks:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def grown(question: Question, times: int, workers: int) -> list[float]:
    """The seconds of the tasks of a corpus so many times as large, cut for so many workers."""
    speeds = [(units, seconds) for units, seconds in question.tasks if units]
    if not speeds or question.kind not in CUT:  # ranges and parts are of one size: there are as many more of them
        return [seconds for _, seconds in question.tasks] * times
    least, most, tasks = CUT[question.kind]
    whole = sum(units for units, _ in speeds) * times
    size = min(max(whole / (tasks or 8 * workers), least), most)
    drawn = random.Random(0)
    many = max(1, round(whole / size))
    paces = [seconds / units for units, seconds in speeds]
    # a large task is many small ones, whose speeds even out
    pieces = max(1, round(size / median(units for units, _ in speeds)))
    made = [whole / many * sum(drawn.choices(paces, k=pieces)) / pieces for _ in range(many)]
    right = sum(seconds for _, seconds in speeds) * times / sum(made)
    return [seconds * right for seconds in made]


def forecast(
    questions: Sequence[Question], behind: float, start: float, each: float, times: int, workers: int, growth: float
) -> dict[str, float]:
    """Seconds of the whole, and of these: by tasks, by the coordinator alone, starting."""
    alone = (sum(question.before for question in questions) + behind) * times**growth
    # a task costs the coordinator at most what it cost it in the cheapest question; the rest is there once for each
    noting = min(question.during / len(question.tasks) for question in questions if question.tasks)
    by_tasks = 0.0
    for question in questions:
        tasks = grown(question, times, workers)
        alone += max(0.0, question.during - noting * len(question.tasks))
        by_tasks += max(scheduled(tasks, workers), noting * len(tasks))
    starting = start + each * len(questions)
    return {"whole": by_tasks + alone + starting, "tasks": by_tasks, "alone": alone, "starting": starting}


# --------------------------------------------------------------------------------------------------------- measuring


def measure(path: str, work: Path, options: dict[str, Any], memory: str) -> tuple[list[Question], float]:
    """Train once; the questions, and what the coordinator did behind the last."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # of workers
    from streambpe.resources import Resources
    from streambpe.runners.processes import Processes
    from streambpe.train.commands import train
    from streambpe.train.counting import spread
    from streambpe.train.superwords import tasks

    spread._LEAST_TASK = tasks.LEAST_TASK = MEASURED_TASK
    spread._TASKS_A_WORKER = 1 << 20
    tasks._TASKS = 1 << 20
    noted, at = work / "times.jsonl", [time.process_time()]
    noted.unlink(missing_ok=True)
    shutil.rmtree(work / "run", ignore_errors=True)
    kinds: list[tuple[str, float, float]] = []
    known = Processes.map

    def timed(self: Any, calls: Any) -> None:
        began = time.process_time()
        try:
            known(self, replace(calls, task=Timed(calls.task, str(noted), len(kinds))))
        finally:
            now = time.process_time()
            kinds.append((calls.task.__name__, began - at[0], now - began))
            at[0] = now

    Processes.map = timed  # type: ignore[method-assign]
    train(
        work / "run", [path], resources=Resources.from_options(memory=memory, threads=2, engine="processes"), **options
    )
    behind = time.process_time() - at[0]
    lines = [json.loads(line) for line in noted.read_text().splitlines()]
    return [
        Question(kind, tuple((one["units"], one["cpu"]) for one in lines if one["question"] == number), before, during)
        for number, (kind, before, during) in enumerate(kinds)
    ], behind


def starting(work: Path) -> tuple[float, float]:
    """Seconds until a Ray on this machine is up, and of each question on it."""
    from streambpe.resources import Resources
    from streambpe.runners.ray import Needs, OnRay, one_ray

    took = []
    with one_ray():
        for number in range(4):
            began = time.perf_counter()
            OnRay(Needs(Resources(800 << 20, 2), 100 << 20, 50 << 20, work / f"shared-{number}")).close()
            took.append(time.perf_counter() - began)
    each = min(took[1:])
    return max(0.0, took[0] - each), each


# ---------------------------------------------------------------------------------------------------------- results


def read_tsv(path: Path) -> tuple[dict[str, str], list[Question], float, float, float]:
    """What `write_tsv` wrote."""
    about: dict[str, str] = {}
    questions: list[Question] = []
    numbers: dict[str, float] = {}
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            name, _, value = line[2:].partition(": ")
            about[name] = value
            continue
        cells = line.split("\t")
        if cells[0] == "question":
            questions.append(Question(cells[1], (), float(cells[2]), float(cells[3])))
        elif cells[0] == "task":
            last = questions[-1]
            questions[-1] = replace(last, tasks=(*last.tasks, (float(cells[2]), float(cells[3]))))
        else:
            numbers[cells[0]] = float(cells[1])
    return about, questions, numbers["behind"], numbers["start"], numbers["each"]


def write_tsv(
    path: Path, about: dict[str, str], questions: Sequence[Question], behind: float, start: float, each: float
) -> None:
    """All that was measured."""
    lines = [f"# {name}: {value}" for name, value in about.items()]
    for question in questions:
        lines.append(f"question\t{question.kind}\t{question.before:.3f}\t{question.during:.3f}")
        lines += [f"task\t{question.kind}\t{units:.0f}\t{seconds:.4f}" for units, seconds in question.tasks]
    lines += [f"behind\t{behind:.3f}", f"start\t{start:.2f}", f"each\t{each:.2f}"]
    path.write_text("\n".join(lines) + "\n")


def tables(
    questions: Sequence[Question], behind: float, start: float, each: float, mb: float, growth: float
) -> list[str]:
    """What was measured, and the forecast."""
    alone = sum(question.before for question in questions) + behind
    lines = ["Measured, processor seconds:", "", "| question | tasks | all | longest | the coordinator meanwhile |"]
    lines += ["|---|---|---|---|---|"]
    for question in questions:
        seconds = [seconds for _, seconds in question.tasks]
        longest = f"{max(seconds, default=0):.2f}"
        lines.append(f"| {question.kind} | {len(seconds)} | {sum(seconds):.1f} | {longest} | {question.during:.2f} |")
    ray = f"Starting Ray: {start:.1f} s, and {each:.1f} s for each question (wall)."
    lines += ["", f"The coordinator alone, between questions: {alone:.1f}. {ray}", ""]
    lines += [
        "**Forecast, not measured**: seconds of the whole; in brackets how many times as quick as on one worker.",
        "",
    ]
    heads = [f"{n} worker{'s' * (n > 1)}" for n in WORKERS]
    lines += [f"| text | {' | '.join(heads)} | the coordinator alone | starting |"]
    lines += ["|---" * (len(WORKERS) + 3) + "|"]
    for times in SIZES:
        told = [forecast(questions, behind, start, each, times, n, growth) for n in WORKERS]
        cells = [f"{one['whole']:,.0f} ({told[0]['whole'] / one['whole']:.1f})" for one in told]
        size = mb * times
        named = f"{size / 1000:g} GB" if size >= 1000 else f"{size:g} MB"
        lines.append(f"| {named} | {' | '.join(cells)} | {told[0]['alone']:,.0f} | {told[0]['starting']:.0f} |")
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus")
    parser.add_argument("--mb", type=float, help="the first so many MB of it")
    parser.add_argument("--superwords", default="uw", choices=("none", "boundless", "uw"))
    parser.add_argument("--vocab-size", type=int, default=131_072)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--growth", type=float, default=0.63, help="of distinct chunks with the text")
    parser.add_argument(
        "--ray-seconds", type=float, nargs=2, help="until Ray is up, and of each question: not measured"
    )
    parser.add_argument("--replay", type=Path, help="a .tsv of an earlier run")
    parser.add_argument("--work")
    given = parser.parse_args()
    if given.replay:
        about, *measured = read_tsv(given.replay)
        target = given.replay
    else:
        if not given.corpus:
            parser.error("--corpus or --replay")
        work = scratch(given.work)
        corpus = prepare(given.corpus, str(work), "blocks", given.mb)
        options = {"vocab_size": given.vocab_size, "superwords": given.superwords}
        questions, behind = measure(corpus["path"], work, options, given.memory)
        measured = [questions, behind, *(given.ray_seconds or starting(work))]
        mb = sum(units for units, _ in questions[0].tasks) / 1e6
        about = {"corpus": corpus["name"], "superwords": given.superwords, "vocab-size": str(given.vocab_size),
                 "mb": f"{mb:.0f}"}  # fmt: skip
        target = RESULTS / f"forecast-{corpus['name']}-{given.superwords}.tsv"
        write_tsv(target, about, *measured)
    told = tables(*measured, float(about["mb"]), given.growth)
    heading = f"# A forecast for many workers: {about['corpus']}, {about['superwords']}, {about['vocab-size']} ids"
    target.with_suffix(".md").write_text("\n".join([heading, "", *preamble(about), "", *told]) + "\n")
    print("\n".join(told))


if __name__ == "__main__":
    main()
