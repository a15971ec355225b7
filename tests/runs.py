"""Makes counted runs for the tests of training, reads what trainings left in them, and runs commands on them."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from click.testing import CliRunner

from streambpe import failpoints
from streambpe.cli.main import main
from streambpe.cli.unforeseen import UNFORESEEN
from streambpe.config import TrainConfig
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.options import options_of
from streambpe.resources import Resources
from streambpe.store.identity import digest_of, replacing
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts, reader_of_stretches
from streambpe.train.counting import sizes, worker
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import Batch, EngineTuning
from streambpe.train.trainer import Trainer
from streambpe.train.training import Training

EVERY_COMMAND = {name: main.get_command(None, name) for name in main.list_commands(None)}

SMALL = Resources(400 * 10**6, 2)  # the least memory that superwords need
LARGE = Resources(4 * 10**9, 2)  # for what is published only if memory is left; pytest itself may hold more than SMALL
ROOT = Path(__file__).parents[1]


def by_keyword(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names of fields of TrainConfig, by those that `train` knows them by."""
    known = options_of(TrainConfig)
    return {known[name].keyword if name in known else name: value for name, value in options.items()}


def counted_run(run: Path, counts: Mapping[str, int]) -> Path:
    """A run that holds exactly these chunks."""
    run.parent.mkdir(parents=True, exist_ok=True)
    table = run.with_suffix(".csv")
    with table.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["chunk", "count"])
        writer.writerows(counts.items())
    count(run, [str(table)], counts=True, resources=SMALL)
    return run


def text_run(run: Path, text: str, pattern: str = "gpt4", digits: str = "keep") -> Path:
    """A run over one file of text, in which every line is a document."""
    run.parent.mkdir(parents=True, exist_ok=True)
    source = run.with_suffix(".txt")
    source.write_text(text, encoding="utf-8")
    count(run, [str(source)], pattern=pattern, digits=digits, lines=True, resources=SMALL)
    return run


def small_blocks(patch: pytest.MonkeyPatch, size: int, *, committing: bool = False, ordered: bool = True) -> None:
    """Count in blocks of this size, so that a small text is in many of them. `committing`: each worker commits a part
    behind every block. `ordered`: parts of documents may have several blocks."""
    patch.setattr(sizes, "MOST_BLOCK", size)
    patch.setattr(sizes, "LEAST_BLOCK", size)
    if committing:
        patch.setattr(worker, "CHECKPOINT_SECONDS", -1.0)
    if not ordered:
        patch.setattr(sizes, "MOST_ORDERED", 0)


class StopAfter(threading.Event):
    """Set after it was looked at so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def is_set(self) -> bool:
        self.times -= 1
        return self.times < 0


def trainer(run: Path, config: TrainConfig, *, name: str = "main", resources: Resources = SMALL, **how: Any) -> Trainer:
    """A training of a counted run."""
    return Trainer(Training(Run.open(run), config, name, resources), **how)


class Enough(Exception):
    """Ends a training between two passes."""


def break_off(run: Path, *, passes: int, tuning: EngineTuning | None = None, **options: Any) -> None:
    """Learn until so many passes were made: a program that ends in the middle."""
    seen = itertools.count(1)

    def on_batch(_: Batch) -> None:
        if next(seen) > passes:
            raise Enough

    how: dict[str, Any] = {"checkpoint_seconds": 0.0, "on_batch": on_batch, "tuning": tuning or EngineTuning()}
    with pytest.raises(Enough):
        trainer(run, TrainConfig(**options), **how).run()


class Killed(BaseException):
    """Instead of SIGKILL."""


@contextlib.contextmanager
def killed_at(place: str) -> Iterator[None]:
    """This process "dies" inside, where a failpoint says."""

    def die() -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "die", die)
        patch.setattr(failpoints, "_passed", itertools.count(1))
        patch.setenv("STREAMBPE_FAILPOINT", place)
        with pytest.raises(Killed):
            yield


def accept(log: Path) -> None:
    """The RUN takes an event log that was changed by hand for the one that its training wrote."""
    with replacing(log, digest_of(log)):
        pass


def log_of(run: Path, name: str = "model") -> EventLog:
    """The event log that a training left."""
    return read_event_log(run / f"{name}.events.jsonl")


def plain_events(run: Path, name: str = "model") -> list[tuple[int, int, int, int]]:
    """(left, right, id, n) of every event."""
    return [(*event.pair, event.id, event.n) for event in log_of(run, name).events]


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query on the run's database gives."""
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as con:
        return con.sql(query).fetchall()


