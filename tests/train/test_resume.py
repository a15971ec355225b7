"""Stopped, killed, continued, or run in another way: always the same bytes, and every table adds up."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from streambpe.config import TrainConfig
from streambpe.errors import ResumeMismatch, RunError, RunLocked, Stopped
from streambpe.resources import Resources
from streambpe.store.identity import read_identity, write_identity
from streambpe.store.journal import Journal
from streambpe.train import opening
from streambpe.train import trainer as training
from streambpe.train.commands import resume, train, train_from_iterator
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import EngineTuning
from tests.oracles.tables import check
from tests.runs import (
    ROOT,
    SMALL,
    Driver,
    Enough,
    accept,
    by_keyword,
    cli,
    cli_killed,
    counted_run,
    held_open,
    log_of,
    rows,
    text_run,
    trainer,
)
from tests.samples import natural_text, written

SIZE = 1200
OPTIONS: dict[str, Any] = {"vocab_size": SIZE, "stop_list": 2, "block_tokens": ("an",), "freq_cutoff": 2}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A counted run, 150 KB of text."""
    return text_run(tmp_path_factory.mktemp("counted") / "run", natural_text(9, 150_000))


@pytest.fixture
def run(counted, tmp_path) -> Path:
    """A copy of it."""
    return shutil.copytree(counted, tmp_path / "run")


@pytest.fixture(scope="module")
def unbroken(counted, tmp_path_factory) -> bytes:
    """The event log of a training that nobody disturbs."""
    run = shutil.copytree(counted, tmp_path_factory.mktemp("unbroken") / "run")
    result = train(run, resources=SMALL, **by_keyword(OPTIONS))
    assert (result.reached, result.size) == (True, SIZE)
    assert check(run, resources=SMALL) == []
    assert len(rows(run, "FROM batches")) > 20
    return (run / "model.events.jsonl").read_bytes()


def learn(run: Path, *, stop_at: int | None = None, how: str = "raise", **arguments: Any) -> bytes | None:
    """Train; after `stop_at` passes stop as `how` says. The log's bytes, None when it was stopped."""
    options = {**OPTIONS, **arguments.pop("options", {})}
    stop, passes = threading.Event(), itertools.count(1)

    def on_batch(_batch: Any) -> None:
        if next(passes) == stop_at:
            if how == "raise":
                raise Enough
            stop.set()

    arguments = {"checkpoint_seconds": 5 if stop_at is None else 0, **arguments}
    job = trainer(run, TrainConfig.from_options(**options), on_batch=on_batch, stop=stop, **arguments)
    try:
        job.run()
    except (Enough, Stopped):
        return None
    return job.training.log.read_bytes()


# How it is run changes nothing


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ({"resources": Resources(2 * 10**9, 1)}, "index"),
        ({"resources": Resources(256 * 10**6, 3), "tuning": EngineTuning(force_scan=True)}, "scan"),
        ({"options": {"batch": "1"}}, "index"),
        ({"tuning": EngineTuning(force_scan=True, index_below=8000, hot_pairs=150, counter_rows=50)}, "index scan"),
    ],
)
def test_equal_bytes_however_it_is_run(run, unbroken, arguments, mode):
    """Threads, memory, exact or one at a time, index or scan: the event log has the same bytes."""
    assert learn(run, checkpoint_seconds=5, **arguments) == unbroken
    assert {row[0] for row in rows(run, "SELECT DISTINCT mode FROM batches")} == set(mode.split())
    assert check(run, resources=SMALL) == []


# Stops


