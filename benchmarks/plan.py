"""What `plan` forecasts, compared with what `train` then takes: time, memory, disk, distinct chunks.

    python benchmarks/plan.py en_100.txt,32768,500MB synthetic_3000.jsonl,131072,2GB en_300.txt,65536,2GB,uw --runs 3

Each argument is a corpus, a vocabulary size, a --memory and, for superwords, their kind. In every round each job is
planned, then trained into a fresh RUN, both as processes of their own; forecasts and trainings are compared by their
medians. Time is the whole `train` command, memory the peak of its process tree, disk the most its RUN took up while it
ran (harness.py). There is no warm-up round: the planning before each training reads the files.

Asked for: within 15 % for memory and disk, within 25 % for time. Exit code 1 if a median is further off.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from harness import Contender, Table, parser, run_once, scratch, streambpe, untimed

from streambpe.disk import folder_bytes

WITHIN = {"time, s": 0.25, "memory, MB": 0.15, "disk, MB": 0.15, "disk left, MB": 0.15}


def forecast(options: list[str]) -> dict[str, float]:
    """What `plan` says, and how long it took."""
    began = time.monotonic()
    made = json.loads(untimed("plan", *options, "--json"))
    return {
        "time, s": made["seconds"],
        "memory, MB": made["memory_bytes"] / 1e6,
        "disk, MB": made["disk_bytes"] / 1e6,
        "disk left, MB": made["disk_left_bytes"] / 1e6,
        "distinct chunks": made["distinct"],
        "planning, s": time.monotonic() - began,
    }


def measured(options: list[str], work: Path) -> dict[str, float]:
    """What `train` takes."""

    def left(run: Path) -> Mapping[str, Any]:
        found = json.loads(untimed("sql", str(run), "SELECT count(*) AS n FROM chunk_counts", "--json"))
        return {"left": folder_bytes(run), "distinct": found[0]["n"]}

    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as folder:
        contender = Contender("train", streambpe("train", "{out}", *options), outcome=left)
        run = run_once(contender, Path(folder) / "out", 3600)
    if run.failed:
        sys.exit(f"{' '.join(options)}: {run.failed}")
    return {
        "time, s": run.figures["wall"],
        "memory, MB": run.figures["peak"],
        "disk, MB": run.figures["disk"],
        "disk left, MB": int(run.facts["left"]) / 1e6,
        "distinct chunks": int(run.facts["distinct"]),
    }


def main() -> None:
    """Plan and train every job in turns, write results/plan.tsv."""
    options = parser(__doc__, "runs", "work", runs=3)
    options.add_argument("jobs", nargs="+", metavar="CORPUS,VOCAB,MEMORY[,SUPERWORDS]")
    options.add_argument("--rehearse", help="what plan reads, of texts that it says to train on")
    given = options.parse_args()
    told: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    with Table("plan", {"rounds": str(given.runs)}, ("job", "round", "what", "figures")) as table:
        for number, job in product(range(1, given.runs + 1), given.jobs):
            corpus, vocab_size, memory, *superwords = job.split(",")
            asked = [str(Path(corpus).resolve()), "--vocab-size", vocab_size, "--memory", memory]
            asked += [part for kind in superwords for part in ("--superwords", kind)]
            planned = forecast(asked + (["--rehearse", given.rehearse] if given.rehearse else []))
            for what, figures in (("plan", planned), ("train", measured(asked, scratch(given.work)))):
                told.setdefault((job, what), []).append(figures)
                cells = " ".join(f"{key.split(',')[0].replace(' ', '_')}={n:.2f}" for key, n in figures.items())
                table.add(Path(job).name, number, what, cells)
    wrong = []
    for job, (figure, within) in product(given.jobs, WITHIN.items()):
        said, took = (statistics.median(one[figure] for one in told[job, what]) for what in ("plan", "train"))
        print(f"{Path(job).name}: {figure}: {said:,.1f} / {took:,.1f} ({said / took - 1:+.0%})")
        if abs(said / took - 1) > within:
            wrong.append(f"{Path(job).name}: {figure} is off by {said / took - 1:+.0%}")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
