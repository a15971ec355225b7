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
from tests.runs import EVERY_COMMAND, change, cli
from tests.samples import written

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


@pytest.mark.parametrize("name", sorted(EVERY_COMMAND))
def test_every_subcommand_has_help_with_an_example(name):
    """What it does in a sentence, and a command that can be copied."""
    result = cli(name, "--help")
    assert f"streambpe {name} " in result.stdout.split("example:")[1]
    assert cli("--help").stdout.count(f"  {name} ") >= 1


def test_every_option_is_explained():
    """No option without a word of help."""
    for command in EVERY_COMMAND.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{command.name} {parameter.opts}"


WRONG = [
    (2, []),
    (2, ["nothing"]),
    (2, ["count"]),
    (2, ["count", "RUN"]),
    (1, ["count", "RUN", "missing.txt"]),
    (1, ["count", "RUN", "*.nothing"]),
    (1, ["count", "RUN", "EMPTY"]),
    (1, ["count", "FILE", "FILE"]),
    (2, ["count", "RUN", "FILE", "--pattern", "gpt5"]),
    (2, ["count", "RUN", "FILE", "--pattern", "("]),
    (2, ["count", "RUN", "FILE", "--pattern", r"\w+"]),
    (2, ["count", "RUN", "FILE", "--gaps", "drop"]),
    (2, ["count", "RUN", "FILE", "--bad-utf8", "maybe"]),
    (2, ["count", "RUN", "FILE", "--format", "xml"]),
    (2, ["count", "RUN", "FILE", "--pattern", "none", "--split-scripts"]),
    (2, ["count", "RUN", "FILE", "--counts", "--sequences"]),
    (1, ["count", "RUN", "FILE", "--format", "parquet"]),
    (1, ["count", "RUN", "FILE", "--format", "jsonl"]),
    (1, ["count", "RUN", "FILE", "--format", "csv"]),
    (1, ["count", "RUN", "FILE", "--counts"]),
    (1, ["status", "RUN"]),
    (1, ["sql", "RUN", "SELECT 1"]),
    (2, ["sql", "RUN"]),
    (1, ["check", "RUN"]),
    (1, ["check", "EMPTY"]),
    (2, ["export-counts", "RUN"]),
    (1, ["export-counts", "RUN", "-o", "x.csv"]),
    (2, ["merge-counts", "RUN"]),
    (1, ["merge-counts", "RUN", "EMPTY"]),
    (1, ["count", "/proc/nothing", "FILE"]),
]