def test_the_stop_event_loses_nothing(run, unbroken):
    """What was learned before the stop is in the journal and in the tables, also between two checkpoints; going on ends
    with the same bytes, and no other files."""
    assert learn(run, stop_at=4, how="stop", checkpoint_seconds=1000) is None
    assert not (run / "model.events.jsonl").exists()
    journal = Journal.read(run / "pending.events")
    assert len(journal.batches) == 4
    assert rows(run, "SELECT count(*), sum(events)::BIGINT FROM batches") == [(4, len(journal.events))]
    assert rows(run, "SELECT count(*) FROM pair_counts")[0][0] > 10
    assert check(run, resources=SMALL) == []
    assert learn(run) == unbroken
    assert sorted(path.name for path in run.iterdir() if path.is_file()) == [
        "lock", "model.events.jsonl", "run.json", "state.duckdb", "status.json",
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_printed_command_goes_on(run, counted, tmp_path, number, code):
    """`streambpe train` stopped by Ctrl-C or SIGTERM, also under a name, goes on with the very command it prints."""
    command = [sys.executable, "-m", "streambpe", "train", run, "-s", "4000", "--batch", "1", "--name", "a"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        wait_until(lambda: (run / "a.pending.events").exists() and (run / "a.pending.events").stat().st_size > 0)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    printed = next(line for line in err.splitlines() if "streambpe resume" in line).split("streambpe resume ")[1]
    assert printed == f"{run} --name a"
    train(run, resources=SMALL, name="b", vocab_size=300)  # the last training of the run is another one now
    cli("resume", *printed.split())
    alone = shutil.copytree(counted, tmp_path / "alone")
    train(alone, vocab_size=4000, resources=SMALL)
    assert (run / "a.events.jsonl").read_bytes() == (alone / "model.events.jsonl").read_bytes()
    assert check(run, resources=SMALL) == []


def wait_until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up, "it never happened"
        time.sleep(0.005)


# Kills


PLACES = [
    "journal-written", "journal-created", "events-committed", "events-committed:7", "tables-filled", "tables-filled:4",
    "tables-committed", "tables-committed:5", "snapshot-written", "snapshot-written:3", "snapshot-made", "log-written",
    "journal-removed",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("place", [*PLACES, "last tables-filled", "last tables-committed"])
def test_killed_at_every_commit(run, unbroken, place):
    """Right before and right after each rename and each commit: going on gives the unbroken bytes and tables."""
    settings = {"checkpoint_seconds": 0, "snapshot_seconds": 0}
    if place.startswith(("last ", "log", "journal-removed")):  # behind the event log: nothing is folded before
        place, settings = place.removeprefix("last "), {"checkpoint_seconds": 1000}
    driver = Driver({"STREAMBPE_FAILPOINT": place}, run=run, options=OPTIONS, trainer=settings)
    code, _ = driver.end()
    assert code == -signal.SIGKILL, "the place was reached"
    assert (run / "pending.events").exists() == (place not in ("journal-written", "journal-removed"))
    assert check(run, resources=SMALL) == []
    assert learn(run) == unbroken
    assert check(run, resources=SMALL) == []
    left = [path for pattern in ("*.new", "*.tmp", "pending*") for path in run.rglob(pattern)]
    assert left == [], "unfinished files do not stay"


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"batch": "paper", "overlaps": "disjoint"}, {"tau": "0.6", "vocab_size": 600}])
def test_a_journal_cut_anywhere(run, counted, tmp_path, options):
    """A last write that is torn at any byte: what is whole is kept, the rest learned again, passes without gap."""
    whole = learn(shutil.copytree(counted, tmp_path / "whole"), options=options)
    assert learn(run, stop_at=12, options=options) is None
    written = (run / "pending.events").read_bytes()
    header = written.index(b"\n") + 1
    rng = random.Random(3)
    cuts = [header, header + 1, len(written) - 1, *(rng.randrange(header, len(written)) for _ in range(5))]
    for cut in cuts:
        again = shutil.copytree(counted, tmp_path / f"cut{cut}")
        (again / "pending.events").write_bytes(written[:cut])
        assert learn(again, options=options) == whole, cut
        assert check(again, resources=SMALL) == []
        shutil.rmtree(again)


