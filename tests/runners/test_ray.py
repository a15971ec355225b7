"""Tasks on Ray: what is refused before it starts; a real Ray here, whose workers, nodes and head are killed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from streambpe.encode.corpus import encode_corpus
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError, RunError, UsageError, WorkerLost
from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.runners import ray
from streambpe.runners.ray import RAY_WORKER_BYTES, Needs, OnRay, room_on
from streambpe.runners.ray_node import SharedFolder, look_around, versions
from streambpe.train.commands import train
from streambpe.train.counting import spread
from streambpe.train.counting.count import count
from tests.runners import tasks
from tests.runs import ROOT, cli, cli_killed
from tests.samples import sample_text, written
from tests.train.counting.counted import THREADS, counted, everything, write_lines

MB = 10**6
ON_RAY = Resources(800 * MB, 2, engine="ray")
OWN = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+|(?<!.)x"  # a look-behind: there are no sure cuts, and counting is slow
real = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not here: make test-long installs it where it has a wheel"
)

# ---------------------------------------------------------------------------------------------------------
# without Ray


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, new = written(tmp_path / "a.txt", "a few words of text"), tmp_path / "new.npy"
    train(tmp_path / "model", [str(text)], vocab_size=260)
    monkeypatch.setattr(ray.importlib.util, "find_spec", lambda name: None)
    encode = ("encode", tmp_path / "model", text, "-o", new)
    for command in (("count", new, text), ("train", new, text), ("plan", text), encode):
        refused = cli(*command, "--engine", "ray", expect=2)
        assert "pip install 'streambpe[ray]' installs it. Nothing was changed." in refused.stderr
        assert not new.exists()


def test_an_address_without_ray_is_refused(tmp_path: Path) -> None:
    run, text = tmp_path / "run", written(tmp_path / "a.txt", "a few words of text")
    refused = cli("count", run, text, "--address", "auto", expect=2)
    assert "--address auto names a Ray cluster, but --engine is threads" in refused.stderr
    with pytest.raises(UsageError, match="run the command on a node of the cluster"):
        count(run, [str(text)], engine="ray", address="ray://host:10001")
    assert not run.exists()


@pytest.mark.parametrize(
    ("nodes", "memory", "wanted"),
    [
        ([2], 800, (1, 2)),
        ([2, 2], 800, (1, 4)),
        ([2], 400, (2, 1)),  # on each node one at a time
        ([4, 2], 600, (2, 3)),  # two on one node, one on the other
        ([16, 16, 1], 32_000, (1, 33)),
    ],
)
def test_tasks_of_a_node_fit_its_memory(nodes: list[int], memory: int, wanted: tuple[int, int]) -> None:
    asked = Needs(Resources(memory * MB, 2), 100 * MB, 50 * MB, Path("/shared"))
    *room, each = room_on(nodes, asked)
    assert tuple(room) == wanted
    assert max(nodes) // room[0] * (each + RAY_WORKER_BYTES) <= (memory - 100) * MB


def test_a_cluster_without_room_is_refused() -> None:
    with pytest.raises(LimitError, match=r"260\.0 MB are too little for one task on a node, which needs 2\d\d\.\d MB"):
        room_on([2], Needs(Resources(260 * MB, 2), 100 * MB, 50 * MB, Path("/shared")))
    with pytest.raises(RunError, match="no node of the cluster has a CPU"):
        room_on([0, 0], Needs(Resources(800 * MB, 2), 100 * MB, 50 * MB, Path("/shared")))


def test_a_node_with_other_programs_or_files_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "a.txt", "five!")
    folder = tmp_path / "shared" / "ray-1"
    place = SharedFolder(folder, "a token", ((str(source), 5),))
    assert "does not see" in look_around(place, versions())
    folder.mkdir(parents=True)
    place.file.write_text("an older token", encoding="utf-8")
    assert f"does not see {tmp_path / 'shared'}, which must have the same path" in look_around(place, versions())
    place.file.write_text("a token", encoding="utf-8")
    assert look_around(place, versions()) == ""
    assert "has regex" in look_around(place, {**versions(), "regex": "1"})
    source.write_text("other", encoding="utf-8")
    assert look_around(place, versions()) == ""
    source.write_text("longer", encoding="utf-8")
    assert "6 bytes instead of 5" in look_around(place, versions())
    source.unlink()
    assert "cannot read" in look_around(place, versions())


# ---------------------------------------------------------------------------------------------------------
# with a real Ray on this machine


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for Ray, whose sockets need short names; at the end nothing of Ray is left in it or at work."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield folder
    _wait_for(lambda: not _at_work(folder))
    assert not list(folder.iterdir()), "its temporary folder is gone"
    folder.rmdir()


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    yield
    assert not (tmp_path / ".ray").exists(), "no token in the user's home"


def _at_work(folder: Path) -> list[psutil.Process]:
    """Processes of a Ray that has its temporary folder there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != "zombie" and any(f"{folder}/" in part for part in process.cmdline()):
                found.append(process)
    return found


