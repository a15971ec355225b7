"""`status` and `watch`: what they say is what status.json, the tables and the disk say, live and afterwards."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from streambpe.inspect.query import Query
from streambpe.inspect.status import status as look_at
from streambpe.inspect.watch import watch
from streambpe.progress import Meter, describe_range, this_process
from streambpe.store.run import Run
from streambpe.train.commands import train
from tests.runs import SMALL, Driver, cli, rows, text_run
from tests.samples import natural_text

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run."""
    run = text_run(tmp_path_factory.mktemp("watch") / "run", natural_text(3, 60_000))
    train(run, resources=SMALL, vocab_size=700)
    return run


def shown(run: Path, *, width: int = 100, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    watch(run, console, **options)  # type: ignore[arg-type]
    return ESCAPES.sub("", out.getvalue())


def test_a_finished_run_is_shown_as_it_went(trained, tmp_path):
    """Stage, tokens, passes, memory against the limit, disk, and the tokens learned last; `status` says the same. The
    time is that of all stages, not of the last."""
    text, told = shown(trained), cli("status", trained).stdout
    status = json.loads((trained / "status.json").read_text())
    found = json.loads(cli("status", trained, "--json").stdout)
    assert "444 of 444" in text
    passes = rows(trained, "SELECT events FROM batches ORDER BY batch")
    assert (status["passes"], status["batch_events"]) == (len(passes), passes[-1][0])
    assert status["memory_limit_bytes"] == SMALL.memory_bytes
    for one in (text, told):
        assert "trained, done" in one
        assert f"of {SMALL.memory_bytes / 1e6:.1f} MB, at most" in one
        assert f"444 events in {len(passes)} passes, {passes[-1][0]} in the last" in one
        assert "left" not in one
    ((last, n),) = rows(trained, "SELECT shown, n FROM merge_curve ORDER BY seq DESC LIMIT 1")
    assert f"{last} {n}" in text
    assert max(map(len, shown(trained, width=80).splitlines())) <= 80
    du = int(subprocess.run(["du", "-s", "-B1", trained], capture_output=True, text=True).stdout.split()[0])
    assert 0 <= du - found["run_bytes"] < 100_000  # du also counts the folders
    assert found["free_bytes"] > 0
    assert found["eta_seconds"] is None
    run = Run(shutil.copytree(trained, tmp_path / "run"))
    took = {**status, "seconds": 2.0, "stage_seconds": {"words": 60.0, "learning": 5.0}}
    for state, told in (("stopped", "1:05 so far"), ("done", "1:05 in all")):
        run.write_status({**took, "state": state})  # type: ignore[arg-type]
        assert told in cli("status", run.path).stdout


def test_the_training_at_work_is_named(trained, tmp_path):
    """status.json names it, status and watch say it where it is not main, and watch shows its tokens."""
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    train(run, resources=SMALL, vocab_size=300, name="small")
    assert look_at(Run(run)).facts["training"] == "small"
    assert cli("status", run).stdout.startswith(f"{run}, training small: trained, done")
    query = "SELECT shown, n FROM merge_curve ORDER BY seq DESC LIMIT 1"
    (last,) = json.loads(cli("sql", run, query, "--json", "--name", "small").stdout)
    text = shown(run, width=200)
    assert f"{last['shown']} {last['n']}" in text
    assert "training small" in text


@pytest.mark.long
def test_watch_does_not_end_between_counting_and_learning(trained, tmp_path, monkeypatch):
    """As long as the command holds RUN, even where status.json says that one of its jobs is done."""
    run = Run(shutil.copytree(trained, tmp_path / "a_path_longer_than_half_of_a_terminal_is_wide" / "run"))
    counted, learned = ({**run.read_status(), "stage": stage} for stage in ("counted", "trained"))
    run.write_status(counted)  # type: ignore[arg-type]
    with contextlib.ExitStack() as command:
        command.enter_context(run.lock())

        def a_while(_: float) -> None:
            run.write_status(learned)  # type: ignore[arg-type]
            command.close()

        monkeypatch.setattr(time, "sleep", a_while)
        text = shown(run.path)
    assert "counted, done" in text
    assert "trained, done" in text
    with pytest.raises(KeyError), run.lock():
        raise KeyError  # a command that fails holds nothing either
    assert not run.has_writer()


@pytest.mark.long
def test_a_run_asked_every_100_ms_answers_and_is_not_hurt(tmp_path):
    """From another process, by query and view, while it learns, and watched to its end, with a range for the time left:
    no failure, the same vocabulary."""
    text = natural_text(6, 60_000)
    expected = train(text_run(tmp_path / "alone", text), resources=SMALL, vocab_size=600).sha256
    run = text_run(tmp_path / "asked", text)
    driver = Driver(run=run, options={"vocab_size": 600, "batch": "1"}, rest=0.01, trainer={"checkpoint_seconds": 0.2})
    assert driver.wait_for("learning")
    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(shown, run, every=0.1)
        seen: list[int] = []
        views = itertools.cycle(["vocabulary", "top_pairs", "merge_curve", "token_usage", "progress", "facts"])
        while driver.process.poll() is None:
            began, out = time.monotonic(), io.StringIO()
            Query(run, "SELECT count(*) AS n FROM events").print("json", out)
            seen.append(json.loads(out.getvalue())[0]["n"])
            Query(run, next(views)).print("csv", io.StringIO())
            time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
    assert driver.end()[0] == 0
    done = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) of 344", watched.result())]
    for numbers in (seen, done):
        assert numbers == sorted(numbers)
        assert len(set(numbers)) > 2, "several looks"
    assert re.search(r"\d:\d\d left", watched.result())
    assert "trained, done" in watched.result()
    assert dict(rows(run, "FROM facts"))["sha256"] == expected


