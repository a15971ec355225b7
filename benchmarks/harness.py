"""Time and peak memory of whole commands, side by side: every run is a fresh process, contenders take turns.

    compare("count-en_100", [ours, hf, rustbpe], runs=5)   ->   results/count-en_100.tsv and .md

    wall    from before the process starts until it has ended: start-up and imports included, for everyone
    cpu     user + system time of the process and the children it waited for (wait4)
    peak    highest memory of the whole process tree: summed PSS, so that pages shared between its
            processes count once, but never less than the RSS of its largest process (other programs on
            the machine may share its libraries, which lowers PSS); summed RSS where there is no PSS
    maxrss  the kernel's own high-water mark of the largest single process: no sample can miss it
    disk    the most that its output and its temporary files took up, looked at four times a second and at the end

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

import contextlib
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from measured import RESULTS

from streambpe.disk import folder_bytes

HERE = Path(__file__).resolve().parent
SAMPLE_SECONDS = 0.02
PSS_SHARE = 0.05  # of one core, at most, spent on reading PSS
DISK_SECONDS = 0.25
PACKAGES = (
    "streambpe",
    "tokenizers",
    "rustbpe",
    "bpeasy",
    "gigabpe",
    "bpe-continue",
    "transformers",
    "tiktoken",
    "ffbpe",
    "sentencepiece",
    "tuetoken",
    "tokie",
    "wordchipper",
    "rs-bpe",
    "polars",
    "duckdb",
    "numpy",
    "regex",
    "msgspec",
)
FIGURES = {"wall": "s", "cpu": "s", "peak": "MB", "maxrss": "MB", "disk": "MB"}


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
    note: str = ""  # what is compared, for the report


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


def ask(target: str, **arguments: Any) -> Any:
    """Run MODULE:FUNCTION in a fresh process, untimed; what it returns, through JSON."""
    done = subprocess.run(call(target, **arguments), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def streambpe(*arguments: str) -> list[str]:
    """The command line installed beside this Python."""
    return [str(Path(sys.executable).parent / "streambpe"), *arguments]


def chosen(contenders: Sequence[Contender], only: Sequence[str] | None) -> list[Contender]:
    """Those that --only names, or all; a name that is none of them ends the program."""
    names = [contender.name for contender in contenders]
    if unknown := [name for name in only or [] if name not in names]:
        sys.exit(f"{unknown[0]}: no contender here has this name; there are: {', '.join(names)}.")
    return [contender for contender in contenders if not only or contender.name in only]


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
    left = [p.pid for p in psutil.process_iter() if _session(p.pid) == process.pid]
    if left:  # they would disturb the next run and their time would be nobody's
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


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


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
        while not self.ended.wait(DISK_SECONDS):
            self._look()
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


def compare(
    name: str,
    contenders: Sequence[Contender],
    *,
    runs: int = 5,
    work: Path,
    about: Mapping[str, str],
    timeout_seconds: float = 3600,
    same: Mapping[str, float] | None = None,
    warm_up: bool = True,
    once: Collection[str] = (),
) -> bool:
    """Measure all contenders in turns and write results/NAME.tsv and .md; ratios are to the first.

    once: contenders that take part in the first counted round only, as they take minutes.
    same: fact -> how far apart (as a share) contenders may be in it and still count as doing the same job.
    Returns whether every contender finished and did.
    """
    RESULTS.mkdir(exist_ok=True)
    measured: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    with (RESULTS / f"{name}.tsv").open("w") as table:
        for line in preamble(about):
            table.write(f"# {line}\n")
        table.write("contender\trun\t" + "\t".join(f"{f}_{u}" for f, u in FIGURES.items()) + "\tload\tmarks\tfacts\n")
        for number in range(0 if warm_up else 1, runs + 1):
            for contender in contenders:
                if any(run.failed for run in measured[contender.name]) or (contender.name in once and number != 1):
                    continue
                with tempfile.TemporaryDirectory(dir=work, prefix="run-") as folder:
                    run = run_once(contender, Path(folder) / "out", timeout_seconds)
                measured[contender.name].append(run)
                table.write(_row(contender.name, number, run) + "\n")
                table.flush()
                print(_row(contender.name, number, run).replace("\t", "  "), file=sys.stderr)
    failed = [contender for contender in contenders if any(run.failed for run in measured[contender.name])]
    differ = _differences(contenders, measured, same or {})
    counted = {name: runs_of[-runs:] if runs else [] for name, runs_of in measured.items()}
    how = f"{runs} runs after a warm-up" if warm_up else f"{runs} run{'s' * (runs > 1)} without a warm-up"
    if slow := [contender.name for contender in contenders if contender.name in once]:
        how += f" ({', '.join(slow)}: one run)"
    report = _report(name, contenders, measured, counted, how, about, differ)
    (RESULTS / f"{name}.md").write_text(report)
    print(report)
    return not failed and not differ


def _row(name: str, number: int, run: Run) -> str:
    marks = " ".join(f"{mark}={at:.3f}" for mark, at in run.marks.items())
    facts = " ".join(f"{fact}={value}" for fact, value in run.facts.items())
    figures = "\t".join(f"{run.figures[figure]:.3f}" for figure in FIGURES)
    label = "warm-up" if number == 0 else str(number)
    return f"{name}\t{label}\t{figures}\t{run.load:.2f}\t{marks}\t{facts}" + (
        f"\tFAILED {_plain(run.failed)}" if run.failed else ""
    )


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


def _report(
    name: str,
    contenders: Sequence[Contender],
    measured: Mapping[str, list[Run]],
    counted: Mapping[str, list[Run]],
    how: str,
    about: Mapping[str, str],
    differ: Sequence[str],
) -> str:
    ran = {c.name: counted[c.name] for c in contenders if not any(run.failed for run in measured[c.name])}
    ran = {who: runs_of for who, runs_of in ran.items() if runs_of}
    lines = [f"# {name}", "", *(f"- {line}" for line in preamble(about)), ""]
    if ran:
        base = next(iter(ran))
        lines += [
            f"min / **median** / max of {how}, contenders in turns; x: ratio of medians to {base}.",
            "",
            "| contender | " + " | ".join(f"{figure}, {unit} | x" for figure, unit in FIGURES.items()) + " |",
            "|---|" + "---|---|" * len(FIGURES),
        ]
        medians = {f: statistics.median(run.figures[f] for run in ran[base]) for f in FIGURES}
        for who, runs_of in ran.items():
            cells = []
            for figure in FIGURES:
                values = [run.figures[figure] for run in runs_of]
                cells += [_spread(values), f"{statistics.median(values) / max(medians[figure], 1e-9):.2f}"]
            lines.append(f"| {who} | " + " | ".join(cells) + " |")
        lines += _marks_table(ran, base, medians["wall"])
        loads = [run.load for runs_of in ran.values() for run in runs_of]
        lines += ["", f"Load average before the runs: {min(loads):.2f} to {max(loads):.2f} (includes the run before)."]
    facts = [
        f"- {c.name}: " + ", ".join(f"{k} {v}" for k, v in measured[c.name][-1].facts.items())
        for c in contenders
        if measured[c.name] and measured[c.name][-1].facts
    ]
    if facts:
        lines += ["", "What they said of the job:", "", *facts]
    lines += ["", *(f"**NOT THE SAME JOB:** {line}" for line in differ)]
    for contender in contenders:
        lines += [
            f"**{contender.name} failed:** {_plain(run.failed)}" for run in measured[contender.name] if run.failed
        ]
    lines += ["", "Commands, and what each is:", ""]
    for contender in contenders:
        extra = "".join(f"{key}={value} " for key, value in contender.env.items())
        lines += [f"- {contender.name}: `{extra}{_plain(' '.join(contender.command))}`"]
        lines += [f"  {contender.note}"] if contender.note else []
    return "\n".join(lines) + "\n"


def _marks_table(ran: Mapping[str, list[Run]], base: str, base_wall: float) -> list[str]:
    """Moments inside a run, and spans between them, as the contenders' own messages tell them."""
    names = list(dict.fromkeys(mark for runs_of in ran.values() for run in runs_of for mark in run.marks))
    if not names:
        return []
    told = f"min / **median** / max; x: median to the wall time of {base}"
    lines = ["", f"Inside a run, seconds since its start, or of a span ({told}):", ""]
    lines += ["| contender | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for who, runs_of in ran.items():
        if not any(run.marks for run in runs_of):
            continue
        cells = [[run.marks[mark] for run in runs_of if mark in run.marks] for mark in names]
        shown = [f"{_spread(v)} (x {statistics.median(v) / base_wall:.2f})" if v else "" for v in cells]
        lines.append(f"| {who} | " + " | ".join(shown) + " |")
    return lines


def _spread(values: Sequence[float]) -> str:
    digits = 0 if min(values) >= 100 else 2
    return f"{min(values):.{digits}f} / **{statistics.median(values):.{digits}f}** / {max(values):.{digits}f}"


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


def machine() -> str:
    """CPU, cores this process may use, RAM, kernel."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, IndexError):
        cpu = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ram = psutil.virtual_memory().total / 1e9
    return f"{cpu}, {cores} cores, {ram:.1f} GB RAM, {platform.system()} {platform.release()}"


def versions() -> str:
    """Of Python, of every contender, of what we stand on, and the commit of the package measured."""
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import streambpe; print(streambpe.__path__[0])"], capture_output=True, text=True
    ).stdout.strip()
    commit = subprocess.run(
        ["git", "-C", where or ".", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    return ", ".join(found) + (f"; streambpe at {commit}" if commit else "")


def scratch(work: str | None) -> Path:
    """The folder for RUNs and prepared corpora: --work, else a `streambpe-bench` folder in the temporary one."""
    folder = Path(work) if work else Path(tempfile.gettempdir()) / "streambpe-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def copy_run(counted: Path, out: Path) -> None:
    """Give a run its own copy of a counted RUN, without the lock."""
    shutil.copytree(counted, out, ignore=shutil.ignore_patterns("lock"))
