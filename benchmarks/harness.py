"""Time and peak memory of whole commands, side by side: every run is a fresh process, contenders take turns.

    compare("count-en_100", [ours, hf, rustbpe], given, about)   ->   results/count-en_100.tsv

    wall    from before the process starts until it has ended: start-up and imports included, for everyone
    cpu     user + system time of the process and the children it waited for (wait4)
    peak    highest memory of the whole process tree: summed PSS, so that pages shared between its
            processes count once, but never less than the RSS of its largest process (other programs on
            the machine may share its libraries, which lowers PSS); summed RSS where there is no PSS
    maxrss  the kernel's own high-water mark of the largest single process: no sample can miss it
    disk    the most that its output and its temporary files took up, looked at like PSS (below), and at the end

Rounds go A B C A B C: noise of the machine hits all alike. Round 0 warms up (page cache, bytecode)
and enters no figure. Each run's row is written as soon as it is known, so a stopped benchmark keeps
what it measured.

Peak memory: reading PSS takes 10 ms a GB and holds the process's memory map, so RSS is sampled
every 20 ms (a few microseconds) and corrected by PSS - RSS, which changes slowly and is read anew
whenever a process comes or goes, else as often as keeps that reading under 5 % of one core.

A function is measured as the process  `python call.py MODULE:FUNCTION '{"argument": ...}'`, which
also runs by hand. Nothing is ever measured inside the process that measures.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import page
import psutil
from measured import RESULTS, WARM_UP, read

from streambpe import disk
from streambpe.disk import folder_bytes

HERE = Path(__file__).resolve().parent
SAMPLE_SECONDS = 0.02
PSS_SHARE = 0.05  # of one core, at most, spent on reading PSS, and on looking at a folder
FIGURES = {"wall": "s", "cpu": "s", "peak": "MB", "maxrss": "MB", "disk": "MB"}
COLUMNS = ("contender", "run", *(f"{figure}_{unit}" for figure, unit in FIGURES.items()), "load", "marks", "facts")


@dataclass(frozen=True)
class Contender:
    """One command to measure. "{out}" in an argument becomes a fresh folder name, made anew for each run."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    setup: Callable[[Path], None] | None = None  # untimed, before each run, given {out}; {out} does not exist yet
    marks: Mapping[str, str] = field(default_factory=dict)  # name -> regex of the stderr line that marks the moment
    spans: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> from which mark to which
    facts: Mapping[str, str] = field(default_factory=dict)  # name -> regex with one group, on stderr lines
    outcome: Callable[[Path], Mapping[str, Any]] | None = None  # untimed, after each run: more facts
    needs: str = ""  # a package; without it the contender is left out


@dataclass
class Run:
    """What one run took."""

    figures: dict[str, float]
    marks: dict[str, float]
    facts: dict[str, str]
    load: float  # 1-minute load average before the run; above 0.5 something else was running
    failed: str = ""


# ---------------------------------------------------------------- running one process


def call(target: str, **arguments: Any) -> list[str]:
    """The command that runs MODULE:FUNCTION of this folder in a process of its own."""
    return [sys.executable, str(HERE / "call.py"), target, json.dumps(arguments)]


