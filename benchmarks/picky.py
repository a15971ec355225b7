"""Deletions (PickyBPE): what each tau deletes, how that changes vocabulary and corpus, and what it costs.

    python benchmarks/picky.py --corpus en_100.txt.zst

One training to the largest size for plain BPE and for every tau, from a RUN that was counted before (untimed): learning
alone is measured, start-up included. Smaller vocabularies are cut from it; they are what a training of that size
learns. The corpus is encoded chunk by chunk, all of it.

    removed       tokens that were deleted and did not come back; the share is of all that were ever learned
    corpus        its tokens, beside those of plain BPE of the same size
    word-initial  learned tokens that begin with a space
    length        bytes of a learned token, the mean
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import COMPARING, Contender, Counted, ask, compare, parser, scratch, streambpe, write_table

TAUS = ("1", "0.9", "0.8", "0.7", "0.6")
SIZES = (8192, 16384, 32768, 65536)


def measure(run: str, sizes: list[int]) -> dict[str, dict[str, float]]:
    """By size: what the model of a RUN, cut to it, is like and makes of the RUN's chunks."""
    from streambpe.encode.encoder import Encoder
    from streambpe.store.models import read_model
    from streambpe.store.parts import list_parts
    from streambpe.store.run import Run
    from streambpe.train.words import count_tokens

    log, parts = read_model(run), list_parts(Run(run))
    found = {}
    for size in sizes:
        encoder = Encoder(log, size)
        vocabulary = encoder.model.vocabulary
        born = [token for token in vocabulary.tokens if len(token.base) > 1]
        learned = [token.content for token in born if token.id in vocabulary.living]
        _, n, _ = count_tokens(parts, encoder)
        found[str(size)] = {
            "deletions": sum(event.left < 0 for event in encoder.model.events),
            "removed": len(born) - len(learned),
            "born": len(born),
            "tokens": int(n.sum()),
            "word_initial": sum(content.startswith(b" ") for content in learned) / len(learned),
            "length": statistics.fmean(map(len, learned)),
        }
    return found


def name_of(tau: str | None) -> str:
    """What a training is called in the results."""
    return f"tau {tau}" if tau else "plain"


def contenders(arguments: argparse.Namespace, counted: Counted, found: dict[str, Any]) -> list[Contender]:
    """Plain BPE and every tau; `found` takes what each vocabulary is like."""
    made = []
    for tau in (None, *TAUS):
        options = ["--vocab-size", str(max(arguments.size)), "--memory", arguments.memory]
        options += ["--tau", tau, "--delete-to", arguments.delete_to] if tau else []
        made.append(
            Contender(
                name_of(tau),
                streambpe("train", "{out}", *options),
                setup=counted.copy,
                outcome=outcome(name_of(tau), arguments.size, found),
            )
        )
    return made


def outcome(name: str, sizes: list[int], found: dict[str, Any]) -> Callable[[Path], Mapping[str, Any]]:
    """Measure a vocabulary once; every run of it learns the same."""

    def facts(out: Path) -> Mapping[str, Any]:
        if name not in found:
            found[name] = ask("picky:measure", run=str(out), sizes=sizes)
        return {key: found[name][str(max(sizes))][key] for key in ("deletions", "removed", "tokens")}

    return facts


def by_size(sizes: list[int], found: dict[str, Any]) -> Iterator[list[str]]:
    """What every tau does at every size."""
    for size, name in product(map(str, sizes), found):
        row, plain = found[name][size], found.get(name_of(None), found[name])[size]
        yield [
            name,
            size,
            f"{row['deletions']:,}",
            f"{row['removed']:,} ({row['removed'] / row['born']:.1%})",
            f"{row['tokens']:,}",
            f"{row['tokens'] / plain['tokens']:.4f}",
            f"{row['word_initial']:.1%}",
            f"{row['length']:.2f}",
        ]


def main() -> None:
    """Count, measure, report."""
    options = parser(__doc__, "corpus", "mb", *COMPARING, runs=3)
    options.add_argument("--size", type=int, action="append", help="give it once for each (default: 8192 to 65536)")
    options.add_argument("--delete-to", default="bytes", choices=["bytes", "walk"])
    options.add_argument("--memory", default="1GB", metavar="SIZE")
    given = options.parse_args()
    given.size = sorted(given.size or SIZES)
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), "blocks", given.mb)
    counted = Counted(work, [corpus["path"]])
    found: dict[str, Any] = {}
    name = given.name or f"picky-{corpus['name']}"
    job = f"{max(given.size)} ids, --delete-to {given.delete_to}, memory {given.memory}"
    about = {"job": job, "corpus": f"{corpus['name']}, blocks of 8 KiB"}
    good = compare(name, contenders(given, counted, found), given, about)
    columns = ("training", "vocabulary", "deletions", "removed", "corpus", "to plain", "word-initial", "length")
    write_table(f"{name}-sizes", about, columns, by_size(given.size, found))
    sys.exit(not good)


if __name__ == "__main__":
    main()
