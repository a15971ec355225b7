"""Deletions (PickyBPE): what each tau deletes, how that changes the corpus, and what it costs.

    python benchmarks/picky.py --corpus en_100.txt.zst

One training to the largest size for plain BPE and for every tau, from a RUN that was counted before (untimed): learning
alone is measured, start-up included. The corpus is encoded chunk by chunk, all of it: `tokens` are its tokens, and
`removed` are those that were deleted and did not come back. papers.py has the vocabularies of smaller sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import COMPARING, Contender, Counted, ask, compare, parser, scratch, streambpe

TAUS = ("1", "0.9", "0.8", "0.7", "0.6")


def measure(run: str) -> dict[str, int]:
    """What the model of a RUN is like, and makes of the RUN's chunks."""
    from streambpe.encode.encoder import Encoder
    from streambpe.store.models import read_model
    from streambpe.store.parts import list_parts
    from streambpe.store.run import Run
    from streambpe.train.words import count_tokens

    encoder = Encoder(read_model(run))
    vocabulary = encoder.model.vocabulary
    born = {token.id for token in vocabulary.tokens if len(token.base) > 1}
    _, n, _ = count_tokens(list_parts(Run(run)), encoder)
    deletions = sum(event.left < 0 for event in encoder.model.events)
    return {"deletions": deletions, "removed": len(born - set(vocabulary.living)), "tokens": int(n.sum())}


def facts(out: Path) -> Mapping[str, Any]:
    """Of a finished run."""
    found: Mapping[str, Any] = ask("picky:measure", run=str(out))
    return found


def contenders(given: argparse.Namespace, counted: Counted) -> list[Contender]:
    """Plain BPE and every tau."""
    made = []
    for tau in (None, *TAUS):
        options = ["--vocab-size", str(given.vocab_size), "--memory", given.memory]
        options += ["--tau", tau, "--delete-to", given.delete_to] if tau else []
        command = streambpe("train", "{out}", *options)
        name = f"tau {tau}" if tau else "plain"
        made.append(Contender(name, command, setup=counted.copy, outcome=facts))
    return made


def main() -> None:
    """Count, measure, report."""
    options = parser(__doc__, "corpus", "mb", "vocab-size", *COMPARING, runs=3, vocab_size=65536)
    options.add_argument("--delete-to", default="bytes", choices=["bytes", "walk"])
    options.add_argument("--memory", default="1GB", metavar="SIZE")
    given = options.parse_args()
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), "blocks", given.mb)
    job = f"{given.vocab_size} ids, --delete-to {given.delete_to}, memory {given.memory}"
    about = {"job": job, "corpus": f"{corpus['name']}, blocks of 8 KiB"}
    found = contenders(given, Counted(work, [corpus["path"]]))
    sys.exit(not compare(f"picky-{corpus['name']}", found, given, about))


if __name__ == "__main__":
    main()
