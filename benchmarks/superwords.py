"""Superwords: time of each phase, peak memory, and bytes per token on held-out text, compared with plain BPE.

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

import json
import sys
from pathlib import Path
from typing import Any

from corpora import hold_out, prepare
from harness import COMPARING, Contender, ask, compare, parser, scratch, streambpe

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


def learned(run: str, held: str) -> dict[str, Any]:
    """What a RUN learned, and how it encodes the documents held out."""
    from streambpe import Tokenizer
    from streambpe.model.eventlog import Op, read_event_log

    events = read_event_log(Path(run) / "model.events.jsonl").events
    tokenizer = Tokenizer(run)
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


def main() -> None:
    """Prepare, measure."""
    given_too = ("corpus", "vocab-size", "documents", "mb", "pattern", "memory", *COMPARING)
    options = parser(__doc__, *given_too, pattern="boundless", runs=3)
    options.add_argument("--kinds", action="store_true", help="compare all kinds of superwords")
    given = options.parse_args()
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), given.documents, given.mb)
    if corpus["kind"] != "jsonl":
        sys.exit("--documents blocks: lines are too many small documents to hold some out of.")
    kept, held = hold_out(Path(corpus["path"]), work, HELD_OUT)
    command = ("train", "{out}", str(kept), "--vocab-size", str(given.vocab_size), "--progress", "jsonl")
    kinds, patterns = KINDS, "pattern by kind"
    if not given.kinds:
        pattern = ["--pattern", given.pattern]
        kinds = {"superwords": [*pattern, "--superwords", "boundless"], "plain": pattern}
        patterns = f"pattern {given.pattern}"
    contenders = [
        Contender(
            f"streambpe-{name}{f' {memory}' * (len(given.memory) > 1)}",
            streambpe(*command, "--memory", memory, *extra),
            marks={stage: f'"stage": ?"{stage}"' for stage in STAGES},
            outcome=lambda out: ask("superwords:learned", run=str(out), held=str(held)),
        )
        for memory in given.memory or ["1GB"]
        for name, extra in kinds.items()
    ]
    name = f"superwords-{'kinds-' * given.kinds}{corpus['name']}-{given.vocab_size}"
    about = {"job": f"{given.vocab_size} ids, {patterns}", "corpus": corpus["name"]}
    sys.exit(not compare(name, contenders, given, about))


if __name__ == "__main__":
    main()
