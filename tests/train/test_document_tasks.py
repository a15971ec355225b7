"""What superwords ask of documents, by tasks: the same answers, whoever does them and whatever dies on the way."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streambpe.arrays import Int32
from streambpe.runners.runner import Attempt, Here, Runner
from streambpe.store.sequences import SequencePart
from streambpe.store.shards import cuts_of
from streambpe.train.commands import train
from streambpe.train.superwords import tasks
from streambpe.train.superwords.neighbours import PartsReader
from streambpe.train.superwords.runs import Kept, OpenChunks
from streambpe.train.superwords.tasks import DocumentTasks, shard_neighbours, shard_runs
from streambpe.train.superwords.work import Question
from tests.runners.tasks import instead_of_ray
from tests.runs import SMALL, small_blocks
from tests.samples import prose_documents
from tests.train.test_superwords import documents_run

MEMORY = 1 << 28


@dataclass
class Listed(PartsReader):
    """Parts that are there as arrays. Module level, so that workers can have it."""

    parts: list[SequencePart]
    symbols: dict[str, Int32]

    def read(self, part: SequencePart) -> Int32:
        return self.symbols[part.name]


def large_reader() -> Listed:
    """Parts with few barriers, some empty; most go on from the one before them."""
    rng, listed, symbols = random.Random(7), [], {}
    for number in range(40):
        some = [-1 if rng.random() < 0.2 else rng.randrange(40) for _ in range(rng.choice([0, 1, 3, 80]))]
        listed.append(SequencePart(f"part-{number}", len(some), follows=rng.random() < 0.7))
        symbols[f"part-{number}"] = np.array(some, np.int32)
    return Listed(listed, symbols)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(tasks, "LEAST_TASK", 64)
    monkeypatch.setattr(tasks, "_LEAST_TABLE", 1 << 10)  # full again and again


TASKS = {"neighbours": shard_neighbours, "runs": shard_runs}


def shards_of(kind: str, reader: Listed, folder: Path) -> DocumentTasks:
    kept = Kept(np.array([1 << 32 | 3]), OpenChunks({1}, {2}), 64) if kind == "runs" else None
    return DocumentTasks(f"{kind}-3-open", folder, "these", reader, kept)


def counted(kind: str, reader: Listed, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    shards, told = shards_of(kind, reader, folder), list[int]()
    files = shards.answer_by(Here(1, MEMORY), tasks.LEAST_TASK, told.append)
    assert sum(told) == reader.places
    assert not shards.attempts.exists()
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("kind", TASKS)
def test_a_dead_worker_that_still_writes_harms_nothing(kind: str, tmp_path: Path) -> None:
    """Attempt 1 begins and commits while attempt 0 reads: attempt 0 can commit nothing any more."""
    reader = large_reader()
    wanted = counted(kind, reader, tmp_path / "one")
    tmp_path.joinpath("tasks").mkdir()
    shards = shards_of(kind, reader, tmp_path / "tasks")
    ends = tuple(cuts_of(reader.parts, tasks.LEAST_TASK, 0, reader.places)[1:3])

    class Slow(Listed):
        def read(self, part: SequencePart) -> Int32:
            if not shards.file(ends).exists():
                TASKS[kind](ends, Attempt(1, MEMORY, shards, lambda: False, lambda n: None))
            return super().read(part)

    slow = shards_of(kind, Slow(reader.parts, reader.symbols), tmp_path / "tasks")
    with pytest.raises(OSError, match=f"{kind}-3-open"):
        TASKS[kind](ends, Attempt(0, MEMORY, slow, lambda: False, lambda n: None))
    assert shards.file(ends).read_bytes() == wanted[shards.file(ends).name]
    assert counted(kind, reader, tmp_path / "tasks") == wanted


def test_a_stop_is_heard_between_two_parts(tmp_path: Path) -> None:
    """And what is committed stays."""
    reader = large_reader()

    def stop(places: int) -> None:
        if list(tmp_path.glob("neighbours-*")):
            raise InterruptedError

    shards = shards_of("neighbours", reader, tmp_path)
    with pytest.raises(InterruptedError):
        shards.answer_by(Here(1, MEMORY), tasks.LEAST_TASK, stop)
    assert 0 < len(list(tmp_path.glob("neighbours-*"))) < reader.places // tasks.LEAST_TASK // 2
    assert not shards.attempts.exists()


@pytest.mark.long
def test_a_superwords_training_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is that of one go, byte for byte, though every question is asked by tasks."""
    small_blocks(monkeypatch, 1 << 12)
    run, asked, ask = documents_run(tmp_path / "run", prose_documents(), "boundless"), list[str](), Question.ask

    def note(self: Question, runner: Runner, task: Any, *given: Any) -> None:
        asked.append(task.__name__)
        ask(self, runner, task, *given)

    monkeypatch.setattr(Question, "ask", note)
    logs = []
    for engine in ("threads", "ray"):
        monkeypatch.setattr(tasks, "LEAST_TASK", 1000 if engine == "ray" else 1 << 40)
        resources = replace(SMALL, memory_bytes=10**9, engine=engine)
        made = train(run, [], name=engine, superwords="boundless", vocab_size=400, resources=resources)
        logs.append(made.log.read_bytes())
    assert logs[0] == logs[1]
    assert list(dict.fromkeys(asked)) == ["shard_neighbours", "shard_runs"]
