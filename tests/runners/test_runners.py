"""Threads that run tasks: every task once, begun again where its worker is lost, stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streambpe.errors import SourceError, WorkerLost
from streambpe.resources import Resources
from streambpe.runners.runner import RETRIES, Calls, Here
from streambpe.train.counting.count import count
from tests.runners import tasks
from tests.samples import written

MEMORY = 100 << 20


def results(task: Any, arguments: Any, workers: int = 2, **more: Any) -> list[Any]:
    found: list[Any] = []
    Here(workers, MEMORY).map(Calls(task, arguments, lambda argument, result: found.append(result), **more))
    return found


def test_every_argument_once() -> None:
    told: list[int] = []
    assert sorted(results(tasks.square, range(50), on_advance=told.append)) == [n * n for n in range(50)]
    assert sum(told) == sum(range(50))
    assert results(tasks.square, []) == []
    assert sorted(results(tasks.multiplied, range(3), shared=7)) == [0, 7, 14]


def test_the_first_error_ends_it() -> None:
    with pytest.raises(SourceError, match="three is no source"):
        results(tasks.refuses, range(1000))
    with pytest.raises(OSError, match="number 0 is damaged"):
        results(tasks.breaks, range(3), 1)


def test_an_error_of_the_caller_ends_it() -> None:
    def arguments() -> Iterator[int]:
        yield 1
        raise SourceError("no further argument")

    with pytest.raises(SourceError, match="no further"):
        results(tasks.square, arguments())
    with pytest.raises(ZeroDivisionError):
        Here(2, MEMORY).map(Calls(tasks.square, range(5), lambda argument, result: 1 // 0))


def test_a_task_whose_worker_was_lost_is_begun_again() -> None:
    assert sorted(results(tasks.is_lost, [("a", 1), ("b", RETRIES), ("c", 0)])) == ["a", "b", "c"]
    with pytest.raises(WorkerLost, match=r"4 times while it worked on .*bad.*: killed by a test\. .*kept") as told:
        results(tasks.is_lost, [("bad", RETRIES + 1)])
    assert "\n" not in str(told.value)


def test_a_stop_is_told_to_all_that_are_at_work(tmp_path: Path) -> None:
    stop = threading.Event()

    def wait_and_stop() -> None:
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=wait_and_stop).start()
    found = results(tasks.waits, [str(tmp_path)] * 5, stop=stop)
    assert found in (["told"], ["told"] * 2)  # the others were not begun


@pytest.mark.parametrize("what", ["task", "count"])
def test_a_thread_that_cannot_be_started_ends_the_job(monkeypatch, tmp_path, what):
    """With its error, and soon: the threads that were started neither wait for ever nor do all that is left."""
    start, done = threading.Thread.start, list[int]()

    def failing(thread: threading.Thread) -> None:
        if thread.name == f"streambpe-{what}_1":
            raise RuntimeError("can't start new thread")
        start(thread)

    def work() -> None:
        if what == "count":
            text = written(tmp_path / "a.txt", "the cat " * 99)
            count(tmp_path / "run", [str(text)], resources=Resources(400 * 10**6, 2))
        Here(2, MEMORY).map(Calls(tasks.waits, [str(tmp_path)] * 9, lambda argument, result: done.append(1)))

    monkeypatch.setattr(threading.Thread, "start", failing)
    with pytest.raises(RuntimeError, match="can't start"):
        work()
    assert len(done) < 9
