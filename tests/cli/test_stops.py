"""Ctrl-C where no command waits for it: no traceback, and the code of other programs that were stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from streambpe.cli.main import _Commands
from streambpe.runners import processes

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no signal masks, and other signals")


def test_a_command_that_does_not_wait_for_ctrl_c_ends_with_130():
    """It was click's `Aborted!` and 1, which means an error that a message explains."""

    @click.group(cls=_Commands)
    def group() -> None: ...

    @group.command()
    def rests() -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(group, ["rests"])
    assert result.exit_code == 130
    assert result.stderr == "streambpe: stopped by Ctrl-C. What was committed is kept.\n"


def _ends(script: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    return done.returncode, done.stdout + done.stderr


@POSIX
@pytest.mark.parametrize(("before", "code"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)])
def test_ctrl_c_while_the_modules_are_loaded(before, code):
    """Whole tracebacks were shown. Behind nohup it is ignored, then as before."""
    script = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.{before})
class Presses:
    def find_spec(self, name, *_):
        if name == "streambpe.cli.main":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Presses())
sys.argv[1:] = ["--version"]
from streambpe.__main__ import main
main()
"""
    found, said = _ends(script)
    assert found == code
    assert said == "" if code else "version" in said


@POSIX
def test_a_worker_hears_no_ctrl_c_before_it_ignores_it():
    """What comes before is forgotten, what comes behind is ignored."""
    worker = "import signal as s; s.raise_signal(s.SIGINT); s.raise_signal(s.SIGTERM); "
    worker += "from streambpe.system import ignore_stop_signals; ignore_stop_signals(); s.raise_signal(s.SIGINT); "
    worker += "print(s.pthread_sigmask(s.SIG_BLOCK, []))"
    script = "import subprocess, sys; from streambpe.system import born_deaf\nwith born_deaf():\n"
    script += f"    process = subprocess.Popen([sys.executable, '-c', {worker!r}])\nsys.exit(process.wait())"
    assert _ends(script) == (0, "set()\n")


def _start_nursery() -> None:
    nursery = processes.Forking(1 << 28, ())
    try:
        nursery.start(lambda: True)
    finally:
        nursery._answers.close()
        nursery._control.close()


@POSIX
@pytest.mark.parametrize("start", [lambda: processes.Spawning(1 << 28).start(lambda: True), _start_nursery])
def test_every_worker_is_started_so(start, monkeypatch):
    """Ctrl-C and SIGTERM for a whole group of processes ended those that had just been started."""
    seen = []

    class Started(Exception):
        """Instead of a process."""

    def start_nothing(*_args, **_more) -> None:
        seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise Started

    monkeypatch.setattr(processes.subprocess, "Popen", start_nothing)
    with pytest.raises(Started):
        start()
    assert {signal.SIGINT, signal.SIGTERM} <= seen[0]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
