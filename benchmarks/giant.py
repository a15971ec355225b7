"""One chunk of many megabytes: what counting it, learning from it and encoding it takes, and whether that is linear.

    python benchmarks/giant.py --corpus en_100.txt

A source is one chunk: letters, digits or letters of two bytes drawn at random, or blanks; by --pattern (again for each)
as far as that takes it for one. Each at half the size and at the whole of --mb: twice the size must take no more than
twice the time, and twice the memory over start-up. The model that encodes has 8 000 ids of the first 5 MB of --corpus.

There is no peer: those at hand take quadratic time for such a chunk. Writes results/giant.tsv.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from harness import COMPARING, Contender, compare, parser, scratch, streambpe, untimed

KINDS = ("letters", "digits", "blanks", "greek")


def write_chunk(kind: str, size: int, out: Path) -> None:
    """A file beside {out} that is one chunk, the same for a size."""
    random, path = np.random.default_rng(1), out.with_suffix(".txt")
    if kind == "blanks":
        path.write_bytes(b" " * size)
    elif kind == "greek":
        path.write_text("".join(map(chr, random.integers(0x3B1, 0x3C1, size // 2).tolist())), encoding="utf-8")
    else:
        low, high = (97, 123) if kind == "letters" else (48, 58)
        path.write_bytes(random.integers(low, high, size, np.uint8).tobytes())


def contenders(pattern: str, model: Path, learn: bool, megabytes: int) -> Iterator[Contender]:
    """Each command over each source, at half the size and at the whole."""
    of_text = ["{out}", "{out}.txt", "--pattern", pattern]
    commands = {"count": ["count", *of_text], "encode": ["encode", str(model), "{out}.txt", "-o", "{out}.npy"]}
    if learn:
        commands["train"] = ["train", *of_text, "--vocab-size", "1000"]
    for kind, (what, command), mb in product(KINDS, commands.items(), (megabytes // 2, megabytes)):
        name = f"{what} {pattern} {kind} {mb}MB"
        yield Contender(name, streambpe(*command), setup=partial(write_chunk, kind, mb * 10**6))


def learned(pattern: str, corpus: str, work: Path) -> Path:
    """A model of the first 5 MB of a corpus."""
    source, out = work / "first.txt", Path(tempfile.mkdtemp(dir=work, prefix="model-")) / "run"
    with open(corpus, "rb") as text:
        source.write_bytes(text.read(5_000_000))
    untimed("train", str(out), str(source), "--pattern", pattern, "--vocab-size", "8000")
    return out / "model.events.jsonl"


def main() -> None:
    """Measure and write."""
    options = parser(__doc__, "corpus", *COMPARING, runs=1, no_warm_up=True, timeout=600)
    options.add_argument("--pattern", action="append", default=[])
    options.add_argument("--mb", type=int, default=50)
    options.add_argument("--learn", action="store_true", help="learn 1 000 ids from each too")
    given = options.parse_args()
    work = scratch(given.work)
    found = [
        contender
        for pattern in given.pattern or ["gpt2"]
        for contender in contenders(pattern, learned(pattern, given.corpus, work), given.learn, given.mb)
    ]
    sys.exit(not compare("giant", found, given, {"job": "one source that is one chunk"}))


if __name__ == "__main__":
    main()
