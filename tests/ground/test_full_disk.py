"""A full disk: every command says it in one message, what was there stays, and with room the same command continues."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from streambpe.arrays import save_array, write_array
from streambpe.model.eventlog import read_event_log
from tests.full_disks import assert_one_message, is_told
from tests.runs import ROOT, cli, cli_process
from tests.samples import natural_text
from tests.uses import MAKES_FILES, MAKES_MORE, words_of

MEMORY = ("--memory", "400MB", "--threads", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a text, a run that is counted, and one that is trained."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "a.txt").write_text(natural_text(1, 30_000))
    (folder / "b.txt").write_text(natural_text(2, 20_000))
    cli("count", folder / "counted", folder / "a.txt", "--sequences", "--pattern", "boundless", *MEMORY)
    cli("train", folder / "trained", folder / "a.txt", "-s", 400, *MEMORY)
    cli("export", folder / "trained", "--to", "hf", "-o", folder / "theirs.json")
    return folder


MORE = (
    "count COUNTED MORE --memory 400MB",
    "train COUNTED -s 400 --superwords boundless --memory 400MB",
    "train RUN -s 300 --name beside --memory 400MB",
)  # fmt: skip


@pytest.mark.every(len(MAKES_FILES))
@pytest.mark.parametrize("use", [*MAKES_FILES, *sorted({*MAKES_MORE} - {"export-gguf"}), *MORE])
def test_a_disk_that_is_full_from_the_start(use, made, tmp_path):
    """Not one byte can be written: one message and no half file; with room the same command succeeds."""
    here = shutil.copytree(made, tmp_path / "here")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "lock"}
    places = {"RUN": "trained", "TEXT": "a.txt", "MORE": "b.txt", "COUNTED": "counted", "TOKENIZER": "theirs.json"}
    arguments = words_of(use, **{name: here / file for name, file in places.items()}, OUT=here / "out", HERE=here)
    if arguments[0] == "export":
        arguments.append("--no-compare")  # for a copy there is no room either
    assert is_told(arguments, 0)
    for path, data in before.items():
        assert path.name in ("status.json", "state.duckdb") or path.read_bytes() == data, path
    for path in here.iterdir():
        assert path in before or path.is_dir() or path.stat().st_size == 0, f"half of {path.name}"
    cli(*arguments)


@pytest.mark.parametrize("words", [["sql", "RUN", "vocabulary", "--csv"], ["--help"]])
def test_results_to_a_full_disk(made, words):
    """stdout on a full disk: one message."""
    words = [made / "trained" if word == "RUN" else word for word in words]
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "streambpe", *words]
        failed = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert_one_message(failed.returncode, failed.stderr)


@pytest.fixture
def disk(tmp_path) -> Iterator[Callable[[str], Path]]:
    """A disk of its own: disk("300k") makes it that large, again and again."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here; the other tests do with files that may not grow")

    def resize(size: str) -> Path:
        subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)
        return place

    yield resize
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.every(2)
@pytest.mark.long
@pytest.mark.parametrize("size", ["4k", "64k", "700k", "1200k", "1400k", "1800k", "2200k"])
@pytest.mark.parametrize("superwords", ["none", "boundless"])
def test_real_disks_of_many_sizes(size, superwords, made, disk, tmp_path):
    """Filled while counting, folding or learning: one message, twice; when it grows, the log is the usual one."""
    options = (made / "a.txt", "-s", 500, "--superwords", superwords, "--pattern", "boundless", *MEMORY)
    run = disk(size) / "run"
    for _ in range(2):
        failed = cli_process("train", run, *options, expect=None)
        if failed.returncode:  # the largest holds it
            assert_one_message(failed.returncode, failed.stderr)
    disk("64m")
    cli("train", run, *options)
    cli("train", tmp_path / "beside", *options)
    logs = [read_event_log(folder / "model.events.jsonl").events for folder in (run, tmp_path / "beside")]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("way", ["write_array", "save_array"])
def test_an_array_that_finds_no_room_is_told(way, disk, tmp_path):
    """numpy's own writing loses the last bytes without a word: a training read words that were cut short."""
    place = disk("64k")
    told, sizes = 0, range(7000, 8400, 9)
    for n in sizes:
        array, path = np.arange(n), place / "a"
        try:
            if way == "write_array":
                with path.open("wb") as out:
                    write_array(array, out)
                assert path.stat().st_size == array.nbytes
            else:
                save_array(array, path)
                assert (np.load(path) == array).all()
        except OSError:
            told += 1
        path.unlink()
    assert 10 < told < len(sizes) - 10
