"""The SCRIPT encoding, its splitting rules, and the text preparation that goes with it."""

from __future__ import annotations

import random
import subprocess
import sys
import unicodedata
from collections import Counter

import polars as pl
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.strings import as_buffers
from streambpe.errors import RunMismatch, SourceError, UndecodableSymbols, UnknownSymbol
from streambpe.inspect.check import check
from streambpe.model.alphabet import UNKNOWN, script_alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.script import FIRST_ESCAPE, decode_symbols, encode_text, symbol_name, symbol_table
from streambpe.text.characters import every_character
from streambpe.text.patterns import CERTAIN_BORDER, find_pattern
from streambpe.text.prepare import is_stable, nfc, prepare
from streambpe.text.prepare import unicodedata as tables_of_nfc
from streambpe.text.script_blocks import character_groups
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.hostile import buffer_of, fast_documents
from tests.oracles.splits import split_by_rules, split_text
from tests.oracles.symbols import symbols_of
from tests.runs import ROOT, SMALL, cli, log_of, rows, small_blocks, stored_ids
from tests.samples import written
from tests.script_samples import LINES, hostile_texts, long_text
from tests.tiers import seeds

any_text = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n\u0301東へ한1.")), max_size=20
)


# Symbols


def test_the_table_is_that_of_unicode_16():
    """155 063 characters in 468 blocks, and a digest that says it is this very table."""
    table = symbol_table()
    assert (len(table.blocks), sum(len(block.characters) for block in table.blocks)) == (468, 155_063)
    assert table.sha256 == "96ea6a0645d14ed4308f4e33f1b47c45c725a50b972ec611f3e9cc6e62e64727"
    assert encode_text("hi中") == [1550, 34, 1550, 35, 1454, 848]


@given(any_text)
def test_symbols_of_a_text_are_those_of_its_characters(text):
    """As the slow definition has it; and they become the text again."""
    assert symbols_of(script_alphabet(), text.encode()) == encode_text(text)
    assert decode_symbols(encode_text(text)) == text


def test_characters_outside_the_table_under_each_policy():
    """bytes keeps them as UTF-8, drop leaves them out, error names the first; an alphabet without escapes says unk."""
    assert encode_text("a\ue000") == [*encode_text("a"), FIRST_ESCAPE + 0xEE, FIRST_ESCAPE + 0x80, FIRST_ESCAPE + 0x80]
    assert encode_text("a\ue000b", "drop") == encode_text("ab")
    with pytest.raises(UnknownSymbol, match=r"U\+0378 .*--unencodable bytes"):
        encode_text("a\u0378\ue000", "error")
    small = script_alphabet("drop")
    assert len(small) == 1916
    assert symbols_of(small, "a\ue000".encode()) == [*encode_text("a"), UNKNOWN]
    assert symbols_of(small, "a\ue000".encode(), "drop") == encode_text("a")


def test_symbols_that_make_no_text():
    """A lone block or index, an index beyond its block, half an escape: one U+FFFD or name each, or an error."""
    block, index = encode_text("h")
    lead = FIRST_ESCAPE + 0xEE
    broken = [block, block, index, index, 1447, lead, FIRST_ESCAPE + 0x80, block]
    assert decode_symbols(broken) == "\ufffdh\ufffd\ufffd\ufffd\ufffd\ufffd"
    assert decode_symbols(broken, "name") == ("<Latin LM 0>h<index 34><index 1447><byte ee><byte 80><Latin LM 0>")
    with pytest.raises(UndecodableSymbols, match="symbol 0 of 8, 1550 <Latin LM 0>"):
        decode_symbols(broken, "strict")
    assert symbol_name(7000) == "<7000>"


# Splitting


def test_rules_of_the_core_on_all_groups_and_scripts():
    """Thousands of hostile texts over all groups of characters, and lines of 27 kinds: as the slow rules split them."""
    texts = [text for seed in seeds(30) for text in hostile_texts(seed, 2000)]
    texts += [*LINES, *(a + b for a in LINES for b in LINES), long_text(2, 600)]
    assert fast_documents(buffer_of(*texts), find_pattern("script")) == [split_by_rules(text) for text in texts]


