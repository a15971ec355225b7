"""Columns as wide as a terminal shows them."""

from __future__ import annotations

import io

from streambpe.inspect.columns import print_columns


def test_columns_are_as_wide_as_a_terminal_shows_them():
    """A Chinese character takes two columns, a combining mark none; no line ends in spaces."""
    out = io.StringIO()
    print_columns([("text", "n"), ("中文", "1"), ("e\u0301te\u0301", "1,000"), ("", "7")], 1, out)
    assert out.getvalue() == "text      n\n中文      1\ne\u0301te\u0301   1,000\n          7\n"
