"""The command line as people use it: help in groups, numbers and names as they write them, one JSON object."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import click
import pytest
import regex
from rich.cells import cell_len

from streambpe import Tokenizer
from streambpe.cli.help import GROUPS, PanelCommand
from streambpe.errors import LimitError, NotExact, PatternError, StreambpeError, UsageError
from streambpe.options import parse_amount
from streambpe.text.aliases import ALIASES
from streambpe.text.patterns import PRESETS, find_pattern
from tests.encode.test_patterns_elsewhere import ALL_TEXTS, REAL
from tests.oracles.splits import split_text
from tests.runs import EVERY_COMMAND, ROOT, cli, on_a_terminal
from tests.samples import natural_text
from tests.uses import words_of

CLI = (ROOT / "docs/cli.md").read_text(encoding="utf-8")


def widest(text: str) -> int:
    """How many columns the longest line takes."""
    return max(map(cell_len, text.splitlines()))


def test_the_help_of_every_command_explains_it_all():
    """What it does in a sentence, a command that can be copied, every option; no line is wider than a terminal."""
    for name, command in EVERY_COMMAND.items():
        shown = cli(name, "--help", "all" if isinstance(command, PanelCommand) else "--help", terminal_width=80).stdout
        assert command.get_short_help_str(1000).endswith(".")
        assert f"streambpe {name} " in shown.split("example:")[1]
        assert widest(shown) <= 80
        assert widest(cli(name, "--help", terminal_width=80).stdout) <= 80
        assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_every_command_stands_in_one_group():
    """In --help, which fits a terminal of 80 x 24 with the next prompt, and in the docs."""
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(EVERY_COMMAND)
    shown = cli("--help", terminal_width=80).stdout
    assert shown.count("\n") < 24
    assert widest(shown) <= 80
    narrow = cli("--help", terminal_width=50).stdout.splitlines()
    for title, names in GROUPS.items():
        at = narrow.index(title) + 1
        assert [line.split()[0] for line in narrow[at : at + len(names)]] == list(names)
        for name, (_, words) in names.items():
            assert f"  {name:15}{words}" in shown
        assert f"| {title} | {', '.join(f'`{name}`' for name in names)} |" in CLI


def test_numbers_as_people_write_them(tmp_path):
    """k is a thousand, Ki 1024; what is no number is refused with the name of its option, and how it is written."""
    assert list(map(parse_amount, ["32000", "32_000", "32k", "32K", "32Ki"])) == [32000] * 4 + [32768]
    assert parse_amount("1.5m") == 1_500_000
    for text in ("", "k", "1.5", "1e3", "0.0001k", "32kk", "٣"):
        told = cli("train", tmp_path / "run", "-s", text, expect=2).stderr
        assert "--vocab-size" in told
        assert "32k" in told


@pytest.mark.long
def test_other_names_of_presets(tmp_path):
    """A run keeps the preset's own name, so both names count into one run; a near miss is told what is meant."""
    (tmp_path / "a.txt").write_text("the cat")
    (tmp_path / "b.txt").write_text("the dog")
    told = cli("count", tmp_path / "run", tmp_path / "a.txt", "--pattern", "o200k_base").stderr
    assert told.startswith("--pattern o200k_base is gpt4o.\n")
    cli("count", tmp_path / "run", tmp_path / "b.txt", "--pattern", "gpt4o")
    (row,) = json.loads(cli("sql", tmp_path / "run", "FROM run WHERE key = 'config'", "--json").stdout)
    assert json.loads(row["value"])["pattern"] == "gpt4o"
    patterns = (ROOT / "docs/counting.md").read_text(encoding="utf-8")
    for name, preset in ALIASES.items():
        assert find_pattern(name) is PRESETS[preset]
        assert re.search(rf"^\|[^|]*`{preset}`[^|]*\|[^|]*`{name}`", patterns, re.M)
    with pytest.raises(PatternError, match="Is o200k_base meant"):
        find_pattern("o200k_bse")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gpt4", "--pattern gpt4 is the pattern of minbpe and rustbpe, and cl100k that of tiktoken for GPT-4: they "),
        ("gpt-4", "--pattern gpt-4 is cl100k. gpt4 is the pattern of minbpe and rustbpe, and cl100k that of tiktoken "),
        ("llama3", "--pattern llama3 is gpt4, which finds the same chunks.\n"),
        ("gpt2", ""),
    ],
)
def test_names_that_could_mean_two_patterns(name, told, desk, tmp_path):
    """Which one is meant is said before anything is counted."""
    first = cli("count", tmp_path / "run", desk / "a.txt", "--pattern", name).stderr
    assert first.startswith(told or f"{tmp_path}/run: ")


def test_llama3_splits_as_gpt4():
    """The expression that Llama 3 publishes finds the chunks of the preset that stands for it."""
    expression = regex.compile(REAL["Llama 3"])
    for text in [*ALL_TEXTS, natural_text(3, 20_000), "".join(ALL_TEXTS)]:
        assert expression.findall(text) == split_text(PRESETS["gpt4"], text)