def test_what_is_gone_or_held_is_no_crash(trained, tmp_path):
    """No run: one message; off a terminal one frame is printed; a killed run says so, also where another program has
    its process id now; of one on another machine only that one can tell."""
    assert "no status.json" in cli("watch", tmp_path / "none", expect=1).stderr
    assert "trained, done" in cli("watch", trained).stdout
    run = Run(shutil.copytree(trained, tmp_path / "run"))
    killed = {**run.read_status(), **this_process(), "state": "running"}
    run.write_status(killed)  # type: ignore[arg-type]
    assert look_at(run).state == "running"
    for gone in ({"pid": 2**22 + 1}, {"began": -1.0}):
        run.write_status({**killed, **gone})  # type: ignore[arg-type]
        (run.path / "lock").write_text(json.dumps({**killed, **gone}))
        assert look_at(run).state == "killed"
        assert not run.has_writer()
        assert "killed" in shown(run.path)
    run.write_status({**killed, "host": "node7"})  # type: ignore[arg-type]
    told = cli("status", run.path).stdout
    assert "unknown" in told
    assert f"Process {os.getpid()} is on node7" in told


def test_time_left_is_a_range_over_the_speeds_seen(monkeypatch):
    """At the fastest and the slowest of the rates."""
    assert describe_range(3724, 3725) == "1:02:05"
    now = [0.0]
    monkeypatch.setattr("streambpe.progress.time.monotonic", lambda: now[0])
    meter = Meter("learning", total=1000, unit="tokens", started=0.0)
    for now[0] in map(float, range(1, 101)):  # 2 a second, then 8: since the start 4.4
        meter.done += 2 if now[0] <= 60 else 8
        status = meter.snapshot("running")
    assert status["eta_range_seconds"] == pytest.approx((560 / 8, 560 / 4.4), rel=0.02)
    assert status["recent_per_second"] == pytest.approx(8)
    assert meter.snapshot("done")["eta_range_seconds"] is None
