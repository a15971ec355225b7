"""Kills on Windows; and a training where system.py finds nothing of what only Linux has, which learns the same.

`make test` on macOS and on Windows shows what they do. On Linux, this shows that their branches in system.py go at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from streambpe import system
from tests.runs import cli, cli_killed
from tests.samples import natural_text, written
from tests.uses import words_of

OPTIONS = ("--pattern", "boundless", "--superwords", "boundless", "--vocab-size", 400, "--memory", "400MB")


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("text") / "a.txt", natural_text(5, 30_000))


@pytest.fixture(scope="module")
def outputs(text, tmp_path_factory) -> Callable[[Path], dict[str, bytes]]:
    """What encodings and exports of a run are, by name; they must be those of a training that nobody disturbs."""

    def made(run: Path) -> dict[str, bytes]:
        out = tmp_path_factory.mktemp("outputs")
        for use in ("encode-npy", "encode-parquet", "export-tiktoken", "export-counts-parquet"):
            cli(*words_of(use, RUN=run, TEXT=text, OUT=out / use))
        return {path.name: path.read_bytes() for path in [run / "model.events.jsonl", *out.iterdir()]}

    return made


@pytest.fixture(scope="module")
def unbroken(text, outputs, tmp_path_factory) -> dict[str, bytes]:
    run = tmp_path_factory.mktemp("here") / "run"
    cli("train", run, text, *OPTIONS)
    return outputs(run)


@pytest.mark.skipif(os.name != "nt", reason="elsewhere tests/kills.py tries every boundary")
def test_killed_and_resumed_on_windows(text, outputs, unbroken, tmp_path):
    """Every step goes on to the same bytes, and nothing unfinished stays."""
    run = tmp_path / "run"
    cli_killed("part-written", "count", run, text, "--sequences", *OPTIONS[:2], expect=9)
    for place in ("part-committed", "journal-created", "words-written"):
        cli_killed(place, "train", run, text, *OPTIONS, expect=9)
    for place in ("tables-filled", "log-written"):
        cli_killed(place, "resume", run, expect=9)
    cli("resume", run)
    assert outputs(run) == unbroken
    assert "everything adds up" in cli("check", run).stderr
    assert not [path for path in run.rglob("*") if path.suffix in (".new", ".tmp")]


@pytest.fixture
def as_on_windows(monkeypatch, tmp_path) -> None:
    """No affinity, no /proc, no function of the C library, no fcntl but msvcrt; files are held while they are open."""
    fcntl = pytest.importorskip("fcntl")

    def locking(handle: int, mode: int, length: int) -> None:
        assert (os.lseek(handle, 0, os.SEEK_CUR) > 1 << 20, length) == (True, 1), "others can read who has the lock"
        try:
            fcntl.flock(handle, mode)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    changes = {
        "_PROC": tmp_path / "proc", "_CONTROL_GROUPS": tmp_path / "groups", "_OPEN_FILES_ARE_HELD": True,
        "_fcntl": None, "_msvcrt": SimpleNamespace(LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK=8, locking=locking),
        "_c_function": lambda name: lambda *_: None, "mmap": SimpleNamespace(), "select": SimpleNamespace(),
    }  # fmt: skip
    for name, instead in changes.items():
        monkeypatch.setattr(system, name, instead)
    monkeypatch.setattr(psutil, "LINUX", False)
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.delattr(psutil.Process, "memory_maps", raising=False)
    for name in ("sched_getaffinity", "process_cpu_count", "O_DIRECTORY"):
        monkeypatch.delattr(os, name, raising=False)


@pytest.mark.long
def test_without_what_only_linux_has(as_on_windows, text, outputs, unbroken, tmp_path):
    """The same bytes; one writer at a time; and memory, processes and streams are asked for in other ways."""
    cli("train", tmp_path / "run", text, *OPTIONS)
    assert outputs(tmp_path / "run") == unbroken
    assert "everything adds up" in cli("check", tmp_path / "run").stderr
    with (tmp_path / "lock").open("w") as holder, (tmp_path / "lock").open("w") as other:
        assert system.lock_handle(holder.fileno())
        assert not system.lock_handle(other.fileno())
        system.unlock_handle(holder.fileno())
        assert system.lock_handle(other.fileno())
    assert system.is_alive(os.getpid(), system.began_at(os.getpid()))
    assert not system.is_alive(os.getpid(), 1.0)
    assert (system.pid_namespace(), system.library_pages()) == (0, [])
    assert system.bytes_on_disk(SimpleNamespace(st_size=4097)) == 8192
    assert (system.nobody_listens(BrokenPipeError()), system.nobody_listens(OSError())) == (True, False)
    for name, is_first in (("a", True), ("b", False)):
        assert system.put_first(written(tmp_path / name, name), tmp_path / "target") == is_first
    assert (tmp_path / "target").read_text() == "a"
