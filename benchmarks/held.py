"""How much the record of what was counted takes: 125 000 stretches of input, as many as a terabyte has.

    python benchmarks/held.py     # results/held.tsv

Every command reads which stretches of which source are counted. Here a RUN has that many of four sparse files: bytes of
a stretch in memory (by tracemalloc) and in the footer of a part, then the commands, whole processes.
"""

from __future__ import annotations

import sys
import tempfile
import tracemalloc
from pathlib import Path

from harness import HERE, Contender, Table, parser, run_once, scratch, streambpe

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


def main() -> None:
    """Make the RUN, measure, write."""
    options = parser(__doc__, "work")
    options.add_argument("--many", type=int, default=MANY, help="stretches")
    given = options.parse_args()
    columns = ("what", "bytes of a stretch", "wall_s", "cpu_s", "peak_MB")
    with (
        tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="held-") as folder,
        Table("held", {"job": f"{given.many} stretches of four files"}, columns) as table,
    ):
        run, files = run_of_many(Path(folder), given.many)
        memory, footer = record(run)
        table.add("in memory", f"{memory:.0f}", "", "", "")
        table.add("in the footer of a part", f"{footer:.0f}", "", "", "")
        jobs = {"count, nothing new": ["count", str(run), *map(str, files)], "check": ["check", str(run)]}
        for name, command in jobs.items():
            took = run_once(Contender(name, streambpe(*command)), Path(folder) / "out", 600)
            assert not took.failed, took.failed
            wall, cpu, peak = (took.figures[figure] for figure in ("wall", "cpu", "peak"))
            table.add(name, "", f"{wall:.2f}", f"{cpu:.2f}", f"{peak:.0f}")


if __name__ == "__main__":
    main()
