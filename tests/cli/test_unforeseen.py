"""Errors that nobody foresaw: one message, a file with the traceback, exit code 70; the work that was done stays."""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile

import pytest

from streambpe.cli.main import main
from tests.runs import ROOT, cli


@pytest.fixture
def broken(monkeypatch):
    """`count`, `encode` and `import` have a defect."""

    def fail(**_: object) -> None:
        raise ZeroDivisionError("one \n of two lines")

    for name in ("count", "encode", "import"):
        monkeypatch.setattr(main.get_command(None, name), "callback", fail)


def test_the_traceback_goes_into_the_run(broken, desk):
    """The message names the file and the next command; RUN goes on as if nothing had been."""
    run = desk / "run"
    done = cli("count", run, "more.txt", expect=70)
    (file,) = run.glob("traceback-*.txt")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("streambpe: this is a bug in streambpe, not in its input (ZeroDivisionError: one ")
    assert f"The traceback is in {file}: please report it." in done.stderr
    assert f"`streambpe resume {run}`" in done.stderr
    told = file.read_text()
    assert f"streambpe count {run} more.txt" in told
    assert "Traceback (most recent call last)" in told
    assert "ZeroDivisionError: one" in told
    cli("train", run, "--vocab-size", "270")
    cli("check", run)


def test_words_that_are_no_names_of_files(broken, monkeypatch, tmp_path):
    """A query is longer than any name, or holds a NUL: neither hides the error."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for query in ("SELECT " + "1, " * 3000, "SELECT '\0'"):
        assert "ZeroDivisionError" in cli("count", tmp_path / "none", query, expect=70).stderr


NO_MEMORY = "streambpe: no more memory or threads are available ("


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MemoryError(), 3, NO_MEMORY),  # of `ulimit -v`, whichever library is the first to meet it
        (RuntimeError("can't start new thread"), 3, NO_MEMORY),
        (ImportError("a.so: failed to map segment from x"), 3, NO_MEMORY),
        (PermissionError(13, "No", "/there"), 1, "streambpe: /there cannot be read or written: No."),
        # any pipe or socket may break: only stdout and stderr without a reader mean that nobody is told
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 70, "streambpe: this is a bug in streambpe, not in its input (B"),
    ],
)
def test_what_the_system_refuses(monkeypatch, tmp_path, error, code, told):
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(main.get_command(None, "count"), "callback", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = cli("count", tmp_path / "none", "a.txt", expect=code)
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1
    assert bool(list(tmp_path.iterdir())) == (code == 70)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems bound no address space")
def test_a_bound_on_the_address_space_ends_in_one_message(desk, tmp_path):
    command = [sys.executable, "-m", "streambpe", "train", str(tmp_path / "run"), str(desk / "a.txt"), "-s", "262"]
    done = subprocess.run(["sh", "-c", 'ulimit -v 300000; "$@"', "sh", *command], cwd=ROOT, capture_output=True)
    assert done.returncode == 3, done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["encode", "import"])
def test_without_a_run_it_goes_into_the_temporary_folder(broken, monkeypatch, tmp_path, desk, command):
    """Also of `encode RUN text.txt`, which counts nothing: no word of counts that are kept, and no file in RUN."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = desk / "run"
    before = sorted(run.iterdir())
    done = cli(command, run, "-o", tmp_path / "out", expect=70)
    assert "No RUN was being written." in done.stderr
    assert sorted(run.iterdir()) == before
    (file,) = tmp_path.glob("traceback-*.txt")
    assert str(file) in done.stderr
