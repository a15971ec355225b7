"""One chunk of many megabytes: what counting it, learning from it and encoding it takes, and whether that is linear.

    python benchmarks/giant.py --corpus en_100.txt

A source is one chunk: letters, digits or letters of two bytes drawn at random, or blanks; by --pattern (again for each)
as far as that takes it for one. Each at half the size and at the whole of --mb: twice the size must take no more than
twice the time, and twice the memory over start-up. The model that encodes has 8 000 ids of the first 5 MB of --corpus.

There is no peer: those at hand take quadratic time for such a chunk. Writes results/giant.md and .tsv.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import RESULTS, Contender, Run, preamble, run_once, scratch, streambpe

KINDS = ("letters", "digits", "blanks", "greek")
WHAT = ("count", "encode")


@dataclass(frozen=True)
class Row:
    """One command over one source."""

    what: str
    pattern: str
    kind: str
    megabytes: int

    @property
    def name(self) -> str:
        """As it stands in the table."""
        return f"{self.what} {self.pattern} {self.kind} {self.megabytes}MB"


def write_chunk(path: Path, kind: str, size: int) -> None:
    """A file that is one chunk, the same for a size."""
    random = np.random.default_rng(1)
    if kind == "blanks":
        path.write_bytes(b" " * size)
    elif kind == "greek":
        path.write_text("".join(map(chr, random.integers(0x3B1, 0x3C1, size // 2).tolist())), encoding="utf-8")
    else:
        low, high = (97, 123) if kind == "letters" else (48, 58)
        path.write_bytes(random.integers(low, high, size, np.uint8).tobytes())


def rows_of(patterns: list[str], learn: bool, megabytes: int) -> Iterator[Row]:
    """The table, in the order it is measured."""
    for pattern in patterns:
        for kind in KINDS:
            for what in (*WHAT, *(("train",) if learn else ())):
                for size in (megabytes // 2, megabytes):
                    yield Row(what, pattern, kind, size)


def measure(row: Row, model: Path, work: Path, timeout_seconds: float) -> Run:
    """Run one row."""
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as place:
        source, out = Path(place) / "giant.txt", Path(place) / "out"
        write_chunk(source, row.kind, row.megabytes * 10**6)
        if row.what == "encode":
            command = streambpe("encode", str(model), str(source), "-o", f"{out}.npy")
        else:
            sizes = ("--vocab-size", "1000") if row.what == "train" else ()
            command = streambpe(row.what, str(out), str(source), "--pattern", row.pattern, *sizes)
        return run_once(Contender(row.name, command), out, timeout_seconds)


def learned(pattern: str, corpus: Path, work: Path) -> Path:
    """A model of the first 5 MB of a corpus."""
    source, out = work / "first.txt", Path(tempfile.mkdtemp(dir=work, prefix="model-")) / "run"
    with corpus.open("rb") as text:
        source.write_bytes(text.read(5_000_000))
    command = streambpe("train", str(out), str(source), "--pattern", pattern, "--vocab-size", "8000")
    run = run_once(Contender("model", command), out, 600)
    if run.failed:
        raise SystemExit(run.failed)
    return out / "model.events.jsonl"


def write(done: list[tuple[Row, Run]], name: str) -> None:
    """results/NAME.md and .tsv, after every row."""
    RESULTS.mkdir(exist_ok=True)
    about = preamble({"peak": "MB of the whole process tree", "job": "one source that is one chunk"})
    head = ("row", "wall_s", "cpu_s", "peak_mb", "failed")
    cells = [
        (row.name, *(f"{run.figures[figure]:.2f}" for figure in ("wall", "cpu", "peak")), run.failed)
        for row, run in done
    ]
    table = ["\t".join(row) for row in [head, *cells]]
    (RESULTS / f"{name}.tsv").write_text("\n".join([*(f"# {line}" for line in about), *table]) + "\n")
    lines = [f"# {name}", "", *(f"- {line}" for line in about), "", "| | wall, s | CPU, s | peak, MB | |"]
    lines += ["|---|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in cells)]
    (RESULTS / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")


def main() -> int:
    """Measure and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", required=True, type=Path, help="decompressed; what the model learns from")
    options.add_argument("--pattern", action="append", default=[])
    options.add_argument("--mb", type=int, default=50)
    options.add_argument("--learn", action="store_true", help="learn 1 000 ids from each too")
    options.add_argument("--work")
    options.add_argument("--name", default="giant")
    options.add_argument("--timeout", type=float, default=600)
    given = options.parse_args()
    work, patterns = scratch(given.work), given.pattern or ["gpt2"]
    models = {pattern: learned(pattern, given.corpus, work) for pattern in patterns}
    done: list[tuple[Row, Run]] = []
    for row in rows_of(patterns, given.learn, given.mb):
        done.append((row, measure(row, models[row.pattern], work, given.timeout)))
        write(done, given.name)
        figures = ", ".join(f"{done[-1][1].figures[figure]:.1f}" for figure in ("wall", "cpu", "peak"))
        print(f"{row.name}: {figures} {done[-1][1].failed}", file=sys.stderr, flush=True)
    return 1 if any(run.failed for _, run in done) else 0


if __name__ == "__main__":
    sys.exit(main())
