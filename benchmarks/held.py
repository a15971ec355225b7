"""What the record of what was counted takes: 125 000 stretches of input, as many as a terabyte has.

    python benchmarks/held.py     # results/held.tsv

Every command reads which stretches of which source are counted. Here a RUN has that many of four sparse files: bytes of
a stretch in memory (by tracemalloc) and in the footer of a part, then the commands, whole processes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tracemalloc
from pathlib import Path

from harness import HERE, RESULTS, Contender, preamble, run_once, scratch, streambpe

from streambpe.store.parts import read_part

sys.path.insert(0, str(HERE.parent))
from tests.store.test_spans import run_of_many

MANY = 125_000


def record(run: Path) -> tuple[float, float]:
    """(bytes of a stretch in memory, in the footer)."""
    (footer,) = (run / "counts").glob("merged-*")
    tracemalloc.start()
    spans = read_part(footer).spans
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / len(spans), footer.stat().st_size / len(spans)


def main() -> int:
    """Make the RUN, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--many", type=int, default=MANY, help="stretches")
    parser.add_argument("--work", help="folder for the RUN")
    given = parser.parse_args()
    lines = [f"# {line}" for line in preamble({"job": f"{given.many} stretches of four files"})]
    lines.append("what\tbytes of a stretch\twall_s\tcpu_s\tpeak_MB")
    with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="held-") as folder:
        run, files = run_of_many(Path(folder), given.many)
        memory, footer = record(run)
        lines += [f"in memory\t{memory:.0f}\t\t\t", f"in the footer of a part\t{footer:.0f}\t\t\t"]
        jobs = {"count, nothing new": ["count", str(run), *map(str, files)], "check": ["check", str(run)]}
        for name, command in jobs.items():
            took = run_once(Contender(name, streambpe(*command)), Path(folder) / "out", 600)
            assert not took.failed, took.failed
            figures = took.figures
            lines.append(f"{name}\t\t{figures['wall']:.2f}\t{figures['cpu']:.2f}\t{figures['peak']:.0f}")
    (RESULTS / "held.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
