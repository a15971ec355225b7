"""Names of files, folders, groups and options that a terminal, a page or SQL would obey are spelled out everywhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streambpe.cli.main import main
from streambpe.config import TrainConfig
from streambpe.inspect.asked import spill_folder
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.text.shown import harmless, shown
from tests.hostile import hostile_text
from tests.runs import SMALL, cli, trainer
from tests.tiers import examples
from tests.uses import GOES_ON, LOOKS, MAKES_FILES, MAKES_MORE, with_wrong_places, words_of

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
EVIL = "\x1b[31m\u202e<img src=x>'\";\x9b2J\x07[red] --"
MEMORY = ("--memory", "400MB", "--threads", "1")


@examples(300)
@given(hostile_text | st.text(st.characters(codec="utf-8")))
def test_no_sentence_is_obeyed(text):
    """Whatever stands in it; what is harmless stays as it is, and no two sentences become one."""
    told = harmless(text)
    assert not OBEYED.search(told)
    assert not OBEYED.search(shown(text.encode()))
    assert OBEYED.search(text) or told == text


def commands(run: str) -> list[list[str]]:
    """A hostile RUN, source, output, name, option and query; most of them fail."""
    text, places = f"{EVIL}.txt", {"RUN": run, "TEXT": "a.txt", "TOKENIZER": "tokenizer.json", "HERE": "."}
    return [
        ["train", run, text, "-s", "300", "--lines", "--group", f"a={text}", *MEMORY],
        ["sql", run, "FROM sources"], ["sql", run, "FROM group_counts"], ["sql", run, f"SELEC {EVIL}"],
        ["sql", run, f"SELECT '{EVIL.replace(chr(39), '')}' AS \"\x1b[1m\u202e\""],
        ["sql", run, 'FROM "\x1b[31m\u202e"'], ["sql", run, "FROM run", "--name", EVIL],
        ["explain", run, EVIL], ["explain", run, f"id:{EVIL}"], ["export", run, "--to", EVIL, "-o", "x"],
        ["import", text, "-o", "x.events.jsonl"], ["plan", text, "--vocab-size", "400", *MEMORY],
        ["count", "r", f"{EVIL}.jsonl", *MEMORY], ["count", "r", text, "--pattern", f"({EVIL}"],
        ["count", "r", text, "--group", f"{EVIL}=gone", *MEMORY], ["count", "r", text, f"--no{EVIL}"], [EVIL],
        ["train", run, "-s", EVIL], ["train", run, "-s", "300", "--name", EVIL], ["train", run, "--like", EVIL],
        ["resume", run, "--name", EVIL],
        *(words for wrong in (f"gone{EVIL}", text) for words in with_wrong_places(wrong, **places, OUT="o").values()),
    ]  # fmt: skip


def is_not_obeyed(*command: str) -> int:
    """That nothing of a command's stdout and stderr is, as a terminal would get them; its exit code."""
    result = CliRunner().invoke(main, command, color=True, env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
    assert result.exit_code != 70, result.stderr
    assert not OBEYED.search(result.stdout + result.stderr), (command, result)
    return result.exit_code


@pytest.mark.long
def test_no_command_shows_a_name_that_is_obeyed(desk, monkeypatch):
    """In RUN's tables it is the name itself."""
    monkeypatch.chdir(desk)
    (desk / f"{EVIL}.txt").write_text("the cat and the dog\n" * 200, encoding="utf-8")
    (desk / f"{EVIL}.jsonl").write_text('{"text": "\x1b[31m', encoding="utf-8")
    run = f"run{EVIL}"
    codes = [is_not_obeyed(*command) for command in commands(run)]
    assert codes.count(0) > 5
    assert len(codes) - codes.count(0) > 15
    paths = CliRunner().invoke(main, ["sql", run, "SELECT path FROM sources", "--json"])
    assert "<img src=x>" in paths.stdout


def typed_in(folder: str) -> list[list[str]]:
    """Every command, where everything that it reads or writes lies in a folder."""
    run, tokenizer, text, half = (f"{folder}/{name}" for name in ("run", "tokenizer.json", "text.txt", "half.txt"))
    train = ["train", run, "-s", "290", *MEMORY]
    places = {"RUN": run, "TEXT": text, "TOKENIZER": tokenizer, "IDS": f"{folder}/encode-bin.bin", "HERE": folder}
    looks = [use for use in LOOKS if use != "extend-report"]
    return [
        ["count", run, text, half, "--lines", "--sequences", *MEMORY, "--temp-dir", folder],
        ["train", run, "-s", "268", *MEMORY], [*train, "--name", "b", "--superwords", "boundless"],
        [*train, "--name", "s", "--superwords", "superbpe"],
        [*train, "--name", "uw", "--superwords", "uw", "--temp-dir", folder],
        ["export", run, "--to", "hf", "-o", tokenizer, "--verify", text],
        *(words_of(use, **places, OUT=f"{folder}/{use}") for use in (MAKES_FILES | MAKES_MORE)),
        *(words_of(use, **places, OUT=run) for use in GOES_ON), *(words_of(use, **places) for use in looks),
        *(["decode", run, f"{folder}/encode-{kind}.{kind}"] for kind in ("npy", "parquet")),
        ["count", run, "--take-back", half, *MEMORY], ["check", run, *MEMORY],
        ["count", f"{folder}/table", f"{folder}/export-counts-csv.csv", "--counts", *MEMORY],
        ["diff", f"{run}:b", f"{folder}/export-events.jsonl"],
        ["report", run, "--text", text, "--beside", f"{run}:s", "-o", f"{folder}/page.html", *MEMORY],
        ["train", f"{folder}/longer", text, "--extend", f"{folder}/import.jsonl", "-s", "290", *MEMORY],
        ["extend-report", f"{folder}/longer", "--text", text],
    ]  # fmt: skip


def texts_in(folder: Path) -> None:
    """What `typed_in` reads."""
    folder.mkdir(parents=True)
    lines = "".join(f"the cat and the dog of the end in the day {i}\n" for i in range(400))
    (folder / "text.txt").write_text(lines, encoding="utf-8")
    (folder / "half.txt").write_text("a dog or the cat of the end\n" * 99, encoding="utf-8")


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("folder", ["md:x", "~x", "s3:x", f"a[b]c:d 'e{EVIL.replace('=', '')}"])
def test_every_command_works_in_a_folder_that_libraries_would_take_for_something_else(tmp_path, monkeypatch, folder):
    """A server, a home, an address; a glob, quotes, what a terminal and a page would obey. It is named from beside it;
    what stands before = would be a group."""
    monkeypatch.chdir(tmp_path)
    texts_in(tmp_path / folder)
    tried = typed_in(folder)
    assert {command[0] for command in tried} == set(main.list_commands(None))
    for command in tried:
        assert is_not_obeyed(*command) == 0, command
    page = Path(folder, "page.html").read_text(encoding="utf-8")
    assert not OBEYED.search(page)
    assert "<img" not in page


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["what?", "back\\slash", os.fsdecode(b"caf\xe9")])
def test_a_run_whose_name_duckdb_cannot_open_is_refused_before_anything_is_made(tmp_path, monkeypatch, name):
    """As RUN, and as --temp-dir; the text, and what is made of it, may lie there."""
    monkeypatch.chdir(tmp_path)
    texts_in(Path(name))
    before = sorted(tmp_path.rglob("*"))
    text = f"{name}/text.txt" if name.isascii() else "text.txt"
    for command in (["train", f"{name}/run", text], ["count", "run", text, "--temp-dir", name]):
        done = cli(*command, expect=2, folder=Path())
        assert "cannot be " in done.stderr
        assert "Nothing was changed" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_what_is_spilled_into_a_shared_folder_is_nobody_elses(desk, tmp_path):
    """Whatever the umask: blocks of a training and rows of a query hold text of the corpus."""
    run, shared = Run(desk / "run"), tmp_path / "shared"
    shared.mkdir()
    modes = []

    def look(_: object) -> None:
        modes.extend(folder.stat().st_mode & 0o777 for folder in shared.iterdir())

    before = os.umask(0)
    try:
        limits = Resources(SMALL.memory_bytes, 1, shared)
        trainer(run.path, TrainConfig(vocab_size=262), name="spilled", resources=limits, on_batch=look).run()
        with spill_folder(run, shared) as folder:
            look(folder)
    finally:
        os.umask(before)
    assert len(modes) > 1
    assert set(modes) == {0o700}