@pytest.mark.parametrize(
    ("code", "arguments"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_invocations_give_one_message(tmp_path, monkeypatch, code, arguments):
    """The documented exit code, a message on stderr, nothing on stdout, and never a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "FILE").write_text("some words here\n")
    result = cli(*arguments, expect=code, folder=Path())
    if arguments:
        assert result.stdout == ""
        assert result.stderr.strip()


@pytest.mark.long
def test_sql_prints_tables_json_and_csv(run):
    """The same rows three ways; JSON and CSV are read back by their own parsers."""
    query = "SELECT chunk, n, n = 1 AS rare, NULL AS nothing FROM chunk_counts ORDER BY chunk"
    rows = json.loads(cli("sql", run, query, "--json").stdout)
    assert {row["chunk"]: row["n"] for row in rows} == {
        '"': 1, " \"": 1, ",": 1, " cat": 1, " dog": 1, "\n": 1, "the": 2,
    }  # fmt: skip
    assert rows[0] == {"chunk": "\n", "n": 1, "rare": True, "nothing": None}
    table = list(csv.DictReader(io.StringIO(cli("sql", run, query, "--csv").stdout, newline="")))
    assert [(row["chunk"], int(row["n"])) for row in table] == [(row["chunk"], row["n"]) for row in rows]
    shown = cli("sql", run, query).stdout
    assert "cat" in shown
    assert "chunk" in shown
    assert json.loads(cli("sql", run, "SELECT 1 WHERE false", "--json").stdout) == []
    kinds = "SELECT 'x'::BLOB AS b, DATE '2024-01-02' AS d, [1, 2] AS l, 1.5::DECIMAL(4,2) AS m, 'nan'::DOUBLE AS f"
    (row,) = json.loads(cli("sql", run, kinds, "--json").stdout, parse_constant=lambda name: pytest.fail(name))
    assert (row["b"], row["d"], row["l"]) == ("78", "2024-01-02", [1, 2])


def test_data_goes_to_stdout_and_the_rest_to_stderr(tmp_path, run):
    """Counting says what it did on stderr; its stdout is empty, so are those of export, merge and check."""
    (tmp_path / "b.txt").write_text("more")
    for arguments in (
        ["count", run, str(tmp_path / "b.txt"), *MEMORY, "--progress", "jsonl"],
        ["export-counts", run, "-o", str(tmp_path / "x.csv")],
        ["merge-counts", str(tmp_path / "merged"), run, *MEMORY],
        ["check", run, "--sources", *MEMORY],
    ):
        result = cli(*arguments)
        assert result.stdout == ""
        assert result.stderr.strip()


def test_check_prints_differences_and_the_way_out(run):
    """Exit 1, a line for each row on stdout; the command it names mends it."""

    change(Path(run), "DELETE FROM chunk_counts WHERE chunk = ' cat'")
    result = cli("check", run, *MEMORY, expect=1)
    assert " cat" in result.stdout
    assert f"streambpe count {run}" in result.stderr
    cli("count", run, *MEMORY)
    cli("check", run, *MEMORY)


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


def test_warnings_are_shown(tmp_path):
    """A source named twice is counted once, and told."""
    (tmp_path / "a.txt").write_text("one")
    result = cli("count", tmp_path / "run", tmp_path / "a.txt", tmp_path / "a.txt", *MEMORY)
    assert "warning:" in result.stderr


def test_version():
    """The package's version."""
    from streambpe import __version__

    assert __version__ in cli("--version").stdout


def test_a_view_that_is_misspelt_is_told_with_the_one_that_is_meant(tmp_path):
    """One word that is no view or table is not called an error of syntax."""
    told = cli("sql", tmp_path, "vocabluary", expect=2).stderr
    assert "There is no view or table vocabluary. Did you mean `streambpe sql RUN vocabulary`?" in told
    assert "--list" in cli("sql", tmp_path, "zzzz", expect=2).stderr


@pytest.mark.parametrize("command", [["watch"], ["watch", "--once"], ["status"]])
def test_a_file_is_no_run_to_be_waited_for(tmp_path, command):
    """A source in the place of RUN is named, and so is what was meant."""
    path = written(tmp_path / "a.txt", "the cat")
    assert f"`streambpe train RUN {path}` counts it and learns" in cli(*command, path, expect=1).stderr


def test_a_file_that_is_no_model(tmp_path):
    """Not called a damaged log; where MODEL and FILE are swapped, the command that is meant can be copied."""
    text, run = tmp_path / "a text.txt", tmp_path / "my run"
    text.write_text("the cat and the dog\n" * 20)
    cli("train", run, text, "-s", "262", "--progress", "none")
    for command in (["decode", text], ["explain", text, "the"], ["encode", text]):
        assert f"{text} is not a model: neither an event log nor a RUN" in cli(*command, expect=1).stderr
    swapped = cli("encode", text, run, expect=2).stderr
    assert f"Did you mean `streambpe encode {shlex.quote(str(run))} {shlex.quote(str(text))}`?" in swapped
    assert "RUN is a folder and comes first" in cli("resume", text, expect=1).stderr
    smaller = cli("train", run, "-s", "260", expect=2).stderr
    command = re.search("`streambpe (.*?)`", smaller)[1].replace("NAME", shlex.quote(str(tmp_path / "small")))
    cli(*shlex.split(command))
    assert len(Tokenizer(tmp_path / "small.events.jsonl")) == 260


@pytest.mark.long
def test_the_folder_one_stands_in_is_a_place_for_an_export(run, tmp_path):
    """ "." has no name of its own; where a file is wanted it is refused."""
    cli("train", run, "-s", "260", "--progress", "none")
    made = cli("export", run, "--to", "gpt2", "-o", ".", folder=tmp_path)
    assert (tmp_path / "vocab.json").is_file()
    assert str(tmp_path / "vocab.json") in made.stderr
    assert "is a folder" in cli("export", run, "--to", "tiktoken", "-o", ".", folder=tmp_path, expect=2).stderr
