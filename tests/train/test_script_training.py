"""Learning over SCRIPT symbols and with whole characters, from text to ids and back."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.encode.corpus import encode_corpus
from streambpe.encode.formats.export import export
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, UnknownSymbol
from streambpe.inspect.explain import explain
from streambpe.model.alphabet import Alphabet, gpt2_alphabet, script_alphabet
from streambpe.model.eventlog import EventLog, Header, merge_event, write_event_log
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS, decode_symbols
from streambpe.text.patterns import PRESETS
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests import oracles
from tests.oracles.replay import decode_bytes, encode_chunks, to_model_ids
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.runs import SMALL, cli, log_of, rows
from tests.samples import written
from tests.script_samples import long_text
from tests.tiers import examples, long

ENCODINGS = ["bytes", "script"]
TEXT = long_text(3, 1500)

# what may come between two tokens of any kind
_any_text = st.text(max_size=30) | st.text("ab é東\n\u0301\ue000\ue001\U000f0000中文กاא", max_size=40)


def slow_rule(alphabet: Alphabet) -> oracles.words.TokenTest:
    """The reference's own test of two tokens."""
    if alphabet.kind != "script":
        return oracles.whole_characters_bytes
    return oracles.whole_characters_script(INDEX_SYMBOLS, FIRST_ESCAPE)


# From text to ids, by the trainer


@cache
def model(encoding: str) -> Tokenizer:
    """A small model of the sample text."""
    with TemporaryDirectory() as folder:
        source = written(Path(folder) / "text.txt", TEXT)
        result = train(
            Path(folder) / "run", [str(source)], counting={"options": {"pattern": "script"}}, resources=SMALL,
            encoding=encoding, whole_characters=True, vocab_size=3000 if encoding == "script" else 1100,
            special=("<|end|>",), stop_list=3,
        )  # fmt: skip
        assert check(Path(folder) / "run", resources=SMALL) == []
        assert result.reached
        return Tokenizer(log_of(Path(folder) / "run"))


@pytest.mark.parametrize(("encoding", "pattern"), [("script", "script"), long("bytes", "gpt4o")])
def test_a_training_equals_the_reference(tmp_path, encoding, pattern):
    """From a file of 25 scripts: the events, stop words aside, are the reference's on the same chunks."""
    source = written(tmp_path / "text.txt", TEXT[:30_000])
    alphabet = script_alphabet() if encoding == "script" else gpt2_alphabet()
    train(
        tmp_path / "run", [str(source)], counting={"options": {"pattern": pattern}}, resources=SMALL,
        encoding=encoding, whole_characters=True, vocab_size=len(alphabet) + 250,
    )  # fmt: skip
    chunks = Counter(chunk.encode() for chunk in split_text(PRESETS[pattern], TEXT[:30_000]))
    training = oracles.train_words(chunks, alphabet, len(alphabet) + 250, may_merge=slow_rule(alphabet))
    log = log_of(tmp_path / "run")
    assert log.events == tuple(training.events)
    for event in training.events if encoding == "bytes" else ():
        content = training.vocabulary[event.id].content
        assert content.decode(errors="ignore").encode() in (content, b""), "whole characters, or a part of one"
        assert content[0] < 0x80 or content[0] >= 0xC2, "a part has the first bytes"
    assert log.header.config["whole_characters"] is True
    assert log.header.config["encoding"] == encoding
    assert check(tmp_path / "run", resources=SMALL) == []


@pytest.mark.long
@pytest.mark.parametrize("encoding", ENCODINGS)
@examples(40)
@given(texts=st.lists(_any_text, min_size=1, max_size=3), size=st.integers(1, 9))
def test_what_is_encoded_comes_back(encoding, texts, size):
    """decode(encode(x)) == x; the stream of text, the stream of ids and the definition agree."""
    tokenizer = model(encoding)
    encoder = tokenizer.encoder
    for text in texts:
        ids = tokenizer.encode_ordinary(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids, errors="strict") == text
        assert tokenizer.decode_bytes(ids) == text.encode() == decode_bytes(encoder.model, ids)
        assert "".join(tokenizer.decode_stream(ids)) == text
        assert list(tokenizer.encode_stream([text[i : i + size] for i in range(0, len(text), size)])) == ids
        chunks = encoder.split(text)
        assert to_model_ids(encoder.model, encode_chunks(encoder.model, [chunk.encode() for chunk in chunks])) == ids
        found, offsets = tokenizer.decode_with_offsets(ids)
        assert found == text
        if encoding == "script":
            byte_offsets = tokenizer.decode_with_offsets(ids, unit="bytes")[1]
            assert byte_offsets == [len(text[:at].encode()) for at in offsets]


