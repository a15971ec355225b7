"""The code of the README and of the docs, run as it stands, with the output that is shown."""

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

from tests.runs import EVERY_COMMAND, ROOT, cli

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = ("README", "event-log", "extend", "jobs", "learner-in-tables", "python", "tutorial")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of code."""
    return re.findall(r"^ *```(.*)\n((?s:.*?))^ *```$", page.read_text("utf-8"), re.M)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in TYPED], ids=lambda page: page.stem)
def test_a_page_goes_as_it_is_typed(tmp_path, page):
    """Commands with the output that is shown, in a folder that holds the bundled sample; then the Python."""
    shutil.copytree(ROOT / "tests/data/sample", tmp_path / "tests/data/sample")
    console = "".join(block for kind, block in blocks(page) if kind == "console")
    for line, shown in re.findall(r"^\$ streambpe (.*)\n((?:[^$\n].*\n|\n)*)", console, re.M):
        done = cli(*shlex.split(line), folder=tmp_path)
        assert not shown or (done.stdout + done.stderr).replace(os.sep, "/") == shown
    without = [name for name in ("transformers", "datasets") if importlib.util.find_spec(name) is None]
    for code in [block for kind, block in blocks(page) if kind == "python"]:
        if not any(name in code for name in without):
            done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8")
            assert done.returncode == 0, done.stderr


def commands(page: Path) -> list[str]:
    """The lines of blocks without a language that begin with streambpe."""
    lines = (block for kind, block in blocks(page) if not kind)
    return [line for block in lines for line in re.findall(r"^(?:\$ )?(streambpe .*)", block, re.M)]


WITH_COMMANDS = [page for page in PAGES if commands(page)]
# words in capitals and brackets (docs/cli.md says so); other machines; and sizes that no small run has
NOT_TO_BE_TYPED = re.compile(r"\b[A-Z]+\b|\[|\.\.\.|s3://|--engine ray|SLURM|--vocab-size 8000,16000,32000")

NOT_RUN = {  # by page, and by language if it is not that of a shell
    "README": "make, whose targets need a clone of their own",
    "cli": "lines for the start of a shell, which test_terminal.py runs",
    "clusters": "needs Ray on every node",
    "clusters python": "needs Dask on several hosts; benchmarks/cluster.py has the same",
    "converge": "the table of one corpus",
    "encode python": "needs transformers and a sentencepiece model of one's own",
    "event-log": "a log of three events, which its readers read",
    "plan": "a forecast, whose times are those of one machine",
    "script": "a text and its chunks; test_script.py has more of them",
}


def test_every_block_of_every_page_is_run_or_says_why_not():
    """By the tests of this file and of the cookbook; what is not is named in NOT_RUN. All Python parses."""
    others = set()
    for page in PAGES:
        for kind, block in blocks(page):
            typed = page.stem in TYPED and kind in ("console", "python")
            if not (typed or kind in ("sql", "toml") or (not kind and re.match(r"(\$ )?streambpe ", block))):
                others.add(f"{page.stem} {kind}".rstrip())
            if kind == "python":
                compile(block, str(page), "exec")
    assert others == NOT_RUN.keys()


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


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with what the pages name: a corpus of two groups, other texts, a run, models of others."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(ROOT / "tests/data/sample", folder / "tests/data/sample")
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
    shutil.copytree(folder / "runs/en", folder / "runs/other")
    for kind, output in (("hf", "gpt2/"), ("tiktoken", "cl100k_base.tiktoken")):
        cli("export", "runs/en", "--to", kind, "-o", output, folder=folder)
    return folder


@pytest.mark.every(8)
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_go(desk, tmp_path, page):
    """One after another, in one folder, as they are typed."""
    folder = Path(shutil.copytree(desk, tmp_path / "desk"))
    for line in commands(page):
        if not NOT_TO_BE_TYPED.search(re.sub('"[^"]*"|#.*', "", line)):
            typed = shlex.split(line.partition(" | ")[0], comments=True)[1:]
            # So small a corpus is planned only where a size to rehearse is given.
            cli(*typed, *(["--rehearse", "32MB"] if typed[0] == "plan" else []), folder=folder)
    for kind, block in blocks(page):
        if kind == "sql" and page.stem != "cookbook":
            cli("sql", "runs/en", block, "--files", folder=folder)
        if kind == "toml":
            (folder / "options.toml").write_text(block, "utf-8")
            cli("train", "runs/options", "corpus/en", "--config", "options.toml", folder=folder)