def _wait_for(there: Callable[[], object], seconds: float = 120) -> None:
    give_up = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_lines(folder)
    return folder


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "_LEAST_TASK", 50_000)


@real
@pytest.mark.long
def test_tasks_on_a_ray_of_its_own(tmp_path: Path, short: Path) -> None:
    wanted = Needs(Resources(800 * MB, 2, short), 100 * MB, 50 * MB, tmp_path / "shared")
    others = set(psutil.Process().children(recursive=True))  # of other tests' fixtures
    runner = OnRay(wanted)
    advanced: list[int] = []
    try:
        tasks.check_ordinary_tasks(runner)
        with pytest.raises(RuntimeError, match="1 and 2"):
            tasks.results(runner, tasks.odd, [1])
        assert tasks.results(runner, tasks.prints, [1]) == [1]
        assert len(tasks.results(runner, tasks.dies, [("a", 1), ("b", 3), ("c", 0)], on_advance=advanced.append)) == 3
        assert sum(advanced) == 15  # nothing of the killed ones
        with pytest.raises(WorkerLost, match=r"ended 4 times while it worked on .*bad.*: WorkerCrashedError") as lost:
            tasks.results(runner, tasks.dies, [("bad", 4)])
        assert "\n" not in str(lost.value)
        (tmp_path / "seen").mkdir()
        found = tasks.results_of_a_stop(runner, tmp_path / "seen")
        assert set(found) == {"told"}
        assert len(found) <= 2, "the others were not begun"
    finally:
        runner.close()
    assert not set(psutil.Process().children(recursive=True)) - others
    assert not (tmp_path / "shared").exists()


@real
@pytest.mark.long
@pytest.mark.parametrize(("workers", "place"), [(1, ""), (4, "attempt-0-written"), (2, "attempt-0-committed")])
def test_ray_counts_what_threads_count_though_workers_are_killed(
    tmp_path: Path, corpus: Path, short: Path, monkeypatch: pytest.MonkeyPatch, workers: int, place: str
) -> None:
    options = {"sequences": True}
    expected = counted(tmp_path / "threads", corpus, THREADS, **options)
    monkeypatch.setattr(spread, "_LEAST_TASK", 400_000)
    if place:
        monkeypatch.setenv("STREAMBPE_FAILPOINT", place)
    there = replace(ON_RAY, threads=workers, temp_dir=short, memory_bytes=1000 * MB)
    assert counted(tmp_path / "ray", corpus, there, **options) == expected


@real
@pytest.mark.long
def test_the_coordinator_is_killed_and_nothing_is_left_at_work(tmp_path: Path, corpus: Path, short: Path) -> None:
    expected = counted(tmp_path / "threads", corpus, THREADS)
    run, where = tmp_path / "run", ("--engine", "ray", "--threads", "2", "--memory", "800MB", "--temp-dir", short)
    cli_killed("task-done", "count", run, corpus, *where)
    _wait_for(lambda: not _at_work(short) and not list(short.iterdir()))
    assert counted(run, corpus, replace(THREADS, temp_dir=short)) == expected


