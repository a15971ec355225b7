"""The papers' own tables, made again on other texts: the papers' figures next to ours, and why they differ.

    python benchmarks/papers.py --english en_100.txt --held en_300.txt --languages multi_60.txt [--only picky] [--mb 20]

What can be made with text alone is here; scores of trained models are not. What is measured on text is measured on the
first MB of --held, as many as were learned from; without it, on every hundredth document, which is held out. Nothing is
timed. Each paper has a module of its own:

    boundless   BoundlessBPE: figures 1 to 8, the deletions of section 3.1        paper_boundless.py
    picky       PickyBPE: tables 3, 5, 6, 12, 15, 18, 21 at two sizes             paper_picky.py
    batch       BatchBPE: figures 1, 2, 4, 5, sections 2 and 3                    paper_batch.py
    tutorial    the first merges of the tutorial's run, its sentence, its toy     paper_tutorial.py
    superbpe    SuperBPE: bytes per token for every transition                    paper_superbpe.py
    script      SCRIPT-BPE: tables 2 and 3 of what script.py measured, 4 and 5    paper_script.py

The Gini coefficients of parity-aware BPE are those of balance.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import paper_batch
import paper_boundless
import paper_picky
import paper_script
import paper_superbpe
import paper_tutorial
from corpora import hold_out, prepare
from harness import parser, scratch, write_table
from paper_texts import Texts
from superwords import HELD_OUT

TABLES = {
    "boundless": paper_boundless.TABLE,
    "picky": paper_picky.TABLE,
    "batch": paper_batch.TABLE,
    "tutorial": paper_tutorial.TABLE,
    "superbpe": paper_superbpe.TABLE,
    "script": paper_script.TABLE,
}
HELD_MB = 100.0


def prepared(arguments: argparse.Namespace) -> tuple[Texts, str]:
    """The texts, and what they are in words."""
    work = scratch(arguments.work)
    corpus = prepare(arguments.english, str(work), "blocks", arguments.mb)
    folder = work / f"papers-{corpus['name']}"
    folder.mkdir(exist_ok=True)
    languages = Path(arguments.languages) if arguments.languages else None
    if arguments.held is None:
        learn, held = hold_out(Path(corpus["path"]), work, HELD_OUT)
        return Texts(learn, held, languages, folder), f"{corpus['name']}, every hundredth document held out"
    other = prepare(arguments.held, str(work), "blocks", arguments.mb or HELD_MB)
    told = f"learned from {corpus['name']}, measured on {other['name']}"
    return Texts(Path(corpus["path"]), Path(other["path"]), languages, folder), told


def main() -> None:
    """Train, measure, write results/papers-*.tsv."""
    options = parser(__doc__, "mb", "work")
    options.add_argument("--english", required=True, help=".txt, .txt.zst or .jsonl (field text)")
    options.add_argument("--held", help="another text of the same kind, to measure on")
    options.add_argument("--languages", help="a .txt in many languages, for SCRIPT-BPE's tables 4 and 5")
    options.add_argument("--only", action="append", choices=list(TABLES), help="give it once for each")
    given = options.parse_args()
    texts, told = prepared(given)
    for name, table in TABLES.items():
        if given.only and name not in given.only:
            continue
        about = {"corpus": told, "difference": table.difference}
        write_table(f"papers-{name}", about, ("what", "the paper", "here"), table.make(texts))
        for which, make in table.curves.items():
            curve = make(texts)
            if curve.rows:
                write_table(f"papers-{name}-{which}", {"corpus": told, "paper": curve.paper}, curve.columns, curve.rows)
            else:
                print(f"papers-{name}-{which} is left out: it wants --languages FILE.", file=sys.stderr)


if __name__ == "__main__":
    main()
