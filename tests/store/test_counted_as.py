"""Options given where they cannot be honoured: equal to what a RUN was counted with, or refused; never ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from streambpe.errors import RunMismatch, UsageError
from streambpe.inspect.converge import converge
from streambpe.train.commands import train, train_from_iterator
from streambpe.train.counting.count import count, count_from_iterator
from tests.runs import SMALL, cli, counted_run, log_of
from tests.samples import natural_text


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A RUN of each kind of source, counted with other options than the defaults."""
    folder = tmp_path_factory.mktemp("runs")
    text = natural_text(3, 3000)
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text(text)
    (folder / "a.jsonl").write_text('{"body": "some words, and some more words"}\n')
    options = {"pattern": "gpt4", "normalize": "nfc"}
    count(folder / "whole", [str(folder / "in")], resources=SMALL)
    count(folder / "lines", [str(folder / "in")], lines=True, **options, resources=SMALL)
    count(folder / "fields", [str(folder / "a.jsonl")], text_column="body", group_by="folder", resources=SMALL)
    counted_run(folder / "tables", {"abab": 3, "bab": 2})
    return {name: folder / name for name in ("whole", "lines", "fields", "tables")} | {"in": folder / "in"}


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory) -> Path:
    """A tokenizer.json of a model that `whole` has from then on."""
    if not (runs["whole"] / "model.events.jsonl").exists():
        train(runs["whole"], vocab_size=260, resources=SMALL)
    path = tmp_path_factory.mktemp("exported") / "tokenizer.json"
    cli("export", runs["whole"], "--to", "hf", "-o", path)
    return path


OTHER = {
    "whole": "--pattern gpt2, --normalize nfc, --gaps keep, --split-scripts, --sequences, --bad-utf8 skip, "
    "--unencodable drop, --lines, --text-column text, --format lines, --counts, --stdin-name web, --group in=in, "
    "--group-by folder",
    "lines": "--pattern gpt4o, --normalize none, --format txt",
    "fields": "--text-column text, --lines, --format csv, --group x=a.jsonl",
    "tables": "--format parquet, --lines",
}
SAME = {
    "whole": "--pattern gpt4o --gaps refuse --no-split-scripts --no-sequences --format txt",
    "lines": "--pattern gpt4 --normalize nfc --lines --bad-utf8 replace, --format lines, --format txt --lines",
    "fields": "--text-column body --format jsonl --group-by folder",
    "tables": "--counts --format auto",
}


