"""How much memory a process of streambpe takes before it holds any text, and for which libraries; how long commands
take on a tiny RUN.

    python benchmarks/fixed_share.py

For each list of modules a new Python imports them. MB: resident; private (of no other process, not even as a file: what
a further process of this kind adds); PSS (a page that n processes share counts a nth for each). Writes
results/fixed_share.tsv. The commands ask a small RUN; beside them stand Pythons that only import a trainer. Writes
results/starts.tsv.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import COMPARING, HERE, Contender, compare, parser, scratch, streambpe, untimed, write_table

STEPS = {
    "Python and streambpe.resources": [],
    "the command line, for --help": ["streambpe.cli.main"],
    "numpy": ["numpy"],
    "Polars": ["polars"],
    "pyarrow": ["pyarrow.parquet"],
    "DuckDB": ["duckdb"],
    "counting by tasks (numpy, pyarrow, the core)": ["streambpe.train.counting.tasks"],
    "training (all of it)": ["streambpe.train.commands", "duckdb", "polars", "pyarrow.parquet"],
}
_LOAD = """
import importlib, sys
from streambpe.resources import prepare_allocators
prepare_allocators(256 * 10**6)
for module in sys.argv[1:]:
    importlib.import_module(module)
print("loaded", flush=True)
sys.stdin.read()
"""


def held(pid: int) -> tuple[float, float, float]:
    """(resident, private, PSS) of a process, in MB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    size = {name.rstrip(":"): int(n) * 1024 / 1e6 for name, n, *_ in lines}
    return size["Rss"], size["Private_Clean"] + size["Private_Dirty"], size["Pss"]


def of_modules(modules: list[str]) -> tuple[float, float, float]:
    """Of a new Python that has imported these."""
    command = [sys.executable, "-c", _LOAD, *modules]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return held(process.pid)


def starts(run: str) -> list[Contender]:
    """Commands that have hardly anything to do, and what the start of a trainer takes."""
    asked = {"--version": [], "status": [run], "sql": [run, "SELECT count(*) FROM events"]}
    peers = {package: [sys.executable, "-c", f"import {package}"] for package in ("tokenizers", "rustbpe", "gigabpe")}
    ours = [Contender(f"streambpe {command}", streambpe(command, *more)) for command, more in asked.items()]
    return ours + [Contender(f"import {package}", command, needs=package) for package, command in peers.items()]


def main() -> None:
    """Measure and write."""
    given = parser(__doc__, *COMPARING).parse_args()
    found = {name: of_modules(modules) for name, modules in STEPS.items()}
    rows = [(name, *(f"{figure:.1f}" for figure in figures)) for name, figures in found.items()]
    write_table("fixed_share", {"figures": "MB"}, ("loaded", "resident", "private", "PSS"), rows)
    run = str(scratch(given.work) / "starts-run")
    untimed("train", run, str(HERE.parent / "tests/data/sample"), "--vocab-size", "2000")
    sys.exit(not compare("starts", starts(run), given, {"RUN": "tests/data/sample, 2 000 ids"}))


if __name__ == "__main__":
    main()
