"""The README's commands, run as they stand, with the output it shows."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.runs import EVERY_COMMAND, cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(arguments: list[str], folder: Path) -> str:
    """stdout and stderr of a command that has to succeed."""
    done = subprocess.run(arguments, cwd=folder, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).replace(os.sep, "/")  # paths are shown as each system writes them


def type_out(page: str, folder: Path, without: str = "") -> int:
    """Every console block, in order, in a folder that holds the bundled sample; then the Python blocks.

    How many commands there were. without: Python blocks that need this module are left out.
    """
    shutil.copytree(ROOT / "tests/data/sample", folder / "tests/data/sample")
    commands = 0
    for block in re.findall(r"```console\n(.*?)```", page, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, shown = part.partition("\n")
            program, *arguments = shlex.split(line)
            assert program == "streambpe"
            done = cli(*arguments, folder=folder)
            printed = (done.stdout + done.stderr).replace(os.sep, "/")
            assert not shown or printed == shown
            commands += 1
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        if not without or without not in code:
            run([sys.executable, "-c", code], folder)
    return commands


@pytest.mark.long
def test_readme_commands_print_what_it_shows(tmp_path):
    """Its commands, and its Python."""
    assert type_out(README, tmp_path) == 4


@pytest.mark.long
def test_the_ten_jobs_go_as_they_are_typed(tmp_path):
    """docs/jobs.md: numbered 1 to 10; the block for transformers is left out where that is not installed."""
    page = (ROOT / "docs/jobs.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", page, re.M) == [str(n) for n in range(1, 11)]
    without = "" if importlib.util.find_spec("transformers") else "transformers"
    assert type_out(page, tmp_path, without) > 12


@pytest.mark.long
@pytest.mark.parametrize(("name", "commands", "library"), [
    ("tutorial", 12, "transformers"), ("python", 0, "datasets"), ("event-log", 2, ""), ("learner-in-tables", 0, ""),
])  # fmt: skip
def test_other_pages_go_as_they_are_typed(tmp_path, name, commands, library):
    """Commands with the output that is shown, then the Python, but for blocks whose library is not installed."""
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    without = "" if library and importlib.util.find_spec(library) else library
    assert type_out(page, tmp_path, without) == commands
    assert "```python" in page


def commands(page: Path) -> list[str]:
    """The lines of blocks without a language that begin with streambpe."""
    blocks = re.findall(r"^ *```(.*)\n((?s:.*?))^ *```$", page.read_text("utf-8"), re.M)
    lines = (block for kind, block in blocks if not kind)
    return [line for block in lines for line in re.findall(r"^(?:\$ )?(streambpe .*)", block, re.M)]


WITH_COMMANDS = [page for page in sorted((ROOT / "docs").glob("*.md")) if commands(page)]
# words in capitals and brackets (docs/cli.md says so); other machines; and sizes that no small run has
NOT_TO_BE_TYPED = re.compile(r"\b[A-Z]+\b|\[|\.\.\.|s3://|--engine ray|SLURM|--vocab-size 8000,16000,32000")

TYPED = {"README", "jobs", "tutorial", "python", "event-log", "learner-in-tables"}  # the tests above
NOT_TYPED = {
    "counting": "two lines of a formula, which tests/sources/test_samples.py judges, and datatrove, which has a test",
    "encode": "needs transformers and a sentencepiece model of one's own",
    "watching": "needs the report that the lines above it make",
}


def test_every_page_with_python_or_console_blocks_is_typed_out_or_says_why_not():
    """A page that gains its first block is put in one of the two."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {page.stem for page in pages if re.search(r"^```(python|console)$", page.read_text("utf-8"), re.M)}
    assert found == TYPED | NOT_TYPED.keys()


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_remarks_behind_commands_were_taken_for_arguments(page):
    """A shell reads what stands behind a command as words of it unless # says otherwise; every option is there."""
    for line in commands(page):
        typed = shlex.split(line, comments=True)
        assert "--" not in typed, line
        assert not re.search(r"  +\w", re.sub(r"\"[^\"]*\"|#.*", "", line)), line
        command = EVERY_COMMAND[typed[1]]
        flags = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}
        if "|" not in typed:
            assert {word for word in typed if re.fullmatch(r"--[a-z-]+", word)} <= flags, line


def test_python_blocks_parse_on_every_page():
    """Those of pages that are not typed out as well."""
    for page in (ROOT / "docs").glob("*.md"):
        for code in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            compile(code, str(page), "exec")


def test_readme_names_files_that_exist():
    """Every link to a file or folder, and the two commands that do all the set-up."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo:" in makefile
    assert "\ntest:" in makefile


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with what the pages name: a corpus of two groups, other texts, a run, models of others."""
    folder = tmp_path_factory.mktemp("desk")
    for place, language in (("", "en"), ("de", "de"), ("en", "en"), ("sw", "fr")):
        (folder / "corpus" / place).mkdir(parents=True, exist_ok=True)
        text = (ROOT / f"tests/data/sample/stories-{language}.txt").read_text("utf-8")[:9000]
        lines = "".join(json.dumps({"text": part}) + "\n" for part in text.split("\n\n")).encode()
        (folder / "corpus" / place / "a.jsonl.zst").write_bytes(pa.compress(lines, codec="zstd", asbytes=True))
        (folder / "corpus" / place / "b.jsonl").write_bytes(lines)
        for name in ("held-out.txt", "en_100.txt", f"dev/{place}.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
    cli("train", "runs/en", "corpus/en", "--sequences", "-s", "500", "--special", "<|endoftext|>", folder=folder)
    cli("train", "runs/en", "--name", "small", "-s", "400", folder=folder)
    for kind, output in (("hf", "gpt2/"), ("tiktoken", "cl100k_base.tiktoken")):
        cli("export", "runs/en", "--to", kind, "-o", output, folder=folder)
    return folder


@pytest.mark.every(5)
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_go(desk, tmp_path, page):
    """One after another, in one folder, as they are typed."""
    folder = Path(shutil.copytree(desk, tmp_path / "desk"))
    for line in commands(page):
        if not NOT_TO_BE_TYPED.search(re.sub('"[^"]*"|#.*', "", line)):
            cli(*shlex.split(line.partition(" | ")[0], comments=True)[1:], folder=folder)
