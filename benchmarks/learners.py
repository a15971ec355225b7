"""Both learners, the core and the tables: the whole command, from text to a vocabulary, under the same limits.

    python benchmarks/learners.py --corpus en_100.txt --memory 512MB --memory 2GB

core    `train --learner core`, as nobody needs to say
tables  `train --learner tables`: the same events by passes of DuckDB and Polars over blocks on disk

Both must write the same event log. Asked for: the tables take at most 12 times as long as the core.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import Contender, compare, scratch, streambpe


def log_of(run: Path) -> Mapping[str, Any]:
    """What was learned, as a digest of the event log."""
    log = (run / "model.events.jsonl").read_bytes()
    return {"learned": log.count(b"\n") - 1, "log": hashlib.sha256(log).hexdigest()[:12]}


def main() -> None:
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--vocab-size", type=int, default=32_768)
    parser.add_argument("--memory", action="append", default=[], metavar="SIZE", help="both learners for each")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--work", help="folder for RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    corpus = prepare(arguments.corpus, str(work), "blocks", None)
    command = ("train", "{out}", corpus["path"], "--vocab-size", str(arguments.vocab_size), "--threads", "2")
    good = compare(
        f"learners-{corpus['name']}-{arguments.vocab_size}",
        [
            Contender(
                f"{learner} {memory}",
                streambpe(*command, "--memory", memory, "--learner", learner),
                outcome=log_of,
            )
            for memory in arguments.memory or ["512MB", "2GB"]
            for learner in ("core", "tables")
        ],
        runs=arguments.runs,
        warm_up=False,
        work=work,
        about={"job": f"{corpus['name']} to {arguments.vocab_size} ids, from text"},
        same={"log": 0},
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
