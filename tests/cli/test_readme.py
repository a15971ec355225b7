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
