"""Columns as wide as a terminal shows them."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from streambpe.inspect.columns import print_columns
from streambpe.terminal import wrapped


def test_columns_are_as_wide_as_a_terminal_shows_them():
    """A Chinese character takes two columns, a combining mark none; no line ends in spaces."""
    out = io.StringIO()
    print_columns([("text", "n"), ("中文", "1"), ("e\u0301te\u0301", "1,000"), ("", "7")], 1, out)
    assert out.getvalue() == "text      n\n中文      1\ne\u0301te\u0301   1,000\n          7\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    """One of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def test_a_wide_table_is_broken_into_blocks(terminal):
    """Each begins with the columns on the left, which lose their middles; no figure is lost."""
    heads = ["model", "source", *(f"measure {i:02}" for i in range(12))]
    path = "/a/" + "long/" * 20 + "name.txt"
    rows = [heads, *(["runs/en", path, *(f"{i:02}.{n}" for i in range(12))] for n in range(3))]
    print_columns(rows, 2, terminal)
    told = terminal.getvalue()
    assert max(map(cell_len, told.splitlines())) <= 80
    assert all(told.count(cell) == 1 for row in rows for cell in row[2:])
    assert told.count("runs/en  /a/long") == 3 * (told.count("\n\n") + 1)
    assert told.count("ng/name.txt") == told.count("runs/en")


def test_a_wide_last_column_is_broken_into_lines(terminal):
    """Below itself, between tokens and not inside one."""
    tokens = " ".join(['" a"', '"bcd"'] * 20)
    print_columns([("step", "tokens"), ("1", tokens)], 2, terminal)
    first, *more = terminal.getvalue().splitlines()[1:]
    assert len(more) > 1
    assert max(map(len, [first, *more])) <= 80
    assert all(line.startswith('      "') for line in more)
    assert " ".join([first[6:], *(line[6:] for line in more)]) == tokens


def test_sentences_break_at_spaces_and_commands_stay_whole():
    """A command can be copied, unless it is longer than a line."""
    text = "  memory    a few words, and then what to do: `streambpe resume runs/en --name small` goes on"
    assert wrapped(text, None, 10) == text
    assert wrapped(text, 60, 10).splitlines() == [
        "  memory    a few words, and then what to do:",
        "            `streambpe resume runs/en --name small` goes on",
    ]
    assert max(map(len, wrapped(f"`{'streambpe ' * 12}`", 60).splitlines())) <= 60
