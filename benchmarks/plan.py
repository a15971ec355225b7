"""What `plan` forecasts beside what `train` then takes: time, memory, disk, distinct chunks.

    python benchmarks/plan.py en_100.txt,32768,500MB multi_60.txt,32768,1GB gen300.jsonl,131072,1GB --runs 3

Each argument is a corpus, a vocabulary size and a --memory. In every round each job is planned, then trained into a
fresh RUN, both as processes of their own; forecasts and trainings are compared by their medians. Time is the whole
`train` command, memory the peak of its process tree (harness.py), disk the most its RUN took up while it ran, looked
at every 20 ms. There is no warm-up round: the planning before each training reads the files.

Asked for: within 25 % for time and disk, within 15 % for memory. Exit code 1 if a median is further off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from harness import RESULTS, Contender, preamble, run_once, scratch, streambpe

from streambpe.disk import folder_bytes

WITHIN = {"time, s": 0.25, "memory, MB": 0.15, "disk, MB": 0.25, "disk left, MB": 0.25}


class Disk(threading.Thread):
    """The most a folder takes up until it is told to end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.most, self.ended = folder, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            self.most = max(self.most, folder_bytes(self.folder))


def forecast(options: list[str]) -> dict[str, float]:
    """What `plan` says, and how long it took."""
    began = time.monotonic()
    made = json.loads(subprocess.run(streambpe("plan", *options, "--json"), stdout=subprocess.PIPE, check=True).stdout)
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
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as folder:
        out = Path(folder) / "out"
        disk = Disk(out)
        disk.start()
        contender = Contender(
            "train",
            streambpe("train", "{out}", *options),
            outcome=lambda run: {
                "left": folder_bytes(run),
                "distinct": json.loads(
                    subprocess.run(
                        streambpe("sql", str(run), "SELECT count(*) AS n FROM chunk_counts", "--json"),
                        stdout=subprocess.PIPE,
                        check=True,
                    ).stdout
                )[0]["n"],
            },
        )
        run = run_once(contender, out, 3600)
        disk.ended.set()
        disk.join()
    if run.failed:
        sys.exit(f"{' '.join(options)}: {run.failed}")
    return {
        "time, s": run.figures["wall"],
        "memory, MB": run.figures["peak"],
        "disk, MB": disk.most / 1e6,
        "disk left, MB": int(run.facts["left"]) / 1e6,
        "distinct chunks": int(run.facts["distinct"]),
    }


def main() -> None:
    """Plan and train every job in turns, write results/plan.tsv and .md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", metavar="CORPUS,VOCAB,MEMORY")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", help="folder for RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    jobs = {job: _options(*job.split(",")) for job in arguments.jobs}
    told: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    loads = os.getloadavg()
    busy = f"{loads[0]:.1f} at the start, {loads[2]:.1f} in the quarter of an hour before"
    about = preamble({"rounds": str(arguments.runs), "load average": busy})
    with (RESULTS / "plan.tsv").open("w") as table:
        table.writelines(f"# {line}\n" for line in about)
        table.write("job\tround\twhat\tfigures\n")
        for number in range(1, arguments.runs + 1):
            for job, options in jobs.items():
                for what, figures in (("plan", forecast(options)), ("train", measured(options, work))):
                    told.setdefault((job, what), []).append(figures)
                    cells = " ".join(f"{key.split(',')[0].replace(' ', '_')}={n:.2f}" for key, n in figures.items())
                    line = f"{Path(job).name}\t{number}\t{what}\t{cells}"
                    table.write(line + "\n")
                    table.flush()
                    print(line, file=sys.stderr)
    lines = ["# plan", "", *(f"- {line}" for line in about), ""]
    lines += [
        "Medians: forecast / measured, and how far the forecast is off. planning, s: the `plan` command itself.",
        "",
    ]
    lines += ["| corpus, ids, --memory | " + " | ".join([*WITHIN, "distinct chunks", "planning, s"]) + " |"]
    lines += ["|---|" + "---|" * (len(WITHIN) + 2)]
    good = True
    for job in jobs:
        cells = []
        for figure in (*WITHIN, "distinct chunks"):
            said, took = (statistics.median(one[figure] for one in told[job, what]) for what in ("plan", "train"))
            off = said / took - 1
            good &= abs(off) <= WITHIN.get(figure, 1.0)
            digits = 0 if took >= 100 else 1
            cells.append(f"{said:,.{digits}f} / {took:,.{digits}f} ({off:+.0%})")
        cells.append(f"{statistics.median(one['planning, s'] for one in told[job, 'plan']):.1f}")
        lines.append(f"| {', '.join(Path(part).name for part in job.split(','))} | " + " | ".join(cells) + " |")
    report = "\n".join(lines) + "\n"
    (RESULTS / "plan.md").write_text(report)
    print(report)
    sys.exit(0 if good else 1)


def _options(corpus: str, vocab_size: str, memory: str) -> list[str]:
    return [str(Path(corpus).resolve()), "--vocab-size", vocab_size, "--memory", memory]


if __name__ == "__main__":
    main()
