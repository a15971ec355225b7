"""Threads that run tasks: every task once, begun again where its worker is lost, stopped together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streambpe.errors import SourceError, WorkerLost
from streambpe.resources import Resources
from streambpe.runners.runner import RETRIES, Calls, Here
from streambpe.train.counting.count import count
from tests.runners import tasks
from tests.samples import written

HERE = Here(2, 100 << 20)


def test_every_argument_once_up_to_an_error() -> None:
    tasks.check_ordinary_tasks(HERE)


def test_an_error_of_the_caller_ends_it() -> None:
    def arguments() -> Iterator[int]:
        yield 1
        raise SourceError("no further argument")

    with pytest.raises(SourceError, match="no further"):
        tasks.results(HERE, tasks.square, arguments())
    with pytest.raises(ZeroDivisionError):
        HERE.map(Calls(tasks.square, range(5), lambda argument, result: 1 // 0))


def test_a_task_whose_worker_was_lost_is_begun_again() -> None:
    assert sorted(tasks.results(HERE, tasks.is_lost, [("a", 1), ("b", RETRIES), ("c", 0)])) == ["a", "b", "c"]
    with pytest.raises(WorkerLost, match=r"4 times while it worked on .*bad.*: killed by a test\. .*kept") as told:
        tasks.results(HERE, tasks.is_lost, [("bad", RETRIES + 1)])
    assert "\n" not in str(told.value)


def test_a_stop_is_told_to_all_that_are_at_work(tmp_path: Path) -> None:
    found = tasks.results_of_a_stop(HERE, tmp_path)
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
        HERE.map(Calls(tasks.waits, [str(tmp_path)] * 9, lambda argument, result: done.append(1)))

    monkeypatch.setattr(threading.Thread, "start", failing)
    with pytest.raises(RuntimeError, match="can't start"):
        work()
    assert len(done) < 9