@real
@pytest.mark.long
def test_the_command_and_its_tasks_keep_the_memory_they_promise(tmp_path: Path, short: Path) -> None:
    """Of each node: --memory for the command and its tasks; what Ray's own processes take comes on top."""
    source = tmp_path / "a.jsonl"
    lines = sample_text(7, words=150_000).split("\n")
    with source.open("w", encoding="utf-8") as out:
        for i in range(24):
            out.writelines(json.dumps({"text": f"{line} {line[:20]}{i}"}) + "\n" for line in lines)
    limit = 700 * MB
    command = [sys.executable, "-m", "streambpe", "train", tmp_path / "run", source, "--vocab-size", "3000",
               "--superwords", "boundless", "--engine", "ray", "--threads", "2", "--memory", str(limit),
               "--temp-dir", short]  # fmt: skip
    most = Counter[str]()
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            most |= _taken(process.pid)
            time.sleep(0.2)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
    assert most["workers"] > 100 * MB, "they were seen"
    assert most["command and workers"] <= limit
    assert most["Ray"] <= 600 * MB


def _taken(pid: int) -> Counter[str]:
    """PSS by who takes it."""
    taken = Counter[str]()
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()
                is_task = command and command[0].startswith("ray::")
                name = "command" if process.pid == pid else "workers" if is_task else "Ray"
                taken[name] += process.memory_full_info().pss
    return taken + Counter({"command and workers": taken["command"] + taken["workers"]})


