"""Counts the instructions of imports and of the core's loops, which on one machine are the same again each time.

    make perf               compare with perf.json, or where that was counted elsewhere with the commit that main has
    make perf PERF=--write  write perf.json anew: what an intended change costs, or gains

Seconds on a busy machine say nothing of three per cent; instructions do. They are counted by valgrind's callgrind, so
without valgrind nothing is compared. The numbers depend on compiler, processor and packages, which perf.json names.
What is counted is listed below: `imports` are all instructions of a Python that imports what a command does, `loops`
those within the core, on tests/data/sample. Ends with 1 where something needs more than 3 % more.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".json")
MOST = 1.03
IMPORTS = {
    "streambpe --version": "streambpe.cli.main",
    "streambpe sql": "streambpe.cli.main, streambpe.cli.look, streambpe.inspect.query",
    "streambpe train": "streambpe.cli.main, streambpe.cli.learn, streambpe.train.commands",
    "streambpe encode": "streambpe.cli.main, streambpe.cli.models, streambpe.encode.corpus",
}
PRESETS = ("gpt2", "gpt4o", "boundless", "script")
PACKAGES = ("numpy", "pyarrow", "duckdb", "regex", "msgspec", "click", "psutil")


def loops(work: str) -> None:
    """Runs under callgrind, which ends a file at each call of `os.getppid`: before the first job, and behind each."""
    from streambpe import Tokenizer
    from streambpe.core.binding import ChunkTable
    from streambpe.encode.corpus import encode_corpus
    from streambpe.resources import Resources
    from streambpe.text.chunker import core_split
    from streambpe.text.patterns import find_pattern
    from streambpe.train.commands import train

    sample, one = [str(ROOT / "tests/data/sample")], Resources(500_000_000, 1)
    text = b"".join(file.read_bytes() for file in sorted(Path(*sample).iterdir()))
    splits = {preset: core_split(find_pattern(preset)) for preset in PRESETS}
    todo: dict[str, Callable[[], object]] = {
        **{f"split and count, {name}": partial(ChunkTable(1 << 40).count, text, of) for name, of in splits.items()},
        "train, gpt4o": lambda: train(f"{work}/run", sample, vocab_size=4000, resources=one),
        "train, boundless": lambda: train(
            f"{work}/long", sample, vocab_size=4000, superwords="boundless", resources=one
        ),
        "encode": lambda: encode_corpus(Tokenizer(f"{work}/run"), sample, f"{work}/ids.bin", resources=one),
    }
    os.getppid()
    for name, do in todo.items():
        do()
        print(name)
        os.getppid()


def instructions(file: Path, library: str = "") -> int:
    """All that one of callgrind's files counts, or only those within a library."""
    found, names, now, of_call = Counter[str](), dict[str, str](), "", False
    for line in file.read_text(errors="replace").splitlines():
        if named := re.match(r"c?ob=(\(\d+\))(?: (.*))?", line):
            names.setdefault(named[1], named[2])
            now = names[named[1]] if line[0] == "o" else now
        elif (cost := re.match(r"[-+*\d]\S* (\d+)", line)) and not of_call:  # behind calls= it is what the callee took
            found[now] += int(cost[1])
        of_call = line.startswith("calls=")
    return sum(number for name, number in found.items() if name.endswith(library))


def profile(tree: Path, code: str, out: Path, *options: str) -> tuple[list[Path], str]:
    """(callgrind's files in order, stdout) of a Python with the package of this tree; the files are in `out`."""
    around = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    around |= {"PYTHONPATH": f"{tree}:{tree}/benchmarks", "PYTHONHASHSEED": "0"}
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/of", *options, sys.executable, "-c", code]
    done = subprocess.run(command, cwd=out, env=around, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{code} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return sorted(out.glob("of*"), key=lambda file: int(file.suffix[1:] or 10**9)), done.stdout


def count_imports(tree: Path, name: str) -> dict[str, int]:
    """What one of IMPORTS takes with the package of this tree."""
    with tempfile.TemporaryDirectory() as work:
        files, _ = profile(tree, f"import {IMPORTS[name]}", Path(work))
        return {f"imports, {name}": instructions(files[-1])}


def count_loops(tree: Path) -> dict[str, int]:
    """What each job takes within the core."""
    with tempfile.TemporaryDirectory() as work:
        files, names = profile(tree, f"import perf; perf.loops({work!r})", Path(work), "--dump-before=getppid")
        done = zip(names.splitlines(), files[1:], strict=False)  # the first file is of what precedes the jobs
        return {name: instructions(file, "_core.so") for name, file in done}


def measure(tree: Path) -> dict[str, int]:
    """Each name, and how many instructions it takes with the package of this tree."""
    compileall.compile_dir(tree / "streambpe", quiet=1)  # else the first import of each module would compile it
    with ThreadPoolExecutor(2) as pool:
        loops_of, imports_of = pool.submit(count_loops, tree), pool.map(partial(count_imports, tree), IMPORTS)
        return {name: number for found in (*imports_of, loops_of.result()) for name, number in found.items()}


def key() -> str:
    """All that the numbers depend on, but for the code."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = re.search(r"^(?:flags|Features)\s*: (.*)", file.read(), re.M)
    compiler = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True, text=True, check=True)
    features = sorted(set(flags[1].split()) & {"avx2", "avx512f", "bmi2", "asimd", "sve"}) if flags else []
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join(
        [compiler.stdout.splitlines()[0], platform.machine(), *features, f"Python {sys.version.split()[0]}", *packages]
    )


def measure_earlier() -> dict[str, int]:
    """The same of the commit that this one goes on from: where it leaves main, or on main the one before."""

    def git(*words: str, folder: Path = ROOT) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main")
    if base in ("", head):
        base = git("rev-parse", "--quiet", "--verify", "HEAD~1")
    if not base:
        print("perf: perf.json was written elsewhere, and there is no earlier commit here: nothing is compared.")
        return {}
    print(f"perf: perf.json was written elsewhere, so {base[:12]} is measured beside this one.")
    with tempfile.TemporaryDirectory() as work:
        git("clone", "--quiet", str(ROOT), work)
        git("checkout", "--quiet", base, folder=Path(work))
        shutil.copy(__file__, Path(work, "benchmarks"))
        subprocess.run([sys.executable, "hatch_build.py"], cwd=work, check=True)
        return measure(Path(work))


def main() -> None:
    """Count, compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write perf.json anew")
    write = parser.parse_args().write
    if not shutil.which("valgrind"):
        print("perf: valgrind is not installed, so nothing is compared.")
        sys.exit(write)
    now = measure(ROOT)
    table = json.loads(TABLE.read_text())
    known = table["instructions"] if table["key"] == key() else {} if write else measure_earlier()
    if write:
        TABLE.write_text(json.dumps({"key": key(), "instructions": now}, indent=1) + "\n")
    worse = {name for name, number in now.items() if name in known and number > known[name] * MOST}
    for name, number in now.items():
        ratio = f"x {number / known[name]:.3f}" if name in known else "not compared"
        print(f"{name:32}{number:>15,} {ratio}{'  more than 3 % more' * (name in worse)}")
    sys.exit(bool(worse) and not write)


if __name__ == "__main__":
    main()
