"""Counting, learning, being killed, resuming, encoding and exporting where Linux's own functions are missing.

tests/elsewhere takes them away in every process; the results are those of Linux. It shows that nothing asks for what is
not there, and that no file is renamed or removed while it is open. It cannot show another file system or C library.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import ROOT, Driver, cli_process
from tests.uses import words_of

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux is made like others, they are what they are")
MACOS, WINDOWS = (pytest.param(system, marks=[LINUX, pytest.mark.long]) for system in ("macos", "windows"))
KILLED = 9 if os.name == "nt" else -9
# Elsewhere tests/kills.py tries them at every boundary.
ON_WINDOWS = pytest.mark.skipif(os.name != "nt", reason="on Windows itself they are the only tests of kills")
HERE = pytest.param("", id="here", marks=ON_WINDOWS)
SAMPLE = ROOT / "tests/data/sample"
SUPERWORDS = ("--pattern", "boundless", "--superwords", "boundless", "--vocab-size", 600, "--memory", "400MB")


def on(system: str) -> dict[str, str]:
    """The environment of a process on that system."""
    path = f"{ROOT / 'tests/elsewhere'}{os.pathsep}{ROOT}"
    return {**os.environ, "STREAMBPE_TEST_SYSTEM": system, "PYTHONPATH": path}


def outputs(folder: Path, env: dict[str, str]) -> dict[str, bytes]:
    """What encodings and exports of RUN are, by name."""
    for use in ("encode-npy", "encode-bin", "encode-parquet", "export-hf", "export-tiktoken", "export-counts-parquet"):
        cli_process(*words_of(use, RUN=folder / "run", TEXT=SAMPLE, OUT=folder / use), env=env)
    files = {path.name: path for path in folder.iterdir() if path.is_file()}
    files["model"], files["superwords"] = (folder / run / "model.events.jsonl" for run in ("run", "sup"))
    return {name: path.read_bytes() for name, path in sorted(files.items())}


def killed_at(place: str, *arguments: object, env: dict[str, str]) -> None:
    """Run a command that dies there."""
    cli_process(*arguments, env={**env, "STREAMBPE_FAILPOINT": place}, expect=KILLED)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> dict[str, bytes]:
    """What this system makes of the sample, without any kill."""
    folder, env = tmp_path_factory.mktemp("here"), on("")
    cli_process("train", folder / "run", SAMPLE, "--vocab-size", 1000, env=env)
    cli_process("train", folder / "sup", SAMPLE, *SUPERWORDS, env=env)
    return outputs(folder, env)


@pytest.mark.parametrize("system", [HERE, MACOS, WINDOWS])
def test_killed_and_resumed_on_another_system(here, tmp_path, system):
    """Every step to the same bytes, with kills between; and what looks at a run says that it adds up."""
    env, run, sup = on(system), tmp_path / "run", tmp_path / "sup"
    killed_at("part-written", "count", run, SAMPLE, env=env)
    killed_at("part-committed", "count", run, SAMPLE, env=env)
    killed_at("journal-created", "train", run, SAMPLE, "--vocab-size", 1000, "--memory", "256MB", env=env)
    killed_at("tables-filled", "resume", run, env=env)
    killed_at("log-written", "resume", run, env=env)
    cli_process("resume", run, env=env)
    killed_at("words-written", "train", sup, SAMPLE, *SUPERWORDS, env=env)
    cli_process("resume", sup, env=env)
    assert outputs(tmp_path, env) == here
    for folder in (run, sup):
        assert "everything adds up" in cli_process("check", folder, env=env).stderr
        assert json.loads(cli_process("status", folder, "--json", env=env).stdout)["state"] == "done"
        assert not [path for path in folder.rglob("*") if path.suffix in (".new", ".tmp")]
    assert cli_process("decode", run, tmp_path / "encode-npy.npy", env=env).stdout
    cli_process("report", run, "-o", tmp_path / "page.html", env=env)
    cli_process("converge", run, "--draws", 1, "--vocab-size", 400, env=env)
    assert "memory" in cli_process("plan", SAMPLE, "--vocab-size", 400, "--rehearse", "1MB", env=env).stdout


@pytest.mark.parametrize("system", [MACOS, WINDOWS])
@pytest.mark.parametrize("place", ["snapshot-written", "snapshot-made:3"])
def test_killed_beside_a_snapshot_on_another_system(here, tmp_path, system, place):
    """The words of a snapshot are mapped while they are read; the next one takes its place."""
    given = {"run": tmp_path / "run", "options": {"vocab_size": 1000}}
    env = on(system)
    cli_process("count", tmp_path / "run", SAMPLE, env=env)
    settings = {"checkpoint_seconds": 0, "snapshot_seconds": 0}
    for failpoint in (place, ""):
        driver = Driver({**env, "STREAMBPE_FAILPOINT": failpoint}, trainer=settings, **given)
        code, err = driver.end()
        assert code == (KILLED if failpoint else 0), err
    assert (tmp_path / "run/model.events.jsonl").read_bytes() == here["model"]
    assert not list((tmp_path / "run/training").glob("*"))


@pytest.mark.long
@pytest.mark.parametrize("system", ["", MACOS, WINDOWS])
def test_a_run_that_another_writes_is_refused_and_its_holder_named(tmp_path, system):
    """The lock is held by the process that counts from standard input, and free when it is killed."""
    env, run = on(system), tmp_path / "run"
    command = [sys.executable, "-m", "streambpe", "count", str(run), "-", "--progress", "jsonl"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=env, cwd=ROOT, **streams) as holder:
        try:
            assert holder.stderr.readline().startswith(b"{"), "it counts"
            refused = cli_process("count", run, SAMPLE, env=env, expect=1)
            assert re.search(rf"process {holder.pid} on ", refused.stderr)
        finally:
            holder.kill()
    cli_process("count", run, SAMPLE, env=env, expect=None)
    assert "is being written by" not in cli_process("status", run, env=env, expect=None).stderr


@pytest.mark.parametrize("system", [MACOS, WINDOWS])
def test_ctrl_c_on_another_system(here, tmp_path, system):
    """Stopped by a signal that every system has; the same command continues."""
    env = on(system)
    cli_process("count", tmp_path / "run", SAMPLE, env=env)
    driver = Driver(env, run=tmp_path / "run", options={"vocab_size": 1000}, rest=0.05)
    assert driver.wait_for("learning")
    code, err = driver.end(signal.SIGINT)
    assert (code, "Continue with: streambpe resume" in err) == (130, True), err
    cli_process("train", tmp_path / "run", "--vocab-size", 1000, env=env)
    assert (tmp_path / "run/model.events.jsonl").read_bytes() == here["model"]
