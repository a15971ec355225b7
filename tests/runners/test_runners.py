"""Runners: every task once, retried where its worker dies, stopped together, and nothing left behind."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from streambpe.errors import SourceError, WorkerLost
from streambpe.resources import Resources
from streambpe.runners.here import Here
from streambpe.runners.messages import Channel
from streambpe.runners.processes import Processes
from streambpe.runners.runner import RETRIES, Calls, Runner
from streambpe.train.counting.count import count
from tests.runners import tasks
from tests.runs import ROOT
from tests.samples import written

MEMORY = 100 << 20
FORKS = sys.platform == "linux"
FORKED = pytest.param(
    lambda n: Processes.here(n, MEMORY, ["tests.runners.tasks"], fork=True),
    id="forked",
    marks=pytest.mark.skipif(not FORKS, reason="forked on Linux only"),
)
PROCESSES = [FORKED, pytest.param(lambda n: Processes.here(n, MEMORY, fork=False), id="spawned")]
RUNNERS = [pytest.param(Here, id="here"), *PROCESSES]
Make = Callable[[int], Runner]


@contextlib.contextmanager
def closing(make: Make, workers: int = 2) -> Iterator[Any]:
    others = set(psutil.Process().children(recursive=True))  # of other tests' fixtures
    runner = make(workers)
    try:
        yield runner
    finally:
        runner.close()
    assert not set(psutil.Process().children(recursive=True)) - others or isinstance(runner, Here)


def results(runner: Runner, task: Any, arguments: Any, **more: Any) -> list[Any]:
    found: list[Any] = []
    runner.map(Calls(task, arguments, MEMORY, lambda argument, result: found.append(result), **more))
    return found


@pytest.mark.parametrize("make", RUNNERS)
def test_every_argument_once(make: Make) -> None:
    told: list[int] = []
    with closing(make) as runner:
        assert sorted(results(runner, tasks.square, range(50), on_advance=told.append)) == [n * n for n in range(50)]
        assert sum(told) == sum(range(50))
        assert results(runner, tasks.square, []) == []


@pytest.mark.parametrize("make", RUNNERS)
def test_what_all_tasks_have_in_common(make: Make) -> None:
    with closing(make) as runner:
        for seven in (7, 8):
            assert sorted(results(runner, tasks.multiplied, range(3), shared=seven)) == [0, seven, 2 * seven]


@pytest.mark.long
@pytest.mark.parametrize("make", RUNNERS)
def test_the_first_error_ends_it(make: Make) -> None:
    with closing(make) as runner, pytest.raises(SourceError, match="three is no source"):
        results(runner, tasks.refuses, range(1000))
    with closing(make, 1) as runner, pytest.raises(OSError, match="number 0 is damaged"):
        results(runner, tasks.breaks, range(3))
    with closing(make, 1) as runner, pytest.raises(Exception, match="1 and 2"):
        results(runner, tasks.odd, [1])


@pytest.mark.long
@pytest.mark.parametrize("make", RUNNERS)
def test_an_error_of_the_caller_ends_it(make: Make) -> None:
    def arguments() -> Iterator[int]:
        yield 1
        raise SourceError("no further argument")

    with closing(make) as runner, pytest.raises(SourceError, match="no further"):
        results(runner, tasks.square, arguments())
    with closing(make) as runner, pytest.raises(ZeroDivisionError):
        runner.map(Calls(tasks.square, range(5), MEMORY, lambda argument, result: 1 // 0))


@pytest.mark.parametrize("make", PROCESSES)
def test_a_killed_worker_is_replaced_and_its_task_begun_again(make: Make) -> None:
    told: list[int] = []
    with closing(make) as runner:
        pids = results(runner, tasks.dies, [("a", 1), ("b", RETRIES), ("c", 0)], on_advance=told.append)
        assert len(pids) == 3
        assert sum(told) == 15  # what the killed ones told is taken back


@pytest.mark.parametrize("make", PROCESSES)
def test_a_worker_killed_in_the_middle_of_its_answer_is_replaced(make: Make) -> None:
    with closing(make, 1) as runner:
        assert results(runner, tasks.dies_while_it_answers, [7]) == [7]


def test_a_message_that_is_cut_off_anywhere_says_that_the_other_side_is_gone() -> None:
    whole = io.BytesIO()
    Channel(io.BytesIO(), whole).send(("done", "a" * 100))
    for kept in range(len(whole.getvalue())):
        with pytest.raises(EOFError):
            Channel(io.BytesIO(whole.getvalue()[:kept]), io.BytesIO()).receive()


@pytest.mark.long
@pytest.mark.parametrize("make", PROCESSES)
def test_a_task_that_kills_every_worker_is_one_message(make: Make) -> None:
    with (
        closing(make) as runner,
        pytest.raises(WorkerLost, match=r"4 times while it worked on .*bad.*: (killed|exit)") as told,
    ):
        results(runner, tasks.dies, [("bad", RETRIES + 1)])
    assert "\n" not in str(told.value)
    assert "kept" in str(told.value)


@pytest.mark.skipif(not FORKS, reason="there is a nursery on Linux only")
def test_a_killed_nursery_is_replaced() -> None:
    with closing(lambda n: Processes.here(n, MEMORY, fork=True)) as runner:
        assert sorted(results(runner, tasks.square, range(4))) == [0, 1, 4, 9]
        nursery = max(psutil.Process().children(), key=lambda child: child.create_time())
        for process in [nursery, *nursery.children()]:
            process.kill()
        assert sorted(results(runner, tasks.square, range(4))) == [0, 1, 4, 9]


@pytest.mark.parametrize("make", RUNNERS)
def test_a_stop_is_told_to_all_that_are_at_work(make: Make, tmp_path: Path) -> None:
    stop = threading.Event()

    def wait_and_stop() -> None:
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=wait_and_stop).start()
    with closing(make) as runner:
        found = results(runner, tasks.waits, [str(tmp_path)] * 5, stop=stop)
    assert found in (["told"], ["told"] * 2)  # the others were not begun


@pytest.mark.parametrize("make", PROCESSES)
def test_what_a_task_prints_is_no_message(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(make, 1) as runner:
        assert results(runner, tasks.prints, [1]) == [1]
    out, err = capfd.readouterr()
    assert out == ""
    assert "a task prints this" in err


@pytest.mark.skipif(not FORKS, reason="there is a nursery on Linux only")
def test_libraries_are_loaded_once() -> None:
    with closing(lambda n: Processes.here(n, MEMORY, ["pyarrow.parquet"], fork=True), 1) as runner:
        assert results(runner, tasks.imported, ["pyarrow.parquet"]) == [True]


PROGRAM = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from streambpe.runners.processes import Processes
from streambpe.runners.runner import Calls
from tests.runners import tasks
runner = Processes.here(2, 1 << 27, fork=sys.argv[2] == "forked")
print("ready", flush=True)
try:
    runner.map(Calls(tasks.waits, [sys.argv[1]] * 2, 1 << 27))
finally:
    runner.close()
"""  # no `if __name__`: a program that uses the library need not be written for processes


def _gone(pids: list[int]) -> bool:
    return not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
@pytest.mark.parametrize("how", ["forked", "spawned"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_coordinator(how: str, number: int, tmp_path: Path) -> None:
    if how == "forked" and not FORKS:
        pytest.skip("forked on Linux only")
    program = written(tmp_path / "program.py", PROGRAM)
    seen = tmp_path / "seen"
    seen.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, str(program), str(seen), how],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with process:
        give_up = time.monotonic() + 60
        while len(list(seen.iterdir())) < 2 and time.monotonic() < give_up:
            time.sleep(0.02)
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        assert len(pids) == (3 if how == "forked" else 2)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does; the workers leave it to the coordinator
        else:
            process.send_signal(number)
        process.wait(30)
        while not _gone(pids) and time.monotonic() < give_up:
            time.sleep(0.02)
        assert _gone(pids)


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
        Here(2).map(Calls(tasks.waits, [str(tmp_path)] * 9, MEMORY, lambda argument, result: done.append(1)))

    monkeypatch.setattr(threading.Thread, "start", failing)
    with pytest.raises(RuntimeError, match="can't start"):
        work()
    assert len(done) < 9
