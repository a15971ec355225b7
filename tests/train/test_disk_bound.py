"""--max-disk: what cannot fit is refused before anything is read; what reaches it stops, and goes on with more."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streambpe.errors import LimitError
from streambpe.store.database import open_store
from streambpe.store.job import read_jobs
from streambpe.store.run import Run
from streambpe.train import disk_bound
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count, count_from_iterator
from streambpe.train.disk_bound import disk_needed, used_bytes
from tests.runs import SMALL, cli
from tests.samples import natural_text, written
from tests.train.test_resume import wait_until

ROOMY = replace(SMALL, max_disk_bytes=10**9)
SUPERWORDS = ["none", "boundless", "superbpe", "uw"]


class Disk(threading.Event):
    """When it is set, the disk holds more than any bound."""

    looks = 0  # while it is set

    def fill(self) -> None:
        """And the job has been told to stop: it looked twice."""
        self.set()
        wait_until(lambda: self.looks > 1)

    def used(self, *places: Path | None) -> int:
        self.looks += self.is_set()
        return 2 * 10**9 if self.is_set() else 0


@pytest.fixture
def disk(monkeypatch) -> Disk:
    full = Disk()
    monkeypatch.setattr(disk_bound, "_LOOK_SECONDS", 0.005)
    monkeypatch.setattr(disk_bound, "used_bytes", full.used)
    return full


@pytest.fixture
def text(tmp_path) -> Path:
    return written(tmp_path / "a.txt", natural_text(3, 2000) + "\n" + "at the end of the day\n" * 400)


def options_of(superwords: str) -> dict[str, object]:
    how = {"transition": 290} if superwords in ("superbpe", "uw") else {}
    return {"vocab_size": 340, "superwords": superwords, "lines": True, **how}


@pytest.mark.long
@pytest.mark.parametrize(
    ("superwords", "when"),
    [("none", "words"), ("uw", "words"), ("uw", "superwords"), ("boundless", "superwords"), ("superbpe", "superwords")],
)
def test_learning_that_reaches_it_goes_on_with_more(superwords, when, disk, text, tmp_path):
    """All that was learned is kept; resume remembers the bound, and with more the log is the usual one."""
    run = tmp_path / "run"

    def fill(_batch: object) -> None:
        if when == "words" or any((run / "training" / "main").glob("superwords-*")):
            disk.fill()

    options = options_of(superwords)
    with pytest.raises(LimitError, match=r"--max-disk 1\.0 GB is reached") as error:
        train(run, [str(text)], resources=ROOMY, on_batch=fill, checkpoint_seconds=0, **options)
    assert "Everything committed is kept" in str(error.value)
    assert json.loads((run / "status.json").read_text())["message"] == str(error.value)
    assert read_jobs(Run(run)).trainings["main"].resources["max_disk_bytes"] == 10**9
    with pytest.raises(LimitError, match="is reached"):
        resume(run)
    disk.clear()
    wanted = train(tmp_path / "beside", [str(text)], resources=SMALL, **options)
    assert resume(run, resources=replace(SMALL, max_disk_bytes=3 * 10**9)).sha256 == wanted.sha256
    assert ("disk_needed_bytes" in json.loads((run / "status.json").read_text())) == (superwords != "none")


@pytest.mark.long
def test_counting_that_reaches_it_goes_on_with_more(disk, tmp_path):
    """What was read before is committed, and not read again."""
    lines = natural_text(4, 3000).splitlines()

    def texts(fills: bool) -> Iterator[str]:
        yield from lines
        if fills:
            disk.fill()
        for _ in range(10):
            yield "x y " * 100_000

    with pytest.raises(LimitError, match="is reached"):
        count_from_iterator(tmp_path / "run", texts(True), resources=ROOMY)
    disk.clear()
    whole = count_from_iterator(tmp_path / "run", texts(False), resources=ROOMY).corpus
    assert whole == count_from_iterator(tmp_path / "beside", texts(False), resources=SMALL).corpus


@pytest.mark.parametrize("superwords", SUPERWORDS[1:])
def test_what_cannot_fit_is_refused_before_anything_is_read(superwords, text, tmp_path):
    """Exit 3 and one message that says what needs how much; no RUN is made."""
    needed = disk_needed(text.stat().st_size, superwords)
    arguments = ["--memory", "400MB", "--superwords", superwords, "-s", "340"]
    arguments += [] if superwords == "boundless" else ["--transition", "290"]
    arguments += ["--max-disk", str(sum(needed.values()) - 1)]
    done = cli("train", tmp_path / "run", text, *arguments, expect=3)
    assert all(what in " ".join(done.stderr.split()) for what in (*needed, "Nothing was changed", "streambpe plan"))
    assert not (tmp_path / "run").exists()


def test_counts_that_cannot_fit(text, tmp_path):
    """With documents by the size of the sources; a RUN that is too large already; superwords of what is counted."""
    with pytest.raises(LimitError, match="the documents"):
        count(tmp_path / "run", [str(text)], resources=replace(SMALL, max_disk_bytes=1000), sequences=True)
    assert not (tmp_path / "run").exists()
    count(tmp_path / "run", [str(text)], resources=SMALL, sequences=True, lines=True)
    tight = replace(SMALL, max_disk_bytes=used_bytes(tmp_path / "run", None, None) // 2)
    with pytest.raises(LimitError, match=r"is reached.*Everything committed is kept\. Continue with more"):
        train(tmp_path / "run", resources=tight, vocab_size=300)
    with pytest.raises(LimitError, match=r"of superwords.*All counts and documents are kept.*resume .*disk SIZE"):
        train(tmp_path / "run", resources=replace(SMALL, max_disk_bytes=1000), vocab_size=300, superwords="boundless")


@pytest.mark.long
def test_what_is_known_only_when_it_is_counted(tmp_path):
    """A compressed source looks smaller than its text is: refused behind counting, it says that the counts are kept."""
    lines = b"at the end of the day\n" * 200_000
    source = written(tmp_path / "a.txt.gz", gzip.compress(lines))
    tight = replace(SMALL, max_disk_bytes=sum(disk_needed(len(lines) // 2, "boundless").values()))
    with pytest.raises(LimitError, match=r"too small.*All counts and documents are kept") as error:
        train(tmp_path / "run", [str(source)], resources=tight, **options_of("boundless"))
    assert "Nothing was changed" not in str(error.value)
    assert Run(tmp_path / "run").facts()["corpus"]
    assert resume(tmp_path / "run", resources=replace(SMALL, max_disk_bytes=10**9)).sha256


def test_temporary_files_count(tmp_path, monkeypatch):
    """Blocks of learning and what DuckDB spills, in --temp-dir; not what else lies there: a job was stopped for what
    its neighbour spilled."""
    for module in ("streambpe.disk", "streambpe.train.disk_bound"):  # how a file system rounds is its own affair
        monkeypatch.setattr(f"{module}.bytes_on_disk", lambda status: status.st_size)
    run, temp = tmp_path / "run", tmp_path / "temp"
    for folder in (run, temp / "blocks"):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 40_000)
    (temp / "other").write_bytes(b"x" * 10**6)
    (temp / "duckdb_temp_1_0_storage_DEFAULT-0.tmp").write_bytes(b"x" * 10**6)  # of process 1
    with contextlib.closing(open_store(":memory:", memory_bytes=32 << 20, temp_dir=temp)) as con:
        con.execute("CREATE TABLE spilled AS SELECT hash(i) AS n FROM range(8_000_000) AS numbers(i)")
        assert used_bytes(run, None, None) == 40_000
        assert 80_000 + 10**7 < used_bytes(run, temp / "blocks", temp) < 80_000 + 10**8
    assert used_bytes(run, temp / "blocks", temp) == 80_000