@pytest.mark.long
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_all_of_unicode_comes_back(encoding, tmp_path):
    """Every code point but surrogates, 50 to a text: there and back as single texts and as a corpus."""
    tokenizer = model(encoding)
    points = [*range(0xD800), *range(0xE000, 0x110000)]
    random.Random(1).shuffle(points)  # so that texts mix scripts
    texts = ["".join(map(chr, points[i : i + 50])) for i in range(0, len(points), 50)]
    assert sum(map(len, texts)) == 0x110000 - 0x800
    batch = tokenizer.encode_ordinary_batch(texts)
    for ids, text in zip(batch, texts, strict=True):
        assert tokenizer.decode(ids) == text
    pl.DataFrame({"text": texts[::40]}).write_parquet(tmp_path / "sample.parquet")
    encode_corpus(tokenizer, [str(tmp_path / "sample.parquet")], tmp_path / "out.npy", resources=SMALL)
    assert np.load(tmp_path / "out.npy").tolist() == [number for ids in batch[::40] for number in ids]


def test_offsets_inside_characters():
    """A token that begins inside a character counts from that character; specials and stop words stand in between."""
    header = Header(script_alphabet().to_header(), {"pattern": "script"})
    tokenizer = Tokenizer(EventLog(header, ()))
    ids = tokenizer.encode("aé\ue000中")
    assert len(ids) == 2 + 2 + 3 + 2
    assert tokenizer.decode_with_offsets(ids) == ("aé\ue000中", [0, 0, 1, 1, 2, 2, 2, 3, 3])
    assert tokenizer.decode_with_offsets(ids, unit="bytes")[1] == [0, 0, 1, 1, 3, 3, 3, 6, 6]
    with pytest.raises(ValueError, match="does not begin a character"):
        tokenizer.decode_with_offsets(ids[1:])


@examples(150)
@given(
    st.lists(st.sampled_from([34, 35, 95, 1550, 1454, 848, 1917 + 0xEE, 1917 + 0x80, 1917 + 0xC3, 1917 + 0xA9, 2173]))
)
def test_any_ids_decode_alike_in_a_stream(ids):
    """Symbols in any order: the stream gives what the whole gives, and holds nothing back for good."""
    header = Header(script_alphabet().to_header(), {"pattern": "script"})
    tokenizer = Tokenizer(EventLog(header, (merge_event(1550, 34, 2173, 1),)))
    whole = tokenizer.decode(ids)
    assert "".join(tokenizer.decode_stream(ids)) == whole
    flat = [symbol for number in ids for symbol in ((1550, 34) if number == 2173 else (number,))]
    assert whole == decode_symbols(flat)


@pytest.mark.long
def test_facts_of_half_characters():
    """A symbol alone has no bytes: U+FFFD where bytes are asked for, its name for people, and no text finds it."""
    tokenizer = model("script")
    assert tokenizer.decode_single_token_bytes(34) == "\ufffd".encode()
    assert len(tokenizer.token_byte_values()) == tokenizer.n_vocab - 1
    assert tokenizer.decode([tokenizer.encode_single_token("a")]) == "a"
    with pytest.raises(KeyError):
        tokenizer.encode_single_token("\ufffd")
    with pytest.raises(ValueError, match="does not begin a character"):
        tokenizer.decode([34], errors="strict")
    with pytest.raises(KeyError, match="does not exist"):
        tokenizer.decode([34, 10**6])
    assert "<Latin LM 0>" in str(explain(tokenizer, "Hxq", token=False).rows)
    assert explain(tokenizer, "a").about.startswith('"a": id ')
    assert tokenizer.decode([34, tokenizer.special_tokens["<|end|>"], 34]) == "\ufffd<|end|>\ufffd"


