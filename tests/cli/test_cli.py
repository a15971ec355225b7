"""The command line: help, exit codes, one message for each mistake, data on stdout only."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from streambpe.encode.tokenizer import Tokenizer
from tests.runs import change, cli
from tests.samples import natural_text, written

MEMORY = ["--memory", "300MB"]


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("counted")
    (folder / "a.txt").write_text('the cat, "the" dog\n')
    cli("count", folder / "run", folder / "a.txt", *MEMORY)
    return folder / "run"


@pytest.fixture
def run(counted, tmp_path) -> str:
    """A counted run."""
    return str(shutil.copytree(counted, tmp_path / "run"))


@pytest.mark.long
def test_sql_prints_json_and_csv(run):
    """The same rows in both; each is read back by its own parser."""
    query = "SELECT chunk, n, n = 1 AS rare, NULL AS nothing FROM chunk_counts ORDER BY chunk"
    rows = json.loads(cli("sql", run, query, "--json").stdout)
    assert {row["chunk"]: row["n"] for row in rows} == {
        '"': 1, " \"": 1, ",": 1, " cat": 1, " dog": 1, "\n": 1, "the": 2,
    }  # fmt: skip
    assert rows[0] == {"chunk": "\n", "n": 1, "rare": True, "nothing": None}
    table = list(csv.DictReader(io.StringIO(cli("sql", run, query, "--csv").stdout, newline="")))
    assert [(row["chunk"], int(row["n"])) for row in table] == [(row["chunk"], row["n"]) for row in rows]
    assert json.loads(cli("sql", run, "SELECT 1 WHERE false", "--json").stdout) == []
    kinds = "SELECT 'x'::BLOB AS b, DATE '2024-01-02' AS d, [1, 2] AS l, 1.5::DECIMAL(4,2) AS m, 'nan'::DOUBLE AS f"
    (row,) = json.loads(cli("sql", run, kinds, "--json").stdout, parse_constant=lambda name: pytest.fail(name))
    assert (row["b"], row["d"], row["l"]) == ("78", "2024-01-02", [1, 2])


@pytest.mark.long
def test_standard_input_is_counted_once(tmp_path):
    """A second stream under the same name is refused; with a name of its own it adds."""
    run = str(tmp_path / "run")
    cli("count", run, "-", *MEMORY, input=b"one two")
    again = cli("count", run, "-", *MEMORY, expect=2, input=b"three")
    assert "--stdin-name" in again.stderr
    cli("count", run, "-", "--stdin-name", "second", *MEMORY, input=b"three")
    cli("check", run, "--sources", *MEMORY)  # it looks for no file of that name
    rows = json.loads(cli("sql", run, "SELECT path, documents FROM source_files", "--json").stdout)
    assert rows == [{"path": "-", "documents": 1}, {"path": "second", "documents": 1}]


def test_version():
    """The package's version."""
    from streambpe import __version__

    assert __version__ in cli("--version").stdout


def test_a_smaller_vocabulary_is_a_command_that_can_be_copied(tmp_path):
    """Where MODEL and FILE are swapped, so is the one that is meant."""
    text, run = tmp_path / "a text.txt", tmp_path / "my run"
    text.write_text("the cat and the dog\n" * 20)
    cli("train", run, text, "-s", "262", "--progress", "none")
    swapped = cli("encode", text, run, expect=2).stderr
    assert f"Did you mean `streambpe encode {shlex.quote(str(run))} {shlex.quote(str(text))}`?" in swapped
    smaller = cli("train", run, "-s", "260", expect=2).stderr
    command = re.search("`streambpe (.*?)`", smaller)[1].replace("NAME", shlex.quote(str(tmp_path / "small")))
    cli(*shlex.split(command))
    assert len(Tokenizer(tmp_path / "small.events.jsonl")) == 260


@pytest.mark.long
def test_the_folder_one_stands_in_is_a_place_for_an_export(run, tmp_path):
    """ "." has no name of its own; where a file is wanted it is refused."""
    cli("train", run, "-s", "260", "--progress", "none")
    made = cli("export", run, "--to", "hf", "-o", ".", folder=tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()
    assert str(tmp_path / "tokenizer.json") in made.stderr
    assert "is a folder" in cli("export", run, "--to", "tiktoken", "-o", ".", folder=tmp_path, expect=2).stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Two trainings in one run, by the command line."""
    run = tmp_path_factory.mktemp("trained") / "run"
    source = written(run.with_name("text.txt"), natural_text(21, 60_000))
    first = cli("train", run, source, "--vocab-size", 400, "--pattern", "gpt4")
    assert "400 ids, 144 events. sha256 " in first.stderr
    assert first.stdout == ""
    cli("train", run, "--name", "other", "--vocab-size", 300, "--ties", "bytes", "--like", "kensho")
    return run


@pytest.mark.long
def test_the_end_is_told(trained):
    """No pair left: said, exit 0. Done before: said, exit 0. Refused: exit 2 and how to go on."""
    out = cli("train", trained, "--name", "rare", "--vocab-size", 9000, "--min-frequency", 50)
    assert "no pair that may merge" in out.stderr
    assert "nothing to do" in cli("train", trained, "--vocab-size", 400).stderr
    assert "nothing to do" in cli("resume", trained, "--name", "other").stderr
    refused = cli("train", trained, "--vocab-size", 400, "--ties", "bytes", expect=2)
    assert f"streambpe resume {trained}" in refused.stderr
    blocked = cli(
        "train", trained, "--name", "blocked", "--vocab-size", 300, "--block-token", "an", "--block-token", "in"
    )
    assert "pairs vetoed" in blocked.stderr


def test_check_prints_differences_and_the_way_out(run):
    """Exit 1, a line for each row on stdout; the command it names mends it."""
    change(Path(run), "DELETE FROM chunk_counts WHERE chunk = ' cat'")
    result = cli("check", run, *MEMORY, expect=1)
    assert " cat" in result.stdout
    assert f"streambpe count {run}" in result.stderr
    cli("count", run, *MEMORY)
    cli("check", run, *MEMORY)


def test_data_goes_to_stdout_and_the_rest_to_stderr(tmp_path, run):
    """Counting says what it did, and a warning, on stderr; its stdout is empty, so are those of export and merge."""
    more = written(tmp_path / "b.txt", "more")
    for arguments, told in (
        (["count", run, more, more, *MEMORY, "--progress", "jsonl"], "warning:"),
        (["export-counts", run, "-o", tmp_path / "x.csv"], "x.csv: "),
        (["merge-counts", tmp_path / "merged", run, *MEMORY], "merged: "),
    ):
        result = cli(*arguments)
        assert result.stdout == ""
        assert told in result.stderr


@pytest.mark.long
def test_check_speaks_for_trainings(trained, tmp_path):
    """check: exit 0 when all adds up; exit 1, the rows and the way to mend them when not."""
    assert "everything adds up" in cli("check", trained).stderr
    run = shutil.copytree(trained, tmp_path / "run")
    change(run, "UPDATE other.pair_counts SET n = n + 1 WHERE rowid = (SELECT min(rowid) FROM other.pair_counts)")
    found = cli("check", run, "--replay", expect=1)
    assert found.stdout.startswith("other.pair_counts: ")
    assert "remove its event log and train again" in found.stderr
