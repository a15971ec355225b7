"""RUN and SOURCE swapped, or RUN a folder of something else: told, and nothing is made there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from tests.runs import SMALL, cli


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A folder with a text."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("some words and more words, and some more")
    return tmp_path / "corpus"


@pytest.mark.parametrize("command", ["count", "train", "merge-counts"])
def test_run_and_source_swapped(corpus, tmp_path, command):
    """`train corpus.txt runs/x`: the command that is meant is told, and the corpus stays as it was."""
    run, file = tmp_path / "x", corpus / "a.txt"
    if command != "train":  # which shall name a RUN that does not exist yet
        count(run, [str(corpus)], resources=SMALL)
    before = file.read_bytes()
    for source, what in ((file, "is a file"), (corpus, "has other things in it (a.txt)")):
        told = cli(command, source, run, expect=1).stderr
        assert f"Did you mean `streambpe {command} {run} {source}`?" in told
        assert what in told
    assert list(corpus.iterdir()) == [file]
    assert file.read_bytes() == before
    assert run.exists() == (command != "train")


@pytest.mark.parametrize("command", [["train"], ["count"], ["check"], ["sql", "SELECT 1"]], ids=lambda words: words[0])
def test_a_source_alone(corpus, command):
    """`train corpus.txt` and `train corpus`: no RUN is made of either."""
    name, *words = command
    for source in (corpus, corpus / "a.txt"):
        assert "RUN" in cli(name, source, *words, expect=1).stderr
    assert list(corpus.iterdir()) == [corpus / "a.txt"]


@pytest.mark.long
def test_what_is_taken_as_a_run(corpus, tmp_path):
    """An empty folder, one with files that begin with a dot, one that a kill left without a database."""
    killed = ["lock", ".extended.jsonl.streambpe.new", "a.extended.jsonl", "balance"]
    for name, files in (("empty", []), ("hidden", [".gitkeep"]), ("killed", killed)):
        folder = tmp_path / name
        folder.mkdir()
        for file in files:
            (folder / file).touch()
        Run(folder).refuse_other_content("count", [])
    (tmp_path / "killed" / "balance").unlink()  # it is a folder
    for name in ("empty", "hidden", "killed"):
        assert train(tmp_path / name, [str(corpus)], vocab_size=260, resources=SMALL).size == 260
    (tmp_path / "hidden" / "notes.md").write_text("mine")  # beside a database anything may lie
    assert resume(tmp_path / "hidden").size == 260
    assert count(tmp_path / "hidden", [str(corpus)], resources=SMALL).skipped == 1
    merge_counts(tmp_path / "sum", [tmp_path / "hidden"], resources=SMALL)


def test_a_run_where_sources_are_named_or_added_to_itself(corpus, tmp_path):
    """`train NEW RUN`, `plan RUN`, `merge-counts RUN RUN`, and counts of one file in two RUNs: which one, and what is
    left."""
    one, two = tmp_path / "one", tmp_path / "two"
    for run in (one, two):
        count(run, [str(corpus)], resources=SMALL)
    for command, code, told in (
        (("train", tmp_path / "new", one), 1, "one is a RUN, not a folder of sources"),
        (("plan", one), 2, f"`streambpe sql {one} source_files` lists"),
        (("merge-counts", one, two, one), 2, "cannot be added to itself. Nothing was changed"),
        (("merge-counts", one, two), 2, rf"in both {two} and {one}.*Nothing of {two} was added"),
    ):
        assert re.search(told, cli(*command, expect=code).stderr)
    assert not (tmp_path / "new").exists()
