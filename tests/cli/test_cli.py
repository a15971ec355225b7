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
from tests.samples import written

MEMORY = ["--memory", "300MB"]


@pytest.fixture
def run(desk, tmp_path) -> Path:
    """A run with two trainings."""
    return Path(shutil.copytree(desk / "run", tmp_path / "run"))


@pytest.mark.long
def test_sql_prints_json_and_csv(tmp_path):
    """The same rows in both; each is read back by its own parser."""
    run = tmp_path / "run"
    cli("count", run, written(tmp_path / "a.txt", 'the cat, "the" dog\n'), *MEMORY)
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
    assert "262 ids, 6 events. sha256 " in cli("train", run, text, "-s", "262", "--progress", "none").stderr
    swapped = cli("encode", text, run, expect=2).stderr
    assert f"Did you mean `streambpe encode {shlex.quote(str(run))} {shlex.quote(str(text))}`?" in swapped
    smaller = cli("train", run, "-s", "260", expect=2).stderr
    command = re.search("`streambpe (.*?)`", smaller)[1].replace("NAME", shlex.quote(str(tmp_path / "small")))
    cli(*shlex.split(command))
    assert len(Tokenizer(tmp_path / "small.events.jsonl")) == 260


@pytest.mark.long
def test_the_folder_one_stands_in_is_a_place_for_an_export(run, tmp_path):
    """ "." has no name of its own; where a file is wanted it is refused."""
    made = cli("export", run, "--to", "hf", "-o", ".", folder=tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()
    assert str(tmp_path / "tokenizer.json") in made.stderr
    assert "is a folder" in cli("export", run, "--to", "tiktoken", "-o", ".", folder=tmp_path, expect=2).stderr


@pytest.mark.long
def test_the_end_is_told(run):
    """No pair left: said, exit 0. Done before: said, exit 0. Refused: exit 2 and how to go on."""
    rare = cli("train", run, "--name", "rare", "--vocab-size", 9000, "--min-frequency", 50)
    assert "no pair that may merge" in rare.stderr
    assert "nothing to do" in cli("train", run, "--vocab-size", 265).stderr
    assert "nothing to do" in cli("resume", run, "--name", "small").stderr
    refused = cli("train", run, "--vocab-size", 265, "--ties", "bytes", expect=2)
    assert f"streambpe resume {run}" in refused.stderr
    blocked = cli("train", run, "--name", "blocked", "--vocab-size", 265, "--block-token", "the")
    assert "1 pair vetoed" in blocked.stderr


def test_check_prints_differences_and_the_way_out(run):
    """Exit 1, a line for each row on stdout; the command it names mends it."""
    change(run, "DELETE FROM chunk_counts WHERE chunk = ' cat'")
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
