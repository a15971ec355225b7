"""Superwords whose questions about documents are asked by tasks, some of which are lost or stopped: one log."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from streambpe.errors import Stopped
from streambpe.train.commands import train
from streambpe.train.superwords import tasks
from tests.runners.tasks import Dying, die_at, instead_of_ray
from tests.runs import SMALL, small_blocks
from tests.samples import natural_text
from tests.tiers import long
from tests.train.test_superwords import documents_run

OPTIONS = {"superwords": "boundless", "vocab_size": 400}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of many parts and parts of many documents, and `main`, which one process learned from them."""
    text = natural_text(1, 20_000)
    short = [text[200 * i : 200 * i + 7 * (i % 60)] for i in range(60)]
    with pytest.MonkeyPatch.context() as patched:
        small_blocks(patched, 1 << 12)
        run = documents_run(tmp_path_factory.mktemp("tasks") / "run", [text, *short, "the end"], "boundless")
    train(run, resources=SMALL, **OPTIONS)
    return run


@pytest.mark.parametrize("place", ["neighbours-0-written", long("neighbours-0-committed"), long("runs-0-begun")])
def test_the_first_attempt_at_every_task_is_lost(run: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """In each question that Ray is asked; the log has the bytes that one process makes."""
    instead_of_ray(monkeypatch, Dying)
    die_at(monkeypatch, place, tasks)
    monkeypatch.setattr(tasks, "LEAST_TASK", 1000)
    on_ray = replace(SMALL, memory_bytes=10**9, engine="ray")
    found = train(run, name=place.replace("-", "_"), resources=on_ray, **OPTIONS)
    assert found.log.read_bytes() == (run / "model.events.jsonl").read_bytes()


@pytest.mark.long
def test_a_stop_is_heard_between_two_tasks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed stays, and the same command goes on."""

    class Stop(threading.Event):
        """Set when the first task has committed its file."""

        def is_set(self) -> bool:
            return bool(committed())

    def committed() -> list[Path]:
        return list((run / "training").glob("stopped/superwords-*/neighbours-*.parquet"))

    monkeypatch.setattr(tasks, "MOST_PLACES", 1000)
    with pytest.raises(Stopped):
        train(run, name="stopped", resources=SMALL, stop=Stop(), **OPTIONS)
    assert len(committed()) == 1
    found = train(run, name="stopped", resources=SMALL, **OPTIONS)
    assert found.log.read_bytes() == (run / "model.events.jsonl").read_bytes()
