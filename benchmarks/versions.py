"""This version of streambpe against another one, installed elsewhere: is anything slower, or larger?

    python benchmarks/versions.py --corpus en_100.txt.zst --before OTHER/.venv/bin/streambpe

Four jobs, each a whole command, the two versions in turns:

count        `count` into a fresh RUN
train        `train` on a RUN that is counted, both from the same counts by the version itself
superwords   `train --superwords boundless` from the text
encode       `encode` of the corpus with the model of `train`, to a .bin file

Whether both did the same: the learned merges must be equal (the event log without its header, which
names versions), and so must the ids.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from corpora import prepare
from harness import Contender, compare, copy_run, scratch, streambpe


def digest_after(name: str, skip_lines: int = 0) -> Callable[[Path], dict[str, str]]:
    """What an outcome shows of the file NAME in {out} (or of {out} so ended): 12 hex digits of its sha256."""

    def outcome(out: Path) -> dict[str, str]:
        data = (out.with_suffix(name) if name.startswith(".") else out / name).read_bytes()
        for _ in range(skip_lines):
            data = data[data.index(b"\n") + 1 :]
        return {"sha256": str(int(hashlib.sha256(data).hexdigest()[:12], 16))}

    return outcome


def jobs(program: str, corpus: str, made: Path) -> dict[str, Contender]:
    """The four jobs of one version; what they need is made under `made`, untimed."""
    shutil.rmtree(made, ignore_errors=True)
    counted, trained = made / "counted", made / "trained"
    subprocess.run([program, "count", str(counted), corpus], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(
        [program, "train", str(trained), corpus, "--vocab-size", "32768"],
        check=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    events = digest_after("model.events.jsonl", skip_lines=1)
    return {
        "count": Contender("", [program, "count", "{out}", corpus], facts={"distinct": r"([\d,]+) distinct chunks"}),
        "train": Contender(
            "",
            [program, "train", "{out}", "--vocab-size", "32768"],
            setup=lambda out: copy_run(counted, out),
            outcome=events,
        ),
        "superwords": Contender(
            "",
            [program, "train", "{out}", corpus, "--superwords", "boundless", "--vocab-size", "32768"],
            outcome=events,
        ),
        "encode": Contender(
            "", [program, "encode", str(trained), corpus, "-o", "{out}.bin"], outcome=digest_after(".bin")
        ),
    }


def what_it_is(program: str) -> str:
    """The commit of the checkout that a program is installed from; if there is none, what it says of itself."""
    folder = Path(program).parent
    found = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if found.returncode == 0:
        return found.stdout.strip()
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measure the jobs asked for; ends with 1 if a job failed or the two versions made different things."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--before", required=True, help="the other version's streambpe command")
    parser.add_argument("--jobs", nargs="+", default=["count", "train", "superwords", "encode"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    corpus = prepare(arguments.corpus, str(work), "blocks", None)
    programs = {"now": streambpe()[0], "before": str(Path(arguments.before).resolve())}
    made = {name: jobs(program, corpus["path"], work / f"versions-{name}") for name, program in programs.items()}
    told = {name: what_it_is(program) for name, program in programs.items()}
    fine = True
    for job in arguments.jobs:
        contenders = [
            Contender(
                name, found[job].command, setup=found[job].setup, facts=found[job].facts, outcome=found[job].outcome
            )
            for name, found in made.items()
        ]
        about = {"corpus": corpus["path"], **told}
        name = f"versions-{job}-{corpus['name']}"
        fine &= compare(
            name, contenders, runs=arguments.runs, work=work, about=about, same={"distinct": 0, "sha256": 0}
        )
    sys.exit(not fine)


if __name__ == "__main__":
    main()