def test_a_damaged_journal_is_named(run):
    """A line that is no event or has another checksum, no line, other options, another event: an error with file and
    line, and what to do."""
    learn(run, stop_at=3)
    journal = run / "pending.events"
    written, whole = journal.read_bytes(), Journal.read(journal)
    lines, first = written.split(b"\n"), whole.events[0]

    def with_right_sums(events: Any, **changed: Any) -> bytes:
        Journal.start(journal, whole.training | changed, events, whole.batches, whole.vetoes).save()
        return journal.read_bytes()

    for damaged, told in (
        (b"\n".join([*lines[:3], b"nonsense", *lines[3:]]), "line 4 is damaged"),
        (b"", "is empty"),
        (written.replace(b'"n":', b'"n":1', 1), r"line \d+ is damaged \(its checksum"),
        (with_right_sums([], config=5), "is not the journal of a training"),
        (with_right_sums([msgspec.structs.replace(first, n=first.n + 1), *whole.events[1:]]), "come from other words"),
    ):
        assert damaged != written
        journal.write_bytes(damaged)
        with pytest.raises(RunError, match=told):
            learn(run)


def test_a_log_of_no_size_is_no_training(run):
    """Also where run.json takes it for the one that was written: one sentence, and what to do."""
    learn(run)
    log = run / "model.events.jsonl"
    changed = re.sub(rb'"vocab_size":\d+,', b"", log.read_bytes(), count=1)
    assert changed != log.read_bytes()
    log.write_bytes(changed)
    accept(log)
    with pytest.raises(RunError, match=r"line 1 does not say the vocab_size of a training\. Remove the file and train"):
        learn(run)


# Snapshots


def test_a_snapshot_is_gone_on_from(run, unbroken, monkeypatch):
    """With snapshots after every pass, going on loads the newest instead of replaying from the words."""
    found, find = list[Any](), opening.find_snapshot
    monkeypatch.setattr(opening, "find_snapshot", lambda *given: found.append(find(*given)) or found[-1])
    for stop_at in (6, 3):
        assert learn(run, stop_at=stop_at, snapshot_seconds=0) is None
        assert len(list((run / "training" / "main").glob("snapshot-*"))) == 1
    assert learn(run, tuning=EngineTuning(force_scan=True)) == unbroken
    first, *loaded = found
    assert first is None
    assert 0 < loaded[0][1] < loaded[1][1]
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_a_snapshot_of_another_training_is_never_used(run, counted, tmp_path):
    """What an abandoned training of the same name left on disk does not find its way into another one."""
    other = {"ties": "bytes", "overlaps": "disjoint", "alphabet": "bytes"}
    fresh = learn(shutil.copytree(counted, tmp_path / "fresh"), options=other)
    assert learn(run, stop_at=6, snapshot_seconds=0) is None
    (run / "pending.events").unlink()  # the user gives it up
    assert learn(run, stop_at=12, options=other, snapshot_seconds=1000) is None
    assert learn(run, options=other) == fresh
    assert check(run, resources=SMALL) == []


# Larger vocabularies


@pytest.mark.long
@pytest.mark.parametrize("finished", [True, False])
def test_a_smaller_vocabulary_goes_on_to_a_larger(run, unbroken, finished):
    """300, then 700, then 1 200 ids: the bytes of 1 200 at once; passes and vetoes cover all of it."""
    for size in (300, 700):
        learn(run, stop_at=None if finished else 2, options={"vocab_size": size})
        assert (run / "model.events.jsonl").exists() == finished
        assert check(run, resources=SMALL) == []
    passes = rows(run, "SELECT count(*) FROM batches")[0][0]
    assert learn(run) == unbroken
    assert rows(run, "SELECT count(*) FROM batches")[0][0] > passes
    assert rows(run, "SELECT sum(events)::BIGINT FROM batches") == rows(run, "SELECT count(*) FROM events")
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_batchbpes_rule_does_not_go_on_to_another_size(run):
    """--batch paper depends on the size asked for: a larger one is refused, a new name learns it."""
    options = {"like": "batch", "resources": SMALL}
    train(run, vocab_size=400, **options)
    with pytest.raises(ResumeMismatch, match="--batch paper"):
        train(run, vocab_size=500, **options)
    train(run, vocab_size=500, name="more", **options)
    assert log_of(run).events != log_of(run, "more").events[:144]  # which is why
    assert resume(run, name="main", resources=SMALL).skipped


