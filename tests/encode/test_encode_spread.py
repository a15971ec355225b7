"""Encoding by tasks: the same bytes as by threads, whoever runs the tasks and whatever dies on the way."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.encode import blocks, spread, tasks
from streambpe.encode.corpus import encode_corpus
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError, Stopped, UsageError
from streambpe.files import unfinished
from streambpe.resources import Resources
from streambpe.runners.runner import Attempt
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch
from tests.runners.tasks import Dying, die_at, instead_of_ray
from tests.runs import ROOT, cli
from tests.samples import json_lines
from tests.trained import DOCUMENTS, HOSTILE, TEXT, trained

THREADS = Resources(1 << 30, 2, engine="threads")
ON_RAY = Resources(1 << 30, 2, engine="ray")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A source of every kind."""
    folder = tmp_path_factory.mktemp("texts")
    documents = [*DOCUMENTS, "", *(f"{i} the end of the day" * (i % 7) for i in range(300)), *HOSTILE]
    (folder / "a.txt").write_text(TEXT + " the end of the day" * 900 + TEXT, encoding="utf-8")
    lines = Path(json_lines(folder / "b.jsonl", documents)).read_bytes()
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines))
    pq.write_table(pa.table({"text": documents}), folder / "d.parquet", row_group_size=40)
    (folder / "e.csv").write_text("id,text\n" + "".join(f'{i},"the end, of\nday {i}"\n' for i in range(900)))
    (folder / "f.txt").write_bytes(b"")
    (folder / "g.txt").write_bytes(b"the end " * 500 + b"\xc3 of \xff the day " * 40)
    return folder


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch):
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(spread, "_LEAST_TASK", 3000)
    monkeypatch.setattr(blocks, "_MOST_BLOCK", 1500)
    monkeypatch.setattr(blocks, "_LEAST_BLOCK", 1500)


def encoded(source, output, resources, kind="boundless", **more):
    """Encode; all files that came of it, by name."""
    output.parent.mkdir(exist_ok=True)
    encode_corpus(Tokenizer(trained(kind)), [str(source)], output, resources=resources, bad_utf8="replace", **more)
    return {path.name: path.read_bytes() for path in output.parent.iterdir()}


@pytest.fixture(scope="module")
def ones(texts, tmp_path_factory):
    """The files that threads make."""
    return encoded(texts, tmp_path_factory.mktemp("threads") / "ids.npy", THREADS)


@pytest.fixture
def done(monkeypatch):
    """The tasks that are joined."""
    take, paths = spread.taken_blocks, []
    monkeypatch.setattr(spread, "taken_blocks", lambda path, many: (paths.append(path), take(path, many))[1])
    return paths


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("boundless", {}),
        ("superbpe", {"validation": 0.3}),
        ("plain", {"eot": "<|endoftext|>", "lines": True}),
    ],
)
def test_tasks_make_what_threads_make(tmp_path, texts, done, kind, options):
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS, kind, **options)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY, kind, **options) == ones
    assert len(done) > 6


@pytest.mark.long
@pytest.mark.parametrize("then", [ON_RAY, THREADS])
def test_stopped_between_tasks_it_goes_on_with_either(tmp_path, texts, ones, done, monkeypatch, then):
    """Stopped behind every third task, in the middle of documents too; and then by who is not at work by tasks."""
    take, stops = spread.taken_blocks, []

    def stopping(path, many):
        yield from take(path, many)
        if len(done) % 3 == 0:
            stops[-1].set()

    with monkeypatch.context() as patched:
        patched.setattr(spread, "taken_blocks", stopping)
        for _ in range(3):
            stops.append(threading.Event())
            with pytest.raises(Stopped, match="same command"):
                encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY, stop=stops[-1])
            assert not (unfinished(tmp_path / "tasks/ids.npy") / "tasks").exists()
    assert encoded(texts, tmp_path / "tasks/ids.npy", then) == ones


def test_what_a_worker_cannot_hold_is_encoded_by_threads(tmp_path, texts, ones, done, monkeypatch):

    def too_large(task, attempt):
        if task.number == 3:
            raise LimitError("too large")
        return tasks.encode_stretches(task, attempt)

    monkeypatch.setattr(spread, "encode_stretches", too_large)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY) == ones
    assert len(done) <= 3


def test_a_dead_worker_that_still_writes_harms_nothing(tmp_path, texts):
    """Attempt 1 begins while attempt 0 is at work: what attempt 0 commits later is refused, and nothing of it stays."""
    source, encoder = texts / "a.txt", Tokenizer(trained("plain")).encoder
    task = tasks.EncodeTask(7, ((0, Stretch(Source(str(source), "txt", bytes=source.stat().st_size))),))
    shared = tasks.EncodeShared(encoder, tmp_path / "tasks", "replace", False, 60)
    second = []

    def attempt(number, progress=lambda done: None):
        return tasks.encode_stretches(task, Attempt(number, 1 << 26, shared, lambda: False, progress))

    def first_is_at_work(done):
        if not second:
            second.extend([attempt(1), (tmp_path / "tasks" / task.name).read_bytes()])

    with pytest.raises(OSError, match=task.name):
        attempt(0, first_is_at_work)
    assert (tmp_path / "tasks" / task.name).read_bytes() == second[1]
    assert attempt(2) == second[0], "what was committed and never told is made again"


@pytest.mark.long
@pytest.mark.parametrize("point", ["begun", "written", "committed"])
def test_a_lost_worker_is_replaced(tmp_path, texts, ones, monkeypatch, point):
    instead_of_ray(monkeypatch, Dying)
    die_at(monkeypatch, f"encode-0-{point}", tasks)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY) == ones


@pytest.mark.long
@pytest.mark.parametrize("then", [ON_RAY, THREADS])
def test_a_killed_command_goes_on_with_either(tmp_path, texts, ones, then):
    """Killed when some tasks are done and others at work: what they left goes, and the bytes are the same."""
    (tmp_path / "tasks").mkdir()
    script = (
        "import sys; from streambpe.encode import spread; from streambpe.encode.corpus import encode_corpus;"
        "from streambpe.encode.tokenizer import Tokenizer; from streambpe.resources import Resources;"
        "from tests.trained import trained; spread._LEAST_TASK = 3000;"
        "from tests.runners.tasks import instead_of_ray; import pytest; instead_of_ray(pytest.MonkeyPatch());"
        "encode_corpus(Tokenizer(trained('boundless')), sys.argv[1:2], sys.argv[2], bad_utf8='replace',"
        " resources=Resources(1 << 30, 2, engine='ray'))"
    )
    environment = {**os.environ, "STREAMBPE_FAILPOINT": "encode-task-done:4"}
    command = [sys.executable, "-c", script, str(texts), str(tmp_path / "tasks/ids.npy")]
    assert subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert (unfinished(tmp_path / "tasks/ids.npy") / "tasks").exists()
    assert encoded(texts, tmp_path / "tasks/ids.npy", then) == ones


def test_an_engine_that_cannot_be_had_is_refused(tmp_path):
    stdin, tokenizer = Source("-", "lines", is_stdin=True), Tokenizer(trained("plain"))
    with pytest.raises(UsageError, match="--engine ray: standard input is a stream"):
        encode_corpus(tokenizer, [stdin], tmp_path / "ids.npy", resources=ON_RAY)
    assert list(tmp_path.iterdir()) == []
    refused = cli("encode", tmp_path / "model", "--engine", "threads", expect=2)
    assert "--engine is for encoding to a file" in refused.stderr
