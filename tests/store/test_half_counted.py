"""A RUN whose count was stopped, killed or ended by an error: nothing learns from half of it unasked."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from streambpe.config import TrainConfig
from streambpe.errors import CountUnfinished, SourceError, Stopped, StreambpeError
from streambpe.inspect.check import check, what_is_open
from streambpe.inspect.converge import converge
from streambpe.store.exchange import export_counts, merge_counts
from streambpe.store.job import read_jobs
from streambpe.store.run import Run
from streambpe.store.unfinished import read_record
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count
from streambpe.train.counting.job import CountResult
from streambpe.train.training import TrainResult
from tests.runs import SMALL, StopAfter, cli, cli_killed, killed_at, log_of, rows, trainer
from tests.samples import natural_text, written


@pytest.fixture
def run(tmp_path) -> Path:
    """A RUN that is not there yet."""
    return tmp_path / "run"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """Three texts of some ten blocks each."""
    folder = tmp_path_factory.mktemp("texts")
    return [str(written(folder / f"{name}.txt", natural_text(number, 10_000))) for number, name in enumerate("abc")]


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory) -> bytes:
    """The log of a training that learned from all three."""
    return train(tmp_path_factory.mktemp("whole") / "run", files, vocab_size=300, resources=SMALL).log.read_bytes()


def count_half(run: Path, files: list[str]) -> None:
    """Count some blocks, then stop."""
    with pytest.raises(Stopped, match=f"streambpe resume {run}"):
        count(run, files, resources=SMALL, stop=StopAfter(14))


def count_killed(run: Path) -> list[str]:
    """A count of two tables, killed when the first of them is committed and nothing of the second is."""
    table = "chunk,count\n{0}abab,300\n{0}bab,301\n"
    paths = [str(written(run.parent / f"{name}.csv", table.format(name))) for name in "ab"]
    with killed_at("part-committed"):
        count(run, paths, counts=True, pattern="gpt2", resources=SMALL)
    return paths


@pytest.mark.long
def test_half_counts_are_used_where_they_are_asked_for(run, tmp_path):
    """By train, converge, export-counts or merge-counts. With --allow-partial the RUN, the log and the tables say what
    is left out. Killed while it learns, `resume` goes on with it; then `resume` ends the count."""
    _, left = count_killed(run)
    for read in (
        lambda: converge(run, steps=2, resources=SMALL),
        lambda: export_counts(run, tmp_path / "out.parquet"),
        lambda: merge_counts(tmp_path / "sum", [run], resources=SMALL),
    ):
        with pytest.raises(CountUnfinished, match=f"streambpe resume {run}"):
            read()
    export_counts(run, tmp_path / "out.parquet", allow_partial=True)
    assert f"{left} (none of it is counted)" in cli("train", run, "--vocab-size", 260, expect=2).stderr
    with killed_at("journal-created"):
        train(run, vocab_size=260, allow_partial=True, resources=SMALL)
    assert resume(run).left_out == (left,)
    left_out = {"source": "b.csv", "counted": 0, "unit": "rows"}
    assert log_of(run).header.corpus["left_out"] == [left_out]
    for table, name in (("facts", "left_out"), ("run", "unfinished")):
        assert json.loads(dict(rows(run, f"FROM {table}"))[name]) == [{**left_out, "source": left}]
    assert check(run, resources=SMALL) == []
    assert "already learned" in cli("train", run, "--vocab-size", 260, "--allow-partial").stderr
    assert isinstance(resume(run), CountResult)
    assert json.loads(dict(rows(run, "FROM run"))["unfinished"]) == []
    assert b"left_out" not in train(run, vocab_size=260, name="all", resources=SMALL).log.read_bytes()


@pytest.mark.long
def test_sources_added_to_a_trained_run_and_stopped(files, whole, run, tmp_path, tiny_blocks):
    """A second training is refused until the added sources are counted; the first one stays what it is."""
    first = train(run, files[:1], vocab_size=300, resources=SMALL)
    before = first.log.read_bytes()
    count_half(run, files[1:])
    parts = sorted((run / "counts").iterdir())
    more = [str(written(tmp_path / "d.txt", "more words"))]
    for learn in (
        lambda: train(run, name="all", vocab_size=300, resources=SMALL),
        lambda: train(run, more, name="all", vocab_size=300, resources=SMALL),
        lambda: trainer(run, TrainConfig()).run(),
    ):
        with pytest.raises(CountUnfinished, match=rf"c\.txt \(.*`streambpe resume {run}`.*allow-partial"):
            learn()
    assert sorted((run / "counts").iterdir()) == parts
    assert list(read_jobs(Run(run)).trainings) == ["main"], "what was refused is nothing to resume"
    assert isinstance(resume(run), CountResult)
    assert not read_record(Run(run))
    assert train(run, vocab_size=300, name="all", resources=SMALL).log.read_bytes() == whole
    assert first.log.read_bytes() == before
    assert isinstance(resume(run), TrainResult)


@pytest.mark.long
def test_a_half_counted_run_without_run_json(files, whole, run, tiny_blocks):
    """Once it is made again, the parts tell of the file that ended in the middle, and `resume` ends that one."""
    count_half(run, files)
    (run / "run.json").unlink()
    with pytest.raises(StreambpeError, match=f"`streambpe count {run}` makes it again"):
        train(run, vocab_size=300, resources=SMALL)
    assert "is made again, but it is not known which sources were not yet counted" in cli("count", run).stderr
    with pytest.raises(CountUnfinished, match="resume"):
        train(run, vocab_size=300, resources=SMALL)
    assert isinstance(resume(run), CountResult)
    count(run, files, resources=SMALL)
    assert train(run, vocab_size=300, resources=SMALL).log.read_bytes() == whole


@pytest.mark.long
def test_a_source_refused_by_name(files, run, tmp_path):
    """An error named it: `resume` tries it again, counting without it leaves it out."""
    bad = written(tmp_path / "b.jsonl", "no JSON")
    for call in (lambda: count(run, [*files, str(bad)], resources=SMALL), lambda: resume(run)):
        with pytest.raises(SourceError, match=r"b\.jsonl"):
            call()
    with pytest.raises(CountUnfinished, match="leave it out for good with `streambpe count"):
        train(run, vocab_size=300, resources=SMALL)
    assert f"{bad} was refused before" in cli("count", run).stderr
    assert train(run, vocab_size=300, resources=SMALL).left_out == ()


# check


def test_check_of_a_run_stopped_while_counting(files, run, tiny_blocks):
    """What is committed adds up, and that the count is not finished is said."""
    count_half(run, files[:2])
    done = cli("check", run, "--sources")
    assert "counting is not finished" in done.stderr
    assert f"Finish the count with `streambpe resume {run}`" in done.stderr
    assert "what is committed adds up" in done.stderr
    assert "b.txt" in what_is_open(run)[0]
    resume(run)
    assert "everything adds up" in cli("check", run).stderr


@pytest.mark.long
@pytest.mark.parametrize("place", ["count-recorded", "fold-filled", "fold-committed", "part-committed"])
@pytest.mark.parametrize("before", [True, False], ids=["counted before", "new"])
def test_check_of_a_run_killed_anywhere(files, run, place, before):
    """Whether the tables hold older parts or none, or nothing is counted yet: nothing is called different."""
    if before:
        train(run, files[:1], vocab_size=300, resources=SMALL)
    cli_killed(place, "count", run, *files, expect=-signal.SIGKILL if before else None)
    assert check(run, resources=SMALL) == []
    cli("count", run, *files)
    assert check(run, resources=SMALL) == what_is_open(run) == []
    assert len(rows(run, "FROM source_files WHERE complete")) == 3