# Preparation


def test_nfc_is_that_of_unicode_16():
    """Under any Python: characters that are younger than Unicode 14.0."""
    assert tables_of_nfc.unidata_version == "16.0.0"
    pinned = {
        "\U00016d67\U00016d67a": "\U00016d68a",
        "\U00016d63\U00016d67\U00016d67": "\U00016d6a",
        "\U0001611e\U0001611e\U0001611f": "\U00016126",
        "\U0001138b\U000113c2x": "\U0001138ex",
        "a\U00010eff\u0301": "\xe1\U00010eff",
        "a\u0301\U00010eff": "\xe1\U00010eff",
        "a\u0897\U00010eff": "a\U00010eff\u0897",
        "\U000105d2\u0323\u0307": "\U000105c9\u0323",
    }
    assert {text: nfc(text) for text in pinned} == pinned


def test_a_text_of_nothing_but_misordered_marks_is_normalised():
    """Python's own NFC takes a minute to sort these, and longer with the square of their number."""
    n = 100_000
    assert nfc("a" + "\u0301\u0327" * n) == "\xe1" + "\u0327" * n + "\u0301" * (n - 1)
    assert nfc("\u0f73" * n) == "\u0f71" * n + "\u0f72" * n


def test_marks_by_the_thousand_are_normalised_as_fewer_are():
    """Runs of more than 1024 are sorted before."""
    _, group_of = character_groups()
    marks = [c for c in every_character() if unicodedata.combining(c) and group_of[ord(c)] and ord(c) < 0x10000]
    rng = random.Random(8)
    for starter in "aq\xe9\u212b\u0f73":
        text = starter + "".join(rng.choices(marks, k=1200))
        assert nfc(text) == unicodedata.normalize("NFC", text)


@given(any_text, any_text)
def test_characters_outside_the_table_part_what_normalises(left, right):
    """Nothing composes across them, and they stay; NFC done twice changes nothing."""
    assert nfc(left + "\ue000" + right) == nfc(left) + "\ue000" + nfc(right)
    assert nfc(nfc(left)) == nfc(left)


@pytest.mark.long
def test_stable_letters_part_what_normalises():
    """NFC in front of white space or punctuation that may begin a block, and behind it, is NFC of the whole."""
    beside = [character for character in every_character() if regex.match(CERTAIN_BORDER, "a" + character)]
    assert {" ", "\n", "=", "<", "。", "，"} <= set(beside)
    assert all(map(is_stable, "a1東へ한กй"))
    assert not any(map(is_stable, "\u0958\ue000\u0378\U0001f7da"))
    rng = random.Random(5)
    sides = hostile_texts(6, 500)
    for _ in range(20_000):
        left, right = rng.choice(sides) + rng.choice(every_character()), rng.choice(beside) + rng.choice(sides)
        assert nfc(left) + nfc(right) == nfc(left + right)


@given(st.lists(any_text, max_size=5))
def test_preparing_a_buffer_prepares_its_documents(texts):
    """Documents of a buffer are prepared as if each stood alone, and the dropped characters are counted."""
    _, group_of = character_groups()
    buffer = b"".join(text.encode() + b"\xff" for text in texts)
    kept = ["".join(c for c in text if group_of[ord(c)]) for text in texts]
    made, dropped = prepare(buffer, "nfc", "drop")
    assert made == b"".join(nfc(text).encode() + b"\xff" for text in kept)
    assert dropped == sum(map(len, texts)) - sum(map(len, kept))
    assert prepare(buffer, "none", "bytes") == (buffer, 0)


# Counting


