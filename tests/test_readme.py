"""The README's commands, run as they stand, with the output it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def run(arguments: list[str], folder: Path) -> str:
    """stdout and stderr of a command that has to succeed."""
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_readme_commands_print_what_it_shows(tmp_path):
    """Every console block, in order, in a folder that holds the bundled sample; then the Python block."""
    shutil.copytree(ROOT / "tests/data/sample", tmp_path / "tests/data/sample")
    commands = 0
    for block in re.findall(r"```console\n(.*?)```", README, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, shown = part.partition("\n")
            program, *arguments = shlex.split(line)
            assert program == "streambpe"
            printed = run([sys.executable, "-m", "streambpe.cli", *arguments], tmp_path)
            assert not shown or printed == shown
            commands += 1
    assert commands >= 5
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    run([sys.executable, "-c", code], tmp_path)


def test_readme_names_files_that_exist():
    """Every link to a file or folder, and the two commands that do all the set-up."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo:" in makefile
    assert "\ntest:" in makefile
