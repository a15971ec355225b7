"""Tokens for people: the same in Python and in SQL, and nothing that a terminal or a page would obey."""

from __future__ import annotations

import io
import re
import unicodedata
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from streambpe.inspect.watch import watch
from streambpe.store.database import MACROS
from streambpe.store.sqlfiles import run_sql
from streambpe.text.characters import every_character
from streambpe.text.shown import shown
from tests.runs import cli

EXAMPLES = {
    b" the": "␠the",
    b"a\n\r\t\\n": "a\\n\\r\\t\\\\n",
    b"\xe2\x80": "<E2 80>",
    b" \xe2\x80x\xff\xfe": "␠<E2 80>x<FF FE>",
    b"\xed\xa0\x80\xc0\x80\xf5\x80": "<ED A0 80 C0 80 F5 80>",
    "a\u202eb\u200f\x1b[0m\x00\x9b": "a<U+202E>b<U+200F><U+001B>[0m<U+0000><U+009B>",
    "中文 अ é": "中文␠अ␠é",
    "\u00a0\ufeff\u3000\ue000\U000e0041": "<U+00A0><U+FEFF><U+3000><U+E000><U+E0041>",
    b"": "",
}
HOSTILE = (
    "\x1b[31mred \u202ereversed\u202c \u200fאב \x00nul \x07bell \x9b5m <script>alert(1)</script> &amp; "
    "</script><img src=x> '\" | \u2028 \u200b\ufeff\n"
)


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as con:
        for macro in MACROS:
            run_sql(con, f"macros/{macro}")
        yield con


@pytest.mark.parametrize("content", EXAMPLES)
def test_examples(con, content):
    """In Python, and in SQL over bytes and over text."""
    data = content.encode() if isinstance(content, str) else content
    assert shown(data) == EXAMPLES[content]
    assert con.execute("SELECT shown(?::BLOB)", [data]).fetchall() == [(EXAMPLES[content],)]
    if isinstance(content, str):
        assert con.execute("SELECT shown(?)", [content]).fetchall() == [(EXAMPLES[content],)]


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_sql_says_what_python_says(con, content):
    """Of any bytes."""
    assert con.execute("SELECT shown(?::BLOB)", [content]).fetchall() == [(shown(content),)]


@pytest.mark.long
def test_every_character_is_harmless_and_the_same_in_sql(con):
    """All of Unicode: no control, no format character, no blank comes through; SQL agrees."""
    characters = list(every_character())
    for character in characters:
        one = shown(character.encode())
        if one == character:
            category = unicodedata.category(character)
            assert category not in ("Cc", "Co", "Zs", "Zl", "Zp"), hex(ord(character))
            assert unicodedata.bidirectional(character) not in ("RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI")
    assert cell_len(shown("\u202e\u200b".encode())) == 16
    con.execute("CREATE TABLE every (c VARCHAR)")
    for at in range(0, len(characters), 100_000):
        some = characters[at : at + 100_000]
        con.execute("INSERT INTO every SELECT unnest(?)", [some])
    told = con.execute("SELECT c, shown(c) FROM every WHERE shown(c) <> c").fetchall()
    assert dict(told) == {c: shown(c.encode()) for c in characters if shown(c.encode()) != c}


def test_hostile_tokens_reach_no_terminal_and_no_page(tmp_path):
    """Escapes, changes of direction, NUL, HTML: in tables, explanations, the live view and the page."""
    (tmp_path / "a.txt").write_bytes(HOSTILE.encode() * 300)
    run: Path = tmp_path / "run"
    cli("train", run, tmp_path / "a.txt", "-s", 700, "--pattern", "(?s).{1,40}", "--memory", "300MB")
    queries = ("SELECT id, shown, text, n FROM vocabulary", "FROM merge_curve", "FROM chunk_frequencies")
    commands = [*(("sql", run, query) for query in queries), ("explain", run, HOSTILE), ("explain", run, "id:300")]
    said = [cli(*command).stdout for command in commands]
    out = io.StringIO()
    watch(run, Console(file=out, width=100), once=True)
    said.append(out.getvalue())
    for text in said:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200e\u200f\u2066-\u2069]", text)
    assert "<U+202E>" in said[0]
    lines = [line for line in said[0].splitlines() if line.startswith("│")]
    assert len({line.index("│", 1) for line in lines}) == 1
    cli("report", run, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200e\u200f\u2066-\u2069]", page)
