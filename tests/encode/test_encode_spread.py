"""Encoding by tasks: the same bytes as by threads, whoever runs the tasks and whatever dies on the way."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.encode import blocks, spread, tasks
from streambpe.encode.blocks import EncodedBlock
from streambpe.encode.corpus import encode_corpus
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError, Stopped, UsageError
from streambpe.files import unfinished
from streambpe.resources import Resources
from streambpe.runners.runner import Attempt
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch
from tests.runners.tasks import Dying, die_at, instead_of_ray
from tests.runs import ROOT
from tests.trained import DOCUMENTS, HOSTILE, TEXT, trained

THREADS = Resources(1 << 30, 2, engine="threads")
ON_RAY = Resources(1 << 30, 2, engine="ray")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of every kind."""
    folder = tmp_path_factory.mktemp("texts")
    documents = [*DOCUMENTS, "", *(f"{i} the end of the day" * (i % 7) for i in range(300)), *HOSTILE]
    lines = "".join(json.dumps({"text": d, "n": i}) + "\n" for i, d in enumerate(documents))
    (folder / "a.txt").write_text(TEXT + " the end of the day" * 900 + TEXT, encoding="utf-8")
    (folder / "b.jsonl").write_text(lines, encoding="utf-8")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pq.write_table(pa.table({"text": documents}), folder / "d.parquet", row_group_size=40)
    (folder / "e.csv").write_text("id,text\n" + "".join(f'{i},"the end, of\nday {i}"\n' for i in range(900)))
    (folder / "f.txt").write_bytes(b"")
    (folder / "g.txt").write_bytes(b"the end " * 500 + b"\xc3 of \xff the day " * 40)
    return folder


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(spread, "_LEAST_TASK", 3000)
    monkeypatch.setattr(blocks, "_MOST_BLOCK", 1500)
    monkeypatch.setattr(blocks, "_LEAST_BLOCK", 1500)


def encoded(source: Path, output: Path, resources: Resources, kind: str = "boundless", **more: Any) -> dict[str, bytes]:
    """Encode; all files that came of it, by name."""
    output.parent.mkdir(exist_ok=True)
    encode_corpus(Tokenizer(trained(kind)), [str(source)], output, resources=resources, bad_utf8="replace", **more)
    return {path.name: path.read_bytes() for path in output.parent.iterdir()}


def note_joined(monkeypatch: pytest.MonkeyPatch, done: list[object]) -> None:
    """`done` gets the tasks that are joined."""
    take = spread.taken_blocks
    monkeypatch.setattr(spread, "taken_blocks", lambda path, many: (done.append(path), take(path, many))[1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("boundless", {}),
        ("superbpe", {"validation": 0.3}),
        ("plain", {"eot": "<|endoftext|>", "lines": True}),
        ("uw", {}),
        ("plain", {"validation": "20%", "lines": True}),
    ],
)
def test_tasks_make_what_threads_make(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, Any]
) -> None:
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS, kind, **options)
    done: list[object] = []
    note_joined(monkeypatch, done)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY, kind, **options) == ones
    assert len(done) > 6


@pytest.mark.long
@pytest.mark.parametrize("then", [ON_RAY, THREADS])
def test_stopped_between_tasks_it_goes_on_with_either(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, then: Resources
) -> None:
    """Stopped behind every third task, in the middle of documents too; and then by who is not at work by tasks."""
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS)
    done: list[object] = []
    note_joined(monkeypatch, done)
    take, stops = spread.taken_blocks, []

    def stopping(path: Path, many: int) -> Iterator[EncodedBlock]:
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


def test_what_a_worker_cannot_hold_is_encoded_by_threads(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS)
    done: list[object] = []
    note_joined(monkeypatch, done)

    def too_large(task: tasks.EncodeTask, attempt: Attempt) -> int | None:
        if task.number == 3:
            raise LimitError("too large")
        return tasks.encode_stretches(task, attempt)

    monkeypatch.setattr(spread, "encode_stretches", too_large)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY) == ones
    assert len(done) <= 3


def a_task(folder: Path, source: Path) -> tuple[tasks.EncodeTask, tasks.EncodeShared]:
    encoder = Tokenizer(trained("plain")).encoder
    shared = tasks.EncodeShared(encoder, folder, "replace", False, 60)
    stretch = Stretch(Source(str(source), "txt", bytes=source.stat().st_size))
    return tasks.EncodeTask(7, ((0, stretch),)), shared


def test_a_dead_worker_that_still_writes_harms_nothing(tmp_path: Path, texts: Path) -> None:
    """Attempt 1 begins while attempt 0 is at work: what attempt 0 commits later is refused, and nothing of it stays."""
    task, shared = a_task(tmp_path / "tasks", texts / "a.txt")
    went_on, second = threading.Event(), []

    def first_is_at_work(done: int) -> None:
        if not second:
            second.append(tasks.encode_stretches(task, Attempt(1, 1 << 26, shared, lambda: False, lambda done: None)))
            second.append((tmp_path / "tasks" / task.name).read_bytes())
        went_on.set()

    with pytest.raises(OSError, match=task.name):
        tasks.encode_stretches(task, Attempt(0, 1 << 26, shared, lambda: False, first_is_at_work))
    assert went_on.is_set()
    assert (tmp_path / "tasks" / task.name).read_bytes() == second[1]
    again = tasks.encode_stretches(task, Attempt(2, 1 << 26, shared, lambda: False, lambda done: None))
    assert again == second[0], "what was committed and never told is made again"


@pytest.mark.long
@pytest.mark.parametrize("point", ["begun", "written", "committed"])
def test_a_lost_worker_is_replaced(tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS)
    instead_of_ray(monkeypatch, Dying)
    die_at(monkeypatch, f"encode-0-{point}", tasks)
    assert encoded(texts, tmp_path / "tasks/ids.npy", ON_RAY) == ones


@pytest.mark.long
@pytest.mark.parametrize("then", [ON_RAY, THREADS])
def test_a_killed_command_goes_on_with_either(tmp_path: Path, texts: Path, then: Resources) -> None:
    """Killed when some tasks are done and others at work: what they left goes, and the bytes are the same."""
    ones = encoded(texts, tmp_path / "threads/ids.npy", THREADS)
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


def test_an_engine_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    stdin, tokenizer = Source("-", "lines", is_stdin=True), Tokenizer(trained("plain"))
    with pytest.raises(UsageError, match="--engine ray: standard input is a stream"):
        encode_corpus(tokenizer, [stdin], tmp_path / "ids.npy", resources=ON_RAY)
    assert list(tmp_path.iterdir()) == []
    refused = CliRunner().invoke(main, ["encode", str(tmp_path / "model"), "--engine", "threads"])
    assert (refused.exit_code, "--engine is for encoding to a file" in refused.output) == (2, True)
