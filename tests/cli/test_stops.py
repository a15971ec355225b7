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