# Sources


@pytest.mark.long
def test_sources_added_after_training(run, counted, unbroken, tmp_path):
    """New sources are refused before they are counted; counted by themselves they leave the training as it was."""
    more = written(tmp_path / "more.txt", "some new text")
    learn(run, stop_at=5)
    chunks = rows(run, "SELECT sum(n) FROM chunk_counts")
    with pytest.raises(ResumeMismatch, match=r"without .*more\.txt"):
        train(run, [str(more)], resources=SMALL, **by_keyword(OPTIONS))
    assert rows(run, "SELECT sum(n) FROM chunk_counts") == chunks
    assert learn(run) == unbroken
    count(run, [str(more)], resources=SMALL)
    with pytest.raises(ResumeMismatch, match="sources were added"):
        learn(run)
    with pytest.raises(ResumeMismatch, match="sources were added"):
        train(run, resources=SMALL, **by_keyword({**OPTIONS, "vocab_size": 2000}))
    assert (run / "model.events.jsonl").read_bytes() == unbroken
    assert learn(run, name="all") != unbroken
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_standard_input_is_not_read_again(tmp_path):
    """A training from standard input, killed while it learns, is resumed without the input."""
    text = natural_text(14, 30_000)
    cli("train", tmp_path / "whole", "-", "--vocab-size", 500, input=text)
    cli_killed("journal-created", "train", tmp_path / "run", "-", "--vocab-size", 500, input=text)
    cli("resume", tmp_path / "run")
    assert log_of(tmp_path / "run") == log_of(tmp_path / "whole")


