"""The line that tells how far a job is: it fits the terminal, promises nothing early, and goes on after a stop."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess

import pytest
from rich.console import Console

from streambpe.inspect.watch import watch
from streambpe.progress import Meter, progress_line
from tests.runs import EVERY_COMMAND, cli, on_a_terminal, text_run
from tests.samples import natural_text, written
from tests.uses import words_of

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOWN = {"seconds": 63.2, "memory_bytes": 912_300_000, "recent_per_second": 1234.0}
TOKENS = {"stage": "superwords", "unit": "tokens", "done": 118_224, "total": 131_072, "eta_range_seconds": [40, 70]}
BYTES = {"stage": "counting", "unit": "bytes", "done": 10**9, "total": 3 * 10**9}


@pytest.mark.parametrize("status", [TOKENS, BYTES, {"stage": "checking", "unit": "bytes", "done": 0, "total": None}])
@pytest.mark.parametrize("width", [30, 40, 60, 79, 120, 200])
def test_a_line_fits_and_cuts_nothing(status, width):
    """What matters less is left out where columns are few; stage and amount are whole at 80, and so is the bar."""
    line = progress_line(SHOWN | status, width)
    assert len(line) <= width
    assert line.startswith(status["stage"])
    assert "…" not in line
    if status["total"] and width >= 79:
        amount = "118,224 of 131,072 tokens  0:40 to 1:10 left" if status is TOKENS else "1.0 GB of 3.0 GB"
        assert amount in line
        assert len(re.findall("[━─]", line)) >= 7
        assert "RAM 912.3 MB" in line


def test_an_estimate_is_told_when_it_means_something(monkeypatch):
    """Not in the first moments of a stage, nor while hardly anything of it is done."""
    now = [0.0]
    monkeypatch.setattr("streambpe.progress.time.monotonic", lambda: now[0])
    meter = Meter("words", unit="tokens")
    for second in range(20):  # a stage without a total
        now[0] = float(second)
        assert meter.snapshot("running")["eta_range_seconds"] is None
    meter.begin("learning", 100_000, "tokens")
    told = []
    for second in range(20, 60):
        now[0] = float(second)
        told.append(meter.snapshot("running")["eta_range_seconds"])
        meter.done += 200
    assert told[:25] == [None] * 25  # one part in twenty is there after 25 seconds
    assert all(told[26:])
    meter.stage, meter.done = "replaying", 99_990
    assert meter.snapshot("running")["eta_range_seconds"] is None


@pytest.mark.long
def test_the_total_is_the_same_after_a_stop(tmp_path):
    """Files that were counted before are part of the bar, and not of the speed."""
    texts = [written(tmp_path / f"{number}.txt", natural_text(number, 60_000)) for number in range(6)]
    cli("count", tmp_path / "run", *texts[:2], "--memory", "300MB")
    done = cli("count", tmp_path / "run", *texts, "--memory", "300MB", "--progress", "jsonl")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    sizes = [file.stat().st_size for file in texts]
    assert {line["total"] for line in lines} == {sum(sizes)}
    assert lines[0]["done"] >= sum(sizes[:2])
    assert lines[-1]["done"] == sum(sizes)


SLOW = """
import sys, time
from streambpe import progress
progress._STATUS_SECONDS = 0.01
whole, report, told = progress.Reporter.__enter__, progress.Reporter.report, []
def counted(self, state):
    report(self, state)
    told.append(state)
def slow(self):
    self._after_seconds, before = 0.0, len(told)
    entered = whole(self)
    while len(told) < before + 3:  # drawn three times before it begins
        time.sleep(0.01)
    return entered
