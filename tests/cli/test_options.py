"""Options are said once, at the fields of the classes: commands, --help and the tables in docs/ agree with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from streambpe.cli.main import main
from streambpe.cli.options import COUNT_OPTIONS, RESOURCE_OPTIONS, SOURCE_OPTIONS, TRAIN_OPTIONS
from streambpe.config import LIKE_OPTION
from streambpe.options import PANELS, Option
from tests.runs import cli

DOCS = Path(__file__).parents[2] / "docs"
ALL = {option.flag: option for option in (*TRAIN_OPTIONS, LIKE_OPTION, *COUNT_OPTIONS, *SOURCE_OPTIONS)}
TABLES = {
    ("counting.md",): (*COUNT_OPTIONS, *SOURCE_OPTIONS),
    ("training.md", "superwords.md"): (*TRAIN_OPTIONS, LIKE_OPTION),
}


def rows(page: str) -> dict[str, tuple[str, str]]:
    """(default, meaning) by flag, of the tables of options in a page."""
    found = {}
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        cells = re.split(r" (?<!\\)\| ", line.strip("| "), maxsplit=2)
        flag = re.match(r"`(--[a-z0-9-]+)", cells[0])
        if line.startswith("|") and flag and len(cells) == 3:
            found[flag.group(1)] = (cells[1].strip("` "), cells[2])
    return found


def default_in_words(option: Option) -> str:
    if option.switch:
        return "on" if option.default else "off"
    return option.shown_default or "none"


@pytest.mark.parametrize("pages", TABLES, ids=" ".join)
def test_the_tables_in_the_docs_have_every_option_with_its_default_and_choices(pages):
    """And no option that is not there."""
    written = {flag: row for page in pages for flag, row in rows(page).items()}
    assert set(written) == {option.flag for option in TABLES[pages]}
    for option in TABLES[pages]:
        default, meaning = written[option.flag]
        assert default == default_in_words(option), option.flag
        for choice in set(option.choices) - {option.default}:
            assert f"`{choice}`" in meaning, (option.flag, choice)


def test_every_option_of_the_classes_is_an_option_of_train():
    """With the names of its fields, so that what is given reaches them."""
    params = {param.name: param for param in main.commands["train"].params}
    for option in (*ALL.values(), *RESOURCE_OPTIONS):
        assert option.flag in params[option.name].opts
        assert option.help in params[option.name].help
        assert option.panel in PANELS


TAKE_A_VALUE = [
    pytest.param(command, option, id=f"{command} {option.flag}")
    for command in ("count", "train")
    for option in (*ALL.values(), *RESOURCE_OPTIONS)
    if not option.switch and any(option.flag in param.opts for param in main.commands[command].params)
]


@pytest.mark.parametrize(("command", "option"), TAKE_A_VALUE)
def test_bytes_that_are_not_utf_8_are_refused_by_name(tmp_path, command, option):
    """One sentence with the option's name, exit 2, and no RUN is made; --pattern ended in a traceback."""
    (tmp_path / "a.txt").write_text("the cat")
    size = ["--vocab-size", "300"] if command == "train" else []
    arguments = [command, str(tmp_path / "run"), str(tmp_path / "a.txt"), *size, option.flag, "a\udcff|(?s:.)"]
    done = cli(*arguments, expect=2)
    assert option.flag in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("command", "name"), [("sql", "QUERY"), ("explain", "TOKEN_OR_TEXT")])
def test_an_argument_that_is_not_utf_8_is_refused_by_name(command, name):
    """Before RUN is opened."""
    done = CliRunner().invoke(main, [command, "nowhere", "a\udcff"])
    assert (done.exit_code, done.stderr) == (2, f"streambpe: {name} 'a\\udcff': this is not UTF-8.\n")
