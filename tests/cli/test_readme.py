"""The README's commands, run as they stand, with the output it shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streambpe.cli.main import main
from tests.runs import cli

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
    assert type_out(README, tmp_path) >= 5


@pytest.mark.long
def test_the_ten_jobs_go_as_they_are_typed(tmp_path):
    """docs/jobs.md: numbered 1 to 10; the block for transformers is left out where that is not installed."""
    page = (ROOT / "docs/jobs.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", page, re.M) == [str(n) for n in range(1, 11)]
    without = "" if importlib.util.find_spec("transformers") else "transformers"
    assert type_out(page, tmp_path, without) > 12


@pytest.mark.long
@pytest.mark.parametrize(("name", "commands", "library"), [
    ("tutorial", 12, "transformers"), ("python", 0, "datasets"), ("event-log", 2, ""),
])  # fmt: skip
def test_other_pages_go_as_they_are_typed(tmp_path, name, commands, library):
    """Commands with the output that is shown, then the Python, but for blocks whose library is not installed."""
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    without = "" if library and importlib.util.find_spec(library) else library
    assert type_out(page, tmp_path, without) == commands
    assert "```python" in page


TYPED = {"README", "jobs", "tutorial", "python", "event-log"}  # the tests above
NOT_TYPED = {
    "counting": "two lines of a formula, which tests/sources/test_samples.py judges, and datatrove, which has a test",
    "encode": "needs transformers and a sentencepiece model of one's own",
    "script": "lines out of the rules; tests/text/test_script.py has the values",
    "watching": "needs the report that the lines above it make",
}


def test_every_page_with_python_or_console_blocks_is_typed_out_or_says_why_not():
    """A page that gains its first block is put in one of the two."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {page.stem for page in pages if re.search(r"^```(python|console)$", page.read_text("utf-8"), re.M)}
    assert found == TYPED | NOT_TYPED.keys()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_remarks_behind_commands_were_taken_for_arguments(page):
    """A shell reads what stands behind a command as words of it unless # says otherwise; every option is there."""
    for block in re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        for line in re.findall(r"^(?:\$ )?streambpe .*", block, re.M):
            typed = shlex.split(line.removeprefix("$ "), comments=True)
            assert "--" not in typed, line
            assert not re.search(r"  +\w", re.sub(r"\"[^\"]*\"|#.*", "", line)), line
            command = main.commands[typed[1]]
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
