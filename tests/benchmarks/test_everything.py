"""benchmarks/everything.py: what it would run. Whether all of it runs is seen by --try, which takes long."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.runs import ROOT


@pytest.fixture
def everything(benchmark, monkeypatch):
    """The module; every peer is there."""
    module = benchmark("everything")
    monkeypatch.setattr(module, "there", lambda peer: True)
    return module


@pytest.fixture
def corpora(tmp_path):
    """Small ones, one of them compressed in the place of its text."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    for name in ("en_100", "en_300", "multi_60"):
        (folder / f"{name}.txt").write_text(
            "some words and 中文字，都是中文\n中文，都是中文\n" * 50_000, encoding="utf-8"
        )
    return folder


def jobs_of(everything, corpora, work, most=None):
    texts = everything.Texts(corpora, work, most)
    return texts, [*everything.small(texts), *everything.whole(texts)]


def test_the_jobs_are_commands_that_their_scripts_know(everything, corpora, tmp_path):
    """Each script is there and has each option, those of --try too; no two jobs write one result."""
    _, jobs = jobs_of(everything, corpora, tmp_path)
    for job in jobs:
        script = (ROOT / "benchmarks" / job.script).read_text(encoding="utf-8")
        words = shlex.split(f"{job.arguments} {job.trial}")
        unknown = [word for word in words if word.startswith("--") and f'"{word}"' not in script]
        assert not unknown, f"{job.script}: {unknown}"
    assert len({job.line for job in jobs}) == len(jobs)
    assert not list(tmp_path.glob("*.txt")), "a text is made before a job wants it"


def test_texts_are_made_when_a_job_begins(everything, corpora, tmp_path, monkeypatch):
    """All that any job reads, no more than --try says; a text that is half made has another name."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(everything.extracts, "code", lambda: iter(["x = 1\n"] * 200_000))
    texts, jobs = jobs_of(everything, corpora, work, 0.5)
    for job in jobs:
        if "synthetic" not in job.line:  # which needs a text with more words
            texts.ready_for(job)
    made = {path.name: path.stat().st_size for path in work.glob("*.txt")}
    assert {"en_5.txt", "chinese.txt", "code.txt", "en_30.txt", "multi_30.txt", "en_300.txt"} <= made.keys()
    assert all(0 < size < 600_000 for size in made.values())


def test_a_peer_that_is_missing_is_told(everything, corpora, tmp_path, monkeypatch):
    """Its name stays out of the command; a job without any peer is not run."""
    monkeypatch.setattr(everything, "there", lambda peer: peer not in ("gigabpe", "rustbpe"))
    _, jobs = jobs_of(everything, corpora, tmp_path)
    with_others = [job for job in jobs if "gigabpe" in job.missing and not job.alone]
    assert with_others
    assert not any("gigabpe" in job.line for job in with_others)
    assert "without rustbpe, gigabpe: not installed" in everything.listed(with_others)
    assert [job.line for job in jobs if job.alone and "equal-en_300-rustbpe" in job.line]


def test_what_is_asked_wrongly_is_told(everything, corpora, tmp_path, monkeypatch, capsys):
    """An expression that is none, and one that no job has."""

    def ask(*arguments: str) -> int:
        given = ["everything.py", "--corpora", str(corpora), "--work", str(tmp_path / "work"), *arguments]
        monkeypatch.setattr(sys, "argv", given)
        return everything.main()

    for expression, told in (("(", "--only is a regular expression"), ("nothing", "no benchmark is left to run")):
        with pytest.raises(SystemExit, match="2"):
            ask("--only", expression)
        assert told in capsys.readouterr().err
    assert ask("--list", "--only", "count.*en_300") == 0
    assert "4 jobs, about" in capsys.readouterr().out
