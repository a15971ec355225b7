"""--memory holds for the whole process tree, and what the status says of it is so."""

import random
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe import resources
from streambpe.progress import Meter, Reporter
from streambpe.resources import Resources, keeper, release_memory
from streambpe.store.run import Run
from streambpe.system import library_pages, resident_bytes
from streambpe.train.counting.sizes import Sizes
from streambpe.train.words import columns_in
from tests.runs import ROOT, cli_process, counted_run, log_of, rows
from tests.samples import written

MB = 10**6


@pytest.fixture(autouse=True)
def looks_of_commands(monkeypatch):
    """Memory is looked at as commands do, not as seldom as in other tests (conftest.py)."""
    monkeypatch.setattr(resources, "library_pages", library_pages)
    monkeypatch.setattr(resources, "_PSS_SHARE", 20)
    monkeypatch.setattr(keeper, "_next_pages", 0.0)


@pytest.fixture
def run(tmp_path) -> Run:
    """A RUN without anything."""
    run = Run(tmp_path / "run")
    run.create({})
    return run


@pytest.mark.long
def test_the_peak_in_the_status_knows_what_stood_between_two_reports(run):
    """Half a second is long: memory taken and given back in it was missing from peak_memory_bytes."""
    release_memory()  # what other tests left would go back while this one looks
    meter = Meter("working", memory_limit=4 * 10**9)
    with Reporter(meter, run.write_status, "none") as reporter:
        reporter._stop.set()  # the two reports are those at the start and at the end
        reporter._thread.join()
        before = keeper.peak
        array = np.ones(400 * MB // 8)
        give_up = time.monotonic() + 60
        while keeper.peak < before + 300 * MB and time.monotonic() < give_up:
            time.sleep(0.01)
        del array
    assert run.read_status()["peak_memory_bytes"] > before + 300 * MB
    assert run.read_status()["memory_bytes"] < before + 200 * MB


def test_the_limit_of_a_job_ends_with_it():
    """From Python, a job without a limit was held to that of the one before."""
    with keeper.watching(10**9):
        with keeper.watching(0):
            assert keeper.limit == 10**9
        with keeper.watching(2 * 10**9):
            assert keeper.limit == 2 * 10**9
        assert keeper.limit == 10**9
    with keeper.watching(0):
        assert keeper.limit == 0


def many_scripts() -> str:
    """Lines of many alphabets, few of whose words stand twice: what takes most memory for its size."""
    random.seed(5)
    ranges = [(0x61, 0x7A), (0x430, 0x44F), (0x5D0, 0x5EA), (0x905, 0x939), (0xE01, 0xE2E), (0x4E00, 0x5000)]
    words = []
    for _ in range(360_000):
        low, high = random.choice(ranges)
        words.append("".join(chr(random.randint(low, high)) for _ in range(random.randint(2, 9))))
    return "\n".join(" ".join(words[i : i + 12_000]) for i in range(0, len(words), 12_000))


def one_chunk() -> bytes:
    """Letters without a place to cut, as many as are allowed."""
    size = Sizes.of(Resources(256 * MB, 2)).most
    assert size > 6.4 * MB
    return np.random.default_rng(1).integers(97, 123, size, np.uint8).tobytes()


def line_feeds() -> bytes:
    """They ended with "needs more than the 70.5 MiB that --memory leaves"."""
    return b"\n" * 5_000_000


def long_lines() -> bytes:
    """Chunks of 200 kB each, whose table DuckDB could not hold beside the tokens of all."""
    letters = np.random.default_rng(2).integers(97, 123, (100, 200_000), np.uint8)
    letters[:, 0] = ord("\n")
    return letters.tobytes()


def resident_at_most(*command):
    """What a command of Python holds at most until it ends well."""
    process = subprocess.Popen([sys.executable, *map(str, command)], cwd=ROOT, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(0.01)
    assert process.returncode == 0
    return peak


def keeps_to_256_mb(*command):
    """That a command holds never more than 1.05 times its --memory."""
    peak = resident_at_most("-m", "streambpe", *command, "--memory", "256MB")
    assert 100 * MB < peak < 1.05 * 256 * MB


@pytest.mark.long
@pytest.mark.parametrize("text", [many_scripts, one_chunk, line_feeds, long_lines])
def test_a_small_limit_holds_for_the_whole_command(tmp_path, text):
    """train --memory 256MB, on megabytes: counted, learned from and put in the tables."""
    source = written(tmp_path / "a.txt", text())
    keeps_to_256_mb("train", tmp_path / "run", source, "--vocab-size", 1000, "--progress", "none")


@pytest.mark.long
def test_the_tables_of_131072_ids_are_filled_with_the_least_memory(tmp_path):
    """DuckDB has half of what is left then; its tables hold every event."""
    random.seed(5)
    chunks = {"".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=10)): n for n in range(1, 60_001)}
    run = counted_run(tmp_path / "run", chunks)
    # in a process of its own: what pytest holds would leave the engine so little that it makes one merge at a time
    cli_process("train", run, "--vocab-size", 131_072, "--memory", "256MB", "--threads", 2)
    assert len(log_of(run).events) == 131_072 - 256
    assert rows(run, "SELECT count(*) FROM events") == [(131_072 - 256,)]
    assert rows(run, "SELECT count(*) FROM tokens WHERE born IS NOT NULL") == [(131_072 - 256,)]


@pytest.mark.long
def test_a_count_table_larger_than_the_limit_is_read_some_at_a_time(tmp_path):
    """A million rows in one row group, as other programs write them, with the least memory."""
    numbers = np.arange(1_000_000)
    chunks = [f"{n * 7919 % 1_000_003:07d} and more of it" for n in numbers.tolist()]
    pq.write_table(pa.table({"chunk": chunks, "count": numbers + 1}), tmp_path / "a.parquet", row_group_size=1 << 20)
    keeps_to_256_mb("count", tmp_path / "run", tmp_path / "a.parquet", "--counts")


_READ_WORDS = """
import sys
from pathlib import Path
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.rules import EngineOptions
from streambpe.train.engine.state import State
from streambpe.train.words import open_columns
folder = Path(sys.argv[1])
options = EngineOptions(memory_bytes=24 << 20, threads=1, work_dir=folder / "blocks")
Engine(open_columns(folder), State([bytes([b]) for b in range(256)], options)).close()
"""


@pytest.mark.long
def test_words_larger_than_the_limit_are_read_some_at_a_time(tmp_path):
    """6 million words in files, 144 MB: what is resident on their way to blocks does not grow with them."""
    symbols = np.tile(np.arange(97, 103, dtype=np.int32), 2_000_000)
    words = (symbols, 2 * np.arange(6_000_001), np.ones(6_000_000, np.int64))
    for path, array in zip(columns_in(tmp_path), words, strict=True):
        array.tofile(path)
    assert resident_at_most("-c", _READ_WORDS, tmp_path) < 200 * MB


@pytest.mark.long
def test_check_of_a_run_with_documents_keeps_to_the_limit(tmp_path):
    """Two million distinct chunks: check held them all as Python objects, whatever --memory said."""
    letters = np.random.default_rng(5).integers(97, 123, (2_000_000, 9), np.uint8)
    letters[:, 0], letters[::100, 0] = ord(" "), ord("\n")
    source = written(tmp_path / "many.txt", letters.tobytes())
    cli_process("count", tmp_path / "run", source, "--sequences", "--lines", "--pattern", "gpt2", "--memory", "400MB")
    keeps_to_256_mb("check", tmp_path / "run", "--progress", "none")