def ask(target: str, environment: Mapping[str, str] | None = None, **arguments: Any) -> Any:
    """Run MODULE:FUNCTION in a fresh process, untimed; what it returns, through JSON."""
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(call(target, **arguments), stdout=subprocess.PIPE, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def streambpe(*arguments: str) -> list[str]:
    """The command line installed beside this Python."""
    return [str(Path(sys.executable).parent / "streambpe"), *arguments]


def untimed(*arguments: str) -> str:
    """Run a command of ours that nobody measures; what it prints."""
    return subprocess.run(streambpe(*arguments), capture_output=True, text=True, check=True).stdout


def chosen(contenders: Sequence[Contender], only: Sequence[str] | None) -> list[Contender]:
    """Those that --only names, or all; a name that is none of them ends the program. What is not installed is told."""
    names = [contender.name for contender in contenders]
    if unknown := [name for name in only or [] if name not in names]:
        sys.exit(f"{unknown[0]}: no contender here has this name; there are: {', '.join(names)}.")
    kept = [contender for contender in contenders if not only or contender.name in only]
    for contender in kept:
        if not there(contender.needs):
            print(f"{contender.name} is left out: {contender.needs} is not installed.", file=sys.stderr)
    return [contender for contender in kept if there(contender.needs)]


def there(package: str) -> bool:
    """Whether a package can be imported; no name stands for one that always is there."""
    return not package or importlib.util.find_spec(package) is not None


def run_once(contender: Contender, out: Path, timeout_seconds: float) -> Run:
    """Start, sample and reap one process tree. `out` is removed afterwards by the caller."""
    with tempfile.TemporaryDirectory(dir=out.parent, prefix="temporary-") as temporary:
        return _run_once(contender, out, Path(temporary), timeout_seconds)


def _run_once(contender: Contender, out: Path, temporary: Path, timeout_seconds: float) -> Run:
    if contender.setup:
        contender.setup(out)
    os.sync()  # nobody pays for what another left to be written
    load = os.getloadavg()[0]
    command = [argument.replace("{out}", str(out)) for argument in contender.command]
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(contender) | {"TMPDIR": str(temporary)},
        start_new_session=True,
    )
    listener = _Listener(process, contender, started)
    sampler, disk = _Sampler(process.pid), _DiskSampler(out, temporary)
    timer = threading.Timer(timeout_seconds, os.killpg, (process.pid, 9))
    for thread in (listener, sampler, disk, timer):
        thread.start()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    for watcher in (sampler, disk):
        watcher.ended.set()
        watcher.join()
    if left := members(process.pid):  # they would disturb the next run and their time would be nobody's
        os.killpg(process.pid, 9)
    listener.join()
    listener.pipe.close()
    run = Run(
        figures={
            "wall": wall,
            "cpu": used.ru_utime + used.ru_stime,
            "peak": sampler.peak_bytes / 1e6,
            "maxrss": used.ru_maxrss * 1024 / 1e6,
            "disk": disk.peak_bytes / 1e6,
        },
        marks=listener.marks,
        facts=listener.facts,
        load=load,
    )
    for name, (first, last) in contender.spans.items():
        if first in run.marks and last in run.marks:
            run.marks[name] = run.marks[last] - run.marks[first]
    if left:
        run.failed = f"left processes behind: {left}"
    elif process.returncode == -9 and wall >= timeout_seconds:
        run.failed = f"not done after {timeout_seconds:.0f} s"
    elif process.returncode:
        run.failed = f"exit {process.returncode}: {' / '.join(listener.tail[-3:])}"
    elif contender.outcome:
        run.facts |= {name: str(value) for name, value in contender.outcome(out).items()}
    return run


def _environment(contender: Contender) -> dict[str, str]:
    """An installed package has its bytecode; a checkout is not to be compiled anew in every run."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | dict(contender.env)


def members(session: int) -> list[int]:
    """Processes of a session that still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


class _Listener(threading.Thread):
    """Reads the process's stderr: notes when a marked line comes, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], contender: Contender, started: float) -> None:
        super().__init__(daemon=True)
        assert process.stderr is not None
        self.pipe, self.started = process.stderr, started
        self.wanted_marks = {name: re.compile(regex) for name, regex in contender.marks.items()}
        self.wanted_facts = {name: re.compile(regex) for name, regex in contender.facts.items()}
        self.marks: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.tail: list[str] = []

    def run(self) -> None:
        rest = b""
        while data := os.read(self.pipe.fileno(), 1 << 16):
            at = time.monotonic() - self.started
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._line(line.decode(errors="replace"), at)
        if rest:
            self._line(rest.decode(errors="replace"), time.monotonic() - self.started)

    def _line(self, line: str, at: float) -> None:
        self.tail = [*self.tail[-20:], line]
        for name, regex in self.wanted_marks.items():
            if name not in self.marks and regex.search(line):
                self.marks[name] = at
        for name, regex in self.wanted_facts.items():
            if name not in self.facts and (found := regex.search(line)):
                self.facts[name] = found[1].replace(",", "")


class _Sampler(threading.Thread):
    """Peak memory of a process tree (module docstring)."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.ended = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        known: set[int] = set()
        excess, next_pss = 0, 0.0  # RSS counts shared pages once a process: that much too much
        while not self.ended.wait(SAMPLE_SECONDS):
            pids = set(process_tree(self.pid))
            if pids != known or time.monotonic() >= next_pss:
                before, rss = time.monotonic(), sum(_rss(pids))
                pss = summed_pss(pids)
                # memory may have grown meanwhile: the smaller RSS errs towards a higher peak
                excess = max(0, min(rss, sum(_rss(pids))) - pss) if pss else 0
                next_pss = time.monotonic() + max(SAMPLE_SECONDS, (time.monotonic() - before) / PSS_SHARE)
                known = pids
            each = _rss(pids)
            self.peak_bytes = max(self.peak_bytes, sum(each) - excess, *each)


