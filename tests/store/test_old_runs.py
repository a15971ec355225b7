"""RUNs and models made by earlier code go on, and are read, to the digests that code came to."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from streambpe import Tokenizer
from tests.old_runs.make import TEXT, make_corpus
from tests.runs import cli

RUNS = Path(__file__).parents[1] / "old_runs"
MADE = [
    (file.parent.name, name) for file in sorted(RUNS.glob("*/expected.json")) for name in json.loads(file.read_text())
]


def expected(commit: str, name: str) -> dict[str, Any]:
    """What the code that made the run came to."""
    facts: dict[str, Any] = json.loads((RUNS / commit / "expected.json").read_text())[name]
    return facts


@pytest.fixture
def run(commit: str, name: str, tmp_path: Path) -> Path:
    """The RUN as it was left, and its sources where they were."""
    with tarfile.open(RUNS / commit / f"{name}.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def corpus() -> None:
    make_corpus()


def digests(run: Path) -> dict[str, Any]:
    """The same facts of a RUN that is finished now."""
    header, lines = (run / "model.events.jsonl").read_bytes().split(b"\n", 1)
    corpus = json.loads(header)["corpus"]
    ids = Tokenizer.load(run).encode(TEXT)
    return {
        "events_sha256": hashlib.sha256(lines).hexdigest(),
        "counts_sha256": corpus["sha256"],
        "documents": corpus["documents"],
        "ids_sha256": hashlib.sha256(json.dumps(ids).encode()).hexdigest(),
    }


def test_something_is_kept_of_the_first_commit_that_promised() -> None:
    assert len([name for commit, name in MADE if commit == "6206052"]) >= 18


@pytest.mark.every(16)
@pytest.mark.parametrize(("commit", "name"), MADE)
@pytest.mark.skipif(sys.platform != "linux", reason="the runs name their sources by a path of Linux")
@pytest.mark.usefixtures("corpus")
def test_a_run_of_older_code_is_resumed_to_the_same_digests(run: Path, commit: str, name: str) -> None:
    facts = expected(commit, name)
    cli("resume", run, "--memory", "400MB", "--threads", "1")
    assert digests(run) == {key: facts[key] for key in digests(run)}
    cli("check", run)


@pytest.mark.every(4)
@pytest.mark.parametrize(("commit", "name"), [made for made in MADE if expected(*made)["killed"] is None])
def test_a_finished_run_of_older_code_is_read_as_it_is(run: Path, commit: str, name: str) -> None:
    """Without its sources, opened for reading only: model, tables, and the check that counts again."""
    facts = expected(commit, name)
    before = hashlib.sha256((run / "state.duckdb").read_bytes()).hexdigest()
    assert digests(run) == {key: facts[key] for key in digests(run)}
    events = (run / "model.events.jsonl").read_bytes().count(b"\n") - 1
    learned = cli("sql", run, "SELECT count(*) AS n FROM events WHERE seq IS NOT NULL", "--csv").stdout.split()
    assert learned == ["n", str(events)]
    cli("check", run)
    assert hashlib.sha256((run / "state.duckdb").read_bytes()).hexdigest() == before


@pytest.mark.every(3)
@pytest.mark.parametrize(("commit", "name"), [("6206052", "plain"), ("6206052", "boundless"), ("28080ff", "boundless")])
def test_more_is_learned_from_a_run_of_older_code(run: Path, commit: str, name: str, tmp_path: Path) -> None:
    """Another training from its counts equals the one that was learned then."""
    more = ["--superwords", "boundless"] if name == "boundless" else []
    cli("train", run, "--name", "again", "--vocab-size", "900", *more, "--memory", "400MB")
    shutil.move(run / "again.events.jsonl", tmp_path / "again.jsonl")
    again = (tmp_path / "again.jsonl").read_bytes().split(b"\n", 1)[1]
    assert hashlib.sha256(again).hexdigest() == expected(commit, name)["events_sha256"]