@real
@pytest.mark.long
def test_training_and_encoding_on_ray(
    tmp_path: Path, corpus: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that threads make; and one Ray for all questions of a training."""
    models, ids = [], []
    started = mock.Mock(wraps=ray.RayDriver)
    monkeypatch.setattr(ray, "RayDriver", started)
    for resources in (THREADS, replace(ON_RAY, temp_dir=short, memory_bytes=1200 * MB)):
        run = tmp_path / resources.engine
        train(run, [str(corpus)], resources=resources, vocab_size=1500, superwords="uw", pattern="superbpe1")
        assert started.call_count == (resources is not THREADS)
        encode_corpus(Tokenizer(run), [str(corpus)], run / "ids.npy", resources=resources)
        models.append((run / "model.events.jsonl").read_bytes())
        ids.append((run / "ids.npy").read_bytes())
        assert not (run / ".ids.npy.streambpe.new").exists()
    assert check(run, resources=THREADS) == []
    assert models[0] == models[1]
    assert ids[0] == ids[1]


class Cluster:
    """Two raylets on this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.folder = folder
        port = self.address.split(":")[1]
        self.start("--head", "--port", port, "--temp-dir", str(folder), "--include-dashboard", "false")
        _wait_for(lambda: _answers(self.address))
        self.start("--address", self.address)
        _wait_for(lambda: len(self.nodes()) == 2)

    def start(self, *options: str) -> None:
        command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block"]
        given = ["--num-cpus", "1", "--object-store-memory", str(80 << 20), "--disable-usage-stats", *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.processes.append(subprocess.Popen([*command, *given], **quiet))  # type: ignore[call-overload]

    def nodes(self) -> dict[str, int]:
        """The CPUs of each."""
        driver = ray.RayDriver(replace(ON_RAY, address=self.address))
        with contextlib.closing(driver):
            found: dict[str, int] = driver.ask("nodes")
            return found

    def tree(self, number: int) -> list[psutil.Process]:
        """The processes of a node."""
        top = psutil.Process(self.processes[number].pid)
        return [top, *top.children(recursive=True)]

    def kill(self, number: int) -> None:
        with contextlib.suppress(psutil.Error):
            for process in self.tree(number):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        self.processes[number].wait()

    def close(self) -> None:
        for number in reversed(range(len(self.processes))):
            self.kill(number)
        for process in _at_work(self.folder):
            process.kill()
        _wait_for(lambda: not _at_work(self.folder))
        for left in self.folder.iterdir():
            left.unlink() if left.is_symlink() or left.is_file() else shutil.rmtree(left, ignore_errors=True)


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


@pytest.fixture
def cluster(short: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    for what, value in (("initial_delay_ms", 500), ("period_ms", 500), ("timeout_ms", 1000), ("failure_threshold", 3)):
        monkeypatch.setenv(f"RAY_health_check_{what}", str(value))
    made = Cluster(short)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def counting() -> Iterator[Callable[..., Future[Any]]]:
    """Counts in a thread."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda run, corpus, **more: pool.submit(count, run, [str(corpus)], **more)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that takes some seconds by a pattern of one's own."""
    source = tmp_path_factory.mktemp("slow") / "slow.jsonl"
    text = sample_text(3, words=60_000)
    source.write_text("".join(json.dumps({"text": f"{i} {t}"}) + "\n" for i in range(60) for t in text.split("\n")))
    return source


def _is_at_a_task(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error, IndexError):
        return process.cmdline()[0].startswith("ray::run_task")
    return False


@contextlib.contextmanager
def _held(cluster: Cluster, counting: Future[Any]) -> Iterator[None]:
    """A worker of each node, stopped in the middle of its task; they go on at the end."""
    held: dict[int, psutil.Process] = {}

    def is_held(number: int) -> bool:
        for process in cluster.tree(number):
            if number not in held and _is_at_a_task(process):
                process.suspend()
                if _is_at_a_task(process):  # not between two tasks by now
                    held[number] = process
                else:
                    process.resume()
        return number in held

    try:
        _wait_for(lambda: all([is_held(0), is_held(1)]) or counting.done())
        assert len(held) == 2, f"both nodes count: {counting}"
        yield
    finally:
        for process in held.values():
            with contextlib.suppress(psutil.Error):
                process.resume()


@real
@pytest.mark.long
def test_a_node_is_killed_while_it_counts(
    tmp_path: Path, slow: Path, cluster: Cluster, counting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_TASKS_A_WORKER", 2)  # long ones: workers are seen at them
    options = {"pattern": OWN}
    expected = counted(tmp_path / "threads", slow, THREADS, **options)
    run = tmp_path / "run"
    ended = counting(run, slow, resources=replace(ON_RAY, address=cluster.address), **options)
    with _held(cluster, ended):
        cluster.kill(1)
    ended.result(300)
    assert everything(run) == expected


@real
@pytest.mark.long
def test_a_cluster_that_goes_away_is_one_message_and_nothing_is_lost(
    tmp_path: Path, slow: Path, cluster: Cluster, counting: Any
) -> None:
    options = {"pattern": OWN}
    expected = counted(tmp_path / "threads", slow, THREADS, **options)
    run = tmp_path / "run"
    ended = counting(run, slow, resources=replace(ON_RAY, address=cluster.address), **options)
    _wait_for(lambda: len(list((run / "counts").glob("*.parquet"))) > 0 or ended.done())
    with _held(cluster, ended):  # a worker of the other node would go on for some seconds, and might finish
        cluster.kill(0)
        told = rf"^The Ray cluster \({cluster.address}\) was lost: .*Everything committed is kept[^\n]*$"
        with pytest.raises(WorkerLost, match=told):
            ended.result(300)
    before = {part.name for part in (run / "counts").glob("*.parquet")}
    assert before
    assert counted(run, slow, THREADS, **options) == expected
    with pytest.raises(WorkerLost, match=r"cannot be used: .*Nothing was started"):
        count(tmp_path / "other", [str(slow)], resources=replace(ON_RAY, address=cluster.address))
