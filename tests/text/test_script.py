"""The SCRIPT encoding, its splitting rules, and the text preparation that goes with it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.strings import as_buffers
from streambpe.errors import RunMismatch, SourceError, UndecodableSymbols, UnknownSymbol
from streambpe.inspect.check import check
from streambpe.model.alphabet import UNKNOWN, Alphabet, script_alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.eventlog import EventLog, Header
from streambpe.model.script import FIRST_ESCAPE, decode_symbols, encode_text, symbol_name, symbol_table
from streambpe.sources.borders import find_border
from streambpe.text.characters import every_character
from streambpe.text.patterns import CERTAIN_BORDER, find_pattern
from streambpe.text.prepare import is_stable, nfc, prepare
from streambpe.text.prepare import unicodedata as tables_of_nfc
from streambpe.text.script_blocks import character_groups
from streambpe.train.counting.count import count
from tests.hostile import buffer_of, fast_documents
from tests.oracles.splits import split_by_rules, split_text
from tests.oracles.symbols import symbols_of
from tests.runs import SMALL, cli, rows, small_blocks, stored_ids
from tests.samples import written
from tests.script_samples import LINES, hostile_texts, long_text

any_text = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n\u0301東へ한1.")), max_size=20
)


# Symbols


def test_the_table_is_that_of_unicode_16():
    """155 063 characters in 468 blocks, and a digest that says it is this very table."""
    table = symbol_table()
    assert len(table.blocks) == 468
    assert sum(len(block.characters) for block in table.blocks) == 155_063
    assert table.sha256 == "96ea6a0645d14ed4308f4e33f1b47c45c725a50b972ec611f3e9cc6e62e64727"
    assert encode_text("hi中") == [1550, 34, 1550, 35, 1454, 848]


@given(st.lists(any_text, max_size=6))
def test_texts_are_encoded_one_by_one(texts):
    """Symbols of many texts together are those of each, also of a slice of a larger column."""
    column = pl.Series(["x\ue000", *texts], dtype=pl.String)[1:]
    symbols, sizes = codec_of(script_alphabet(), "error").split_many(*as_buffers(column))
    offsets = np.cumsum([0, *sizes])
    assert [symbols[a:b].tolist() for a, b in pairwise(offsets)] == [encode_text(text) for text in texts]
    alphabet = script_alphabet()
    assert [symbols_of(alphabet, text.encode()) for text in texts] == [encode_text(text) for text in texts]
    assert ["".join(decode_symbols(encode_text(text))) for text in texts] == texts


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


def test_a_header_names_the_table(tmp_path):
    """The event log keeps version, sizes and digest, and text meets only the table a model was made with."""
    alphabet = script_alphabet()
    header = alphabet.to_header()
    assert header == {
        "kind": "script",
        "first_id": 1,
        "size": 2172,
        "table": "unicode-16.0.0",
        "index_symbols": 1448,
        "block_symbols": 468,
        "escape_symbols": 256,
        "sha256": symbol_table().sha256,
    }
    log = EventLog(Header(header), ())
    assert log.header.alphabet == header
    again = Alphabet.from_header(json.loads(json.dumps(header)))
    assert again == alphabet
    assert again.to_header() == header
    assert script_alphabet("drop").to_header()["escape_symbols"] == 0
    other = Alphabet.from_header({**header, "sha256": "0" * 64})
    with pytest.raises(ValueError, match="another character table"):
        codec_of(other, "error").split("a")


# Splitting


def test_examples_of_the_rules():
    """What the published rules do at their corners."""
    assert split_by_rules("") == []
    assert split_by_rules("  x") == ["  ", "x"]
    assert split_by_rules(" x y") == [" x", " y"]
    assert split_by_rules("a 567") == ["a", " ", "567"]
    assert split_by_rules("\u0301a") == ["\u0301", "a"]
    assert split_by_rules("a \u0301b") == ["a", " \u0301", "b"]
    assert split_by_rules("  \u0301 x") == ["  \u0301 ", "x"]
    assert split_by_rules("a\r\nb") == ["a", "\r", "\n", "b"]
    assert split_by_rules("東京へ行くカ") == ["東京へ行く", "カ"]
    assert split_by_rules("👩‍👧") == ["👩‍👧"]


def test_rules_of_the_core_on_all_groups_and_scripts():
    """15 thousand hostile texts over all groups of characters, and lines of 27 kinds: as the slow rules split them."""
    texts = [*hostile_texts(1, 15_000), *LINES, *(a + b for a in LINES for b in LINES), long_text(2, 3000)]
    assert fast_documents(buffer_of(*texts), find_pattern("script")) == [split_by_rules(text) for text in texts]


@pytest.mark.parametrize("name", ["script", "whitespace", "gpt4o"])
@pytest.mark.parametrize("policy", ["replace", "ignore"])
def test_blocks_end_at_borders_of_the_prepared_text(name, policy):
    """Where a block ends, splitting both sides gives the chunks of the whole, after repair, drop and NFC."""
    rng = random.Random(7)
    pattern = find_pattern(name, prepared=True)
    found = 0
    for trial in range(60):
        text = long_text(trial, rng.randint(3, 12))
        if trial % 3 == 0:
            text = text.translate({32: None, 10: None})  # so that few or no borders are between ASCII characters
        data = bytearray(text.encode())
        if trial % 5 == 0:
            for _ in range(3):
                data[rng.randrange(len(data))] = rng.choice(b"\x80\xc3\xe2\xf5\xff")
        held = bytes(data)[rng.randrange(4) :][: rng.randint(len(data) // 2, len(data))]
        border = find_border(held, pattern)
        if not border:
            continue
        found += 1

        def split(part: bytes) -> list[str]:
            ready = prepare(part.decode("utf-8", policy).encode(), "nfc", "drop")[0]
            return split_text(pattern, ready.decode())

        left, right = bytes(data[: len(data) - len(held)]) + held[:border], held[border:]
        assert split(left) + split(right) == split(left + right), (trial, border)
    assert found > 30


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


@pytest.mark.every(6)
@pytest.mark.parametrize("spaces", [True, False])
@pytest.mark.parametrize(("normalize", "unencodable"), [("none", "bytes"), ("nfc", "drop"), ("nfc", "bytes")])
def test_counts_of_a_document_read_in_blocks(tmp_path, monkeypatch, normalize, unencodable, spaces):
    """A document cut into some 40 blocks has the chunks, and the sequence of them, that it has whole."""
    text = long_text(11, 1500)
    if not spaces:
        text = text.translate({32: None, 10: None, 13: None, 9: None})
    (tmp_path / "a.txt").write_bytes(text.encode())
    run = tmp_path / "run"
    options = {"pattern": "script", "normalize": normalize, "unencodable": unencodable}
    small_blocks(monkeypatch, 4096)
    result = count(run, [str(tmp_path / "a.txt")], sequences=True, **options, resources=SMALL)
    ready, dropped = prepare(text.encode(), normalize, unencodable)
    chunks = split_by_rules(ready.decode())
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
    """--unencodable error names character and source, keeps what is committed, and says what else to do."""
    (tmp_path / "a.txt").write_text("fine")
    (tmp_path / "b.txt").write_text("not\ue000fine")
    with pytest.raises(SourceError, match=r"b\.txt: U\+E000 is not in the SCRIPT table.*--unencodable bytes or drop"):
        count(tmp_path / "run", [str(tmp_path / "b.txt")], pattern="script", unencodable="error")
    count(tmp_path / "run", [str(tmp_path / "a.txt")], pattern="script")
    assert rows(tmp_path / "run", "FROM chunk_counts") == [("fine", 1)]
    with pytest.raises(RunMismatch, match="--unencodable error, not drop"):
        count(tmp_path / "run", [str(tmp_path / "a.txt")], unencodable="drop")


@pytest.mark.long
def test_a_training_names_the_tables_its_splits_follow(tmp_path):
    """A vocabulary learned under --pattern script says Unicode 16.0.0, whatever `regex` is installed."""
    (tmp_path / "a.txt").write_text("the cat and the hat, the bat " * 9)
    arguments = ["--pattern", "script", "--normalize", "nfc", "--vocab-size", "262"]
    cli("train", tmp_path / "run", tmp_path / "a.txt", *arguments)
    header = json.loads((tmp_path / "run" / "model.events.jsonl").read_text().splitlines()[0])
    assert header["unicode"] == "16.0.0"
    assert header["config"]["normalize"] == "nfc"
    assert header["events"]["count"] == 6


def test_nfc_without_its_tables_is_refused_before_anything_is_written(tmp_path):
    """Where unicodedata2 has no wheel, all else works; --normalize nfc says what to install, and so does a model."""
    without = (
        "import sys, unicodedata; sys.modules['unicodedata2'] = None; unicodedata.unidata_version = '15.0.0'; "
        "from streambpe.__main__ import main; main()"
    )

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", without, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)

    text = written(tmp_path / "a.txt", "Re\u0301sume\u0301 of the the \ue000 the\n" * 20)
    counted = run("count", tmp_path / "run", text, "--unencodable", "drop")
    assert (counted.returncode, (tmp_path / "run").exists()) == (0, True), counted.stderr
    cli("train", tmp_path / "nfc", text, "-s", 260, "--normalize", "nfc")
    for words in (
        ("count", tmp_path / "new", text, "--normalize", "nfc"),
        ("train", tmp_path / "new", text, "--normalize", "nfc", "-s", 260),
        ("encode", tmp_path / "nfc", text, "-o", tmp_path / "new"),
    ):
        done = run(*words)
        assert (done.returncode, (tmp_path / "new").exists()) == (1, False)
        assert "`pip install unicodedata2==16.0.0`" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("per_text", [1, 7, 70_000])
def test_every_character_of_unicode_comes_back(per_text):
    """decode(encode(x)) == x for every Unicode scalar value, alone and among others, under `bytes`."""
    characters = "".join(every_character())
    texts = [characters[i : i + per_text] for i in range(0, len(characters), per_text)]
    symbols, sizes = codec_of(script_alphabet(), "error").split_many(*as_buffers(pl.Series(texts)))
    offsets = np.cumsum([0, *sizes])
    assert symbols.min() == 1
    assert symbols.max() < FIRST_ESCAPE + 256
    assert decode_symbols(symbols.tolist(), "strict") == "".join(texts)
    for i in range(0, len(texts), max(1, len(texts) // 300)):
        assert decode_symbols(symbols[offsets[i] : offsets[i + 1]].tolist(), "strict") == texts[i]
