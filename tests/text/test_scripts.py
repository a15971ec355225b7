"""Script runs: what the definition says, and its table. tests/text/test_chunker.py has the fast marking."""

from __future__ import annotations

import regex

from streambpe.text.script_runs import (
    SPACELESS,
    script_table,
)
from tests.oracles.splits import split_script_runs


def test_common_characters_go_with_what_follows_and_marks_with_what_was():
    """Spaces and digits move to the next run, combining marks stay with the last letter."""
    assert list(split_script_runs("abc 12 中文 x")) == [("abc", False), (" 12 中文", True), (" x", False)]
    assert list(split_script_runs("e\u0301日")) == [("e\u0301", False), ("日", True)]
    assert list(split_script_runs("12 \u0301")) == [("12 \u0301", False)]
    assert list(split_script_runs("  中")) == [("  中", True)]
    assert list(split_script_runs("日本のカナ")) == [("日本", True), ("の", True), ("カナ", True)]


def test_table_agrees_with_regex_where_both_know_a_character():
    """Each script without spaces has the letters that `regex` gives it, but for later additions to Unicode."""
    table, spaceless = script_table()
    assert len(table) == 0x110000
    for name in SPACELESS:
        members = regex.compile(rf"\p{{Script={name}}}")
        mine = [c for c in range(0x3000) if members.match(chr(c))]
        assert all(spaceless[table[c]] for c in mine), name
    assert not spaceless[table[ord("a")]]
    assert not spaceless[table[ord(" ")]]
    assert not spaceless[table[ord("한")]]
