"""Thirty candidates from one count: six ways to learn, each cut to five sizes, measured on held-out text by group.

    python benchmarks/choosing.py en_100.txt multi_60.txt     # results/choosing.tsv

Lines of the texts are grouped by the script that most of their letters are of (script.py). Each twentieth line is held
out; the rest is counted once, with a group for each script. Every way learns the largest size from these counts, and
`streambpe sizes` measures all sizes. Seconds are those of whole commands.
"""

from __future__ import annotations

import csv
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness import parser, scratch, streambpe, write_table
from script import grouped

WAYS = {
    "plain": [],
    "--alpha 0.7": ["--alpha", "0.7"],
    "--alpha 0.3": ["--alpha", "0.3"],
    "--alpha 0": ["--alpha", "0"],
    "--whole-characters": ["--whole-characters"],
    "--tau 0.9": ["--tau", "0.9"],
}
SHOWN = ("Latin", "Cyrillic", "Han", "Devanagari", "Arabic")
_HELD_OUT = 20


def seconds(*command: str) -> float:
    """How long one of our commands takes."""
    began = time.perf_counter()
    subprocess.run(streambpe(*command, "--progress", "none"), check=True, capture_output=True)
    return time.perf_counter() - began


def candidates(texts: list[Path], size: int, folder: Path) -> Iterator[list[object]]:
    """A row for each step: what it took, and for a candidate what it is worth."""
    for text in texts:
        for name, lines in grouped(text).items():
            for part in ("corpus", "dev"):
                (folder / part / name).mkdir(parents=True, exist_ok=True)
                kept = (line for i, line in enumerate(lines) if (i % _HELD_OUT == 0) == (part == "dev"))
                (folder / part / name / text.name).write_text("".join(kept), encoding="utf-8")
    run, limit = str(folder / "run"), ("--memory", "2GB")
    took = seconds("count", run, str(folder / "corpus"), "--group-by", "folder", "--lines", *limit)
    yield ["count", f"{took:.1f}", *[""] * (len(SHOWN) + 2)]
    dev = [word for place in sorted((folder / "dev").iterdir()) for word in ("--text", f"{place.name}={place}")]
    sizes = ",".join(str(size >> i) for i in range(5))
    for number, (way, options) in enumerate(WAYS.items()):
        took = seconds("train", run, "--name", f"way{number}", "--vocab-size", str(size), *options, *limit)
        table = folder / f"{number}.csv"
        took += seconds("sizes", f"{run}:way{number}", *dev, "--lines", "--vocab-size", sizes, "-o", str(table))
        with table.open(encoding="utf-8") as file:
            found = {(row["group"], int(row["vocab_size"])): row for row in csv.DictReader(file)}
        for each in (size >> i for i in range(5)):
            cells = [found.get((name, each)) for name in (*SHOWN, "all")]
            rates = [f"{float(cell['bytes_per_token']):.3f}" if cell else "" for cell in cells]
            yield [f"{way}, {each:,}", f"{took:.1f}" if each == size else "", *rates, found["all", each]["rare"]]


def main() -> None:
    """Count, learn, measure, report."""
    options = parser(__doc__, "vocab-size", "name", "work", vocab_size=131072)
    options.add_argument("texts", type=Path, nargs="+")
    given = options.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="choosing-") as folder:
        rows = [*candidates(given.texts, given.vocab_size, Path(folder))]
    about = {
        "job": "bytes per token on held-out text, by the script of its lines; rare: ids with fewer than 10 uses",
        "texts": ", ".join(text.name for text in given.texts),
        "whole": f"{time.perf_counter() - began:.0f} s with the preparation of the texts",
    }
    write_table(given.name or "choosing", about, ["candidate", "s", *SHOWN, "all", "rare"], rows)


if __name__ == "__main__":
    main()
