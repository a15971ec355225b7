"""Deletions (PickyBPE): what each tau takes back, what it does to vocabulary and corpus, and what it costs.

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
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import RESULTS, Contender, ask, chosen, compare, copy_run, scratch, streambpe

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
            "deletions": sum(event.left is None for event in encoder.model.events),
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


def contenders(arguments: argparse.Namespace, counted: Path, found: dict[str, Any]) -> list[Contender]:
    """Plain BPE and every tau; `found` takes what each vocabulary is like."""
    made = []
    for tau in (None, *TAUS):
        options = ["--vocab-size", str(max(arguments.size)), "--memory", arguments.memory]
        options += ["--tau", tau, "--delete-to", arguments.delete_to] if tau else []
        made.append(
            Contender(
                name_of(tau),
                streambpe("train", "{out}", *options),
                setup=lambda out: copy_run(counted, out),
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


def tables(sizes: list[int], found: dict[str, Any]) -> str:
    """What every tau does at every size."""
    lines = []
    for size in sizes:
        lines += [
            "",
            f"## {size:,} ids",
            "",
            "| | deletions | removed | of all | corpus | to plain | word-initial | length |",
        ]
        lines.append("|---|---|---|---|---|---|---|---|")
        for name, by_size in found.items():
            row = by_size[str(size)]
            plain = found.get(name_of(None), by_size)[str(size)]["tokens"]
            lines.append(
                f"| {name} | {row['deletions']:,} | {row['removed']:,} | {100 * row['removed'] / row['born']:.1f} % "
                f"| {row['tokens']:,} | {row['tokens'] / plain:.4f} | {100 * row['word_initial']:.1f} % "
                f"| {row['length']:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Count, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help=".txt, .txt.zst or .jsonl (field text)")
    parser.add_argument("--size", type=int, action="append", help="give it once for each (default: 8192 to 65536)")
    parser.add_argument("--delete-to", default="bytes", choices=["bytes", "walk"])
    parser.add_argument("--memory", default="1GB", metavar="SIZE")
    parser.add_argument("--mb", type=float, help="only the first MB of the corpus, to try things out")
    parser.add_argument("--only", action="append", metavar="CONTENDER", help="give it once for each to keep")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", help="of the result files (default: picky- and the corpus)")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    arguments.size = sorted(arguments.size or SIZES)
    work = scratch(arguments.work)
    corpus = prepare(arguments.corpus, str(work), "blocks", arguments.mb)
    counted = work / f"counted-{corpus['name']}"
    subprocess.run(streambpe("count", str(counted), corpus["path"]), check=True, capture_output=True)
    found: dict[str, Any] = {}
    name = arguments.name or f"picky-{corpus['name']}"
    good = compare(
        name,
        chosen(contenders(arguments, counted, found), arguments.only),
        runs=arguments.runs,
        work=work,
        about={
            "job": f"{max(arguments.size)} ids, --delete-to {arguments.delete_to}, memory {arguments.memory}",
            "corpus": f"{corpus['name']}, blocks of 8 KiB",
        },
    )
    report = RESULTS / f"{name}.md"
    more = tables(arguments.size, found)
    report.write_text(report.read_text() + more)
    print(more)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