def change(run: Path, *statements: str) -> None:
    """Change rows of the run's database; fail if a statement changes none.

    The first row of a table that was filled more than once does not always have the rowid 0."""
    with duckdb.connect(str(run / "state.duckdb")) as con:
        for statement in statements:
            assert con.execute(statement).fetchall() > [(0,)], statement


def view_rows(run: Path, view: str, name: str = "main") -> list[tuple[Any, ...]]:
    """The rows of a view, of one training."""
    with duckdb.connect(str(run / "state.duckdb"), read_only=True) as con:
        con.execute("SET VARIABLE training = ?", [name])
        return con.sql(f"FROM {view}").fetchall()


def cli(
    *arguments: Any, expect: int | None = 0, folder: Path = ROOT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process; its exit code must be the one expected, and an exception never leaves it.

    folder: where it runs. options: `input` for standard input, which is empty otherwise. What the command changes in
    this process (environment, handlers of signals) is put back afterwards.
    """
    command = [str(argument) for argument in arguments]
    with contextlib.chdir(folder), mock.patch.dict(os.environ):
        done = CliRunner().invoke(main, command, prog_name="streambpe", catch_exceptions=False, **options)
    if expect is not None or done.exit_code == UNFORESEEN:
        assert done.exit_code == expect, (command, done.exit_code, done.stdout, done.stderr)
    return subprocess.CompletedProcess(command, done.exit_code, done.stdout, done.stderr)


def cli_process(
    *arguments: Any, expect: int | None = 0, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, for kills, limits, signals, memory; it never shows a traceback."""
    command = [sys.executable, "-m", "streambpe", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout, **options)
    assert "Traceback" not in done.stderr, done.stderr
    if expect is not None or done.returncode == UNFORESEEN:
        assert done.returncode == expect, (command, done.returncode, done.stdout, done.stderr)
    return done


def on_a_terminal(code: str, *words: object, folder: Path = ROOT, stdout: int | None = None) -> tuple[int, str]:
    """How Python code with these arguments ends on a terminal of 80 columns, and what it draws there."""
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], stdin=theirs, stdout=stdout or theirs, stderr=theirs,
        cwd=folder, env={**environment, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # what the system says at the end
            while piece := os.read(ours, 1 << 16):
                seen += piece
    os.close(ours)
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n" if stdout else "", seen.decode())


def cli_killed(place: str, *arguments: Any, expect: int | None = -signal.SIGKILL, **options: Any) -> None:
    """Run the command line in a process that dies at a failpoint."""
    cli_process(*arguments, expect=expect, env={**os.environ, "STREAMBPE_FAILPOINT": place}, **options)


_HOLD = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reader")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_open(run: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Another process has state.duckdb open, as `reader` or `writer`, until its input is closed."""
    command = [sys.executable, "-c", _HOLD, str(run / "state.duckdb"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdin is not None
        assert shell.stdout.readline() == "held\n"
        yield shell
        shell.stdin.close()


class Driver:
    """A count or a training in a process of its own (tests/driver.py) that can be signalled and killed."""

    def __init__(self, env: Mapping[str, str] | None = None, **given: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.driver", json.dumps(given, default=str)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **(env or {})},
        )  # fmt: skip

    def wait_for(self, word: str) -> bool:
        """Read until the process says so; False if it ends before."""
        assert self.process.stdout is not None
        return any(line.strip() == word for line in self.process.stdout)

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Send a signal if one is given, and wait for the end: (exit code, negative if killed; stderr)."""
        if number is not None:
            self.process.send_signal(number)
        try:
            _, err = self.process.communicate(timeout=120)
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise
        assert "Traceback" not in err, err
        return self.process.returncode, err

    def kill(self) -> None:
        """End it with SIGKILL, as abruptly as the kernel or a power cut would."""
        self.end(signal.SIGKILL)


def ended(failpoint: str, **given: Any) -> int:
    """Run a driver to its end, or to its death at a failpoint. Returns its exit code: 0, or that of SIGKILL.

    The driver commits after every pass if it is to die at a commit, else hardly ever.
    """
    seconds = 0 if failpoint.startswith("events-committed") else 5
    driver = Driver({"STREAMBPE_FAILPOINT": failpoint}, trainer={"checkpoint_seconds": seconds}, **given)
    code, err = driver.end()
    assert code in (0, -signal.SIGKILL), err
    return code


def stored_ids(run: Path | Run) -> list[tuple[list[int], list[str]]]:
    """Every stretch that --sequences stored, in the order of the input: (its places as ids, the chunks of its part)."""
    folder = run if isinstance(run, Run) else Run(run)
    read = reader_of_stretches(folder.sequences, list)
    return [(ids.tolist(), chunks) for chunks, ids in map(read, order_parts(folder, list_parts(folder)))]