@pytest.mark.long
def test_run_and_name_in_one_word(desk):
    """RUN:NAME is --name; where a command is about the whole RUN it says what is meant."""
    run = desk / "run"
    query = "SELECT count(*) AS n FROM vocabulary"
    assert cli("sql", f"{run}:small", query, "--csv").stdout == "n\n260\n"
    assert Tokenizer(f"{run}:main").get_vocab() == Tokenizer(run).get_vocab()
    assert cli("sql", run, query, "--csv").stdout == "n\n265\n"
    assert cli("sql", f"{run}:small", query, "--name", "small", "--csv").stdout == "n\n260\n"
    assert "two trainings" in cli("sql", f"{run}:small", query, "--name", "main", expect=2).stderr
    assert "already learned" in cli("resume", f"{run}:small").stderr
    assert f"of {run}:small" in cli("report", f"{run}:small", "-o", desk / "page.html").stderr
    for command in ("check", "status"):
        told = cli(command, f"{run}:small", expect=2).stderr
        assert f"`streambpe {command} {run}`?" in told


def test_json_is_one_object_on_stdout(desk, tmp_path):
    """For every command that otherwise tells in sentences what it did."""
    told_of = {
        "train RUN -s 265": {"size": 265, "skipped": True},
        "resume RUN": {"size": 265},
        "count": {"sources_skipped": 0, "documents": 1},
        "check RUN": {"differences": [], "open": []},
        "report": {"model": str(desk / "run")},
        "export-events": {"to": "events"},
        "import": {"ids": 265},
        "encode-npy": {"documents": 1, "dtype": "uint16"},
        "export-counts-csv": {"chunks": 10},
        "merge-counts": {"documents": 1},
        "prune": {"ids": 262, "ids_before": 265},
    }
    places = {"RUN": desk / "run", "TEXT": desk / "a.txt", "TOKENIZER": desk / "tokenizer.json"}
    for use, expected in told_of.items():
        done = cli(*words_of(use, **places, OUT=tmp_path / use), "--json")
        told = json.loads(done.stdout)
        assert done.stdout.count("\n") == 1
        assert {key: told[key] for key in expected} == expected, use
    printing = {"plan", "converge", "status", "sql", "explain", "evaluate", "sizes", "diff", "extend-report"}
    reporting = {words_of(use)[0] for use in told_of} | printing
    has_it = {name for name, command in EVERY_COMMAND.items() if any("--json" in p.opts for p in command.params)}
    assert has_it == reporting


def test_the_table_of_exit_codes():
    """Every code of the library's errors is in docs/cli.md."""
    codes = re.findall(r"^\| ([\d, ]+) \|", CLI, re.M)
    assert codes == ["0", "1", "2", "3", "4", "70", "130, 143"]
    assert [kind.exit_code for kind in (StreambpeError, UsageError, LimitError, NotExact)] == [1, 2, 3, 4]


def test_the_table_of_environment_variables():
    """Every variable of ours that the package looks at is in docs/cli.md."""
    used = set()
    for file in (ROOT / "streambpe").rglob("*.py"):
        used.update(re.findall(r"STREAMBPE_[A-Z_]+", file.read_text(encoding="utf-8")))
    assert used == set(re.findall(r"^\| `(STREAMBPE_[A-Z_]+)`", CLI, re.M))


@pytest.mark.long
@pytest.mark.parametrize(("shell", "typed"), [("zsh", "1"), ("fish", "tr")])  # click asks bash for its version
def test_completion_as_documented(shell, typed):
    """The line for each shell prints a script, and Tab finds a command."""
    assert f"_STREAMBPE_COMPLETE={shell}_source streambpe" in CLI
    code = "from streambpe.cli.main import main; main(prog_name='streambpe')"
    for what, told in (("source", "streambpe"), ("complete", "train")):
        variables = {"_STREAMBPE_COMPLETE": f"{shell}_{what}", "COMP_WORDS": "streambpe tr", "COMP_CWORD": typed}
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True)
        assert told in done.stdout


@pytest.mark.long
def test_pages_of_the_docs_are_shown():
    """All of them are listed; those that help and messages name are there."""
    listed = cli("docs").stdout
    names = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {line.split()[0] for line in listed.splitlines()} == names
    assert cli("docs", "jobs").stdout == (ROOT / "docs/jobs.md").read_text(encoding="utf-8")
    named = set()
    for file in (ROOT / "streambpe").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        named.update(re.findall(r"streambpe docs ([a-z-]+)", text))
        told = re.findall(r"^[^#]*[\"'(]docs/[a-z-]+\.md", text, re.M)
        assert not told, (file, told)
    assert named <= names


LOOKS = [
    "status run", "watch run", "explain run 'the dog and the cat of the day went away again'", "check run",
    "evaluate run run:small --text a.txt --text b.jsonl --by source", "diff run run:small", "sql run --list",
    "sql run 'FROM events'", "docs", "docs jobs", "plan a.txt --rehearse 1MB", "train new --like rustbp", "--help",
    "extend-report run", "sql run 'SELECT no_such_column FROM vocabulary'", "converge run", "train run -s 265",
    "export run --to gguf -o wide.gguf", "sql run \"SELECT repeat('x', 300)\"",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals there")
@pytest.mark.parametrize("line", LOOKS)
def test_no_line_is_wider_than_a_terminal_of_80_columns(line, desk):
    """Of what commands print, on stdout and on stderr."""
    (desk / "b.jsonl").write_text('{"text": "the cat"}\n')
    code = "from streambpe.cli.main import main; main(prog_name='streambpe')"
    _, shown = on_a_terminal(code, *shlex.split(line), folder=desk)
    assert shown.strip()
    assert "Traceback" not in shown
    assert widest(shown.replace("\r\n", "\n").replace("\r", "\n")) <= 80
