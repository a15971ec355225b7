"""Counting the distinct chunks of a corpus: streambpe against tokenizers and rustbpe.

    python benchmarks/count.py --corpus en_100.txt.zst

All count the same documents, split by the same expression (gpt4 unless --pattern names another preset)
with the same number of threads, each from scratch in a process of its own.

streambpe    `count` into a fresh RUN: reads, cuts, counts, and leaves the counts on disk, committed
+sequences   also stores every document as chunk ids
+memory SIZE the same under a limit for the whole process tree
rustbpe      has no way to only count. `train_from_iterator` with vocab_size=256 counts, then builds its index
             of pairs and learns nothing; nothing is kept. Its log tells when counting ended: column `counted`
tokenizers   neither has it. `BpeTrainer` with vocab_size=256, the size of its alphabet, counts, makes words of
             the chunks, counts pairs and learns nothing; `counted` likewise
read_only    only the Python iterator both peers are fed from, to know its share

Compare `wall` (what one waits for) with `wall`, and `counted` with our `wall` (which includes start-up and
the commit) for counting alone, the comparison that flatters the peers most.

Whether all did the same job: the numbers of distinct chunks must agree within 0.1 % (the engines know
different versions of Unicode), rustbpe's commonest pair must occur as often as in our table (within
0.1 %: this sees totals), and rustbpe and tokenizers must learn the same first hundred tokens.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import COMPARING, Contender, ask, call, compare, parser, scratch, streambpe, untimed

from streambpe.model.eventlog import read_event_log
from streambpe.text.patterns import find_pattern

DISTINCT_RUSTBPE = r"Processed \d+ sequences total, (\d+) unique"
DISTINCT_TOKENIZERS = r'"Tokenize words","current":0,"total":(\d+)'
TIES = 3  # of the first 100 tokens: the last of them may count as much as those behind, which peers order otherwise
TOLERANCE = 0.001


def peers(threads: int) -> dict[str, str]:
    """Environment that gives the peers their threads."""
    return {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"}


def contenders(corpus: dict[str, str], arguments: argparse.Namespace, pattern: str) -> list[Contender]:
    """Ours first: ratios are to it."""
    source = {"path": corpus["path"], "kind": corpus["kind"]}
    counting = [corpus["path"], "--pattern", arguments.pattern, "--threads", str(arguments.threads)]
    counting += ["--lines"] if corpus["kind"] == "lines" else []
    ours: dict[str, list[str]] = {"streambpe": [], "streambpe+sequences": ["--sequences"]}
    for size in arguments.memory:
        ours[f"streambpe+memory {size}"] = ["--memory", size]
    found = [
        Contender(
            name,
            streambpe("count", "{out}", *counting, *extra),
            facts={"distinct": r"([\d,]+) distinct chunks", "chunks": r"([\d,]+) in all"},
        )
        for name, extra in ours.items()
    ]
    job = {**source, "pattern": pattern, "vocab_size": 256}
    env = peers(arguments.threads)
    found += [
        Contender(
            "rustbpe",
            call("peers:train_rustbpe", **job),
            env,
            needs="rustbpe",
            marks={"counted": DISTINCT_RUSTBPE, "pairs indexed": "Starting merge loop"},
            facts={"distinct": DISTINCT_RUSTBPE},
        ),
        Contender(
            "tokenizers",
            call("peers:train_tokenizers", **job, log=True),
            env,
            needs="tokenizers",
            marks={"counted": DISTINCT_TOKENIZERS, "pairs indexed": r'"Compute merges","current":0'},
            facts={"distinct": DISTINCT_TOKENIZERS},
        ),
        Contender("read_only", call("peers:read_only", **source)),
    ]
    return found


def same_job(corpus: dict[str, str], arguments: argparse.Namespace, pattern: str, work: Path) -> tuple[list[str], bool]:
    """Untimed: what the peers' logs let us check of their counts. What was found, and whether it agrees."""
    source = {"path": corpus["path"], "kind": corpus["kind"], "pattern": pattern}
    with tempfile.TemporaryDirectory(dir=work, prefix="same-") as folder:
        lines = ["--lines"] if corpus["kind"] == "lines" else []
        options = ("--pattern", arguments.pattern, "--like", "rustbpe", "--vocab-size", "257")
        untimed("train", f"{folder}/run", corpus["path"], *options, *lines)
        (first,) = read_event_log(Path(folder) / "run" / "model.events.jsonl").events
        ours = {"pair": [first.left, first.right], "n": first.n}
        theirs = ask("count:commonest_pair_of_rustbpe", **source)
        learned = []
        for peer in ("rustbpe", "tokenizers"):
            out = f"{folder}/{peer}"
            subprocess.run(
                call(f"peers:train_{peer}", **source, vocab_size=356, out=out), check=True, capture_output=True
            )
            learned.append(ask("count:learned", path=out))
    near = ours["pair"] == theirs["pair"] and abs(ours["n"] - theirs["n"]) <= TOLERANCE * ours["n"]
    common = len(set(learned[0]) & set(learned[1]))
    said = [
        f"commonest pair: streambpe {ours['pair']} {ours['n']} times, rustbpe {theirs['pair']} {theirs['n']} times",
        f"first 100 tokens of rustbpe and tokenizers: {common} in common",
    ]
    return said, near and common >= 100 - TIES


def commonest_pair_of_rustbpe(path: str, kind: str, pattern: str) -> dict[str, Any]:
    """As its log tells it when it learns a single merge."""
    import logging
    import re

    import rustbpe
    from peers import read_documents

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    rustbpe.Tokenizer().train_from_iterator(read_documents(path, kind), vocab_size=257, pattern=pattern)
    found = re.search(r"Last merge: \((\d+), (\d+)\) -> 256 \(frequency: (\d+)\)", "\n".join(said))
    assert found is not None, said
    return {"pair": [int(found[1]), int(found[2])], "n": int(found[3])}


def learned(path: str) -> list[str]:
    """Tokens in hex: bytes do not fit into JSON."""
    from peers import learned_from

    return [token.hex() for token in learned_from(path)[0]]


def described(corpus: dict[str, str]) -> str:
    """A corpus in words."""
    size = ask("corpora:describe", path=corpus["path"], kind=corpus["kind"])
    told = f"{size['bytes'] / 1e6:.1f} MB of text in {size['documents']} documents"
    return f"{corpus['name']}, {told} ({corpus['documents']}, read as {corpus['kind']})"


def main() -> None:
    """Prepare, measure, check."""
    options = parser(__doc__, "corpus", "documents", "mb", "pattern", "threads", "memory", *COMPARING)
    options.add_argument("--no-same-job", action="store_true", help="leave out the untimed check of the peers' counts")
    given = options.parse_args()
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), given.documents, given.mb)
    pattern = find_pattern(given.pattern).expression
    about = {"corpus": described(corpus), "pattern": f"{given.pattern}, threads: {given.threads} each"}
    agrees = True
    if not given.no_same_job:
        said, agrees = same_job(corpus, given, pattern, work)
        about["same job" if agrees else "NOT THE SAME JOB"] = "; ".join(said)
    name, found = f"count-{corpus['name']}", contenders(corpus, given, pattern)
    sys.exit(not (compare(name, found, given, about, {"distinct": TOLERANCE}) and agrees))


if __name__ == "__main__":
    main()
