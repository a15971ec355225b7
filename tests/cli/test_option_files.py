"""train --config and RUN/train.toml: the options of a training in a file; the same digest from it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.cli.options import COUNT_OPTIONS, RESOURCE_OPTIONS, SOURCE_OPTIONS, TRAIN_OPTIONS
from streambpe.config import LIKE_OPTION
from streambpe.errors import UsageError
from streambpe.option_file import format_options, read_options
from tests.runs import cli, log_of
from tests.samples import natural_text, written

ALL = (*TRAIN_OPTIONS, LIKE_OPTION, *COUNT_OPTIONS, *SOURCE_OPTIONS, *RESOURCE_OPTIONS)
MEMORY = ("--memory", "400MB", "--threads", 2)
TRAININGS = {
    "plain": ["--lines", "--pattern", "gpt4", "--special", "<s>", "--special", 'a "b" \\', "--reserve", 2,
              "--block-token", "b", "--block-token", "a"],
    "kensho with superwords": [
        "--like", "kensho", "--pattern", "boundless", "--superwords", "boundless", "--special", "<s>", "--lines",
        "--max-superword-words", 3,
    ],
    "uw": ["--pattern", "superbpe1", "--superwords", "uw", "--transition", 280, "--lines"],
    "picky": ["--like", "picky", "-s", 90, "--coverage", "0.999"],
    "script": ["--like", "script", "-s", 1960],
    "batch": ["--like", "batch", "--cap-divisor", 3, "--max-batch", 7],
    "weights": ["--group", "a=a.txt", "--group-by", "folder", "--weight", "a=2.50", "--freq-cutoff", 2,
                "--stop-list", 5, "--max-token-length", 9],
    "alpha": ["--group-by", "folder", "--group", "a=a.txt", "--alpha", 0.25],
    "own expression": ["--pattern", r"\w+|\s", "--gaps", "keep", "--bad-utf8", "skip", "--forbid", "x", "--superwords",
                       "superbpe", "--transition", 290, "--superword-pattern", r"^[a-z\s]+$"],
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(natural_text(5, 4000))
    (folder / "b.txt").write_text(natural_text(6, 4000))
    return folder


@pytest.mark.every(8)
@pytest.mark.parametrize("name", TRAININGS)
def test_the_file_that_a_run_keeps_learns_the_same_again(corpus, tmp_path, name):
    """From the same sources, and keeps the same file."""
    cli("train", tmp_path / "one", corpus, "-s", 300, *TRAININGS[name], *MEMORY)
    kept = tmp_path / "one" / "train.toml"
    cli("train", tmp_path / "two", corpus, "--config", kept, *MEMORY)
    one, two = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    assert one.events
    assert (one.header, one.events) == (two.header, two.events)
    assert (tmp_path / "two" / "train.toml").read_text() == kept.read_text()


@pytest.mark.long
def test_the_command_line_goes_over_the_file(corpus, tmp_path):
    """Single values, switches and lists; what the command leaves out is the file's."""
    file = tmp_path / "o.toml"
    file.write_text('vocab-size = 300\nspecial = ["<a>", "<b>"]\nlines = true\npattern = "gpt2"\nlike = "rustbpe"\n')
    cli("train", tmp_path / "run", corpus, "--config", file, "-s", 280, "--special", "<c>", *MEMORY)
    kept = tomllib.loads((tmp_path / "run" / "train.toml").read_text())
    assert (kept["vocab-size"], kept["special"], kept["lines"], kept["pattern"]) == (280, ["<c>"], True, "gpt2")
    assert kept["alphabet"] == "bytes"


@pytest.mark.long
def test_what_a_counted_run_says_of_its_sources_is_kept(corpus, tmp_path):
    """Counted by one command and learned by another: lines and fields are told by what was counted."""
    (tmp_path / "a.jsonl").write_text('{"body": "the cat and the dog and the cat"}\n' * 9)
    cli("count", tmp_path / "lines", corpus, "--lines", "--pattern", "gpt2", *MEMORY)
    cli("count", tmp_path / "fields", tmp_path / "a.jsonl", "--text-column", "body", *MEMORY)
    for run in ("lines", "fields"):
        cli("train", tmp_path / run, "-s", 262, "--name", "small", *MEMORY)
    lines = tomllib.loads((tmp_path / "lines" / "small.train.toml").read_text())
    fields = tomllib.loads((tmp_path / "fields" / "small.train.toml").read_text())
    assert (lines["lines"], lines["pattern"], fields["text-column"]) == (True, "gpt2", "body")


@pytest.mark.long
def test_resume_keeps_the_file_too(corpus, tmp_path):
    """Where a kill came between the log and it."""
    cli("train", tmp_path / "run", corpus, "-s", 262, *MEMORY)
    kept = tmp_path / "run" / "train.toml"
    kept.rename(tmp_path / "before")
    cli("resume", tmp_path / "run")
    assert kept.read_text() == (tmp_path / "before").read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vocab_size = 300", "no option vocab_size. Nothing was changed. Is vocab-size meant?"),
        ("qqq = 1", "no option qqq"),
        ("[superwords]\ntransition = 3", "superwords takes a text in quotes"),
        ('vocab-size = "many"', "vocab-size takes a whole number"),
        ("vocab-size = true", "vocab-size takes a whole number"),
        ("lines = 1", "lines takes true or false"),
        ("special = [1]", "special takes a text or a list of texts in quotes"),
        ("pattern = ", "is not TOML"),
        ("\xff", "is not TOML"),
        ("vocab-size = 0", "--vocab-size"),
        ('ties = "first"', "--ties"),
        ('tau = 0.9\nbatch = "paper"', "--tau"),
    ],
)
def test_what_is_no_option_is_refused_by_name(corpus, tmp_path, text, told):
    """Exit 2 and nothing made."""
    file = written(tmp_path / "o.toml", text.encode("latin-1"))
    done = cli("train", tmp_path / "run", corpus, "--config", file, expect=2)
    assert told in done.stderr
    assert not (tmp_path / "run").exists()


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(TEXT, min_size=1), TEXT, st.booleans(), st.integers(0, 10**9))
def test_what_is_written_is_read_again(tmp_path_factory, texts, text, switch, number):
    """Every text of every character."""
    values = {"special": tuple(texts), "pattern": text, "lines": switch, "vocab_size": number}
    file = written(tmp_path_factory.mktemp("toml") / "o.toml", format_options(values, {"All": ALL}).encode())
    assert read_options(file, ALL) == values


def test_numbers_stand_for_text(tmp_path):
    """coverage = 0.9999 is what --coverage 0.9999 is; true is neither."""
    file = written(tmp_path / "o.toml", "coverage = 0.9999\nbatch = 1")
    assert read_options(file, ALL) == {"coverage": "0.9999", "batch": "1"}
    with pytest.raises(UsageError, match="a text in quotes"):
        read_options(written(file, "coverage = true"), ALL)