# Options


def test_like_script_prepares_text(tmp_path):
    """--like script: ids from 1, NFC, dropped characters counted and named; the encoder prepares text the same way."""
    source = written(tmp_path / "text.txt", "e\u0301te\u0301 \ue000\ue001 cafe\u0301 " * 20)
    done = cli("train", tmp_path / "run", source, "--like", "script", "--pattern", "script", "--vocab-size", 1930)
    assert "dropped: 40 characters outside the SCRIPT table" in done.stderr
    log = log_of(tmp_path / "run")
    assert log.header.alphabet["size"] == FIRST_ESCAPE - 1
    assert log.events[0].id == FIRST_ESCAPE
    config = log.header.config
    assert (config["encoding"], config["normalize"], config["unencodable"]) == ("script", "nfc", "drop")
    tokenizer = Tokenizer(log)
    assert tokenizer.decode(tokenizer.encode("cafe\u0301\ue000s")) == "cafés"
    assert list(tokenizer.encode_stream(["cafe", "\u0301\ue000", "s"])) == tokenizer.encode("cafés")
    out = tmp_path / "out.npy"
    done = cli("encode", tmp_path / "run", source, "-o", out)
    assert "left out, as in training: 40 characters outside the SCRIPT table" in done.stderr
    assert tokenizer.decode(np.load(out).tolist()) == "été  café " * 20
    again = cli("train", tmp_path / "b", source, "--like", "script", "--encoding", "bytes", "--vocab-size", 280)
    assert "40 characters" in again.stderr
    assert log_of(tmp_path / "b").header.alphabet["first_id"] == 1
    assert log_of(tmp_path / "b").events[0].id == 257
    own = cli("train", tmp_path / "c", source, "--like", "script", "--normalize", "none", "--unencodable", "bytes",
              "--vocab-size", 2180)  # fmt: skip
    assert "dropped" not in own.stderr
    assert log_of(tmp_path / "c").events[0].id == FIRST_ESCAPE + 256


def test_unencodable_error_is_an_error_everywhere(tmp_path):
    """The first character outside the table ends the count, and a model counted so refuses to encode one."""
    source = written(tmp_path / "text.txt", "plain text, plain text")
    counting = {"options": {"pattern": "script", "unencodable": "error"}}
    train(tmp_path / "run", [str(source)], counting=counting, resources=SMALL, encoding="script", vocab_size=1925)
    tokenizer = Tokenizer(log_of(tmp_path / "run"))
    assert tokenizer.decode(tokenizer.encode("plain é")) == "plain é"
    with pytest.raises(UnknownSymbol, match=r"U\+E000"):
        tokenizer.encode("plain \ue000")


@pytest.mark.long
def test_count_tables_follow_the_policy(tmp_path):
    """Chunks of a table are prepared as far as single chunks can be: drops are counted, an error is an error."""
    table = written(tmp_path / "counts.csv", "chunk,count\na\ue000b,3\nab,2\n\ue001,5\nxx,1\n")
    result = count(tmp_path / "run", [str(table)], counts=True, unencodable="drop", resources=SMALL)
    assert any("8 characters outside" in warning for warning in result.warnings)
    assert rows(tmp_path / "run", "SELECT chunk, n FROM chunk_counts ORDER BY chunk") == [("ab", 5), ("xx", 1)]
    train(tmp_path / "run", resources=SMALL, encoding="script", whole_characters=True, vocab_size=1919)
    assert check(tmp_path / "run", resources=SMALL) == []
    done = cli("count", tmp_path / "no", table, "--counts", "--unencodable", "error", expect=1)
    assert "U+E000" in done.stderr


@pytest.mark.long
def test_exports_say_what_they_cannot_hold(tmp_path):
    """Formats of other programs refuse SCRIPT symbols and rules."""
    for encoding, refused in (("script", "kind 'script'"), ("bytes", "--pattern script")):
        log = tmp_path / f"{encoding}.events.jsonl"
        write_event_log(log, model(encoding).event_log)
        for to in ("hf", "tiktoken", "boundless"):
            with pytest.raises(ModelError, match=refused):
                export(log, to, tmp_path / "out")