class _DiskSampler(threading.Thread):
    """The most that a contender's output and its temporary files take up."""

    def __init__(self, out: Path, temporary: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.temporary = out, temporary
        self.ended = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        took = 0.0
        while not self.ended.wait(max(SAMPLE_SECONDS, took / PSS_SHARE)):
            began = time.monotonic()
            self._look()
            took = time.monotonic() - began
        self._look()

    def _look(self) -> None:
        taken = folder_bytes(self.temporary)
        for path in self.out.parent.glob(f"{self.out.name}*"):  # some add an ending to the name
            with contextlib.suppress(OSError):
                taken += folder_bytes(path) if path.is_dir() else path.stat().st_size
        self.peak_bytes = max(self.peak_bytes, taken)


def process_tree(pid: int) -> list[int]:
    """The process and all its descendants. A child hangs on the *thread* that started it."""
    found, todo = [], [pid]
    while todo:
        found.append(pid := todo.pop())
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            with contextlib.suppress(psutil.Error):  # not Linux, or just gone
                todo += [child.pid for child in psutil.Process(pid).children()]
            continue
        for task in tasks:
            with contextlib.suppress(OSError):
                todo += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


_PAGE = resource.getpagesize()


def _rss(pids: Iterable[int]) -> list[int]:
    """Of each process that is still there; never empty."""
    found = [0]
    for pid in pids:
        with contextlib.suppress(OSError, psutil.Error):
            try:
                found.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE)
            except FileNotFoundError:
                found.append(psutil.Process(pid).memory_info().rss)
    return found


def summed_pss(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("\nPss:")[1].split()[0]) * 1024
    return total


# ---------------------------------------------------------------- a whole comparison


OPTIONS: dict[str, dict[str, Any]] = {  # what scripts have in common
    "corpus": {"required": True, "help": ".txt, .txt.zst or .jsonl (field text)"},
    "documents": {"choices": ["blocks", "lines"], "default": "blocks", "help": "of a text (corpora.py)"},
    "mb": {"type": float, "help": "only the first MB of the corpus, to try things out"},
    "vocab-size": {"type": int, "default": 131_072},
    "pattern": {"default": "gpt4", "help": "a preset of streambpe (default: gpt4)"},
    "threads": {"type": int, "default": 2},
    "memory": {"action": "append", "default": [], "metavar": "SIZE", "help": "more than one to compare"},
    "only": {"action": "append", "metavar": "CONTENDER", "help": "give it once for each to keep"},
    "once": {"action": "append", "default": [], "metavar": "CONTENDER", "help": "one run of it: it takes long"},
    "runs": {"type": int, "default": 5},
    "no-warm-up": {"action": "store_true", "help": "for runs of many minutes"},
    "timeout": {"type": float, "default": 3600, "help": "seconds for one run"},
    "name": {"help": "of the result in results/"},
    "work": {"help": "folder for prepared corpora and RUNs, on the disk to be measured"},
}
COMPARING = ("only", "once", "runs", "no-warm-up", "timeout", "name", "work")  # what compare() wants


def parser(told: str | None, *names: str, **defaults: Any) -> argparse.ArgumentParser:
    """The options of a script: some of OPTIONS, by their names; it may add its own."""
    made = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        made.add_argument(f"--{name}", **OPTIONS[name])
    made.set_defaults(**defaults)
    return made


def compare(
    name: str,
    contenders: Sequence[Contender],
    given: argparse.Namespace,
    about: Mapping[str, str],
    same: Mapping[str, float] | None = None,
) -> bool:
    """Measure contenders in turns and write results/NAME.tsv.

    given: the options COMPARING. Who is named by --once takes part in the first counted round only.
    same: fact -> how far apart (as a share) contenders may be in it and still count as doing the same job.
    Returns whether every contender finished and did.
    """
    contenders = chosen(contenders, given.only)
    measured: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    with Table(given.name or name, about, COLUMNS) as table:
        for number in range(1 if given.no_warm_up else 0, given.runs + 1):
            for contender in contenders:
                runs = measured[contender.name]
                if any(run.failed for run in runs) or (contender.name in given.once and number != 1):
                    continue
                with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="run-") as folder:
                    runs.append(run_once(contender, Path(folder) / "out", given.timeout))
                table.add(contender.name, number or WARM_UP, *_cells(runs[-1]))
    failed = [f"{name} failed: {_plain(run.failed)}" for name, runs in measured.items() for run in runs if run.failed]
    wrong = failed + [f"NOT THE SAME JOB: {line}" for line in _differences(contenders, measured, same or {})]
    print("\n".join(wrong), file=sys.stderr)
    return not wrong


