"""What it costs a training to be queried: a second process queries its RUN every 100 ms while it learns.

    python benchmarks/queried.py --corpus en_100.txt --vocab-size 131072

alone    `train` on a copy of a counted RUN
queried  the same beside a process that opens RUN/state.duckdb read-only, runs one of QUERIES, closes it, and does so
         every 100 ms, from before the training starts until it has ended

Every query must be answered: one that fails, or finds the file locked for longer than `sql` waits, fails the benchmark.
Both learn the same tokens. Asked for: under 5 % slower.
"""

from __future__ import annotations

import io
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import COMPARING, Contender, Counted, call, compare, parser, scratch, streambpe
from train import outcome

EVERY_SECONDS = 0.1
QUERIES = (
    "FROM progress",
    "SELECT count(*) AS events, min(n) AS count_now FROM events",
    "SELECT * FROM merge_curve ORDER BY seq DESC LIMIT 10",
    "SELECT mode, count(*) AS passes, sum(events) AS events, sum(seconds) AS seconds FROM batches GROUP BY mode",
)


def ask_on(run: str) -> None:
    """Ask until told to end by SIGTERM; then say how it went."""
    from streambpe.inspect.query import Query

    going = True

    def end(*_: Any) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, end)
    took = []
    for query in itertools.cycle(QUERIES):
        began = time.monotonic()
        Query(run, query).print("json", io.StringIO())
        took.append(time.monotonic() - began)
        if len(took) == 1:
            print("asking", flush=True)
        if not going:
            break
        time.sleep(max(0.0, EVERY_SECONDS - took[-1]))
    took.sort()
    print(json.dumps({"queries": len(took), "median_ms": round(1000 * took[len(took) // 2], 1),
                      "slowest_ms": round(1000 * took[-1], 1)}))  # fmt: skip


class Asked:
    """A counted RUN, copied for every training, with somebody asking."""

    def __init__(self, counted: Counted, tokens: Any) -> None:
        self.counted, self.tokens = counted, tokens
        self.asker: subprocess.Popen[str] | None = None

    def start(self, out: Path) -> None:
        """Copy, and ask for the first time."""
        self.counted.copy(out)
        self.asker = subprocess.Popen(call("queried:ask_on", run=str(out)), stdout=subprocess.PIPE, text=True)
        assert self.asker.stdout is not None
        if self.asker.stdout.readline() != "asking\n":
            sys.exit("The first query failed.")

    def end(self, out: Path) -> Mapping[str, Any]:
        """What was learned, and what the one who asked says."""
        assert self.asker is not None
        self.asker.terminate()
        said, _ = self.asker.communicate(timeout=60)
        if self.asker.returncode:
            sys.exit(f"A query failed; see above. Answered before: {said}")
        return {**self.tokens(out), **json.loads(said.splitlines()[0])}


def main() -> None:
    """Prepare, measure, report."""
    options = parser(__doc__, "corpus", "vocab-size", *COMPARING)
    options.add_argument("--memory", default="1GB")
    options.add_argument("--learner", default="core", choices=("core", "tables"))
    given = options.parse_args()
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), "blocks", None)
    judge = work / "first-result"
    judge.unlink(missing_ok=True)
    counted, tokens = Counted(work, [corpus["path"]]), outcome("", judge)
    asked = Asked(counted, tokens)
    limits = ("--memory", given.memory, "--learner", given.learner)
    command = streambpe("train", "{out}", "--vocab-size", str(given.vocab_size), *limits)
    contenders = [
        Contender("alone", command, setup=counted.copy, outcome=tokens),
        Contender("queried", command, setup=asked.start, outcome=asked.end),
    ]
    name = f"queried-{corpus['name']}-{given.vocab_size}{'' if given.learner == 'core' else '-' + given.learner}"
    job = f"{corpus['name']} to {given.vocab_size} ids, counted before"
    about = {"job": job, "asked": f"every {EVERY_SECONDS} s"}
    sys.exit(not compare(name, contenders, given, about, {"tokens": 0}))


if __name__ == "__main__":
    main()
