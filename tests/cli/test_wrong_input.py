"""Wrong input to every command: one message and a code that says so; no traceback, no defect, nothing for ever."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import ROOT, cli
from tests.tiers import long
from tests.uses import with_wrong_places


@pytest.fixture(scope="module")
def place(desk) -> Path:
    """Beside what `desk` has: what is no file, a folder and a link to itself."""
    (desk / "cut.json").write_text("{")
    shutil.copy(desk / "run/model.events.jsonl", desk / "a.events.jsonl")
    for suffix in ("", ".npy", ".csv", ".json", ".jsonl", ".html", ".parquet"):
        (desk / f"folder{suffix}").mkdir()
        (desk / f"folder{suffix}/inside").write_text("x")
        (desk / f"loop{suffix}").symlink_to(f"loop{suffix}")
    return desk


@pytest.fixture
def refused(place):
    """Gives a command, which must end with one message; what it says."""

    def refuse(*words: str, code: int | None = None) -> str:
        shutil.rmtree(place / "new", ignore_errors=True)
        result = cli(*words, expect=code, folder=place, input="")
        assert result.returncode != 0, (words, result.stderr)
        assert len(result.stderr) < 1500, words
        assert result.stdout == ""
        assert not (place / "new").exists() or result.returncode == 1
        return result.stderr

    return refuse


WRONG = [
    ("nothing", 2, "There is no command nothing"),
    ("trian", 2, "There is no command trian. Is train meant? `streambpe --help` lists them."),
    ("train", 2, "RUN is missing. Nothing was done. `streambpe train --help all` explains the command."),
    ("train new -s", 2, "-s requires an argument. Nothing was done. `streambpe train --help` explains"),
    ("train new --vocab-sise 3", 2, "There is no option --vocab-sise. Is --vocab-size meant?"),
    ("train new --force", 2, "There is no option --force. Nothing was done."),
    ("train new --eot x", 2, "There is no option --eot. Is --special meant?"),
    ("train new a.txt --like tokenizers", 2, "script, batch, picky. Is hf meant? Nothing was done."),
    ("train new a.txt --vocab-size 0", 2, "--vocab-size: 0 is too small: at least 1"),
    ("train new a.txt --ties first", 2, "--ties: first is none of ids, bytes"),
    (f"train run --name {'n' * 300}", 2, "300 letters"),
    ("train new", 1, "is not a RUN"),
    (f"train {'r' * 5000} a.txt", 1, "name too long"),
    ("resume new", 1, "its first command again"),
    ("resume a.txt", 1, "RUN is a folder and comes first"),
    ("count new", 2, "SOURCE"),
    ("count new missing.txt", 1, "missing.txt"),
    ("count new *.nothing", 1, "*.nothing"),
    ("train new a.txt --superwords boundless --pattern boundless --memory 399MB", 3, "400.0 MB is the least that"),
    ("count new a.txt --gaps drop", 2, "--gaps"),
    ("count new a.txt --pattern none --split-scripts", 2, "--split-scripts"),
    ("count new a.txt --pattern none --digits two", 2, "none has none"),
    (r"count new a.txt --pattern \\w+|\\W+ --digits two", 2, "an expression of your own"),
    ("train new a.txt -s 300 --superwords uw --transition 280 --stage2-pattern (?s). --digits two", 2, "of your own"),
    ("count new a.txt --counts --sequences", 2, "--sequences"),
    ("count new a.txt --counts", 1, "a.txt"),
    *((f"count new a.txt --format {format}", 1, "a.txt") for format in ("parquet", "jsonl", "csv")),
    ("count new b.jsonl:", 2, "b.jsonl: has no field after its colon. Nothing was read. Write FILE:FIELD"),
    ("count new a.txt:text", 1, "FILE:FIELD is for jsonl, csv and parquet, but a.txt is none of these."),
    ("count new a.txt --shard 1/2", 2, "there is 1 source, and shares are whole files"),
    ("count /proc/nothing a.txt", 1, "/proc/nothing"),
    *((words, 1, "new") for words in ("status new", "check new", "sql new events", "export-counts new -o x.csv")),
    ("status a.txt", 1, "`streambpe train RUN a.txt` counts it and learns"),
    ("converge run --steps 21", 2, "21 is too large: at most 6"),
    ("sql run", 2, "Give one query in quotes"),
    ("sql run 'DROP TABLE events'", 1, "this one is DROP (DROP TABLE events;). Nothing was run."),
    ("sql run 'FROM events' --name none", 1, "main, small"),
    ("sql run vocabluary", 2, "There is no view or table vocabluary. Is vocabulary meant?"),
    ("sql run zzzz", 2, "--list"),
    ("sql run SELECT", 2, "There is no view or table SELECT"),
    ("sql run \0", 1, ""),
    ("sql 'SELECT 1' run", 2, "Did you mean `streambpe sql run 'SELECT 1'`?"),
    ("explain 'the cat' run:main", 2, "Did you mean `streambpe explain run:main 'the cat'`?"),
    ("explain run a b", 2, "Got unexpected extra argument (b). Nothing was done."),
    ("explain a.txt the", 1, "a.txt is not a model: neither an event log nor a RUN"),
    ("encode run:small a.txt --eot '<endd>' -o e.npy", 2, "it has <end>. Is <end> meant?"),
    ("decode run none.npy", 1, "none.npy cannot be read: No such file or directory."),
    ("import cut.json -o new.events.jsonl", 1, "cut.json is not JSON: line 1, column 2"),
    ("docs trainign", 2, "There is no page trainign. Is training meant?"),
]


@pytest.mark.parametrize(("words", "code", "told"), WRONG, ids=lambda value: str(value)[:99])
def test_wrong_commands_are_told_what_is_wrong(refused, words, code, told):
    """The documented exit code and a message; nothing on stdout, nothing is made."""
    assert told in refused(*shlex.split(words), code=code)


NO_FILES = {"folder": "folder", "loop": "loop", "long": "n" * 300, "below": "a.txt/below"}
MORE = [
    "count new a.txt --config FILE", "train new a.txt --config FILE", "train new a.txt --extend FILE",
    "train new a.txt --as FILE", "train new a.txt --balance --balance-text a=FILE", "diff run FILE",
    "export run --to hf -o x.json --verify FILE",
]  # fmt: skip
FINE = {"train HERE", "check HERE"}  # a folder


@pytest.mark.parametrize("kind", ["folder", "loop", long("long"), long("below")])
def test_what_is_no_file(refused, kind):
    """In each place of each command."""
    places = {"RUN": "run", "TEXT": "a.txt", "TOKENIZER": "tokenizer.json", "IDS": "ids.npy", "OUT": "new", "HERE": "."}
    commands = with_wrong_places(NO_FILES[kind], **places)
    assert len(commands) > 35
    for name, words in (commands | {use: use.replace("FILE", NO_FILES[kind]).split() for use in MORE}).items():
        if kind != "folder" or name not in FINE:
            refused(*words)


TAKE_NUMBERS = {
    "train run --name other": [
        "-s", "--freq-cutoff", "--min-frequency", "--max-token-length", "--reserve", "--stop-list", "--max-batch",
        "--cap-divisor", "--transition", "--document-seconds",
    ],
    "extend-report run": ["--top"],
    "prune run -o x.events.jsonl": ["--to"],
    "count new a.txt": ["--document-seconds", "--sample"],
}  # fmt: skip


@pytest.mark.parametrize("command", TAKE_NUMBERS)
def test_a_number_beyond_what_anything_holds(place, command):
    """-s of 20 digits learned for ever, --freq-cutoff was "a bug in streambpe"."""
    for option in TAKE_NUMBERS[command]:
        result = cli(*command.split(), option, "9" * 20, expect=2, folder=place)
        assert option in result.stderr
        result = cli(*command.split(), option, 2**63 - 1, expect=None, folder=place)
        assert result.returncode in (0, 1, 2), (option, result.stderr)


LONG = "x " * 50_000


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("e.events.jsonl", '"op":"LONG"'),
        ("e.events.jsonl", '"op":"merge","LONG":0'),
        ("ranks.tiktoken", "LONG"),
        ("t.json", '"LONG"'),
    ],
)
def test_a_file_that_holds_something_very_long(refused, place, name, changed):
    """An event log with a word of 24 MB was refused in a message of 24 MB."""
    log = (place / "a.events.jsonl").read_text()
    vocabulary = {character: i for i, character in enumerate("abc")} | {"MERGED": 3}
    files = {
        "e.events.jsonl": log.replace('"op":"merge"', changed, 1),
        "ranks.tiktoken": f"YQ== 0\n{changed} 1\n",
        "t.json": json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": [["MERGED", "a"]]}}),
    }
    (place / name).write_text(files[name].replace("MERGED", changed.strip('"')).replace("LONG", LONG))
    refused(*(["explain", name, "a"] if "events" in name else ["import", name, "--force", "-o", "x.events.jsonl"]))


@pytest.mark.parametrize("pattern", ["(" + LONG, "(?P<n" + "x" * 100_000 + ">a)(?P=m)", LONG + "y"])
def test_a_pattern_that_is_very_long(place, pattern):
    """The messages held the pattern whole; so do they hold the words of a pattern that is none."""
    for command in (["count", "new", "a.txt", "--pattern", pattern], ["train", pattern, "a.txt"], [pattern]):
        result = cli(*command, expect=None, input="")
        assert result.returncode in (1, 2)
        assert len(result.stderr) < 2600


@pytest.mark.skipif(os.name == "nt", reason="a shell closes them")
@pytest.mark.parametrize("closed", ["2>&-", long(">&-"), long("<&-"), "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed(place, tmp_path, closed):
    """As some daemons start programs: it ended with 70, and a file that was opened got the number of stderr."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "streambpe", "count", str(run), str(place / "a.txt"), "--memory", "300MB"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *command], cwd=ROOT, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert not list(run.glob("traceback-*"))