def cases(listed: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Each command of a table, with the RUN it is given."""
    return [(run, options.split()) for run, commands in listed.items() for options in commands.split(", ")]


@pytest.mark.every(8)
@pytest.mark.parametrize(("run", "options"), cases(OTHER), ids=str)
@pytest.mark.parametrize("command", ["train", "count"])
def test_a_counted_run_with_another_option_of_counting(runs, command, run, options):
    """Without SOURCE: refused by name, and nothing is learned or changed."""
    learn = ["--name", "x", "--vocab-size", "260"] if command == "train" else []
    before = sorted(path.name for path in runs[run].iterdir())
    done = cli(command, runs[run], *learn, *options, expect=2)
    assert options[0].replace("--no-", "--") in done.stderr
    assert "Nothing was changed" in done.stderr or "nothing was changed" in done.stderr
    assert sorted(path.name for path in runs[run].iterdir()) == before


@pytest.mark.long
@pytest.mark.parametrize(("run", "options"), cases(SAME), ids=str)
def test_a_counted_run_with_its_own_options(runs, tmp_path, run, options):
    """Equal to what it was counted with: taken."""
    cli("train", runs[run], "--vocab-size", 258, *options)
    cli("count", runs[run], *options)


def test_like_says_how_to_count_too(runs):
    """A name that sets options of counting is refused on a RUN counted otherwise, unless these are given too."""
    for like in ("script", "picky"):
        with pytest.raises(RunMismatch, match="or confirm it with --"):
            train(runs["whole"], like=like, name="x", vocab_size=2200, resources=SMALL)
        with pytest.raises(RunMismatch, match="or give its other options"):
            converge(runs["whole"], vocab_size=2200, like=like, resources=SMALL)
    own = {"options": {"normalize": "none", "unencodable": "bytes"}}
    train(runs["whole"], like="script", counting=own, name="script", vocab_size=2200, resources=SMALL)
    assert log_of(runs["whole"], "script").header.config["normalize"] == "none"


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("count NEW IN --stdin-name web", "--stdin-name"),
        ("count NEW IN --counts --lines", "--counts"),
        ("count NEW IN --lines --format csv", "--lines"),
        ("count NEW IN --text-column body", "a.txt is read as plain text"),
        ("count NEW FIELDS:body --text-column text", "as FILE:FIELD"),
        ("train NEW IN -s 300 --max-batch 9", "--batch paper"),
        ("train NEW IN -s 300 --token-order first-birth", "belongs to --tau"),
        ("train NEW IN -s 300 --specials-first", "belongs to --special"),
        ("plan IN --text-column body", "--text-column body"),
        ("plan IN --group-by folder", "--group-by"),
        ("converge whole --steps 7", "--steps"),
        ("converge whole -s 400 --superwords boundless", "learned from documents"),
        ("report whole --text-column text", "--text-column"),
        ("encode whole IN/a.txt --threads 1", "--threads"),
        ("encode whole IN/a.txt --text-column body", "--text-column body"),
        ("evaluate whole --text IN --pattern gpt2", "--pattern"),
        ("evaluate whole --text IN --text-column body", "--text-column body"),
        ("evaluate whole --text IN --csv --json", "--json and --csv"),
        ("diff whole whole --csv --json", "--csv and --json"),
        ("sql whole chunk_frequencies --csv --jsonl", "--jsonl and --csv"),
        ("sql whole chunk_frequencies --list", "--list"),
        ("import LOG.json -o NEW.jsonl --special <s>", "--special"),
    ],
)
def test_options_that_have_nothing_to_act_on(runs, exported, tmp_path, arguments: str, message):
    """Refused by name, exit 2, and nothing is written."""
    fields = runs["in"].parent / "a.jsonl"
    places = {"NEW": tmp_path / "NEW", "NEW.jsonl": tmp_path / "NEW.jsonl", "LOG.json": exported}
    places |= {"FIELDS": fields, "FIELDS:body": f"{fields}:body", "IN": runs["in"], "IN/a.txt": runs["in"] / "a.txt"}
    done = cli(*(places.get(word, runs.get(word, word)) for word in arguments.split()), expect=2)
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("exported")
def test_options_that_some_sources_need_are_taken(runs, tmp_path):
    """A field beside plain text, lines beside jsonl, also where the text of the one comes alone."""
    for name in ("a.txt", "b.jsonl"):
        (tmp_path / name).write_text('{"body": "some words"}\n')
    train(tmp_path / "run", [str(tmp_path)], vocab_size=260, text_column="body", lines=True, resources=SMALL)
    texts = ("--text", tmp_path / "a.txt", "--text", tmp_path / "b.jsonl")
    done = cli("evaluate", runs["whole"], *texts, "--text-column", "body", "--lines", "--by", "source", "--csv")
    assert len(done.stdout.splitlines()) == 4


def test_texts_from_python_are_no_files(tmp_path):
    """What is about files is refused there too."""
    for option in ({"lines": True}, {"text_column": "body"}, {"format": "jsonl"}, {"counts": True}, {"shard": "1/2"}):
        with pytest.raises(UsageError, match="the texts come from none"):
            train_from_iterator(tmp_path / "run", ["some words"], vocab_size=260, resources=SMALL, **option)
    with pytest.raises(UsageError, match="the texts come from none"):
        count_from_iterator(tmp_path / "run", ["some words"], resources=SMALL, lines=True)
    assert not (tmp_path / "run").exists()
