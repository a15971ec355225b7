"""Ctrl-C where no command waits for it: no traceback, and the code of other programs that were stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from streambpe.cli.main import main
from tests.runs import cli

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no signal masks, and other signals")


def test_a_command_that_does_not_wait_for_ctrl_c_ends_with_130(monkeypatch):
    """It was click's `Aborted!` and 1, which means an error that a message explains."""

    def press(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.get_command(None, "status"), "callback", press)
    assert cli("status", "run", expect=130).stderr == "streambpe: stopped by Ctrl-C. What was committed is kept.\n"


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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == code
    assert (done.stdout + done.stderr == "") if code else ("version" in done.stdout)