progress.Reporter.report = counted
progress.Reporter.__enter__ = slow
from streambpe.cli.main import main
main(sys.argv[1:], prog_name="streambpe")
"""


LAST = ("train", "count", "encode-npy", "report", "export-tiktoken", "evaluate RUN --text TEXT", "check RUN")


@pytest.mark.every(8)
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals there")
@pytest.mark.parametrize("use", [*LAST, "plan"])
def test_the_line_on_a_terminal_of_80_columns(desk, tmp_path, use):
    """Every command that may last draws one line, never wider than the terminal, never wrapped."""
    places = {"RUN": desk / "run", "TEXT": desk / "a.txt"}
    command = words_of(use, **places, OUT=tmp_path / "out", HERE=tmp_path)
    code, text = on_a_terminal(SLOW, *command, stdout=subprocess.DEVNULL)
    assert code == 0, text
    drawn = [line for line in re.split(r"[\r\n]+", text) if re.search(r"\d:\d\d|[━─]{10}", line) and " MB" in line]
    assert drawn, text
    assert all(len(line) <= 80 for line in drawn)


def test_every_command_that_may_last_has_the_option():
    """--progress, which also writes JSON lines."""
    short = {"status", "watch", "explain", "diff", "docs"}
    assert {name for name, c in EVERY_COMMAND.items() if all("--progress" not in p.opts for p in c.params)} == short


def test_watch_waits_for_a_run_that_has_not_begun(desk, tmp_path):
    """On a terminal; and it lists the stages of what it then sees."""

    class Begins(io.StringIO):
        """The run begins when its being waited for is shown."""

        def write(self, text: str) -> int:
            if "waiting for " in text and (tmp_path / "ready").exists():
                (tmp_path / "ready").rename(tmp_path / "run")
            return super().write(text)

    out = Begins()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    shutil.copytree(desk / "run", tmp_path / "ready")
    watch(tmp_path / "run", console, every=0.01)
    shown = ESCAPES.sub("", out.getvalue())
    assert "waiting for " in shown
    assert re.search(r"stages .*learning \d:\d\d", shown)


@pytest.mark.long
def test_commands_that_may_last_tell_how_far_they_are(desk, tmp_path):
    """Each says what it is at, and at its end as much is done as there was to do; stdout is that without a line."""
    run, text = desk / "run", written(tmp_path / "a.txt", "the cat sat on the mat\nand so on\n")
    for suffix in ("npy", "parquet"):
        cli("encode", run, text, "--lines", "-o", tmp_path / f"ids.{suffix}")
    ids = written(tmp_path / "ids.txt", cli("encode", run, text, "--lines").stdout)
    text_run(tmp_path / "lines", "".join(f"line {i}\n" for i in range(400)))
    query = "SELECT n FROM chunk_counts ORDER BY chunk LIMIT 7"
    commands = {  # how much is done of which unit; None: all there was to do
        ("sql", run, query, "--csv"): ("asking", 7, "rows"),
        ("sql", run, query, "-o", tmp_path / "rows.parquet"): ("asking", 7, "rows"),
        ("decode", run, tmp_path / "ids.npy"): ("decoding", len(ids.read_text().split()), "ids"),
        ("decode", run, tmp_path / "ids.parquet"): ("decoding", 2, "documents"),
        ("decode", run, ids): ("decoding", ids.stat().st_size, "bytes"),
        ("import", desk / "tokenizer.json", "-o", tmp_path / "m.events.jsonl"): ("importing", 0, "bytes"),
        ("train", tmp_path / "other", text, "-s", 260): ("trained", None, ""),
        ("report", run, "-o", tmp_path / "page.html"): ("measuring", None, ""),
        ("check", run, "--sources"): ("reading sources", None, ""),
        ("export", run, "--to", "hf", "-o", tmp_path / "t.json", "--verify", text): ("verifying", None, ""),
        ("export-counts", run, "-o", tmp_path / "counts.csv"): ("exporting", None, ""),
        ("converge", tmp_path / "lines", "-s", 260, "--steps", 2): ("learning", None, ""),
        ("evaluate", run, "--text", text): ("evaluating", None, ""),
        ("merge-counts", tmp_path / "all", run): ("merging", None, ""),
    }
    for command, (stage, done, unit) in commands.items():
        plain = "" if done is None else cli(*command).stdout
        told = cli(*command, *(["--force"] if "-o" in command and done is not None else []), "--progress", "jsonl")
        assert told.stdout == plain or (command[0] in ("converge", "evaluate") and '"stage"' not in told.stdout)
        last = json.loads([line for line in told.stderr.splitlines() if line.startswith("{")][-1])
        assert (last["stage"], last["state"]) == (stage, "done"), command
        if done is None:
            assert last["done"] == last["total"] > 0, command
        else:
            assert (last["done"], last["unit"]) == (done, unit), command


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals there")
def test_a_message_beside_a_bar_has_a_line_of_its_own():
    code = """
from streambpe.cli.told import say
from streambpe.progress import Meter, Reporter
with Reporter(Meter("learning"), lambda status: None, "bar"):
    say("a message")
"""
    _, shown = on_a_terminal(code)
    assert "\ra message\r\n" in shown