@pytest.mark.every(8)
@pytest.mark.parametrize("spaces", [True, False])
@pytest.mark.parametrize(
    ("pattern", "normalize", "unencodable"),
    [("script", "none", "bytes"), ("script", "nfc", "drop"), ("script", "nfc", "bytes"), ("gpt4o", "nfc", "drop")],
)
def test_counts_of_a_document_read_in_blocks(tmp_path, monkeypatch, pattern, normalize, unencodable, spaces):
    """A document cut into some 40 blocks has the chunks, and the sequence of them, that it has whole."""
    text = long_text(11, 1500)
    if not spaces:
        text = text.translate({32: None, 10: None, 13: None, 9: None})
    (tmp_path / "a.txt").write_bytes(text.encode())
    run = tmp_path / "run"
    options = {"pattern": pattern, "normalize": normalize, "unencodable": unencodable}
    small_blocks(monkeypatch, 4096)
    result = count(run, [str(tmp_path / "a.txt")], sequences=True, **options, resources=SMALL)
    ready, dropped = prepare(text.encode(), normalize, unencodable)
    chunks = split_text(find_pattern(pattern), ready.decode())
    assert dict(rows(run, "FROM chunk_counts")) == Counter(chunks)
    assert result.corpus["bytes"] == len(ready)
    assert rows(run, "SELECT dropped FROM source_files") == [(dropped,)]
    sizes = [size for (size,) in rows(run, "SELECT text_bytes FROM sources")]
    assert len(sizes) > 20
    assert sum(sizes) == len(ready)
    in_order = [text[i] for ids, text in stored_ids(run) for i in ids if i >= 0]
    assert in_order == chunks
    assert check(run, sources=True) == []
    assert (dropped > 0) == any(f"{dropped:,} characters outside" in warning for warning in result.warnings)


def test_an_unencodable_character_can_be_an_error(tmp_path):
    """--unencodable error names character and source, keeps what is committed, and says what else to do. The model says
    Unicode 16.0.0, whatever `regex` is installed."""
    (tmp_path / "a.txt").write_text("fine")
    (tmp_path / "b.txt").write_text("not\ue000fine")
    with pytest.raises(SourceError, match=r"b\.txt: U\+E000 is not in the SCRIPT table.*--unencodable bytes or drop"):
        count(tmp_path / "run", [str(tmp_path / "b.txt")], pattern="script", unencodable="error")
    count(tmp_path / "run", [str(tmp_path / "a.txt")], pattern="script")
    assert rows(tmp_path / "run", "FROM chunk_counts") == [("fine", 1)]
    with pytest.raises(RunMismatch, match="--unencodable error, not drop"):
        count(tmp_path / "run", [str(tmp_path / "a.txt")], unencodable="drop")
    train(tmp_path / "run", vocab_size=258, resources=SMALL)
    assert log_of(tmp_path / "run").header.unicode == "16.0.0"


WITHOUT_TABLES = """
import os, sys, unicodedata
sys.modules["unicodedata2"], unicodedata.unidata_version = None, "15.0.0"
from tests.runs import cli
text, model, new = sys.argv[1:]
for command in (["count", new, text, "--normalize", "nfc"], ["encode", model, text, "-o", new]):
    told = cli(*command, expect=1).stderr
    assert "`pip install unicodedata2==16.0.0`" in told and told.count("\\n") == 1, told
    assert not os.path.exists(new)
cli("count", new, text, "--unencodable", "drop")
"""


def test_nfc_without_its_tables_is_refused_before_anything_is_written(tmp_path):
    """Where unicodedata2 has no wheel, all else works; --normalize nfc says what to install, and so does a model."""
    text = written(tmp_path / "a.txt", "Re\u0301sume\u0301 of the the \ue000 the\n" * 20)
    cli("train", tmp_path / "nfc", text, "-s", 260, "--normalize", "nfc")
    command = [sys.executable, "-c", WITHOUT_TABLES, text, tmp_path / "nfc", tmp_path / "new"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("per_text", [1, 7, 70_000])
def test_every_character_of_unicode_comes_back(per_text):
    """decode(encode(x)) == x for every Unicode scalar value, alone and among others, under `bytes`."""
    characters = "".join(every_character())
    texts = [characters[i : i + per_text] for i in range(0, len(characters), per_text)]
    symbols, _ = codec_of(script_alphabet(), "error").split_many(*as_buffers(pl.Series(texts)))
    assert symbols.min() == 1
    assert symbols.max() < FIRST_ESCAPE + 256
    assert decode_symbols(symbols.tolist(), "strict") == characters
