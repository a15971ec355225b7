"""Files in RUN that were swapped or lost: told in one message, or made again as they were. tests/rot.py tries all."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from streambpe.errors import StreambpeError
from streambpe.inspect.check import check
from streambpe.inspect.query import Query
from streambpe.store.merge import merged_lists
from streambpe.store.parts import list_parts, write_part
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import SMALL, rows, text_run
from tests.samples import natural_text

LOG = "model.events.jsonl"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A RUN with a training of 290 ids."""
    run = text_run(tmp_path_factory.mktemp("trained") / "run", natural_text(1, 10_000), digits="single")
    train(run, vocab_size=290, resources=SMALL)
    return run


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_the_tables_are_made_again_with_the_options_they_had(trained, run):
    """state.duckdb lost: counted with --pattern gpt4 and --digits single, it is not gone on with under defaults."""
    (run / "state.duckdb").unlink()
    count(run, [str(trained.with_suffix(".txt"))], lines=True, resources=SMALL)
    train(run, vocab_size=290, resources=SMALL)
    assert (run / LOG).read_bytes() == (trained / LOG).read_bytes()
    assert check(run, resources=SMALL) == []


def test_tables_of_an_earlier_time_are_brought_up(trained, run):
    """The tables of before a training was finished: the same `train` fills them from the log."""
    train(run, vocab_size=295, resources=SMALL)
    shutil.copy(trained / "state.duckdb", run)
    with pytest.raises(StreambpeError, match=r"state\.duckdb is an older one"):
        Query(run, "SELECT 1").print("csv", io.StringIO())
    train(run, vocab_size=295, resources=SMALL)
    assert check(run, resources=SMALL) == []
    Query(run, "SELECT 1").print("csv", io.StringIO())
    assert rows(run, "SELECT count(*) FROM events WHERE seq IS NOT NULL") == [(295 - 256,)]


def test_a_stretch_that_two_parts_hold_is_not_counted_twice(run):
    """A part of before parts were merged, put back; one of another RUN; a copy of one under another name."""
    opened = Run(run)
    (part,) = list_parts(opened)
    twice = opened.counts / "part-00009.parquet"
    for number, told in ((opened.number, r"both hold .*run\.txt from 0"), ("another", "different RUNs")):
        write_part(twice, merged_lists([part], 1 << 20), part.spans, run=number)
        with pytest.raises(StreambpeError, match=rf"part-00009\.parquet .*{told}"):
            train(run, name="again", vocab_size=290, resources=SMALL)
    shutil.copy(part.path, twice)
    with pytest.raises(StreambpeError, match=r"part-00009\.parquet was written as part-00001\.parquet"):
        train(run, name="again", vocab_size=290, resources=SMALL)
