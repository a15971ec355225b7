"""--memory and --threads that no machine has, or this one has not: one message, or a job that runs all the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from streambpe import resources as memory
from streambpe.errors import Stopped
from streambpe.resources import Resources, most_threads
from streambpe.train import trainer
from streambpe.train.commands import resume, train
from tests.runs import cli, text_run
from tests.samples import CATS
from tests.uses import LOOKS, USES, words_of

WITH_MEMORY = ["resume RUN", *(name for name, use in (USES | LOOKS).items() if "--memory" in use)]
IMPOSSIBLE = [
    (["--memory", "0"], 3, "256.0 MB"),
    (["--memory", "0GB"], 3, "256.0 MB"),
    (["--memory", "-5GB"], 2, "is not a size"),
    (["--memory", ""], 2, "is not a size"),
    (["--memory", "1e30TB"], 2, "is not a size"),
    (["--memory", "500iB"], 2, "is not a size"),
    (["--memory", "9" * 30 + "TB"], 2, "this machine has"),
    (["--memory", "9" * 400], 2, "this machine has"),
    (["--memory", "100000TB"], 2, "this machine has"),
    (["--temp-dir", os.devnull], 2, "is not a folder"),
    (["--threads", "1000000"], 2, "cores"),
    (["--threads", "9" * 30], 2, "cores"),
    (["--threads", "0"], 2, "threads"),
    (["--threads", "-1"], 2, "threads"),
]


@pytest.fixture
def places(desk, tmp_path) -> dict[str, Path]:
    """What uses are made of."""
    given = {"RUN": desk / "run", "TEXT": desk / "a.txt", "TOKENIZER": desk / "tokenizer.json"}
    return {**given, "OUT": tmp_path / "out", "HERE": tmp_path}


@pytest.mark.parametrize("use", [*{words_of(use)[0]: use for use in WITH_MEMORY}.values()])
def test_impossible_resources_are_refused_before_any_work(places, tmp_path, use):
    """The documented exit code, one line, nothing made: a crash, or a limit that nobody could keep, before."""
    command = words_of(use, **places)
    for options, code, why in IMPOSSIBLE:
        result = cli(*command, *options, expect=code)
        assert result.stdout == ""
        assert why in result.stderr, options
        assert len(result.stderr) < 400
        assert not os.listdir(tmp_path)


@pytest.mark.long
def test_as_many_threads_as_are_allowed_work_with_the_least_memory(desk, tmp_path):
    """And learn, encode and answer the same."""
    few, many = tmp_path / "few", tmp_path / "many"
    for run, threads in ((few, 1), (many, most_threads())):
        limits = ["--threads", threads, "--memory", "256MB"]
        cli("train", run, desk / "a.txt", "-s", "265", *limits)
        cli("encode", run, desk / "a.txt", "-o", run / "ids.npy", *limits)
        cli("check", run, *limits)
        cli("sql", run, "SELECT count(*) FROM events", *limits)
    for name in ("model.events.jsonl", "ids.npy"):
        assert (few / name).read_bytes() == (many / name).read_bytes()


@pytest.mark.long
def test_a_run_of_a_larger_machine_is_resumed_with_what_this_one_has(tmp_path, monkeypatch):
    """The memory and the threads that it had are no option given now: they are cut to the machine, and told."""
    run = text_run(tmp_path / "run", CATS)

    def give_up(*_: object) -> None:
        raise Stopped("stopped", 2)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "run", give_up)
        with pytest.raises(Stopped):
            train(run, resources=Resources(64 * 10**9, 500), vocab_size=265)
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 10**9)
    monkeypatch.setattr(memory, "usable_cores", lambda: 2)
    seen: list[Resources] = []
    monkeypatch.setattr(trainer.Trainer, "__init__", noting(trainer.Trainer.__init__, seen))
    assert "it had --memory 64.0 GB" in cli("resume", run).stderr
    assert [(r.memory_bytes, r.threads) for r in seen] == [(2 * 10**9, 64)]
    again = cli("resume", run, "--memory", "300MB", "--threads", "1")
    assert "it had" not in again.stderr
    assert [(r.memory_bytes, r.threads) for r in seen[1:]] == [(300 * 10**6, 1)]


def test_what_resume_is_given_goes_over_what_the_job_had(tmp_path, monkeypatch):
    """And only that, and only for that call: by the function as by the command."""
    before = Resources(500 * 10**6, 2, engine="threads", max_disk_bytes=10**10, document_seconds=7)
    run = text_run(tmp_path / "run", CATS)
    seen: list[Resources] = []
    train(run, resources=before, vocab_size=262, name="limited")
    monkeypatch.setattr(trainer.Trainer, "__init__", noting(trainer.Trainer.__init__, seen))
    resume(run, name="limited", memory="300MB")
    cli("resume", run, "--name", "limited", "--memory", "300MB")
    assert seen == [replace(before, memory_bytes=300 * 10**6)] * 2
    resume(run, name="limited")
    assert seen[2:] == [before]


def noting(make, seen: list[Resources]):
    def noted(self, *arguments, **options):
        make(self, *arguments, **options)
        seen.append(self.training.resources)

    return noted


@pytest.mark.long
def test_a_plan_whose_sample_cannot_be_trained_says_why(desk, tmp_path, monkeypatch):
    """In one sentence and with the code that training would end with; it printed a Python tuple."""
    (tmp_path / "a.txt").write_text(" ".join(chr(0x4E00 + i) for i in range(500)) * 3)
    why = ("--rehearse", "1MB", "--encoding", "chars", "-s", "260", "--memory", "300MB")
    refused = cli("plan", tmp_path / "a.txt", *why, expect=2)
    assert refused.stderr.splitlines()[-1].startswith(
        "streambpe: The part that was read cannot be trained on: --vocab-size 260 is less than the "
    )
    assert refused.stderr.count("streambpe:") == 1
    monkeypatch.setenv("STREAMBPE_FAILPOINT", "part-written")
    killed = cli("plan", desk / "a.txt", "--rehearse", "1MB", "-s", "260", "--memory", "300MB", expect=1)
    why = "its process was ended by signal 9"
    assert killed.stderr.endswith(f"\nstreambpe: The part that was read cannot be trained on: {why}\n")
    cli("plan", desk / "a.txt", "--rehearse", "0", expect=2)