def _cells(run: Run) -> list[str]:
    marks = " ".join(f"{mark}={at:.3f}" for mark, at in run.marks.items())
    facts = " ".join(f"{fact}={value}" for fact, value in run.facts.items())
    failed = [f"FAILED {_plain(run.failed)}"] if run.failed else []
    return [*(f"{run.figures[figure]:.3f}" for figure in FIGURES), f"{run.load:.2f}", marks, facts, *failed]


def _differences(
    contenders: Sequence[Contender], measured: Mapping[str, list[Run]], same: Mapping[str, float]
) -> list[str]:
    """Facts that must agree with the first contender's and do not."""
    said = []
    for fact, tolerance in same.items():
        values = {c.name: run.facts[fact] for c in contenders for run in measured[c.name] if fact in run.facts}
        if not values:
            continue
        first, expected = next(iter(values.items()))
        for name, value in values.items():
            if value == expected:
                continue
            near = tolerance and abs(float(value) - float(expected)) <= tolerance * float(expected)
            if not near:
                said.append(f"{name} has {fact} {value}, {first} has {expected}")
    for contender in contenders:
        for fact in same:
            if len({run.facts.get(fact) for run in measured[contender.name] if not run.failed}) > 1:
                said.append(f"{contender.name}: {fact} is not the same in every run")
    return said


def _plain(text: str) -> str:
    """Without this machine's folders: they say nothing to a reader."""
    return re.sub(r"(?<![\w.])/(?:[^/\s\"']+/)+", "", text).replace("\t", " ")


def command_given() -> str:
    """How this script was started, without this machine's folders."""
    return _plain(" ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]))


def preamble(about: Mapping[str, str]) -> list[str]:
    """What a result was measured with: the command, the date, the machine, the versions, and `about`."""
    return [
        f"command: `{command_given()}`",
        f"date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"machine: {machine()}",
        f"versions: {versions()}",
        *(f"{key}: {value}" for key, value in about.items()),
    ]


class Table:
    """results/NAME.tsv, a row at a time, so that a benchmark that is stopped keeps what it measured.

    At its end it is printed as docs/benchmarks.md shows it.
    """

    def __init__(self, name: str, about: Mapping[str, str], columns: Sequence[str]) -> None:
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.tsv"
        self.file = self.path.open("w", encoding="utf-8")
        self.file.writelines(f"# {line}\n" for line in preamble(about))
        self.add(*columns)

    def add(self, *cells: object) -> None:
        """A row."""
        line = "\t".join(" ".join(str(cell).split()) for cell in cells)
        print(line, file=self.file, flush=True)
        print(line.replace("\t", "  "), file=sys.stderr)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        print("\n".join(page.shown(read(self.path))))


def write_table(name: str, about: Mapping[str, str], columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table that is known whole."""
    with Table(name, about, columns) as table:
        for row in rows:
            table.add(*row)


def machine() -> str:
    """CPU, cores this process may use, RAM, kernel."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, IndexError):
        cpu = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ram = psutil.virtual_memory().total / 1e9
    return f"{cpu}, {cores} cores, {ram:.1f} GB RAM, {platform.system()} {platform.release()}"


def versions() -> str:
    """Of Python, of every package that pyproject.toml names, and the commit of the package measured."""
    found = [f"Python {platform.python_version()}"]
    named = {re.split(r"[^\w.-]", requirement)[0] for requirement in metadata.requires("streambpe") or ()}
    for package in ("streambpe", *sorted(named)):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    describe = ["git", "-C", str(Path(disk.__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, capture_output=True, text=True).stdout.strip()
    return ", ".join(found) + (f"; streambpe at {commit}" if commit else "")


def scratch(work: str | None) -> Path:
    """The folder for RUNs and prepared corpora: --work, else a `streambpe-bench` folder in the temporary one."""
    folder = Path(work) if work else Path(tempfile.gettempdir()) / "streambpe-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


class Counted:
    """A RUN counted once, untimed, when the first contender wants it; every run trains on its own copy."""

    def __init__(self, work: Path, counting: Sequence[str]) -> None:
        self.run, self.counting = work / f"counted-{zlib.crc32(' '.join(counting).encode()):08x}", counting
        shutil.rmtree(self.run, ignore_errors=True)

    def copy(self, out: Path) -> None:
        """For one run, without the lock."""
        if not (self.run / "state.duckdb").exists():
            untimed("count", str(self.run), *self.counting)
        shutil.copytree(self.run, out, ignore=shutil.ignore_patterns("lock"))
