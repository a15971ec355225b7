"""What superwords ask of documents, by tasks: the same answers, whoever does them and whatever dies on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streambpe.arrays import Int32
from streambpe.resources import Resources
from streambpe.runners.runner import Attempt, Here, Runner
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart
from streambpe.store.shards import cuts_of
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from streambpe.train.superwords import tasks
from streambpe.train.superwords.neighbours import PartsReader
from streambpe.train.superwords.runs import Kept, OpenChunks
from streambpe.train.superwords.tasks import DocumentTasks, shard_neighbours, shard_runs
from streambpe.train.superwords.work import Question, Work
from tests.runners.tasks import instead_of_ray
from tests.runs import SMALL, small_blocks
from tests.samples import natural_text
from tests.tiers import seeds

ROOT = Path(__file__).parents[2]
MEMORY = 1 << 28


@dataclass
class Listed(PartsReader):
    """Parts that are there as arrays. Module level, so that workers can have it."""

    parts: list[SequencePart]
    symbols: dict[str, Int32]

    def read(self, part: SequencePart) -> Int32:
        return self.symbols[part.name]

    def close(self) -> None:
        pass


def random_reader(seed: int, parts: int = 12, places: int = 40, kinds: int = 5) -> Listed:
    """Parts with many barriers or few, some empty; some go on from the one before them. A part that ends within a
    document goes on only behind a symbol."""
    rng = random.Random(seed)
    share = rng.choice([0.0, 0.02, 0.2, 0.6])
    listed, symbols, open_end = [], {}, False
    for number in range(parts):
        some = [-1 if rng.random() < share else rng.randrange(kinds) for _ in range(rng.choice([0, 1, 3, places]))]
        follows = rng.random() < 0.7 and (open_end or not some or share > 0)
        listed.append(SequencePart(f"part-{number}", len(some), follows=follows))
        symbols[f"part-{number}"] = np.array(some, np.int32)
        open_end = some[-1] >= 0 if some else open_end
    return Listed(listed, symbols)


def texts_of(reader: Listed) -> list[list[int]]:
    """All places as texts that do not go on into each other."""
    texts: list[list[int]] = [[]]
    for part in reader.parts:
        if not part.follows:
            texts.append([])
        texts[-1] += reader.symbols[part.name].tolist()
    return texts


def neighbours_of(reader: Listed) -> dict[int, int]:
    """The judge: a loop."""
    n = Counter(left << 32 | right for text in texts_of(reader) for left, right in pairwise(text) if left >= 0 <= right)
    return dict(n)


def added_up(files: Sequence[Path]) -> dict[Any, int]:
    """What part files hold together, by key or run."""
    rows = pl.concat([pl.read_parquet(file) for file in files])
    return dict(rows.group_by(rows.columns[0]).agg(pl.col("n").sum()).iter_rows())


def kept_in(reader: Listed) -> Kept:
    """What runs are not cut between: neighbours that are not too rare, and all of some symbols."""
    keys = sorted(key for key, n in neighbours_of(reader).items() if n > 2)
    return Kept(np.array(keys, np.int64), OpenChunks({1}, {2}), 64)


def runs_of(reader: Listed) -> dict[bytes, int]:
    """The judge: a loop."""
    kept_pairs = kept_in(reader)
    opened, known, n = kept_pairs.open_chunks, set(kept_pairs.keys.tolist()), Counter[bytes]()
    for text in texts_of(reader):
        run: list[int] = []
        for symbol in [*text, -1]:
            kept = run and symbol >= 0 and (
                run[-1] in opened.right or symbol in opened.left or run[-1] << 32 | symbol in known
            )  # fmt: skip
            if not kept:
                n.update([np.array(run, np.int32).tobytes()] if len(run) > 1 else [])
                run = []
            run += [symbol] if symbol >= 0 else []
    return dict(n)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(tasks, "LEAST_TASK", 64)
    monkeypatch.setattr(tasks, "_LEAST_TABLE", 1 << 10)  # full again and again


KINDS = {"neighbours": neighbours_of, "runs": runs_of}
TASKS = {"neighbours": shard_neighbours, "runs": shard_runs}


def shards_of(kind: str, reader: Listed, folder: Path) -> DocumentTasks:
    kept = kept_in(reader) if kind == "runs" else None
    return DocumentTasks(f"{kind}-3-open", folder, "these", reader, kept)


def counted(kind: str, reader: Listed, folder: Path, runner: Runner) -> list[Path]:
    folder.mkdir(exist_ok=True)
    shards, told = shards_of(kind, reader, folder), list[int]()
    files = shards.answer_by(runner, tasks.LEAST_TASK, told.append)
    assert sum(told) == reader.places
    assert not shards.attempts.exists()
    return files


@pytest.mark.parametrize("seed", seeds(100))
def test_answers_are_those_of_a_loop(seed: int, tmp_path: Path) -> None:
    """In shards, with tables that are full again and again, and as one go counts them."""
    reader = random_reader(seed, parts=30)
    for kind, judge in KINDS.items():
        assert added_up(counted(kind, reader, tmp_path / "tasks", Here(2, 0))) == judge(reader)
    for threads in (1, 3):
        work = Work(tmp_path, Resources(MEMORY, threads))
        for kind, judge in KINDS.items():
            asked = shards_of(kind, reader, tmp_path / f"{threads}")
            assert added_up(asked.answer(work, lambda n: None)) == judge(reader)


def large_reader() -> Listed:
    return random_reader(7, parts=40, places=80, kinds=40)


def contents(files: list[Path]) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_worker_that_still_writes_harms_nothing(kind: str, tmp_path: Path) -> None:
    """Attempt 1 begins and commits while attempt 0 reads: attempt 0 can commit nothing any more."""
    reader = large_reader()
    wanted = contents(counted(kind, reader, tmp_path / "one", Here(1, MEMORY)))
    tmp_path.joinpath("tasks").mkdir()
    shards = shards_of(kind, reader, tmp_path / "tasks")
    first, second = cuts_of(reader.parts, tasks.LEAST_TASK, 0, reader.places)[1:3]
    ends = (first, second)

    class Slow(Listed):
        def read(self, part: SequencePart) -> Int32:
            if not shards.file(ends).exists():
                TASKS[kind](ends, Attempt(1, MEMORY, shards, lambda: False, lambda n: None))
            return super().read(part)

    slow = shards_of(kind, Slow(reader.parts, reader.symbols), tmp_path / "tasks")
    with pytest.raises(OSError, match=f"{kind}-3-open"):
        TASKS[kind](ends, Attempt(0, MEMORY, slow, lambda: False, lambda n: None))
    assert contents([shards.file(ends)]).items() <= wanted.items()
    assert contents(counted(kind, reader, tmp_path / "tasks", Here(1, MEMORY))) == wanted


def count_large(kind: str, folder: str) -> None:
    """What a coordinator does that is killed: its tasks run in itself."""
    tasks.LEAST_TASK, tasks._LEAST_TABLE = 64, 1 << 10
    counted(kind, large_reader(), Path(folder), Here(1, MEMORY))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "point"),
    [("neighbours", "neighbours-0-written:3"), ("neighbours", "boundary:9"), ("runs", "runs-0-written:4")],
)
def test_a_killed_coordinator_goes_on(kind: str, point: str, tmp_path: Path) -> None:
    """What is committed is kept, in however many processes it is finished; damaged files are made again."""
    wanted = contents(counted(kind, large_reader(), tmp_path / "one", Here(1, MEMORY)))
    folder = tmp_path / "tasks"
    command = "import sys; from tests.train.test_document_tasks import count_large as go; go(*sys.argv[1:])"
    killed = subprocess.run(
        [sys.executable, "-c", command, kind, folder],
        cwd=ROOT, env={**os.environ, "STREAMBPE_FAILPOINT": point}, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    kept = sorted(folder.glob("*.parquet"))
    assert 0 < len(kept) < len(wanted)
    assert (folder / "attempts").exists()
    kept[0].write_bytes(kept[0].read_bytes()[:-30])
    times = [file.stat().st_mtime_ns for file in kept[1:]]
    assert contents(counted(kind, large_reader(), folder, Here(2, MEMORY))) == wanted
    assert [file.stat().st_mtime_ns for file in kept[1:]] == times


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


def test_nothing_to_count(tmp_path: Path) -> None:
    reader, work = Listed([], {}), Work(tmp_path, Resources(MEMORY, 2, engine="ray"))
    for kept in (None, Kept(np.empty(0, np.int64), OpenChunks(), 1)):
        assert DocumentTasks("nothing", tmp_path, "these", reader, kept).answer(work, lambda n: None) == []


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Documents of many parts and parts of many documents; one goes on through all parts of a file."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text(natural_text(1, 40_000), encoding="utf-8")
    words = natural_text(2, 30_000)
    rows = [{"text": words[200 * i : 200 * i + 7 * (i % 60)]} for i in range(120)]
    (folder / "texts/b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "texts/c.txt").write_text("the end", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        small_blocks(patched, 1 << 12)
        count(folder / "run", [str(folder / "texts")], sequences=True, resources=SMALL)
    return Run(folder / "run")


@pytest.mark.long
def test_a_superwords_training_by_tasks(stored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is that of one go, byte for byte, though every question is asked by tasks."""
    asked: list[str] = []
    ask = Question.ask

    def note(self: Question, runner: Runner, task: Any, *given: Any) -> None:
        asked.append(task.__name__)
        ask(self, runner, task, *given)

    monkeypatch.setattr(Question, "ask", note)
    logs = []
    for engine in ("threads", "ray"):
        monkeypatch.setattr(tasks, "LEAST_TASK", 1000 if engine == "ray" else 1 << 40)
        train(
            stored.path, [], name=engine, superwords="boundless", vocab_size=400,
            resources=replace(SMALL, memory_bytes=10**9, engine=engine),
        )  # fmt: skip
        logs.append((stored.path / f"{engine}.events.jsonl").read_bytes())
    assert logs[0] == logs[1]
    assert list(dict.fromkeys(asked)) == ["shard_neighbours", "shard_runs"]
