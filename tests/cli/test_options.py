"""Options are said once, at the fields of the classes: commands, --help and the pages in docs/ agree with them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.core import ParameterSource
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.cli.options import COUNT_OPTIONS, RESOURCE_OPTIONS, SOURCE_OPTIONS, TRAIN_OPTIONS
from streambpe.config import LIKE, LIKE_COUNTING, LIKE_OPTION
from streambpe.options import PANELS
from tests.runs import EVERY_COMMAND, by_keyword, cli

DOCS = Path(__file__).parents[2] / "docs"
ALL = {option.flag: option for option in (*TRAIN_OPTIONS, LIKE_OPTION, *COUNT_OPTIONS, *SOURCE_OPTIONS)}
TYPED = ParameterSource.COMMANDLINE


def read(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def test_the_docs_have_every_option_and_no_other():
    """--help explains each; these pages help to choose."""
    pages = "".join(map(read, ("counting", "training", "superwords")))
    named = set(re.findall(r"--[a-z0-9]+(?:-[a-z0-9]+)*", pages))
    for option in (*ALL.values(), *RESOURCE_OPTIONS):
        assert named & {option.flag, option.off}, option.flag
    params = [param for command in EVERY_COMMAND.values() for param in command.params]
    assert named <= {flag for param in params for flag in (*param.opts, *param.secondary_opts, "--help")}


@pytest.mark.parametrize("like", LIKE)
def test_the_docs_have_what_each_like_sets(like):
    """Whoever types the options of its row gets what --like sets."""
    (cell,) = re.findall(rf"^\| `{like}`.* \| (.*)\|$", read("training"), re.M)
    typed = shlex.split("".join(re.findall("^`(.*?)`", cell)))
    context = EVERY_COMMAND["train"].make_context("train", ["run", *typed])
    given = {name: value for name, value in context.params.items() if context.get_parameter_source(name) is TYPED}
    wanted = {**by_keyword(LIKE[like]), **LIKE_COUNTING.get(like, {}), "run": "run"}
    if like == "script":
        wanted.pop("alphabet")  # of --encoding bytes, which the row says behind the options
    assert given == wanted


def test_every_option_of_the_classes_is_an_option_of_train():
    """With the names that the functions know, so that what is given reaches them."""
    params = {param.name: param for param in main.get_command(None, "train").params}
    for option in (*ALL.values(), *RESOURCE_OPTIONS):
        assert option.flag in params[option.name].opts
        assert option.help in params[option.name].help
        assert option.panel in PANELS


@pytest.mark.parametrize("flag", [each.flag for each in (*ALL.values(), *RESOURCE_OPTIONS) if not each.switch])
def test_bytes_that_are_not_utf_8_are_refused_by_name(tmp_path, flag):
    """One sentence with the option's name, exit 2, and no RUN is made; --pattern ended in a traceback."""
    done = cli("train", tmp_path / "run", tmp_path / "a.txt", "-s", 300, flag, "a\udcff|(?s:.)", expect=2)
    assert flag in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("command", "name"), [("sql", "QUERY"), ("explain", "TOKEN_OR_TEXT")])
def test_an_argument_that_is_not_utf_8_is_refused_by_name(command, name):
    """Before RUN is opened."""
    done = CliRunner().invoke(main, [command, "nowhere", "a\udcff"])
    assert (done.exit_code, done.stderr) == (2, f"streambpe: {name} 'a\\udcff': this is not UTF-8.\n")
