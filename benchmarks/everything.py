"""All benchmarks one after the other, and the page of their results: make bench-small (minutes), make bench (hours).

    python benchmarks/everything.py --small                           # text made from the bundled sample
    python benchmarks/everything.py --corpora DIR [--only REGEX]      # of en_100.txt, en_300.txt, multi_60.txt, or .zst
    python benchmarks/everything.py --corpora DIR --list              # the jobs, and about how long they take
    python benchmarks/everything.py --corpora DIR --try               # each on 2 MB: whether all of them run

The jobs are those of jobs.txt, in its order: after an hour or so there is what the README quotes. What a job wrote is
copied to results/ when it has ended well, and docs/benchmarks.md is made anew, so a run may be stopped at any time; a
job that fails or finds that contenders did not do the same job is told at the end (exit code 1), its results stay in
--work. Peers that are not installed are left out by the scripts, which say so: make bench installs them all. Texts that
a job reads are made when it begins; a job that reads the table of BatchBPE is left out without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import corpora
import extracts
import many_chunks
import page
import synthetic
from harness import HERE, scratch
from measured import RESULTS, everything

SAMPLE = HERE.parent / "tests/data/sample"
SAMPLE_MB = 40
TRY_MB = 2
WHOLE = {"en": "en_100", "multi": "multi_60"}  # en_5 is the first 5 MB of en_100
TABLE = "fineweb_edu_1gb_counts.csv"


class Job(NamedTuple):
    """A line of jobs.txt."""

    minutes: float
    line: str
    trial: str  # more options of --try


def jobs_of(section: str) -> list[Job]:
    """One part of jobs.txt."""
    text = (HERE / "jobs.txt").read_text(encoding="utf-8").partition(f"[{section}]\n")[2].partition("\n[")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line and line[0] != "#"]
    return [Job(float(minutes), line, " ".join(trial)) for minutes, line, *trial in rows]


class Texts:
    """The texts that jobs read, by name; each is made when the first job that reads it begins."""

    def __init__(self, folder: Path | None, work: Path, most: float | None) -> None:
        self.folder, self.work, self.most = folder, work, most

    def given(self, name: str) -> Path | None:
        """One that is there, or its .zst."""
        names = (TABLE,) if name == "fineweb" else (f"{name}.txt", f"{name}.txt.zst")
        found = [self.folder / name for name in names if self.folder and (self.folder / name).exists()]
        return found[0].resolve() if found else None

    def ready(self, name: str) -> Path:
        """Its path; it is made unless it is there."""
        found = self.given(name)
        if found and (found.suffix == ".csv" or (found.suffix == ".txt" and not self.most)):
            return found
        path = self.work / (f"{name}.parquet" if name == "chunks" else f"{name}.txt")
        if not path.exists():
            print(f"{path.name} is made ...", file=sys.stderr, flush=True)
            unfinished = path.with_suffix(".unfinished")
            self._make(name, unfinished)
            unfinished.rename(path)
        return path

    def _make(self, name: str, path: Path) -> None:
        kind, _, mb = name.partition("_")
        if found := self.given("en_100" if name == "small" else name):
            corpora.copy_first(found, path, self.most)
        elif name == "small":
            synthetic.write(sorted(SAMPLE.glob("*.txt")), path, self.most or SAMPLE_MB)
        elif name == "chunks":
            many_chunks.make_table(path, 20_000 if self.most else 17_000_000, 0)
        elif kind == "synthetic":
            synthetic.write([self.ready("en_100")], path, self.most or float(mb))
        elif name in ("chinese", "code"):
            extracts.write(name, self.ready("multi_60") if name == "chinese" else None, path)
        elif name in WHOLE.values() or kind not in WHOLE:
            sys.exit(f"{self.folder}: neither {name}.txt nor {name}.txt.zst is there.")
        else:
            corpora.copy_first(self.ready(WHOLE[kind]), path, min(float(mb), self.most or float(mb)))


class Runner:
    """Runs jobs; what they write is theirs until they have ended well."""

    def __init__(self, texts: Texts, work: Path, trial: bool) -> None:
        self.texts, self.work, self.trial = texts, work, trial
        self.results = work / "results"
        if self.results.exists():
            shutil.rmtree(self.results)
        shutil.copytree(RESULTS, self.results)  # some read what others wrote

    def run(self, jobs: list[Job]) -> list[str]:
        """All of them; what failed."""
        failed = []
        for number, job in enumerate(jobs, 1):
            left = sum(one.minutes for one in jobs[number - 1 :])
            about = "" if self.trial else f"  # about {job.minutes:g} minutes; {left:.0f} with all that follow"
            print(f"\n[{number}/{len(jobs)}] $ {job.line}{about}", file=sys.stderr, flush=True)
            began, before = time.monotonic(), self._state()
            code = self.one(job)
            ended = f"exit code {code}, " if code else ""
            print(f"{ended}{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            written = [Path(name) for name, state in self._state().items() if before.get(name) != state]
            if code:
                names = ", ".join(sorted(path.name for path in written)) or "nothing"
                failed.append(f"exit code {code}: {job.line}\n  written to {self.results}: {names}")
            elif not self.trial:
                for path in written:
                    shutil.copyfile(path, RESULTS / path.name)
                page.write()
        return failed

    def _state(self) -> dict[str, tuple[int, int]]:
        """When each result was written, and its size."""
        stats = {str(path): path.stat() for path in self.results.iterdir()}
        return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}

    def one(self, job: Job) -> int:
        """Its exit code."""
        line = f"{job.line} {job.trial}" if self.trial else job.line
        script, *arguments = shlex.split(re.sub(r"{(\w+)}", lambda text: str(self.texts.ready(text[1])), line))
        env = {**os.environ, "BENCH_RESULTS": str(self.results), "TMPDIR": str(self.work)}
        command = [sys.executable, str(HERE / script), *arguments]
        return subprocess.run(command, stdout=subprocess.DEVNULL, env=env).returncode


def listed(jobs: list[Job]) -> str:
    """One line for each, with the minutes up to its end."""
    lines, sum_of = [], 0.0
    for job in jobs:
        sum_of += job.minutes
        lines.append(f"{job.minutes:5.0f} min, {sum_of:5.0f} in all: python benchmarks/{job.line}")
    return "\n".join([*lines, f"{len(jobs)} jobs, about {sum_of / 60:.1f} hours on two cores."])


def main() -> int:
    """Run, make the page, say what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="minutes instead of hours")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="with --small only en_100 is read, if it is given")
    parser.add_argument("--only", action="append", default=[], metavar="REGEX", help="benchmarks whose command has it")
    parser.add_argument("--list", action="store_true", help="only say what would be run, and about how long it takes")
    parser.add_argument("--try", action="store_true", dest="trial", help=f"{TRY_MB} MB of each text, no results kept")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    given = parser.parse_args()
    if not given.small and not given.corpora:
        parser.error("--corpora DIR is wanted, or --small")
    try:
        wanted = [re.compile(expression) for expression in given.only]
    except re.error as why:
        parser.error(f"--only is a regular expression: {why}")
    work = scratch(given.work)
    if given.trial:
        work = scratch(str(work / "try"))
    texts = Texts(given.corpora, work, TRY_MB if given.trial else None)
    chosen = [
        job
        for job in jobs_of("small" if given.small else "whole")
        if (not wanted or any(one.search(job.line) for one in wanted))
        and ("{fineweb}" not in job.line or texts.given("fineweb"))
    ]
    if not chosen:
        parser.error("no benchmark is left to run; --list without --only says which there are")
    if given.list:
        print(listed(chosen))
        return 0
    runner = Runner(texts, work, given.trial)
    failed = runner.run(chosen)
    if given.trial:
        page.pages(everything(runner.results))
        told = f"{len(chosen) - len(failed)} of {len(chosen)} jobs run; what they wrote is in {runner.results}."
    else:
        told = "docs/benchmarks.md leads to the results."
    print("\n".join([*failed, told]), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
