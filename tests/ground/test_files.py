"""What takes a name is on the disk before it has the name, and the name is on the disk before anything goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streambpe import files
from streambpe.encode.corpus import encode_corpus
from streambpe.encode.formats.export import export
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.outputs import parents_made
from streambpe.store.run import Run
from streambpe.train.commands import train
from tests.runs import SMALL
from tests.samples import CATS, written

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the name of an open file is asked of /proc")


class Disk:
    """Follows what is synced and renamed; refuses a name for what is not on the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[str] = set()
        self.unsynced_names: set[Path] = set()  # folders in which a name changed and that were not synced since
        self._fsync, self._replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, handle: int) -> None:
        """Note which file or folder it is."""
        path = os.readlink(f"/proc/self/fd/{handle}")
        self.synced.add(path)
        self.unsynced_names.discard(Path(path))
        self._fsync(handle)

    def replace(self, source: Path, target: Path) -> None:
        """Everything in `source` must have been synced, a folder itself too; status.json is worth nothing later."""
        source, target = Path(source).absolute(), Path(target).absolute()
        if target.name != "status.json":
            missing = [str(path) for path in (source, *source.rglob("*")) if str(path) not in self.synced]
            assert not missing, f"renamed to {target} before it was on the disk: {missing}"
            self.unsynced_names.add(target.parent)
        self._replace(source, target)


@pytest.fixture
def disk(monkeypatch) -> Iterator[Disk]:
    """At the end no folder may hold a name that is not on the disk."""
    disk = Disk(monkeypatch)
    yield disk
    assert disk.synced
    assert not disk.unsynced_names


@pytest.fixture
def run(desk) -> Path:
    """A small vocabulary."""
    return desk / "run"


def test_counting_and_learning(disk, tmp_path):
    """Parts, journal, snapshot, words of superwords, log: all that has a name when a training ends."""
    source = written(tmp_path / "a.txt", CATS)
    train(tmp_path / "run", [str(source)], vocab_size=275, superwords="boundless", lines=True, resources=SMALL)
    assert any(".words-" in path for path in disk.synced)
    assert Run(tmp_path / "run").facts()


@pytest.mark.parametrize("to", ["hf", "events"])
def test_exports(disk, run, tmp_path, to):
    """A folder that an export makes is synced, and so is the one that it stands in."""
    export(run, to, tmp_path / "out")
    assert str(tmp_path) in disk.synced
    export(run, to, tmp_path / "new" / "folder" / "out")
    assert {str(tmp_path / "new"), str(tmp_path / "new" / "folder")} <= {str(path) for path in disk.synced}


def test_what_living_processes_make_stays(tmp_path, monkeypatch):
    """On a host whose name begins alike, in another container, in this process; what a killed process made goes."""
    gone = 2**22 + 1

    def this_is(patch: pytest.MonkeyPatch, host: str, space: int) -> Path:
        patch.setattr("socket.gethostname", lambda: host)
        patch.setattr(files, "pid_namespace", lambda: space)
        return files.own_name(tmp_path, ".a", ".streambpe.new")

    def made(host: str, space: int, pid: int) -> Path:
        with monkeypatch.context() as patch:
            path = this_is(patch, host, space)
        path = path.with_name(path.name.replace(f"-{os.getpid()}-", f"-{pid}-"))
        path.touch()
        return path

    others = made(f"node-{gone}", 7, gone), made("node", 8, gone), made("node", 7, os.getpid())
    dead = made("node", 7, gone)
    this_is(monkeypatch, "node", 7)
    assert not dead.exists()
    assert all(path.exists() for path in others)


def test_folders_around_an_export_go_again_if_it_fails(run, tmp_path):
    """Nothing is left of what was made for a file that could not be written; what was there stays."""
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError):
        export(run, "gguf", tmp_path / "mine" / "a" / "b" / "out.gguf", vocab_size=[9])
    around = parents_made(tmp_path / "mine" / "a" / "b" / "out")
    around.__enter__()
    assert (tmp_path / "mine" / "a" / "b").is_dir()
    assert not around.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        export(run, "hf", tmp_path / "mine" / "file" / "out.json")


@pytest.mark.parametrize("name", ["ids.bin", "ids.npy", "ids.parquet"])
def test_encoded_files(disk, run, tmp_path, name):
    source = written(tmp_path / "text.txt", "the other cat")
    encode_corpus(Tokenizer(run), [str(source)], tmp_path / name, resources=SMALL)
    assert (tmp_path / name).exists()
