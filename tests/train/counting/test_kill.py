"""Killed at any moment and given the same command again, a count ends as if nothing had happened."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.counting.count import count, resume_count
from tests.runs import Driver, rows
from tests.samples import sample_text

PLACES = ["run-made", "sequence-written", "part-written", "part-committed", "fold-filled", "fold-committed"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Made-up text in three files, 700 KB."""
    folder = tmp_path_factory.mktemp("corpus")
    for i in range(3):
        text = sample_text(i, words=25_000)
        if i == 2:
            (folder / "c.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in text.split("\n")))
        else:
            (folder / f"{'ab'[i]}.txt").write_text(text)
    return folder


def start(run: Path, corpus: Path, block: int, sequences: bool, failpoint: str = "") -> Driver:
    """Small blocks, a part each: a small corpus meets every commit that a large one does, compaction too."""
    counting = {"options": {"sequences": sequences}}
    return Driver({"STREAMBPE_FAILPOINT": failpoint}, run=run, sources=[corpus], counting=counting, block=block)


def finish(run: Path, corpus: Path, block: int, sequences: bool) -> tuple[dict[str, str], list[tuple[str, int]]]:
    """Run to the end; the corpus facts and the table."""
    assert start(run, corpus, block, sequences).end()[0] == 0
    return json.loads(Run(run).facts()["corpus"]), rows(run, "SELECT chunk, n FROM chunk_counts ORDER BY chunk")


@pytest.fixture(scope="module")
def unbroken(corpus, tmp_path_factory):
    """What a count that nobody disturbs gives."""
    return finish(tmp_path_factory.mktemp("unbroken"), corpus, 20_000, False)


@pytest.mark.long
@pytest.mark.parametrize("place", [*PLACES, "part-written:20", "merge-committed", "merge-committed:2"])
def test_killed_at_every_commit(tmp_path, corpus, unbroken, place):
    """Right before and right after each rename and each commit, going on gives the unbroken result."""
    sequences = place == "sequence-written"
    block = 5_000 if place.startswith("merge") or place == "part-written:20" else 40_000
    assert start(tmp_path, corpus, block, sequences, place).end()[0] == -signal.SIGKILL, "the place was reached"
    if place in ("part-written", "run-made"):
        assert not list_parts(Run(tmp_path)), "nothing is visible before it is renamed"
    assert finish(tmp_path, corpus, 20_000, sequences) == unbroken
    assert check(tmp_path, sources=True, resources=Resources(256 << 20, 2)) == []
    leftovers = [p for p in tmp_path.rglob("*") if ".new" in p.name]
    assert leftovers == [], "unfinished files do not stay"


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "lines"), [("part-committed:3", False), ("sequence-written:2", True), ("fold-filled", True)]
)
def test_a_sample_that_was_killed_is_resumed(tmp_path, corpus, lines, place):
    """The same documents, also of a file that is one document and was counted in half: a run keeps its sample."""
    sequences = place.startswith("sequence")
    for i in range(8):  # about half of them are in the sample
        (tmp_path / f"{i}.txt").write_text(f"file {i}\n" + sample_text(i, words=3_000))
    sources = [corpus, *tmp_path.glob("*.txt")]
    counting = {"lines": lines, "options": {"sample": "1/2", "sequences": sequences}}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    given = {"run": killed, "sources": sources, "counting": counting}
    driver = Driver({"STREAMBPE_FAILPOINT": place}, **given, block=5_000)
    assert driver.end()[0] == -signal.SIGKILL, "the place was reached"
    resume_count(killed, resources=Resources(400 * 10**6, 2))
    count(
        whole, list(map(str, sources)), lines=lines, sample="1/2", resources=Resources(400 * 10**6, 1, engine="threads")
    )
    documents = "SELECT path, sum(documents)::INT, sum(text_bytes)::INT FROM source_files GROUP BY path ORDER BY path"
    for query in ("SELECT chunk, n FROM chunk_counts ORDER BY chunk", documents):
        assert rows(killed, query) == rows(whole, query)
    assert check(killed, sources=True, resources=Resources(400 * 10**6, 2)) == []
