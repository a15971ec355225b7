"""Signals, terminals, moved folders, wrong clocks: a training that meets them loses nothing, its bytes are the same.

Ctrl-C and `kill` in the middle of learning and of counting: tests/train/test_resume.py, counting/test_count.py. Kills
at every boundary: tests/kills.py. Two processes at one RUN: both of the first two.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from streambpe.inspect.check import check
from streambpe.train.commands import train
from tests.runs import ROOT, SMALL, Driver, cli, rows, text_run
from tests.samples import natural_text

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor these terminals"),
]
OPTIONS = {"vocab_size": 900}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A counted run; its counts do not depend on its text any more."""
    return text_run(tmp_path_factory.mktemp("counted") / "run", natural_text(9, 60_000))


@pytest.fixture(scope="module")
def unbroken(counted, tmp_path_factory) -> bytes:
    """The event log of a training that nobody disturbs."""
    run = shutil.copytree(counted, tmp_path_factory.mktemp("unbroken") / "run")
    train(run, resources=SMALL, **OPTIONS)
    return (run / "model.events.jsonl").read_bytes()


@pytest.fixture
def learning(counted, tmp_path):
    """(RUN, a process that learns there and rests after each pass, so that whatever comes finds it at work)."""
    run = shutil.copytree(counted, tmp_path / "run")
    driver = Driver(run=run, options=OPTIONS, rest=0.05, trainer={"checkpoint_seconds": 0})
    assert driver.wait_for("learning")
    yield run, driver
    if driver.process.poll() is None:
        driver.kill()


def came_to_its_end(run: Path, unbroken: bytes) -> None:
    """As a training that nobody disturbs."""
    assert (run / "model.events.jsonl").read_bytes() == unbroken
    assert check(run, resources=SMALL) == []
    assert not list(run.glob("traceback-*"))


def goes_on(run: Path, unbroken: bytes) -> None:
    """When the same command is given again."""
    assert not (run / "model.events.jsonl").exists(), "it had been done before it was disturbed"
    assert check(run, resources=SMALL) == []
    train(run, resources=SMALL, **OPTIONS)
    came_to_its_end(run, unbroken)


def test_a_second_ctrl_c_ends_it_at_once(learning, unbroken):
    """The first asks it to finish what is in hand, the second does not wait for that."""
    run, driver = learning
    driver.process.send_signal(signal.SIGSTOP)  # so that both are there when it looks
    for _ in range(2):
        driver.process.send_signal(signal.SIGINT)
    driver.process.send_signal(signal.SIGTERM)
    code, err = driver.end(signal.SIGCONT)
    assert code in (-signal.SIGINT, -signal.SIGTERM), err
    goes_on(run, unbroken)


@pytest.mark.skipif(
    hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
    reason="HUP is ignored here, as by nohup",
)
def test_the_terminal_is_closed(learning, unbroken):
    """SIGHUP, which comes then, ends it like a kill."""
    run, driver = learning
    code, _ = driver.end(signal.SIGHUP)
    assert code == -signal.SIGHUP
    goes_on(run, unbroken)


def test_stopped_and_continued(learning, unbroken):
    """Ctrl-Z for a while, then `fg`: it goes on as if nothing had been, and nobody else gets at RUN meanwhile."""
    run, driver = learning
    driver.process.send_signal(signal.SIGSTOP)
    while psutil.Process(driver.process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    told = cli("train", run, "--vocab-size", "900", expect=1).stderr
    assert f"process {driver.process.pid}" in told
    code, err = driver.end(signal.SIGCONT)
    assert code == 0, err
    came_to_its_end(run, unbroken)


def test_moved_while_it_learns(learning, unbroken):
    """It says so, makes nothing under the old name, and what it has committed goes on under the new one."""
    run, driver = learning
    elsewhere = run.with_name("renamed")
    run.rename(elsewhere)
    code, err = driver.end()
    assert code == 1, err
    assert f"{run} is no longer there" in err
    assert not run.exists()
    goes_on(elsewhere, unbroken)


def test_moved_while_it_counts(tmp_path):
    """The same, while text comes in."""
    text = natural_text(9, 60_000).encode()
    run, elsewhere = tmp_path / "run", tmp_path / "renamed"
    with streambpe("count", run, "-", "--lines", stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(text[:30_000])
        process.stdin.flush()
        while not (run / "status.json").exists():
            time.sleep(0.01)
        run.rename(elsewhere)
        _, err = process.communicate(text[30_000:])
    assert process.returncode == 1, err
    assert b"is no longer there" in err
    assert not run.exists()
    for place in (elsewhere, tmp_path / "whole"):
        cli("count", place, "-", "--lines", input=text)
    assert rows(elsewhere, "FROM chunk_counts ORDER BY chunk") == rows(place, "FROM chunk_counts ORDER BY chunk")
    assert check(elsewhere, resources=SMALL) == []


@pytest.mark.parametrize("years", [-20, 20])
def test_moved_and_the_clock_set_between_a_kill_and_the_next_command(learning, unbroken, years):
    """No file of a RUN says where it is; and nothing is decided by time, were it twenty years ago or to come."""
    run, driver = learning
    driver.kill()
    elsewhere = run.parent / "another folder" / "renamed"
    elsewhere.parent.mkdir()
    run.rename(elsewhere)
    for path in [elsewhere, *elsewhere.rglob("*")]:
        os.utime(path, (time.time() + years * 31_556_952,) * 2)
    goes_on(elsewhere, unbroken)


def streambpe(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "streambpe", *map(str, arguments)], cwd=ROOT, **options)


@pytest.mark.parametrize("gone", ["stdout", "stderr", "both"])
def test_nobody_reads_what_it_says(counted, unbroken, tmp_path, gone):
    """`| head` has ended: the training comes to its end all the same."""
    run = shutil.copytree(counted, tmp_path / "run")
    ours, theirs = os.pipe()
    os.close(ours)
    streams = {name: theirs if gone in (name, "both") else subprocess.PIPE for name in ("stdout", "stderr")}
    with streambpe("train", run, "--vocab-size", 900, "--memory", "400MB", "--progress", "jsonl", **streams) as process:
        os.close(theirs)
        _, err = process.communicate()
    assert b"Traceback" not in (err or b"")
    assert process.returncode in (0, 1)
    came_to_its_end(run, unbroken)


def test_the_terminal_is_gone_and_it_was_told_to_stay(counted, unbroken, tmp_path):
    """As under `trap '' HUP`: it cannot write to the terminal any more, and comes to its end all the same."""
    run = shutil.copytree(counted, tmp_path / "run")
    ours, theirs = os.openpty()
    command = ["train", run, "--vocab-size", 900, "--memory", "400MB", "--progress", "bar"]
    process = streambpe(
        *command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    os.close(theirs)
    os.read(ours, 1)  # it has begun to draw
    os.close(ours)
    assert process.wait(120) in (0, 1)
    came_to_its_end(run, unbroken)
