"""This version of streambpe against another one, installed elsewhere: is anything slower, or larger?

    python benchmarks/versions.py --corpus en_100.txt.zst --before OTHER/.venv/bin/streambpe

Five jobs, the two versions in turns; all but the last are whole commands:

count        `count` into a fresh RUN
train        `train` on a RUN that is counted, both from the same counts by the version itself
superwords   `train --superwords boundless` from the text
encode       `encode` of the corpus with the model of `train`, to a .bin file
loops        splitting and counting in the core alone, by one thread and preset, each line of a .txt a document, in
             blocks of 1 MB into one table: the least processor seconds of the runs; only made where asked for

Whether both did the same: the learned merges must be equal (the event log without its header, which
names versions), and so must the ids, and the digest of the counts.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import COMPARING, Contender, call, compare, parser, scratch, streambpe, write_table

SIZE = ("--vocab-size", "32768")
PRESETS = ("gpt2", "gpt4", "gpt4o", "boundless", "script", "whitespace")


def digest_after(name: str, skip_lines: int = 0) -> Callable[[Path], dict[str, str]]:
    """What an outcome shows of the file NAME in {out} (or of {out} so ended): 12 hex digits of its sha256."""

    def outcome(out: Path) -> dict[str, str]:
        data = (out.with_suffix(name) if name.startswith(".") else out / name).read_bytes()
        for _ in range(skip_lines):
            data = data[data.index(b"\n") + 1 :]
        return {"sha256": str(int(hashlib.sha256(data).hexdigest()[:12], 16))}

    return outcome


def jobs(name: str, program: str, corpus: str, made: Path) -> dict[str, Contender]:
    """The four jobs of one version; what they need is made untimed."""

    def quietly(*arguments: str) -> None:
        subprocess.run([program, *arguments], check=True, capture_output=True)

    def contender(*arguments: str, **more: Any) -> Contender:
        return Contender(name, [program, *arguments], **more)

    shutil.rmtree(made, ignore_errors=True)
    quietly("train", str(made), corpus, *SIZE)
    events = digest_after("model.events.jsonl", skip_lines=1)
    return {
        "count": contender("count", "{out}", corpus, facts={"distinct": r"([\d,]+) distinct chunks"}),
        "train": contender(
            "train", "{out}", *SIZE, setup=lambda out: quietly("count", str(out), corpus), outcome=events
        ),
        "superwords": contender("train", "{out}", corpus, "--superwords", "boundless", *SIZE, outcome=events),
        "encode": contender("encode", str(made), corpus, "-o", "{out}.bin", outcome=digest_after(".bin")),
    }


def count_in_core(path: str, preset: str) -> tuple[float, str]:
    """(processor seconds, digest of the counts), of the version whose Python runs this."""
    from streambpe.core.binding import ChunkTable, lines_as_documents
    from streambpe.text.chunker import core_split
    from streambpe.text.patterns import find_pattern

    split = core_split(find_pattern(preset))
    assert split is not None, "presets are split by the core"
    with open(path, "rb") as file:
        blocks = [lines_as_documents(b"".join(lines), False) for lines in iter(lambda: file.readlines(1_000_000), [])]
    for block in blocks:
        split.learn(block)
    table, began = ChunkTable(1 << 40), time.thread_time()
    for block in blocks:
        table.count(block, split)
    spent, digest = time.thread_time() - began, hashlib.sha256()
    for array in table.take():
        digest.update(array.tobytes())
    return spent, digest.hexdigest()[:12]


def compare_loops(programs: dict[str, str], corpus: Path, runs: int, about: dict[str, str]) -> bool:
    """Writes results/versions-loops-CORPUS.tsv; whether the counts were equal."""
    rows, fine = [], True
    for preset in PRESETS:
        spent: dict[str, list[float]] = {name: [] for name in programs}
        digests = set()
        for _ in range(runs):
            for name, program in programs.items():
                command = call("versions:count_in_core", path=str(corpus), preset=preset)
                command[0] = str(Path(program).parent / "python")
                seconds, digest = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                spent[name].append(seconds)
                digests.add(digest)
        before, now = min(spent["before"]), min(spent["now"])
        rows.append([preset, f"{before:.3f}", f"{now:.3f}", f"{before / now:.2f}"])
        fine &= len(digests) == 1
    write_table(f"versions-loops-{corpus.stem}", about, ("preset", "before_s", "now_s", "ratio"), rows)
    return fine


def what_it_is(program: str) -> str:
    """The commit of the checkout that a program is installed from; if there is none, what it says of itself."""
    folder = Path(program).parent
    found = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if found.returncode == 0:
        return found.stdout.strip()
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measure the jobs asked for; ends with 1 if a job failed or the two versions made different things."""
    options = parser(__doc__, "corpus", *COMPARING)
    options.add_argument("--before", required=True, help="the other version's streambpe command")
    options.add_argument("--jobs", nargs="+", default=["count", "train", "superwords", "encode"])
    given = options.parse_args()
    work = scratch(given.work)
    programs = {"now": streambpe()[0], "before": str(Path(given.before).resolve())}
    told = {name: what_it_is(program) for name, program in programs.items()}
    if "loops" in given.jobs:
        sys.exit(not compare_loops(programs, Path(given.corpus), given.runs, told))
    corpus = prepare(given.corpus, str(work), "blocks", None)
    made = [jobs(name, program, corpus["path"], work / f"versions-{name}") for name, program in programs.items()]
    about, same = {"corpus": corpus["path"], **told}, {"distinct": 0, "sha256": 0}
    good = [
        compare(f"versions-{job}-{corpus['name']}", [found[job] for found in made], given, about, same)
        for job in given.jobs
    ]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
