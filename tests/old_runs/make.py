"""Make the runs of tests/old_runs with the code of this checkout: small RUNs stopped in every state, packed.

    git worktree add /tmp/old COMMIT && cp -r tests/old_runs /tmp/old/tests/
    cd /tmp/old && PYTHONPATH=. python tests/old_runs/make.py COMMIT [NAME...]

Every RUN is killed (or finished) by that commit's own code; expected.json holds the digests that the same code came to
when nothing disturbed it. tests/store/test_old_runs.py goes on with them. Run it once for each commit whose
files must stay readable, and never again for the same commit: what it made is the promise. NAMEs (of KILLS) make only
these, where only some kinds of files changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Runs name their sources by the path they had, so the corpus has to lie where any machine can put it.
CORPUS = Path("/tmp/streambpe-old-runs/corpus")
TEXT = "The cat sat on the mat. Größe, straße, 東京の天気 👩‍🚀 don’t\n"

DRIVER = """
import json, sys
from streambpe.resources import Resources
from streambpe.train.counting import sizes, worker
from streambpe.train import commands
given = json.loads(sys.argv[1])
sizes.MOST_BLOCK = sizes.LEAST_BLOCK = 30_000
worker.CHECKPOINT_SECONDS = -1.0
resources = Resources(400 * 10**6, 1)
commands.train(given["run"], given["sources"], counting=given["counting"], resources=resources,
               checkpoint_seconds=0.0, **given["options"])
"""

# name -> what is trained, and where the process is killed: place:passes (None: nowhere)
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {"vocab_size": 900}),
    "picky": ({"options": {"pattern": "gpt4"}}, {"vocab_size": 700, "tau": "0.7", "ties": "bytes"}),
    "script": ({}, {"vocab_size": 2300, "like": "script"}),
    "boundless": ({"options": {"pattern": "boundless"}}, {"vocab_size": 900, "superwords": "boundless"}),
    "superbpe": ({}, {"vocab_size": 900, "superwords": "superbpe", "transition": 500}),
    "uw": (
        {"options": {"pattern": "superbpe1"}},
        {"vocab_size": 900, "superwords": "uw", "transition": 500, "specials": ["<s>"]},
    ),
    "weights": ({"groups": ["de=*-de.txt"], "group_by": "folder"}, {"vocab_size": 700, "weights": ["de=2.5"]}),
}
KILLS: dict[str, tuple[str, str | None]] = {
    "half-counted": ("plain", "part-committed:4"),
    "half-counted-sequences": ("boundless", "part-committed:3"),
    "half-counted-groups": ("weights", "part-committed:3"),
    "folding": ("plain", "fold-filled:1"),
    "half-learned": ("plain", "events-committed:20"),
    "half-learned-picky": ("picky", "events-committed:20"),
    "half-learned-script": ("script", "events-committed:5"),
    "tables-behind": ("plain", "log-written:1"),
    "half-superwords": ("boundless", "adjacency-written:1"),
    "half-superwords-superbpe": ("superbpe", "runs-written:1"),
    "half-superwords-uw": ("uw", "tokens-written:1"),
    "superwords-tables-behind": ("boundless", "log-written:1"),
    **{name: (name, None) for name in OPTIONS},
}


def make_corpus() -> None:
    """Three sources, the same on every machine: stories of the bundled sample, and lines made here.

    Files that are there already stay: another process may be reading them.
    """
    CORPUS.mkdir(parents=True, exist_ok=True)
    sample = ROOT / "tests" / "data" / "sample"
    texts = {name: (sample / name).read_bytes() for name in ("stories-en.txt", "stories-de.txt")}
    lines = [{"text": TEXT * (1 + i % 3) + f" {i} {i * 7919 % 1000}"} for i in range(300)]
    texts["lines.jsonl"] = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    for name, text in texts.items():
        file = CORPUS / name
        if not file.exists() or file.read_bytes() != text:
            new = CORPUS.parent / f"{name}.{os.getpid()}"
            new.write_bytes(text)
            new.replace(file)


def drive(run: Path, kind: str, failpoint: str | None) -> None:
    """One training, killed where asked."""
    counting, options = OPTIONS[kind]
    given = {"run": str(run), "sources": [str(CORPUS)], "counting": counting, "options": options}
    env = {**os.environ, "STREAMBPE_FAILPOINT": failpoint or ""}
    code = subprocess.run([sys.executable, "-c", DRIVER, json.dumps(given)], env=env, cwd=ROOT, check=False).returncode
    if code != (-9 if failpoint else 0):
        raise SystemExit(f"{kind} {failpoint}: exit {code}")


def facts_of(run: Path) -> dict[str, Any]:
    """What a finished RUN came to."""
    from streambpe import Tokenizer

    log = (run / "model.events.jsonl").read_bytes()
    ids = Tokenizer.load(run).encode(TEXT)
    corpus = json.loads(log.split(b"\n", 1)[0])["corpus"]
    return {
        "events_sha256": hashlib.sha256(log.split(b"\n", 1)[1]).hexdigest(),  # of the lines below the header
        "counts_sha256": corpus["sha256"],
        "documents": corpus["documents"],
        "ids_sha256": hashlib.sha256(json.dumps(ids).encode()).hexdigest(),
    }


def pack(run: Path, file: Path) -> None:
    """A RUN as .tar.xz, owned by nobody."""

    def nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(file, "w:xz") as tar:
        tar.add(run, "run", filter=nobody)


def main(out: Path, names: Sequence[str]) -> None:
    out.mkdir(parents=True)
    made = {name: KILLS[name] for name in names or KILLS}
    make_corpus()
    work = CORPUS.parent / "making"
    shutil.rmtree(work, ignore_errors=True)
    expected: dict[str, Any] = {}
    for name, (kind, failpoint) in made.items():
        run = work / name
        drive(run, kind, failpoint)
        pack(run, out / f"{name}.tar.xz")
        expected[name] = {"kind": kind, "killed": failpoint}
    for name, (kind, _) in made.items():
        expected[name] |= facts_of(work / kind)
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(__file__).parent / sys.argv[1], sys.argv[2:])
