"""Script runs: the fast marking of a buffer equals the definition, which equals the table it is made from."""

from __future__ import annotations

import random

import regex
from hypothesis import given
from hypothesis import strategies as st

from streambpe.text.marks import DOCUMENT_END, RUN_END, SCRIPT_RUN_END
from streambpe.text.script_runs import (
    SPACELESS,
    mark_script_runs,
    script_table,
)
from tests.hostile import buffer_of, hostile_text, random_text
from tests.oracles.splits import split_script_runs


def runs_of_buffer(buffer: bytes) -> list[tuple[str, bool]]:
    """(run, whether it goes to the script-specific pattern) as the marks say, whole documents only."""
    marked = mark_script_runs(buffer)
    runs, start = [], 0
    for i, byte in enumerate(marked):
        if byte in (RUN_END, SCRIPT_RUN_END) or byte == DOCUMENT_END:
            if i > start:
                runs.append((marked[start:i].decode(), byte == SCRIPT_RUN_END))
            start = i + 1
    return runs


@given(texts=st.lists(hostile_text, max_size=4))
def test_marks_say_what_the_definition_says(texts):
    """Runs and their kind, for several documents in one buffer."""
    expected = [run for text in texts for run in split_script_runs(text)]
    assert runs_of_buffer(buffer_of(*texts)) == expected


def test_marks_on_seeded_text():
    """The same on longer texts in which scripts, marks and common characters alternate."""
    rng = random.Random(17)
    for _ in range(150):
        texts = [random_text(rng, rng.choice([2, 20, 100])) for _ in range(3)]
        expected = [run for text in texts for run in split_script_runs(text)]
        assert runs_of_buffer(buffer_of(*texts)) == expected


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