@pytest.mark.long
def test_an_iterator_stopped_in_counting_is_not_resumed_without_it(tmp_path):
    """`resume` cannot give the strings again and says so, instead of learning from half of them."""
    documents, stop = natural_text(15, 60_000).split("\n")[:-1], threading.Event()

    def stopped_half_way():
        yield from documents[: len(documents) // 2]
        stop.set()
        yield from documents[len(documents) // 2 :]

    how = {"vocab_size": 400, "resources": SMALL}
    with pytest.raises(Stopped, match="giving the iterator again, with the same call"):
        train_from_iterator(tmp_path / "run", stopped_half_way(), **how, stop=stop)
    with pytest.raises(RunError, match="train_from_iterator as before"):
        resume(tmp_path / "run", resources=SMALL)
    made, whole = (train_from_iterator(tmp_path / name, documents, **how) for name in ("run", "whole"))
    assert made.log.read_bytes() == whole.log.read_bytes()


# Others at the same run


def test_a_second_writer_is_refused(run, unbroken):
    """While one process learns, another is told who holds the run; the first is not disturbed."""
    driver = Driver(run=run, options=OPTIONS, rest=0.03)
    try:
        assert driver.wait_for("learning")
        for attempt in (lambda: learn(run), lambda: train(run, resources=SMALL, **by_keyword(OPTIONS))):
            with pytest.raises(RunLocked, match=f"process {driver.process.pid}"):
                attempt()
        with pytest.raises(RunLocked):
            count(run, [__file__], resources=SMALL)
    finally:
        code, _ = driver.end()
    assert code == 0
    assert (run / "model.events.jsonl").read_bytes() == unbroken
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_a_reader_delays_the_tables_and_nothing_else(run, unbroken, monkeypatch):
    """With state.duckdb held open: it learns, stops, goes on and ends as ever; the tables follow when it is free."""
    monkeypatch.setattr(training, "_LAST_FOLD_SECONDS", 0.2)
    with held_open(run, "reader"):
        assert learn(run, stop_at=5, how="stop") is None  # Stopped, not an error about the file
        assert len(Journal.read(run / "pending.events").events) > 0
        assert not trainer(run, TrainConfig(**OPTIONS)).run().folded
        assert (run / "model.events.jsonl").read_bytes() == unbroken
        assert (run / "pending.events").exists()
    assert check(run, resources=SMALL) == []
    assert learn(run) == unbroken  # the same command brings the tables up to date
    assert not (run / "pending.events").exists()
    assert len(rows(run, "FROM events")) == len(log_of(run).events)
    assert check(run, resources=SMALL) == []


# resume without work


def test_resume_from_another_folder(tmp_path, monkeypatch):
    """Sources and --temp-dir that were named from where the job began: a folder, a glob, a file with a field."""
    here, sources, stop = tmp_path / "with [brackets]", ["texts", "b*.txt", "c.jsonl:body"], threading.Event()
    for folder in ("texts", "spill"):
        (here / folder).mkdir(parents=True)
    for name, text in (
        ("texts/a.txt", "the cat sat "),
        ("b1.txt", "on the mat "),
        ("c.jsonl", '{"body": "rat"}\n'),
    ):
        (here / name).write_text(text * 50)
    monkeypatch.chdir(here)
    stop.set()
    with pytest.raises(Stopped, match="Finish the count with `streambpe resume"):
        train("run", sources, vocab_size=270, memory="400MB", temp_dir="spill", stop=stop)
    cli("resume", here / "run", folder=tmp_path)
    counted = rows(here / "run", "SELECT path FROM source_files ORDER BY path")
    assert [Path(path).name for (path,) in counted] == ["b1.txt", "c.jsonl", "a.txt"]
    train("again", sources, vocab_size=270, memory="400MB")
    assert log_of(here / "run").events == log_of(here / "again").events


def test_resume_with_nothing_to_resume(run, tmp_path):
    """No run, no training, no such name: an error each that says what to do; a finished one is said to be done."""
    with pytest.raises(RunError, match="has no training to resume"):
        resume(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    with pytest.raises(RunError, match="has no training to resume"):
        resume(run)
    first = train(run, vocab_size=300, resources=SMALL)
    with pytest.raises(RunError, match="no training other to resume; it has main"):
        resume(run, name="other")
    again = resume(run)
    assert (again.skipped, again.sha256, again.size) == (True, first.sha256, 300)
    (run / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        resume(run)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda job: job["config"].update(tempo=3), "was started with tempo, which this streambpe does not know"),
        (lambda job: job["config"].update(vocab_size="300"), "cannot read .*Expected `int`, got `str`.*vocab_size"),
    ],
)
def test_a_job_of_another_shape_is_told(tmp_path, change, told):
    """An option that is not known is never left out without a word: the training would be another one."""
    run = counted_run(tmp_path / "run", {"abcabc": 3, "abd": 2})
    train(run, vocab_size=260, resources=SMALL)
    identity = read_identity(run)
    assert identity is not None
    change(identity.jobs["trainings"]["main"])
    write_identity(run, identity)
    with pytest.raises(RunError, match=told):
        resume(run)


@pytest.mark.long
def test_tables_can_be_read_while_it_learns(run, unbroken):
    """Between two folds anyone may open state.duckdb; what is seen only grows."""
    driver = Driver(run=run, options=OPTIONS, rest=0.02, trainer={"checkpoint_seconds": 0.05})
    assert driver.wait_for("learning")
    seen = [0]
    while driver.process.poll() is None and len(seen) < 20:
        with contextlib.suppress(duckdb.IOException):
            seen += [n for (n,) in rows(run, "SELECT count(*) FROM events")]
    assert driver.end()[0] == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 1, "something was seen"
    assert (run / "model.events.jsonl").read_bytes() == unbroken
