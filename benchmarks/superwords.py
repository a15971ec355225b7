"""Superwords: time of each phase, peak memory, and bytes per token on held-out text beside plain BPE.

    python benchmarks/superwords.py --corpus en_100.txt.zst --vocab-size 131072 --memory 1GB
    python benchmarks/superwords.py --corpus synthetic_300.jsonl --vocab-size 131072 --memory 1GB --memory 512MB

    python benchmarks/superwords.py --corpus en_100.txt.zst --kinds --memory 2GB --runs 1 --no-warm-up

streambpe-superwords  `train --superwords boundless` into a fresh RUN: counts with sequences, learns both phases
streambpe-plain       `train` with the same pattern and size, for the gain
--kinds               instead of these two, a row for each kind of superwords, as docs/superwords.md shows them

Every hundredth document is held out: it is not learned from, and both vocabularies encode it. The phases are the
lines that `--progress jsonl` prints on stderr: when each stage was first seen, to half a second.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import Contender, ask, chosen, compare, scratch, streambpe

HELD_OUT = 100  # one document in so many
STAGES = ("counting", "words", "learning", "neighbours", "runs", "superwords", "documents", "writing", "trained")
KINDS = {  # rows of docs/superwords.md
    "none": ["--pattern", "gpt4o"],
    "boundless, published": ["--pattern", "boundless", "--superwords", "boundless"],
    "boundless over gpt4o": ["--pattern", "gpt4o", "--superwords", "boundless"],
    "superbpe": ["--pattern", "gpt4o", "--superwords", "superbpe"],
    "uw": ["--superwords", "uw"],
}
INTERVAL = 8192  # events, for the share of supermerges


def hold_out(corpus: dict[str, str], work: Path) -> tuple[Path, Path]:
    """(documents to learn from, documents held out), as JSON lines."""
    kept, held = (work / f"{corpus['name']}.{part}.jsonl" for part in ("kept", "held"))
    if not held.exists():
        unfinished = held.with_suffix(".unfinished")
        with open(corpus["path"], "rb") as source, kept.open("wb") as learn, unfinished.open("wb") as test:
            for i, line in enumerate(source):
                (test if i % HELD_OUT == HELD_OUT - 1 else learn).write(line)
        unfinished.rename(held)
    return kept, held


def learned(run: str, held: str) -> dict[str, Any]:
    """What a RUN learned, and how it encodes the documents held out."""
    from streambpe import Tokenizer
    from streambpe.model.eventlog import Op, read_event_log

    events = read_event_log(Path(run) / "model.events.jsonl").events
    tokenizer = Tokenizer.load(run)
    size = tokens = 0
    with open(held, "rb") as source:
        for line in source:
            text = json.loads(line)["text"]
            size += len(text.encode())
            tokens += len(tokenizer.encode_ordinary(text))
    supers = [event.op is Op.SUPERMERGE for event in events]
    shares = [
        f"{100 * sum(supers[i : i + INTERVAL]) / len(supers[i : i + INTERVAL]):.0f}"
        for i in range(0, len(supers), INTERVAL)
    ]
    facts: dict[str, Any] = {"events": len(events), "bytes_per_token": round(size / max(1, tokens), 4)}
    if any(supers):
        facts |= {"supermerges": sum(supers), f"percent_of_each_{INTERVAL}": " ".join(shares)}
    return facts


def outcome(held: Path) -> Callable[[Path], Mapping[str, Any]]:
    """Facts of a finished run."""
    return lambda out: ask("superwords:learned", run=str(out), held=str(held))


def main() -> None:
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help=".txt, .txt.zst or .jsonl (field text)")
    parser.add_argument("--vocab-size", type=int, default=131_072)
    parser.add_argument("--documents", choices=["blocks", "lines"], default="blocks", help="of a text (corpora.py)")
    parser.add_argument("--mb", type=float, help="only the first MB of the corpus, to try things out")
    parser.add_argument("--pattern", default="boundless")
    parser.add_argument("--kinds", action="store_true", help="compare all kinds of superwords")
    parser.add_argument("--memory", action="append", default=[], metavar="SIZE", help="more than one to compare")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-warm-up", action="store_true", help="for runs of many minutes")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--only", action="append", metavar="CONTENDER", help="give it once for each to keep")
    parser.add_argument("--name", help="of the result files (default: superwords-, the corpus and the size)")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    corpus = prepare(arguments.corpus, str(work), arguments.documents, arguments.mb)
    if corpus["kind"] != "jsonl":
        sys.exit("--documents blocks: lines are too many small documents to hold some out of.")
    kept, held = hold_out(corpus, work)
    options = [str(kept), "--vocab-size", str(arguments.vocab_size)]
    kinds, patterns = KINDS, "pattern by kind"
    if not arguments.kinds:
        pattern = ["--pattern", arguments.pattern]
        kinds = {"superwords": [*pattern, "--superwords", "boundless"], "plain": pattern}
        patterns = f"pattern {arguments.pattern}"
    found = []
    for memory in arguments.memory or ["1GB"]:
        more = f" {memory}" if len(arguments.memory) > 1 else ""
        for name, extra in kinds.items():
            found.append(
                Contender(
                    f"streambpe-{name}{more}",
                    streambpe("train", "{out}", *options, "--memory", memory, "--progress", "jsonl", *extra),
                    marks={stage: f'"stage": ?"{stage}"' for stage in STAGES},
                    outcome=outcome(held),
                )
            )
    good = compare(
        arguments.name or f"superwords-{'kinds-' * arguments.kinds}{corpus['name']}-{arguments.vocab_size}",
        chosen(found, arguments.only),
        runs=arguments.runs,
        warm_up=not arguments.no_warm_up,
        work=work,
        about={"job": f"{arguments.vocab_size} ids, {patterns}", "corpus": corpus["name"]},
        timeout_seconds=arguments.timeout,
        same={},
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
